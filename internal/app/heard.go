package app

import (
	"context"
	"iter"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/store"
)

// heard is the store as service.Heard.
type heard struct{ *store.Store }

// Observations implements service.Heard.
func (h heard) Observations(ctx context.Context, contextID, app string, clusters []domain.ClusterName) iter.Seq2[service.Observation, error] {
	return func(yield func(service.Observation, error) bool) {
		for o, err := range h.Store.Observations(ctx, contextID, app, clusters) {
			if err != nil {
				yield(service.Observation{}, err)
				return
			}
			if !yield(service.Observation{Observation: &o.Observation, Object: o.Object}, nil) {
				return
			}
		}
	}
}
