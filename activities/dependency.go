package activities

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/plan"
)

// loadNeeds reads which apps wait for which. They are checked when they are written, but two at a time may be.
func (l *Control) loadNeeds(ctx context.Context, w *wanted) error {
	apps := w.group.Parent.Child(domain.Apps.Collection)
	dependencies, err := list[*domain.AppDependency](l.Store.ListUnder(ctx, domain.AppDependencies, apps))
	if err != nil {
		return err
	}
	w.needs = map[string][]plan.Dependency{}
	names := map[string][]string{}
	for _, d := range dependencies {
		app := d.Parent.Name()
		if !slices.ContainsFunc(w.apps, func(a *domain.App) bool { return a.Name == d.Spec.App }) {
			missing := fail.New(fail.NotFound, "app dependency %q of app %q: app %q not found", d.Name, app, d.Spec.App)
			if err := w.absent(missing); err != nil {
				return err
			}
			continue
		}
		names[app] = append(names[app], d.Spec.App)
		w.needs[app] = append(w.needs[app], plan.Dependency{
			App: d.Spec.App, Ready: d.Ready(), Wait: time.Duration(d.Spec.Wait) * time.Second,
		})
	}
	if cycle := plan.Cycle(names); cycle != nil {
		return fail.New(fail.Conflict, "Cyclic Dependency between apps found in composite app: %s", strings.Join(cycle, " needs "))
	}
	all := 0
	for app, needs := range w.needs {
		w.needs[app] = longest(needs)
		all += len(w.needs[app])
	}
	if all > limits.Dependencies {
		_, name := domain.Cut(domain.CompositeApps, w.group.Parent)
		return fail.New(fail.Malformed, "composite app %q has %d app dependencies, and may have %d: an app need not name what those that it waits for wait for themselves",
			name, all, limits.Dependencies)
	}
	return nil
}

// longest are the dependencies of an app without those that are met whenever a longer one on the same app is. They are in order.
func longest(needs []plan.Dependency) []plan.Dependency {
	slices.SortFunc(needs, func(a, b plan.Dependency) int {
		return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.Wait, b.Wait), cmp.Compare(a.Until(), b.Until()))
	})
	kept, ready := needs[:0:0], map[string]bool{} // by app, whether one is kept that waits until it is Ready
	for _, n := range slices.Backward(needs) {
		if is, known := ready[n.App]; !known || n.Ready && !is {
			kept, ready[n.App] = append(kept, n), n.Ready
		}
	}
	slices.Reverse(kept)
	return kept
}
