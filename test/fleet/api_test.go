package fleet_test

import (
	"context"
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/test/fleet"
)

// deadline bounds every wait; only a defect or a very busy machine reaches it.
const deadline = kubetest.Deadline

var (
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	pods        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
)

// api is a namespace of a cluster as a client sees it.
type api struct {
	*testing.T
	dynamic   dynamic.Interface
	namespace string
}

func (a *api) of(r schema.GroupVersionResource) dynamic.ResourceInterface {
	return a.dynamic.Resource(r).Namespace(a.namespace)
}

// TestAPI is what clients other than Drover rely on. It holds of real clusters, so that a fleet that differs
// fails it rather than misleads.
func TestAPI(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*api){
		"refuses the fields of another manager":            refusesFields,
		"removes what a manager no longer applies":         removesFields,
		"merges lists by their keys":                       mergesLists,
		"creates an object once":                           createsOnce,
		"creates in namespaces that are there":             createsInNamespaces,
		"refuses names that are not valid":                 refusesNames,
		"updates the version that was read":                updatesVersion,
		"keeps what is immutable":                          keepsImmutable,
		"counts generations, and keeps status apart":       countsGenerations,
		"lists what is selected":                           listsSelected,
		"lists by pages":                                   listsPages,
		"deletes what has the uid":                         deletesByUID,
		"deletes dependents, or lets them go":              deletesDependents,
		"deletes a namespace with its content":             deletesNamespace,
		"watches what happens to what is selected":         watchesSelected,
		"watches from the beginning":                       watchesBeginning,
		"ends a watch of what was never there":             watchesTooFar,
		"answers kinds and paths that it does not serve":   answersUnserved,
		"refuses to apply what clients may not set":        refusesToApply,
		"gives a name to an object that has only a prefix": generatesNames,
	}
	for where, kubeconfig := range map[string]func(t *testing.T) []byte{
		"fleet": func(t *testing.T) []byte { return start(t, fleet.Config{}).Kubeconfig(fleet.Name(1)) },
		"real":  func(t *testing.T) []byte { return kubetest.Kubeconfig(t) },
	} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			client := kubetest.Dynamic(t, kubeconfig(t))
			for name, test := range tests {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					a := &api{T: t, dynamic: client, namespace: kubetest.Name("api")}
					kubetest.MakeNamespace(t, client, a.namespace)
					test(a)
				})
			}
		})
	}
}

// parse makes an object of a manifest in JSON.
func parse(t testing.TB, manifest string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	require.NoError(t, o.UnmarshalJSON([]byte(manifest)))
	return o
}

func configMap(t testing.TB, name, data string) *unstructured.Unstructured {
	t.Helper()
	return parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"`+name+`"},"data":`+data+`}`)
}

func (a *api) create(r schema.GroupVersionResource, o *unstructured.Unstructured) *unstructured.Unstructured {
	a.Helper()
	made, err := a.of(r).Create(a.Context(), o, metav1.CreateOptions{})
	require.NoError(a, err)
	return made
}

// apply applies as a manager.
func (a *api) apply(manager string, force bool, r schema.GroupVersionResource, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return a.of(r).Apply(a.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: manager, Force: force})
}

func data(t testing.TB, o *unstructured.Unstructured) map[string]string {
	t.Helper()
	d, _, err := unstructured.NestedStringMap(o.Object, "data")
	require.NoError(t, err)
	return d
}

func refusesFields(a *api) {
	_, err := a.apply("one", false, configMaps, configMap(a, "a", `{"x":"1"}`))
	require.NoError(a, err)
	_, err = a.apply("two", false, configMaps, configMap(a, "a", `{"x":"2"}`))
	require.True(a, apierrors.IsConflict(err), "%v", err)
	require.True(a, apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict))
	require.Contains(a, err.Error(), `conflict with "one": .data.x`)

	o, err := a.apply("two", true, configMaps, configMap(a, "a", `{"x":"2"}`))
	require.NoError(a, err)
	require.Equal(a, map[string]string{"x": "2"}, data(a, o))
	_, err = a.apply("one", false, configMaps, configMap(a, "a", `{"x":"1"}`))
	require.True(a, apierrors.IsConflict(err), "%v", err)
}

func removesFields(a *api) {
	_, err := a.apply("one", false, configMaps, configMap(a, "a", `{"x":"1","y":"1","z":"1"}`))
	require.NoError(a, err)
	_, err = a.apply("two", false, configMaps, configMap(a, "a", `{"y":"1"}`))
	require.NoError(a, err, "the same value is shared")
	o, err := a.apply("one", false, configMaps, configMap(a, "a", `{"x":"2"}`))
	require.NoError(a, err)
	require.Equal(a, map[string]string{"x": "2", "y": "1"}, data(a, o))

	again, err := a.apply("one", false, configMaps, configMap(a, "a", `{"x":"2"}`))
	require.NoError(a, err)
	require.Equal(a, o.GetResourceVersion(), again.GetResourceVersion())
	back, err := a.apply("one", false, configMaps, configMap(a, "a", `{"x":"1","y":"1","z":"1"}`))
	require.NoError(a, err, "the first manifest, applied to what has changed since")
	require.Equal(a, map[string]string{"x": "1", "y": "1", "z": "1"}, data(a, back))
}

func mergesLists(a *api) {
	service := schema.GroupVersionResource{Version: "v1", Resource: "services"}
	port := func(name string, number string) *unstructured.Unstructured {
		return parse(a, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":{"ports":[{"name":"`+name+`","port":`+number+`,"protocol":"TCP"}]}}`)
	}
	_, err := a.apply("one", false, service, port("http", "80"))
	require.NoError(a, err)
	o, err := a.apply("two", false, service, port("https", "443"))
	require.NoError(a, err)
	ports, _, err := unstructured.NestedSlice(o.Object, "spec", "ports")
	require.NoError(a, err)
	require.Len(a, ports, 2)
}

func createsOnce(a *api) {
	o := a.create(configMaps, configMap(a, "a", `{}`))
	require.NotEmpty(a, o.GetUID())
	require.NotEmpty(a, o.GetResourceVersion())
	require.WithinDuration(a, time.Now(), o.GetCreationTimestamp().Time, deadline)
	require.Equal(a, a.namespace, o.GetNamespace())
	require.Equal(a, metav1.ManagedFieldsOperationUpdate, a.create(configMaps, configMap(a, "b", `{"x":"1"}`)).GetManagedFields()[0].Operation)
	_, err := a.of(configMaps).Create(a.Context(), configMap(a, "a", `{}`), metav1.CreateOptions{})
	require.True(a, apierrors.IsAlreadyExists(err), "%v", err)
}

func createsInNamespaces(a *api) {
	_, err := a.dynamic.Resource(configMaps).Namespace(kubetest.Name("absent")).Create(a.Context(), configMap(a, "a", `{}`), metav1.CreateOptions{})
	require.True(a, apierrors.IsNotFound(err), "%v", err)
	require.Contains(a, err.Error(), "namespaces")
	_, err = a.of(configMaps).Get(a.Context(), "a", metav1.GetOptions{})
	require.True(a, apierrors.IsNotFound(err), "%v", err)
	require.Contains(a, err.Error(), `configmaps "a" not found`)
	for _, namespace := range []string{"default", "kube-system"} {
		_, err := a.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Get(a.Context(), namespace, metav1.GetOptions{})
		require.NoError(a, err)
	}
}

func refusesNames(a *api) {
	_, err := a.of(configMaps).Create(a.Context(), configMap(a, "A_b", `{}`), metav1.CreateOptions{})
	require.True(a, apierrors.IsInvalid(err), "%v", err)
	_, err = a.apply("one", false, configMaps, configMap(a, "A_b", `{}`))
	require.True(a, apierrors.IsInvalid(err), "%v", err)
	o := configMap(a, "a", `{}`)
	o.SetLabels(map[string]string{"a": "not a label"})
	_, err = a.of(configMaps).Create(a.Context(), o, metav1.CreateOptions{})
	require.True(a, apierrors.IsInvalid(err), "%v", err)
}

func updatesVersion(a *api) {
	first := a.create(configMaps, configMap(a, "a", `{"x":"1"}`))
	changed := first.DeepCopy()
	require.NoError(a, unstructured.SetNestedField(changed.Object, "2", "data", "x"))
	second, err := a.of(configMaps).Update(a.Context(), changed, metav1.UpdateOptions{})
	require.NoError(a, err)
	require.Greater(a, version(a, second), version(a, first))
	require.Equal(a, first.GetUID(), second.GetUID())

	_, err = a.of(configMaps).Update(a.Context(), changed, metav1.UpdateOptions{})
	require.True(a, apierrors.IsConflict(err), "%v", err)
	same, err := a.of(configMaps).Update(a.Context(), second, metav1.UpdateOptions{})
	require.NoError(a, err)
	require.Equal(a, second.GetResourceVersion(), same.GetResourceVersion())
	_, err = a.of(configMaps).Update(a.Context(), configMap(a, "absent", `{}`), metav1.UpdateOptions{})
	require.True(a, apierrors.IsNotFound(err), "%v", err)
}

func version(t testing.TB, o *unstructured.Unstructured) uint64 {
	t.Helper()
	v, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	require.NoError(t, err)
	return v
}

func keepsImmutable(a *api) {
	o := configMap(a, "a", `{"x":"1"}`)
	o.Object["immutable"] = true
	a.create(configMaps, o)
	_, err := a.of(configMaps).Patch(a.Context(), "a", types.MergePatchType, []byte(`{"data":{"x":"2"}}`), metav1.PatchOptions{})
	require.True(a, apierrors.IsInvalid(err), "%v", err)
	_, err = a.of(configMaps).Patch(a.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
	require.NoError(a, err)
}

func countsGenerations(a *api) {
	o := a.create(deployments, parse(a, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},
		"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
		"spec":{"containers":[{"name":"main","image":"example.com/none"}]}}}}`))
	require.Equal(a, int64(1), o.GetGeneration())
	patch := func(p string, subresources ...string) *unstructured.Unstructured {
		a.Helper()
		o, err := a.of(deployments).Patch(a.Context(), "a", types.MergePatchType, []byte(p), metav1.PatchOptions{}, subresources...)
		require.NoError(a, err)
		return o
	}
	require.Equal(a, int64(1), patch(`{"metadata":{"labels":{"x":"y"}}}`).GetGeneration())
	require.Equal(a, int64(2), patch(`{"spec":{"paused":true}}`).GetGeneration())
	o = patch(`{"spec":{"paused":false},"status":{"collisionCount":7}}`, "status")
	require.Equal(a, int64(2), o.GetGeneration())
	count, _, err := unstructured.NestedInt64(o.Object, "status", "collisionCount")
	require.NoError(a, err)
	require.Equal(a, int64(7), count)
	count, _, err = unstructured.NestedInt64(patch(`{"status":{"collisionCount":8}}`).Object, "status", "collisionCount")
	require.NoError(a, err)
	require.Equal(a, int64(7), count, "the status is its subresource's")
	_, err = a.of(deployments).Patch(a.Context(), "a", types.MergePatchType, []byte(`{"spec":{"selector":{"matchLabels":{"a":"c"}}}}`), metav1.PatchOptions{})
	require.True(a, apierrors.IsInvalid(err), "%v", err)
}

func (a *api) labelled(names ...string) {
	a.Helper()
	for i, name := range names {
		o := configMap(a, name, `{}`)
		o.SetLabels(map[string]string{"all": "yes", "odd": strconv.FormatBool(i%2 == 1)})
		a.create(configMaps, o)
	}
}

func names(l *unstructured.UnstructuredList) []string {
	var names []string
	for _, o := range l.Items {
		names = append(names, o.GetName())
	}
	return names
}

func listsSelected(a *api) {
	a.labelled("a", "b", "c")
	list := func(o metav1.ListOptions) []string {
		a.Helper()
		l, err := a.of(configMaps).List(a.Context(), o)
		require.NoError(a, err)
		return names(l)
	}
	require.Equal(a, []string{"a", "c"}, list(metav1.ListOptions{LabelSelector: "odd=false"}))
	require.Equal(a, []string{"b"}, list(metav1.ListOptions{LabelSelector: "all,odd!=false"}))
	require.Equal(a, []string{"c"}, list(metav1.ListOptions{FieldSelector: "metadata.name=c"}))
	require.Empty(a, list(metav1.ListOptions{LabelSelector: "odd in (neither)"}))
	_, err := a.of(configMaps).List(a.Context(), metav1.ListOptions{LabelSelector: "=("})
	require.True(a, apierrors.IsBadRequest(err), "%v", err)

	everywhere, err := a.dynamic.Resource(configMaps).List(a.Context(), metav1.ListOptions{FieldSelector: "metadata.namespace=" + a.namespace, LabelSelector: "all"})
	require.NoError(a, err)
	require.Equal(a, []string{"a", "b", "c"}, names(everywhere))
	require.Equal(a, "ConfigMapList", everywhere.GetKind())
}

func listsPages(a *api) {
	a.labelled("a", "b", "c", "d", "e")
	var pages [][]string
	options := metav1.ListOptions{LabelSelector: "all", Limit: 2}
	first := ""
	for {
		l, err := a.of(configMaps).List(a.Context(), options)
		require.NoError(a, err)
		pages = append(pages, names(l))
		if first == "" {
			first = l.GetResourceVersion()
			require.NoError(a, a.of(configMaps).Delete(a.Context(), "a", metav1.DeleteOptions{}), "what is told is told")
		}
		require.Equal(a, first, l.GetResourceVersion())
		if options.Continue = l.GetContinue(); options.Continue == "" {
			break
		}
	}
	require.Equal(a, [][]string{{"a", "b"}, {"c", "d"}, {"e"}}, pages)
}

func deletesByUID(a *api) {
	o := a.create(configMaps, configMap(a, "a", `{}`))
	other, uid := types.UID("00000000-0000-4000-8000-000000000000"), o.GetUID()
	err := a.of(configMaps).Delete(a.Context(), "a", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
	require.True(a, apierrors.IsConflict(err), "%v", err)
	require.Contains(a, err.Error(), "the UID in the precondition ("+string(other)+") does not match the UID in record ("+string(uid)+")")
	version := "1"
	err = a.of(configMaps).Delete(a.Context(), "a", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version}})
	require.True(a, apierrors.IsConflict(err), "%v", err)
	require.Contains(a, err.Error(), "does not match the ResourceVersion in record ("+o.GetResourceVersion()+")")
	require.NoError(a, a.of(configMaps).Delete(a.Context(), "a", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}))
	err = a.of(configMaps).Delete(a.Context(), "a", metav1.DeleteOptions{})
	require.True(a, apierrors.IsNotFound(err), "%v", err)
	require.NotEqual(a, uid, a.create(configMaps, configMap(a, "a", `{}`)).GetUID())
}

func deletesDependents(a *api) {
	for _, c := range []struct {
		policy metav1.DeletionPropagation
		left   bool
	}{{metav1.DeletePropagationBackground, false}, {metav1.DeletePropagationOrphan, true}} {
		owner := a.create(configMaps, configMap(a, "owner", `{}`))
		dependent := configMap(a, "dependent", `{}`)
		dependent.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.GetUID()}})
		a.create(configMaps, dependent)
		require.NoError(a, a.of(configMaps).Delete(a.Context(), "owner", metav1.DeleteOptions{PropagationPolicy: &c.policy}))
		require.Eventually(a, func() bool {
			_, err := a.of(configMaps).Get(a.Context(), "owner", metav1.GetOptions{})
			o, dependentErr := a.of(configMaps).Get(a.Context(), "dependent", metav1.GetOptions{})
			if !c.left {
				return apierrors.IsNotFound(err) && apierrors.IsNotFound(dependentErr)
			}
			return apierrors.IsNotFound(err) && dependentErr == nil && len(o.GetOwnerReferences()) == 0
		}, deadline, 10*time.Millisecond, c.policy)
	}
}

func deletesNamespace(a *api) {
	a.labelled("a", "b")
	namespaces := a.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	require.NoError(a, namespaces.Delete(a.Context(), a.namespace, metav1.DeleteOptions{}))
	require.Eventually(a, func() bool {
		_, err := namespaces.Get(a.Context(), a.namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}, deadline, 10*time.Millisecond)
	l, err := a.of(configMaps).List(a.Context(), metav1.ListOptions{})
	require.NoError(a, err)
	require.Empty(a, l.Items)
	err = namespaces.Delete(a.Context(), "default", metav1.DeleteOptions{})
	require.True(a, apierrors.IsForbidden(err), "%v", err)
}

// watching is a watch of the ConfigMaps of the namespace.
func (a *api) watching(options metav1.ListOptions) watch.Interface {
	a.Helper()
	w, err := a.of(configMaps).Watch(a.Context(), options)
	require.NoError(a, err)
	a.Cleanup(w.Stop)
	return w
}

// next is the next event: its type, and the name of what it is about.
func (a *api) next(w watch.Interface) (watch.EventType, *unstructured.Unstructured) {
	a.Helper()
	select {
	case e, ok := <-w.ResultChan():
		require.True(a, ok, "the watch has ended")
		o, _ := e.Object.(*unstructured.Unstructured)
		return e.Type, o
	case <-time.After(deadline):
		require.FailNow(a, "no event")
		return "", nil
	}
}

// expect wants the next event to be of the type and about the name. A server sends bookmarks when it likes.
func (a *api) expect(w watch.Interface, is watch.EventType, name string) *unstructured.Unstructured {
	a.Helper()
	got, o := a.next(w)
	for got == watch.Bookmark {
		got, o = a.next(w)
	}
	require.Equal(a, is, got)
	require.Equal(a, name, o.GetName())
	return o
}

func watchesSelected(a *api) {
	l, err := a.of(configMaps).List(a.Context(), metav1.ListOptions{})
	require.NoError(a, err)
	w := a.watching(metav1.ListOptions{ResourceVersion: l.GetResourceVersion(), LabelSelector: "odd=true"})
	a.labelled("a", "b")
	added := a.expect(w, watch.Added, "b")
	label := func(name, odd string) {
		a.Helper()
		_, err := a.of(configMaps).Patch(a.Context(), name, types.MergePatchType, []byte(`{"metadata":{"labels":{"odd":"`+odd+`"}}}`), metav1.PatchOptions{})
		require.NoError(a, err)
	}
	label("a", "true")
	a.expect(w, watch.Added, "a")
	label("b", "false")
	left := a.expect(w, watch.Deleted, "b")
	require.Greater(a, version(a, left), version(a, added))
	_, err = a.of(configMaps).Patch(a.Context(), "a", types.MergePatchType, []byte(`{"data":{"x":"1"}}`), metav1.PatchOptions{})
	require.NoError(a, err)
	modified := a.expect(w, watch.Modified, "a")
	require.Equal(a, map[string]string{"x": "1"}, data(a, modified))
	require.NoError(a, a.of(configMaps).Delete(a.Context(), "a", metav1.DeleteOptions{}))
	deleted := a.expect(w, watch.Deleted, "a")
	require.Greater(a, version(a, deleted), version(a, modified))

	// Another watch from the beginning sees the same history.
	again := a.watching(metav1.ListOptions{ResourceVersion: l.GetResourceVersion(), LabelSelector: "odd=true"})
	a.expect(again, watch.Added, "b")
	a.expect(again, watch.Added, "a")
	a.expect(again, watch.Deleted, "b")
}

func watchesBeginning(a *api) {
	a.labelled("a", "b")
	w := a.watching(metav1.ListOptions{LabelSelector: "all"})
	a.expect(w, watch.Added, "a")
	a.expect(w, watch.Added, "b")

	initial := true
	w = a.watching(metav1.ListOptions{
		LabelSelector: "all", SendInitialEvents: &initial, AllowWatchBookmarks: true,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	a.expect(w, watch.Added, "a")
	a.expect(w, watch.Added, "b")
	is, o := a.next(w)
	require.Equal(a, watch.Bookmark, is)
	require.Equal(a, "true", o.GetAnnotations()[metav1.InitialEventsAnnotationKey])
	a.create(configMaps, func() *unstructured.Unstructured {
		o := configMap(a, "c", `{}`)
		o.SetLabels(map[string]string{"all": "yes"})
		return o
	}())
	a.expect(w, watch.Added, "c")

	seconds := int64(1)
	w = a.watching(metav1.ListOptions{LabelSelector: "none", TimeoutSeconds: &seconds})
	select {
	case _, open := <-w.ResultChan():
		require.False(a, open)
	case <-time.After(deadline):
		require.FailNow(a, "the watch does not end")
	}
}

func watchesTooFar(a *api) {
	_, err := a.of(configMaps).Watch(a.Context(), metav1.ListOptions{ResourceVersion: "not-a-number"})
	require.Error(a, err)
}

func answersUnserved(a *api) {
	_, err := a.of(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "nothings"}).Get(a.Context(), "a", metav1.GetOptions{})
	require.True(a, apierrors.IsNotFound(err), "%v", err)
	require.Contains(a, err.Error(), "could not find the requested resource")
	_, err = a.of(configMaps).Get(a.Context(), "a", metav1.GetOptions{}, "nothing")
	require.True(a, apierrors.IsNotFound(err), "%v", err)
}

func refusesToApply(a *api) {
	o := configMap(a, "a", `{}`)
	manifest, err := json.Marshal(o)
	require.NoError(a, err)
	_, err = a.of(configMaps).Patch(a.Context(), "a", types.ApplyPatchType, manifest, metav1.PatchOptions{})
	require.Error(a, err, "a manager is required")
	_, err = a.of(configMaps).Patch(a.Context(), "b", types.ApplyPatchType, manifest, metav1.PatchOptions{FieldManager: "one"})
	require.True(a, apierrors.IsBadRequest(err), "%v", err)
	o.SetNamespace("default")
	_, err = a.apply("one", false, configMaps, o)
	require.True(a, apierrors.IsBadRequest(err), "%v", err)
	o.SetNamespace("")
	o.SetResourceVersion("1")
	_, err = a.apply("one", false, configMaps, o)
	require.NoError(a, err, "API servers do not mind a version where nothing is")
	_, err = a.apply("one", false, configMaps, o)
	require.True(a, apierrors.IsConflict(err), "%v", err)
}

func generatesNames(a *api) {
	prefixed := parse(a, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"a-"}}`)
	one, two := a.create(configMaps, prefixed), a.create(configMaps, prefixed)
	require.Regexp(a, `^a-.{5}$`, one.GetName())
	require.NotEqual(a, one.GetName(), two.GetName())
	_, err := a.of(configMaps).Create(a.Context(), parse(a, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}`), metav1.CreateOptions{})
	require.True(a, apierrors.IsInvalid(err), "%v", err)
	_, err = a.of(pods).Create(context.WithoutCancel(a.Context()), prefixed, metav1.CreateOptions{})
	require.True(a, apierrors.IsBadRequest(err), "%v", err)
}
