package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	temporalclient "go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/test/harness"
)

// postedAtOnce is how many groups are asked for at a time.
const postedAtOnce = 16

// releases measures 1,000 groups of one app on one real cluster, or fewer on a slow machine, over as many bare workflows and what a bare
// client-go loop takes for as many resources.
func releases(ctx context.Context, t *trial) {
	t.Helper()
	n := few(1000, 200, t.part)
	if quick() {
		n = 60
	}
	a := applyingTo(ctx, t, harness.NewStack(t))
	b := startBare(t, a.Stack)
	base := &client.Deployment{API: a.Client.API(), Project: "releases", LogicalCloud: "admin", Clusters: []domain.ClusterName{a.cluster}}
	require.NoError(t, base.API.Run(ctx, base.CloudSteps(), nil))
	groups := make([]*client.Deployment, n)
	chart, profile := harness.Chart(t, "app0", harness.ConfigMaps("app0", scaleResources)), harness.Profile(t)
	inTurns(ctx, t, n, func(ctx context.Context, i int) error {
		d := *base
		d.CompositeApp, d.Version, d.Profile = fmt.Sprint("release", i), "v1", "profile"
		d.Group, d.Release = d.CompositeApp, d.CompositeApp
		d.Apps = []client.App{{Name: "app0", Chart: chart, Profile: profile, Intent: harness.All(a.cluster)}}
		groups[i] = &d
		if err := d.API.Run(ctx, d.GroupSteps(), nil); err != nil {
			return err
		}
		for { // approvals of a project wait for each other, and are refused where the machine is slow
			err := d.Do(ctx, "approve")
			var e *fail.Error
			if !errors.As(err, &e) || e.RetryAfter == 0 {
				return err
			}
			if err := pause.For(ctx, e.RetryAfter); err != nil {
				return err
			}
		}
	})
	roots := func(name string, args ...any) time.Duration {
		began := time.Now()
		runs := make([]temporalclient.WorkflowRun, n)
		inTurns(ctx, t, n, func(ctx context.Context, i int) (err error) {
			runs[i], err = b.client.ExecuteWorkflow(ctx, temporalclient.StartWorkflowOptions{ID: fmt.Sprint(name, "-", i), TaskQueue: bareQueue}, name, args...)
			return err
		})
		for _, run := range runs {
			require.NoError(t, run.Get(ctx, nil))
		}
		return time.Since(began)
	}
	what := fmt.Sprintf("%d groups of one app of %d resources on one real cluster, from the first POST to the last Instantiated", n, scaleResources)
	var bare, trees, loop, accepted, took time.Duration
	spent := map[string]time.Duration{}
	of := map[string]*harness.Process{"worker": a.Worker, "temporal": a.Temporal, "database": a.Database, "api": a.API}
	t.finally(func() (figures []figure) {
		if took > 0 {
			figures = append(figures,
				most("releases_1000_s_over_bare", what+", over as many bare root workflows and the bare client-go loop of the same applies", "ratio", took.Seconds()/(bare+loop).Seconds(), 2),
				values("releases_1000_s_over_trees", what+", over as many bare trees and the loop", "ratio", []float64{took.Seconds() / (trees + loop).Seconds()}),
				values("releases_1000_trees_over_bare", "as many bare trees of a root, an app and a leaf, and the loop, over as many bare root workflows and the loop", "ratio",
					[]float64{(trees + loop).Seconds() / (bare + loop).Seconds()}))
			for _, name := range slices.Sorted(maps.Keys(of)) {
				figures = append(figures, values("releases_1000_cpu_"+name, what+": CPU time of "+name+" for each", "ms", []float64{millis(spent[name]) / float64(n)}))
			}
		}
		for _, f := range []struct {
			key, what string
			took      time.Duration
		}{
			{"releases_1000_s", what, took},
			{"releases_1000_accepted_s", what + ": until the last POST is answered", accepted},
			{"releases_1000_bare_s", "as many bare root workflows with a local activity", bare},
			{"releases_1000_trees_s", "as many bare trees of three workflows, of which the leaf has a local activity", trees},
			{"releases_1000_clientgo_s", "as many resources by a bare client-go loop", loop},
		} {
			if f.took > 0 {
				figures = append(figures, values(f.key, f.what, "s", []float64{f.took.Seconds()}))
			}
		}
		return figures
	})
	bare = roots("BareLeaf")
	trees = roots("BareTree", bareInput{Apps: 1, Leaves: 1, Window: 1, Leaf: "BareLeaf"})
	loop = a.byLoop(ctx, t, n*scaleResources, "releases")

	for name, p := range of {
		spent[name] = -p.Spent(t)
	}
	profiled := make(chan error, 1)
	go func() { profiled <- profileWhile(ctx, a.Stack, 8*time.Second) }()
	began := time.Now()
	inTurns(ctx, t, n, func(ctx context.Context, i int) error { return groups[i].Do(ctx, "instantiate") })
	accepted = time.Since(began)
	for _, d := range groups {
		got, err := d.Wait(ctx, 4*calm, func(s *status.Document) bool { return s.Status != domain.ContextInstantiating })
		require.NoError(t, err)
		require.Equal(t, domain.ContextInstantiated, got.Status)
	}
	all := time.Since(began)
	for name, p := range of {
		spent[name] += p.Spent(t)
	}
	took = all
	require.NoError(t, <-profiled)
	require.Equal(t, n*scaleResources, a.count(ctx, t, "emco/deployment-id"))
	require.NoError(t, a.api.Resource(configMaps).Namespace("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "emco/deployment-id"}))
}

// inTurns does something for each of n, some at a time.
func inTurns(ctx context.Context, t testing.TB, n int, do func(context.Context, int) error) {
	t.Helper()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(postedAtOnce)
	for i := range n {
		g.Go(func() error { return do(ctx, i) })
	}
	require.NoError(t, g.Wait())
}
