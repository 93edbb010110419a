package kube_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/plan"
)

// land is a namespace of a real cluster in which a user has rights.
type land struct {
	*testing.T
	admin     dynamic.Interface
	user      *kube.Cluster
	namespace string
}

func newLand(t *testing.T, verbs ...string) *land {
	t.Helper()
	kubeconfig := kubetest.Kubeconfig(t)
	l := &land{T: t, admin: kubetest.Dynamic(t, kubeconfig), namespace: kubetest.Name("rights")}
	kubetest.MakeNamespace(t, l.admin, l.namespace)
	l.user = kubetest.Open(t, kube.Config{}, kubetest.As(t, kubeconfig, l.namespace))
	l.grant(verbs...)
	return l
}

// grant gives the user the verbs, and no others, and waits until they hold.
func (l *land) grant(verbs ...string) {
	l.Helper()
	for _, r := range kubetest.Resources(l, false, fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: user, namespace: %[1]s}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["%[2]s"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: user, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: user}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %[1]s}]
`, l.namespace, strings.Join(verbs, `", "`))) {
		o := &unstructured.Unstructured{}
		require.NoError(l, o.UnmarshalJSON(r.Manifest))
		resource := schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: strings.ToLower(r.Kind) + "s"}
		_, err := l.admin.Resource(resource).Namespace(l.namespace).Apply(l.Context(), r.Name, o, metav1.ApplyOptions{FieldManager: "test", Force: true})
		require.NoError(l, err)
	}
	reviews := schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "subjectaccessreviews"}
	for _, verb := range []string{"get", "create", "update", "patch"} {
		want := false
		for _, v := range verbs {
			want = want || v == verb
		}
		require.Eventually(l, func() bool {
			o, err := l.admin.Resource(reviews).Create(l.Context(), &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": map[string]any{
					"user": l.namespace, "resourceAttributes": map[string]any{"namespace": l.namespace, "verb": verb, "resource": "configmaps"},
				},
			}}, metav1.CreateOptions{})
			require.NoError(l, err)
			allowed, _, _ := unstructured.NestedBool(o.Object, "status", "allowed")
			return allowed == want
		}, kubetest.Deadline, kubetest.Tick)
	}
}

func (l *land) apply(resources []plan.Resource) *kubetest.Watcher {
	l.Helper()
	j, watcher := job(resources, domain.MarkPending)
	j.Namespace = l.namespace
	require.NoError(l, l.user.Apply(l.Context(), j).Retry)
	return watcher
}

// mustApply applies what has to succeed.
func (l *land) mustApply(resources []plan.Resource) *kubetest.Watcher {
	l.Helper()
	watcher := l.apply(resources)
	require.Equal(l, domain.NewMarks(len(resources), domain.MarkApplied), watcher.Marks, "notes: %v", watcher.Notes)
	return watcher
}

func (l *land) find(name string) *unstructured.Unstructured {
	l.Helper()
	o, err := l.admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).
		Namespace(l.namespace).Get(l.Context(), name, metav1.GetOptions{})
	require.NoError(l, err)
	return o
}

func (l *land) configMap(name, data string) plan.Resource {
	l.Helper()
	return kubetest.Resources(l, false, fmt.Sprintf(
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, annotations: {drover.example.com/a: b}}, data: {%s}}", name, data))[0]
}

// emcoVerbs are those of EMCO's examples.
var emcoVerbs = []string{"get", "watch", "list", "create", "delete"}

// Level-1 users have the rights that EMCO's examples grant them: it creates by POST.
func TestUserWhoMayNotPatchCreates(t *testing.T) {
	t.Parallel()
	l := newLand(t, emcoVerbs...)
	resources := append(configMaps(20, 0), kubetest.Resources(t, false, `
apiVersion: v1
kind: Secret
metadata: {name: secret}
stringData: {a: b}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: collectd}
spec:
  replicas: 1
  selector: {matchLabels: {app: a}}
  template: {metadata: {labels: {app: a}}, spec: {containers: [{name: main, image: example.com/none, comand: [a]}]}}
`)...)
	before := l.user.Answers()
	watcher := l.mustApply(resources)
	require.LessOrEqual(t, l.user.Answers()-before, int64(len(resources)+3*8), "a request more a kind, and for those that were under way")
	require.Equal(t, []string{"spec.replicas", "spec.template.spec.containers[0].comand"}, watcher.Dropped[len(resources)-1])
	require.Contains(t, watcher.Unpatchable, "configmaps")
	require.Contains(t, watcher.Unpatchable, "daemonsets.apps")
	require.Equal(t, kubetest.DeploymentID, l.find("a0").GetLabels()[plan.DeploymentLabel])

	before = l.user.Answers()
	again := l.mustApply(resources)
	require.Len(t, again.Unpatchable, len(resources))
	require.Equal(t, watcher.Dropped, again.Dropped)
	require.Equal(t, int64(2*len(resources)), l.user.Answers()-before, "a create whose answer was lost is found to be done; patch is not tried")
	j, sent := job(resources, domain.MarkSent)
	j.Namespace = l.namespace
	require.NoError(t, l.user.Apply(t.Context(), j).Retry)
	require.Equal(t, domain.NewMarks(len(resources), domain.MarkApplied), sent.Marks, sent.Notes)

	j, deleted := job(resources, domain.MarkDoomed)
	j.Namespace = l.namespace
	require.NoError(t, l.user.Delete(t.Context(), j).Retry)
	require.Equal(t, domain.NewMarks(len(resources), domain.MarkDeleted), deleted.Marks)
}

func TestUserWhoMayNotPatchUpdatesWhatIsOurs(t *testing.T) {
	t.Parallel()
	l := newLand(t, emcoVerbs...)
	l.mustApply([]plan.Resource{l.configMap("a", "key: old, gone: soon")})

	refused := l.apply([]plan.Resource{l.configMap("a", "key: new")})
	require.Equal(t, domain.Marks{domain.MarkRefused}, refused.Marks)
	require.Contains(t, refused.Notes[0], "cannot", "the right that is missing is named")
	require.Equal(t, "old", data(t, l.find("a"))["key"])

	l.grant(append(emcoVerbs, "update")...)
	foreign := l.find("a")
	foreign.SetAnnotations(map[string]string{"of": "others"})
	foreign.SetFinalizers([]string{"example.com/held"})
	_, err := l.admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(l.namespace).
		Update(t.Context(), foreign, metav1.UpdateOptions{})
	require.NoError(t, err)
	l.mustApply([]plan.Resource{l.configMap("a", "key: new")})
	is := l.find("a")
	require.Empty(t, cmp.Diff(map[string]string{"key": "new"}, data(t, is)), "what the manifest does not say any more has gone")
	require.Equal(t, "others", is.GetAnnotations()["of"], "what others have put into its metadata stays")
	require.Equal(t, []string{"example.com/held"}, is.GetFinalizers())
	is.SetFinalizers(nil)
	_, err = l.admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(l.namespace).
		Update(t.Context(), is, metav1.UpdateOptions{})
	require.NoError(t, err)
}

func TestUserWhoMayNotPatchMakesAnewWhatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	l := newLand(t, append(emcoVerbs, "update")...)
	resources := []plan.Resource{l.configMap("a", "key: value")}
	l.mustApply(resources)
	at := l.admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(l.namespace)
	is := l.find("a")
	is.SetFinalizers([]string{"example.com/held"})
	is, err := at.Update(t.Context(), is, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.NoError(t, at.Delete(t.Context(), "a", metav1.DeleteOptions{}))

	for _, resource := range []plan.Resource{resources[0], l.configMap("a", "key: new")} { // what was written, and what was not
		j, watcher := job([]plan.Resource{resource}, domain.MarkPending)
		j.Namespace = l.namespace
		retry := l.user.Apply(t.Context(), j).Retry
		require.True(t, fail.Is(retry, fail.Unavailable), "%v", retry)
		require.Contains(t, fail.TextOf(retry), "waits for finalizer example.com/held")
		require.False(t, watcher.Marks[0].Settled(), "%c", watcher.Marks[0])
	}
	_, err = at.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	l.mustApply(resources)
	require.NotEqual(t, is.GetUID(), l.find("a").GetUID())
}

func TestUserWhoMayNotPatchLeavesWhatIsOthers(t *testing.T) {
	t.Parallel()
	l := newLand(t, append(emcoVerbs, "update")...)
	o := &unstructured.Unstructured{}
	require.NoError(t, o.UnmarshalJSON(l.configMap("a", "key: of others").Manifest))
	_, err := l.admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(l.namespace).
		Create(t.Context(), o, metav1.CreateOptions{})
	require.NoError(t, err)
	watcher := l.apply([]plan.Resource{l.configMap("a", "key: ours")})
	require.Equal(t, domain.Marks{domain.MarkRefused}, watcher.Marks)
	require.Contains(t, watcher.Notes[0], "is there already")
	require.Equal(t, "of others", data(t, l.find("a"))["key"])
}

// An app takes over what another one of its context has, as where an update renames it; not what another context has left.
func TestUserWhoMayNotPatchTakesOverWithinAContext(t *testing.T) {
	t.Parallel()
	l := newLand(t, append(emcoVerbs, "update")...)
	apply := func(deployment, says string) domain.Marks {
		j, watcher := job([]plan.Resource{l.configMap("a", "key: "+says)}, domain.MarkPending)
		j.Namespace, j.DeploymentID = l.namespace, deployment
		require.NoError(t, l.user.Apply(t.Context(), j).Retry)
		return watcher.Marks
	}
	require.Equal(t, domain.Marks{domain.MarkApplied}, apply("47-web", "old"))
	require.Equal(t, domain.Marks{domain.MarkApplied}, apply("47-shop", "new"))
	require.Equal(t, "new", data(t, l.find("a"))["key"])
	require.Equal(t, "47-shop", l.find("a").GetLabels()[plan.DeploymentLabel])
	require.Equal(t, domain.Marks{domain.MarkRefused}, apply("4-shop", "another's"))
	require.Equal(t, "new", data(t, l.find("a"))["key"])
}

// TestUserWhoMayNotPatchHasWhatRolledRollNoMore: what the cluster has filled in of one strategy does not stay beside another one.
func TestUserWhoMayNotPatchHasWhatRolledRollNoMore(t *testing.T) {
	t.Parallel()
	l := newLand(t, "get", "create", "update", "patch")
	of := func(strategy string) []plan.Resource {
		return kubetest.Resources(l, false, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec: {`+strategy+`replicas: 0, selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: main, image: example.com/none}]}}}
`)
	}
	l.mustApply(of(""))
	l.grant("get", "create", "update")
	l.mustApply(of("strategy: {type: Recreate}, "))
	o, err := l.admin.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace(l.namespace).Get(t.Context(), "a", metav1.GetOptions{})
	require.NoError(t, err)
	kind, _, err := unstructured.NestedString(o.Object, "spec", "strategy", "type")
	require.NoError(t, err)
	require.Equal(t, "Recreate", kind)
}

// TestEntriesThatAreThereTwice: charts have them, and a create takes them, as those of Helm and of users who may not patch. All of them are sent, since
// a port with one number may have two names.
func TestEntriesThatAreThereTwice(t *testing.T) {
	t.Parallel()
	of := func(t *testing.T, comand, env string) []plan.Resource {
		return kubetest.Resources(t, false, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec:
  replicas: 0
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: a}}
    spec:
      imagePullSecrets: [{name: s}, {name: s}]
      containers:
      - {name: main, image: example.com/none, `+comand+`ports: [{containerPort: 80, name: http}, {containerPort: 80, name: metrics}], env: [`+env+`]}
`)
	}
	const twice = "{name: A, value: first}, {name: A, value: last}"
	for name, verbs := range map[string][]string{
		"who may patch":     {"get", "create", "update", "patch"},
		"who may not patch": {"get", "create", "update"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLand(t, verbs...)
			at := l.admin.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace(l.namespace)
			there := func(list string) (found []any) {
				o, err := at.Get(t.Context(), "a", metav1.GetOptions{})
				require.NoError(t, err)
				containers, _, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
				require.NoError(t, err)
				found, _ = containers[0].(map[string]any)[list].([]any)
				return found
			}
			watcher := l.mustApply(of(t, "comand: [a], ", twice))
			require.Equal(t, []string{"spec.template.spec.containers[0].comand"}, watcher.Dropped[0], "what its kind does not know is told of all the same")
			require.Len(t, there("env"), 2)
			require.Len(t, there("ports"), 2)
			l.mustApply(of(t, "", twice+", {name: B, value: b}"))
			require.Len(t, there("env"), 3, "an update")
			l.mustApply(of(t, "", "{name: A, value: once}"))
			require.Equal(t, []any{map[string]any{"name": "A", "value": "once"}}, there("env"))
			mended := of(t, "", "")
			for _, again := range []string{`,{"name":"s"}`, `,{"containerPort":80,"name":"metrics"}`} {
				require.Contains(t, string(mended[0].Manifest), again)
				mended[0].Manifest = bytes.ReplaceAll(mended[0].Manifest, []byte(again), nil)
			}
			l.mustApply(mended)
			require.Len(t, there("ports"), 1, "nothing is there twice any more")
			require.Empty(t, there("env"), "what the manifest has no more is gone, though it was created and not applied")
		})
	}
	t.Run("what is others' stays", func(t *testing.T) {
		t.Parallel()
		l := newLand(t, "get", "create", "update", "patch")
		o := &unstructured.Unstructured{}
		require.NoError(t, o.UnmarshalJSON(of(t, "", "")[0].Manifest))
		unstructured.RemoveNestedField(o.Object, "spec", "template", "spec", "imagePullSecrets")
		_, err := l.admin.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace(l.namespace).
			Create(t.Context(), o, metav1.CreateOptions{})
		require.NoError(t, err)
		watcher := l.apply(of(t, "", twice))
		require.Equal(t, domain.Marks{domain.MarkRefused}, watcher.Marks)
		require.Contains(t, watcher.Notes[0], "duplicate entries for key")
	})
}

// What somebody has changed since is put back by another operation, though it sends the same: the change leaves the annotation that says what was written.
func TestUserWhoMayNotPatchPutsBackWhatOthersChanged(t *testing.T) {
	t.Parallel()
	l := newLand(t, append(emcoVerbs, "update")...)
	apply := func(operation string) {
		j, watcher := job([]plan.Resource{l.configMap("a", "key: ours")}, domain.MarkPending)
		j.Namespace, j.Operation = l.namespace, operation
		require.NoError(t, l.user.Apply(t.Context(), j).Retry)
		require.Equal(t, domain.Marks{domain.MarkApplied}, watcher.Marks, "notes: %v", watcher.Notes)
	}
	apply("1")
	_, err := l.admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(l.namespace).
		Patch(t.Context(), "a", types.MergePatchType, []byte(`{"data":{"key":"theirs"}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	apply("1") // as after an answer that was lost
	require.Equal(t, "theirs", data(t, l.find("a"))["key"])
	apply("2")
	require.Equal(t, "ours", data(t, l.find("a"))["key"])
}

func TestRightsThatChangeAreUsed(t *testing.T) {
	t.Parallel()
	l := newLand(t, emcoVerbs...)
	l.mustApply([]plan.Resource{l.configMap("a", "key: old")})
	l.grant("get", "create", "patch")
	watcher := l.mustApply([]plan.Resource{l.configMap("a", "key: new")})
	require.Equal(t, "new", data(t, l.find("a"))["key"], "an update is refused, so patch is tried again")
	require.Empty(t, watcher.Unpatchable)
	l.grant(emcoVerbs...)
	require.Equal(t, []string{"configmaps"}, l.mustApply([]plan.Resource{l.configMap("b", "key: new")}).Unpatchable)
}

func data(t *testing.T, o *unstructured.Unstructured) map[string]string {
	t.Helper()
	d, _, err := unstructured.NestedStringMap(o.Object, "data")
	require.NoError(t, err)
	return d
}

// A custom resource is pruned by its schema, whatever way it comes in.
func TestFieldsThatACustomKindDoesNotKnow(t *testing.T) {
	t.Parallel()
	l := newLand(t, "*", "get", "create", "update", "patch")
	group := l.namespace + ".example.com"
	crd := fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.%[1]s}
spec:
  group: %[1]s
  scope: Namespaced
  names: {kind: Widget, listKind: WidgetList, plural: widgets, singular: widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer}
              closed: {type: object}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              template: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
              parts: {type: array, items: {type: object, properties: {name: {type: string}}}}
`, group)
	defined := kubetest.Define(t, l.admin, kubetest.Resources(t, false, crd)[0].Manifest)
	t.Cleanup(func() { kubetest.Undefine(t, l.admin, defined) })
	resources := kubetest.Resources(t, false, fmt.Sprintf(`
apiVersion: %[1]s/v1
kind: Widget
metadata: {name: a}
spec: {size: 1, siez: 2, szie: 3, closed: {a: b}, free: {a: b}, parts: [{name: a}, {nme: b}]}
---
apiVersion: %[1]s/v1
kind: Widget
metadata: {name: closed}
spec: {size: 1, closed: {a: b}}
---
apiVersion: %[1]s/v1
kind: Widget
metadata: {name: wrong}
spec: {size: one}
---
apiVersion: %[1]s/v1
kind: Widget
metadata: {name: labelled}
spec: {template: {spec: {a: b}}}
---
apiVersion: %[1]s/v1
kind: Widget
metadata: {name: annotated}
spec: {template: {metadata: {annotations: {a: b}}, spec: {a: b}}}
`, group))
	watcher := l.apply(resources)
	want := domain.Marks{domain.MarkApplied, domain.MarkApplied, domain.MarkRefused, domain.MarkApplied, domain.MarkApplied}
	require.Equal(t, want, watcher.Marks, "notes: %v", watcher.Notes)
	require.Equal(t, map[int][]string{
		0: {"spec.closed.a", "spec.parts[1].nme", "spec.siez", "spec.szie"},
		// Server-side apply takes anything for an object without properties, and the API server drops it.
		1: {"spec.closed.a"},
		// Of the one before, the label alone is not there.
		4: {"spec.template.metadata"},
	}, watcher.Dropped)
}

// TestUserWhoMayNotDefineHasKindsThatAreThere: who has rights in a namespace alone has charts with CRDs that others have installed.
func TestUserWhoMayNotDefineHasKindsThatAreThere(t *testing.T) {
	l := newLand(t, "get", "create", "update", "patch")
	group := kubetest.Name("defined") + ".example.com"
	crd := func(version string) plan.Resource {
		return plan.Resource{
			ResourceID: plan.ResourceID{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: "widgets." + group}, Keep: true,
			Manifest: fmt.Appendf(nil, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.%s"},"spec":{"group":"%s","scope":"Namespaced",
				"names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},"versions":[{"name":"%s","served":true,"storage":true,
				"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`, group, group, version),
		}
	}
	apply := func(r plan.Resource) (string, string) {
		j, watcher := job([]plan.Resource{r}, domain.MarkPending)
		require.NoError(t, l.user.Apply(t.Context(), j).Retry)
		return watcher.Marks.Encode(), watcher.Notes[0]
	}
	marks, note := apply(crd("v1"))
	require.Equal(t, "1F", marks, "there is no such kind")
	require.Contains(t, note, "cannot patch")
	definitions := kubetest.Define(t, l.admin, crd("v1").Manifest)
	t.Cleanup(func() { kubetest.Undefine(t, l.admin, definitions) })
	require.Eventually(t, func() bool { // discovery comes after the definition
		marks, note = apply(crd("v1"))
		return marks == "1K"
	}, kubetest.Deadline, kubetest.Tick)
	require.Contains(t, note, "the cluster serves the kind")
	marks, _ = apply(crd("v2"))
	require.Equal(t, "1F", marks, "not in the version that the chart has")
	kept := crd("v1")
	kept.Keep = false
	marks, _ = apply(kept)
	require.Equal(t, "1F", marks, "it would be the app's own")
}
