package test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/workflows"
)

// What must survive. A lifecycle with one app of many ConfigMaps is held in its middle, to be disturbed there.

// many is an app of n ConfigMaps.
func many(t *testing.T, n int) client.App {
	t.Helper()
	return client.App{Name: "many", Chart: harness.Chart(t, "many", harness.ConfigMaps("many", n))}
}

func harm(clusters []*harness.Cluster, f harness.Fault) {
	for _, c := range clusters {
		c.Harm(f)
	}
}

// some is how many writes of an operation each cluster takes before it is held.
const some = 10

// hold lets some writes through, and holds the others until it is ended.
func hold(clusters []*harness.Cluster) (end func()) {
	var gates []*harness.Gate
	for _, c := range clusters {
		gates = append(gates, c.Gate("", some))
	}
	return func() {
		for _, g := range gates {
			g.Open()
		}
	}
}

// midway begins an operation, and waits until the first cluster holds neither all nor nothing of it. It stays so until
// the operation is let go on.
func midway(ctx context.Context, t *testing.T, d *client.Deployment, clusters []*harness.Cluster, operation domain.Operation, all int) (goOn func()) {
	t.Helper()
	goOn = hold(clusters)
	do(ctx, t, d, operation)
	got, err := d.Summary(ctx)
	require.NoError(t, err)
	harness.Until(ctx, t, "midway", func() bool {
		n := len(clusters[0].Labelled(t, got.States.ContextID()))
		return n > 2 && n < all-2
	})
	return goOn
}

// holds checks that each cluster has exactly n resources of the deployment, all of its last context.
func holds(t *testing.T, clusters []*harness.Cluster, got *status.Document, n int) {
	t.Helper()
	for _, c := range clusters {
		require.Len(t, c.Labelled(t, got.States.ContextID()), n, "on %s", c.Name)
	}
}

// goesOn waits until an operation has ended whose worker was killed and has just come back. A workflow's task that it had is
// missed after 5 s, and an activity after 5 s without a heartbeat, at the worst one after the other. The work that is left
// takes less than that again.
func goesOn(ctx context.Context, t *testing.T, d *client.Deployment, where domain.ContextStatus) *status.Document {
	t.Helper()
	var got *status.Document
	harness.Soon(ctx, t, 15*time.Second, func() bool {
		var err error
		got, err = d.Summary(ctx)
		return err == nil && got.Status == where
	}, func() string { return "the operation has not gone on" })
	return got
}

func TestWorkerKilledMidway(t *testing.T) {
	t.Parallel()
	ctx, s, clusters := within(t), harness.NewStack(t), twoClusters(t)
	d := s.Deployment(ctx, clusters, many(t, 60))
	do(ctx, t, d, "approve")
	goOn := midway(ctx, t, d, clusters, "instantiate", 60)
	s.Worker.Kill()
	goOn()
	s.StartWorker()
	got := goesOn(ctx, t, d, "Instantiated")
	require.Equal(t, map[domain.ResourceState]int{"Applied": 120}, got.Deployed)
	holds(t, clusters, got, 60)

	goOn = midway(ctx, t, d, clusters, "terminate", 60)
	s.Worker.Kill()
	goOn()
	s.StartWorker()
	got = goesOn(ctx, t, d, "Terminated")
	require.Equal(t, map[domain.ResourceState]int{"Deleted": 120}, got.Deployed)
	holds(t, clusters, got, 0)
}

// TestWorkerDrainsWhenStopped sees that the work is handed over, not lost: no attempt is missed for its heartbeats.
func TestWorkerDrainsWhenStopped(t *testing.T) {
	t.Parallel()
	ctx, s, clusters := within(t), harness.NewStack(t), twoClusters(t)
	d := s.Deployment(ctx, clusters, many(t, 60))
	do(ctx, t, d, "approve")
	goOn := midway(ctx, t, d, clusters, "instantiate", 60)
	harness.Until(ctx, t, "both are at work", func() bool {
		got, err := d.Summary(ctx)
		return err == nil && len(clusters[1].Labelled(t, got.States.ContextID())) > 2
	})
	require.NoError(t, s.Worker.Stop(ctx))
	goOn()
	require.NoError(t, s.API.Stop(ctx))
	s.StartAPI()
	s.StartWorker()
	started := time.Now()
	got := s.Await(ctx, d, "Instantiated")
	t.Logf("instantiated %s after the worker was there again", time.Since(started).Round(time.Millisecond))
	holds(t, clusters, got, 60)
	instantiate := scope(d, got.States.ContextID(), domain.OpInstantiate)
	for _, c := range d.Clusters {
		attempts := int32(0)
		events := s.TemporalClient().GetWorkflowHistory(ctx, workflows.LeafID(instantiate, "many", c), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			e, err := events.Next()
			require.NoError(t, err)
			if a := e.GetActivityTaskStartedEventAttributes(); a != nil {
				attempts = a.GetAttempt()
				require.Nil(t, a.GetLastFailure().GetTimeoutFailureInfo(), "why attempt %d was made", attempts)
			}
		}
		require.Greater(t, attempts, int32(1))
	}
}

// TestAPIKilledWhileItAnswers kills the API at several moments of a start, every second time after it was frozen there. There is one instance whatever
// came of it. What was started has the record that it begins, written before by the process that is dead, and one that has no answer says so.
func TestAPIKilledWhileItAnswers(t *testing.T) {
	t.Parallel()
	ctx, s, clusters := within(t), harness.NewStack(t), twoClusters(t)
	for i := range 6 {
		d := s.Deployment(ctx, clusters, many(t, 3))
		do(ctx, t, d, "approve")
		answered := make(chan error, 1)
		go func() { answered <- d.Do(ctx, "instantiate") }()
		time.Sleep(time.Duration(i*12) * time.Millisecond) //nolint:forbidigo // the moment of the kill is what is varied
		if i%2 == 1 {
			s.API.Freeze(t)
			time.Sleep(100 * time.Millisecond) //nolint:forbidigo // the worker goes on meanwhile
		}
		s.API.Kill()
		lost := <-answered
		s.StartAPI()
		begun, open := instantiates(ctx, t, d, audit.Begun), instantiates(ctx, t, d, audit.Unanswered)
		if len(begun) > 0 && len(instantiates(ctx, t, d, audit.Answered)) == 0 {
			require.Len(t, open, 1, "nobody knows what came of it, and the log says so")
			require.Error(t, lost, "an answer comes after its record")
		}
		if err := d.Do(ctx, "instantiate"); err != nil {
			require.Equal(t, 409, code(t, err), "%v", err)
			require.NotEmpty(t, begun, "it was started by the process that was killed, without a record")
		}
		got := s.Await(ctx, d, "Instantiated")
		n := 0
		for _, state := range states(got) {
			if state == "Instantiated" {
				n++
			}
		}
		require.Equal(t, 1, n, "one instance: %v", states(got))
		require.Equal(t, map[domain.ResourceState]int{"Applied": 6}, got.Deployed)
		holds(t, clusters, got, 3)
		isAudited(ctx, t, s, d, 3+i) // the worker, and the APIs so far
	}
}

func TestClusterDown(t *testing.T) {
	t.Parallel()
	s, clusters := harness.SharedStack(t), twoClusters(t)
	// begin instantiates with the second cluster down, and waits until that is seen.
	begin := func(ctx context.Context, t *testing.T) (*client.Deployment, *status.Document) {
		d := s.Deployment(ctx, clusters, twoApps(t)...)
		clusters[1].Down()
		do(ctx, t, d, "approve", "instantiate")
		got := waitFor(ctx, t, d, func(g *status.Document) bool {
			return g.Deployed["Applied"] == 5 && retrying(g) == 5
		})
		require.Equal(t, domain.ContextInstantiating, got.Status)
		all, err := d.Status(ctx, url.Values{"output": {"detail"}, "cluster": {d.Clusters[1].String()}})
		require.NoError(t, err)
		require.Equal(t, map[domain.ResourceState]int{"Pending": 5}, all.Deployed)
		for _, a := range all.Apps {
			require.Equal(t, domain.ConnectivityRetrying, a.Clusters[0].Connectivity)
			require.Contains(t, a.Clusters[0].LastError, "refused")
		}
		return d, got
	}
	clean := func(ctx context.Context, t *testing.T, d *client.Deployment) {
		do(ctx, t, d, "terminate")
		got := s.Await(ctx, d, "Terminated")
		require.Equal(t, map[domain.ResourceState]int{"Deleted": 10}, got.Deployed)
		holds(t, clusters, got, 0)
	}

	t.Run("and comes back", func(t *testing.T) {
		ctx := within(t)
		d, _ := begin(ctx, t)
		clusters[1].Up(t)
		got := s.Await(ctx, d, "Instantiated")
		require.Equal(t, map[domain.ResourceState]int{"Applied": 10}, got.Deployed)
		holds(t, clusters, got, 5)
		clean(ctx, t, d)
	})
	t.Run("and is stopped", func(t *testing.T) {
		ctx := within(t)
		d, _ := begin(ctx, t)
		got := stopped(ctx, t, d, "InstantiateFailed")
		require.Equal(t, domain.InstantiateStopped, got.States.State())
		require.Equal(t, 5, got.Deployed["Applied"])
		require.Equal(t, 5, got.Deployed["Pending"]+got.Deployed["Failed"], "%v", got.Deployed)
		holds(t, clusters[:1], got, 5)
		require.Equal(t, 409, code(t, d.Do(ctx, "stop")), "again")
		clusters[1].Up(t)
		clean(ctx, t, d)
	})
	t.Run("and is tried again without making history", func(t *testing.T) {
		ctx := within(t)
		d, got := begin(ctx, t)
		temporal := s.TemporalClient()
		leaf := workflows.LeafID(scope(d, got.States.ContextID(), domain.OpInstantiate), "settings", d.Clusters[1])
		// look is the number of attempts at the leaf and the length of its history.
		look := func() (attempts int32, events int64) {
			l, err := temporal.DescribeWorkflowExecution(ctx, leaf, "")
			require.NoError(t, err)
			require.Len(t, l.GetPendingActivities(), 1)
			return l.GetPendingActivities()[0].GetAttempt(), l.GetWorkflowExecutionInfo().GetHistoryLength()
		}
		// The first attempt tells that the cluster is away. If it came to nothing before it had anything to send, as when it does not
		// know the cluster's kinds yet, the second tells that from then on all may have been sent. A signal and what follows from it
		// are nine events. An attempt is counted as soon as the one before it has failed, so before it tells.
		from, length := look()
		harness.Until(ctx, t, "a whole attempt has left no event", func() bool {
			attempts, events := look()
			if events != length {
				from, length = attempts, events
			}
			return attempts >= from+2
		})
		clusters[1].Up(t)
		s.Await(ctx, d, "Instantiated")
		clean(ctx, t, d)
	})
	t.Run("and is terminated until it returns", func(t *testing.T) {
		ctx := within(t)
		d, _ := begin(ctx, t)
		do(ctx, t, d, "terminate")
		got := waitFor(ctx, t, d, func(g *status.Document) bool {
			return retrying(g) > 0 && g.Deployed["Deleted"] >= 5
		})
		require.Equal(t, domain.ContextTerminating, got.Status)
		require.Equal(t, []string{"Created", "Approved", "Instantiated", "Terminated"}, states(got))
		holds(t, clusters[:1], got, 0)
		require.Equal(t, 409, code(t, d.Do(ctx, "instantiate")), "while it is terminating")
		clusters[1].Up(t)
		got = s.Await(ctx, d, "Terminated")
		require.Equal(t, map[domain.ResourceState]int{"Deleted": 10}, got.Deployed)
		holds(t, clusters, got, 0)
	})
	t.Run("and its termination is stopped", func(t *testing.T) {
		ctx := within(t)
		d, _ := begin(ctx, t)
		do(ctx, t, d, "terminate")
		waitFor(ctx, t, d, func(g *status.Document) bool { return retrying(g) > 0 && g.Deployed["Deleted"] >= 5 })
		got := stopped(ctx, t, d, "TerminateFailed")
		require.Equal(t, domain.TerminateStopped, got.States.State())
		require.Positive(t, got.Deployed["Failed"], "%v", got.Deployed)
		clusters[1].Up(t)
		clean(ctx, t, d)
	})
	t.Run("by hanging, and is stopped", func(t *testing.T) {
		ctx := within(t)
		d := s.Deployment(ctx, clusters, many(t, 4))
		clusters[1].Harm(harness.Hang)
		defer clusters[1].Harm(nil)
		do(ctx, t, d, "approve", "instantiate")
		_, err := harness.LookAt(ctx, d, func(g *status.Document) bool { return g.Deployed["Applied"] == 4 })
		require.NoError(t, err)
		got := stopped(ctx, t, d, "InstantiateFailed")
		require.Equal(t, domain.InstantiateStopped, got.States.State())
		clusters[1].Harm(nil)
		do(ctx, t, d, "terminate")
		got, err = harness.LookAt(ctx, d, func(g *status.Document) bool { return g.Status == "Terminated" })
		if err != nil {
			detail, err := d.Status(context.WithoutCancel(ctx), url.Values{"output": {"detail"}})
			require.NoError(t, err)
			t.Fatalf("%+v", detail)
		}
		holds(t, clusters, got, 0)
	})
}

func TestManifestsThatTheClusterRefuses(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), harness.SharedStack(t)
	// A user who may write ConfigMaps only: the cluster's own 403.
	user := "drover-test-limited"
	limited := harness.NewClusterAs(t, harness.ClusterNames[0], user)
	allow(ctx, t, limited, user)
	d := s.Deployment(ctx, []*harness.Cluster{limited}, client.App{Name: "mixed", Chart: harness.Chart(t, "mixed", map[string]string{
		"good.yaml":  "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-good'}\ndata: {a: b}\n",
		"name.yaml":  "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-Not-A-Name'}\n",
		"type.yaml":  "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-type'}\ndata: {a: [1]}\n",
		"right.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: '{{ .Release.Name }}-right'}\n",
		"kind.yaml":  "apiVersion: none.example.com/v1\nkind: Nothing\nmetadata: {name: '{{ .Release.Name }}-kind'}\n",
	})})
	do(ctx, t, d, "approve", "instantiate")
	got := s.Await(ctx, d, "InstantiateFailed")
	require.Equal(t, map[domain.ResourceState]int{"Applied": 1, "Failed": 4}, got.Deployed)
	require.Equal(t, domain.Instantiated, got.States.State())
	detail, err := d.Status(ctx, url.Values{"output": {"detail"}})
	require.NoError(t, err)
	for _, r := range detail.Apps[0].Clusters[0].Resources {
		want := map[string]string{"good": "", "Not-A-Name": "RFC 1123", "type": "data", "right": "forbidden", "kind": "none.example.com"}
		name := strings.TrimPrefix(r.Name, d.Release+"-")
		require.Contains(t, r.Message, want[name], name)
		require.Equal(t, want[name] == "", r.Status == domain.ResourceApplied, name)
	}
	do(ctx, t, d, "terminate")
	got = s.Await(ctx, d, "Terminated")
	require.Equal(t, map[domain.ResourceState]int{"Deleted": 5}, got.Deployed)
}

func allow(ctx context.Context, t *testing.T, c *harness.Cluster, user string) {
	t.Helper()
	rbac := c.Client(t).RbacV1()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "patch", "create", "update", "delete"},
	}}}
	_, err := rbac.ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
	require.NoError(t, err)
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	_, err = rbac.ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	require.NoError(t, err)
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "default", Verb: "patch", Resource: "configmaps"},
	}}
	harness.Until(ctx, t, "allowed", func() bool { // the authorizer learns of it a moment later
		got, err := c.Client(t).AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		require.NoError(t, err)
		return got.Status.Allowed
	})
	t.Cleanup(func() {
		ctx := context.Background()
		_ = rbac.ClusterRoleBindings().Delete(ctx, user, metav1.DeleteOptions{})
		_ = rbac.ClusterRoles().Delete(ctx, user, metav1.DeleteOptions{})
	})
}

// keptChart has a ConfigMap that stays when all else is deleted.
const keptChart = `
apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ .Release.Name }}-stays', annotations: {helm.sh/resource-policy: keep}}
`

// keptUnheard instantiates what is to be kept, and stops that while nobody knows whether it was applied: on the first cluster it was, on
// the second one it was not.
func keptUnheard(ctx context.Context, t *testing.T, s *harness.Stack, clusters []*harness.Cluster) *client.Deployment {
	t.Helper()
	d := s.Deployment(ctx, clusters, client.App{Name: "app", Chart: harness.Chart(t, "app", map[string]string{"all.yaml": keptChart})})
	for i, c := range clusters {
		c.Harm(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Method == http.MethodGet {
				next.ServeHTTP(w, r)
				return
			}
			if i == 0 {
				next.ServeHTTP(httptest.NewRecorder(), r)
			}
			panic(http.ErrAbortHandler)
		})
	}
	do(ctx, t, d, "approve", "instantiate")
	waitFor(ctx, t, d, func(g *status.Document) bool { return retrying(g) == 2 })
	got := stopped(ctx, t, d, "InstantiateFailed")
	require.Equal(t, map[domain.ResourceState]int{"Failed": 2}, got.Deployed)
	harm(clusters, nil)
	return d
}

// keptFound ends its terminate, which has found out which of the clusters has it.
func keptFound(ctx context.Context, t *testing.T, s *harness.Stack, clusters []*harness.Cluster, d *client.Deployment) {
	t.Helper()
	got := s.Await(ctx, d, "Terminated")
	require.Equal(t, map[domain.ResourceState]int{"Applied": 1, "Deleted": 1}, got.Deployed)
	holds(t, clusters[:1], got, 1)
	holds(t, clusters[1:], got, 0)
	said, err := d.API.ExplainText(ctx, d.Key())
	require.NoError(t, err)
	require.Contains(t, said, "1 resource on 1 cluster that is meant to stay")
}

func TestKeptIsLookedFor(t *testing.T) {
	t.Parallel()
	ctx, s, clusters := within(t), harness.SharedStack(t), twoClusters(t)
	d := keptUnheard(ctx, t, s, clusters)
	clusters[1].Down()
	do(ctx, t, d, "terminate")
	got := waitFor(ctx, t, d, func(g *status.Document) bool { return g.Deployed["Applied"] == 1 && retrying(g) == 1 })
	require.Equal(t, domain.ContextTerminating, got.Status, "nobody says of what is to be kept that it is there")
	clusters[1].Up(t)
	keptFound(ctx, t, s, clusters, d)
}

func TestAnswersAreLost(t *testing.T) {
	t.Parallel()
	ctx, s, clusters := within(t), harness.SharedStack(t), twoClusters(t)
	d := s.Deployment(ctx, clusters, many(t, 4))
	var writes, cut atomic.Int32
	harm(clusters, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodGet {
			next.ServeHTTP(w, r)
			return
		}
		writes.Add(1)
		if cut.Add(1) > 4 {
			next.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(httptest.NewRecorder(), r) // the cluster has written
		panic(http.ErrAbortHandler)
	})
	do(ctx, t, d, "approve", "instantiate")
	got := s.Await(ctx, d, "Instantiated")
	require.Equal(t, map[domain.ResourceState]int{"Applied": 8}, got.Deployed)
	require.Greater(t, writes.Load(), int32(8), "what was cut off was sent again")
	holds(t, clusters, got, 4)
	cut.Store(0)
	do(ctx, t, d, "terminate")
	got = s.Await(ctx, d, "Terminated")
	require.Equal(t, map[domain.ResourceState]int{"Deleted": 8}, got.Deployed)
	holds(t, clusters, got, 0)
}

func TestEndedByHandInTheWebUI(t *testing.T) {
	t.Parallel()
	s, clusters := harness.SharedStack(t), twoClusters(t)
	temporal := s.TemporalClient()
	begin := func(ctx context.Context, t *testing.T) (d *client.Deployment, id func(domain.Operation) string) {
		d = s.Deployment(ctx, clusters, twoApps(t)...)
		clusters[1].Down()
		do(ctx, t, d, "approve", "instantiate")
		got := waitFor(ctx, t, d, func(g *status.Document) bool { return retrying(g) == 5 && g.Deployed["Applied"] == 5 })
		return d, func(op domain.Operation) string { return workflows.OperationID(scope(d, got.States.ContextID(), op)) }
	}
	terminate := func(ctx context.Context, t *testing.T, d *client.Deployment) {
		do(ctx, t, d, "terminate")
		got := s.Await(ctx, d, "Terminated")
		require.Equal(t, map[domain.ResourceState]int{"Deleted": 10}, got.Deployed)
		holds(t, clusters, got, 0)
	}
	t.Run("cancelled", func(t *testing.T) {
		ctx := within(t)
		d, id := begin(ctx, t)
		require.NoError(t, temporal.CancelWorkflow(ctx, id(domain.OpInstantiate), ""))
		got := s.Await(ctx, d, "InstantiateFailed")
		require.Equal(t, domain.InstantiateStopped, got.States.State())
		clusters[1].Up(t)
		terminate(ctx, t, d)
	})
	t.Run("signalled to stop", func(t *testing.T) {
		ctx := within(t)
		d, id := begin(ctx, t)
		require.NoError(t, temporal.SignalWorkflow(ctx, id(domain.OpInstantiate), "", "stop", nil))
		got := s.Await(ctx, d, "InstantiateFailed")
		require.Equal(t, domain.InstantiateStopped, got.States.State())
		clusters[1].Up(t)
		terminate(ctx, t, d)
	})
	t.Run("terminated", func(t *testing.T) {
		ctx := within(t)
		d, id := begin(ctx, t)
		require.NoError(t, temporal.TerminateWorkflow(ctx, id(domain.OpInstantiate), "", "by hand"))
		got := s.Await(ctx, d, "InstantiateFailed")
		require.Equal(t, domain.Instantiated, got.States.State())
		require.Equal(t, 409, code(t, d.Do(ctx, "stop")))
		clusters[1].Up(t)
		terminate(ctx, t, d)
	})
	t.Run("its terminate terminated", func(t *testing.T) {
		ctx := within(t)
		d, id := begin(ctx, t)
		do(ctx, t, d, "terminate")
		waitFor(ctx, t, d, func(g *status.Document) bool { return g.Status == "Terminating" && retrying(g) > 0 })
		require.NoError(t, temporal.TerminateWorkflow(ctx, id(domain.OpTerminate), "", "by hand"))
		s.Await(ctx, d, "TerminateFailed")
		clusters[1].Up(t)
		terminate(ctx, t, d)
	})
}

func TestServersRestartedMidway(t *testing.T) {
	t.Parallel()
	s, clusters := harness.NewStack(t), twoClusters(t)
	for _, server := range []struct {
		name  string
		kill  func()
		start func()
	}{
		{"Temporal", func() { s.Temporal.Kill() }, s.StartTemporal},
		{"database", func() { s.Database.Kill() }, s.StartDatabase},
	} {
		t.Run(server.name, func(t *testing.T) {
			ctx := within(t)
			d := s.Deployment(ctx, clusters, many(t, 40))
			do(ctx, t, d, "approve")
			goOn := midway(ctx, t, d, clusters, "instantiate", 40)
			server.kill()
			goOn()
			server.start()
			got := s.Await(ctx, d, "Instantiated")
			require.Equal(t, map[domain.ResourceState]int{"Applied": 80}, got.Deployed)
			holds(t, clusters, got, 40)
			goOn = midway(ctx, t, d, clusters, "terminate", 40)
			server.kill()
			goOn()
			server.start()
			got = s.Await(ctx, d, "Terminated")
			require.Equal(t, map[domain.ResourceState]int{"Deleted": 80}, got.Deployed)
			holds(t, clusters, got, 0)
		})
	}
}

func TestSimultaneousInstantiates(t *testing.T) {
	t.Parallel()
	ctx, s, clusters := within(t), harness.SharedStack(t), twoClusters(t)
	d := s.Deployment(ctx, clusters, many(t, 3))
	do(ctx, t, d, "approve")
	const n = 8
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = d.Do(ctx, "instantiate") })
	}
	wg.Wait()
	accepted := 0
	for _, err := range errs {
		var refused *client.Error
		switch {
		case err == nil:
			accepted++
		case errors.As(err, &refused):
			require.Equal(t, 409, refused.Code, "%v", err)
		default:
			require.NoError(t, err)
		}
	}
	require.Equal(t, 1, accepted)
	got := s.Await(ctx, d, "Instantiated")
	require.Equal(t, []string{"Created", "Approved", "Instantiated"}, states(got))
	holds(t, clusters, got, 3)
	do(ctx, t, d, "terminate")
	s.Await(ctx, d, "Terminated")
}
