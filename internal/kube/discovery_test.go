package kube_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/plan"
)

// customResources makes resources of a kind that is not built in.
func customResources(n int, kind string) []plan.Resource {
	resources := make([]plan.Resource, n)
	for i := range resources {
		name := fmt.Sprintf("a%d", i)
		resources[i] = plan.Resource{
			ResourceID: plan.ResourceID{Group: "example.com", Version: "v1", Kind: kind, Name: name},
			Manifest:   []byte(`{"apiVersion":"example.com/v1","kind":"` + kind + `","metadata":{"name":"` + name + `"}}`),
		}
	}
	return resources
}

// api is an API server with one custom kind, Widget, which notes what it is asked.
type api struct {
	mu     sync.Mutex
	asked  []string
	broken int // the answer for the group version, instead of 200
	widget bool
	listed bool // among the groups
}

// widgetAt serves Widget as long as the groups were asked for so many times.
func (a *api) widgetAt(times int) http.HandlerFunc {
	asked := 0
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/apis" {
			a.mu.Lock()
			asked++
			a.widget = asked == times
			a.mu.Unlock()
		}
		a.serve(w, r)
	}
}

func (a *api) serve(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.Method == http.MethodPatch || strings.Contains(r.URL.Path, "/namespaces/") {
		found(w)
		return
	}
	a.asked = append(a.asked, r.URL.Path)
	switch {
	case r.URL.Path == "/apis" && a.listed:
		answer(w, http.StatusOK, metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList"}, Groups: []metav1.APIGroup{{
			Name: "example.com", PreferredVersion: metav1.GroupVersionForDiscovery{Version: "v1"},
		}}})
	case r.URL.Path == "/apis":
		discover(w, r)
	case a.broken != 0:
		http.Error(w, "service unavailable", a.broken)
	case a.widget:
		answer(w, http.StatusOK, metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"}, GroupVersion: "example.com/v1",
			APIResources: []metav1.APIResource{{Name: "widgets/status", Kind: "Status"}, {Name: "widgets", Kind: "Widget", Namespaced: true}},
		})
	default:
		discover(w, r)
	}
}

func TestDiscovery(t *testing.T) {
	t.Parallel()
	const list = "/apis/example.com/v1"
	cases := map[string]struct {
		reason    string
		api       *api
		resources []plan.Resource
		wantAsked []string
		wantMark  domain.Mark
		wantRetry fail.Kind
	}{
		"is not needed for built-in kinds": {
			api: &api{}, resources: configMaps(20, 0), wantMark: domain.MarkApplied,
		},
		"asks once for a group version": {
			api: &api{widget: true}, resources: customResources(20, "Widget"), wantAsked: []string{list}, wantMark: domain.MarkApplied,
		},
		"makes sure that a group is not there": {
			reason: "what answers might not be an API server",
			api:    &api{}, resources: customResources(1, "Widget"), wantAsked: []string{list, "/apis"}, wantMark: domain.MarkRefused,
		},
		"does not take a subresource for a kind": {
			api: &api{widget: true}, resources: customResources(1, "Status"), wantAsked: []string{list}, wantMark: domain.MarkRefused,
		},
		"does not take an aggregated API that is down for one that is not there": {
			api: &api{broken: http.StatusServiceUnavailable}, resources: customResources(1, "Widget"), wantAsked: []string{list},
			wantMark: domain.MarkPending, wantRetry: fail.Unavailable,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, http2, tc.api.serve)
			j, watcher := job(tc.resources, domain.MarkPending)
			outcome := s.open(t, kube.Config{}).Apply(t.Context(), j)
			if tc.wantRetry == "" {
				require.NoError(t, outcome.Retry, tc.reason)
			} else {
				require.True(t, fail.Is(outcome.Retry, tc.wantRetry), "%v", outcome.Retry)
			}
			require.True(t, outcome.Reached)
			require.Empty(t, cmp.Diff(tc.wantAsked, tc.api.asked))
			require.Equal(t, domain.NewMarks(len(tc.resources), tc.wantMark), watcher.Marks, "%v", watcher.Notes)
		})
	}
}

func TestDeleteOfKindThatCannotBeLookedUp(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		api  *api
		want domain.Mark
	}{
		"since its API does not answer":                    {&api{broken: http.StatusServiceUnavailable}, domain.MarkDoomed},
		"though the API server lists the version":          {&api{listed: true}, domain.MarkDoomed},
		"as the API server does not list the version, too": {&api{}, domain.MarkDeleted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, http2, tc.api.serve)
			j, watcher := job(customResources(1, "Widget"), domain.MarkDoomed)
			outcome := s.open(t, kube.Config{}).Delete(t.Context(), j)
			if tc.want == domain.MarkDoomed {
				require.True(t, fail.Is(outcome.Retry, fail.Unavailable), "%v", outcome.Retry)
			} else {
				require.NoError(t, outcome.Retry)
			}
			require.Equal(t, domain.Marks{tc.want}, watcher.Marks, "the object may well be there")
		})
	}
}

// TestKindOfAnAPIServerThatWasJustStarted: it lists the versions of CRDs before it knows their kinds.
func TestKindOfAnAPIServerThatWasJustStarted(t *testing.T) {
	t.Parallel()
	s := serve(t, http2, (&api{listed: true}).widgetAt(2))
	j, watcher := job(customResources(2, "Widget"), domain.MarkPending)
	require.NoError(t, s.open(t, kube.Config{}).Apply(t.Context(), j).Retry)
	require.Equal(t, domain.NewMarks(2, domain.MarkApplied), watcher.Marks, "%v", watcher.Notes)
}

func TestCustomKindThatIsServedLate(t *testing.T) {
	t.Parallel()
	crd := plan.Resource{
		ResourceID: plan.ResourceID{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: "widgets.example.com"},
		Manifest:   []byte(`{"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","names":{"kind":"Widget"},"versions":[{"name":"v1","served":true}]}}`),
	}
	t.Run("is waited for", func(t *testing.T) {
		t.Parallel()
		s := serve(t, http2, (&api{}).widgetAt(3))
		j, watcher := job(append(customResources(2, "Widget"), crd), domain.MarkPending)
		j.Resources[0].Stage, j.Resources[1].Stage = 1, 1
		require.NoError(t, s.open(t, kube.Config{StageWait: time.Hour}).Apply(t.Context(), j).Retry)
		require.Equal(t, domain.NewMarks(3, domain.MarkApplied), watcher.Marks)
	})
	t.Run("is tried again later", func(t *testing.T) {
		t.Parallel()
		s := serve(t, http2, (&api{}).serve)
		j, watcher := job(append(customResources(1, "Widget"), crd), domain.MarkPending)
		j.Resources[0].Stage = 1
		outcome := s.open(t, kube.Config{StageWait: 1}).Apply(t.Context(), j)
		require.True(t, fail.Is(outcome.Retry, fail.Unavailable), "%v", outcome.Retry)
		require.Contains(t, fail.TextOf(outcome.Retry), "Widget a0: ")
		require.Equal(t, domain.Marks{domain.MarkPending, domain.MarkApplied}, watcher.Marks)
	})
	t.Run("is refused when its CRD was", func(t *testing.T) {
		t.Parallel()
		s := serve(t, http2, (&api{}).serve)
		j, watcher := job(append(customResources(1, "Widget"), crd), domain.MarkPending)
		j.Marks[1] = domain.MarkRefused
		require.NoError(t, s.open(t, kube.Config{StageWait: time.Hour}).Apply(t.Context(), j).Retry)
		require.Equal(t, domain.MarkRefused, watcher.Marks[0])
	})
	t.Run("is refused when the CRD is of another kind", func(t *testing.T) {
		t.Parallel()
		s := serve(t, http2, (&api{}).widgetAt(1))
		j, watcher := job(append(customResources(1, "Gadget"), crd), domain.MarkPending)
		j.Resources[0].Stage = 1
		require.NoError(t, s.open(t, kube.Config{StageWait: time.Hour}).Apply(t.Context(), j).Retry)
		require.Equal(t, domain.Marks{domain.MarkRefused, domain.MarkApplied}, watcher.Marks)
	})
}

func TestBuiltInKindsAreWhatClustersServe(t *testing.T) {
	t.Parallel()
	config, err := clientcmd.RESTConfigFromKubeConfig(kubetest.Kubeconfig(t))
	require.NoError(t, err)
	client, err := discovery.NewDiscoveryClientForConfig(config)
	require.NoError(t, err)
	_, lists, err := client.ServerGroupsAndResources()
	require.NoError(t, err)
	type served struct {
		Resource   string
		Namespaced bool
	}
	serves := map[schema.GroupKind]served{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		require.NoError(t, err)
		for _, r := range list.APIResources {
			if !strings.Contains(r.Name, "/") {
				serves[schema.GroupKind{Group: gv.Group, Kind: r.Kind}] = served{r.Name, r.Namespaced}
			}
		}
	}
	kinds := 0
	kube.BuiltInKinds(func(gk schema.GroupKind, resource string, namespaced bool) {
		kinds++
		require.Equal(t, serves[gk], served{resource, namespaced}, "%v", gk)
	})
	require.Greater(t, kinds, 30)
}
