package kube_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/plan"
)

// lonely is a cluster with one object, that of every path, and what it says of requests.
type lonely struct {
	mu       sync.Mutex
	metadata map[string]any
	spec     map[string]any
	apply    func() *metav1.Status // nil lets it be applied
	merge    func() *metav1.Status // a merge patch
	asked    []string              // but GET
}

// managed is an entry of managedFields.
func managed(manager, operation, version string) map[string]any {
	return map[string]any{"manager": manager, "operation": operation, "apiVersion": version, "fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:spec": map[string]any{}}}
}

// fields are the entries of the object, as "manager operation version".
func (s *lonely) fields() (all []string) {
	entries, _ := s.metadata["managedFields"].([]any)
	for _, e := range entries {
		entry := e.(map[string]any)
		all = append(all, fmt.Sprint(entry["manager"], " ", entry["operation"], " ", entry["apiVersion"]))
	}
	return all
}

func (s *lonely) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, _ := io.ReadAll(r.Body)
	var body struct {
		Metadata struct{ ManagedFields []any }
		Spec     map[string]any
	}
	_ = json.Unmarshal(data, &body)
	kind := r.Header.Get("Content-Type")
	if r.Method != http.MethodGet {
		kind, _, _ = strings.Cut(strings.TrimPrefix(kind, "application/"), "-")
		s.asked = append(s.asked, r.Method+" "+kind)
	}
	refuse := func(of *metav1.Status) bool {
		if of != nil {
			answer(w, int(of.Code), of)
		}
		return of != nil
	}
	switch {
	case r.URL.Path == "/apis":
		answer(w, http.StatusOK, metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList"}, Groups: []metav1.APIGroup{{
			Name: "example.com", Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: "example.com/v1", Version: "v1"}},
		}}})
		return
	case r.URL.Path == "/apis/example.com/v1":
		answer(w, http.StatusOK, metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"}, GroupVersion: "example.com/v1",
			APIResources: []metav1.APIResource{{Name: "widgets", Kind: "Widget", Namespaced: true}},
		})
		return
	case r.Method == http.MethodPost:
		answer(w, http.StatusConflict, status(http.StatusConflict, metav1.StatusReasonAlreadyExists, "there", &metav1.StatusDetails{Name: "a"}))
		return
	case r.Method == http.MethodPut:
		s.spec = body.Spec
		delete(s.metadata, "managedFields")
	case r.Method == http.MethodPatch && kind == "apply":
		if refuse(s.apply()) {
			return
		}
		s.spec = body.Spec
	case r.Method == http.MethodPatch:
		if refuse(s.merge()) {
			return
		}
		if body.Metadata.ManagedFields != nil {
			s.metadata["managedFields"] = body.Metadata.ManagedFields
		}
		if body.Spec != nil {
			s.spec = body.Spec
		}
	}
	answer(w, http.StatusOK, map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": s.metadata, "spec": s.spec})
}

func pass() *metav1.Status { return nil }

// newLonely is one with an object that has managedFields.
func newLonely(deployment string, fields ...any) *lonely {
	return &lonely{merge: pass, metadata: map[string]any{
		"name": "a", "namespace": "default", "uid": "1", "resourceVersion": "7", "managedFields": fields,
		"labels": map[string]any{plan.DeploymentLabel: deployment},
	}}
}

// send applies a resource.
func (s *lonely) send(t *testing.T, kind, manifest string) (kube.Outcome, *kubetest.Watcher) {
	t.Helper()
	group, name, _ := strings.Cut(kind, " ")
	c := serveAll(t, http2, s.ServeHTTP).open(t, kube.Config{})
	j, watcher := job([]plan.Resource{{ResourceID: plan.ResourceID{Group: group, Version: "v1", Kind: name, Name: "a"}, Manifest: []byte(manifest)}}, domain.MarkPending)
	return c.Apply(t.Context(), j), watcher
}

const widget = `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":4}}`

// TestWhatNamesAVersionThatIsGone: a CRD has given up a version in which somebody has changed an object. Server-side apply fails with 500 until nobody is said
// to have fields of that version.
func TestWhatNamesAVersionThatIsGone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		merge func() *metav1.Status
		mark  domain.Mark
		note  string
		left  []string
	}{
		"is applied": {merge: pass, mark: domain.MarkApplied, left: []string{
			kube.FieldManager + " Apply example.com/v1", "other Update example.com/v1", "operator Update example.com/v1",
		}},
		"is refused where that may not be changed": {merge: func() *metav1.Status {
			s := status(http.StatusForbidden, metav1.StatusReasonForbidden, "no", nil)
			return &s
		}, mark: domain.MarkRefused, note: "set them to [{}] by hand: request to convert CR to an invalid group/version: example.com/v1beta1", left: []string{
			kube.FieldManager + " Apply example.com/v1beta1", "other Update example.com/v1alpha1", "other Update example.com/v1beta1", "operator Update example.com/v1", "operator Update example.com/v1beta1",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLonely(kubetest.DeploymentID, managed(kube.FieldManager, "Apply", "example.com/v1beta1"), managed("other", "Update", "example.com/v1alpha1"),
				managed("other", "Update", "example.com/v1beta1"), managed("operator", "Update", "example.com/v1"), managed("operator", "Update", "example.com/v1beta1"))
			s.merge = c.merge
			s.apply = func() *metav1.Status {
				for _, f := range s.fields() {
					if version := strings.Fields(f)[2]; version != "example.com/v1" {
						of := status(http.StatusInternalServerError, "", "request to convert CR to an invalid group/version: "+version, nil)
						return &of
					}
				}
				return nil
			}
			outcome, watcher := s.send(t, "example.com Widget", widget)
			require.NoError(t, outcome.Retry, "no time brings the version back")
			require.Equal(t, domain.Marks{c.mark}, watcher.Marks, watcher.Notes)
			require.Contains(t, watcher.Notes[0], c.note)
			require.Empty(t, cmp.Diff(c.left, s.fields()))
		})
	}
}

// TestWhatIsStoredInAVersionThatIsGone is not tried for ever: no apply can mend it.
func TestWhatIsStoredInAVersionThatIsGone(t *testing.T) {
	t.Parallel()
	s := newLonely(kubetest.DeploymentID)
	s.apply = func() *metav1.Status {
		of := status(http.StatusInternalServerError, "", "request to convert CR from an invalid group/version: example.com/v1beta1", nil)
		return &of
	}
	j, watcher := job([]plan.Resource{{ResourceID: plan.ResourceID{Group: "example.com", Version: "v1", Kind: "Widget", Name: "a"}, Manifest: []byte(widget)}}, domain.MarkPending)
	outcome := serveAll(t, http2, s.ServeHTTP).open(t, kube.Config{StageWait: 1}).Apply(t.Context(), j)
	require.NoError(t, outcome.Retry)
	require.Equal(t, domain.Marks{domain.MarkRefused}, watcher.Marks, watcher.Notes)
	require.Contains(t, watcher.Notes[0], "give the CRD that version back, with served: false, until the object is written anew: request to convert CR from an invalid")
}

// TestWhatIsStoredInAVersionThatOneDoesNotKnowYet is tried again where the app brings the CRD: an API server of several may have heard of it later.
func TestWhatIsStoredInAVersionThatOneDoesNotKnowYet(t *testing.T) {
	t.Parallel()
	s, n := newLonely(kubetest.DeploymentID), 0
	s.apply = func() *metav1.Status {
		if n++; n != 2 {
			return nil
		}
		of := status(http.StatusInternalServerError, "", "request to convert CR from an invalid group/version: example.com/v2", nil)
		return &of
	}
	c := serveAll(t, http2, s.ServeHTTP).open(t, kube.Config{})
	j, watcher := job([]plan.Resource{
		{
			ResourceID: plan.ResourceID{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: "widgets.example.com"},
			Manifest: []byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},` +
				`"spec":{"group":"example.com","names":{"kind":"Widget"},"versions":[{"name":"v1","served":true},{"name":"v2","served":true}]}}`),
		},
		{ResourceID: plan.ResourceID{Group: "example.com", Version: "v1", Kind: "Widget", Name: "a"}, Stage: 1, Manifest: []byte(widget)},
	}, domain.MarkPending)
	require.NoError(t, c.Apply(t.Context(), j).Retry)
	require.Equal(t, domain.Marks{domain.MarkApplied, domain.MarkApplied}, watcher.Marks, watcher.Notes)
	require.Equal(t, 3, n)
}

// TestWhatItsSchemaHasOutgrown: a CRD has another schema, which an object does not fit that was made before. Server-side apply fails with 500, and an update
// does not.
func TestWhatItsSchemaHasOutgrown(t *testing.T) {
	t.Parallel()
	const typed = "failed to create typed live object (default/a; example.com/v1, Kind=Widget): .spec.parts: expected list, got &{a}"
	for name, c := range map[string]struct {
		deployment string
		unfit      int // how many applies find it so
		mark       domain.Mark
		note       string
		asked      []string
		left       []string
	}{
		"is updated": {
			deployment: kubetest.DeploymentID, unfit: 1, mark: domain.MarkApplied,
			asked: []string{"PATCH apply", "POST json", "PUT json", "PATCH apply", "PATCH merge"}, left: []string{kube.FieldManager + " Apply example.com/v1"},
		},
		"stays so for what others have": {
			deployment: kubetest.DeploymentID, unfit: 2, mark: domain.MarkApplied, asked: []string{"PATCH apply", "POST json", "PUT json", "PATCH apply"},
		},
		"is somebody else's": {
			deployment: "other", unfit: 1, mark: domain.MarkRefused, note: "mend it by hand, or delete it and update with reapply: " + typed,
			asked: []string{"PATCH apply", "POST json"}, left: []string{"other Update example.com/v1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLonely(c.deployment, managed("other", "Update", "example.com/v1"))
			s.apply = func() *metav1.Status {
				if c.unfit--; c.unfit >= 0 {
					of := status(http.StatusInternalServerError, "", typed, nil)
					return &of
				}
				s.metadata["managedFields"] = []any{managed(kube.FieldManager, "Apply", "example.com/v1"), managed("before-first-apply", "Update", "example.com/v1")}
				return nil
			}
			outcome, watcher := s.send(t, "example.com Widget", widget)
			require.NoError(t, outcome.Retry, "no time makes it fit")
			require.Equal(t, domain.Marks{c.mark}, watcher.Marks, watcher.Notes)
			require.Contains(t, watcher.Notes[0], c.note)
			require.Empty(t, cmp.Diff(c.asked, s.asked))
			require.Empty(t, cmp.Diff(c.left, s.fields()))
		})
	}
}

// TestACRDGivesItsConversionWebhookUp: cert-manager has put a certificate there, which no apply of the rest takes away.
func TestACRDGivesItsConversionWebhookUp(t *testing.T) {
	t.Parallel()
	causes := func(fields ...string) *metav1.Status {
		of := status(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "is invalid", &metav1.StatusDetails{Name: "a"})
		for _, f := range fields {
			of.Details.Causes = append(of.Details.Causes, metav1.StatusCause{Type: metav1.CauseTypeForbidden, Field: f})
		}
		return &of
	}
	const config, reviews = "spec.conversion.webhookClientConfig", "spec.conversion.conversionReviewVersions"
	for name, c := range map[string]struct {
		conversion string
		refused    *metav1.Status
		mark       domain.Mark
		deployment string // whose it is, where it is not ours
		note       string
	}{
		"says None": {conversion: `,"conversion":{"strategy":"None"}`, refused: causes(config), mark: domain.MarkApplied},
		"is somebody else's": {
			refused: causes(config), mark: domain.MarkRefused, deployment: "1-other",
			note: "is invalid; its webhook stays, as it may convert others' objects: it does not carry the label emco/deployment-id=" + kubetest.DeploymentID,
		},
		"says nothing":         {refused: causes("spec.conversion.strategy", config, reviews), mark: domain.MarkApplied},
		"says no webhook":      {conversion: `,"conversion":{"strategy":"None","webhook":null}`, refused: causes(reviews), mark: domain.MarkApplied},
		"says None and one":    {conversion: `,"conversion":{"strategy":"None","webhook":{}}`, refused: causes(config), mark: domain.MarkRefused},
		"has another webhook":  {conversion: `,"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{}}}`, refused: causes(config), mark: domain.MarkRefused},
		"has a fault besides":  {refused: causes(config, "spec.versions"), mark: domain.MarkRefused},
		"has none but another": {refused: causes("spec.versions"), mark: domain.MarkRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			owner := kubetest.DeploymentID
			if c.deployment != "" {
				owner = c.deployment
			}
			s := newLonely(owner)
			s.spec = map[string]any{"conversion": map[string]any{"strategy": "Webhook", "webhook": map[string]any{
				"clientConfig": map[string]any{"service": map[string]any{"namespace": "before", "name": "webhook"}},
			}}}
			s.apply = func() *metav1.Status {
				if conversion := s.spec["conversion"].(map[string]any); conversion["webhook"] == nil {
					return nil
				}
				return c.refused
			}
			outcome, watcher := s.send(t, "apiextensions.k8s.io CustomResourceDefinition",
				`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a"},"spec":{"group":"example.com"`+c.conversion+`}}`)
			require.NoError(t, outcome.Retry)
			require.Equal(t, domain.Marks{c.mark}, watcher.Marks, watcher.Notes)
			if c.mark == domain.MarkApplied {
				require.Equal(t, []string{"PATCH apply", "PATCH merge", "PATCH apply"}, s.asked)
			} else {
				require.Equal(t, []string{"PATCH apply"}, s.asked)
				require.Contains(t, watcher.Notes[0], c.note)
				require.NotNil(t, s.spec["conversion"].(map[string]any)["webhook"], "it is as it was")
			}
		})
	}
}

// TestWhatIsStoredInAVersionThatIsGoneIsDeletedLater: a deletion says what helps, and goes on once somebody has done it.
func TestWhatIsStoredInAVersionThatIsGoneIsDeletedLater(t *testing.T) {
	t.Parallel()
	s := newLonely(kubetest.DeploymentID)
	c := serveAll(t, http2, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/widgets/a") {
			answer(w, http.StatusInternalServerError, status(http.StatusInternalServerError, "", "request to convert CR from an invalid group/version: example.com/v1beta1", nil))
			return
		}
		s.ServeHTTP(w, r)
	}).open(t, kube.Config{})
	j, watcher := job([]plan.Resource{{ResourceID: plan.ResourceID{Group: "example.com", Version: "v1", Kind: "Widget", Name: "a"}, Manifest: []byte(widget)}}, domain.MarkDoomed)
	outcome := c.Delete(t.Context(), j)
	require.Equal(t, fail.Unavailable, fail.KindOf(outcome.Retry), "%v", outcome.Retry)
	require.ErrorContains(t, outcome.Retry, "give the CRD that version back")
	require.Equal(t, domain.Marks{domain.MarkDoomed}, watcher.Marks)
}
