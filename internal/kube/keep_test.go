package kube_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/kubetest"
)

// TestUpdateKeepsWhatIsOthers completes manifests by what is there.
func TestUpdateKeepsWhatIsOthers(t *testing.T) {
	for name, c := range map[string]struct{ manifest, live, ours, others, want string }{
		"what the cluster has filled in stays": {
			manifest: `{spec: {resources: {cpu: 2}}}`,
			live:     `{spec: {resources: {cpu: 1}, volumeName: pv, storageClassName: standard}, status: {phase: Bound}}`,
			ours:     `{"f:spec": {"f:resources": {"f:cpu": {}}}}`,
			others:   `{"f:status": {"f:phase": {}}}`,
			want:     `{spec: {resources: {cpu: 2}, volumeName: pv, storageClassName: standard}, status: {phase: Bound}}`,
		},
		"what the manifest does not say any more goes": {
			manifest: `{data: {b: "2"}}`, live: `{data: {a: "1", b: "1", c: "1"}}`,
			ours: `{"f:data": {".": {}, "f:a": {}, "f:b": {}}}`, others: `{"f:data": {"f:c": {}}}`,
			want: `{data: {b: "2", c: "1"}}`,
		},
		"what it does not say any more goes, but for what others have said in it": {
			manifest: `{spec: {}}`, live: `{spec: {a: {ours: 1, theirs: 1}, b: {ours: 1}}}`,
			ours: `{"f:spec": {"f:a": {"f:ours": {}}, "f:b": {"f:ours": {}}}}`, others: `{"f:spec": {"f:a": {"f:theirs": {}}}}`,
			want: `{spec: {a: {theirs: 1}}}`,
		},
		"items with a key": {
			manifest: `{containers: [{name: main, image: new}, {name: added}]}`,
			live:     `{containers: [{name: main, image: old, env: [{name: A, value: a}], mounts: [{path: /token}]}, {name: removed}, {name: sidecar, image: x}]}`,
			ours:     `{"f:containers": {'k:{"name":"main"}': {".": {}, "f:image": {}, "f:env": {'k:{"name":"A"}': {".": {}}}}, 'k:{"name":"removed"}': {".": {}}}}`,
			others:   `{"f:containers": {'k:{"name":"sidecar"}': {".": {}}}}`,
			want:     `{containers: [{name: main, image: new, mounts: [{path: /token}]}, {name: added}, {name: sidecar, image: x}]}`,
		},
		"items with a key of which a part is the default": {
			manifest: `{ports: [{port: 53}, {port: 53, protocol: UDP}]}`,
			live:     `{ports: [{port: 53, protocol: TCP, nodePort: 30001}, {port: 53, protocol: UDP, nodePort: 30002}]}`,
			ours:     `{"f:ports": {'k:{"port":53,"protocol":"TCP"}': {".": {}, "f:port": {}}, 'k:{"port":53,"protocol":"UDP"}': {".": {}, "f:port": {}}}}`,
			want:     `{ports: [{port: 53, protocol: TCP, nodePort: 30001}, {port: 53, protocol: UDP, nodePort: 30002}]}`,
		},
		"lists and objects that are said as a whole": {
			manifest: `{args: [b], selector: {b: b}}`, live: `{args: [a, c], selector: {a: a}, command: [x]}`,
			ours: `{"f:args": {}, "f:selector": {}, "f:command": {}}`,
			want: `{args: [b], selector: {b: b}}`,
		},
		"words that others have added": {
			manifest: `{words: [a]}`, live: `{words: [a, b, c]}`,
			ours: `{"f:words": {'v:"a"': {}, 'v:"c"': {}}}`, others: `{"f:words": {'v:"b"': {}}}`,
			want: `{words: [a, b]}`,
		},
		"what is ours but for what is in it": {
			manifest: `{data: {b: "2"}}`, live: `{data: {a: "1"}}`, ours: `{"f:data": {}}`, others: `{"f:data": {"f:a": {}}}`,
			want: `{data: {a: "1", b: "2"}}`,
		},
		"what nobody of us has made": {
			manifest: `{data: {a: "2"}}`, live: `{data: {a: "1", b: "1"}}`, want: `{data: {a: "2", b: "1"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			object, live, want := tree(t, c.manifest), tree(t, c.live), tree(t, c.want)
			live["metadata"] = map[string]any{
				"resourceVersion": "7", "uid": "1", "labels": map[string]any{"ours": "1", "theirs": "1"},
				"managedFields": []any{
					map[string]any{"manager": kube.FieldManager, "operation": "Update", "fieldsV1": join(t, tree(t, c.ours), `{"f:metadata": {"f:labels": {"f:ours": {}}}}`)},
					map[string]any{"manager": kube.FieldManager, "operation": "Update", "subresource": "status", "fieldsV1": tree(t, `{"f:spec": {"f:volumeName": {}}}`)},
					map[string]any{"manager": "another", "operation": "Update", "fieldsV1": tree(t, c.others)},
				},
			}
			object["metadata"] = map[string]any{"labels": map[string]any{}}
			kube.Update(object, live)
			want["metadata"] = map[string]any{"resourceVersion": "7", "uid": "1", "labels": map[string]any{"theirs": "1"}}
			require.Empty(t, cmp.Diff(want, object))
		})
	}
}

func tree(t *testing.T, text string) map[string]any {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	require.NoError(t, err)
	object, err := kube.DecodeObject(data)
	if text == "" {
		return map[string]any{}
	}
	require.NoError(t, err)
	return object
}

func join(t *testing.T, fields map[string]any, more string) map[string]any {
	t.Helper()
	for name, x := range tree(t, more) {
		fields[name] = x
	}
	return fields
}

// TestUserWhoMayNotPatchUpdatesWhatIsImmutable: what the cluster fills in when an object is made, and does not let be changed,
// is in no manifest.
func TestUserWhoMayNotPatchUpdatesWhatIsImmutable(t *testing.T) {
	t.Parallel()
	l := newLand(t, append(emcoVerbs, "update")...)
	manifests := func(size, cpu string) string {
		return `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: claim, annotations: {size: "` + size + `"}}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: job, annotations: {size: "` + size + `"}}
spec:
  parallelism: ` + size + `
  template: {metadata: {labels: {app: job}}, spec: {restartPolicy: Never, containers: [{name: main, image: example.com/none}]}}
---
apiVersion: v1
kind: Service
metadata: {name: service, annotations: {size: "` + size + `"}}
spec: {type: NodePort, selector: {app: job}, ports: [{name: a, port: 80}, {name: b, port: 81, protocol: UDP}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: deployment}
spec:
  selector: {matchLabels: {app: d}}
  template: {metadata: {labels: {app: d}}, spec: {containers: [{name: main, image: example.com/none, ` + cpu + `}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: pod, annotations: {size: "` + size + `"}}
spec: {containers: [{name: main, image: example.com/none}]}
`
	}
	l.mustApply(kubetest.Resources(t, false, manifests("1", "env: [{name: A, value: a}], args: [a]")))
	is := func(resource, group, name string) *unstructured.Unstructured {
		o, err := l.admin.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}).Namespace(l.namespace).Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		return o
	}
	change := func(resource, group, name, patch string) {
		_, err := l.admin.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}).Namespace(l.namespace).
			Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "another"})
		require.NoError(t, err)
	}
	change("persistentvolumeclaims", "", "claim", `{"spec":{"storageClassName":"standard"}}`) // as the cluster's default
	change("deployments", "apps", "deployment", `{"spec":{"replicas":3}}`)
	address, _, _ := unstructured.NestedString(is("services", "", "service").Object, "spec", "clusterIP")

	changed := kubetest.Resources(t, false, manifests("2", "env: [{name: B, value: b}]"))
	require.Eventually(t, func() bool { // of a Deployment that its controller changes again and again it is tried again
		j, watcher := job(changed, domain.MarkPending)
		j.Namespace = l.namespace
		outcome := l.user.Apply(t.Context(), j)
		require.False(t, watcher.Marks.Failed(), "notes: %v", watcher.Notes)
		return outcome.Retry == nil
	}, kubetest.Deadline, kubetest.Tick)
	for _, o := range []*unstructured.Unstructured{is("persistentvolumeclaims", "", "claim"), is("jobs", "batch", "job"), is("services", "", "service"), is("pods", "", "pod")} {
		require.Equal(t, "2", o.GetAnnotations()["size"], o.GetKind())
	}
	got, _, _ := unstructured.NestedString(is("persistentvolumeclaims", "", "claim").Object, "spec", "storageClassName")
	require.Equal(t, "standard", got)
	got, _, _ = unstructured.NestedString(is("services", "", "service").Object, "spec", "clusterIP")
	require.Equal(t, address, got)
	deployment := is("deployments", "apps", "deployment")
	replicas, _, _ := unstructured.NestedInt64(deployment.Object, "spec", "replicas")
	require.Equal(t, int64(3), replicas, "what others have set stays")
	containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	main := containers[0].(map[string]any)
	require.Equal(t, []any{map[string]any{"name": "B", "value": "b"}}, main["env"])
	require.NotContains(t, main, "args", "what the manifest does not say any more has gone")

	refused := l.apply(kubetest.Resources(t, false, `
apiVersion: batch/v1
kind: Job
metadata: {name: job}
spec: {template: {metadata: {labels: {app: job}}, spec: {restartPolicy: Never, containers: [{name: main, image: example.com/another}]}}}
`))
	require.Equal(t, domain.Marks{domain.MarkRefused}, refused.Marks, "what is immutable stays so")
	require.Contains(t, refused.Notes[0], "immutable")
}
