package service

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/fail"
)

// yard has clusters beside the group of a shelf.
type yard struct {
	shelf
	intends bool // the clusters have network intents
	deleted bool // the group is
}

func (y yard) Get(ctx context.Context, noun *domain.Noun, key domain.Key) (domain.Object, error) {
	switch {
	case noun == domain.ClustersNoun:
		return &domain.Cluster{
			Identity: domain.Identity{Parent: "cluster-providers/p"}, Metadata: domain.Metadata{Name: key.Name()},
			History: domain.NewHistory(time.Unix(0, 0)), Tried: domain.Trial{At: time.Unix(1, 0), Error: "nobody answers"},
		}, nil
	case y.deleted:
		return nil, fail.New(fail.NotFound, "it is gone")
	default:
		return y.shelf.Get(ctx, noun, key)
	}
}

func (y yard) FirstUnder(_ context.Context, noun *domain.Noun, _ domain.Key) (domain.Key, bool, error) {
	return "", y.intends && noun == domain.ProviderNetworks, nil
}

// atWork has the group's context among those that may have something in clusters.
type atWork struct{ written }

func (w *atWork) ActiveInstances(ctx context.Context) ([]*domain.Instance, error) {
	i, err := w.Instance(ctx, "1")
	return []*domain.Instance{i}, err
}

// TestExplainCluster: of a group on two clusters, each tells what the group has there and what hangs.
func TestExplainCluster(t *testing.T) {
	engine := &away{running: true, described: explain.Run{Operation: domain.OpInstantiate, Status: explain.Running, ID: "run"}}
	records := &atWork{written{statuses: []domain.ContextStatus{domain.ContextInstantiating}}}
	y := yard{}
	of := func(cluster string) (*explain.Explanation, *explain.Cluster) {
		t.Helper()
		var asked [][]domain.ClusterName
		l := NewLifecycle(y, records, said{asked: &asked}, engine, func() time.Time { return time.Unix(100, 0) })
		explainer := NewExplainer(l, engine, explain.WebUI{})
		key := cluster0(cluster).Key()
		x, err := explainer.Explain(t.Context(), key)
		require.NoError(t, err)
		c, err := explainer.Cluster(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, cluster0(cluster).String(), c.Name)
		require.Len(t, x.Cluster.Deployments, len(c.Deployments))
		for _, clusters := range asked {
			require.Equal(t, []domain.ClusterName{cluster0(cluster)}, clusters, "what others say of its groups is not read")
		}
		return x, c
	}

	x, c := of("c1")
	require.False(t, x.AsWished)
	require.Equal(t, "1 of 1 deployment here is not as wished: deployment intent group dig: not as wished yet, instantiate goes on (0 of 1 cluster done): 1 cluster does not let the work through; it is tried again until it does", x.Summary)
	require.Len(t, x.Reasons, 2, "%+v", x.Reasons)
	r := x.Reasons[0]
	require.Equal(t, explain.ClusterHoldsUp, r.Kind)
	require.Equal(t, "connection refused", r.Error)
	require.Equal(t, 7, r.Examples[0].Attempt)
	require.Contains(t, r.Do, "POST /v2/"+string(explained)+"/stop")
	require.Equal(t, explain.ClusterUnreached, x.Reasons[1].Kind)
	require.Equal(t, "nobody answers", x.Reasons[1].Error)
	require.Equal(t, domain.ConnectivityRetrying, c.Connectivity)
	require.Len(t, c.Deployments, 1)
	d := c.Deployments[0]
	require.Equal(t, explained, d.Resource)
	require.Equal(t, domain.ContextInstantiating, d.Status)
	require.Equal(t, explain.ClusterHoldsUp, d.Reasons[0].Kind)
	require.Equal(t, "instantiate", string(d.Operation.Operation))
	require.Equal(t, []explain.AppThere{{
		App: "app", Resources: map[domain.ResourceState]int{domain.ResourceRetrying: 1}, Connectivity: domain.ConnectivityRetrying,
		InProgress: true, Error: "connection refused",
	}}, d.Apps)

	x, c = of("c0")
	require.True(t, x.AsWished, "%+v", x.Reasons)
	require.Equal(t, "everything is as wished: 1 deployment here", x.Summary)
	require.Equal(t, "what instantiate has to do here is done", c.Deployments[0].Summary)
	require.Equal(t, domain.ConnectivityAvailable, c.Connectivity, "work got through since it was tried")

	x, c = of("c9")
	require.Equal(t, "nothing runs here, and it could not be reached when its registration was tried, 1m39s ago", x.Summary)
	require.Empty(t, c.Deployments)
	y.intends = true
	_, c = of("c9")
	require.Equal(t, "network intents", c.Deployments[0].Title)
	require.Equal(t, explain.NotAsked, c.Deployments[0].Reasons[0].Kind)

	y.intends, y.deleted = false, true
	_, c = of("c1")
	require.Empty(t, c.Deployments, "its owner was deleted meanwhile")
}
