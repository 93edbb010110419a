package service_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	rendering "github.com/drover-io/drover/internal/network"
)

const theCluster = domain.Key("cluster-providers/p/clusters/c")

func network(subnet string) *domain.Network {
	return &domain.Network{Identity: identity(theCluster), Metadata: domain.Metadata{Name: "net"}, Spec: domain.NetworkSpec{
		CNIType: "ovn4nfv", IPv4Subnets: []domain.Subnet{{Name: "s", Subnet: subnet}},
	}}
}

// withCluster is a fixture with a cluster.
func withCluster(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	for _, o := range []domain.Object{
		&domain.ClusterProvider{Metadata: domain.Metadata{Name: "p"}},
		&domain.Cluster{Identity: identity("cluster-providers/p"), Metadata: domain.Metadata{Name: "c"}},
	} {
		require.NoError(t, f.Create(t.Context(), o), domain.KeyOf(o))
	}
	return f
}

func (f *fixture) cluster(ctx context.Context) (*domain.Cluster, error) {
	o, err := f.store.Get(ctx, domain.ClustersNoun, theCluster)
	if err != nil {
		return nil, err
	}
	return o.(*domain.Cluster), nil
}

// applyNetworks records an apply, as an operation does, of a plan made of the cluster at a revision; 0 for the
// present one.
func (f *fixture) applyNetworks(ctx context.Context, revision int64) error {
	cluster, err := f.cluster(ctx)
	if err != nil {
		return err
	}
	if revision != 0 {
		cluster.Revision = revision
	}
	cluster.History.Append(domain.Applied, "1", 0, time.Unix(0, 0))
	return f.store.Store.Replace(ctx, cluster)
}

// writes are the three that a network can see; each returns whether it has happened.
var writes = map[string]struct {
	write    func(ctx context.Context, f *fixture) error
	happened func(t *testing.T, f *fixture) bool
}{
	"create": {
		write: func(ctx context.Context, f *fixture) error {
			o := network("10.2.0.0/24")
			o.Name = "new"
			return f.Create(ctx, o)
		},
		happened: func(t *testing.T, f *fixture) bool {
			o := network("")
			o.Name = "new"
			return f.exists(t, o)
		},
	},
	"replace": {
		write: func(ctx context.Context, f *fixture) error {
			_, err := f.Put(ctx, network("10.2.0.0/24"))
			return err
		},
		happened: func(t *testing.T, f *fixture) bool {
			o, err := f.Get(t.Context(), domain.Networks, theCluster+"/networks/net")
			require.NoError(t, err)
			return o.(*domain.Network).Spec.IPv4Subnets[0].Subnet == "10.2.0.0/24"
		},
	},
	"delete": {
		write: func(ctx context.Context, f *fixture) error {
			return f.Delete(ctx, domain.Networks, theCluster+"/networks/net")
		},
		happened: func(t *testing.T, f *fixture) bool { return !f.exists(t, network("")) },
	},
}

// An apply that is recorded right after the write is seen by the second look.
func TestWritesOfNetworksMeetAnApply(t *testing.T) {
	for name, c := range writes {
		t.Run(name, func(t *testing.T) {
			f := withCluster(t)
			require.NoError(t, f.Create(t.Context(), network("10.1.0.0/24")))
			f.store.after = func(ctx context.Context) error { return f.applyNetworks(ctx, 0) }
			err := c.write(t.Context(), f)
			require.Error(t, err)
			require.Contains(t, fail.TextOf(err), "must be terminated before")
			require.False(t, c.happened(t, f), "what was refused must not stay")
		})
	}
}

// An apply that both reads and is recorded between the write and the second look has the write in its plan.
func TestWritesOfNetworksComeBeforeAnApply(t *testing.T) {
	for name, c := range writes {
		t.Run(name, func(t *testing.T) {
			f := withCluster(t)
			require.NoError(t, f.Create(t.Context(), network("10.1.0.0/24")))
			f.store.after = func(ctx context.Context) error {
				networks, err := f.List(ctx, domain.Networks, theCluster)
				if err != nil {
					return err
				}
				var in rendering.Intents
				for _, o := range networks {
					in.Networks = append(in.Networks, o.(*domain.Network))
				}
				if f.instances.planned, err = rendering.Render(in); err != nil {
					return err
				}
				return f.applyNetworks(ctx, 0)
			}
			require.NoError(t, c.write(t.Context(), f))
			require.True(t, c.happened(t, f), "what is applied must stay")
		})
	}
}

// An apply that has read the networks before a write and is recorded after it would have a plan without it.
func TestAnApplyMeetsAWriteOfNetworks(t *testing.T) {
	for name, c := range writes {
		t.Run(name, func(t *testing.T) {
			f := withCluster(t)
			require.NoError(t, f.Create(t.Context(), network("10.1.0.0/24")))
			planned, err := f.cluster(t.Context())
			require.NoError(t, err)
			require.NoError(t, c.write(t.Context(), f))
			require.True(t, c.happened(t, f))
			err = f.applyNetworks(t.Context(), planned.Revision)
			require.True(t, fail.Is(err, fail.Conflict), "%v", err)
		})
	}
}

func TestDeletionOfAClusterMeetsAnApply(t *testing.T) {
	f := withCluster(t)
	f.store.before = func(ctx context.Context) error { return f.applyNetworks(ctx, 0) }
	err := f.Delete(t.Context(), domain.ClustersNoun, theCluster)
	require.True(t, fail.Is(err, fail.Conflict), "%v", err)
	require.Contains(t, fail.TextOf(err), "Cluster network intents must be terminated before it can be deleted")
	cluster, err := f.cluster(t.Context())
	require.NoError(t, err)
	require.Equal(t, domain.Applied, cluster.History.State())
}
