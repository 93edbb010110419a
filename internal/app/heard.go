package app

import (
	"context"
	"iter"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/readiness"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/view"
)

// heard is the store as service.Heard, with the rules of users.
type heard struct {
	*store.Store
	*readiness.Book
}

// rulesIn are the rules of users that are in a store.
func rulesIn(s *store.Store) *readiness.Book {
	return readiness.NewBook(func(ctx context.Context) ([]readiness.Rule, error) {
		return service.ReadinessRules(ctx, s)
	}, time.Now)
}

// Observations implements service.Heard.
func (h heard) Observations(ctx context.Context, contextID, app string, clusters []domain.ClusterName) iter.Seq2[view.Report, error] {
	return func(yield func(view.Report, error) bool) {
		for o, err := range h.Store.Observations(ctx, contextID, app, clusters) {
			if err != nil {
				yield(view.Report{}, err)
				return
			}
			if !yield(view.Report{Observation: &o.Observation, Object: o.Object}, nil) {
				return
			}
		}
	}
}
