package observe_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/observe"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/readiness"
)

func TestWhatAnAgentWrites(t *testing.T) {
	w := newWorld(t)
	w.makeBundle("early")
	w.fill("early", bundle.MaxSize, object(t, "a", 10))
	w.makeBundle("empty")
	w.watch(domain.ReportAgent, nil)

	o := w.await("early", there)
	require.Equal(t, []string{"ConfigMap"}, o.Kinds)
	require.Equal(t, cluster, o.Cluster)
	require.Len(t, o.Resources, 1)
	r := o.Resources[0]
	require.Equal(t, "v1 ConfigMap ns a", strings.Join([]string{r.Version, r.Kind, r.Namespace, r.Name}, " "))
	require.Equal(t, string(readiness.Ready), r.Status)
	require.JSONEq(t, string(object(t, "a", 10).JSON), string(r.JSON))
	require.True(t, w.said()[0].Connected)

	w.makeBundle("late")
	w.fill("late", bundle.MaxSize, object(t, "a", 10), object(t, "b", 10))
	w.await("late", has(2))
	w.fill("early", bundle.MaxSize, object(t, "a", 11))
	w.await("early", func(o *domain.Observation) bool {
		return string(o.Resources[0].JSON) == string(object(t, "a", 11).JSON)
	})
	require.Nil(t, w.observed("empty"), "nobody has filled it")
	w.unheard = []bundle.Unheard{{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Since: time.Unix(1, 0).UTC(), Reason: "forbidden"}}
	w.fill("early", bundle.MaxSize, object(t, "a", 11))
	o = w.await("early", func(o *domain.Observation) bool { return o.Unheard != nil })
	require.Equal(t, []domain.UnheardKind{{Kind: "ConfigMap", Since: time.Unix(1, 0).UTC(), Reason: "forbidden"}}, o.Unheard)

	require.NoError(t, w.client.Resource(bundles).Namespace(w.namespace).Delete(t.Context(), bundle.Name("early", w.contextID), metav1.DeleteOptions{}))
	w.await("early", gone)
	require.NotNil(t, w.observed("late"))
	require.Len(t, w.said(), 1, "nothing happened to the connection")
}

func TestWhatDoesNotChangeIsNotPutAgain(t *testing.T) {
	w := newWorld(t)
	w.makeBundle("app")
	w.fill("app", bundle.MaxSize, object(t, "a", 10))
	w.watch(domain.ReportAgent, nil)
	w.await("app", there)
	touch := []byte(`{"metadata":{"annotations":{"touched":"yes"}}}`)
	_, err := w.client.Resource(bundles).Namespace(w.namespace).
		Patch(t.Context(), bundle.Name("app", w.contextID), "application/merge-patch+json", touch, metav1.PatchOptions{})
	require.NoError(t, err)
	w.makeBundle("other") // what is seen after the touch
	w.fill("other", bundle.MaxSize, object(t, "b", 10))
	w.await("other", there)
	require.Len(t, w.putsOf("app"), 1)
}

func TestAReportInParts(t *testing.T) {
	w := newWorld(t)
	w.makeBundle("app")
	var all []*bundle.Object
	for i := range 40 {
		all = append(all, object(t, fmt.Sprintf("o%02d", i), 14<<10)) // too small to be summarised
	}
	w.watch(domain.ReportAgent, nil)
	w.fill("app", bundle.MinSize, all...)
	w.await("app", has(40))
	all[7] = object(t, "o07", 13<<10)
	w.fill("app", bundle.MinSize, all...)
	o := w.await("app", func(o *domain.Observation) bool {
		r := resource(o, "ConfigMap", "o07")
		return r != nil && string(r.JSON) == string(all[7].JSON)
	})
	require.Len(t, o.Resources, 40)
	for _, put := range w.putsOf("app") {
		require.Len(t, put.Resources, 40, "half a report is none")
	}
}

func TestAReportThatCannotBeStoredIsStoredLater(t *testing.T) {
	w := newWorld(t)
	for i := range 6 { // more than are reported at a time
		app := fmt.Sprintf("app%d", i)
		w.makeBundle(app)
		w.fill(app, bundle.MaxSize, object(t, "a", 10))
	}
	w.refusals = 8
	w.watch(domain.ReportAgent, nil)
	for i := range 6 {
		w.await(fmt.Sprintf("app%d", i), there)
	}
}

// TestAReportThatIsRefusedConcernsNoOther: the cluster is heard, and the app is reported when it is taken.
func TestAReportThatIsRefusedConcernsNoOther(t *testing.T) {
	w := newWorld(t)
	for _, app := range []string{"bad", "good"} {
		w.makeBundle(app)
		w.fill(app, bundle.MaxSize, object(t, "a", 10))
	}
	w.bad = "bad"
	w.watch(domain.ReportAgent, nil)
	w.await("good", there)
	require.Eventually(t, func() bool { return len(w.putsOf("bad")) > 2 }, deadline, tick)
	w.fill("good", bundle.MaxSize, object(t, "a", 10), object(t, "b", 10))
	w.await("good", has(2))
	require.Len(t, w.said(), 1)
	require.True(t, w.said()[0].Connected)
	require.Nil(t, w.observed("bad"))
	w.mu.Lock()
	w.bad = ""
	w.mu.Unlock()
	w.await("bad", there)
	require.Len(t, w.said(), 1)
}

func TestAnAppWithALongName(t *testing.T) {
	w := newWorld(t)
	app := strings.Repeat("long", 25)
	w.makeBundle(app)
	w.fill(app, bundle.MaxSize, object(t, "a", 10))
	w.watch(domain.ReportAgent, nil)
	w.await(app, there)
	require.NoError(t, w.client.Resource(bundles).Namespace(w.namespace).Delete(t.Context(), bundle.Name(app, w.contextID), metav1.DeleteOptions{}))
	w.await(app, gone)
}

func TestWhatIsKnownAndGone(t *testing.T) {
	w := newWorld(t)
	known := domain.ObservedApp{ContextID: w.contextID, App: "gone", Cluster: cluster}
	require.NoError(t, w.store.PutObservation(t.Context(), &domain.Observation{ObservedApp: known}))
	stored, err := w.store.Observed(t.Context(), []string{w.contextID})
	require.NoError(t, err)
	require.Equal(t, []domain.ObservedApp{known}, stored)
	w.watch(domain.ReportAgent, func(c *observe.Config) { c.Known = stored })
	w.await("gone", gone)
}

func TestAConnectionThatBreaks(t *testing.T) {
	w := newWorld(t)
	p := w.behindProxy()
	w.makeBundle("app")
	w.fill("app", bundle.MaxSize, object(t, "a", 10))
	w.watch(domain.ReportAgent, nil)
	w.await("app", there)
	require.Equal(t, 1, p.connections(), "all requests share a connection")

	p.setState(cut)
	require.Eventually(t, func() bool { s := w.said(); return !s[len(s)-1].Connected }, deadline, tick)
	lost := w.said()[len(w.said())-1]
	require.Contains(t, lost.Reason, "cannot be reached")
	require.False(t, lost.LastSeen.IsZero())
	w.fill("app", bundle.MaxSize, object(t, "a", 11))
	p.setState(passing)
	w.awaitContact(true, "")
	w.await("app", func(o *domain.Observation) bool {
		return string(o.Resources[0].JSON) == string(object(t, "a", 11).JSON)
	})
}

func TestADeadConnectionIsNoticed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.behindProxy()
	w.watch(domain.ReportAgent, nil)
	w.awaitContact(true, "")
	p.freeze()
	began := time.Now()
	require.Eventually(t, func() bool { s := w.said(); return !s[len(s)-1].Connected }, deadline, tick)
	t.Logf("noticed after %s", time.Since(began).Round(100*time.Millisecond))
	p.unfreeze()
	p.breakAll()
	w.awaitContact(true, "")
}

func TestAClusterThatIsNotThere(t *testing.T) {
	w := newWorld(t)
	p := w.behindProxy()
	p.setState(cut)
	w.watch(domain.ReportAgent, nil)
	require.Eventually(t, func() bool { return len(w.said()) > 0 }, deadline, tick)
	require.False(t, w.said()[0].Connected)
	require.True(t, w.said()[0].LastSeen.IsZero())
	p.setState(passing)
	w.awaitContact(true, "")
}

func TestADefinitionThatComesLate(t *testing.T) {
	w := newWorld(t)
	w.undefine()
	w.watch(domain.ReportAgent, func(c *observe.Config) { c.RetryMost = time.Hour })
	w.awaitContact(false, "the cluster has no ResourceBundleState CRD")
	w.define()
	w.awaitContact(true, "")
	w.makeBundle("app")
	w.fill("app", bundle.MaxSize, object(t, "a", 10))
	w.await("app", there)
	w.undefine()
	w.awaitContact(false, "the cluster has no ResourceBundleState CRD")
	w.define()
	w.awaitContact(true, "")
	w.await("app", gone)
}

func TestAnAgentThatFallsSilent(t *testing.T) {
	const silent = "the agent in the cluster does not answer"
	w := newWorld(t)
	renewed := func(at time.Time) {
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{"name": bundle.LeaseName},
			"spec": map[string]any{"renewTime": metav1.NewMicroTime(at).UTC().Format("2006-01-02T15:04:05.000000Z")},
		}}
		_, err := w.client.Resource(leases).Namespace(w.namespace).
			Apply(t.Context(), bundle.LeaseName, o, metav1.ApplyOptions{FieldManager: "agent", Force: true})
		require.NoError(t, err)
	}
	old := time.Now().Add(-time.Hour)
	renewed(old)
	w.watch(domain.ReportAgent, func(c *observe.Config) { c.Silence = 2 * time.Second })
	w.awaitContact(false, silent)
	require.WithinDuration(t, old, w.said()[0].LastSeen, time.Second)
	require.Eventually(t, func() bool { // that it is heard may be over before anybody looks
		renewed(time.Now())
		return slices.ContainsFunc(w.said(), func(c domain.Watch) bool { return c.Connected })
	}, deadline, tick)
	w.awaitContact(false, silent)
	require.NoError(t, w.client.Resource(leases).Namespace(w.namespace).Delete(t.Context(), bundle.LeaseName, metav1.DeleteOptions{}))
	require.Equal(t, silent, w.said()[len(w.said())-1].Reason)
}

func TestAReportThatCannotBeWritten(t *testing.T) {
	w := newWorld(t)
	w.makeBundle("app")
	w.fill("app", bundle.MaxSize, object(t, "a", 10))
	w.watch(domain.ReportAgent, nil)
	w.await("app", there)
	status, err := bundle.Unwritten(bundle.Head{}, 1, errors.New("it is too large"))
	require.NoError(t, err)
	patch := []byte(`[{"op":"replace","path":"/status","value":` + string(status) + `}]`)
	_, err = w.client.Resource(bundles).Namespace(w.namespace).
		Patch(t.Context(), bundle.Name("app", w.contextID), types.JSONPatchType, patch, metav1.PatchOptions{}, "status")
	require.NoError(t, err)
	o := w.await("app", func(o *domain.Observation) bool { return o != nil && o.Error != "" })
	require.Equal(t, "it is too large", o.Error)
	puts := w.putsOf("app")
	require.Empty(t, puts[len(puts)-1].Resources, "what was reported before is not taken for what is")
	require.Len(t, o.Resources, 1, "but it is kept as what was")
	require.False(t, o.Since.IsZero())
}

// TestAnAgentThatIsGone: it was removed with its Lease before anybody watched.
func TestAnAgentThatIsGone(t *testing.T) {
	w := newWorld(t)
	w.lease = w.namespace
	w.makeBundle("app")
	w.fill("app", bundle.MaxSize, object(t, "a", 10))
	w.watch(domain.ReportAgent, nil)
	w.await("app", there)
	w.awaitContact(false, "the agent in the cluster does not answer")
	require.Len(t, w.said(), 1, "nobody was told that it is heard")
}

func TestDeploymentIDsAreFoundByEitherName(t *testing.T) {
	id := plan.DeploymentID("4711", strings.Repeat("a", 100))
	_, app, _ := strings.Cut(id, "-")
	require.Equal(t, id, plan.DeploymentID("4711", app))
}

func TestNothingToWatch(t *testing.T) {
	_, err := observe.New(observe.Config{Report: domain.ReportNone})
	require.Error(t, err)
}
