package activities_test

import (
	"encoding/json"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
)

// limited answers as a cluster does whose user may not patch: a1 has a field that its kind does not know, and one stands in
// the way of a2.
func limited(broken *bool) func(w http.ResponseWriter, r *http.Request, body []byte) {
	return func(w http.ResponseWriter, r *http.Request, body []byte) {
		var is metav1.PartialObjectMetadata
		_ = json.Unmarshal(body, &is)
		switch {
		case r.Method == http.MethodPatch:
			answer(w, http.StatusForbidden, metav1.Status{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusForbidden,
				Reason: metav1.StatusReasonForbidden, Message: `configmaps "a" is forbidden: User "u" cannot patch resource "configmaps" in API group "" in the namespace "default"`,
				Details: &metav1.StatusDetails{Kind: "configmaps", Name: path.Base(r.URL.Path)},
			})
		case is.Name == "a2" && *broken:
			refuse(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, is.Name)
		default:
			if is.Name == "a1" {
				w.Header().Add("Warning", `299 - "unknown field \"dta\""`)
			}
			answer(w, http.StatusCreated, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": is.Name, "uid": "1"}})
		}
	}
}

func TestWarningsAreRecordedWhateverAttemptHeardThem(t *testing.T) {
	t.Parallel()
	l := newLeaf(t, domain.OpInstantiate, 0, 0, 1)
	broken := true
	l.body = limited(&broken)
	_, err := l.run()
	require.Error(t, err)
	broken = false
	l.env.SetHeartbeatDetails(l.raw)
	end, err := l.run()
	require.NoError(t, err)
	require.Equal(t, "3A", end.Marks)
	require.Empty(t, end.Warnings, "histories stay small")
	recorded := l.recorded()
	require.Equal(t, []domain.Note{{Index: 1, Message: "the cluster does not know the field dta: it was dropped"}}, recorded.Warnings)
	require.Equal(t, []string{"configmaps"}, recorded.Unpatchable)
}

// TestLongNamesOfFieldsFit a heartbeat and the leaf's record: each object of a chart may have one that is as long as an object may be.
func TestLongNamesOfFieldsFit(t *testing.T) {
	t.Parallel()
	l := newLeaf(t, domain.OpInstantiate, make([]int, 150)...)
	broken := false
	l.body = func(w http.ResponseWriter, r *http.Request, body []byte) {
		if r.Method != http.MethodPatch {
			w.Header().Add("Warning", `299 - "unknown field \"`+strings.Repeat("é", 20_000)+`\""`)
		}
		limited(&broken)(w, r, body)
	}
	_, err := l.run()
	require.NoError(t, err)
	warnings, bytes := l.recorded().Warnings, 0
	require.NotEmpty(t, warnings)
	for _, w := range slices.DeleteFunc(warnings, func(n domain.Note) bool { return strings.Contains(n.Message, " dta:") }) {
		require.True(t, utf8.ValidString(w.Message))
		require.LessOrEqual(t, len(w.Message), 1<<10)
		require.True(t, strings.HasSuffix(w.Message, "é: it was dropped"), w.Message)
		bytes += len(w.Message)
	}
	require.Greater(t, bytes, 32<<10)
	require.LessOrEqual(t, bytes, 64<<10)
}

// TestWhoElseHasFieldsIsSaid: what Helm has said stays Helm's, where the chart says it, too.
func TestWhoElseHasFieldsIsSaid(t *testing.T) {
	t.Parallel()
	l := newLeaf(t, domain.OpInstantiate, 0, 0)
	l.handle = func(w http.ResponseWriter, r *http.Request) {
		metadata := map[string]any{"name": path.Base(r.URL.Path), "uid": "1"}
		if metadata["name"] == "a1" {
			of := func(manager, operation string) map[string]any {
				return map[string]any{"manager": manager, "operation": operation, "fieldsV1": map[string]any{"f:data": map[string]any{".": map[string]any{}, "f:k": map[string]any{}}}}
			}
			metadata["managedFields"] = []any{of("drover", "Apply"), of("kubectl-edit", "Update"), of("helm", "Update"), of("helm", "Apply"), of("other", "Update")}
		}
		answer(w, http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
	}
	_, err := l.run()
	require.NoError(t, err)
	require.Equal(t, []domain.Note{{
		Index: 1, Message: "fields of it are helm's and kubectl-edit's, too, by an earlier apply: they stay in the cluster when the chart has them no more",
	}}, l.recorded().Warnings)
}

// TestWhatHelmHasHidesNoLoss: an app that Helm had installed has that of each of its resources.
func TestWhatHelmHasHidesNoLoss(t *testing.T) {
	t.Parallel()
	stages := make([]int, 300)
	stages[1] = 1
	l := newLeaf(t, domain.OpInstantiate, stages...)
	broken := false
	l.body = func(w http.ResponseWriter, r *http.Request, body []byte) {
		if strings.Contains(string(body), `"name":"a1"`) {
			limited(&broken)(w, r, body)
			return
		}
		metadata := map[string]any{"name": path.Base(r.URL.Path), "uid": "1"}
		of := func(manager, operation string) map[string]any {
			return map[string]any{"manager": manager, "operation": operation, "fieldsV1": map[string]any{"f:data": map[string]any{"f:k": map[string]any{}}}}
		}
		metadata["managedFields"] = []any{of("drover", "Apply"), of("helm", "Update")}
		answer(w, http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
	}
	_, err := l.run()
	require.NoError(t, err)
	warnings := l.recorded().Warnings
	require.Len(t, warnings, 22)
	require.Contains(t, warnings, domain.Note{Index: 1, Message: "the cluster does not know the field dta: it was dropped"})
	more := 0
	for _, w := range warnings {
		if strings.HasSuffix(w.Message, "; so it may be of more resources, which are not named") {
			more++
		}
	}
	require.Equal(t, 1, more)
}

// TestAReplacementIsToldOfAfterwards: by a warning, as it is over, also where the attempt that has deleted the object is not the one that makes it.
func TestAReplacementIsToldOfAfterwards(t *testing.T) {
	t.Parallel()
	const manifest = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"main","annotations":{"drover.io/replace":"true"}}}`
	l, o := hooked(t, domain.OpUpdate)
	l.in.Bundle = l.store.put(t, plan.Bundle{App: "app", Resources: []plan.Resource{{
		ResourceID: plan.ResourceID{Version: "v1", Kind: "ConfigMap", Name: "main"}, Manifest: json.RawMessage(manifest),
	}}})
	l.in.Hooked, l.in.Inherited = false, "1o"
	o.put("main", map[string]any{"labels": map[string]any{plan.DeploymentLabel: "1-app"}, "resourceVersion": "7"})
	broken := true
	l.body = func(w http.ResponseWriter, r *http.Request, body []byte) {
		switch _, there := o.kept["main"]; {
		case r.Method == http.MethodPost && there:
			refuse(w, http.StatusConflict, metav1.StatusReasonAlreadyExists, "main")
		case r.Method == http.MethodPatch && there:
			refuse(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "main")
		case r.Method == http.MethodPatch && broken:
			broken = false
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			o.ServeHTTP(w, r, body)
		}
	}
	_, err := l.env.ExecuteLocalActivity(l.kube.ApplyToCluster, l.in)
	require.ErrorContains(t, err, "not done at once")
	require.Empty(t, o.writes, "the next attempt could not know of it")

	l.env = l.environment()
	_, err = l.run()
	require.Error(t, err)
	require.Equal(t, []string{"DELETE main"}, o.writes)
	l.env = l.environment()
	l.env.SetHeartbeatDetails(l.raw)
	_, err = l.run()
	require.NoError(t, err)
	require.Equal(t, []string{"DELETE main", "PATCH main"}, o.writes)
	require.Equal(t, "1A", l.recorded().Marks)
	require.Equal(t, []domain.Note{{Index: 0, Message: "it was deleted and made anew, as the cluster refused to change it: it is Invalid"}}, l.recorded().Warnings)
}

// TestPruningKeepsWarnings: what the first round of an update has heard of what stays is not forgotten by the second one.
func TestPruningKeepsWarnings(t *testing.T) {
	t.Parallel()
	l := newLeaf(t, domain.OpUpdate, 0, 0, 1)
	broken := false
	l.body = limited(&broken)
	_, err := l.run()
	require.NoError(t, err)
	before := l.recorded()
	require.NotEmpty(t, before.Warnings)
	l.in.Prune = true
	_, err = l.run()
	require.NoError(t, err)
	require.Equal(t, before.Warnings, l.recorded().Warnings)
	require.Equal(t, []string{"configmaps"}, l.recorded().Unpatchable)
}
