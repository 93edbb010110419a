package test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/test/harness"
)

// depend makes an app of the deployment need another one.
func depend(ctx context.Context, d *client.Deployment, app, on, until string, wait int) error {
	_, err := d.API.Create(ctx, &domain.AppDependency{
		Identity: domain.Identity{Parent: domain.KeyOf(d.AppOf(app))}, Metadata: domain.Metadata{Name: on},
		Spec: domain.AppDependencySpec{App: on, OpStatus: until, Wait: wait},
	}, nil)
	return err
}

// created is when the only ConfigMap, or the Deployment, of an app came to a cluster, to the second.
func created(ctx context.Context, t *testing.T, c *harness.Cluster, d *client.Deployment, app string) time.Time {
	t.Helper()
	cm, err := c.Client(t).CoreV1().ConfigMaps("default").Get(ctx, d.Release+"-"+app+"-000", metav1.GetOptions{})
	if err == nil {
		return cm.CreationTimestamp.Time
	}
	dep, err := c.Client(t).AppsV1().Deployments("default").Get(ctx, d.Release+"-"+app, metav1.GetOptions{})
	require.NoError(t, err)
	return dep.CreationTimestamp.Time
}

func TestDependencies(t *testing.T) {
	t.Parallel()
	ctx, s, clusters := within(t), harness.NewStack(t), twoClusters(t)
	one := func(name string) client.App {
		return client.App{Name: name, Chart: harness.Chart(t, name, harness.ConfigMaps(name, 1))}
	}
	// The Deployment becomes ready on a cluster when a node there has the release's label.
	web := harness.Web("db")
	for name := range web {
		web[name] = strings.Replace(web[name], "containers:", "nodeSelector: {'{{ .Release.Name }}': runs}, containers:", 1)
	}
	db := client.App{Name: "db", Chart: harness.Chart(t, "db", web)}
	d := s.Deployment(ctx, clusters, one("front"), one("logic"), db)
	require.NoError(t, depend(ctx, d, "front", "logic", "deployed", 2))
	require.NoError(t, depend(ctx, d, "logic", "db", "READY", 0))
	err := depend(ctx, d, "db", "front", "Ready", 0)
	require.Equal(t, 409, code(t, err))
	require.ErrorContains(t, err, "db needs front needs logic needs db")
	// waits lets it become ready on the first cluster only, and waits until all but what waits for the other one is done.
	waits := func() {
		t.Helper()
		run(ctx, t, clusters[0], d, true)
		run(ctx, t, clusters[1], d, false)
		do(ctx, t, d, "instantiate")
		var why map[string]string
		var got *status.Document
		defer func() {
			if t.Failed() {
				t.Logf("it was %v, %v", why, got)
			}
		}()
		harness.Until(ctx, t, "waited for", func() bool {
			why = reasons(ctx, t, d)
			var err error
			got, err = d.Summary(ctx)
			require.NoError(t, err)
			return strings.Contains(why["logic"], "waits until app db is Ready: on "+d.Clusters[1].Provider+"+"+clusters[1].Name) &&
				strings.Contains(why["front"], "waits until app logic is Deployed") &&
				maps.Equal(got.Deployed, map[domain.ResourceState]int{"Applied": 4, "Pending": 4})
		})
	}

	do(ctx, t, d, "approve")
	waits()
	// On a busy machine an attempt of the step that waits may miss its heartbeats. That stays the gravest reason, though the
	// next attempt is at work.
	var x *explain.Explanation
	waiting := -1
	harness.Until(ctx, t, "explained", func() bool {
		x, _ = explanation(ctx, t, s, d)
		waiting = slices.IndexFunc(x.Reasons, func(r explain.Reason) bool { return r.Kind == explain.NotStarted })
		return waiting >= 0
	})
	require.Contains(t, x.Reasons[waiting].Text, "waits until app")
	run(ctx, t, clusters[1], d, true)
	got := s.Await(ctx, d, "Instantiated")
	require.Equal(t, map[domain.ResourceState]int{"Applied": 8}, got.Deployed)
	require.Empty(t, reasons(ctx, t, d))
	for _, c := range clusters {
		logic, front := created(ctx, t, c, d, "logic"), created(ctx, t, c, d, "front")
		require.GreaterOrEqual(t, logic, created(ctx, t, c, d, "db"))
		require.GreaterOrEqual(t, front.Sub(logic), time.Second, "2 s, seen in whole seconds")
	}
	do(ctx, t, d, "terminate")
	got = s.Await(ctx, d, "Terminated")
	holds(t, clusters, got, 0)

	// The same again, stopped while it waits, with a worker that died meanwhile.
	waits()
	s.Worker.Kill()
	s.StartWorker()
	asked := time.Now()
	stopAtLast(ctx, t, d)
	got = s.Await(ctx, d, "InstantiateFailed")
	t.Logf("stopped after %s", time.Since(asked).Round(time.Millisecond))
	require.Equal(t, map[domain.ResourceState]int{"Applied": 4, "Pending": 4}, got.Deployed)
	require.Equal(t, "not started: the operation was stopped while the app waited for others", reasons(ctx, t, d)["front"])
	do(ctx, t, d, "terminate")
	got = s.Await(ctx, d, "Terminated")
	require.Equal(t, map[domain.ResourceState]int{"Deleted": 8}, got.Deployed)

	// And terminated while it waits.
	waits()
	do(ctx, t, d, "terminate")
	got = s.Await(ctx, d, "Terminated")
	require.Equal(t, map[domain.ResourceState]int{"Deleted": 8}, got.Deployed)
	holds(t, clusters, got, 0)
}

// TestDependencyOnWhatFails does not start what needs it.
func TestDependencyOnWhatFails(t *testing.T) {
	t.Parallel()
	ctx, s, clusters := within(t), harness.SharedStack(t), twoClusters(t)
	bad := harness.ConfigMaps("bad", 1)
	bad["bad.yaml"] = "apiVersion: none.example.com/v1\nkind: Nothing\nmetadata: {name: nothing}\n"
	d := s.Deployment(ctx, clusters[:1], client.App{Name: "bad", Chart: harness.Chart(t, "bad", bad)},
		client.App{Name: "needy", Chart: harness.Chart(t, "needy", harness.ConfigMaps("needy", 1))})
	require.NoError(t, depend(ctx, d, "needy", "bad", "Deployed", 0))
	do(ctx, t, d, "approve", "instantiate")
	got := s.Await(ctx, d, "InstantiateFailed")
	require.Equal(t, map[domain.ResourceState]int{"Applied": 1, "Failed": 1, "Pending": 1}, got.Deployed)
	require.Equal(t, "not started: app bad, which it needs, is not Deployed", reasons(ctx, t, d)["needy"])
	do(ctx, t, d, "terminate")
	s.Await(ctx, d, "Terminated")
}

// run lets pods that ask for the deployment's release run on the nodes of a cluster, or keeps new ones off.
func run(ctx context.Context, t *testing.T, c *harness.Cluster, d *client.Deployment, runs bool) {
	t.Helper()
	var value any // none takes the label away
	if runs {
		value = "runs"
	}
	change, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{d.Release: value}}})
	require.NoError(t, err)
	nodes := c.Client(t).CoreV1().Nodes()
	list, err := nodes.List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	for i := range list.Items {
		_, err := nodes.Patch(ctx, list.Items[i].Name, types.MergePatchType, change, metav1.PatchOptions{})
		require.NoError(t, err)
	}
}
