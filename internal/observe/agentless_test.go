package observe_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/monitor"
	"github.com/drover-io/drover/internal/plan"
)

// apply applies a manifest with an app's label, as an instantiation does.
func (w *world) apply(resource schema.GroupVersionResource, app, manifest string) {
	w.Helper()
	data, err := yaml.YAMLToJSON([]byte(manifest))
	require.NoError(w, err)
	data, err = plan.Stamp(data, w.namespace, map[string]string{plan.DeploymentLabel: plan.DeploymentID(w.contextID, app)})
	require.NoError(w, err)
	var o unstructured.Unstructured
	require.NoError(w, o.UnmarshalJSON(data))
	_, err = w.client.Resource(resource).Namespace(w.namespace).Apply(w.Context(), o.GetName(), &o, metav1.ApplyOptions{FieldManager: "test", Force: true})
	require.NoError(w, err)
}

func (w *world) delete(resource schema.GroupVersionResource, name string) {
	w.Helper()
	require.NoError(w, w.client.Resource(resource).Namespace(w.namespace).Delete(w.Context(), name, metav1.DeleteOptions{}))
}

func configMap(name, value string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, annotations: {note: %q}}, data: {secret: hidden}}", name, value)
}

const (
	secret     = `{apiVersion: v1, kind: Secret, metadata: {name: s, annotations: {copy: hidden}}, stringData: {password: hidden}}`
	deployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 2, selector: {matchLabels: {app: d}},
		template: {metadata: {labels: {app: d}}, spec: {automountServiceAccountToken: false, containers: [{name: c, image: i}]}}}}`
)

func TestAgentless(t *testing.T) {
	w := newWorld(t)
	w.apply(configMaps, "app", configMap("c", "one"))
	w.watch(domain.ReportAgentless, nil)
	o := w.await("app", has(1))
	require.Contains(t, o.Kinds, "Deployment.apps")
	require.Contains(t, o.Kinds, "Pod")
	require.NotContains(t, o.Kinds, "ResourceBundleState.k8splugin.io")
	require.True(t, w.said()[0].Connected)

	w.apply(deployments, "app", deployment)
	w.apply(secrets, "app", secret)
	o = w.await("app", has(5))
	require.NotNil(t, resource(o, "Deployment", "d"))
	pods := slices.DeleteFunc(slices.Clone(o.Resources), func(r domain.ObservedResource) bool { return r.Kind != "Pod" })
	require.Len(t, pods, 2, "the template's label makes the Pods belong to the app, and the ReplicaSet is left out")
	require.Equal(t, "NotReady", resource(o, "Deployment", "d").Status)
	for _, r := range o.Resources {
		require.NotContains(t, string(r.JSON), "managedFields")
		require.NotContains(t, string(r.JSON), "hidden", "%s %s", r.Kind, r.Name)
		require.NotContains(t, string(r.JSON), "aGlkZGVu", "base64")
	}

	w.apply(configMaps, "app", configMap("c", "two"))
	w.await("app", func(o *domain.Observation) bool {
		return strings.Contains(string(resource(o, "ConfigMap", "c").JSON), "two")
	})
	w.delete(secrets, "s")
	w.await("app", has(4))
	w.delete(deployments, "d")
	w.await("app", has(1))
	w.delete(configMaps, "c")
	w.await("app", has(0))
}

func TestAgentlessSeesWhatTheAgentReports(t *testing.T) {
	w := newWorld(t)
	config, err := clientcmd.RESTConfigFromKubeConfig(w.kubeconfig)
	require.NoError(t, err)
	w.makeBundle("app")
	w.apply(configMaps, "app", configMap("c", "one"))
	w.apply(secrets, "app", secret)
	w.apply(deployments, "app", deployment)
	stop := w.watch(domain.ReportAgentless, nil)
	asExpected := func(o *domain.Observation) bool { // nothing runs the Pods
		return o != nil && len(o.Resources) == 5 && strings.Contains(string(resource(o, "Deployment", "d").JSON), `"updatedReplicas":2`)
	}
	seen := w.await("app", asExpected)
	stop()
	require.NoError(t, w.store.DeleteObservation(t.Context(), seen.ObservedApp, domain.Turn{}))

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	monitor.SetLog(slog.New(slog.DiscardHandler))
	go func() {
		ended <- monitor.Run(ctx, monitor.Config{
			Cluster: config, Interval: 100 * time.Millisecond, MaxSize: bundle.MaxSize, Discover: true, Log: slog.New(slog.DiscardHandler),
		})
	}()
	defer func() {
		cancel()
		require.NoError(t, <-ended)
	}()
	w.watch(domain.ReportAgent, nil)
	reported := w.await("app", func(o *domain.Observation) bool { return asExpected(o) && len(o.Kinds) == len(seen.Kinds) })
	for _, o := range []*domain.Observation{seen, reported} {
		for i := range o.Resources { // the one was stored before the other
			require.NotZero(t, o.Resources[i].Stored)
			o.Resources[i].Stored = time.Time{}
		}
	}
	require.Empty(t, cmp.Diff(seen, reported))
}

func TestABurstOfChanges(t *testing.T) {
	w := newWorld(t)
	const changes = 40
	interval := 200 * time.Millisecond
	w.watch(domain.ReportAgentless, nil)
	w.awaitContact(true, "")
	w.apply(configMaps, "app", configMap("c", "first"))
	w.await("app", there)
	began := time.Now()
	for i := range changes {
		w.apply(configMaps, "app", configMap("c", fmt.Sprintf("note%d.", i)))
	}
	last := fmt.Sprintf("note%d.", changes-1)
	w.await("app", func(o *domain.Observation) bool {
		return o != nil && len(o.Resources) == 1 && strings.Contains(string(o.Resources[0].JSON), last)
	})
	most := int(time.Since(began)/interval) + 2
	require.LessOrEqual(t, len(w.putsOf("app"))-1, most)
}

func TestAgentlessFollowsNewKinds(t *testing.T) {
	w := newWorld(t)
	group := kubetest.Name("group") + ".example.com"
	w.watch(domain.ReportAgentless, nil)
	w.awaitContact(true, "")
	widgets := kubetest.OneVersion(w, w.client, group, "v1", "Widget")
	remove := func() { kubetest.Undefine(w, w.client, widgets) }
	t.Cleanup(remove)
	w.apply(widgets, "app", fmt.Sprintf("{apiVersion: %s/v1, kind: Widget, metadata: {name: w}}", group))
	w.apply(configMaps, "app", configMap("c", "one"))
	seen := w.await("app", has(2))
	require.Contains(t, seen.Kinds, "Widget."+group)
	remove()
	w.await("app", has(1))
	require.Len(t, w.said(), 1, "the cluster was heard all the time")
	w.await("app", func(o *domain.Observation) bool { return !slices.Contains(o.Kinds, "Widget."+group) })
}

// TestAgentlessWithAKindOfAnotherVersion: one that the version of its group which the cluster prefers does not have, and never had or has no more, is
// heard.
func TestAgentlessWithAKindOfAnotherVersion(t *testing.T) {
	w := newWorld(t)
	group := kubetest.Name("group") + ".example.com"
	gadgets := kubetest.OneVersion(t, w.client, group, "v1alpha1", "Gadget")
	t.Cleanup(func() { kubetest.Undefine(t, w.client, gadgets) })
	w.apply(gadgets, "app", fmt.Sprintf("{apiVersion: %s/v1alpha1, kind: Gadget, metadata: {name: g}}", group))
	w.watch(domain.ReportAgentless, nil)
	w.await("app", has(1))

	widgets := kubetest.Widgets(t, w.client, group, false)
	t.Cleanup(func() { kubetest.Undefine(t, w.client, widgets) })
	w.apply(widgets, "app", fmt.Sprintf("{apiVersion: %s/v1, kind: Widget, metadata: {name: w}}", group))
	o := w.await("app", func(o *domain.Observation) bool {
		return slices.Contains(o.Kinds, "Widget."+group) && resource(o, "Widget", "w") != nil
	})
	require.Contains(t, o.Kinds, "Gadget."+group)
	require.NotNil(t, resource(o, "Gadget", "g"))
	w.delete(gadgets, "g")
	w.await("app", has(1))
}

// TestAgentlessWithAKindThatCannotBeListed: what was heard of it stays, as old, and the other kinds are heard.
func TestAgentlessWithAKindThatCannotBeListed(t *testing.T) {
	w := newWorld(t)
	group := kubetest.Name("group") + ".example.com"
	widgets := kubetest.Widgets(t, w.client, group, false)
	t.Cleanup(func() { kubetest.Undefine(t, w.client, widgets) })
	w.apply(widgets, "app", fmt.Sprintf("{apiVersion: %s/v1, kind: Widget, metadata: {name: w}}", group))
	w.watch(domain.ReportAgentless, nil)
	o := w.await("app", has(1))
	require.Empty(t, o.Unheard)

	kubetest.Widgets(t, w.client, group, true)
	w.apply(widgets, "app", fmt.Sprintf("{apiVersion: %s/v1, kind: Widget, metadata: {name: w}, spec: changed}", group))
	o = w.await("app", func(o *domain.Observation) bool { // at first it may be that its storage is being initialized
		return len(o.Unheard) > 0 && strings.Contains(o.Unheard[0].Reason, "conversion webhook")
	})
	require.Len(t, o.Unheard, 1)
	require.Equal(t, "Widget."+group, o.Unheard[0].Kind)
	require.False(t, o.Unheard[0].Since.IsZero())
	require.Contains(t, o.Kinds, o.Unheard[0].Kind)
	require.NotNil(t, resource(o, "Widget", "w"))
	w.apply(configMaps, "app", configMap("c", "one"))
	w.await("app", has(2))

	w.delete(widgets, "w")
	kubetest.Widgets(t, w.client, group, false)
	w.await("app", func(o *domain.Observation) bool { return len(o.Unheard) == 0 && len(o.Resources) == 1 })
	require.Len(t, w.said(), 1, "the cluster was heard all the time")
}

func TestAgentlessAfterABreak(t *testing.T) {
	w := newWorld(t)
	p := w.behindProxy()
	w.apply(configMaps, "app", configMap("a", "one"))
	w.apply(configMaps, "app", configMap("b", "one"))
	w.watch(domain.ReportAgentless, nil)
	w.await("app", has(2))
	p.setState(cut)
	require.Eventually(t, func() bool { s := w.said(); return !s[len(s)-1].Connected }, deadline, tick)
	w.delete(configMaps, "a")
	w.apply(secrets, "app", secret)
	p.setState(passing)
	w.awaitContact(true, "")
	o := w.await("app", func(o *domain.Observation) bool {
		return resource(o, "ConfigMap", "a") == nil && resource(o, "Secret", "s") != nil
	})
	require.NotNil(t, resource(o, "ConfigMap", "b"))
}
