package service

import (
	"context"
	"fmt"

	"github.com/drover-io/drover/internal/domain"
)

func fillInterface(o domain.Object) { o.(*domain.InterfaceIntent).Fill() }

// unknownApp says that the composite app does not have the app of a workload intent. That is no mistake where it is yet to
// come.
func (s *Service) unknownApp(ctx context.Context, o domain.Object) (warnings []string, err error) {
	for _, ref := range o.(domain.Referrer).References() {
		found, err := s.store.Exists(ctx, ref.Noun, ref.Key)
		if err != nil {
			return warnings, err
		}
		if !found {
			compositeApp, app := domain.Cut(ref.Noun, ref.Key)
			warnings = append(warnings, fmt.Sprintf("%s: %s has no app %q now", ref.Field, describe(domain.CompositeApps, compositeApp), app))
		}
	}
	return warnings, nil
}
