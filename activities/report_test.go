package activities_test

import (
	"cmp"
	"encoding/json"
	"net/http"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/policy"
)

// reports answers as a cluster that takes everything. What becomes of the ResourceBundleState is up to the test.
type reports struct {
	leaf    *leaf
	defined bool
	after   int    // how often the definition is asked for in vain before
	refused bool   // the ResourceBundleState
	harmed  string // what is answered with code in place of all else
	code    int32
	status  []string // of the ResourceBundleState, from look to look; the last one stays
}

// newReports lets the leaf's cluster report by an agent.
func newReports(l *leaf) *reports {
	r := &reports{leaf: l, defined: true}
	l.how, l.handle = domain.ReportAgent, r.serve
	return r
}

func (r *reports) serve(w http.ResponseWriter, q *http.Request) {
	name := path.Base(q.URL.Path)
	object := map[string]any{
		"apiVersion": "k8splugin.io/v1alpha1", "kind": "ResourceBundleState",
		"metadata": map[string]any{"name": name, "uid": "1", "labels": map[string]any{"emco/deployment-id": "1-app"}},
	}
	if name == r.harmed {
		refuse(w, r.code, metav1.StatusReason(http.StatusText(int(r.code))), name)
		return
	}
	if strings.HasSuffix(q.URL.Path, "/k8splugin.io/v1alpha1") && r.after > 0 {
		r.after--
		http.NotFound(w, q)
		return
	}
	switch whole := !strings.Contains(q.Header.Get("Accept"), "PartialObjectMetadata"); {
	case strings.HasSuffix(q.URL.Path, "/k8splugin.io/v1alpha1") && r.defined:
		answer(w, http.StatusOK, metav1.APIResourceList{
			TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
			APIResources: []metav1.APIResource{{Name: "resourcebundlestates", Kind: "ResourceBundleState", Namespaced: true}},
		})
	case strings.HasSuffix(q.URL.Path, "/k8splugin.io/v1alpha1"):
		http.NotFound(w, q)
	case q.URL.Path == "/apis":
		answer(w, http.StatusOK, metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}})
	case q.Method == http.MethodPatch && name == "app-1" && r.refused:
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, name)
	case q.Method == http.MethodPatch:
		answer(w, http.StatusCreated, object)
	case q.Method == http.MethodDelete:
		answer(w, http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess})
	case name == "app-1" && len(r.status) > 0:
		if object["status"] = json.RawMessage(r.status[0]); whole && len(r.status) > 1 {
			r.status = r.status[1:]
		}
		answer(w, http.StatusOK, object)
	default:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, name)
	}
}

// asked are the requests about the report and its definition.
func (r *reports) asked() (found []string) {
	for _, q := range r.leaf.seen() {
		if name := strings.Fields(q)[1]; name == "app-1" || name == "v1alpha1" {
			found = append(found, q)
		}
	}
	return found
}

const (
	filled = `{"ready":true,"resourceCount":1,"observedKinds":["ConfigMap"],"configMapStatuses":[{"metadata":{"name":"a0"}}]}`
	empty  = `{"ready":false,"resourceCount":0,"observedKinds":["ConfigMap"]}`
)

func TestApplyReport(t *testing.T) {
	for name, c := range map[string]struct {
		set    func(l *leaf, r *reports)
		report string
		asked  []string
	}{
		"one request": {set: func(*leaf, *reports) {}, asked: []string{"GET v1alpha1", "PATCH app-1"}},
		"no definition": {
			set:    func(_ *leaf, r *reports) { r.defined = false },
			report: "the cluster has no ResourceBundleState CRD", asked: []string{"GET v1alpha1"},
		},
		"refused": {
			set:    func(_ *leaf, r *reports) { r.refused = true },
			report: "the ResourceBundleState was refused: ResourceBundleState app-1: it is Forbidden", asked: []string{"GET v1alpha1", "PATCH app-1"},
		},
		"auto": {set: func(l *leaf, _ *reports) { l.how = domain.ReportAuto }, asked: []string{"GET v1alpha1", "PATCH app-1"}},
		"auto, no definition": { // it does without: nothing is amiss
			set: func(l *leaf, r *reports) { l.how, r.defined = domain.ReportAuto, false }, asked: []string{"GET v1alpha1"},
		},
		"agentless": {set: func(l *leaf, _ *reports) { l.how = domain.ReportAgentless }},
		"none":      {set: func(l *leaf, _ *reports) { l.how = domain.ReportNone }},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLeaf(t, domain.OpInstantiate, 0, 0)
			r := newReports(l)
			c.set(l, r)
			out, err := l.run()
			require.NoError(t, err)
			require.Equal(t, "2A", out.Marks, "the report is not counted")
			require.Equal(t, c.report, l.recorded().Report)
			require.Equal(t, c.asked, r.asked())

			l.forget()
			_, err = l.run()
			require.NoError(t, err)
			require.Equal(t, c.report, l.recorded().Report)
			if len(c.asked) > 0 {
				require.Equal(t, strings.Join(c.asked[1:], ", "), strings.Join(r.asked(), ", "), "the definition is looked for once")
			}
		})
	}
}

// patched are the names of what was applied.
func (l *leaf) patched() (names []string) {
	for _, q := range l.seen() {
		if name, ok := strings.CutPrefix(q, http.MethodPatch+" "); ok {
			names = append(names, name)
		}
	}
	l.forget()
	return names
}

// TestInstall: with spec.report install the agent comes before the first leaf, once.
func TestInstall(t *testing.T) {
	const definition = "resourcebundlestates.k8splugin.io"
	newInstall := func(t *testing.T) (*leaf, *reports) {
		l := newLeaf(t, domain.OpInstantiate, 0)
		r := newReports(l)
		l.how = domain.ReportInstall
		return l, r
	}
	t.Run("once, before the leaf", func(t *testing.T) {
		l, _ := newInstall(t)
		for _, want := range [][]string{{definition, "agent", "a0", "app-1"}, {"a0", "app-1"}} {
			out, err := l.run()
			require.NoError(t, err)
			require.Equal(t, "1A", out.Marks, "the agent is not counted")
			require.Empty(t, l.recorded().Report)
			require.Equal(t, want, l.patched())
		}
	})
	t.Run("waits until the definition is served", func(t *testing.T) {
		l, r := newInstall(t)
		r.after = 2
		_, err := l.run()
		require.NoError(t, err)
		require.Empty(t, l.recorded().Report)
		require.Equal(t, []string{definition, "agent", "a0", "app-1"}, l.patched())
	})
	t.Run("refused: the leaf is applied, and the next one tries again", func(t *testing.T) {
		l, r := newInstall(t)
		r.harmed, r.code = "agent", http.StatusForbidden
		for range 2 {
			out, err := l.run()
			require.NoError(t, err)
			require.Equal(t, "1A", out.Marks)
			require.Equal(t, "the agent could not be installed: ConfigMap agent: it is Forbidden", l.recorded().Report)
			require.Equal(t, []string{definition, "agent", "a0", "app-1"}, l.patched())
		}
		r.harmed = ""
		_, err := l.run()
		require.NoError(t, err)
		require.Empty(t, l.recorded().Report)
	})
	t.Run("a cluster that does not answer: nothing of the leaf is sent, and all is tried again", func(t *testing.T) {
		l, r := newInstall(t)
		r.harmed, r.code = definition, http.StatusServiceUnavailable
		_, err := l.run()
		require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
		require.NotContains(t, l.patched(), "a0")
		r.harmed = ""
		_, err = l.run()
		require.NoError(t, err)
		require.Equal(t, []string{definition, "agent", "a0", "app-1"}, l.patched())
	})
}

// TestTheAgentComesBack where somebody has deleted its definition, be it with the cluster: who finds that out has it installed again.
func TestTheAgentComesBack(t *testing.T) {
	const definition = "resourcebundlestates.k8splugin.io"
	l := newLeaf(t, domain.OpInstantiate, 0)
	l.connect(kube.Config{StageWait: 2 * policy.DiscoverAgain})
	r := newReports(l)
	l.how = domain.ReportInstall
	_, err := l.run()
	require.NoError(t, err)
	deleted := true
	l.handle = func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodPatch && path.Base(q.URL.Path) == definition {
			deleted = false
		}
		if deleted && strings.HasPrefix(q.URL.Path, "/apis/k8splugin.io/v1alpha1") {
			http.NotFound(w, q)
			return
		}
		r.serve(w, q)
	}
	_, err = l.run()
	require.ErrorContains(t, err, "does not serve the kind")
	l.forget()
	_, err = l.run()
	require.NoError(t, err)
	require.Empty(t, l.recorded().Report)
	require.Subset(t, l.patched(), []string{definition, "agent", "app-1"})
}

// TestApplyReportOfNothing: what holds nothing need not report, and a terminate will not ask the cluster.
func TestApplyReportOfNothing(t *testing.T) {
	l := newLeaf(t, domain.OpInstantiate, 0)
	r := newReports(l)
	l.handle = func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodPatch {
			refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, "a0")
			return
		}
		r.serve(w, q)
	}
	out, err := l.run()
	require.NoError(t, err)
	require.Equal(t, "1F", out.Marks)
	require.Empty(t, r.asked())
}

func TestDeleteReport(t *testing.T) {
	const look = "GET app-1"
	remove := []string{look, "DELETE app-1"} // by its metadata
	for name, c := range map[string]struct {
		left   domain.Leaf
		how    domain.Report
		status []string
		asked  []string
	}{
		"of an agent where there is one":   {how: domain.ReportAuto, left: domain.Leaf{Marks: "1A"}, status: []string{filled, filled, empty}, asked: append([]string{"GET v1alpha1", look, look, look}, remove...)},
		"of one that nobody hears anymore": {how: domain.ReportAgentless, left: domain.Leaf{Marks: "1A"}, status: []string{filled}, asked: append([]string{"GET v1alpha1", look}, remove...)},
		"where nobody reports any more":    {how: domain.ReportNone, left: domain.Leaf{Marks: "1A"}, status: []string{filled}, asked: append([]string{"GET v1alpha1", look}, remove...)},
		"when it is empty":                 {left: domain.Leaf{Marks: "1A"}, status: []string{filled, filled, empty}, asked: append([]string{"GET v1alpha1", look, look, look}, remove...)},
		"at once when nobody fills it":     {left: domain.Leaf{Marks: "1A"}, status: []string{"null"}, asked: append([]string{"GET v1alpha1", look}, remove...)},
		"that is not there":                {left: domain.Leaf{Marks: "1A"}, asked: []string{"GET v1alpha1", look}},
		"of what is kept":                  {left: domain.Leaf{Marks: "1K", Operation: domain.OpTerminate, Report: "the ResourceBundleState could not be deleted"}, status: []string{empty}, asked: append([]string{"GET v1alpha1", look}, remove...)},
		"that there never was":             {left: domain.Leaf{Marks: "1F"}},
		"that has gone":                    {left: domain.Leaf{Marks: "1D", Operation: domain.OpTerminate}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLeaf(t, domain.OpTerminate, 0)
			r := newReports(l)
			l.how = cmp.Or(c.how, l.how)
			r.status = c.status
			c.left.ID = l.in.LeafID()
			require.NoError(t, l.store.PutLeaf(t.Context(), c.left))
			_, err := l.run()
			require.NoError(t, err)
			require.Empty(t, l.recorded().Report)
			require.Equal(t, c.asked, r.asked())
			if i := strings.Index(strings.Join(l.seen(), " "), "DELETE app-1"); i >= 0 {
				require.Equal(t, "DELETE app-1", l.seen()[len(l.seen())-1], "the agent needs it until everything is gone")
			}
		})
	}
}
