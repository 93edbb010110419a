package service

import (
	"context"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// changeProfile leaves a profile that is replaced without an archive the one that it has.
func (s *Service) changeProfile(ctx context.Context, c change) error {
	if to, ok := c.to.(*domain.Profile); ok {
		if to.Stay { // by a try before, which another write has overtaken
			to.Archive, to.Stay = "", false
		}
		if from, ok := c.from.(*domain.Profile); ok && to.Archive == "" {
			to.Archive, to.Stay = from.Archive, true
		}
	}
	return s.oneProfilePerApp(ctx, c)
}

// remarkProfile says what of the archive that came with a profile does nothing.
func (s *Service) remarkProfile(_ context.Context, o domain.Object) ([]string, error) {
	return o.(*domain.Profile).Remarks, nil
}

// oneProfilePerApp keeps an app from having two profiles in a composite profile. Two that are created at
// the same time see each other afterwards, and both may be refused.
func (s *Service) oneProfilePerApp(ctx context.Context, c change) error {
	if c.to == nil {
		return nil
	}
	wanted := c.to.(*domain.Profile)
	list, err := s.store.List(ctx, domain.Profiles, wanted.Parent)
	if err != nil {
		return err
	}
	for _, o := range list {
		if p := o.(*domain.Profile); p.Spec.App == wanted.Spec.App && p.Name != wanted.Name {
			return fail.New(fail.Conflict, "App already has an AppProfile: app %q has profile %q", p.Spec.App, p.Name)
		}
	}
	return nil
}

// ProfileOf finds the profile of an app in a composite profile; NotFound when it has none.
func (s *Service) ProfileOf(ctx context.Context, compositeProfile domain.Key, app string) (*domain.Profile, error) {
	list, err := s.store.List(ctx, domain.Profiles, compositeProfile)
	if err != nil {
		return nil, err
	}
	for _, o := range list {
		if p := o.(*domain.Profile); p.Spec.App == app {
			return p, nil
		}
	}
	return nil, fail.New(fail.NotFound, "AppProfile not found: composite profile %q has no profile of app %q", compositeProfile.Name(), app)
}
