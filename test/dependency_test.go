package test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/test/harness"
)

// depend makes an app of the deployment need another one.
func depend(ctx context.Context, s *harness.Stack, d *client.Deployment, app, on, until string, wait int) error {
	_, err := s.Client.Post(ctx, d.CompositeAppPath()+"/apps/"+app+"/dependency", client.Named(on, client.M{"app": on, "opStatus": until, "wait": wait}))
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
	ctx, s, clusters := within(t, 2*time.Minute), harness.NewStack(t), twoClusters(t)
	one := func(name string) client.App {
		return client.App{Name: name, Chart: harness.Chart(t, name, harness.ConfigMaps(name, 1))}
	}
	db := client.App{Name: "db", Chart: harness.Chart(t, "db", harness.Web("db"))}
	d := s.Deployment(ctx, clusters, one("front"), one("logic"), db)
	require.NoError(t, depend(ctx, s, d, "front", "logic", "deployed", 2))
	require.NoError(t, depend(ctx, s, d, "logic", "db", "READY", 0))
	err := depend(ctx, s, d, "db", "front", "Ready", 0)
	require.Equal(t, 409, code(t, err))
	require.ErrorContains(t, err, "db needs front needs logic needs db")

	// The Deployment cannot become ready on one cluster as long as its nodes take no pods.
	cordon(ctx, t, clusters[1], true)
	t.Cleanup(func() { cordon(context.Background(), t, clusters[1], false) })
	do(ctx, t, s, d, "approve", "instantiate")
	awaitReason(ctx, t, s, d, "logic", "waits until app db is Ready: on "+d.Clusters[1].Provider+"+"+clusters[1].Name)
	require.Contains(t, reasons(ctx, t, s, d)["front"], "waits until app logic is Deployed")
	x, _ := explains(ctx, t, s, d, explain.NotStarted, nil)
	require.Contains(t, x.Reasons[0].Text, "waits until app")
	got, err := d.Status(ctx, s.Client, "output=summary")
	require.NoError(t, err)
	require.Equal(t, map[string]int{"Applied": 4, "Pending": 4}, got.Rsync)
	cordon(ctx, t, clusters[1], false)
	got = s.Await(ctx, d, "Instantiated")
	require.Equal(t, map[string]int{"Applied": 8}, got.Rsync)
	require.Empty(t, reasons(ctx, t, s, d))
	for _, c := range clusters {
		logic, front := created(ctx, t, c, d, "logic"), created(ctx, t, c, d, "front")
		require.GreaterOrEqual(t, logic, created(ctx, t, c, d, "db"))
		require.GreaterOrEqual(t, front.Sub(logic), time.Second, "2 s, seen in whole seconds")
	}
	do(ctx, t, s, d, "terminate")
	got = s.Await(ctx, d, "Terminated")
	holds(t, clusters, got, 0)

	// The same again, stopped while it waits, with a worker that died meanwhile.
	cordon(ctx, t, clusters[1], true)
	do(ctx, t, s, d, "instantiate")
	awaitReason(ctx, t, s, d, "logic", "waits until app db is Ready")
	s.Worker.Kill()
	s.StartWorker()
	asked := time.Now()
	do(ctx, t, s, d, "stop")
	got = s.Await(ctx, d, "InstantiateFailed")
	t.Logf("stopped after %s", time.Since(asked).Round(time.Millisecond))
	require.Equal(t, map[string]int{"Applied": 4, "Pending": 4}, got.Rsync)
	require.Equal(t, "not started: the operation was stopped while the app waited for others", reasons(ctx, t, s, d)["front"])
	do(ctx, t, s, d, "terminate")
	got = s.Await(ctx, d, "Terminated")
	require.Equal(t, map[string]int{"Deleted": 8}, got.Rsync)

	// And terminated while it waits.
	do(ctx, t, s, d, "instantiate")
	awaitReason(ctx, t, s, d, "logic", "waits until app db is Ready")
	do(ctx, t, s, d, "terminate")
	got = s.Await(ctx, d, "Terminated")
	require.Equal(t, map[string]int{"Deleted": 8}, got.Rsync)
	holds(t, clusters, got, 0)
}

// TestDependencyOnWhatFails does not start what needs it.
func TestDependencyOnWhatFails(t *testing.T) {
	ctx, s, clusters := within(t, time.Minute), harness.NewStack(t), twoClusters(t)
	bad := harness.ConfigMaps("bad", 1)
	bad["bad.yaml"] = "apiVersion: none.example.com/v1\nkind: Nothing\nmetadata: {name: nothing}\n"
	d := s.Deployment(ctx, clusters[:1], client.App{Name: "bad", Chart: harness.Chart(t, "bad", bad)},
		client.App{Name: "needy", Chart: harness.Chart(t, "needy", harness.ConfigMaps("needy", 1))})
	require.NoError(t, depend(ctx, s, d, "needy", "bad", "Deployed", 0))
	do(ctx, t, s, d, "approve", "instantiate")
	got := s.Await(ctx, d, "InstantiateFailed")
	require.Equal(t, map[string]int{"Applied": 1, "Failed": 1, "Pending": 1}, got.Rsync)
	require.Equal(t, "not started: app bad, which it needs, is not Deployed", reasons(ctx, t, s, d)["needy"])
	do(ctx, t, s, d, "terminate")
	s.Await(ctx, d, "Terminated")
}

// cordon keeps pods off all nodes of a cluster, or lets them.
func cordon(ctx context.Context, t *testing.T, c *harness.Cluster, off bool) {
	t.Helper()
	nodes := c.Client(t).CoreV1().Nodes()
	list, err := nodes.List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	for i := range list.Items {
		name := list.Items[i].Name
		require.Eventually(t, func() bool {
			n, err := nodes.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return false
			}
			n.Spec.Unschedulable = off
			_, err = nodes.Update(ctx, n, metav1.UpdateOptions{})
			return err == nil
		}, 10*time.Second, harness.Poll)
	}
}
