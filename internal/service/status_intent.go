package service

import (
	"context"
	"fmt"

	"github.com/drover-io/drover/internal/domain"
)

// unknownApps says which apps of a status intent the composite app does not have. That is no mistake where they are yet to
// come.
func (s *Service) unknownApps(ctx context.Context, o domain.Object) (warnings []string, err error) {
	intent := o.(*domain.StatusIntent)
	compositeApp, _ := domain.CompositeApps.Above(intent.Parent)
	for i, app := range intent.Spec.Apps {
		if app == domain.Anything {
			continue
		}
		found, err := s.store.Exists(ctx, domain.Apps, compositeApp.Child(domain.Apps.Collection, app))
		if err != nil {
			return warnings, err
		}
		if !found {
			warnings = append(warnings, fmt.Sprintf("spec.apps[%d]: %s has no app %q now", i, describe(domain.CompositeApps, compositeApp), app))
		}
	}
	return warnings, nil
}
