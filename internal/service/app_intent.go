package service

import (
	"context"
	"fmt"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// AppIntentOf finds the intent of an app below a generic placement intent; NotFound when it has none.
func (s *Service) AppIntentOf(ctx context.Context, placementIntent domain.Key, app string) (*domain.AppIntent, error) {
	list, err := s.store.List(ctx, domain.AppIntents, placementIntent)
	if err != nil {
		return nil, err
	}
	for _, o := range list {
		if i := o.(*domain.AppIntent); i.Spec.App == app {
			return i, nil
		}
	}
	return nil, fail.New(fail.NotFound, "AppIntent not found: generic placement intent %q has none of app %q", placementIntent.Name(), app)
}

// unlabelled says which labels of a placement no cluster carries. That is no mistake where clusters are yet to come.
func (s *Service) unlabelled(ctx context.Context, o domain.Object) (warnings []string, err error) {
	carried := map[string]map[string]bool{} // by provider
	for _, c := range o.(*domain.AppIntent).Selections() {
		if c.ClusterLabel == "" {
			continue
		}
		if carried[c.ClusterProvider] == nil {
			labels, err := s.store.ListUnder(ctx, domain.ClusterLabels, domain.Join(domain.ClusterProviders.Collection, c.ClusterProvider))
			if err != nil {
				return warnings, err
			}
			carried[c.ClusterProvider] = map[string]bool{}
			for _, l := range labels {
				carried[c.ClusterProvider][l.(*domain.ClusterLabel).Label] = true
			}
		}
		if !carried[c.ClusterProvider][c.ClusterLabel] {
			warnings = append(warnings, fmt.Sprintf("%s.clusterLabel: no cluster of provider %q carries the label %q now", c.Path, c.ClusterProvider, c.ClusterLabel))
		}
	}
	return warnings, nil
}
