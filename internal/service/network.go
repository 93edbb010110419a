package service

import (
	"bytes"
	"context"
	"slices"

	"github.com/drover-io/drover/internal/cas"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/network"
	"github.com/drover-io/drover/internal/plan"
)

// mayChangeNetworks refuses changes of a cluster's network intents while they are, or may be, in the cluster.
func (s *Service) mayChangeNetworks(ctx context.Context, c change) error {
	_, err := s.clusterOf(ctx, c)
	return err
}

// changedNetworks looks again after the write, and counts the cluster's revision up: an apply that has read the
// intents before the write finds that its plan is out of date, and one that comes later reads them as they are.
// Without that an apply could be recorded after the look with a plan that lacks the write.
func (s *Service) changedNetworks(ctx context.Context, c change) error {
	return cas.Do(ctx, func() error {
		cluster, err := s.clusterOf(ctx, c)
		switch {
		case cluster == nil:
			return err
		case err != nil: // of an apply that both reads and records between write and look, the write is a part
			first, unknown := s.cameFirst(ctx, cluster, c)
			if first || unknown != nil {
				return unknown
			}
			return err
		}
		return cas.Overtaken(s.store.Replace(ctx, cluster))
	})
}

// cameFirst says whether a write of an intent was there when the intents were read that the cluster's context applies.
func (s *Service) cameFirst(ctx context.Context, cluster *domain.Cluster, c change) (bool, error) {
	planned, err := s.instances.Planned(ctx, cluster.History.ContextID())
	if err != nil || planned == nil {
		return false, err
	}
	var in network.Intents
	switch o := c.object().(type) {
	case *domain.Network:
		in.Networks = append(in.Networks, o)
	case *domain.ProviderNetwork:
		in.ProviderNetworks = append(in.ProviderNetworks, o)
	}
	rendered, err := network.Render(in)
	if err != nil {
		return false, err
	}
	intent := rendered.Resources[0]
	i := slices.IndexFunc(planned.Resources, func(r plan.Resource) bool { return r.ResourceID == intent.ResourceID })
	if c.to == nil {
		return i < 0, nil
	}
	return i >= 0 && bytes.Equal(planned.Resources[i].Manifest, intent.Manifest), nil
}

// clusterOf reads the cluster of an intent, if it may be changed.
func (s *Service) clusterOf(ctx context.Context, c change) (*domain.Cluster, error) {
	intent := c.object()
	o, err := s.store.Get(ctx, domain.ClustersNoun, intent.Base().Parent)
	if err != nil {
		return nil, err
	}
	owner, err := s.instances.Repair(ctx, o.(*domain.Cluster))
	if err != nil {
		return nil, err
	}
	cluster := owner.(*domain.Cluster)
	return cluster, cluster.MayChange(intent.Noun(), c.to == nil)
}
