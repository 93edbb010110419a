package plan

import (
	"hash/maphash"
	"slices"
)

// Footprint is what a plan has in clusters, as sorted hashes: two plans whose footprints do not meet do not
// Collide. It holds within one process.
type Footprint []uint64

var footprintSeed = maphash.MakeSeed()

// FootprintOf is the footprint of a plan.
func FootprintOf(p *Plan) Footprint {
	var f Footprint
	for i := range p.Apps {
		for _, r := range p.Apps[i].Resources {
			f = append(f, maphash.Comparable(footprintSeed, Place(r, p.Namespace)))
		}
	}
	slices.Sort(f)
	return slices.Compact(f)
}

// Meets says whether both have a hash.
func (f Footprint) Meets(other Footprint) bool {
	for i, j := 0, 0; i < len(f) && j < len(other); {
		switch {
		case f[i] < other[j]:
			i++
		case f[i] > other[j]:
			j++
		default:
			return true
		}
	}
	return false
}
