package service

import (
	"context"

	"github.com/drover-io/drover/internal/domain"
)

// contextOperations are the operations of owners that make, change or end app contexts.
type contextOperations interface {
	Instantiate(ctx context.Context, owner domain.Key) (warnings []string, err error)
	Terminate(ctx context.Context, owner domain.Key) error
	Stop(ctx context.Context, owner domain.Key) error
	Update(ctx context.Context, owner domain.Key, how UpdateOptions) (revision int, warnings []string, err error)
}

// operationsOf are the operations of an owner: those of its noun's rule, or of the app contexts alone.
func (s *Service) operationsOf(owner domain.Key) contextOperations {
	if of := rules[domain.OwnerNoun(owner)].operations; of != nil {
		return of(s)
	}
	return s.operations
}

// Approve makes a group ready to be instantiated; the warnings say what of it will not hold, or is still missing.
func (s *Service) Approve(ctx context.Context, owner domain.Key) (warnings []string, err error) {
	return s.operations.Approve(ctx, owner)
}

// Instantiate starts a new app context; the warnings are about the plan.
func (s *Service) Instantiate(ctx context.Context, owner domain.Key) (warnings []string, err error) {
	return s.operationsOf(owner).Instantiate(ctx, owner)
}

// Terminate starts to delete what the last app context put into clusters.
func (s *Service) Terminate(ctx context.Context, owner domain.Key) error {
	return s.operationsOf(owner).Terminate(ctx, owner)
}

// Stop ends the running operation in order: what is done stays done.
func (s *Service) Stop(ctx context.Context, owner domain.Key) error {
	return s.operationsOf(owner).Stop(ctx, owner)
}

// Update brings an instance in line with what is described now. The revision is that of the instance then.
func (s *Service) Update(ctx context.Context, owner domain.Key, how UpdateOptions) (revision int, warnings []string, err error) {
	return s.operationsOf(owner).Update(ctx, owner, how)
}

// Rollback brings the instance of a group back to a revision, which becomes a new one.
func (s *Service) Rollback(ctx context.Context, group domain.Key, revision int) (warnings []string, err error) {
	return s.operations.Rollback(ctx, group, revision)
}

// Migrate hands the instance of a group over to a group of another version of the composite app.
func (s *Service) Migrate(ctx context.Context, group domain.Key, version, target string) (warnings []string, err error) {
	return s.operations.Migrate(ctx, group, version, target)
}
