package observe_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/observe"
	"github.com/drover-io/drover/internal/plan"
)

// configMap makes one that belongs to an app, as an operation does.
func (w *world) configMap(app, name string) {
	w.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
			"name": name, "labels": map[string]any{plan.DeploymentLabel: plan.DeploymentID(w.contextID, app)},
		},
	}}
	_, err := w.client.Resource(configMaps).Namespace(w.namespace).Create(w.Context(), o, metav1.CreateOptions{})
	require.NoError(w, err)
}

// agentLives renews an agent's Lease until die is called or the test ends.
func (w *world) agentLives() (die func()) {
	w.Helper()
	renew := func() error {
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{"name": bundle.LeaseName},
			"spec": map[string]any{"renewTime": metav1.NowMicro().UTC().Format("2006-01-02T15:04:05.000000Z")},
		}}
		_, err := w.client.Resource(leases).Namespace(w.namespace).
			Apply(w.Context(), bundle.LeaseName, o, metav1.ApplyOptions{FieldManager: "agent", Force: true})
		return err
	}
	require.NoError(w, renew())
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		every := time.NewTicker(200 * time.Millisecond)
		defer every.Stop()
		for {
			select {
			case <-stop:
				return
			case <-w.Context().Done():
				return
			case <-every.C:
				_ = renew() // it is tried again
			}
		}
	}()
	w.Cleanup(func() { // watchers see all namespaces, and a Lease looks alive for a while
		<-stopped
		err := w.client.Resource(leases).Namespace(w.namespace).Delete(context.WithoutCancel(w.Context()), bundle.LeaseName, metav1.DeleteOptions{})
		require.NoError(w, err)
	})
	return func() {
		close(stop)
		<-stopped
	}
}

// quick has an agent take over soon. Neither it nor its cluster is missed because the machine is busy.
func quick(c *observe.Config) {
	c.Takeover, c.Silence, c.Probe = 300*time.Millisecond, deadline, deadline
}

// agents says of an observation whether it is an agent's: those of the tests report one kind alone.
func agents(o *domain.Observation) bool {
	return o != nil && slices.Equal(o.Kinds, []string{"ConfigMap"})
}

// resources says whether it is of the resources themselves.
func resources(n int) func(*domain.Observation) bool {
	return func(o *domain.Observation) bool { return o != nil && !agents(o) && len(o.Resources) == n }
}

// TestAutoWithoutAgent: nobody has installed one, before or after the definition.
func TestAutoWithoutAgent(t *testing.T) {
	w := newWorld(t)
	w.undefine()
	w.configMap("app", "a")
	w.watch(domain.ReportAuto, quick)
	w.await("app", resources(1))
	w.define() // somebody has the definition, and no agent
	w.makeBundle("app")
	w.configMap("app", "b")
	w.await("app", resources(2))
	require.Len(t, w.said(), 1, "the cluster was heard all the time")
	require.True(t, w.said()[0].Connected)
}

// TestAutoWithAgent: it was there before anybody watched; then it dies, and what it said stays until the resources say more.
func TestAutoWithAgent(t *testing.T) {
	w := newWorld(t)
	die := w.agentLives()
	w.configMap("app", "a")
	w.makeBundle("app")
	w.fill("app", bundle.MaxSize, object(t, "a", 10))
	w.watch(domain.ReportAuto, func(c *observe.Config) { quick(c); c.Silence = 3 * time.Second })
	w.await("app", agents)
	die()
	w.configMap("app", "b") // of which the agent does not tell any more
	w.await("app", resources(2))
	for _, put := range w.putsOf("app") {
		require.NotEmpty(t, put.Resources, "nothing was forgotten meanwhile")
	}
	for _, c := range w.said() {
		require.True(t, c.Connected, "it was heard all the time: %s", c.Reason)
	}
}

// TestAutoWithAgentThatComesLater: it is heard when it reports on everything that runs there, no sooner.
func TestAutoWithAgentThatComesLater(t *testing.T) {
	w := newWorld(t)
	w.configMap("old", "a")
	w.configMap("gone", "c")
	w.watch(domain.ReportAuto, quick)
	w.await("old", resources(1))
	w.await("gone", resources(1))
	require.NoError(t, w.client.Resource(configMaps).Namespace(w.namespace).Delete(t.Context(), "c", metav1.DeleteOptions{}))
	w.await("gone", resources(0))

	w.agentLives()
	w.configMap("new", "b")
	w.makeBundle("new")
	w.fill("new", bundle.MaxSize, object(t, "b", 10), object(t, "b2", 10))
	w.await("new", resources(1))
	w.makeBundle("old") // as the next operation on it does
	w.fill("old", bundle.MaxSize, object(t, "a", 10))
	w.await("old", agents)
	w.await("new", func(o *domain.Observation) bool { return agents(o) && len(o.Resources) == 2 })
	w.await("gone", gone)
	require.Len(t, w.said(), 1, "the cluster was heard all the time")
}

// TestAutoWhenTheAgentIsRemoved with its definition, and with it all that it wrote.
func TestAutoWhenTheAgentIsRemoved(t *testing.T) {
	w := newWorld(t)
	w.agentLives() // its Lease may outlive it
	w.configMap("app", "a")
	w.makeBundle("app")
	w.fill("app", bundle.MaxSize, object(t, "a", 10), object(t, "b", 10))
	w.watch(domain.ReportAuto, quick)
	w.await("app", agents)
	w.undefine()
	w.await("app", resources(1))
	w.define()
	w.makeBundle("app")
	w.fill("app", bundle.MaxSize, object(t, "a", 10), object(t, "b", 10))
	w.await("app", agents)
}

// TestAutoGoesOnWithOtherCredentials: they are replaced in the middle of a session.
func TestAutoGoesOnWithOtherCredentials(t *testing.T) {
	w := newWorld(t)
	var digest atomic.Value
	digest.Store(domain.Digest("1"))
	clusters, err := kube.NewClusters(kubetest.Patient(kube.Config{}), func(context.Context, domain.ClusterName) ([]byte, domain.Digest, error) {
		return w.kubeconfig, digest.Load().(domain.Digest), nil
	})
	require.NoError(t, err)
	defer clusters.Close()
	w.configMap("app", "a")
	w.watch(domain.ReportAuto, func(c *observe.Config) { quick(c); c.Clusters = clusters })
	w.await("app", resources(1))
	digest.Store(domain.Digest("2"))
	require.NoError(t, clusters.Renew(t.Context(), func(domain.ClusterName) bool { return true }))
	w.configMap("app", "b")
	w.await("app", resources(2))
	require.Len(t, w.said(), 1, "the cluster was heard all the time")
}

// TestAutoAfterALongBreak: an agent that has lived while nobody reached the cluster is heard again at once.
func TestAutoAfterALongBreak(t *testing.T) {
	w := newWorld(t)
	p := w.behindProxy()
	w.agentLives()
	w.configMap("app", "a")
	w.makeBundle("app")
	w.fill("app", bundle.MaxSize, object(t, "a", 10))
	w.watch(domain.ReportAuto, func(c *observe.Config) { quick(c); c.Silence, c.Takeover = time.Hour, time.Hour })
	w.await("app", agents)
	p.setState(cut)
	lost := func() bool { s := w.said(); return !s[len(s)-1].Connected }
	require.Eventually(t, lost, deadline, tick)
	w.watcher.Later(2 * time.Hour)
	p.setState(passing)
	w.awaitContact(true, "")
	w.fill("app", bundle.MaxSize, object(t, "a", 10), object(t, "b", 10))
	w.await("app", func(o *domain.Observation) bool { return agents(o) && len(o.Resources) == 2 })
	for _, put := range w.putsOf("app") {
		require.True(t, agents(&put), "nobody else was heard")
	}
}
