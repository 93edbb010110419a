package activities

import (
	"context"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/network"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/vary"
)

// planNetworks renders the network intents of a cluster, for that cluster alone. There need not be any.
func (l *Control) planNetworks(ctx context.Context, owner domain.Owner, d *draft) error {
	key, name := domain.KeyOf(owner), owner.(*domain.Cluster).ClusterName()
	var in network.Intents
	var err error
	if in.Networks, err = list[*domain.Network](l.Store.List(ctx, domain.Networks, key)); err != nil {
		return err
	}
	if in.ProviderNetworks, err = list[*domain.ProviderNetwork](l.Store.List(ctx, domain.ProviderNetworks, key)); err != nil {
		return err
	}
	if in.Pairs, err = list[*domain.ClusterKV](l.Store.List(ctx, domain.ClusterKVs, key)); err != nil {
		return err
	}
	bundle, err := network.Render(in)
	if err != nil {
		return err
	}
	d.plan.Namespace = network.Namespace
	return l.add(ctx, d, []plan.Target{{ClusterName: name}}, &vary.Varied{Bundle: bundle})
}
