package kube_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/plan"
)

// owned answers for one object whose managedFields say who owns what, and notes what is sent.
type owned struct {
	*server
	mu    sync.Mutex
	asked []string // the verbs, in order
	body  map[string]string
}

func own(t *testing.T, path, managedFields string) *owned {
	t.Helper()
	o := &owned{body: map[string]string{}}
	o.server = serveAll(t, http2, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path {
			answer(w, http.StatusNotFound, status(404, metav1.StatusReasonNotFound, "", nil))
			return
		}
		verb := r.Method
		if r.Method == http.MethodPatch {
			verb, _, _ = strings.Cut(strings.TrimPrefix(r.Header.Get("Content-Type"), "application/"), "-patch")
		}
		o.mu.Lock()
		o.asked = append(o.asked, verb)
		o.body[verb] = bodyOf(r)
		o.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {"name": "a", "uid": "1", "resourceVersion": "7", "labels": {"` +
			plan.DeploymentLabel + `": "` + kubetest.DeploymentID + `"}, "managedFields": [` + managedFields + `]}}`))
	})
	return o
}

// merged are the managers that a merge patch has set.
func (o *owned) merged(t *testing.T) (managers []metav1.ManagedFieldsEntry) {
	t.Helper()
	var patch metav1.PartialObjectMetadata
	require.NoError(t, json.Unmarshal([]byte(o.body["merge"]), &patch))
	require.EqualValues(t, "1", patch.UID)
	require.Equal(t, "7", patch.ResourceVersion)
	return patch.ManagedFields
}

// TestPodsAreLeftToAnAutoscaler: SuiteOfKubernetes says what becomes of it.
func TestPodsAreLeftToAnAutoscaler(t *testing.T) {
	t.Parallel()
	const ours = `{"manager": "drover", "operation": "Apply", "apiVersion": "apps/v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}, "f:template": {}}}}`
	const theirs = `{"manager": "controller", "operation": "Update", "apiVersion": "apps/v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}}`
	const scaler = `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: a}, spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: a}}}`
	for name, c := range map[string]struct {
		spec, scaler, managers string
		mark                   domain.Mark // of the autoscaler
		want                   []string
	}{
		"the manifest leaves it out":         {`{template: {}}`, scaler, ours + `, ` + theirs, domain.MarkPending, []string{"GET", "merge", "apply"}},
		"it was left out before":             {`{template: {}}`, scaler, theirs, domain.MarkPending, []string{"GET", "apply"}},
		"the manifest says it":               {`{replicas: 2}`, scaler, ours, domain.MarkPending, []string{"apply"}},
		"the autoscaler goes":                {`{template: {}}`, scaler, ours, domain.MarkDoomed, []string{"apply"}},
		"the autoscaler is of another":       {`{template: {}}`, strings.Replace(scaler, "name: a}}}", "name: b}}}", 1), ours, domain.MarkPending, []string{"apply"}},
		"the autoscaler is in another place": {`{template: {}}`, strings.Replace(scaler, "name: a}", "name: a, namespace: other}", 1), ours, domain.MarkPending, []string{"apply"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := own(t, "/apis/apps/v1/namespaces/default/deployments/a", c.managers)
			j, watcher := job(kubetest.Resources(t, false, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: "+c.spec+"}\n---\n"+c.scaler), domain.MarkOutdated)
			j.Marks[1], j.Selects = c.mark, func(i int) bool { return i == 0 }
			require.NoError(t, o.open(t, kube.Config{}).Apply(t.Context(), j).Retry)
			require.Equal(t, domain.MarkApplied, watcher.Marks[0], "notes: %v", watcher.Notes)
			require.Equal(t, c.want, o.asked)
			if o.body["merge"] != "" {
				managers := o.merged(t)
				require.JSONEq(t, `{"f:spec": {"f:template": {}}}`, managers[0].FieldsV1.GetRawString())
				require.JSONEq(t, `{"f:spec": {"f:replicas": {}}}`, managers[1].FieldsV1.GetRawString(), "what others own they own")
			}
		})
	}
}

// TestAccountThatIsNotNamedAnyMore: SuiteOfKubernetes says what becomes of it.
func TestAccountThatIsNotNamedAnyMore(t *testing.T) {
	t.Parallel()
	for mark, want := range map[domain.Mark]bool{domain.MarkPending: false, domain.MarkOutdated: true, domain.MarkSent: true} {
		o := own(t, "/apis/apps/v1/namespaces/default/deployments/a", "")
		j, _ := job(kubetest.Resources(t, false, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {template: {spec: {}}}}"), mark)
		require.NoError(t, o.open(t, kube.Config{}).Apply(t.Context(), j).Retry)
		require.Equal(t, want, strings.Contains(o.body["apply"], `"serviceAccount":""`), "%c", mark)
	}
}

// TestPodsAreLeftToAnAutoscalerByAnUpdate: who may not patch says the number that is there.
func TestPodsAreLeftToAnAutoscalerByAnUpdate(t *testing.T) {
	t.Parallel()
	var put map[string]any
	s := serveAll(t, http2, func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodPatch:
			answer(w, http.StatusForbidden, status(403, metav1.StatusReasonForbidden, `User "u" cannot patch resource "deployments"`, nil))
		case http.MethodPost:
			answer(w, http.StatusConflict, status(409, metav1.StatusReasonAlreadyExists, "it exists", nil))
		case http.MethodPut:
			_ = json.Unmarshal([]byte(bodyOf(r)), &put)
			found(w)
		default:
			answer(w, http.StatusOK, map[string]any{
				"apiVersion": "apps/v1", "kind": "Deployment", "spec": map[string]any{"replicas": 7},
				"metadata": map[string]any{
					"name": "a", "uid": "1", "resourceVersion": "7", "labels": map[string]any{plan.DeploymentLabel: kubetest.DeploymentID},
					"managedFields": []any{map[string]any{"manager": kube.FieldManager, "fieldsV1": map[string]any{"f:spec": map[string]any{"f:replicas": map[string]any{}}}}},
				},
			})
		}
	})
	j, watcher := job(kubetest.Resources(t, false, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {template: {}}}\n---\n"+
		"{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: a}, spec: {scaleTargetRef: {name: a}}}"), domain.MarkOutdated)
	j.Selects = func(i int) bool { return i == 0 }
	require.NoError(t, s.open(t, kube.Config{}).Apply(t.Context(), j).Retry)
	require.Equal(t, domain.MarkApplied, watcher.Marks[0], "notes: %v", watcher.Notes)
	require.EqualValues(t, 7, put["spec"].(map[string]any)["replicas"])
}
