package test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/test/harness"
)

// What clusters report: real clusters whose Pods kwok runs, agents as processes, type=cluster and status=ready.

// reportedResource is a resource in a cluster, in either form.
type reportedResource struct {
	GVK     struct{ Group, Version, Kind string }
	Name    string          `json:"name"`
	Cluster string          `json:"cluster-status"`
	Last    string          `json:"last-cluster-status"`
	Ready   string          `json:"readyStatus"`
	Was     string          `json:"lastReadyStatus"`
	Message string          `json:"message"`
	Detail  json.RawMessage `json:"detail"`
}

// reportedStatus is a status document of what clusters report, in either form.
type reportedStatus struct {
	Counts      map[string]int `json:"cluster-status"`
	Ready       string         `json:"readyStatus"`
	ReadyCounts map[string]int `json:"readyCounts"`
	Apps        []struct {
		Clusters []struct {
			Name         string             `json:"cluster"`
			Connectivity string             `json:"connectivity"`
			Stale        bool               `json:"stale"`
			LastSeen     *time.Time         `json:"last-seen"`
			SeenLast     *time.Time         `json:"lastSeen"`
			Reason       string             `json:"reason"`
			Resources    []reportedResource `json:"resources"`
		} `json:"clusters"`
	} `json:"apps"`
}

// of are the resources of a kind. Pods have names that nobody knows before.
func (r *reportedStatus) of(kind string) (found []reportedResource) {
	for _, a := range r.Apps {
		for _, c := range a.Clusters {
			for _, x := range c.Resources {
				if x.GVK.Kind == kind {
					found = append(found, x)
				}
			}
		}
	}
	return found
}

func (r *reportedStatus) reason() string { return r.Apps[0].Clusters[0].Reason }
func (r *reportedStatus) stale() bool    { return r.Apps[0].Clusters[0].Stale }

// freshness is how soon a change is to be seen; the figure is measured in bench.
const freshness = 20 * time.Second

// fresh waits until the status is as it should be, which it is soon.
func fresh(ctx context.Context, t *testing.T, s *harness.Stack, d *client.Deployment, query string, is func(*reportedStatus) bool) *reportedStatus {
	t.Helper()
	look := lookAt(ctx, s, d, query, is)
	harness.Soon(ctx, t, freshness, look.again, look.said)
	return look.got
}

// reports waits until the status is as it should be.
func reports(ctx context.Context, t *testing.T, s *harness.Stack, d *client.Deployment, query string, is func(*reportedStatus) bool) *reportedStatus {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, harness.Patience)
	defer cancel()
	look := lookAt(ctx, s, d, query, is)
	err := harness.Look(ctx, look.again)
	require.NoError(t, err, "%s", look.text)
	return look.got
}

// looked is what a status was when it was last looked at.
type looked struct {
	again func() bool // looks, and says whether it is as it should be
	got   *reportedStatus
	text  string
}

func (l *looked) said() string { return l.text }

func lookAt(ctx context.Context, s *harness.Stack, d *client.Deployment, query string, is func(*reportedStatus) bool) *looked {
	l := &looked{}
	l.again = func() bool {
		l.got = &reportedStatus{}
		answer, err := s.Read(ctx, client.At(d.Key())+"/status?"+query, l.got)
		if err != nil {
			l.text = err.Error()
			return false
		}
		l.text = query + ": " + string(answer.Body)
		return is(l.got)
	}
	return l
}

// ready says that everything is, and that there are n Pods.
func ready(n int) func(*reportedStatus) bool {
	return func(r *reportedStatus) bool { return r.Ready == "Ready" && len(r.of("Pod")) == n }
}

// reported is an app with a Deployment, a Service and two ConfigMaps.
func reportedApp(t *testing.T) client.App {
	t.Helper()
	templates := harness.ConfigMaps("site", 2)
	for name, text := range harness.Web("site") {
		templates[name] = text
	}
	return client.App{Name: "site", Chart: harness.Chart(t, "site", templates)}
}

// terminate waits until nothing is left, the report included.
func terminate(ctx context.Context, t *testing.T, s *harness.Stack, d *client.Deployment, c *harness.Cluster) {
	t.Helper()
	do(ctx, t, d, "terminate")
	nothingLeft(ctx, t, s, d, c)
}

// nothingLeft waits until a deployment is terminated, of which nothing is left then.
func nothingLeft(ctx context.Context, t *testing.T, s *harness.Stack, d *client.Deployment, c *harness.Cluster) {
	t.Helper()
	got := s.Await(ctx, d, "Terminated")
	require.Empty(t, c.Labelled(t, got.States.ContextID()))
	for name := range c.Reports(t) {
		require.NotContains(t, name, got.States.ContextID())
	}
}

func clusterStatus(t *testing.T) {
	ctx, s, clusters := within(t), harness.NewStack(t), clustersOfAgents(t)
	c := clusters[0]

	t.Run("without the definition", func(t *testing.T) {
		ctx := within(t)
		d := s.On(ctx, []domain.ClusterName{register(ctx, t, s, c, "agent")}, reportedApp(t))
		do(ctx, t, d, "approve", "instantiate")
		got := s.Await(ctx, d, "Instantiated")
		require.Equal(t, map[domain.ResourceState]int{"Applied": 4}, got.Deployed)
		const lacking = "the cluster has no ResourceBundleState CRD"
		unknown := fresh(ctx, t, s, d, "type=cluster", func(r *reportedStatus) bool { return r.reason() == lacking })
		require.Equal(t, map[string]int{"Unknown": 4}, unknown.Counts)
		do(ctx, t, d, "terminate")
		s.Await(ctx, d, "Terminated")
	})

	t.Run("in a way that there is not", func(t *testing.T) {
		ctx := within(t)
		_, err := s.Client.API().Create(ctx, &domain.Cluster{
			Identity: domain.Identity{Parent: "cluster-providers/none"}, Metadata: domain.Metadata{Name: c.Name},
			Spec: domain.ClusterSpec{Report: "telepathy"},
		}, c.Kubeconfig(t))
		require.Equal(t, 400, code(t, err))
		require.ErrorContains(t, err, "spec.report")
	})

	t.Run("without an agent", func(t *testing.T) {
		ctx := within(t)
		d := s.On(ctx, []domain.ClusterName{register(ctx, t, s, c, "agentless")}, reportedApp(t))
		do(ctx, t, d, "approve", "instantiate")
		changes(ctx, t, s, c, d)
		require.Empty(t, c.Reports(t))
		terminate(ctx, t, s, d, c)
	})

	clusters[1].DefineReports(t)
	other := clusters[1].StartAgent(t)
	silenced := s.On(ctx, []domain.ClusterName{register(ctx, t, s, clusters[1], "agent")}, reportedApp(t))
	do(ctx, t, silenced, "approve", "instantiate")
	reports(ctx, t, s, silenced, "status=ready", ready(1))
	other.Kill() // it takes its time until it is missed

	// kwok only seems to run the agent that is installed: it is started by hand.
	d := s.On(ctx, []domain.ClusterName{register(ctx, t, s, c, "install")}, reportedApp(t))
	c.UninstallAgent(t)
	do(ctx, t, d, "approve", "instantiate")
	s.Await(ctx, d, "Instantiated")
	require.True(t, c.HasAgent(t))
	require.Len(t, c.Reports(t), 1)
	agent := c.StartAgent(t)
	changes(ctx, t, s, c, d)

	t.Run("worker killed", func(t *testing.T) {
		ctx := within(t)
		fresh(ctx, t, s, d, "status=ready", ready(1))
		s.Worker.Kill()
		killed := time.Now()
		scale(ctx, t, c, d, 3)
		s.StartWorker()
		reports(ctx, t, s, d, "status=ready", ready(3))
		t.Logf("what happened meanwhile is seen %s after the kill", time.Since(killed).Round(10*time.Millisecond))
	})

	t.Run("agent killed", func(t *testing.T) {
		ctx := within(t)
		got := reports(ctx, t, s, silenced, "type=cluster", (*reportedStatus).stale)
		require.Len(t, got.of("Pod"), 1, "what was last reported is still shown")
		require.NotNil(t, got.Apps[0].Clusters[0].LastSeen)
		scale(ctx, t, clusters[1], silenced, 2)
		clusters[1].StartAgent(t)
		reports(ctx, t, s, silenced, "status=ready", ready(2))
	})

	t.Run("terminate waits for the report", func(t *testing.T) {
		ctx := within(t)
		require.Len(t, c.Reports(t), 1)
		terminate(ctx, t, s, d, c)
		terminate(ctx, t, s, silenced, clusters[1])
	})

	t.Run("terminate does not wait for an agent that is gone", func(t *testing.T) {
		ctx := within(t)
		d := s.On(ctx, []domain.ClusterName{register(ctx, t, s, c, "agent")}, reportedApp(t))
		do(ctx, t, d, "approve", "instantiate")
		reports(ctx, t, s, d, "status=ready", ready(1))
		agent.Kill()
		do(ctx, t, d, "terminate")
		harness.Soon(ctx, t, 15*time.Second, func() bool {
			got, err := d.Summary(ctx)
			return err == nil && got.Status == "Terminated"
		}, func() string { return "it is still waited for" })
		nothingLeft(ctx, t, s, d, c)
		reports(ctx, t, s, d, "type=cluster", func(r *reportedStatus) bool {
			return strings.HasSuffix(r.reason(), "the cluster's agent did not confirm that the resources are gone")
		})
	})
}

// register registers a cluster that reports in some way.
func register(ctx context.Context, t *testing.T, s *harness.Stack, c *harness.Cluster, how domain.Report) domain.ClusterName {
	t.Helper()
	return s.RegisterAs(ctx, c.Name, c.Kubeconfig(t), how)
}

// changes makes changes in the cluster and looks for them in the status.
func changes(ctx context.Context, t *testing.T, s *harness.Stack, c *harness.Cluster, d *client.Deployment) {
	t.Helper()
	kube, name := c.Client(t), d.Release+"-site"
	// kwok takes a moment to run the Pod; until then the Deployment is not ready.
	reports(ctx, t, s, d, "status=ready", ready(1))
	got := fresh(ctx, t, s, d, "type=cluster", func(r *reportedStatus) bool { return r.Counts["Present"] > 4 && len(r.Counts) == 1 })

	pod := got.of("Pod")[0].Name
	require.NoError(t, kube.CoreV1().Pods("default").Delete(ctx, pod, metav1.DeleteOptions{}))
	fresh(ctx, t, s, d, "status=ready", func(r *reportedStatus) bool { return ready(1)(r) && r.of("Pod")[0].Name != pod })

	configMaps := kube.CoreV1().ConfigMaps("default")
	edit := []byte(`{"data":{"edited":"by hand"}}`) // which does not leave the cluster
	edited, err := configMaps.Patch(ctx, name+"-000", types.MergePatchType, edit, metav1.PatchOptions{})
	require.NoError(t, err)
	fresh(ctx, t, s, d, "type=cluster&output=detail&resource="+name+"-000", func(r *reportedStatus) bool {
		found := r.of("ConfigMap")
		return len(found) == 1 && strings.Contains(string(found[0].Detail), `"resourceVersion":"`+edited.ResourceVersion+`"`)
	})

	require.NoError(t, configMaps.Delete(ctx, name+"-001", metav1.DeleteOptions{}))
	fresh(ctx, t, s, d, "type=cluster", func(r *reportedStatus) bool { return r.Counts["NotPresent"] == 1 })
	_, err = configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name + "-001", Labels: edited.Labels}}, metav1.CreateOptions{})
	require.NoError(t, err)
	fresh(ctx, t, s, d, "status=ready", ready(1))
}

// scale changes the Deployment by hand.
func scale(ctx context.Context, t *testing.T, c *harness.Cluster, d *client.Deployment, replicas int32) {
	t.Helper()
	deployments, name := c.Client(t).AppsV1().Deployments("default"), d.Release+"-site"
	to, err := deployments.GetScale(ctx, name, metav1.GetOptions{})
	require.NoError(t, err)
	to.Spec.Replicas = replicas
	_, err = deployments.UpdateScale(ctx, name, to, metav1.UpdateOptions{})
	require.NoError(t, err)
}
