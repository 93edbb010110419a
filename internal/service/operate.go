package service

import (
	"context"

	"github.com/drover-io/drover/internal/domain"
)

// The operations of owners. Those of logical clouds have a part that is not of app contexts.

// Approve makes a group ready to be instantiated; the warnings say what of it will not hold, or is still missing.
func (s *Service) Approve(ctx context.Context, owner domain.Key) (warnings []string, err error) {
	return s.operations.Approve(ctx, owner)
}

// Instantiate starts a new app context; the warnings are about the plan.
func (s *Service) Instantiate(ctx context.Context, owner domain.Key) (warnings []string, err error) {
	if domain.OwnerNoun(owner) == domain.LogicalClouds {
		return s.instantiateCloud(ctx, owner)
	}
	return s.operations.Instantiate(ctx, owner)
}

// Terminate starts to delete what the last app context put into clusters.
func (s *Service) Terminate(ctx context.Context, owner domain.Key) error {
	if domain.OwnerNoun(owner) == domain.LogicalClouds {
		return s.terminateCloud(ctx, owner)
	}
	return s.operations.Terminate(ctx, owner)
}

// Stop ends the running operation in order: what is done stays done.
func (s *Service) Stop(ctx context.Context, owner domain.Key) error {
	if domain.OwnerNoun(owner) == domain.LogicalClouds {
		return s.stopCloud(ctx, owner)
	}
	return s.operations.Stop(ctx, owner)
}

// Update brings an instance in line with what is described now. The revision is that of the instance then.
func (s *Service) Update(ctx context.Context, owner domain.Key) (revision int, warnings []string, err error) {
	if domain.OwnerNoun(owner) == domain.LogicalClouds {
		return s.updateCloud(ctx, owner)
	}
	return s.operations.Update(ctx, owner)
}

// Rollback brings the instance of a group back to a revision, which becomes a new one.
func (s *Service) Rollback(ctx context.Context, group domain.Key, revision int) (warnings []string, err error) {
	return s.operations.Rollback(ctx, group, revision)
}

// Migrate hands the instance of a group over to a group of another version of the composite app.
func (s *Service) Migrate(ctx context.Context, group domain.Key, version, target string) (warnings []string, err error) {
	return s.operations.Migrate(ctx, group, version, target)
}
