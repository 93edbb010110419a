package plan

import (
	"bytes"
	"encoding/json"

	"github.com/drover-io/drover/internal/domain"
)

// Weight is how many bytes a plan takes in memory, about: caches are bounded by it. What its targets have grows with the clusters.
func (p *Plan) Weight() (n int64) {
	const perApp, perResource, perTarget, perInherited, perEffect = 1 << 10, 192, 192, 128, 128
	for i := range p.Apps {
		a := &p.Apps[i]
		n += perApp + perResource*int64(len(a.Resources)) + perEffect*int64(len(a.Effects))
		for _, v := range a.Variants {
			n += perEffect * int64(1+len(v.Effects))
		}
		for c := range a.Targets {
			t := &a.Targets[c]
			n += perTarget + int64(len(t.Reason)) + domain.WeightOfTexts(t.Passed)
			if in := t.Inherited; in != nil {
				n += perInherited + int64(len(in.Marks)+len(in.Report)) + domain.WeightOfNotes(in.Warnings)
			}
		}
	}
	return n
}

// Bytes is how many bytes the manifests of a bundle have.
func (b *Bundle) Bytes() (n int64) {
	for i := range b.Resources {
		n += int64(len(b.Resources[i].Manifest))
	}
	return n
}

// Share has manifests that say the same as those of another bundle of the app be these, so that they are in memory once, and gives back how many bytes
// they have. The other one may be nil.
func (b *Bundle) Share(with *Bundle) (n int64) {
	if with == nil {
		return 0
	}
	known := make(map[ResourceID]json.RawMessage, len(with.Resources))
	for i := range with.Resources {
		known[with.Resources[i].ResourceID] = with.Resources[i].Manifest
	}
	for i := range b.Resources {
		r := &b.Resources[i]
		if same := known[r.ResourceID]; bytes.Equal(r.Manifest, same) {
			r.Manifest = same
			n += int64(len(same))
		}
	}
	return n
}

// Weight is how many bytes a footprint takes in memory, about.
func (f Footprint) Weight() int64 {
	const itself, perHash = 128, 8
	return itself + perHash*int64(cap(f))
}

// Weight is how many bytes definitions take in memory, about.
func (d *Definitions) Weight() int64 {
	const itself, perIndex, perKind = 128, 32, 192
	return itself + perIndex*int64(len(d.deleted)) + perKind*int64(len(d.kinds))
}
