package activities

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
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
	for _, needs := range w.needs {
		slices.SortFunc(needs, func(a, b plan.Dependency) int { return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.Wait, b.Wait)) })
	}
	return nil
}
