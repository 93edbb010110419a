package plan

import "github.com/drover-io/drover/internal/domain"

// Done is what is installed once all that a side wants is in its clusters.
func (s Side) Done() *Installed {
	in := &Installed{Side: s, Leaves: map[string]domain.Leaf{}}
	for i := range s.Plan.Apps {
		app := &s.Plan.Apps[i]
		for j := range app.Targets {
			marks := app.Targets[j].Begin(len(app.Resources))
			for n := range marks {
				if marks[n] != domain.MarkGone {
					marks[n] = domain.MarkApplied
				}
			}
			in.Leaves[domain.LeafID(s.Plan.ContextID, app.Name, app.Targets[j].ClusterName)] = domain.Leaf{Marks: marks.Encode()}
		}
	}
	return in
}

// Rest is what is installed after a terminate that did not come to its end, as an instantiate sees it that takes over. What
// may still be there has the mark of domain.Mark.Renew, so that it is applied anew or pruned. So has what is kept: if the instantiate is
// stopped before it comes to that, the next terminate must not say that it is not there. Hooks that may be there are MarkSent, all else of the
// context is MarkPending, so that hooks count as not run. Rest is nil when nothing is there any more but what is kept.
func (in *Installed) Rest() *Installed {
	d := &differ{old: *in}
	rest := &Installed{Side: in.Side, Leaves: make(map[string]domain.Leaf, len(in.Leaves))}
	left := false
	for i := range in.Plan.Apps {
		app := &in.Plan.Apps[i]
		for j := range app.Targets {
			t := &app.Targets[j]
			marks := d.marks(app, *t)
			for n, m := range marks {
				switch {
				case m.MayBeThere() && !d.isHook(app, n):
					marks[n], left = m.Renew(), left || m.Ours() // not ours is what is to be kept
				case m.MayBeThere():
					marks[n], left = domain.MarkSent, left || m.Ours()
				case m != domain.MarkGone:
					marks[n] = domain.MarkPending
				}
			}
			leaf := domain.Leaf{Marks: marks.Encode()}
			leaf.Connectivity, leaf.Report = d.seen(app, t)
			rest.Leaves[domain.LeafID(in.Plan.ContextID, app.Name, t.ClusterName)] = leaf
		}
	}
	if !left {
		return nil
	}
	return rest
}
