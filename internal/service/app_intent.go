package service

import (
	"context"

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
