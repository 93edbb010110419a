package service

import (
	"context"
	"strings"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
)

// noCycle keeps apps from waiting for one another. Two dependencies that are written at the same time see
// each other afterwards, and both may be refused.
func (s *Service) noCycle(ctx context.Context, c change) error {
	if c.to == nil {
		return nil
	}
	written := c.to.(*domain.AppDependency)
	app := written.Parent
	apps := domain.Key(strings.TrimSuffix(string(app), "/"+app.Name()))
	list, err := s.store.ListUnder(ctx, domain.AppDependencies, apps)
	if err != nil {
		return err
	}
	needs := map[string][]string{app.Name(): {written.Spec.App}}
	for _, o := range list {
		if d := o.(*domain.AppDependency); domain.KeyOf(d) != domain.KeyOf(written) {
			needs[d.Parent.Name()] = append(needs[d.Parent.Name()], d.Spec.App)
		}
	}
	if cycle := plan.Cycle(needs); cycle != nil {
		return fail.New(fail.Conflict, "app dependency %q would make apps wait for one another: %s",
			written.Name, strings.Join(cycle, " needs "))
	}
	return nil
}
