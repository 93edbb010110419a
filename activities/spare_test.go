package activities_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/plan"
)

// TestWhatOthersHaveStays: an app's chart has objects that somebody had made before, with which what others have would go. They are left as
// they are, and a terminate leaves them.
func TestWhatOthersHaveStays(t *testing.T) {
	admin := kubetest.Dynamic(t, kubetest.Kubeconfig(t))
	before, own, group := kubetest.Name("before"), kubetest.Name("own"), kubetest.Name("spare")+".example.com"
	kubetest.MakeNamespace(t, admin, before)
	crd := func(versions string) string {
		return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.` + group + `"},"spec":{"group":"` + group + `",
			"scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},"versions":[` + versions + `]}}`
	}
	version := func(name string, storage bool) string {
		return fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}`, name, storage)
	}
	definitions := kubetest.Define(t, admin, []byte(crd(version("v1", false)+","+version("v2", true))))
	t.Cleanup(func() { kubetest.Undefine(t, admin, definitions) })
	claims := schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	claim := `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`
	object := &unstructured.Unstructured{}
	require.NoError(t, json.Unmarshal([]byte(claim), &object.Object))
	_, err := admin.Resource(claims).Namespace(before).Create(t.Context(), object, metav1.CreateOptions{})
	require.NoError(t, err)

	bundle := plan.Bundle{App: "app"}
	add := func(id plan.ResourceID, keep bool, manifest string) {
		bundle.Resources = append(bundle.Resources, plan.Resource{ResourceID: id, Stage: len(bundle.Resources), Keep: keep, Manifest: json.RawMessage(manifest)})
	}
	namespace := func(name string) {
		add(plan.ResourceID{Version: "v1", Kind: "Namespace", Name: name}, false, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+name+`","labels":{"team":"a"}}}`)
	}
	namespace(before)
	namespace(own)
	add(plan.ResourceID{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: "widgets." + group}, true, crd(version("v1", true)))
	add(plan.ResourceID{Version: "v1", Kind: "PersistentVolumeClaim", Name: "data"}, false, claim)
	add(plan.ResourceID{Version: "v1", Kind: "PersistentVolumeClaim", Name: "more"}, false, `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"more"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`)
	l := newRealLeaf(t, bundle, before)
	out, err := l.run()
	require.NoError(t, err)
	require.Equal(t, domain.Marks("KAKKA"), domain.DecodeMarks(out.Marks))
	stored, err := l.store.Leaf(t.Context(), l.in.LeafID())
	require.NoError(t, err)
	require.Len(t, stored.Notes, 3)
	require.Contains(t, stored.Notes[0].Message, "it was there before the app")
	require.Contains(t, stored.Notes[1].Message, "the cluster has it with v2, too")
	o, err := admin.Resource(allNamespaces).Get(t.Context(), before, metav1.GetOptions{})
	require.NoError(t, err)
	require.NotContains(t, o.GetLabels(), "team")
	live, err := admin.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).Get(t.Context(), "widgets."+group, metav1.GetOptions{})
	require.NoError(t, err)
	versions, _, _ := unstructured.NestedSlice(live.Object, "spec", "versions")
	require.Len(t, versions, 2)

	l.in.Operation, l.in.Inherited = domain.OpTerminate, out.Marks
	l.env = l.environment()
	out, err = l.run()
	require.NoError(t, err)
	require.Equal(t, domain.Marks("KDKKD"), domain.DecodeMarks(out.Marks))
	o, err = admin.Resource(allNamespaces).Get(t.Context(), before, metav1.GetOptions{})
	require.NoError(t, err)
	require.NotEqual(t, corev1.NamespaceTerminating, corev1.NamespacePhase(o.Object["status"].(map[string]any)["phase"].(string)))
	_, err = admin.Resource(claims).Namespace(before).Get(t.Context(), "data", metav1.GetOptions{})
	require.NoError(t, err)
}

// TestFieldsOfOthersDefinitionsStay: of two CRDs with the same versions the one with more fields stays. Where the chart's has some of its own, it
// is applied, and what goes is told of.
func TestFieldsOfOthersDefinitionsStay(t *testing.T) {
	admin := kubetest.Dynamic(t, kubetest.Kubeconfig(t))
	namespace, group := kubetest.Name("spare"), kubetest.Name("spare")+".example.com"
	kubetest.MakeNamespace(t, admin, namespace)
	crd := func(fields string) string {
		return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.` + group + `"},"spec":{"group":"` + group + `",
			"scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},"versions":[{"name":"v1","served":true,"storage":true,
			"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{` + fields + `}}}}}}]}}`
	}
	old, young := `"size":{"type":"integer"}`, `"size":{"type":"integer"},"color":{"type":"string"}`
	definitions := kubetest.Define(t, admin, []byte(crd(young)))
	t.Cleanup(func() { kubetest.Undefine(t, admin, definitions) })
	operation := domain.OpInstantiate
	apply := func(fields string) (*domain.Leaf, string) {
		l := newRealLeaf(t, plan.Bundle{App: "app", Resources: []plan.Resource{{
			ResourceID: plan.ResourceID{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: "widgets." + group}, Keep: true,
			Manifest: json.RawMessage(crd(fields)),
		}}}, namespace)
		l.in.Operation = operation
		if operation == domain.OpRollback {
			l.in.Inherited = "1o"
		}
		_, err := l.run()
		require.NoError(t, err)
		live, err := admin.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).Get(t.Context(), "widgets."+group, metav1.GetOptions{})
		require.NoError(t, err)
		data, err := live.MarshalJSON()
		require.NoError(t, err)
		return l.recorded(), string(data)
	}
	leaf, live := apply(old)
	require.Equal(t, "1K", leaf.Marks)
	require.Contains(t, leaf.Notes[0].Message, "the cluster has it with v1 spec.color, too")
	require.Contains(t, live, `"color"`)
	leaf, live = apply(old + `,"shape":{"type":"nonsense"}`)
	require.Equal(t, "1F", leaf.Marks)
	require.Empty(t, leaf.Warnings, "what is refused takes nothing away")
	require.Contains(t, live, `"color"`)
	leaf, live = apply(old + `,"shape":{"type":"string"}`)
	require.Equal(t, "1A", leaf.Marks)
	require.Len(t, leaf.Warnings, 1)
	require.Contains(t, leaf.Warnings[0].Message, "the cluster had it with v1 spec.color, too")
	require.NotContains(t, live, `"color"`)
	operation = domain.OpRollback
	leaf, live = apply(old) // it is its own by now: a rollback to an older chart takes nothing away, either
	require.Equal(t, "1K", leaf.Marks)
	require.Contains(t, leaf.Notes[0].Message, "the cluster has it with v1 spec.shape, too")
	require.Contains(t, live, `"shape"`)
	leaf, _ = apply(old + `,"weight":{"type":"string"}`)
	require.Equal(t, "1K", leaf.Marks, "nor where that has what the newer one has no more")
	operation = domain.OpInstantiate
	leaf, live = apply(old)
	require.Equal(t, "1A", leaf.Marks, "what else it brings is not known from its fields")
	require.Contains(t, leaf.Warnings[0].Message, "the cluster had it with v1 spec.shape, too")
	require.NotContains(t, live, `"shape"`)
}

// TestOfTwoWithOneDefinitionTheFirstHasIt: a CRD that another deployment has as the chart has it stays that one's. What the chart says otherwise is applied, though no field
// of it is another one.
func TestOfTwoWithOneDefinitionTheFirstHasIt(t *testing.T) {
	admin := kubetest.Dynamic(t, kubetest.Kubeconfig(t))
	namespace, group := kubetest.Name("spare"), kubetest.Name("spare")+".example.com"
	kubetest.MakeNamespace(t, admin, namespace)
	crd := func(says string) string {
		return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"creationTimestamp":null,"name":"widgets.` + group + `","annotations":{"a":"b"}},"spec":{"group":"` + group + `",
			"scope":"Namespaced","names":{"plural":"widgets","kind":"Widget","shortNames":["w"]},"versions":[{"name":"v1","served":true,"storage":true,
			"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"integer","minimum":1` + says + `}}}}}}}]},"status":{"conditions":[]}}`
	}
	t.Cleanup(func() {
		kubetest.Undefine(t, admin, schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"})
	})
	apply := func(app, says string) (*domain.Leaf, string) {
		l := newRealLeaf(t, plan.Bundle{App: app, Resources: []plan.Resource{{
			ResourceID: plan.ResourceID{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: "widgets." + group}, Keep: true,
			Manifest: json.RawMessage(crd(says)),
		}}}, namespace)
		l.in.App = app
		_, err := l.run()
		require.NoError(t, err)
		live, err := admin.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).Get(t.Context(), "widgets."+group, metav1.GetOptions{})
		require.NoError(t, err)
		return l.recorded(), live.GetLabels()[plan.DeploymentLabel]
	}
	leaf, label := apply("first", "")
	require.Equal(t, "1A", leaf.Marks)
	first := label
	leaf, label = apply("second", "")
	require.Equal(t, "1K", leaf.Marks)
	require.Contains(t, leaf.Notes[0].Message, "another deployment has it, as the chart has it: it is left as it is")
	require.Equal(t, first, label)
	leaf, label = apply("first", "")
	require.Equal(t, "1A", leaf.Marks, "its own is applied again")
	require.Equal(t, first, label)
	leaf, label = apply("second", `,"maximum":7`)
	require.Equal(t, "1A", leaf.Marks)
	require.NotEqual(t, first, label)
	leaf, _ = apply("first", `,"maximum":7`)
	require.Equal(t, "1K", leaf.Marks)
}

// TestWhatATerminateLeavesIsSaid: what is another's by now counts as deleted, and is there.
func TestWhatATerminateLeavesIsSaid(t *testing.T) {
	admin := kubetest.Dynamic(t, kubetest.Kubeconfig(t))
	namespace := kubetest.Name("spare")
	kubetest.MakeNamespace(t, admin, namespace)
	maps := admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(namespace)
	bundle := plan.Bundle{App: "app"}
	for _, name := range []string{"ours", "theirs"} {
		bundle.Resources = append(bundle.Resources, plan.Resource{
			ResourceID: plan.ResourceID{Version: "v1", Kind: "ConfigMap", Name: name},
			Manifest:   json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"}}`),
		})
	}
	l := newRealLeaf(t, bundle, namespace)
	out, err := l.run()
	require.NoError(t, err)
	_, err = maps.Patch(t.Context(), "theirs", types.MergePatchType, []byte(`{"metadata":{"labels":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	l.in.Operation, l.in.Inherited = domain.OpTerminate, out.Marks
	l.env = l.environment()
	out, err = l.run()
	require.NoError(t, err)
	require.Equal(t, "2D", out.Marks)
	require.Equal(t, []domain.Note{{Index: 1, Message: "left in the cluster: it no longer carries the label emco/deployment-id"}}, l.recorded().Warnings)
}

// TestWhatAnAttemptTakesAwayItsNextOneTells: the next one finds what the one before has applied.
func TestWhatAnAttemptTakesAwayItsNextOneTells(t *testing.T) {
	t.Parallel()
	const name = "widgets.example.com"
	crd := func(versions string) json.RawMessage {
		return json.RawMessage(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"` + name + `"},
			"spec":{"group":"example.com","names":{"plural":"widgets","kind":"Widget"},"versions":[` + versions + `]},
			"status":{"conditions":[{"type":"NamesAccepted","status":"True"},{"type":"Established","status":"True"}]}}`)
	}
	definition := plan.Resource{
		ResourceID: plan.ResourceID{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: name}, Keep: true,
		Manifest: crd(`{"name":"v2","served":true}`),
	}
	hook := definition
	never := on("pre-install")
	never.DeletePolicies = []string{string(plan.Never)}
	hook.Hook = &never
	for what, r := range map[string]plan.Resource{"of the app": definition, "of a hook": hook} {
		t.Run(what, func(t *testing.T) {
			l, o := hooked(t, domain.OpInstantiate, r)
			var live map[string]any
			require.NoError(t, json.Unmarshal(crd(`{"name":"v1","served":true}`), &live))
			o.kept[name] = live
			l.in.Hooked = r.Hook != nil
			_, err := l.env.ExecuteLocalActivity(l.kube.ApplyToCluster, l.in)
			require.ErrorContains(t, err, "not done at once")
			require.Empty(t, o.writes, "the next attempt could not know of it")

			serve := l.body
			var broken atomic.Bool
			broken.Store(true)
			l.body = func(w http.ResponseWriter, r *http.Request, body []byte) {
				if r.Method == http.MethodPatch && broken.CompareAndSwap(true, false) {
					serve(httptest.NewRecorder(), r, body)
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				serve(w, r, body)
			}
			l.env = l.environment()
			_, err = l.run()
			require.Error(t, err)
			l.env = l.environment()
			l.env.SetHeartbeatDetails(l.raw)
			_, err = l.run()
			require.NoError(t, err)
			require.Equal(t, []domain.Note{{Index: 1, Message: "the cluster had it with v1, too, and the chart's took that away"}}, l.recorded().Warnings)
		})
	}
}

// TestWhatOthersHaveStaysThoughItIsAHook: so it is with objects that are hooks of the chart. They have nothing to do, and do not hold up the rest.
func TestWhatOthersHaveStaysThoughItIsAHook(t *testing.T) {
	admin := kubetest.Dynamic(t, kubetest.Kubeconfig(t))
	before := kubetest.Name("before")
	kubetest.MakeNamespace(t, admin, before)
	claims := admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}).Namespace(before)
	claim := func(name string) string {
		return `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"` + name + `"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`
	}
	object := &unstructured.Unstructured{}
	require.NoError(t, json.Unmarshal([]byte(claim("data")), &object.Object))
	_, err := claims.Create(t.Context(), object, metav1.CreateOptions{})
	require.NoError(t, err)

	hook := on("pre-install", "pre-delete")
	hook.DeletePolicies = []string{string(plan.BeforeCreation), string(plan.WhenSucceeded)}
	install := on("pre-install")
	l := newRealLeaf(t, plan.Bundle{App: "app", Resources: []plan.Resource{
		{ResourceID: plan.ResourceID{Version: "v1", Kind: "Namespace", Name: before}, Hook: &hook, Manifest: json.RawMessage(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"` + before + `","labels":{"team":"a"}}}`)},
		{ResourceID: plan.ResourceID{Version: "v1", Kind: "PersistentVolumeClaim", Name: "data"}, Hook: &hook, Manifest: json.RawMessage(claim("data"))},
		{ResourceID: plan.ResourceID{Version: "v1", Kind: "PersistentVolumeClaim", Name: "more"}, Hook: &install, Manifest: json.RawMessage(claim("more"))},
		{ResourceID: plan.ResourceID{Version: "v1", Kind: "ConfigMap", Name: "main"}, Stage: 1, Manifest: json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"main"}}`)},
	}}, before)
	l.in.Hooked = true
	marks := l.through()
	require.Equal(t, domain.Marks("KKAA"), domain.DecodeMarks(marks[len(marks)-1]))
	stored, err := l.store.Leaf(t.Context(), l.in.LeafID())
	require.NoError(t, err)
	require.Len(t, stored.Notes, 2)
	require.Contains(t, stored.Notes[1].Message, "it was there before the app")
	o, err := admin.Resource(allNamespaces).Get(t.Context(), before, metav1.GetOptions{})
	require.NoError(t, err)
	require.NotContains(t, o.GetLabels(), "team")

	l.in.Operation, l.in.Step, l.in.Inherited = domain.OpTerminate, 0, marks[len(marks)-1]
	l.env = l.environment()
	marks = l.through()
	require.Equal(t, domain.Marks("KKDD"), domain.DecodeMarks(marks[len(marks)-1]))
	o, err = admin.Resource(allNamespaces).Get(t.Context(), before, metav1.GetOptions{})
	require.NoError(t, err)
	require.Nil(t, o.GetDeletionTimestamp())
	there, err := claims.Get(t.Context(), "data", metav1.GetOptions{})
	require.NoError(t, err)
	require.Nil(t, there.GetDeletionTimestamp())
}

// newRealLeaf is an instantiate in a cluster that is one.
func newRealLeaf(t *testing.T, bundle plan.Bundle, namespace string) *leaf {
	t.Helper()
	l := newLeaf(t, domain.OpInstantiate)
	l.in.Bundle, l.in.Resources, l.in.Namespace = l.store.put(t, bundle), len(bundle.Resources), namespace
	clusters, err := kube.NewClusters(kubetest.Patient(kube.Config{}), func(context.Context, domain.ClusterName) ([]byte, domain.Digest, error) {
		return kubetest.Kubeconfig(t), "", nil
	})
	require.NoError(t, err)
	t.Cleanup(clusters.Close)
	l.kube = activities.NewKube(clusters, l.store, l, l, agent())
	l.kube.Rules, l.kube.Records = l, l.store
	l.env = l.environment()
	return l
}

// TestWhatDoesNotStayIsNotSpared: what is being deleted is made anew when it is gone, a CRD of the app's own gets its new versions though one goes, and what no
// cluster takes is refused alone.
func TestWhatDoesNotStayIsNotSpared(t *testing.T) {
	admin := kubetest.Dynamic(t, kubetest.Kubeconfig(t))
	namespace, group := kubetest.Name("spare"), kubetest.Name("spare")+".example.com"
	kubetest.MakeNamespace(t, admin, namespace)
	claims := admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}).Namespace(namespace)
	claim := func(name string) string {
		return `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"` + name + `"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`
	}
	object := &unstructured.Unstructured{}
	require.NoError(t, json.Unmarshal([]byte(claim("going")), &object.Object))
	object.SetFinalizers([]string{"example.com/held"})
	_, err := claims.Create(t.Context(), object, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, claims.Delete(t.Context(), "going", metav1.DeleteOptions{}))
	l := newRealLeaf(t, plan.Bundle{App: "app", Resources: []plan.Resource{
		{ResourceID: plan.ResourceID{Version: "v1", Kind: "PersistentVolumeClaim", Name: "a/b"}, Manifest: json.RawMessage(claim("a/b"))},
		{ResourceID: plan.ResourceID{Version: "v1", Kind: "PersistentVolumeClaim", Name: "going"}, Manifest: json.RawMessage(claim("going"))},
	}}, namespace)
	_, err = l.run()
	require.ErrorContains(t, err, "example.com/held") // the cluster puts one of its own on it, for a while
	_, err = claims.Patch(t.Context(), "going", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	l.env = l.environment()
	out, err := l.run()
	require.NoError(t, err)
	require.Equal(t, domain.Marks("FA"), domain.DecodeMarks(out.Marks))

	crd := func(versions string) plan.Bundle {
		return plan.Bundle{App: "app", Resources: []plan.Resource{{
			ResourceID: plan.ResourceID{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: "widgets." + group}, Keep: true,
			Manifest: json.RawMessage(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.` + group + `"},"spec":{"group":"` + group + `",
				"scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},"versions":[` + versions + `]}}`),
		}}}
	}
	version := func(name string, served, storage bool) string {
		return fmt.Sprintf(`{"name":%q,"served":%t,"storage":%t,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}`, name, served, storage)
	}
	t.Cleanup(func() {
		kubetest.Undefine(t, admin, schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"})
	})
	for _, versions := range []string{version("v1beta1", true, true) + "," + version("v1", true, false), version("v1beta1", false, true) + "," + version("v1", true, false)} {
		out, err = newRealLeaf(t, crd(versions), namespace).run()
		require.NoError(t, err)
		require.Equal(t, domain.Marks("A"), domain.DecodeMarks(out.Marks))
	}
}

// TestWhatAnotherInstallationHasStays: two installations have an app each with the same namespace. The one that comes later leaves it alone, also where it is a
// hook; an app of a later context of the first one takes it over.
func TestWhatAnotherInstallationHasStays(t *testing.T) {
	admin := kubetest.Dynamic(t, kubetest.Kubeconfig(t))
	at, monitoring := kubetest.Name("spare"), kubetest.Name("monitoring")
	kubetest.MakeNamespace(t, admin, at)
	app := func(installation, contextID string, hook *plan.Hook) *leaf {
		l := newRealLeaf(t, plan.Bundle{App: "app", Resources: []plan.Resource{{
			ResourceID: plan.ResourceID{Version: "v1", Kind: "Namespace", Name: monitoring}, Hook: hook,
			Manifest: json.RawMessage(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"` + monitoring + `"}}`),
		}}}, at)
		l.kube.Installation, l.in.ContextID = installation, contextID
		return l
	}
	run := func(l *leaf) domain.Marks {
		out, err := l.run()
		require.NoError(t, err)
		l.in.Inherited = out.Marks
		return domain.DecodeMarks(out.Marks)
	}
	has := func() *unstructured.Unstructured {
		o, err := admin.Resource(allNamespaces).Get(t.Context(), monitoring, metav1.GetOptions{})
		require.NoError(t, err)
		return o
	}
	require.Equal(t, domain.Marks("A"), run(app("first", "1", nil)))
	require.Equal(t, "first", has().GetAnnotations()[plan.InstallationAnnotation])

	later := app("second", "2", nil)
	require.Equal(t, domain.Marks("K"), run(later))
	stored, err := later.store.Leaf(t.Context(), later.in.LeafID())
	require.NoError(t, err)
	require.Contains(t, stored.Notes[0].Message, "the installation first of Drover has it")
	later.in.Operation = domain.OpTerminate
	later.env = later.environment()
	require.Equal(t, domain.Marks("K"), run(later))
	hook := on("pre-install")
	hooked := app("second", "3", &hook)
	hooked.in.Hooked = true
	marks := hooked.through()
	require.Equal(t, domain.Marks("K"), domain.DecodeMarks(marks[len(marks)-1]))
	require.Equal(t, "1-app", has().GetLabels()[plan.DeploymentLabel])
	require.Nil(t, has().GetDeletionTimestamp())

	again := app("first", "4", nil)
	require.Equal(t, domain.Marks("A"), run(again))
	require.Equal(t, "4-app", has().GetLabels()[plan.DeploymentLabel])
	require.NoError(t, admin.Resource(allNamespaces).Delete(t.Context(), monitoring, metav1.DeleteOptions{}))
}
