package plan

import (
	"slices"

	"github.com/drover-io/drover/internal/domain"
)

// Trim is the plan without what has gone: clusters that an app has left, apps that have left all of their clusters, and
// resources that are in no cluster any more. The marks say what is left of an app on a cluster. A resource that stays keeps its
// index in the bundle. Trim returns p itself when nothing has gone.
func (p *Plan) Trim(marks func(app *App, t *Target) domain.Marks) *Plan {
	out := *p
	out.Apps = nil
	trimmed := false
	for i := range p.Apps {
		app := p.Apps[i]
		rest := app.Pruned == 0
		app.Targets = slices.DeleteFunc(slices.Clone(app.Targets), func(t Target) bool {
			m := marks(&p.Apps[i], &t)
			there := m.Has(func(x domain.Mark) bool { return x != domain.MarkGone })
			if first := app.Wanted(); first < len(m) {
				rest = rest || m[first:].Has(func(x domain.Mark) bool { return x != domain.MarkGone })
			}
			return t.Leaving && !there
		})
		if !rest {
			app.Resources, app.Pruned = app.Resources[:app.Wanted()], 0
			trimmed = true
		}
		if trimmed = trimmed || len(app.Targets) < len(p.Apps[i].Targets); len(app.Targets) > 0 {
			out.Apps = append(out.Apps, app)
		}
	}
	if !trimmed {
		return p
	}
	return &out
}

// Wanted is what the plan wants, without what it prunes: another context can be made of it again. The bundles of side
// are cut to the apps' wanted resources; digests of those that change are left to the caller.
func Wanted(s Side) Side {
	p := *s.Plan
	p.Apps = nil
	out := Side{Plan: &p, Bundles: map[string]*Bundle{}, Overlays: s.Overlays}
	for _, app := range s.Plan.Apps {
		app.Targets = slices.DeleteFunc(slices.Clone(app.Targets), func(t Target) bool { return t.Leaving })
		if len(app.Targets) == 0 {
			continue
		}
		for i := range app.Targets {
			app.Targets[i].Inherited, app.Targets[i].Installs = nil, false
		}
		bundle := *s.Bundles[app.Name]
		app.Begin()
		app.Resources = app.Resources[:app.Wanted()]
		app.Pruned = 0
		if len(bundle.Resources) > len(app.Resources) {
			bundle.Resources = bundle.Resources[:len(app.Resources):len(app.Resources)]
			app.Bundle = ""
		}
		out.Bundles[app.Name] = &bundle
		p.Apps = append(p.Apps, app)
	}
	return out
}
