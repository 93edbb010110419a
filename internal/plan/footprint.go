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
	return footprintOf(p, func(r ResourceID) (ResourceID, bool) { return Place(r, p.Namespace), true })
}

// footprintOf is made of the places of a plan's resources; those of which place says false are left out.
func footprintOf(p *Plan, place func(ResourceID) (ResourceID, bool)) Footprint {
	var f Footprint
	for i := range p.Apps {
		for _, r := range p.Apps[i].Resources {
			if at, ok := place(r); ok {
				f = append(f, maphash.Comparable(footprintSeed, at))
			}
		}
	}
	for i := range p.Held {
		if at, ok := place(p.Held[i].Resource); ok {
			f = append(f, maphash.Comparable(footprintSeed, at))
		}
	}
	slices.Sort(f)
	return slices.Compact(f)
}

// FootprintIn is the footprint of what a plan has of kinds to which its own CRDs give no namespace, as a plan has it whose resources are in
// another namespace: such a plan may not know of the kind but its name.
func FootprintIn(p *Plan, namespace string) Footprint {
	s := scopesOf(p)
	if len(s) == 0 {
		return nil
	}
	return footprintOf(p, func(r ResourceID) (ResourceID, bool) {
		has := s.has(r)
		r.Namespace = ""
		return Place(r, namespace), has
	})
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
