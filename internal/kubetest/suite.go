package kubetest

import (
	"context"
	_ "embed"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/plan"
)

// kindsManifests has an object of each kind that charts commonly have.
//
//go:embed testdata/kinds.yaml
var kindsManifests string

// Suite is what applying to a cluster and deleting from it has to do, on the cluster of an administrator's
// kubeconfig.
func Suite(t *testing.T, kubeconfig []byte) {
	each(t, map[string]func(*world){
		"applies every common kind":                               appliesEveryKind,
		"applies again without changing anything":                 appliesAgain,
		"takes over fields of other managers":                     takesOver,
		"says who else has fields":                                saysWhoShares,
		"takes keys out of a Secret":                              takesKeysOut,
		"takes over a Job of another deployment":                  takesJobOver,
		"labels objects and pods":                                 labels,
		"drops the fields that a kind does not know":              dropsUnknown,
		"refuses by resource and goes on":                         refuses,
		"begins where the last attempt ended":                     resumes,
		"keeps in mind what may be there although it was refused": remembersSent,
		"applies custom resources with their CRD":                 appliesCustom,
		"finds a kind whose CRD was made anew":                    findsMovedKind,
		"applies into a namespace of the same job":                appliesIntoNamespace,
		"waits only for what comes with the job":                  waitsForWhatComes,
		"makes anew a namespace that was deleted by hand":         makesNamespaceAnew,
		"makes anew a definition that was deleted by hand":        makesDefinitionAnew,
		"works on what is selected":                               worksOnSelected,
		"waits for a namespace that is being terminated":          waitsForNamespace,
		"announces each stage before it sends anything":           announces,
		"deletes in reverse order":                                deletesInReverse,
		"counts what is absent as deleted":                        deletesAbsent,
		"leaves what belongs to another deployment":               leavesForeign,
		"leaves what is kept or settled":                          leavesKept,
		"leaves what it wants in another namespace of none":       leavesWanted,
		"prunes nothing that is annotated to be kept":             leavesAnnotated,
		"prunes no namespace of what is annotated to be kept":     leavesNamespaceOfAnnotated,
		"looks for what is to be kept":                            looksForKept,
		"deletes by another version when the one wanted is gone":  deletesOtherVersion,
		"says which finalizers a deletion waits for":              saysFinalizers,
		"makes anew what is being deleted once it is gone":        makesAnew,
		"makes anew what could not be changed until it is gone":   makesAnewWhatCannotBeChanged,
		"looks at few of many that wait":                          looksAtFew,
		"sweeps away what nothing should have left":               sweeps,
		"leaves what a sweep must not touch":                      sweepsWithCare,
		"leaves the namespace of what is kept":                    sweepsNoNamespaceOfKept,
		"leaves the namespace of a volume that anybody keeps":     leavesNamespaceOfVolume,
		"waits for an object that leaves in time":                 waitsForLeave,
		"refuses when permissions are missing":                    forbidden,
		"tries again when credentials are not accepted":           unauthorized,
		"answers a ping":                                          pings,
		"settles many resources with few requests at a time":      settlesMany,
	}, func(t *testing.T) *world { return newWorld(t, kubeconfig) })
}

// SuiteOfRights is the part of Suite that a user has to be able to do who has the least ClusterRole, on the cluster of an
// administrator's kubeconfig.
func SuiteOfRights(t *testing.T, admin, user []byte) {
	each(t, map[string]func(*world){
		"applies every common kind":                  appliesEveryKind,
		"applies again without changing anything":    appliesAgain,
		"takes over fields of other managers":        takesOver,
		"labels objects and pods":                    labels,
		"drops the fields that a kind does not know": dropsUnknown,
		"applies into a namespace of the same job":   appliesIntoNamespace,
		"deletes in reverse order":                   deletesInReverse,
		"leaves what belongs to another deployment":  leavesForeign,
		"sweeps away what nothing should have left":  sweeps,
		"answers a ping":                             pings,
	}, func(t *testing.T) *world {
		w := newWorld(t, admin)
		w.cluster = Open(t, kube.Config{}, user)
		return w
	})
}

// SuiteOfKubernetes is what needs a cluster with Kubernetes' own controllers, or with what it fills in and refuses itself.
func SuiteOfKubernetes(t *testing.T, kubeconfig []byte) {
	each(t, map[string]func(*world){
		"says what a namespace waits for":                saysWhatNamespaceHas,
		"has what rolled roll no more":                   rollsNoMore,
		"changes no strategy of what is refused":         refusesStrategy,
		"leaves Pods to an autoscaler":                   leavesPodsToAutoscaler,
		"makes anew what may be replaced":                replaces,
		"replaces nothing that it must not":              replacesWithCare,
		"leaves a StatefulSet's Pods to its heir":        replacesStatefulSet,
		"deletes by the group to which a kind has moved": deletesMoved,
		"drops an account":                               dropsAccount,
		"takes a conversion webhook away":                convertsNoMore,
		"applies what names a version that went":         namesGoneVersion,
		"has no more what was everybody's":               forgetsWhoHas,
		"applies what its schema has outgrown":           outgrows,
		"refuses a health check's taken port":            refusesTakenPort,
	}, func(t *testing.T) *world { return newWorld(t, kubeconfig) })
}

// each runs tests by their names, side by side, each in a world of its own.
func each(t *testing.T, tests map[string]func(*world), begin func(*testing.T) *world) {
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(begin(t))
		})
	}
}

func appliesEveryKind(w *world) {
	resources := w.everyKind()
	w.mustApply(resources)
	outcome, watcher := w.delete(resources)
	require.NoError(w, outcome.Retry)
	require.Equal(w, domain.NewMarks(len(resources), domain.MarkDeleted), watcher.Marks, "notes: %v", watcher.Notes)
}

func (w *world) everyKind() []plan.Resource {
	return Resources(w, true, strings.NewReplacer("NAME", w.name, "IN", w.namespace).Replace(kindsManifests))
}

// takesJobOver: the template of a Job can never be changed, so that its label stays.
func takesJobOver(w *world) {
	resources := func(size string) []plan.Resource {
		return Resources(w, true, `
apiVersion: batch/v1
kind: Job
metadata: {name: moves, annotations: {size: "`+size+`"}, namespace: `+w.namespace+`}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: example.com/main}]}}}`)
	}
	w.mustApply(resources("1"))
	j, watcher := w.job(resources("2"), domain.NewMarks(1, domain.MarkPending))
	j.DeploymentID = "8-other"
	require.NoError(w, w.cluster.Apply(w.Context(), j).Retry)
	require.Equal(w, domain.Marks{domain.MarkApplied}, watcher.Marks, "notes: %v", watcher.Notes)
	job := w.findIn(schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, w.namespace, "moves")
	require.Equal(w, "8-other", job.GetLabels()[plan.DeploymentLabel])
	require.Equal(w, "2", job.GetAnnotations()["size"])
}

// takesKeysOut: a key is in data whichever member of the manifest has it, and goes with the manifest that has it no more.
func takesKeysOut(w *world) {
	secret := func(members string) []plan.Resource {
		return Resources(w, true, "apiVersion: v1\nkind: Secret\nmetadata: {name: keys, namespace: "+w.namespace+"}\n"+members)
	}
	held := func() map[string]any {
		data, _, err := unstructured.NestedMap(w.findIn(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, w.namespace, "keys").Object, "data")
		require.NoError(w, err)
		return data
	}
	w.mustApply(secret(`stringData: {user: admin, password: first}`))
	require.Equal(w, map[string]any{"user": "YWRtaW4=", "password": "Zmlyc3Q="}, held())
	w.mustApply(secret(`data: {user: b3RoZXI=, kept: a2VwdA==}
stringData: {user: admin, token: second}`))
	require.Equal(w, map[string]any{"user": "YWRtaW4=", "token": "c2Vjb25k", "kept": "a2VwdA=="}, held())
}

func appliesAgain(w *world) {
	resources := []plan.Resource{w.configMap(0, "a")}
	w.mustApply(resources)
	first := w.find("a")
	w.mustApply(resources)
	require.Equal(w, first.GetResourceVersion(), w.find("a").GetResourceVersion())
}

func takesOver(w *world) {
	w.mustApply([]plan.Resource{w.configMap(0, "a")})
	w.merge("a", `{"data":{"key":"of somebody else","other":"kept"}}`)
	w.mustApply([]plan.Resource{w.configMap(0, "a")})
	data, _, err := unstructured.NestedStringMap(w.find("a").Object, "data")
	require.NoError(w, err)
	require.Empty(w, cmp.Diff(map[string]string{"key": "value", "other": "kept"}, data))
}

// saysWhoShares: what another manager has said, too, stays when the manifest says it no more.
func saysWhoShares(w *world) {
	by := func(manager, name, data string) {
		o := &unstructured.Unstructured{}
		require.NoError(w, o.UnmarshalJSON([]byte(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "`+name+`"}, "data": `+data+`}`)))
		_, err := w.dynamic.Resource(configMaps).Namespace(w.namespace).Create(w.Context(), o, metav1.CreateOptions{FieldManager: manager})
		require.NoError(w, err)
	}
	by("helm", "a", `{"key": "value", "more": "kept"}`)
	by("kubectl-client-side-apply", "b", `{"key": "value"}`)
	by("kubectl-create", "c", `{"key": "other"}`)
	by("helm", "d", `{"more": "kept"}`)
	by("controller", "e", `{"key": "value"}`)
	by("argocd-controller", "g", `{"key": "value"}`)
	watcher := w.mustApply([]plan.Resource{w.configMap(0, "a"), w.configMap(0, "b"), w.configMap(0, "c"), w.configMap(0, "d"), w.configMap(0, "e"), w.configMap(0, "f"), w.configMap(0, "g")})
	require.Equal(w, map[int][]string{0: {"helm"}, 1: {"kubectl-client-side-apply"}, 6: {"argocd-controller"}}, watcher.Shared, "what had another value is the manifest's alone")
	w.mustApply(Resources(w, false, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"))
	data, _, err := unstructured.NestedStringMap(w.find("a").Object, "data")
	require.NoError(w, err)
	require.Equal(w, map[string]string{"key": "value", "more": "kept"}, data)
}

// rolling are workloads without Pods, with a strategy for Deployments, and one for the others.
func rolling(w *world, image, strategy, updateStrategy string) []plan.Resource {
	spec := "selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: main, image: " + image + "}]}}"
	return Resources(w, false, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec: {`+strategy+`replicas: 0, `+spec+`}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: a}
spec: {`+updateStrategy+`serviceName: a, replicas: 0, `+spec+`}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: a}
spec: {`+updateStrategy+spec+`}
`)
}

// ownsStrategy is who changes a strategy, and owns nothing of it afterwards.
const ownsStrategy = kube.FieldManager + "-strategy"

// requireStrategy looks at the type of a workload's strategy, and at who owns something of the workload.
func requireStrategy(w *world, want, resource, strategy string) *unstructured.Unstructured {
	o := w.findIn(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: resource}, w.namespace, "a")
	for _, f := range o.GetManagedFields() {
		require.NotEqual(w, ownsStrategy, f.Manager)
	}
	kind, _, err := unstructured.NestedString(o.Object, "spec", strategy, "type")
	require.NoError(w, err)
	require.Equal(w, want, kind, resource)
	return o
}

// rollsNoMore: how it is to roll the cluster has filled in, which it refuses beside another strategy.
func rollsNoMore(w *world) {
	const image = "example.com/none"
	for _, before := range [][2]string{
		{"", ""},
		{"strategy: {rollingUpdate: {maxSurge: 1}}, ", "updateStrategy: {type: RollingUpdate}, "},
		{"strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0, maxUnavailable: 50%}}, ", "updateStrategy: {rollingUpdate: {}}, "},
	} {
		w.mustApply(rolling(w, image, before[0], before[1]))
		requireStrategy(w, "RollingUpdate", "deployments", "strategy")
		requireStrategy(w, "RollingUpdate", "statefulsets", "updateStrategy")
		requireStrategy(w, "RollingUpdate", "daemonsets", "updateStrategy")
		var generation int64
		for n, after := range [][2]string{
			{"strategy: {type: Recreate, rollingUpdate: null}, ", "updateStrategy: {type: OnDelete}, "},
			{"strategy: {type: Recreate}, ", "updateStrategy: {type: OnDelete}, "},
		} {
			w.mustApply(rolling(w, image, after[0], after[1]))
			deployment := requireStrategy(w, "Recreate", "deployments", "strategy")
			requireStrategy(w, "OnDelete", "statefulsets", "updateStrategy")
			requireStrategy(w, "OnDelete", "daemonsets", "updateStrategy")
			if n > 0 {
				require.Equal(w, generation, deployment.GetGeneration(), "there is nothing to be changed again")
			}
			generation = deployment.GetGeneration()
		}
	}
	// What an apply that was broken off has left goes with the next one.
	deployments := w.dynamic.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace(w.namespace)
	w.mustApply(rolling(w, image, "", "")[:1])
	_, err := deployments.Patch(w.Context(), "a", types.MergePatchType, []byte(`{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}`),
		metav1.PatchOptions{FieldManager: ownsStrategy})
	require.NoError(w, err)
	w.mustApply(rolling(w, image, "strategy: {type: Recreate}, ", "")[:1])
	requireStrategy(w, "Recreate", "deployments", "strategy")
}

// refusesStrategy: what is refused for something else, too, is left as it rolls.
func refusesStrategy(w *world) {
	w.mustApply(rolling(w, "example.com/none", "", ""))
	_, watcher := w.apply(rolling(w, "", "strategy: {type: Recreate}, ", "updateStrategy: {type: OnDelete}, ")[:2])
	require.Equal(w, domain.NewMarks(2, domain.MarkRefused), watcher.Marks)
	requireStrategy(w, "RollingUpdate", "deployments", "strategy")
	requireStrategy(w, "RollingUpdate", "statefulsets", "updateStrategy")
	_, watcher = w.apply(rolling(w, "example.com/none", "strategy: {type: Recreate, rollingUpdate: {maxSurge: 1}}, ", "")[:1])
	require.True(w, watcher.Marks.Failed(), "a manifest that says both")
	require.Contains(w, watcher.Notes[0], "rollingUpdate")
	requireStrategy(w, "RollingUpdate", "deployments", "strategy")
}

// definition is the CRD of Widgets with a conversion and versions.
func (w *world) definition(conversion string, versions ...string) plan.Resource {
	group := w.name + ".example.com"
	return Resources(w, false, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.`+group+`}
spec:
  group: `+group+`
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  `+conversion+`
  versions: [`+strings.Join(versions, ", ")+`]
`)[0]
}

// widget is one of a version of that, with a spec.
func (w *world) widget(version, spec string) plan.Resource {
	return Resources(w, false, "apiVersion: "+w.name+".example.com/"+version+"\nkind: Widget\nmetadata: {name: a}\nspec: "+spec+"\n")[0]
}

// widgets are those of a version.
func (w *world) widgets(version string) dynamic.ResourceInterface {
	return w.dynamic.Resource(schema.GroupVersionResource{Group: w.name + ".example.com", Version: version, Resource: "widgets"}).Namespace(w.namespace)
}

// requireSpec looks at the spec of the widget.
func (w *world) requireSpec(want map[string]any) {
	w.Helper()
	o, err := w.widgets("v1").Get(w.Context(), "a", metav1.GetOptions{})
	require.NoError(w, err)
	require.Empty(w, cmp.Diff(want, o.Object["spec"]))
}

// convertsNoMore: a CRD gives its conversion webhook up, of which somebody else has a field.
func convertsNoMore(w *world) {
	const (
		v1, v2  = "{name: v1, served: true, storage: true, " + anything + "}", "{name: v2, served: true, storage: false, " + anything + "}"
		webhook = `conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {namespace: none, name: none, path: /convert}}}}`
	)
	name := "widgets." + w.name + ".example.com"
	config, err := clientcmd.RESTConfigFromKubeConfig(w.kubeconfig)
	require.NoError(w, err)
	caBundle := base64.StdEncoding.EncodeToString(config.CAData) // any will do
	conversion := func() map[string]any {
		found, _, err := unstructured.NestedMap(w.findIn(definitions, "", name).Object, "spec", "conversion")
		require.NoError(w, err)
		return found
	}
	for _, none := range []string{"", "conversion: {strategy: None}", "conversion: {strategy: None, webhook: null}"} {
		for _, injected := range []string{
			`{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":"` + caBundle + `"}}}}}`,
			`{"spec":{"conversion":{"webhook":{"conversionReviewVersions":["v1","v1beta1"]}}}}`,
			`{}`,
		} {
			w.mustApply([]plan.Resource{w.definition(webhook, v1, v2)})
			_, err := w.dynamic.Resource(definitions).Patch(w.Context(), name, types.MergePatchType, []byte(injected), metav1.PatchOptions{FieldManager: "cainjector"})
			require.NoError(w, err)
			w.mustApply([]plan.Resource{w.definition(none, v1, v2)})
			require.Empty(w, cmp.Diff(map[string]any{"strategy": "None"}, conversion()), "%q after %s", none, injected)
			for _, f := range w.findIn(definitions, "", name).GetManagedFields() {
				require.NotEqual(w, ownsStrategy, f.Manager)
			}
		}
	}
	// The other way round nothing stands in the way. What is refused for something else, too, is converted as before.
	w.mustApply([]plan.Resource{w.definition(webhook, v1, v2)})
	_, err = w.dynamic.Resource(definitions).Patch(w.Context(), name, types.MergePatchType,
		[]byte(`{"spec":{"conversion":{"webhook":{"conversionReviewVersions":["v1","v1beta1"]}}}}`), metav1.PatchOptions{FieldManager: "cainjector"})
	require.NoError(w, err)
	_, watcher := w.apply([]plan.Resource{w.definition("", v1, strings.Replace(v2, "storage: false", "storage: true", 1))})
	require.True(w, watcher.Marks.Failed())
	require.Equal(w, "Webhook", conversion()["strategy"])

	// Somebody else's objects may be converted by it.
	w.mustApply([]plan.Resource{w.definition(webhook, v1, v2)})
	patch := `{"metadata":{"labels":{"` + plan.DeploymentLabel + `":"8-other"}},"spec":{"conversion":{"webhook":{"conversionReviewVersions":["v1","v1beta1"]}}}}`
	_, err = w.dynamic.Resource(definitions).Patch(w.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "cainjector"})
	require.NoError(w, err)
	_, watcher = w.apply([]plan.Resource{w.definition("", v1, v2)})
	require.True(w, watcher.Marks.Failed())
	require.Contains(w, watcher.Notes[0], "its webhook stays, as it may convert others' objects")
	require.Equal(w, "Webhook", conversion()["strategy"])
}

// namesGoneVersion: a CRD gives a version up in which an object was applied, by us and by somebody else.
func namesGoneVersion(w *world) {
	version := func(name string, storage bool) string {
		return fmt.Sprintf("{name: %s, served: true, storage: %t, %s}", name, storage, anything)
	}
	w.mustApply([]plan.Resource{w.definition("", version("v1alpha1", false), version("v1beta1", false), version("v1", true)), w.widget("v1beta1", "{size: 3, old: a}")})
	for version, spec := range map[string]string{"v1alpha1": `{"alpha":1}`, "v1beta1": `{"beta":2}`, "v1": `{"others":3}`} {
		_, err := w.widgets(version).Patch(w.Context(), "a", types.MergePatchType, []byte(`{"spec":`+spec+`}`), metav1.PatchOptions{FieldManager: "somebody"})
		require.NoError(w, err)
	}
	w.mustApply([]plan.Resource{w.definition("", version("v1", true))})
	for _, gone := range []string{"v1alpha1", "v1beta1"} {
		require.Eventually(w, func() bool {
			_, err := w.widgets(gone).Get(w.Context(), "a", metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		}, Deadline, Tick)
	}
	w.mustApply([]plan.Resource{w.widget("v1", "{size: 4}")})
	w.requireSpec(map[string]any{"size": int64(4), "alpha": int64(1), "beta": int64(2), "others": int64(3)})
}

// forgetsWhoHas: a CRD gives a version up in which an object was applied, and somebody writes the object before it is applied again: the cluster forgets who
// has which of its fields.
func forgetsWhoHas(w *world) {
	version := func(name string, storage bool) string {
		return fmt.Sprintf("{name: %s, served: true, storage: %t, %s}", name, storage, anything)
	}
	w.mustApply([]plan.Resource{w.definition("", version("v1beta1", false), version("v1", true)), w.widget("v1beta1", "{size: 3, same: 1, old: a}")})
	w.mustApply([]plan.Resource{w.definition("", version("v1", true))})
	n := int64(0)
	require.Eventually(w, func() bool {
		n++
		found, err := w.widgets("v1").Patch(w.Context(), "a", types.MergePatchType, fmt.Appendf(nil, `{"spec":{"others":%d}}`, n), metav1.PatchOptions{FieldManager: "somebody"})
		require.NoError(w, err)
		return len(found.GetManagedFields()) == 0
	}, Deadline, Tick)
	w.mustApply([]plan.Resource{w.widget("v1", "{size: 4, same: 1}")})
	w.requireSpec(map[string]any{"size": int64(4), "same": int64(1), "old": "a", "others": n})
	w.mustApply([]plan.Resource{w.widget("v1", "{size: 4}")})
	w.requireSpec(map[string]any{"size": int64(4), "old": "a", "others": n})
}

// outgrows: a CRD has another schema, which what is in the cluster does not fit.
func outgrows(w *world) {
	version := func(parts string) string {
		return "{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {" +
			"parts: " + parts + ", size: {type: integer}, more: {type: integer}, others: {type: integer}}}}}}}"
	}
	w.mustApply([]plan.Resource{w.definition("", version("{type: string}")), w.widget("v1", "{parts: a, size: 3, more: 1}")})
	_, err := w.widgets("v1").Patch(w.Context(), "a", types.MergePatchType, []byte(`{"spec":{"others":2}}`), metav1.PatchOptions{FieldManager: "somebody"})
	require.NoError(w, err)
	w.mustApply([]plan.Resource{w.definition("", version("{type: array, items: {type: string}}"))})
	require.Eventually(w, func() bool {
		_, err := w.widgets("v1").Patch(w.Context(), "a", types.MergePatchType, []byte(`{"spec":{"parts":["b"]}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil
	}, Deadline, Tick)
	w.mustApply([]plan.Resource{w.widget("v1", "{parts: [b], size: 4}")})
	w.requireSpec(map[string]any{"parts": []any{"b"}, "size": int64(4), "others": int64(2)})
	w.mustApply([]plan.Resource{w.widget("v1", "{size: 4}")})
	w.requireSpec(map[string]any{"size": int64(4), "others": int64(2)})

	// What does not fit and is somebody else's stays.
	w.mustApply([]plan.Resource{w.definition("", version("{type: array, items: {type: string}}")), w.widget("v1", "{size: 5}")})
	_, err = w.widgets("v1").Patch(w.Context(), "a", types.MergePatchType, []byte(`{"spec":{"parts":["b"]}}`), metav1.PatchOptions{FieldManager: "somebody"})
	require.NoError(w, err)
	w.mustApply([]plan.Resource{w.definition("", version("{type: string}"))})
	require.Eventually(w, func() bool {
		_, err := w.widgets("v1").Patch(w.Context(), "a", types.MergePatchType, []byte(`{"spec":{"parts":"b"}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil
	}, Deadline, Tick)
	w.mustApply([]plan.Resource{w.widget("v1", "{size: 6}")})
	w.requireSpec(map[string]any{"size": int64(6), "others": int64(2), "parts": []any{"b"}})
}

// refusesTakenPort: a port that another Service has is no fault that passes.
func refusesTakenPort(w *world) {
	service := func(name, port string) []plan.Resource {
		return Resources(w, false, `
apiVersion: v1
kind: Service
metadata: {name: `+name+`}
spec: {type: LoadBalancer, externalTrafficPolicy: Local, selector: {app: a}, ports: [{port: 80}], `+port+`}
`)
	}
	w.mustApply(service("a", ""))
	port, _, err := unstructured.NestedInt64(w.findIn(schema.GroupVersionResource{Version: "v1", Resource: "services"}, w.namespace, "a").Object, "spec", "healthCheckNodePort")
	require.NoError(w, err)
	for _, taken := range []int64{port, 80} {
		outcome, watcher := w.apply(service("b", fmt.Sprintf("healthCheckNodePort: %d", taken)))
		require.NoError(w, outcome.Retry)
		require.Equal(w, domain.Marks{domain.MarkRefused}, watcher.Marks)
		require.Contains(w, watcher.Notes[0], "choose another spec.healthCheckNodePort")
	}
}

// leavesPodsToAutoscaler: the number that is left to an autoscaler of the app stays until that says another one.
func leavesPodsToAutoscaler(w *world) {
	resources := func(replicas string) []plan.Resource {
		var all []plan.Resource
		for _, kind := range []string{"Deployment", "StatefulSet"} {
			all = append(all, Resources(w, false, fmt.Sprintf(`
apiVersion: apps/v1
kind: %s
metadata: {name: a}
spec: {%sselector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: main, image: example.com/none}]}}}
`, kind, replicas))...)
		}
		return all
	}
	there := func(resource string) int64 {
		o := w.findIn(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: resource}, w.namespace, "a")
		n, _, err := unstructured.NestedInt64(o.Object, "spec", "replicas")
		require.NoError(w, err)
		return n
	}
	w.mustApply(resources("replicas: 5, "))
	next := append(resources(""), Resources(w, false, `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: a}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: a}, minReplicas: 1, maxReplicas: 9, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]}
`)...)
	next[2].Stage = 1
	for range 2 {
		w.mustApply(next)
		require.EqualValues(w, 5, there("deployments"))
		require.EqualValues(w, 1, there("statefulsets"), "nobody else says how many it is to have")
	}
	w.mustApply(resources("replicas: 3, ")[:1])
	require.EqualValues(w, 3, there("deployments"), "the manifest says it again")
	j, _ := w.job(next, domain.Marks{domain.MarkPending, domain.MarkApplied, domain.MarkDoomed})
	require.NoError(w, w.cluster.Apply(w.Context(), j).Retry)
	require.EqualValues(w, 1, there("deployments"), "the autoscaler goes")
}

// fixed is a ConfigMap of which nothing can be changed, with annotations.
func fixed(w *world, annotations, data string) []plan.Resource {
	w.Helper()
	return Resources(w, false, `{apiVersion: v1, kind: ConfigMap, metadata: {name: fixed, annotations: {`+annotations+`}}, immutable: true, data: {`+data+`}}`)
}

func replaces(w *world) {
	const replace = `drover.io/replace: "true"`
	w.mustApply(fixed(w, replace, "key: one"))
	first := w.find("fixed")
	watcher := w.mustApply(fixed(w, replace, "key: two"))
	require.Contains(w, watcher.Notes[0], "it is deleted and made anew, as the cluster refuses to change it: ")
	require.Contains(w, watcher.Notes[0], "immutable")
	second := w.find("fixed")
	require.NotEqual(w, first.GetUID(), second.GetUID())
	require.Equal(w, "two", second.Object["data"].(map[string]any)["key"])

	// Whoever goes on when the one who has deleted it is gone makes it.
	w.hold("fixed")
	w.cluster = Open(w, kube.Config{StageWait: 50 * time.Millisecond}, w.kubeconfig)
	marks := domain.Marks{domain.MarkOutdated}
	for range 2 {
		j, watcher := w.job(fixed(w, replace, "key: three"), marks)
		outcome := w.cluster.Apply(w.Context(), j)
		require.True(w, fail.Is(outcome.Retry, fail.Unavailable), "%v", outcome.Retry)
		require.Contains(w, fail.TextOf(outcome.Retry), "waits for finalizer example.com/held")
		require.Equal(w, domain.Marks{domain.MarkSent}, watcher.Marks)
		marks = watcher.Marks
	}
	require.NotNil(w, w.find("fixed").GetDeletionTimestamp())
	w.merge("fixed", letGo)
	require.Nil(w, w.find("fixed"))
	j, watcher := w.job(fixed(w, replace, "key: three"), marks)
	require.NoError(w, w.cluster.Apply(w.Context(), j).Retry)
	require.Equal(w, domain.Marks{domain.MarkApplied}, watcher.Marks)
	require.Equal(w, "three", w.find("fixed").Object["data"].(map[string]any)["key"])

	// So it is with what others refer to, and with what has Pods.
	w.cluster = Open(w, kube.Config{}, w.kubeconfig)
	others := func(name string) []plan.Resource {
		return Resources(w, false, strings.ReplaceAll(`
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: a, annotations: {drover.io/replace: "true"}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: NAME}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, annotations: {drover.io/replace: "true"}}
spec: {replicas: 0, selector: {matchLabels: {app: NAME}}, template: {metadata: {labels: {app: NAME}}, spec: {containers: [{name: main, image: example.com/none}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: a, annotations: {drover.io/replace: "true"}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: NAME, image: example.com/none}]}}}
`, "NAME", name))
	}
	w.mustApply(others("one"))
	require.Len(w, w.mustApply(others("two")).Notes, 3)
	require.Empty(w, w.mustApply(others("two")).Notes)
}

func replacesWithCare(w *world) {
	const replace = `drover.io/replace: "true"`
	refused := func(resources []plan.Resource, why string) {
		w.Helper()
		outcome, watcher := w.apply(resources)
		require.NoError(w, outcome.Retry)
		require.True(w, watcher.Marks.Failed())
		require.Contains(w, watcher.Notes[0], why)
	}
	w.mustApply(fixed(w, replace, "key: one"))
	uid := w.find("fixed").GetUID()
	refused(fixed(w, `drover.io/replace: "false"`, "key: two"), "immutable")
	refused(fixed(w, replace, "no key: two"), "; it is not replaced: a new one would be refused, too: ")
	w.merge("fixed", `{"metadata":{"annotations":{"helm.sh/resource-policy":"keep"}}}`)
	refused(fixed(w, replace, "key: two"), "; it is not replaced: it is annotated in the cluster with helm.sh/resource-policy: keep")
	w.merge("fixed", `{"metadata":{"annotations":{"helm.sh/resource-policy":null},"labels":{"`+plan.DeploymentLabel+`":null}}}`)
	refused(fixed(w, replace, "key: two"), "; it is not replaced: it does not carry the label "+plan.DeploymentLabel)
	require.Equal(w, uid, w.find("fixed").GetUID())

	claim := func(class string) []plan.Resource {
		return Resources(w, false, `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a, annotations: {`+replace+`}}, spec: {storageClassName: `+class+
			`, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`)
	}
	w.mustApply(claim("one"))
	refused(claim("two"), "; it is not replaced: its data would go with a PersistentVolumeClaim")
}

func replacesStatefulSet(w *world) {
	resources := func(policy string) []plan.Resource {
		return Resources(w, false, `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: a, annotations: {drover.io/replace: "true"}}
spec: {podManagementPolicy: `+policy+`, selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: main, image: example.com/none}]}}}
`)
	}
	pod := func() *unstructured.Unstructured {
		return w.findIn(schema.GroupVersionResource{Version: "v1", Resource: "pods"}, w.namespace, "a-0")
	}
	w.mustApply(resources("OrderedReady"))
	require.Eventually(w, func() bool { return pod() != nil }, Deadline, Tick)
	before := pod()
	watcher := w.mustApply(resources("Parallel"))
	require.Contains(w, watcher.Notes[0], "made anew")
	require.Eventually(w, func() bool {
		now := pod()
		return now != nil && len(now.GetOwnerReferences()) == 1 && now.GetOwnerReferences()[0].UID != before.GetOwnerReferences()[0].UID
	}, Deadline, Tick)
	require.Equal(w, before.GetUID(), pod().GetUID())

	// The next one would begin with one Pod, and have the others go.
	sets := w.dynamic.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}).Namespace(w.namespace)
	_, err := sets.Patch(w.Context(), "a", types.MergePatchType, []byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{FieldManager: "somebody"})
	require.NoError(w, err)
	outcome, watcher := w.apply(resources("OrderedReady"))
	require.NoError(w, outcome.Retry)
	require.True(w, watcher.Marks.Failed())
	require.Contains(w, watcher.Notes[0], "; it is not replaced: it has 3 Pods")
}

// dropsAccount: a cluster has the name of an account under an older name as well, which no apply has said.
func dropsAccount(w *world) {
	resources := func(account string) []plan.Resource {
		return Resources(w, false, strings.ReplaceAll(`
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: a}
spec: {replicas: 0, selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {ACCOUNTcontainers: [{name: main, image: example.com/none}]}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: a}
spec: {schedule: "0 0 1 1 *", suspend: true, jobTemplate: {spec: {template: {spec: {ACCOUNTrestartPolicy: Never, containers: [{name: main, image: example.com/none}]}}}}}
`, "ACCOUNT", account))
	}
	account := func(o *unstructured.Unstructured, path ...string) (name string) {
		name, _, err := unstructured.NestedString(o.Object, append(path, "serviceAccountName")...)
		require.NoError(w, err)
		return name
	}
	set := func() *unstructured.Unstructured {
		return w.findIn(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}, w.namespace, "a")
	}
	cron := func() *unstructured.Unstructured {
		return w.findIn(schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "cronjobs"}, w.namespace, "a")
	}
	w.mustApply(resources("serviceAccountName: former, "))
	require.Equal(w, "former", account(set(), "spec", "template", "spec"))
	version := ""
	for range 2 {
		j, watcher := w.job(resources(""), domain.NewMarks(2, domain.MarkOutdated))
		require.NoError(w, w.cluster.Apply(w.Context(), j).Retry)
		require.Equal(w, domain.NewMarks(2, domain.MarkApplied), watcher.Marks, "notes: %v", watcher.Notes)
		require.Empty(w, account(set(), "spec", "template", "spec"))
		require.Empty(w, account(cron(), "spec", "jobTemplate", "spec", "template", "spec"))
		if version != "" {
			require.Equal(w, version, cron().GetResourceVersion(), "there is nothing to be changed again")
		}
		version = cron().GetResourceVersion()
	}
	// What somebody else has said stays.
	sets := w.dynamic.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}).Namespace(w.namespace)
	_, err := sets.Patch(w.Context(), "a", types.MergePatchType, []byte(`{"spec":{"template":{"spec":{"serviceAccountName":"theirs"}}}}`), metav1.PatchOptions{FieldManager: "other"})
	require.NoError(w, err)
	j, _ := w.job(resources("")[:1], domain.Marks{domain.MarkOutdated})
	require.NoError(w, w.cluster.Apply(w.Context(), j).Retry)
	require.Equal(w, "theirs", account(set(), "spec", "template", "spec"))
}

func labels(w *world) {
	w.mustApply(Resources(w, false, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec:
  replicas: 0
  selector: {matchLabels: {app: a}}
  template: {metadata: {labels: {app: a}}, spec: {containers: [{name: main, image: example.com/none}]}}
`))
	o := w.findIn(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, w.namespace, "a")
	require.NotNil(w, o)
	require.Equal(w, DeploymentID, o.GetLabels()[plan.DeploymentLabel])
	pods, _, err := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
	require.NoError(w, err)
	require.Empty(w, cmp.Diff(map[string]string{"app": "a", plan.DeploymentLabel: DeploymentID}, pods))
	require.Equal(w, kube.FieldManager, o.GetManagedFields()[0].Manager)
	require.Equal(w, metav1.ManagedFieldsOperationApply, o.GetManagedFields()[0].Operation)
}

// dropsUnknown has manifests of which a create takes what it knows, and apply nothing.
func dropsUnknown(w *world) {
	resources := Resources(w, false, `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: collectd, lables: {a: b}}
spec:
  replicas: 1
  strategy: {type: Recreate}
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: a}}
    spec:
      hostNetwrok: true
      containers:
      - {name: main, image: example.com/none, comand: [a], ports: [{containerPort: 80, nme: b}, {containerPort: 81, protocol: UDP, x: {y: z}}]}
      - {name: side, image: example.com/none, env: [{name: A, valeu: b}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: top, annotations: {a.b/c: d}}
dta: {a: b}
data: {a: b}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: good}
data: {dta: a}
`)
	watcher := w.mustApply(resources)
	require.Empty(w, cmp.Diff(map[int][]string{
		0: {
			"metadata.lables", "spec.replicas", "spec.strategy",
			"spec.template.spec.containers[0].comand", "spec.template.spec.containers[0].ports[0].nme",
			"spec.template.spec.containers[0].ports[1].x", "spec.template.spec.containers[1].env[0].valeu",
			"spec.template.spec.hostNetwrok",
		},
		1: {"dta"},
	}, watcher.Dropped))
	o := w.findIn(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}, w.namespace, "collectd")
	require.NotNil(w, o)
	containers, _, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
	require.NoError(w, err)
	require.Len(w, containers, 2)
	require.NotContains(w, containers[0], "comand")
	require.Equal(w, metav1.ManagedFieldsOperationApply, o.GetManagedFields()[0].Operation)
	require.Equal(w, watcher.Dropped, w.mustApply(resources).Dropped, "and the next time, too")
}

func refuses(w *world) {
	cases := []struct{ reason, manifest, note string }{
		{"a value is not valid: 422", `
apiVersion: v1
kind: Service
metadata: {name: bad-port}
spec: {ports: [{port: 99999}]}`, `Service "bad-port" is invalid`},
		{"a field has another type: 500, too", `
apiVersion: v1
kind: ConfigMap
metadata: {name: bad-type}
data: {a: [b]}`, "expected string"},
		{"a value of a Secret has another type, and is not told", `
apiVersion: v1
kind: Secret
metadata: {name: bad-type}
stringData: {pin: 271828}`, "expected string"},
		{"a field has another type, and another one is unknown", `
apiVersion: v1
kind: ConfigMap
metadata: {name: bad-both}
dta: {a: b}
data: {a: [b]}`, "expected string"},
		{"the same entry twice, which the kind itself does not have", `
apiVersion: v1
kind: Service
metadata: {name: twice}
spec: {ports: [{port: 80, name: a}, {port: 80, name: b}]}`, "Duplicate"},
		{"the namespace is not there", `
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: not-there}`, `namespaces "not-there" not found`},
		{"the cluster has no such kind", `
apiVersion: example.com/v1
kind: Nothing
metadata: {name: a}`, `no matches for kind "Nothing" in version "example.com/v1"`},
		{"the cluster has the kind in other versions", `
apiVersion: policy/v1beta1
kind: PodDisruptionBudget
metadata: {name: a}`, `no matches for kind "PodDisruptionBudget" in version "policy/v1beta1"`},
		{"the group has no such kind", `
apiVersion: apps/v1
kind: Nothing
metadata: {name: a}`, `no matches for kind "Nothing" in version "apps/v1"`},
		{"names made by the server cannot be applied", `
apiVersion: v1
kind: ConfigMap
metadata: {generateName: a-}`, "metadata.name is required"},
		{"a name that leads elsewhere", `
apiVersion: v1
kind: ConfigMap
metadata: {name: ".."}`, "may not be"},
		{"the object must have a version that it does not have: to try again does not help", `
apiVersion: v1
kind: ConfigMap
metadata: {name: there, resourceVersion: "1"}`, "the object has been modified"},
	}
	manifests := make([]string, len(cases))
	for i := range cases {
		manifests[i] = cases[i].manifest
	}
	w.mustApply([]plan.Resource{w.configMap(0, "there")})

	resources := append(Resources(w, false, strings.Join(manifests, "\n---\n")), w.configMap(1, "good"))
	outcome, watcher := w.apply(resources)
	require.Equal(w, kube.Outcome{Reached: true}, outcome)
	want := append(domain.NewMarks(len(cases), domain.MarkRefused), domain.MarkApplied)
	require.Equal(w, want, watcher.Marks, "notes: %v", watcher.Notes)
	for i := range cases {
		require.Contains(w, watcher.Notes[i], cases[i].note, cases[i].reason)
	}
	for _, note := range watcher.Notes {
		require.NotContains(w, note, "271828")
	}
	require.NotNil(w, w.find("good"))
}

func resumes(w *world) {
	resources := []plan.Resource{w.configMap(0, "applied"), w.configMap(0, "refused"), w.configMap(0, "sent"), w.configMap(1, "pending")}
	marks := domain.Marks{domain.MarkApplied, domain.MarkRefused, domain.MarkSent, domain.MarkPending}
	j, watcher := w.job(resources, marks)
	require.Equal(w, kube.Outcome{Reached: true}, w.cluster.Apply(w.Context(), j))
	require.Equal(w, []Event{{2, domain.MarkSent}, {2, domain.MarkApplied}, {3, domain.MarkSent}, {3, domain.MarkApplied}}, watcher.Told)
	require.Equal(w, domain.MarkSent, marks[2], "the caller's marks are the caller's")
	require.Nil(w, w.find("applied"), "what is settled is not sent again")
	require.Nil(w, w.find("refused"))
	require.NotNil(w, w.find("sent"))
	require.NotNil(w, w.find("pending"))
}

func remembersSent(w *world) {
	w.mustApply([]plan.Resource{w.configMap(0, "a")})
	changed := Resources(w, false, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":["b"]}}`)
	j, watcher := w.job(changed, domain.Marks{domain.MarkSent})
	require.NoError(w, w.cluster.Apply(w.Context(), j).Retry)
	require.Equal(w, domain.Marks{domain.MarkUndeleted}, watcher.Marks)
	require.Equal(w, domain.Marks{domain.MarkDeleting}, watcher.Marks.Doom(), "a terminate asks the cluster")
}

func (w *world) customManifests() (crd, object string, group string) {
	group = w.name + ".example.com"
	crd = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.` + group + `}
spec:
  group: ` + group + `
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`
	object = `
apiVersion: ` + group + `/v1
kind: Widget
metadata: {name: a}
spec: {size: 3}
`
	return crd, object, group
}

func appliesCustom(w *world) {
	crd, object, group := w.customManifests()
	resources := append(Resources(w, true, crd+"---"+object), w.configMap(1, "a"))
	w.mustApply(resources)
	widgets := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}
	require.NotNil(w, w.findIn(widgets, w.namespace, "a"))

	other := strings.Replace(strings.Replace(object, "/v1", "/v1alpha1", 1), "name: a", "name: b", 1)
	outcome, watcher := w.apply(Resources(w, true, crd+"---"+other))
	require.NoError(w, outcome.Retry, "no time brings a version that the CRD does not have")
	require.Equal(w, domain.Marks{domain.MarkApplied, domain.MarkRefused}, watcher.Marks)

	// The CRD first, as somebody else might: the widget's kind is gone, and the widget with it.
	outcome, watcher = w.delete(resources[:1])
	require.NoError(w, outcome.Retry)
	require.Equal(w, domain.Marks{domain.MarkDeleted}, watcher.Marks)
	outcome, watcher = w.delete(resources[1:2])
	require.NoError(w, outcome.Retry)
	require.Equal(w, domain.Marks{domain.MarkDeleted}, watcher.Marks)
}

func findsMovedKind(w *world) {
	crd, object, group := w.customManifests()
	resources := Resources(w, true, crd+"---"+object)
	w.mustApply(resources)
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	anew := func(crd string) { // by somebody else, of whom the client knows nothing
		other := Open(w, kube.Config{}, w.kubeconfig)
		j, _ := w.job(resources[:1], domain.Marks{domain.MarkDoomed})
		require.NoError(w, other.Delete(w.Context(), j).Retry)
		require.Eventually(w, func() bool {
			return w.findIn(definitions, "", resources[0].Name) == nil
		}, Deadline, Tick)
		j, watcher := w.job(Resources(w, true, crd+"---"+object), domain.NewMarks(2, domain.MarkPending))
		require.NoError(w, other.Apply(w.Context(), j).Retry)
		require.Equal(w, domain.NewMarks(2, domain.MarkApplied), watcher.Marks, "%v", watcher.Notes)
	}
	anew(strings.Replace(crd, "Namespaced", "Cluster", 1))
	j, watcher := w.job(resources[1:], domain.Marks{domain.MarkPending})
	require.NoError(w, w.cluster.Apply(w.Context(), j).Retry)
	require.Equal(w, domain.Marks{domain.MarkApplied}, watcher.Marks, "%v", watcher.Notes)
	require.NotNil(w, w.findIn(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}, "", "a"))

	anew(crd)
	id := resources[1].ResourceID
	id.Namespace = w.namespace
	found, err := w.cluster.Object(w.Context(), id)
	require.NoError(w, err)
	require.NotNil(w, found)
	outcome, watcher := w.delete(resources)
	require.NoError(w, outcome.Retry)
	require.Equal(w, domain.NewMarks(2, domain.MarkDeleted), watcher.Marks)
}

func appliesIntoNamespace(w *world) {
	other := Name("suite")
	resources := Resources(w, true, `
apiVersion: v1
kind: Namespace
metadata: {name: `+other+`}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: `+other+`}
`)
	w.mustApply(resources)
	require.NotNil(w, w.findIn(configMaps, other, "a"))

	outcome, watcher := w.delete(resources)
	require.NoError(w, outcome.Retry)
	require.Equal(w, domain.NewMarks(2, domain.MarkDeleted), watcher.Marks)

	// One that the job brings, but that is not there, is applied by the next try; one that was refused is not.
	absent := Name("suite")
	resources = Resources(w, true, `
apiVersion: v1
kind: Namespace
metadata: {name: `+absent+`}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: `+absent+`}
`)
	j, watcher := w.job(resources, domain.Marks{domain.MarkApplied, domain.MarkPending})
	outcome = w.cluster.Apply(w.Context(), j)
	require.True(w, fail.Is(outcome.Retry, fail.Unavailable), "%v", outcome.Retry)
	require.Equal(w, domain.NewMarks(2, domain.MarkSent), watcher.Marks)
	j, watcher = w.job(resources, domain.Marks{domain.MarkRefused, domain.MarkPending})
	require.NoError(w, w.cluster.Apply(w.Context(), j).Retry)
	require.Equal(w, domain.Marks{domain.MarkRefused, domain.MarkRefused}, watcher.Marks)
}

// waitsForWhatComes has a resource that needs another one of the job, which is not there and which the job is not to work
// on: only what was applied is waited for, as the cluster may take a moment to have it.
func waitsForWhatComes(w *world) {
	absent := Name("suite")
	crd, widget, _ := w.customManifests()
	for what, manifests := range map[string]string{
		"namespace":  "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + absent + "}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: " + absent + "}}",
		"definition": crd + "---" + widget,
	} {
		resources := Resources(w, true, manifests)
		for _, m := range []byte("posFdrLXDKhHG") {
			j, watcher := w.job(resources, domain.Marks{domain.Mark(m), domain.MarkPending})
			j.Selects = func(i int) bool { return i == 1 }
			require.NoError(w, w.cluster.Apply(w.Context(), j).Retry, "%s %c", what, m)
			require.Equal(w, domain.Marks{domain.Mark(m), domain.MarkRefused}, watcher.Marks, "%s %c", what, m)
		}
	}
}

func makesNamespaceAnew(w *world) {
	other := Name("suite")
	in := func(name string) string {
		return "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: " + name + ", namespace: " + other + "}}\n"
	}
	resources := append(Resources(w, true, "{apiVersion: v1, kind: Namespace, metadata: {name: "+other+"}}\n"+in("stays")+in("changed")), w.configMap(1, "elsewhere"))
	w.mustApply(resources)
	require.NoError(w, w.dynamic.Resource(namespaces).Delete(w.Context(), other, metav1.DeleteOptions{}))
	require.Eventually(w, func() bool { return w.findIn(namespaces, "", other) == nil }, Deadline, Tick)

	updated := domain.Marks{domain.MarkApplied, domain.MarkApplied, domain.MarkOutdated, domain.MarkApplied}
	w.makesAnew(resources, updated, domain.Marks{domain.MarkSent, domain.MarkSent, domain.MarkSent, domain.MarkApplied})
	require.NotNil(w, w.findIn(configMaps, other, "stays"))
	require.NotNil(w, w.findIn(configMaps, other, "changed"))
}

func makesDefinitionAnew(w *world) {
	crd, widget, group := w.customManifests()
	second := strings.Replace(widget, "name: a", "name: b", 1)
	resources := append(Resources(w, true, crd+"---"+widget+"---"+second), w.configMap(1, "elsewhere"))
	w.mustApply(resources)
	widgets := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}
	Undefine(w, w.dynamic, widgets)

	updated := domain.Marks{domain.MarkApplied, domain.MarkApplied, domain.MarkOutdated, domain.MarkApplied}
	w.makesAnew(resources, updated, domain.Marks{domain.MarkSent, domain.MarkSent, domain.MarkOutdated, domain.MarkApplied})
	require.NotNil(w, w.findIn(widgets, w.namespace, "a"))
	require.NotNil(w, w.findIn(widgets, w.namespace, "b"))
}

// makesAnew applies resources by a try that finds that something has gone, and by the one that goes on with what that has marked.
func (w *world) makesAnew(resources []plan.Resource, first, then domain.Marks) {
	j, watcher := w.job(resources, first)
	outcome := Open(w, kube.Config{StageWait: time.Second}, w.kubeconfig).Apply(w.Context(), j)
	require.True(w, fail.Is(outcome.Retry, fail.Unavailable), "%v", outcome.Retry)
	require.Equal(w, then, watcher.Marks)
	j, watcher = w.job(resources, then)
	require.NoError(w, w.cluster.Apply(w.Context(), j).Retry)
	require.Equal(w, domain.NewMarks(len(resources), domain.MarkApplied), watcher.Marks, "%v", watcher.Notes)
}

func worksOnSelected(w *world) {
	resources := []plan.Resource{w.configMap(0, "a"), w.configMap(0, "b"), w.configMap(1, "c")}
	j, watcher := w.job(resources, domain.NewMarks(3, domain.MarkPending))
	j.Selects = func(i int) bool { return i > 0 }
	require.NoError(w, w.cluster.Apply(w.Context(), j).Retry)
	require.Equal(w, domain.Marks{domain.MarkPending, domain.MarkApplied, domain.MarkApplied}, watcher.Marks)
	require.Nil(w, w.find("a"))

	j, watcher = w.job(resources, domain.NewMarks(3, domain.MarkDoomed))
	j.Selects = func(i int) bool { return i == 1 }
	require.NoError(w, w.cluster.Delete(w.Context(), j).Retry)
	require.Equal(w, domain.Marks{domain.MarkDoomed, domain.MarkDeleted, domain.MarkDoomed}, watcher.Marks)
	require.Nil(w, w.find("b"))
	require.NotNil(w, w.find("c"))
}

func waitsForNamespace(w *world) {
	w.mustApply([]plan.Resource{w.configMap(0, "held")})
	w.hold("held")
	require.NoError(w, w.dynamic.Resource(namespaces).Delete(w.Context(), w.namespace, metav1.DeleteOptions{}))

	outcome, watcher := w.apply([]plan.Resource{w.configMap(0, "a")})
	require.True(w, fail.Is(outcome.Retry, fail.Unavailable), "%v", outcome.Retry)
	require.True(w, outcome.Reached)
	require.Contains(w, fail.TextOf(outcome.Retry), "is being terminated")
	require.Contains(w, fail.TextOf(outcome.Retry), "ConfigMap a", "it says which resource is waited for")
	require.Equal(w, domain.Marks{domain.MarkSent}, watcher.Marks)
}

func announces(w *world) {
	resources := []plan.Resource{w.configMap(2, "a"), w.configMap(1, "b"), w.configMap(1, "c"), w.configMap(1, "settled")}
	j, watcher := w.job(resources, domain.Marks{domain.MarkPending, domain.MarkPending, domain.MarkSent, domain.MarkApplied})
	var stages [][]int
	j.BeforeStage = stageRecorder(w, &stages, watcher)
	require.NoError(w, w.cluster.Apply(w.Context(), j).Retry)
	require.Equal(w, [][]int{{1, 2}, {0}}, stages)

	refusal := fail.New(fail.Unavailable, "the workflow does not answer")
	j, watcher = w.job([]plan.Resource{w.configMap(0, "unannounced")}, domain.Marks{domain.MarkPending})
	j.BeforeStage = func(context.Context, []int) error { return refusal }
	require.Equal(w, kube.Outcome{Retry: refusal}, w.cluster.Apply(w.Context(), j))
	require.Empty(w, watcher.Told)
	require.Nil(w, w.find("unannounced"))
}

func deletesInReverse(w *world) {
	resources := []plan.Resource{w.configMap(0, "a"), w.configMap(1, "b"), w.configMap(2, "c")}
	w.mustApply(resources)
	outcome, watcher := w.delete(resources)
	require.Equal(w, kube.Outcome{Reached: true}, outcome)
	require.Equal(w, []Event{
		{2, domain.MarkDeleting}, {2, domain.MarkDeleted},
		{1, domain.MarkDeleting}, {1, domain.MarkDeleted},
		{0, domain.MarkDeleting}, {0, domain.MarkDeleted},
	}, watcher.Told)
	require.Nil(w, w.find("a"))
	require.Nil(w, w.find("b"))
	require.Nil(w, w.find("c"))
}

func deletesAbsent(w *world) {
	_, object, _ := w.customManifests()
	resources := append(Resources(w, false, object), w.configMap(0, "absent"))
	elsewhere := w.configMap(0, "a")
	elsewhere.Namespace = Name("not-there")
	nameless := w.configMap(0, "")
	resources = append(resources, elsewhere, nameless)
	outcome, watcher := w.delete(resources)
	require.Equal(w, kube.Outcome{Reached: true}, outcome)
	require.Equal(w, domain.NewMarks(4, domain.MarkDeleted), watcher.Marks)
	require.Empty(w, watcher.Notes)
}

func leavesForeign(w *world) {
	resources := []plan.Resource{w.configMap(0, "a"), w.configMap(0, "b")}
	w.mustApply(resources)
	w.merge("a", `{"metadata":{"labels":{"emco/deployment-id":"8-other"}}}`)
	w.merge("b", `{"metadata":{"labels":{"emco/deployment-id":null}}}`)
	outcome, watcher := w.delete(resources)
	require.Equal(w, kube.Outcome{Reached: true}, outcome)
	require.Equal(w, domain.NewMarks(2, domain.MarkDeleted), watcher.Marks)
	require.Contains(w, watcher.Notes[0], "8-other")
	require.Contains(w, watcher.Notes[1], "no longer carries the label")
	require.NotNil(w, w.find("a"))
	require.NotNil(w, w.find("b"))
}

// leavesWanted: a kind without namespaces has one object, whatever namespace manifests say, so that an update which changes that alone
// has applied what it then prunes.
func leavesWanted(w *world) {
	crd, object, group := w.customManifests()
	in := func(namespace string) string {
		return "---" + strings.Replace(object, "{name: a}", "{name: a, namespace: "+namespace+"}", 1)
	}
	resources := Resources(w, true, strings.Replace(crd, "Namespaced", "Cluster", 1)+in("new")+in("old"))
	w.mustApply(resources[:2])
	j, watcher := w.job(resources, domain.Marks{domain.MarkApplied, domain.MarkApplied, domain.MarkDoomed})
	require.NoError(w, w.cluster.Delete(w.Context(), j).Retry)
	require.Equal(w, domain.Marks{domain.MarkApplied, domain.MarkApplied, domain.MarkDeleted}, watcher.Marks)
	require.NotNil(w, w.findIn(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}, "", "a"))
}

func leavesKept(w *world) {
	resources := []plan.Resource{w.configMap(0, "kept"), w.configMap(0, "deleted"), w.configMap(0, "doomed"), w.configMap(0, "deleting")}
	w.mustApply(resources)
	j, watcher := w.job(resources, domain.Marks{domain.MarkKept, domain.MarkDeleted, domain.MarkDoomed, domain.MarkDeleting})
	require.NoError(w, w.cluster.Delete(w.Context(), j).Retry)
	require.Equal(w, domain.Marks{domain.MarkKept, domain.MarkDeleted, domain.MarkDeleted, domain.MarkDeleted}, watcher.Marks)
	require.NotNil(w, w.find("kept"))
	require.NotNil(w, w.find("deleted"))
	require.Nil(w, w.find("doomed"))
	require.Nil(w, w.find("deleting"))
}

// leavesAnnotated: an update leaves what somebody has annotated in the cluster, whatever the manifest says. A terminate goes by the manifest.
func leavesAnnotated(w *world) {
	resources := []plan.Resource{w.configMap(0, "annotated"), w.configMap(0, "plain")}
	w.mustApply(resources)
	w.merge("annotated", `{"metadata":{"annotations":{"helm.sh/resource-policy":"keep"}}}`)
	j, watcher := w.job(resources, domain.NewMarks(2, domain.MarkDoomed))
	j.Prunes = true
	require.NoError(w, w.cluster.Delete(w.Context(), j).Retry)
	require.Equal(w, domain.NewMarks(2, domain.MarkDeleted), watcher.Marks)
	require.Len(w, watcher.Notes, 1)
	require.Contains(w, watcher.Notes[0], "annotated there with helm.sh/resource-policy: keep")
	require.NotNil(w, w.find("annotated"))
	require.Nil(w, w.find("plain"))
	outcome, watcher := w.delete(resources)
	require.NoError(w, outcome.Retry)
	require.Empty(w, watcher.Notes)
	require.Nil(w, w.find("annotated"))
}

// leavesNamespaceOfAnnotated: with a namespace would go what was left in it, in this attempt or in an earlier one.
func leavesNamespaceOfAnnotated(w *world) {
	resources := Resources(w, true, `
apiVersion: v1
kind: Namespace
metadata: {name: `+w.name+`-kept}
---
apiVersion: v1
kind: Namespace
metadata: {name: `+w.name+`-gone}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: `+w.name+`-kept, annotations: {helm.sh/resource-policy: keep}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: b, namespace: `+w.name+`-gone}
`)
	w.mustApply(resources)
	w.Cleanup(func() {
		_ = w.dynamic.Resource(namespaces).Delete(context.WithoutCancel(w.Context()), w.name+"-kept", metav1.DeleteOptions{})
	})
	for _, marks := range []domain.Marks{domain.Marks("dddd"), domain.Marks("dGGG")} {
		j, watcher := w.job(resources, marks)
		j.Prunes = true
		require.NoError(w, w.cluster.Delete(w.Context(), j).Retry)
		require.Equal(w, domain.MarkDeleted, watcher.Marks[0])
		require.Contains(w, watcher.Notes[0], "with it would go ConfigMap a, which is annotated there")
		require.Nil(w, w.findIn(namespaces, "", w.name+"-kept").GetDeletionTimestamp())
		require.NotNil(w, w.findIn(configMaps, w.name+"-kept", "a"))
		require.Nil(w, w.findIn(namespaces, "", w.name+"-gone"))
	}
}

// looksForKept: of what is to be kept, and may be there, the cluster is asked. It is never deleted.
func looksForKept(w *world) {
	resources := []plan.Resource{
		w.configMap(0, "kept"), w.configMap(0, "foreign"), w.configMap(1, "absent"),
		{ResourceID: plan.ResourceID{Group: "example.com", Version: "v1", Kind: "NoSuchKind", Name: "a"}, Stage: 2},
	}
	w.mustApply(resources[:2])
	w.merge("foreign", `{"metadata":{"labels":{"emco/deployment-id":"8-other"}}}`)
	j, watcher := w.job(resources, domain.NewMarks(4, domain.MarkKeeping))
	require.Equal(w, kube.Outcome{Reached: true}, w.cluster.Delete(w.Context(), j))
	require.Equal(w, domain.Marks{domain.MarkKept, domain.MarkDeleted, domain.MarkDeleted, domain.MarkDeleted}, watcher.Marks)
	require.Len(w, watcher.Notes, 1)
	require.Contains(w, watcher.Notes[1], "8-other")
	require.NotNil(w, w.find("kept"))
	require.NotNil(w, w.find("foreign"))
}

func deletesOtherVersion(w *world) {
	w.mustApply(Resources(w, false, `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: a}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: a}}}
`))
	old := plan.Resource{ResourceID: plan.ResourceID{Group: "policy", Version: "v1beta1", Kind: "PodDisruptionBudget", Name: "a"}}
	id := old.ResourceID
	id.Namespace = w.namespace
	there, err := w.cluster.Object(w.Context(), id)
	require.NoError(w, err)
	require.Contains(w, string(there), `"policy/v1"`, "it is found by it, too")
	outcome, watcher := w.delete([]plan.Resource{old})
	require.NoError(w, outcome.Retry)
	require.Equal(w, domain.Marks{domain.MarkDeleted}, watcher.Marks)
	require.Nil(w, w.findIn(schema.GroupVersionResource{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"}, w.namespace, "a"))
}

// deletesMoved: what was made by a group that the cluster has no more is served by another one.
func deletesMoved(w *world) {
	w.mustApply(Resources(w, false, `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: a}
spec: {defaultBackend: {service: {name: a, port: {number: 80}}}}
`))
	old := plan.Resource{ResourceID: plan.ResourceID{Group: "extensions", Version: "v1beta1", Kind: "Ingress", Name: "a"}}
	outcome, watcher := w.delete([]plan.Resource{old})
	require.NoError(w, outcome.Retry)
	require.Equal(w, domain.Marks{domain.MarkDeleted}, watcher.Marks)
	require.Nil(w, w.findIn(schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"}, w.namespace, "a"))
}

// hold keeps a ConfigMap from going until the test ends or lets it go.
func (w *world) hold(name string) {
	w.Helper()
	w.merge(name, `{"metadata":{"finalizers":["example.com/held"]}}`)
	w.Cleanup(func() {
		_, err := w.dynamic.Resource(configMaps).Namespace(w.namespace).Patch(context.WithoutCancel(w.Context()), name,
			types.MergePatchType, []byte(letGo), metav1.PatchOptions{})
		if !apierrors.IsNotFound(err) {
			require.NoError(w, err)
		}
	})
}

// letGo is the patch that undoes hold.
const letGo = `{"metadata":{"finalizers":null}}`

func saysFinalizers(w *world) {
	resources := []plan.Resource{w.configMap(1, "held"), w.configMap(1, "free"), w.configMap(0, "before")}
	w.mustApply(resources)
	w.hold("held")
	w.cluster = Open(w, kube.Config{StageWait: 50 * time.Millisecond}, w.kubeconfig)
	marks := domain.NewMarks(3, domain.MarkDoomed)
	for range 2 { // an attempt that finds the deletion asked for already says the same
		j, watcher := w.job(resources, marks)
		outcome := w.cluster.Delete(w.Context(), j)
		since := w.find("held").GetDeletionTimestamp().UTC().Format(time.RFC3339)
		note := "being deleted since " + since + ", waits for finalizer example.com/held"
		require.Equal(w, "waits until ConfigMap held is gone: "+note, outcome.Waits)
		require.True(w, fail.Is(outcome.Retry, fail.Unavailable), "%v", outcome.Retry)
		require.True(w, outcome.Reached)
		require.Equal(w, domain.Marks{domain.MarkEnding, domain.MarkDeleted, domain.MarkDeleted}, watcher.Marks)
		require.Equal(w, map[int]string{0: note}, watcher.Notes)
		require.Nil(w, w.find("before"), "what is deleted after it does not wait for ever")
		marks = watcher.Marks
	}
	w.merge("held", letGo)
	j, watcher := w.job(resources, marks)
	require.Equal(w, kube.Outcome{Reached: true}, w.cluster.Delete(w.Context(), j))
	require.Equal(w, domain.NewMarks(3, domain.MarkDeleted), watcher.Marks)
	require.Empty(w, watcher.Notes)
}

// makesAnewWhatCannotBeChanged: a refusal of what is about an object that is being deleted says nothing of the next one.
func makesAnewWhatCannotBeChanged(w *world) {
	fixed := func(value string) []plan.Resource {
		return Resources(w, false, `{apiVersion: v1, kind: ConfigMap, metadata: {name: fixed}, immutable: true, data: {key: `+value+`}}`)
	}
	w.mustApply(fixed("one"))
	outcome, watcher := w.apply(fixed("two"))
	require.NoError(w, outcome.Retry)
	require.Equal(w, domain.Marks{domain.MarkRefused}, watcher.Marks)
	w.hold("fixed")
	w.cluster = Open(w, kube.Config{StageWait: 50 * time.Millisecond}, w.kubeconfig)
	_, watcher = w.delete(fixed("one"))
	require.Equal(w, domain.Marks{domain.MarkEnding}, watcher.Marks)
	outcome, watcher = w.apply(fixed("two"))
	require.True(w, fail.Is(outcome.Retry, fail.Unavailable), "%v", outcome.Retry)
	require.Contains(w, fail.TextOf(outcome.Retry), "waits for finalizer example.com/held")
	require.Equal(w, domain.Marks{domain.MarkSent}, watcher.Marks)
	w.merge("fixed", letGo)
	j, watcher := w.job(fixed("two"), watcher.Marks)
	require.NoError(w, w.cluster.Apply(w.Context(), j).Retry)
	require.Equal(w, domain.Marks{domain.MarkApplied}, watcher.Marks)
}

func makesAnew(w *world) {
	resources := []plan.Resource{w.configMap(0, "held"), w.configMap(0, "free"), w.configMap(1, "after")}
	w.mustApply(resources)
	w.hold("held")
	before := w.find("held").GetUID()
	w.cluster = Open(w, kube.Config{StageWait: 50 * time.Millisecond}, w.kubeconfig)
	_, watcher := w.delete(resources)
	require.Equal(w, domain.Marks{domain.MarkEnding, domain.MarkDeleted, domain.MarkDeleted}, watcher.Marks)

	marks := domain.NewMarks(len(resources), domain.MarkPending)
	for range 2 {
		j, watcher := w.job(resources, marks)
		outcome := w.cluster.Apply(w.Context(), j)
		require.True(w, fail.Is(outcome.Retry, fail.Unavailable), "%v", outcome.Retry)
		require.Contains(w, fail.TextOf(outcome.Retry), "ConfigMap held: ")
		require.Contains(w, fail.TextOf(outcome.Retry), "waits for finalizer example.com/held")
		require.Equal(w, domain.Marks{domain.MarkSent, domain.MarkApplied, domain.MarkPending}, watcher.Marks)
		marks = watcher.Marks
	}
	w.merge("held", letGo)
	require.Nil(w, w.find("held"), "with it went what was applied to it")
	j, watcher := w.job(resources, marks)
	require.NoError(w, w.cluster.Apply(w.Context(), j).Retry)
	require.Equal(w, domain.NewMarks(len(resources), domain.MarkApplied), watcher.Marks)
	require.NotEqual(w, before, w.find("held").GetUID())
}

func saysWhatNamespaceHas(w *world) {
	other := Name("suite")
	resources := Resources(w, true, `
apiVersion: v1
kind: Namespace
metadata: {name: `+other+`}
`)
	w.mustApply(resources)
	foreign := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "finalizers": []any{"example.com/held"}},
	}}
	_, err := w.dynamic.Resource(configMaps).Namespace(other).Create(w.Context(), foreign, metav1.CreateOptions{})
	require.NoError(w, err)
	let := func() {
		_, err := w.dynamic.Resource(configMaps).Namespace(other).Patch(context.WithoutCancel(w.Context()), "a",
			types.MergePatchType, []byte(letGo), metav1.PatchOptions{})
		if !apierrors.IsNotFound(err) {
			require.NoError(w, err)
		}
	}
	w.Cleanup(let)
	w.cluster = Open(w, kube.Config{StageWait: 50 * time.Millisecond}, w.kubeconfig)
	marks := domain.Marks{domain.MarkDoomed}
	attempt := func() kube.Outcome {
		j, watcher := w.job(resources, marks)
		outcome := w.cluster.Delete(w.Context(), j)
		marks = watcher.Marks
		return outcome
	}
	require.Eventually(w, func() bool { // the cluster says so a moment after the deletion
		outcome := attempt()
		require.Equal(w, domain.Marks{domain.MarkEnding}, marks)
		return strings.Contains(outcome.Waits, "waits until Namespace "+other+" is gone: being deleted since ") &&
			strings.Contains(outcome.Waits, "configmaps. has 1 resource instances") && strings.Contains(outcome.Waits, "example.com/held in 1 resource")
	}, Deadline, Tick)
	again, _ := w.job(resources, domain.Marks{domain.MarkPending})
	retry := w.cluster.Apply(w.Context(), again).Retry
	require.True(w, fail.Is(retry, fail.Unavailable), "%v", retry)
	require.Contains(w, fail.TextOf(retry), "configmaps. has 1 resource instances", "it is not there to be settled in")
	let()
	require.Eventually(w, func() bool { return attempt().Retry == nil }, Deadline, Tick)
	require.Equal(w, domain.Marks{domain.MarkDeleted}, marks)
}

func looksAtFew(w *world) {
	const n = 100
	var resources []plan.Resource
	for i := range n {
		resources = append(resources, w.configMap(0, fmt.Sprintf("held-%d", i)))
	}
	w.mustApply(resources)
	for i := range resources {
		w.hold(resources[i].Name)
	}
	w.cluster = Open(w, kube.Config{StageWait: time.Nanosecond}, w.kubeconfig)
	outcome, watcher := w.delete(resources)
	require.Equal(w, domain.NewMarks(n, domain.MarkEnding), watcher.Marks)
	require.Contains(w, outcome.Waits, "waits until ConfigMap held-0 is gone")
	require.Contains(w, outcome.Waits, "(and 99 more)")

	asked := w.cluster.Answers()
	j, _ := w.job(resources, watcher.Marks)
	require.Equal(w, outcome.Waits, w.cluster.Delete(w.Context(), j).Waits)
	require.Less(w, w.cluster.Answers()-asked, int64(n/2))
	for i := range resources {
		w.merge(resources[i].Name, letGo)
	}
	j, watcher = w.job(resources, watcher.Marks)
	require.NoError(w, w.cluster.Delete(w.Context(), j).Retry)
	require.Equal(w, domain.NewMarks(n, domain.MarkDeleted), watcher.Marks)
}

// remnants are those of the suite's deployment of the kinds of the resources.
func (w *world) remnants(resources ...plan.Resource) kube.Remnants {
	r := kube.Remnants{Deployments: []string{DeploymentID, "4711-another"}}
	for _, resource := range resources {
		place := resource.ResourceID
		place.Namespace = w.namespace
		r.Places = append(r.Places, place)
	}
	return r
}

func sweeps(w *world) {
	var resources []plan.Resource
	for i := range 30 {
		resources = append(resources, w.configMap(0, fmt.Sprintf("back-%d", i)))
	}
	w.mustApply(append(resources, w.configMap(0, "held")))
	w.hold("held")
	s := w.remnants(resources[0], plan.Resource{ResourceID: plan.ResourceID{Group: "example.com", Version: "v1", Kind: "Nothing"}})
	deleted, left, err := w.cluster.Sweep(w.Context(), s)
	require.NoError(w, err)
	require.Len(w, deleted, len(resources)+1)
	require.Len(w, left, 1)
	require.Equal(w, "held", left[0].Name)
	require.Contains(w, left[0].Why, "waits for finalizer example.com/held")
	require.True(w, left[0].Going)
	for i := range resources {
		require.Nil(w, w.find(resources[i].Name))
	}
	w.merge("held", letGo)
	require.Eventually(w, func() bool {
		_, left, err := w.cluster.Sweep(w.Context(), s)
		return err == nil && len(left) == 0
	}, Deadline, Tick)

	require.Eventually(w, func() bool {
		asked := w.cluster.Answers()
		deleted, left, err := w.cluster.Sweep(w.Context(), s)
		require.NoError(w, err)
		require.Empty(w, deleted)
		require.Empty(w, left)
		return w.cluster.Answers()-asked <= 3 // and one more where it was long ago that the cluster did not know the kind
	}, Deadline, Tick, "where there is nothing it costs a request a place")
}

// sweepsNoNamespaceOfKept: a terminate ends with a look that deletes namespaces, with all that is in them.
func sweepsNoNamespaceOfKept(w *world) {
	kept, gone := w.name+"-kept", w.name+"-gone"
	resources := Resources(w, true, `
apiVersion: v1
kind: Namespace
metadata: {name: `+kept+`}
---
apiVersion: v1
kind: Namespace
metadata: {name: `+gone+`}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: `+kept+`, annotations: {helm.sh/resource-policy: keep}}
`)
	w.Cleanup(func() {
		_ = w.dynamic.Resource(namespaces).Delete(context.WithoutCancel(w.Context()), kept, metav1.DeleteOptions{})
	})
	j, watcher := w.job(resources, domain.NewMarks(len(resources), domain.MarkPending))
	j.DeploymentID = "4711-" + w.name // namespaces are everybody's: other tests have some, too
	require.NoError(w, w.cluster.Apply(w.Context(), j).Retry)
	require.Equal(w, domain.NewMarks(len(resources), domain.MarkApplied), watcher.Marks, "notes: %v", watcher.Notes)
	s := kube.Remnants{Deployments: []string{j.DeploymentID}, Places: []plan.ResourceID{resources[0].ResourceID, resources[2].ResourceID}}
	_, left, err := w.cluster.Sweep(w.Context(), s)
	require.NoError(w, err)
	require.Len(w, left, 1, "%v", left)
	require.Equal(w, gone, left[0].Name, "of the other one nothing is said: it is to stay")
	s.Namespaces = true
	require.Eventually(w, func() bool {
		_, left, err := w.cluster.Sweep(w.Context(), s)
		return err == nil && len(left) == 0
	}, Deadline, Tick)
	require.Nil(w, w.findIn(namespaces, "", gone))
	require.Nil(w, w.findIn(namespaces, "", kept).GetDeletionTimestamp())
	require.NotNil(w, w.findIn(configMaps, kept, "a"))
}

// leavesNamespaceOfVolume: what a claim is that stays in a namespace, and whose, no plan may say. A logical cloud's own namespace goes all the same.
func leavesNamespaceOfVolume(w *world) {
	name := w.name + "-volume"
	resources := Resources(w, true, `
apiVersion: v1
kind: Namespace
metadata: {name: `+name+`}
`)
	j, watcher := w.job(resources, domain.NewMarks(1, domain.MarkPending))
	j.DeploymentID = "4711-" + w.name // namespaces are everybody's: other tests have some, too
	w.Cleanup(func() {
		_ = w.dynamic.Resource(namespaces).Delete(context.WithoutCancel(w.Context()), name, metav1.DeleteOptions{})
	})
	require.NoError(w, w.cluster.Apply(w.Context(), j).Retry)
	require.Equal(w, domain.NewMarks(1, domain.MarkApplied), watcher.Marks, "notes: %v", watcher.Notes)
	_, err := w.dynamic.Resource(claims).Namespace(name).Create(w.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": map[string]any{
			"name": "data", "labels": map[string]any{plan.DeploymentLabel: "8-ended"}, "annotations": map[string]any{"helm.sh/resource-policy": "keep"},
		},
		"spec": map[string]any{"accessModes": []any{"ReadWriteOnce"}, "resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}}},
	}}, metav1.CreateOptions{})
	require.NoError(w, err)
	s := kube.Remnants{Deployments: []string{j.DeploymentID}, Places: []plan.ResourceID{resources[0].ResourceID}}
	for _, yes := range []bool{false, true} {
		j.Prunes, s.Namespaces = yes, yes
		j.Marks, watcher.Notes = domain.NewMarks(1, domain.MarkDoomed), map[int]string{}
		require.NoError(w, w.cluster.Delete(w.Context(), j).Retry)
		left := domain.MarkKept
		if j.Prunes {
			left = domain.MarkDeleted
		}
		require.Equal(w, domain.NewMarks(1, left), watcher.Marks)
		require.Contains(w, watcher.Notes[0], "with it would go PersistentVolumeClaim data, which is annotated there")
		deleted, remnants, err := w.cluster.Sweep(w.Context(), s)
		require.NoError(w, err)
		require.Empty(w, deleted)
		require.Empty(w, remnants, "it is to stay")
		require.Nil(w, w.findIn(namespaces, "", name).GetDeletionTimestamp())
	}
	s.TakesAll = true
	deleted, _, err := w.cluster.Sweep(w.Context(), s)
	require.NoError(w, err)
	require.Len(w, deleted, 1)
}

func sweepsWithCare(w *world) {
	crd, object, group := w.customManifests()
	other := Name("suite")
	definition := Resources(w, true, crd+"---"+object)
	stays := []plan.Resource{w.configMap(0, "annotated"), w.configMap(0, "owned"), w.configMap(0, "another"), w.configMap(0, "unlabelled")}
	all := append(append(stays[:len(stays):len(stays)], definition...), Resources(w, false, `
apiVersion: v1
kind: Namespace
metadata: {name: `+other+`}
`)...)
	j, watcher := w.job(all, domain.NewMarks(len(all), domain.MarkPending))
	j.DeploymentID = "4711-" + w.name // namespaces are everybody's: other tests have some, too
	require.NoError(w, w.cluster.Apply(w.Context(), j).Retry)
	require.Equal(w, domain.NewMarks(len(all), domain.MarkApplied), watcher.Marks, "notes: %v", watcher.Notes)
	w.merge("annotated", `{"metadata":{"annotations":{"helm.sh/resource-policy":"keep"}}}`)
	w.merge("owned", `{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"a","uid":"`+string(w.find("owned").GetUID())+`","controller":true}]}}`)
	w.merge("another", `{"metadata":{"labels":{"emco/deployment-id":"8-live"}}}`)
	w.merge("unlabelled", `{"metadata":{"labels":{"emco/deployment-id":null}}}`)
	foreign := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
		"name": "copied", "labels": map[string]any{plan.DeploymentLabel: j.DeploymentID},
	}}}
	_, err := w.dynamic.Resource(configMaps).Namespace(w.namespace).Create(w.Context(), foreign, metav1.CreateOptions{FieldManager: "an-operator"})
	require.NoError(w, err)

	s := w.remnants(stays[0], definition[0], definition[1], plan.Resource{ResourceID: plan.ResourceID{Version: "v1", Kind: "Namespace"}})
	s.Deployments = []string{j.DeploymentID}
	deleted, left, err := w.cluster.Sweep(w.Context(), s)
	require.NoError(w, err)
	require.Len(w, deleted, 1, "%v", deleted)
	require.Equal(w, "Widget", deleted[0].Kind)
	for _, name := range []string{"annotated", "another", "unlabelled", "copied"} {
		require.NotNil(w, w.find(name), name)
	}
	require.Len(w, left, 1)
	require.Equal(w, other, left[0].Name)
	require.Contains(w, left[0].Why, "is not deleted")
	require.False(w, left[0].Going)
	require.NotNil(w, w.findIn(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}, "", "widgets."+group))

	s.Namespaces = true // as when a terminate ends
	require.Eventually(w, func() bool {
		_, left, err := w.cluster.Sweep(w.Context(), s)
		return err == nil && len(left) == 0
	}, Deadline, Tick)
	require.Nil(w, w.findIn(namespaces, "", other))

	nobody := Open(w, kube.Config{}, As(w, w.kubeconfig, "nobody"))
	deleted, left, err = nobody.Sweep(w.Context(), s)
	require.NoError(w, err, "what may not be listed is left out")
	require.Empty(w, deleted)
	require.Empty(w, left)
}

func waitsForLeave(w *world) {
	resources := []plan.Resource{w.configMap(0, "held")}
	w.mustApply(resources)
	w.hold("held")
	j, watcher := w.job(resources, domain.Marks{domain.MarkDoomed})
	ended := make(chan kube.Outcome, 1)
	go func() { ended <- w.cluster.Delete(w.Context(), j) }()
	require.Eventually(w, func() bool { return w.find("held").GetDeletionTimestamp() != nil }, Deadline, Tick)
	w.merge("held", letGo)
	require.NoError(w, (<-ended).Retry)
	require.Equal(w, domain.Marks{domain.MarkDeleted}, watcher.Marks)
	require.Empty(w, watcher.Notes)
	require.Nil(w, w.find("held"))
}

func forbidden(w *world) {
	w.mustApply([]plan.Resource{w.configMap(0, "a")})
	w.cluster = Open(w, kube.Config{}, As(w, w.kubeconfig, "nobody"))
	resources := []plan.Resource{w.configMap(0, "a"), w.configMap(0, "b")}
	outcome, watcher := w.apply(resources)
	require.Equal(w, kube.Outcome{Reached: true}, outcome)
	require.Equal(w, domain.NewMarks(2, domain.MarkRefused), watcher.Marks)
	require.Contains(w, watcher.Notes[0], "is forbidden")

	outcome, watcher = w.delete(resources)
	require.Equal(w, kube.Outcome{Reached: true}, outcome)
	require.Equal(w, domain.NewMarks(2, domain.MarkUndeleted), watcher.Marks)
	require.Contains(w, watcher.Notes[0], "is forbidden")
}

func unauthorized(w *world) {
	w.cluster = Open(w, kube.Config{}, withToken(w, w.kubeconfig, "not-a-token"))
	outcome, watcher := w.apply([]plan.Resource{w.configMap(0, "a")})
	require.True(w, fail.Is(outcome.Retry, fail.Unavailable), "%v", outcome.Retry)
	require.True(w, outcome.Reached)
	require.Contains(w, fail.TextOf(outcome.Retry), "does not accept the credentials")
	require.Equal(w, domain.Marks{domain.MarkSent}, watcher.Marks)
}

func pings(w *world) { require.NoError(w, w.cluster.Ping(w.Context())) }

func settlesMany(w *world) {
	var resources []plan.Resource
	for i := range 100 {
		resources = append(resources, w.configMap(i/50, Name("many")))
	}
	w.mustApply(resources)
	list, err := w.dynamic.Resource(configMaps).Namespace(w.namespace).
		List(w.Context(), metav1.ListOptions{LabelSelector: plan.DeploymentLabel + "=" + DeploymentID})
	require.NoError(w, err)
	require.Len(w, list.Items, len(resources))
	outcome, watcher := w.delete(resources)
	require.NoError(w, outcome.Retry)
	require.Equal(w, domain.NewMarks(len(resources), domain.MarkDeleted), watcher.Marks)
}
