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
	history func(*domain.History)
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
	case y.history != nil:
		g := &domain.DeploymentIntentGroup{History: domain.NewHistory(time.Unix(0, 0))}
		switch key {
		case explained:
			y.history(&g.History)
		case explained + "-other": // to which a migrate has given the instance
			g.History.Append(domain.Instantiated, "7", 1, time.Unix(2, 0))
		}
		return g, nil
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

// TestClustersTellOfWhatIsThere: the record of a context that its owner does not know, or has left, is none of what runs in a cluster, unless its
// operation goes on, or nobody can say so.
func TestClustersTellOfWhatIsThere(t *testing.T) {
	another := func(h *domain.History) { h.Append(domain.Instantiated, "2", 1, time.Unix(2, 0)) }
	update := func(h *domain.History) {
		h.Append(domain.Instantiated, "1", 1, time.Unix(1, 0))
		another(h)
	}
	migrate := func(h *domain.History) {
		h.Append(domain.Instantiated, "1", 1, time.Unix(1, 0))
		h.Leave("1", "7", 1, time.Unix(2, 0))
	}
	for name, c := range map[string]struct {
		history   func(*domain.History)
		successor domain.Key // whose record is there
		running   bool
		silent    error
		there     int
	}{
		"the last one":                        {there: 1},
		"of an earlier group of the name":     {history: another},
		"which is being made":                 {history: another, running: true, there: 1},
		"which may be being made":             {history: another, silent: fail.New(fail.Unavailable, "no engine"), there: 1},
		"another one has taken over":          {history: update, successor: explained},
		"another one that nobody knows":       {history: update, there: 1},
		"another group has taken over":        {history: migrate, successor: explained + "-other"},
		"another group is about to take over": {history: migrate, successor: explained + "-new", there: 1},
	} {
		t.Run(name, func(t *testing.T) {
			engine := &unsure{away{running: c.running, described: explain.Run{Operation: domain.OpInstantiate, Status: explain.Running, ID: "run"}}, c.silent}
			records := &takenOver{atWork{written{statuses: []domain.ContextStatus{domain.ContextInstantiating}}}, c.successor}
			l := NewLifecycle(yard{history: c.history}, records, said{}, engine, func() time.Time { return time.Unix(100, 0) })
			here, err := NewExplainer(l, engine, explain.WebUI{}).Cluster(t.Context(), cluster0("c1").Key())
			require.NoError(t, err)
			require.Len(t, here.Deployments, c.there)
		})
	}
}

// unsure is an engine that may not say whether something runs.
type unsure struct {
	away
	silent error
}

func (u *unsure) Running(context.Context, domain.Scope) (bool, error) { return u.running, u.silent }

// takenOver has the record of another context beside the group's, too, where that has an owner.
type takenOver struct {
	atWork
	owner domain.Key
}

func (r *takenOver) Instance(ctx context.Context, id string) (*domain.Instance, error) {
	switch {
	case id == "1":
		return r.atWork.Instance(ctx, id)
	case r.owner == "":
		return nil, fail.New(fail.NotFound, "no such context")
	default:
		return &domain.Instance{ContextID: id, Owner: r.owner, Operation: domain.OpInstantiate, Status: domain.ContextInstantiated}, nil
	}
}
