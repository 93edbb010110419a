package test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	temporalclient "go.temporal.io/sdk/client"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/deploy/crd"
	"github.com/drover-io/drover/internal/built"
	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/combined"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/version"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/workflows"
)

// released is the program of the last release (make released).
const released = "drover-released"

// upgrading is what was begun on the last release, and waits for something in the clusters.
type upgrading struct {
	name string
	goOn func(ctx context.Context)               // what it waits for comes
	ends func(ctx context.Context, t *testing.T) // it ends as it should, and then nothing is left of it
	runs []string                                // ids of workflows that are open until then
}

// upgrade is a stack whose API and worker are replaced.
type upgrade struct {
	*testing.T
	s        *harness.Stack
	temporal temporalclient.Client
}

// TestUpgrade begins operations of every kind on the last release, each of which waits for a cluster, or for a hook. Then come API and worker
// of the present code: beside the old ones at first, and then in their place. Some operations go on while both are there, the others later.
// All of them end as if nothing had happened, and the clusters hold what they should. A clone without the release's commit leaves it out,
// whatever else is required: make test-upgrade and .ci/run fail there. Each part has a bound of its own: on a slow machine
// all of them take longer than one may.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(filepath.Join(built.Root(t), "build", "bin", released)); err != nil {
		t.Skipf("%s: the program of the last release is not built (deploy/tools/release.sh build)", err)
	}
	s := harness.NewStackOn(t, harness.Servers{Program: released})
	u := &upgrade{t, s, s.TemporalClient()}
	var begun []upgrading
	for _, begin := range []func(context.Context) upgrading{
		u.instantiates, u.updates, u.rollsBack, u.migrates, u.terminates, u.isStopped, u.keeps, u.runsHook, u.waitsForApp, u.networks, u.networksGo, u.cloud, u.cloudChanges, u.cloudGoes, u.tables, u.matches, u.agents, u.tenantAgents,
	} {
		at := time.Now()
		begun = append(begun, begin(within(t)))
		t.Logf("%s: begun in %.1f s", begun[len(begun)-1].name, time.Since(at).Seconds())
	}

	s.Use("drover")
	worker, api := s.AddWorker(), s.AddAPI(t)
	u.bothServe(within(t), api)
	for i, o := range begun {
		if i%2 == 0 {
			o.goOn(within(t))
		}
	}
	require.NoError(t, s.API.Stop(within(t)))
	s.Worker.Kill()
	s.StartAPI()
	s.StartWorker()
	require.NoError(t, worker.Stop(within(t)))
	for i, o := range begun {
		if i%2 == 1 {
			o.goOn(within(t))
		}
	}
	for _, o := range begun {
		t.Run(o.name, func(t *testing.T) {
			ctx := within(t)
			o.ends(ctx, t)
			for _, id := range o.runs {
				u.doneBy(ctx, t, id)
			}
		})
	}
	t.Run("an older worker comes back", func(t *testing.T) { u.olderWorker(within(t), t) })
	t.Run("an older worker is made to take over", func(t *testing.T) { u.forced(within(t), t) })
	t.Run("what a newer build has written", func(t *testing.T) { u.newerDocuments(within(t), t, api) })
}

// bothServe has each API begin an operation, and the other one end it.
func (u *upgrade) bothServe(ctx context.Context, other *harness.Replica) {
	u.Helper()
	clusters := twoClusters(u.T)
	apis := []*client.API{u.s.Client.API(), other.Client.API()}
	for i, from := range apis {
		d := u.s.Deployment(ctx, clusters, twoApps(u.T)...)
		d.API = from
		do(ctx, u.T, d, "approve", "instantiate")
		got := u.s.Await(ctx, d, "Instantiated")
		holds(u.T, clusters, got, 5)
		d.API = apis[1-i]
		require.Equal(u, map[domain.ResourceState]int{"Applied": 10}, u.s.Await(ctx, d, "Instantiated").Deployed)
		do(ctx, u.T, d, "terminate")
		holds(u.T, clusters, u.s.Await(ctx, d, "Terminated"), 0)
		u.doneBy(ctx, u.T, workflows.OperationID(scope(d, got.States.ContextID(), "instantiate")))
	}
}

// present is the build of the program that tests run.
func (u *upgrade) present(ctx context.Context, t *testing.T) string {
	t.Helper()
	is, err := u.temporal.WorkerDeploymentClient().GetHandle(workflows.Deployment).Describe(ctx, temporalclient.WorkerDeploymentDescribeOptions{})
	require.NoError(t, err)
	require.NotNil(t, is.Info.RoutingConfig.CurrentVersion)
	return is.Info.RoutingConfig.CurrentVersion.BuildID
}

// doneBy checks that the last one to do something in a workflow was the present build.
func (u *upgrade) doneBy(ctx context.Context, t *testing.T, id string) {
	t.Helper()
	require.Equal(t, u.present(ctx, t), u.lastOf(ctx, t, id), id)
}

// lastOf is the build that was the last one to do something in a workflow. A run that has just begun says nothing of that before its first task is
// done: a tenant's is begun once more by a word that comes late.
func (u *upgrade) lastOf(ctx context.Context, t *testing.T, id string) string {
	t.Helper()
	var info *workflowpb.WorkflowExecutionVersioningInfo
	harness.Until(ctx, t, "a task of "+id+" is done", func() bool {
		d, err := u.temporal.DescribeWorkflowExecution(ctx, id, "")
		require.NoError(t, err, id)
		info = d.GetWorkflowExecutionInfo().GetVersioningInfo()
		return info.GetBehavior() != enumspb.VERSIONING_BEHAVIOR_UNSPECIFIED
	})
	require.Equal(t, enumspb.VERSIONING_BEHAVIOR_AUTO_UPGRADE, info.GetBehavior(), id)
	return info.GetDeploymentVersion().GetBuildId()
}

// isHeld waits until so many resources wait for a cluster.
func (u *upgrade) isHeld(ctx context.Context, d *client.Deployment) *status.Document {
	u.Helper()
	return waitFor(ctx, u.T, d, func(g *status.Document) bool { return retrying(g) > 0 })
}

// root is the workflow of an operation on the context that a deployment has now.
func (u *upgrade) root(ctx context.Context, d *client.Deployment, operation domain.Operation) []string {
	u.Helper()
	got, err := d.Summary(ctx)
	require.NoError(u, err)
	return []string{workflows.OperationID(scope(d, got.States.ContextID(), operation))}
}

// up has a cluster answer.
func (u *upgrade) up(c *harness.Cluster) func(context.Context) {
	return func(context.Context) { c.Up(u.T) }
}

func (u *upgrade) instantiates(ctx context.Context) upgrading {
	clusters := twoClusters(u.T)
	d := u.s.Deployment(ctx, clusters, twoApps(u.T)...)
	clusters[1].Down()
	do(ctx, u.T, d, "approve", "instantiate")
	u.isHeld(ctx, d)
	return upgrading{"instantiate", u.up(clusters[1]), func(ctx context.Context, t *testing.T) {
		got := u.s.Await(ctx, d, "Instantiated")
		require.Equal(t, map[domain.ResourceState]int{"Applied": 10}, got.Deployed)
		holds(t, clusters, got, 5)
		do(ctx, t, d, "terminate")
		holds(t, clusters, u.s.Await(ctx, d, "Terminated"), 0)
	}, u.root(ctx, d, "instantiate")}
}

// changes is a deployment that was changed while a cluster was down; both clusters hold the same in the end.
func (u *upgrade) changes(ctx context.Context, name string, operation domain.Operation, change func(*changing), wanted ...string) upgrading {
	c := instantiated(ctx, u.T, u.s, "web:a=1 b=1", "log:x=1")
	change(c)
	u.isHeld(ctx, c.Deployment)
	return upgrading{name, u.up(c.clusters[1]), func(ctx context.Context, t *testing.T) {
		u.s.Await(ctx, c.Deployment, "Instantiated")
		for _, k := range c.clusters {
			require.Equal(t, wanted, c.holds(k), "on %s", k.Name)
		}
		c.end(ctx)
	}, u.root(ctx, c.Deployment, operation)}
}

func (u *upgrade) updates(ctx context.Context) upgrading {
	return u.changes(ctx, "update", "update", func(c *changing) {
		c.chart(ctx, "web", "a=2 c=2")
		c.clusters[1].Down()
		c.update(ctx)
	}, "log/x=1", "web/a=2", "web/c=2")
}

func (u *upgrade) rollsBack(ctx context.Context) upgrading {
	return u.changes(ctx, "rollback", "rollback", func(c *changing) {
		c.chart(ctx, "web", "a=2 c=2")
		c.update(ctx)
		u.s.Await(ctx, c.Deployment, "Instantiated")
		c.clusters[1].Down()
		require.NoError(u, c.rollback(ctx, 1))
	}, "log/x=1", "web/a=1", "web/b=1")
}

func (u *upgrade) migrates(ctx context.Context) upgrading {
	return u.changes(ctx, "migrate", "migrate", func(c *changing) {
		next, source := c.successor("a=2 d=1"), *c.Deployment
		require.NoError(u, next.API.Run(ctx, next.GroupSteps(), nil))
		do(ctx, u.T, &next, "approve")
		c.clusters[1].Down()
		require.NoError(u, migrate(ctx, &source, next.Version, next.Group))
		c.Deployment = &next
	}, "web/a=2", "web/d=1")
}

func (u *upgrade) terminates(ctx context.Context) upgrading {
	clusters := twoClusters(u.T)
	d := u.s.Deployment(ctx, clusters, twoApps(u.T)...)
	do(ctx, u.T, d, "approve", "instantiate")
	holds(u.T, clusters, u.s.Await(ctx, d, "Instantiated"), 5)
	clusters[1].Down()
	do(ctx, u.T, d, "terminate")
	waitFor(ctx, u.T, d, func(g *status.Document) bool { return retrying(g) > 0 && g.Deployed["Deleted"] == 5 })
	return upgrading{"terminate", u.up(clusters[1]), func(ctx context.Context, t *testing.T) {
		got := u.s.Await(ctx, d, "Terminated")
		require.Equal(t, map[domain.ResourceState]int{"Deleted": 10}, got.Deployed)
		holds(t, clusters, got, 0)
	}, u.root(ctx, d, "terminate")}
}

// isStopped has two: one is stopped before, and terminated after, and one is stopped after.
func (u *upgrade) isStopped(ctx context.Context) upgrading {
	clusters := twoClusters(u.T)
	before, after := u.s.Deployment(ctx, clusters, twoApps(u.T)...), u.s.Deployment(ctx, clusters, twoApps(u.T)...)
	clusters[1].Down()
	for _, d := range []*client.Deployment{before, after} {
		do(ctx, u.T, d, "approve", "instantiate")
		u.isHeld(ctx, d)
	}
	do(ctx, u.T, before, "stop")
	u.s.Await(ctx, before, "InstantiateFailed")
	return upgrading{"stop", func(context.Context) {}, func(ctx context.Context, t *testing.T) {
		stopped(ctx, t, after, "InstantiateFailed")
		clusters[1].Up(u.T)
		for _, d := range []*client.Deployment{before, after} {
			do(ctx, t, d, "terminate")
			holds(t, clusters, u.s.Await(ctx, d, "Terminated"), 0)
		}
	}, u.root(ctx, after, "instantiate")}
}

// keeps was stopped while nobody knew whether what is to be kept is there. The present code looks for it.
func (u *upgrade) keeps(ctx context.Context) upgrading {
	clusters := twoClusters(u.T)
	d := keptUnheard(ctx, u.T, u.s, clusters)
	return upgrading{"keep", func(context.Context) {}, func(ctx context.Context, t *testing.T) {
		do(ctx, t, d, "terminate")
		keptFound(ctx, t, u.s, clusters, d)
	}, nil}
}

func (u *upgrade) runsHook(ctx context.Context) upgrading {
	clusters := twoClusters(u.T)
	d := u.s.Deployment(ctx, clusters, hookApp(u.T, "web", map[string]string{
		"slow": hookJob("slow", "pre-install", "", suspended), "leave": hookJob("leave", "pre-delete", "", ""),
	}))
	do(ctx, u.T, d, "approve", "instantiate")
	awaitReason(ctx, u.T, d, "web", "waits for the pre-install hook Job "+d.Release+"-slow")
	harness.Until(ctx, u.T, "both hooks are there", func() bool {
		return job(ctx, u.T, clusters[0], d, "slow") != nil && job(ctx, u.T, clusters[1], d, "slow") != nil
	})
	first := job(ctx, u.T, clusters[0], d, "slow").UID
	return upgrading{"hook", func(ctx context.Context) {
		for _, c := range clusters {
			release(ctx, u.T, c, d, "slow")
		}
	}, func(ctx context.Context, t *testing.T) {
		got := u.s.Await(ctx, d, "Instantiated")
		require.Equal(t, first, job(ctx, t, clusters[0], d, "slow").UID, "it was run once")
		holds(t, clusters, got, 1)
		do(ctx, t, d, "terminate")
		holds(t, clusters, u.s.Await(ctx, d, "Terminated"), 0)
		for _, c := range clusters {
			goes(ctx, t, c, d, "slow")
			goes(ctx, t, c, d, "leave")
		}
	}, u.root(ctx, d, "instantiate")}
}

func (u *upgrade) waitsForApp(ctx context.Context) upgrading {
	clusters := twoClusters(u.T)
	d := u.s.Deployment(ctx, clusters, client.App{Name: "front", Chart: harness.Chart(u.T, "front", harness.ConfigMaps("front", 1))},
		client.App{Name: "db", Chart: harness.Chart(u.T, "db", harness.Web("db"))})
	require.NoError(u, depend(ctx, d, "front", "db", "Ready", 1))
	clusters[1].Down()
	do(ctx, u.T, d, "approve", "instantiate")
	u.isHeld(ctx, d)
	return upgrading{"an app that waits for another", u.up(clusters[1]), func(ctx context.Context, t *testing.T) {
		holds(t, clusters, u.s.Await(ctx, d, "Instantiated"), 3)
		do(ctx, t, d, "terminate")
		holds(t, clusters, u.s.Await(ctx, d, "Terminated"), 0)
	}, u.root(ctx, d, "instantiate")}
}

func (u *upgrade) networks(ctx context.Context) upgrading {
	n := newNetworks(ctx, u.T, u.s, harness.NewCluster(u.T, harness.ClusterNames[0]), "none")
	n.create(ctx, 3)
	n.in.Down()
	n.do(ctx, "apply")
	return upgrading{"networks", u.up(n.in), func(ctx context.Context, t *testing.T) {
		require.Len(t, n.in.Networks(t, n.awaitStatus(ctx, "Instantiated").States.ContextID()), 3)
		n.clean(ctx)
	}, u.held(ctx, n, domain.OpInstantiate)}
}

// networksGo are terminated.
func (u *upgrade) networksGo(ctx context.Context) upgrading {
	n := newNetworks(ctx, u.T, u.s, harness.NewCluster(u.T, harness.ClusterNames[0]), "none")
	n.create(ctx, 3)
	n.do(ctx, "apply")
	n.awaitStatus(ctx, "Instantiated")
	n.in.Down()
	n.do(ctx, "terminate")
	return upgrading{"networks that go", u.up(n.in), func(ctx context.Context, t *testing.T) {
		got := n.awaitStatus(ctx, "Terminated")
		require.Equal(t, map[domain.ResourceState]int{"Deleted": 3}, got.Deployed)
		require.Empty(t, n.in.Networks(t, got.States.ContextID()))
	}, u.held(ctx, n, domain.OpTerminate)}
}

// held waits until three networks wait for their cluster, and is the workflow of the operation that they wait in.
func (u *upgrade) held(ctx context.Context, n *networks, operation domain.Operation) []string {
	u.Helper()
	got := n.await(ctx, func(s *status.Document) bool { return retrying(s) == 3 })
	return []string{workflows.OperationID(domain.Scope{Owner: n.key, ContextID: got.States.ContextID(), Operation: operation})}
}

func (u *upgrade) cloud(ctx context.Context) upgrading {
	c := newLevel1(ctx, u.T, u.s)
	c.pipes[1].Down()
	return u.ofCloud(ctx, "logical cloud", c, domain.OpInstantiate, func(s *status.Document) bool { return s.Deployed["Applied"] == 5 }, func(ctx context.Context, t *testing.T) {
		c.awaitStatus(ctx, "Instantiated")
		before := c.certificate(0)
		c.signal(ctx, workflows.RenewSignal)
		harness.Until(ctx, t, "renewed", func() bool { return c.certificate(0).SerialNumber.Cmp(before.SerialNumber) != 0 })
		u.doneBy(ctx, t, c.keeper())
		u.cleared(ctx, t, c)
	})
}

// cloudChanges has a permission more after an update.
func (u *upgrade) cloudChanges(ctx context.Context) upgrading {
	c := u.newCloud(ctx)
	c.create(c.permission("public", domain.UserPermissionSpec{
		Namespace: "kube-public", APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list"},
	}))
	return u.ofCloud(ctx, "logical cloud that changes", c, domain.OpUpdate, func(*status.Document) bool { return true }, func(ctx context.Context, t *testing.T) {
		require.Equal(t, map[domain.ResourceState]int{"Applied": 14}, c.awaitStatus(ctx, "Instantiated").Deployed)
		u.cleared(ctx, t, c)
	})
}

// cloudGoes is terminated.
func (u *upgrade) cloudGoes(ctx context.Context) upgrading {
	c := u.newCloud(ctx)
	return u.ofCloud(ctx, "logical cloud that goes", c, domain.OpTerminate, func(s *status.Document) bool { return s.Deployed["Deleted"] == 5 }, func(ctx context.Context, _ *testing.T) {
		c.awaitStatus(ctx, "Terminated")
		for i := range c.pipes {
			c.gone(ctx, i)
		}
	})
}

// newCloud is instantiated on two clusters, of which the second one is down after that.
func (u *upgrade) newCloud(ctx context.Context) *level1 {
	u.Helper()
	c := newLevel1(ctx, u.T, u.s)
	_, err := c.do(domain.OpInstantiate)
	require.NoError(u, err)
	c.awaitStatus(ctx, "Instantiated")
	c.pipes[1].Down()
	return c
}

// ofCloud begins an operation on a logical cloud, and waits until one cluster has its part and the second one is waited for.
func (u *upgrade) ofCloud(ctx context.Context, name string, c *level1, operation domain.Operation, half func(*status.Document) bool, ends func(context.Context, *testing.T)) upgrading {
	u.Helper()
	_, err := c.do(operation)
	require.NoError(u, err)
	got := c.await(ctx, "half done", "detail", func(s *status.Document) bool { return half(s) && of(s, c.pipes[1].Name).Connectivity == "Retrying" })
	id := workflows.OperationID(domain.Scope{Owner: c.key, ContextID: got.States.ContextID(), Operation: operation})
	return upgrading{name, func(context.Context) { c.pipes[1].Up(u.T) }, ends, []string{id}}
}

// cleared terminates a cloud: nothing of it is left.
func (u *upgrade) cleared(ctx context.Context, t *testing.T, c *level1) {
	t.Helper()
	_, err := c.do(domain.OpTerminate)
	require.NoError(t, err)
	c.awaitStatus(ctx, "Terminated")
	for i := range c.pipes {
		c.gone(ctx, i)
	}
}

// tables are watched at the API that is replaced. Its watches of clusters were begun on the release.
func (u *upgrade) tables(ctx context.Context) upgrading {
	clusters := twoClusters(u.T)
	var on []domain.ClusterName
	for _, c := range clusters {
		on = append(on, u.s.RegisterAs(ctx, c.Name, c.Kubeconfig(u.T), "agentless"))
	}
	d := u.s.On(ctx, on, client.App{Name: "site", Chart: harness.Chart(u.T, "site", harness.Web("site"))})
	collect(ctx, u.T, d, "wanted", `{"select":[{"name":"wec","def":"inventory.name"},{"name":"wanted","def":"returned.spec.replicas"}]}`)
	intend(ctx, u.T, d, "all", "wanted")
	do(ctx, u.T, d, "approve", "instantiate")
	u.s.Await(ctx, d, "Instantiated")
	is := func(replicas ...int) func(map[string][]string, *combined.CombinedStatus) bool {
		var rows []string
		for i, n := range replicas {
			rows = append(rows, fmt.Sprintf("%s %d", clusters[i].Name, n))
		}
		return func(got map[string][]string, _ *combined.CombinedStatus) bool {
			return slices.Equal(slices.Sorted(slices.Values(got["wanted"])), rows) // they come in the order of the providers, whose names are random
		}
	}
	before := streamOfTables(ctx, d, "")
	before.await(u.T, "deployments", is(1, 1))
	return upgrading{"combined status", func(ctx context.Context) { scale(ctx, u.T, clusters[0], d, 2) }, func(ctx context.Context, t *testing.T) {
		for { // the stream of the API that was replaced has ended
			e, err := before.Next()
			if err != nil {
				break
			}
			require.Contains(t, []string{"status", "change", "end"}, e.Kind, e.Data)
			if e.ID != "" {
				before.id = e.ID
			}
		}
		before.Close()
		after := streamOfTables(ctx, d, before.id)
		defer after.Close()
		after.await(t, "deployments", is(2, 1))
		scale(ctx, t, clusters[1], d, 3)
		after.await(t, "deployments", is(2, 3))
		do(ctx, t, d, "terminate")
		holds(t, clusters, u.s.Await(ctx, d, "Terminated"), 0)
	}, nil}
}

// matches are those of a tenant that tells the API which is replaced what it runs.
func (u *upgrade) matches(ctx context.Context) upgrading {
	e := newTenancy(ctx, u.T, u.s, domain.ReportNone)
	for i := range 2 {
		e.workload(i)
	}
	a := e.agent(ctx)
	a.sync()
	e.settled(ctx, 2)
	e.cluster.Down()
	a.update(e.workload(2))
	delete(e.workloads, "w0")
	a.delete("w0")
	id := workflows.TenantID(e.tenant.Name)
	harness.Until(ctx, u.T, "waits for the cluster", func() bool {
		d, err := u.temporal.DescribeWorkflowExecution(ctx, id, "")
		return err == nil && len(d.GetPendingActivities()) > 0
	})
	return upgrading{"workloads", u.up(e.cluster), func(ctx context.Context, _ *testing.T) {
		e.settled(ctx, 2) // w1 and w2
		again := e.agent(ctx)
		e.workload(3)
		again.sync()
		e.settled(ctx, 3)
		clear(e.workloads)
		again.sync()
		e.settled(ctx, 0)
		again.end()
	}, []string{id}}
}

// agents report on a cluster that nobody else has: first one of the present code to the release, then one of the release to both.
func (u *upgrade) agents(ctx context.Context) upgrading {
	f := harness.StartFleet(u.T, 1, "-reviews")
	name := f.Names[0]
	kubeconfig := f.Kubeconfig(u.T, name)
	cluster := kubetest.Dynamic(u.T, kubeconfig)
	of := kubetest.Define(u.T, cluster, crd.ResourceBundleStates().Manifest)
	d := u.s.On(ctx, []domain.ClusterName{u.s.RegisterAs(ctx, name, kubeconfig, domain.ReportAgent)},
		client.App{Name: "site", Chart: harness.Chart(u.T, "site", harness.ConfigMaps("site", 4))})
	do(ctx, u.T, d, "approve", "instantiate")
	u.s.Await(ctx, d, "Instantiated")
	present := func(ctx context.Context, t *testing.T, n int) {
		t.Helper()
		reports(ctx, t, u.s, d, "type=cluster", func(r *reportedStatus) bool { return r.Counts["Present"] == n && r.Counts["NotPresent"] == 4-n })
	}
	lose := func(ctx context.Context, i int) {
		u.Helper()
		configMaps := cluster.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default")
		require.NoError(u, configMaps.Delete(ctx, fmt.Sprintf("%s-site-%03d", d.Release, i), metav1.DeleteOptions{}))
	}
	newer := harness.StartAgent(u.T, "drover", name, kubeconfig)
	present(ctx, u.T, 4)
	lose(ctx, 0)
	present(ctx, u.T, 3)
	require.NoError(u, newer.Stop(ctx))
	older := harness.StartAgent(u.T, released, name, kubeconfig)
	lose(ctx, 1)
	present(ctx, u.T, 2)
	return upgrading{"the agent of a cluster", func(ctx context.Context) { lose(ctx, 2) }, func(ctx context.Context, t *testing.T) {
		present(ctx, t, 1)
		require.NoError(t, older.Stop(ctx))
		harness.StartAgent(t, "drover", name, kubeconfig)
		lose(ctx, 3)
		present(ctx, t, 0)
		do(ctx, t, d, "terminate")
		u.s.Await(ctx, d, "Terminated")
		left, err := cluster.Resource(of).List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		require.Empty(t, left.Items, "its reports are gone")
	}, nil}
}

// tenantAgents tell what runs in a tenant's cluster, and carry its rules: first one of the present code to the release, then one of the
// release to both. The API that it speaks with is replaced.
func (u *upgrade) tenantAgents(ctx context.Context) upgrading {
	e := newAgencyIn(ctx, u.T, u.s, harness.ClusterNames[0])
	e.takeCertificates(u.s.Certificates())
	space := e.spaces[0]
	agent := func(program string) *harness.TenantAgent {
		return e.agentOf(program, u.s.TenantAddress(), e.byCertificate()...)
	}
	e.start(ctx, space, "a")
	newer := agent("drover")
	e.write(ctx, "web", "nginx:1")
	e.stands(ctx, "nginx:1", "a")
	e.says(ctx, "web", "Synced")
	require.NoError(u, newer.Stop(ctx))
	older := agent(released)
	e.start(ctx, space, "b")
	e.write(ctx, "web", "nginx:2")
	e.stands(ctx, "nginx:2", "a", "b")
	return upgrading{"the agent of a tenant", func(ctx context.Context) {
		e.start(ctx, space, "c")
		e.stop(ctx, space, "a")
	}, func(ctx context.Context, t *testing.T) {
		e.stands(ctx, "nginx:2", "b", "c")
		e.write(ctx, "web", "nginx:3")
		e.stands(ctx, "nginx:3", "b", "c")
		e.says(ctx, "web", "Synced")
		require.NoError(t, older.Stop(ctx))
		newer := agent("drover")
		e.stop(ctx, space, "b")
		e.write(ctx, "web", "nginx:4")
		e.stands(ctx, "nginx:4", "c")
		e.takeAway(ctx, "web")
		e.gone(ctx, "web")
		e.stands(ctx, "")
		require.NoError(t, newer.Stop(ctx))
	}, nil}
}

// forced starts a worker of the release with force while one of the present code is there, as where a manifest has it still. It does the
// work as long as the present one does not look, which is frozen meanwhile, and then the present one takes it back. What was begun on either ends.
func (u *upgrade) forced(ctx context.Context, t *testing.T) {
	now := u.present(ctx, t)
	clusters := twoClusters(t)
	begin := func() (*client.Deployment, string) {
		d := u.s.Deployment(ctx, clusters, twoApps(t)...)
		do(ctx, t, d, "approve", "instantiate")
		got := waitFor(ctx, t, d, func(g *status.Document) bool { return retrying(g) == 5 && g.Deployed["Applied"] == 5 })
		return d, workflows.OperationID(scope(d, got.States.ContextID(), "instantiate"))
	}
	clusters[1].Down()
	before, runs := begin()
	u.doneBy(ctx, t, runs)
	thaw := u.s.Worker.Freeze(t)
	u.s.Use(released)
	older := u.s.AddWorker("DROVER_WORKER_VERSIONING=force")
	u.s.Use("drover")
	forced := u.present(ctx, t)
	require.NotEqual(t, now, forced, "it has taken over")

	whole := u.s.Deployment(ctx, clusters[:1], twoApps(t)...)
	do(ctx, t, whole, "approve", "instantiate")
	contextID := u.s.Await(ctx, whole, "Instantiated").States.ContextID()
	require.Equal(t, forced, u.lastOf(ctx, t, workflows.OperationID(scope(whole, contextID, "instantiate"))))
	during, runsToo := begin()
	require.Equal(t, forced, u.lastOf(ctx, t, runsToo))

	thaw()
	harness.Until(ctx, t, "the present build has the work again", func() bool { return u.present(ctx, t) == now })
	clusters[1].Up(t)
	for d, id := range map[*client.Deployment]string{before: runs, during: runsToo} {
		got := u.s.Await(ctx, d, "Instantiated")
		require.Equal(t, map[domain.ResourceState]int{"Applied": 10}, got.Deployed)
		holds(t, clusters, got, 5)
		u.doneBy(ctx, t, id)
	}
	for _, d := range []*client.Deployment{before, during, whole} {
		do(ctx, t, d, "terminate")
		holds(t, clusters, u.s.Await(ctx, d, "Terminated"), 0)
	}
	require.True(t, older.Alive())
	require.NoError(t, older.Stop(ctx))
}

// olderWorker starts one of the release beside those of the present code: it gets no work, since histories may be beyond it.
func (u *upgrade) olderWorker(ctx context.Context, t *testing.T) {
	now := u.present(ctx, t)
	u.s.Use(released)
	older := u.s.AddWorker()
	u.s.Use("drover")
	require.Equal(t, now, u.present(ctx, t))
	require.Contains(t, older.Log(), "a newer build does the work of this namespace")
	clusters := twoClusters(t)
	d := u.s.Deployment(ctx, clusters, twoApps(t)...)
	do(ctx, t, d, "approve", "instantiate")
	got := u.s.Await(ctx, d, "Instantiated")
	id := workflows.OperationID(scope(d, got.States.ContextID(), "instantiate"))
	u.doneBy(ctx, t, id)
	events := u.temporal.GetWorkflowHistory(ctx, id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		require.NoError(t, err)
		require.NotContains(t, e.GetWorkflowTaskStartedEventAttributes().GetIdentity()+"@", fmt.Sprintf("%d@", older.PID()))
	}
	do(ctx, t, d, "terminate")
	u.s.Await(ctx, d, "Terminated")
	require.NoError(t, older.Stop(ctx))
}

// newerDocuments gives a document, and then the database, the number that one of a newer build has. Both programs refuse it.
func (u *upgrade) newerDocuments(ctx context.Context, t *testing.T, present *harness.Replica) {
	u.s.Use(released)
	older := u.s.AddAPI(t)
	u.s.Use("drover")
	project := &domain.Project{Metadata: domain.Metadata{Name: "newer"}}
	_, err := u.s.Client.API().Create(ctx, project, nil)
	require.NoError(t, err)
	c, err := mongo.Connect(options.Client().ApplyURI(u.s.DatabaseURI()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Disconnect(context.WithoutCancel(ctx)) })
	db := c.Database("drover")
	set := func(collection, id, member string, value int) {
		t.Helper()
		r, err := db.Collection(collection).UpdateOne(ctx, bson.D{{Key: "_id", Value: id}}, bson.D{{Key: "$set", Value: bson.D{{Key: member, Value: value}}}})
		require.NoError(t, err)
		require.Equal(t, int64(1), r.MatchedCount)
	}
	was, err := db.Collection("projects").FindOne(ctx, bson.D{{Key: "_id", Value: "projects/newer"}}).Raw()
	require.NoError(t, err)
	set("projects", "projects/newer", "v", 7)
	for url, of := range map[string]version.Info{older.URL: u.version(ctx, t, older.URL), present.URL: u.version(ctx, t, present.URL)} {
		for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
			code, body := u.ask(ctx, t, method, url+"/v2/projects/newer", `{"metadata":{"name":"newer","description":"lost"}}`)
			require.Equal(t, http.StatusServiceUnavailable, code, "%s %s: %s", method, url, body)
			require.Contains(t, body, `projects/newer`)
			require.Contains(t, body, "version 7")
			require.Contains(t, body, of.Version)
		}
		code, body := u.ask(ctx, t, http.MethodGet, url+"/v2/projects", "")
		require.Equal(t, http.StatusOK, code, "the others are shown")
		require.NotContains(t, body, `"newer"`)
	}
	now, err := db.Collection("projects").FindOne(ctx, bson.D{{Key: "_id", Value: "projects/newer"}}).Raw()
	require.NoError(t, err)
	require.Equal(t, was.Lookup("sealed"), now.Lookup("sealed"), "nobody has written over it")

	set("layout", "layout", "layout", 1_000)
	for _, program := range []string{released, "drover"} {
		u.s.Use(program)
		code, said := u.s.Refused(ctx, t, "worker")
		require.Equal(t, 1, code, said)
		require.Contains(t, said, "the database has layout 1000, that of a newer Drover")
	}
}

func (u *upgrade) version(ctx context.Context, t *testing.T, url string) (of version.Info) {
	t.Helper()
	code, body := u.ask(ctx, t, http.MethodGet, url+"/version", "")
	require.Equal(t, http.StatusOK, code)
	require.NoError(t, json.Unmarshal([]byte(body), &of))
	return of
}

func (u *upgrade) ask(ctx context.Context, t *testing.T, method, url, body string) (code int, said string) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(data)
}
