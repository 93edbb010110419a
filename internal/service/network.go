package service

import (
	"context"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// mayChangeNetworks refuses changes of a cluster's network intents while they are, or may be, in the cluster.
func (s *Service) mayChangeNetworks(ctx context.Context, c change) error {
	_, err := s.clusterOf(ctx, c)
	return err
}

// changedNetworks looks again after the write, and counts the cluster's revision up: an apply that has read the
// intents before the write finds that its plan is out of date, and one that comes later reads them as they are.
// Without that an apply could be recorded after the look with a plan that lacks the write. One that both reads and
// records between write and look may have the write in its plan although it is refused; a terminate takes it out.
func (s *Service) changedNetworks(ctx context.Context, c change) error {
	for {
		cluster, err := s.clusterOf(ctx, c)
		if err != nil {
			return err
		}
		if err := s.store.Replace(ctx, cluster); !fail.Is(err, fail.Conflict) || ctx.Err() != nil {
			return err
		}
	}
}

// clusterOf reads the cluster of an intent, if it may be changed.
func (s *Service) clusterOf(ctx context.Context, c change) (*domain.Cluster, error) {
	intent := c.object()
	o, err := s.store.Get(ctx, domain.ClustersNoun, intent.Base().Parent)
	if err != nil {
		return nil, err
	}
	cluster := o.(*domain.Cluster)
	return cluster, cluster.MayChange(intent.Noun(), c.to == nil)
}
