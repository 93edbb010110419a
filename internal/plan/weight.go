package plan

import "github.com/drover-io/drover/internal/domain"

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
