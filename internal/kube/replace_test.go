package kube_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/plan"
)

// fixture answers for one object that cannot be changed.
type fixture struct {
	*server
	mu          sync.Mutex
	uid         string // of the object that is there, "" for none
	label       string
	annotations map[string]string
	deleting    bool
	held        bool   // it outlives its deletion
	against     string // what the cluster has against a new one
	deletions   []metav1.DeleteOptions
	onDelete    func()
}

const fixed = "field is immutable"

func fix(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{uid: "1", label: kubetest.DeploymentID, onDelete: func() {}}
	f.server = serveAll(t, http2, func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		switch {
		case r.Method == http.MethodPost && f.against != "":
			answer(w, http.StatusUnprocessableEntity, status(422, metav1.StatusReasonInvalid, f.against, nil))
		case r.Method == http.MethodPost && f.uid != "":
			answer(w, http.StatusConflict, status(409, metav1.StatusReasonAlreadyExists, "it exists", nil))
		case r.Method == http.MethodPatch && f.uid != "" && f.uid != "2":
			answer(w, http.StatusUnprocessableEntity, status(422, metav1.StatusReasonInvalid, fixed, nil))
		case r.Method == http.MethodPatch:
			f.uid, f.label = "2", kubetest.DeploymentID
			f.is(w)
		case f.uid == "":
			answer(w, http.StatusNotFound, status(404, metav1.StatusReasonNotFound, "", &metav1.StatusDetails{Name: "a"}))
		case r.Method == http.MethodDelete:
			var options metav1.DeleteOptions
			_ = json.Unmarshal([]byte(bodyOf(r)), &options)
			f.deletions = append(f.deletions, options)
			f.deleting = true
			f.is(w)
			if !f.held {
				f.goes()
			}
			f.onDelete()
		default:
			f.is(w)
		}
	})
	return f
}

// goes ends the object.
func (f *fixture) goes() { f.uid, f.deleting = "", false }

func (f *fixture) is(w http.ResponseWriter) {
	o := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}}
	o.Name, o.UID, o.ResourceVersion, o.Annotations = "a", "1", "7", f.annotations
	o.Labels = map[string]string{plan.DeploymentLabel: f.label}
	if f.deleting {
		o.DeletionTimestamp, o.Finalizers = &metav1.Time{Time: time.Now()}, []string{"example.com/held"}
	}
	if f.uid == "2" {
		o.UID = "2"
	}
	answer(w, http.StatusOK, o)
}

func replaceable(t *testing.T, kind, value string) []plan.Resource {
	t.Helper()
	return kubetest.Resources(t, false, `{apiVersion: `+kind+`, metadata: {name: a, annotations: {drover.io/replace: "`+value+`"}}}`)
}

// TestWhatMayBeReplaced is on what the cluster says; SuiteOfKubernetes on what becomes of objects.
func TestWhatMayBeReplaced(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind, value string
		is          func(f *fixture)
		want        string // why it is not
	}{
		"it is":                         {"v1, kind: ConfigMap", "true", func(*fixture) {}, ""},
		"it is not wanted":              {"v1, kind: ConfigMap", "false", func(*fixture) {}, fixed},
		"it is another's":               {"v1, kind: ConfigMap", "true", func(f *fixture) { f.label = "8-other" }, fixed + "; it is not replaced: it does not carry the label emco/deployment-id=" + kubetest.DeploymentID},
		"it is nobody's":                {"v1, kind: ConfigMap", "true", func(f *fixture) { f.label = "" }, fixed + "; it is not replaced: it does not carry the label emco/deployment-id=" + kubetest.DeploymentID},
		"somebody keeps it":             {"v1, kind: ConfigMap", "true", func(f *fixture) { f.annotations = map[string]string{plan.KeepAnnotation: "keep"} }, fixed + "; it is not replaced: it is annotated in the cluster with helm.sh/resource-policy: keep"},
		"a new one would be refused":    {"v1, kind: ConfigMap", "true", func(f *fixture) { f.against = "no such field" }, fixed + "; it is not replaced: a new one would be refused, too: no such field"},
		"its data would go with it":     {"v1, kind: PersistentVolumeClaim", "true", func(*fixture) {}, fixed + "; it is not replaced: its data would go with a PersistentVolumeClaim"},
		"all in it would go with it":    {"v1, kind: Namespace", "true", func(*fixture) {}, fixed + "; it is not replaced: all that is in it would go with a Namespace"},
		"a definition, with its kind":   {"apiextensions.k8s.io/v1, kind: CustomResourceDefinition", "true", func(*fixture) {}, fixed + "; it is not replaced: all that is in it would go with a CustomResourceDefinition"},
		"a Job, when its Pods are gone": {"batch/v1, kind: Job", "true", func(*fixture) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fix(t)
			c.is(f)
			j, watcher := job(replaceable(t, c.kind, c.value), domain.MarkOutdated)
			var told []string
			j.BeforeReplace = func(_ context.Context, index int, refused string) error {
				require.Empty(t, f.deletions)
				told = append(told, fmt.Sprint(index, " ", refused))
				return nil
			}
			require.NoError(t, f.open(t, kube.Config{}).Apply(t.Context(), j).Retry)
			if c.want != "" {
				require.Empty(t, told)
				require.Equal(t, domain.Marks{domain.MarkUndeleted}, watcher.Marks)
				require.Equal(t, c.want, watcher.Notes[0])
				require.Empty(t, f.deletions)
				return
			}
			require.Equal(t, domain.Marks{domain.MarkApplied}, watcher.Marks, "notes: %v", watcher.Notes)
			require.Equal(t, "it is deleted and made anew, as the cluster refuses to change it: "+fixed, watcher.Notes[0])
			require.Equal(t, []string{"0 " + fixed}, told)
			require.Len(t, f.deletions, 1)
			require.EqualValues(t, "1", *f.deletions[0].Preconditions.UID)
			require.Equal(t, "7", *f.deletions[0].Preconditions.ResourceVersion)
			propagation := metav1.DeletePropagationBackground
			if strings.HasSuffix(c.kind, "Job") {
				propagation = metav1.DeletePropagationForeground
			}
			require.Equal(t, propagation, *f.deletions[0].PropagationPolicy)
		})
	}
}

// TestReplacementThatMayNotBegin: what cannot be told of beforehand is not deleted.
func TestReplacementThatMayNotBegin(t *testing.T) {
	t.Parallel()
	f := fix(t)
	j, watcher := job(replaceable(t, "v1, kind: ConfigMap", "true"), domain.MarkOutdated)
	later := fail.New(fail.Unavailable, "later")
	j.BeforeReplace = func(context.Context, int, string) error { return later }
	require.ErrorIs(t, f.open(t, kube.Config{}).Apply(t.Context(), j).Retry, later)
	require.Equal(t, domain.Marks{domain.MarkSent}, watcher.Marks, "it is tried again")
	require.Empty(t, f.deletions)
}

// TestReplacementThatIsBrokenOff: whoever goes on makes what is gone.
func TestReplacementThatIsBrokenOff(t *testing.T) {
	t.Parallel()
	f := fix(t)
	f.held = true
	resources := replaceable(t, "v1, kind: ConfigMap", "true")
	j, watcher := job(resources, domain.MarkOutdated)
	ctx, stop := context.WithCancelCause(t.Context())
	stopped := fail.New(fail.Conflict, "stopped")
	f.onDelete = func() { stop(stopped) }
	require.ErrorIs(t, f.open(t, kube.Config{}).Apply(ctx, j).Retry, stopped)
	require.Equal(t, domain.Marks{domain.MarkSent}, watcher.Marks)

	// It goes on, as long as the old one is there, and once it is gone.
	again := func() (kube.Outcome, domain.Marks) {
		j, watcher := job(resources, watcher.Marks[0])
		return f.open(t, kube.Config{StageWait: time.Millisecond}).Apply(t.Context(), j), watcher.Marks
	}
	outcome, marks := again()
	require.True(t, fail.Is(outcome.Retry, fail.Unavailable), "%v", outcome.Retry)
	require.Contains(t, fail.TextOf(outcome.Retry), "it is made anew when the one of its name is gone")
	require.Equal(t, domain.Marks{domain.MarkSent}, marks)
	f.mu.Lock()
	f.goes()
	f.mu.Unlock()
	outcome, marks = again()
	require.NoError(t, outcome.Retry)
	require.Equal(t, domain.Marks{domain.MarkApplied}, marks)
	require.Len(t, f.deletions, 1)
}
