package activities_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/match"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
	"github.com/drover-io/drover/internal/version"
)

// matches is a tenant with one rule, in a real store and a real cluster.
type matches struct {
	*testing.T
	store      *store.Store
	client     dynamic.Interface
	match      *activities.Match
	tenant     *domain.Tenant
	rule       *domain.WorkloadRule
	hosts      []*domain.Host
	workloads  map[string]*domain.Workload
	kubeconfig []byte
	digest     domain.Digest
	now        time.Time
	context    context.Context // of activities
}

var (
	pods          = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	allNamespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

func newMatches(t *testing.T) *matches {
	t.Helper()
	return newMatchesThatReport(t, nil)
}

// newMatchesThatReport is newMatches where clusters report in some way.
func newMatchesThatReport(t *testing.T, reports activities.Reports) *matches {
	t.Helper()
	s := storetest.Open(t, store.Config{})
	m := &matches{T: t, store: s, now: time.Now(), workloads: map[string]*domain.Workload{}, context: t.Context(), kubeconfig: kubetest.Kubeconfig(t)}
	m.client = kubetest.Dynamic(t, m.kubeconfig)
	m.match = m.worker(reports)
	m.tenant = &domain.Tenant{
		Metadata: domain.Metadata{Name: kubetest.Name("t")}, ContextID: "2621114006130701074",
		Spec: domain.TenantSpec{Cluster: "p+c", Nodes: domain.NodesAll},
	}
	m.tenant.Default()
	require.NoError(t, s.Create(t.Context(), m.tenant))
	t.Cleanup(func() {
		_ = m.client.Resource(allNamespaces).Delete(context.WithoutCancel(t.Context()), m.tenant.Namespace(), metav1.DeleteOptions{})
	})
	m.rule = &domain.WorkloadRule{
		Identity: domain.Identity{Parent: domain.TenantKey(m.tenant.Name)}, Metadata: domain.Metadata{Name: "side"},
		Spec: domain.WorkloadRuleSpec{
			OrchestratorType: domain.Kubernetes, ResourceType: domain.KindPod, DPUSelectionPolicy: domain.AnyNode,
			WorkloadTerms: []domain.WorkloadTerm{{MatchExpressions: []domain.MatchExpression{{
				Key: "metadata.resourceNamespace", Operation: domain.OperationIn, Values: []string{"default"},
			}}}},
			WorkloadInfoInject: []domain.WorkloadInfoInject{{
				Key: "state.extra.labels.app", AsAnnotation: &domain.WorkloadInfoAsAnnotation{Name: "app"},
			}},
		},
	}
	m.image("nginx:1")
	require.NoError(t, s.Create(t.Context(), m.rule))
	return m
}

// worker is what a worker settles the matches with.
func (m *matches) worker(reports activities.Reports) *activities.Match {
	m.Helper()
	fresh := kubetest.Patient(kube.Config{Fresh: 1})
	clusters, err := kube.NewClusters(fresh, func(_ context.Context, name domain.ClusterName) ([]byte, domain.Digest, error) {
		if m.kubeconfig == nil {
			return nil, "", fail.New(fail.NotFound, "cluster %q not found", name)
		}
		return m.kubeconfig, m.digest, nil
	})
	require.NoError(m, err)
	m.Cleanup(clusters.Close)
	return &activities.Match{
		Work: activities.NewKube(clusters, nil, nil, reports, nil), Store: m.store, Now: func() time.Time { return m.now },
	}
}

// register has the cluster registered with another kubeconfig.
func (m *matches) register(kubeconfig []byte) {
	m.kubeconfig, m.digest = kubeconfig, m.digest+"x"
}

// image is the rule's. What the rule says is stored by save.
func (m *matches) image(image string) {
	m.rule.Spec.RuleTemplate = fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"side"},"spec":{"automountServiceAccountToken":false,"containers":[{"name":"c","image":%q}]}}`, image)
}

// run tells of a workload that runs.
func (m *matches) run(id string, labels map[string]string) {
	m.Helper()
	m.workloads[id] = &domain.Workload{
		Tenant: m.tenant.Name, ID: id, Orchestrator: domain.Kubernetes, ResourceType: domain.KindPod,
		ResourceNamespace: "default", ResourceName: "pod-" + id, Extra: map[string]map[string]string{"labels": labels},
	}
	_, err := m.store.WriteWorkloads(m.Context(), m.tenant.Name, &domain.WorkloadWrite{Put: []*domain.Workload{m.workloads[id]}})
	require.NoError(m, err)
}

// end tells that it has ended.
func (m *matches) end(id string) {
	m.Helper()
	delete(m.workloads, id)
	_, err := m.store.WriteWorkloads(m.Context(), m.tenant.Name, &domain.WorkloadWrite{Delete: []string{id}})
	require.NoError(m, err)
}

// wantedBy is what rules want of workloads.
func wantedBy(m *matches, of *domain.Tenant, hosts []*domain.Host, rules []*match.Rule, workloads []*domain.Workload) []domain.Match {
	m.Helper()
	pairs, err := match.Pairs(m.Context().Err, rules, workloads)
	require.NoError(m, err)
	wanted, err := match.Wanted(m.Context().Err, of, hosts, pairs)
	require.NoError(m, err)
	return wanted
}

// evaluate marks what has changed, as the service does.
func (m *matches) evaluate() {
	m.Helper()
	rules := match.CompileAll(m.tenant, []*domain.WorkloadRule{m.rule})
	require.Len(m, rules, 1)
	var workloads []*domain.Workload
	for _, w := range m.workloads {
		workloads = append(workloads, w)
	}
	changes := match.Diff(wantedBy(m, m.tenant, m.hosts, rules, workloads), m.records(), m.now)
	require.NoError(m, m.store.PutBehind(m.Context(), m.tenant.Name))
	m.changed()
	require.NoError(m, m.store.WriteMatches(m.Context(), m.tenant.Name, changes.Write, changes.Remove))
}

// changed says that the tenant's settings may be others by now.
func (m *matches) changed() {
	m.Helper()
	token, err := m.store.ChangeSettings(m.Context(), m.tenant.Name)
	require.NoError(m, err)
	require.NoError(m, m.store.SettingsChanged(m.Context(), m.tenant.Name, token))
}

func (m *matches) records() []domain.Match {
	m.Helper()
	records, err := m.store.Matches(m.Context(), m.tenant.Name)
	require.NoError(m, err)
	return records
}

func (m *matches) record() domain.Match {
	m.Helper()
	records := m.records()
	require.Len(m, records, 1)
	return records[0]
}

// due are the ids of what is due now.
func (m *matches) due() []string {
	m.Helper()
	var due activities.DueMatches
	require.NoError(m, m.do(m.match.DueMatches, activities.DueInput{Tenant: m.tenant.Name, Limit: 100}, &due))
	var ids []string
	for _, d := range due.Matches {
		ids = append(ids, d.ID)
	}
	return ids
}

// settle settles what is due now.
func (m *matches) settle() (*activities.Settled, error) {
	m.Helper()
	in := activities.MatchesInput{Tenant: m.tenant.Name, IDs: m.due()}
	env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
	env.SetWorkerOptions(worker.Options{BackgroundActivityContext: m.context})
	env.RegisterActivity(m.match)
	value, err := env.ExecuteActivity(m.match.SettleMatches, in)
	if err != nil {
		return nil, err
	}
	var out activities.Settled
	require.NoError(m, value.Get(&out))
	return &out, nil
}

func (m *matches) mustSettle() *activities.Settled {
	m.Helper()
	out, err := m.settle()
	require.NoError(m, err)
	return out
}

// pods are those in the tenant's namespace.
func (m *matches) pods() []corev1.Pod {
	m.Helper()
	list, err := m.client.Resource(pods).Namespace(m.tenant.Namespace()).List(m.Context(), metav1.ListOptions{})
	require.NoError(m, err)
	var found []corev1.Pod
	data, err := json.Marshal(list.Items)
	require.NoError(m, err)
	require.NoError(m, json.Unmarshal(data, &found))
	return found
}

// agrees checks that what is in the cluster are the objects of the records, and returns the only one.
func (m *matches) agrees(want int) (only corev1.Pod) {
	m.Helper()
	made := map[string]string{}
	for _, r := range m.records() {
		if r.Made != nil {
			made[r.Made.Name] = r.Made.UID
		}
	}
	there := map[string]string{}
	for _, p := range m.pods() {
		if p.Labels[plan.DeploymentLabel] != "" {
			there[p.Name] = string(p.UID)
			only = p
		}
	}
	require.Equal(m, made, there)
	require.Len(m, there, want)
	return only
}

func TestAMatchIsMadeAndTakenAway(t *testing.T) {
	m := newMatches(t)
	m.run("w1", map[string]string{"app": "web"})
	m.evaluate()
	require.Equal(t, &activities.Settled{}, m.mustSettle())
	first := m.agrees(1)
	require.Equal(t, plan.DeploymentID(m.tenant.ContextID, "side"), first.Labels[plan.DeploymentLabel])
	require.Equal(t, "web", first.Annotations["app"])
	require.Equal(t, domain.MarkApplied, m.record().Mark)
	require.Zero(t, m.record().Due)
	behind, err := m.store.Behind(t.Context())
	require.NoError(t, err)
	require.Contains(t, behind, m.tenant.Name, "until somebody has looked")
	m.mustSettle()
	behind, err = m.store.Behind(t.Context())
	require.NoError(t, err)
	require.NotContains(t, behind, m.tenant.Name)

	m.run("w1", map[string]string{"app": "other"})
	m.evaluate()
	m.mustSettle()
	second := m.agrees(1)
	require.Equal(t, first.UID, second.UID, "annotations are changed in place")
	require.Equal(t, "other", second.Annotations["app"])

	m.run("w1", nil)
	m.evaluate()
	m.mustSettle()
	second = m.agrees(1)
	require.Equal(t, first.UID, second.UID)
	require.NotContains(t, second.Annotations, "app", "what is not injected any more goes")

	m.image("nginx:2")
	require.NoError(t, m.store.Replace(t.Context(), m.rule))
	m.evaluate()
	m.mustSettle()
	third := m.agrees(1)
	require.NotEqual(t, first.UID, third.UID)
	require.Equal(t, "nginx:2", third.Spec.Containers[0].Image)

	m.end("w1")
	m.evaluate()
	m.mustSettle()
	m.agrees(0)
	require.Empty(t, m.records())
}

func TestManyMatches(t *testing.T) {
	m := newMatches(t)
	for i := range 20 {
		m.run(fmt.Sprint("w", i), nil)
	}
	m.evaluate()
	m.mustSettle()
	m.agrees(20)
	for i := range 10 {
		m.end(fmt.Sprint("w", i))
	}
	m.evaluate()
	m.mustSettle()
	m.agrees(10)
}

func TestAnObjectOfSomebodyElseIsLeftAlone(t *testing.T) {
	m := newMatches(t)
	m.run("w1", nil)
	m.evaluate()
	m.mustSettle()
	name := m.agrees(1).Name
	m.end("w1")
	m.evaluate()
	m.mustSettle()

	pod := &unstructured.Unstructured{}
	require.NoError(t, pod.UnmarshalJSON(m.rule.Spec.RuleTemplate))
	pod.SetName(name)
	theirs, err := m.client.Resource(pods).Namespace(m.tenant.Namespace()).Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	m.run("w1", nil)
	m.evaluate()
	m.mustSettle()
	r := m.record()
	require.Nil(t, r.Made)
	require.Equal(t, domain.MarkRefused, r.Mark)
	require.Contains(t, r.Reason, "NameConflict")
	require.Equal(t, m.now.Add(5*time.Minute).UnixMilli(), r.Next.UnixMilli(), "it may be put right in the cluster")
	m.end("w1")
	m.evaluate()
	m.mustSettle()
	require.Empty(t, m.records())
	left := m.pods()
	require.Len(t, left, 1)
	require.Equal(t, theirs.GetUID(), left[0].UID)
	require.Equal(t, theirs.GetResourceVersion(), left[0].ResourceVersion)

	m.run("w1", nil)
	m.evaluate()
	m.now = m.mustSettle().Next
	require.NoError(t, m.client.Resource(pods).Namespace(m.tenant.Namespace()).Delete(t.Context(), name, metav1.DeleteOptions{}))
	m.mustSettle()
	m.agrees(1)
}

// TestAnObjectOfAnotherWorkloadIsLeftAlone: the names that two workloads of a rule get may be equal. One object for both would go with the first of them.
func TestAnObjectOfAnotherWorkloadIsLeftAlone(t *testing.T) {
	m := newMatches(t)
	m.run("w1", nil)
	m.evaluate()
	rules := match.CompileAll(m.tenant, []*domain.WorkloadRule{m.rule})
	r, reason := rules[0].Resource(m.tenant, nil, m.workloads["w1"])
	require.Nil(t, reason)
	kubetest.MakeNamespace(t, m.client, m.tenant.Namespace())
	other := &unstructured.Unstructured{}
	require.NoError(t, other.UnmarshalJSON(r.Manifest))
	annotations := other.GetAnnotations()
	annotations[match.AnnotationWorkload] = "another"
	other.SetAnnotations(annotations)
	theirs, err := m.client.Resource(pods).Namespace(m.tenant.Namespace()).Create(t.Context(), other, metav1.CreateOptions{})
	require.NoError(t, err)
	m.mustSettle()
	require.Nil(t, m.record().Made)
	require.Contains(t, m.record().Reason, match.NameConflict)
	m.end("w1")
	m.evaluate()
	m.mustSettle()
	left := m.pods()
	require.Len(t, left, 1)
	require.Equal(t, theirs.GetResourceVersion(), left[0].ResourceVersion)

	// Nor is it deleted where nobody knows what came of the create of this one, or where this one's was deleted and that one's came.
	for _, uid := range []string{"", "of the one before"} {
		m.run("w1", nil)
		m.evaluate()
		record := m.record()
		record.Made = &domain.Made{
			Cluster: r.Cluster, Version: r.ID.Version, Kind: r.ID.Kind, Namespace: r.ID.Namespace, Name: r.ID.Name, Label: r.Label, Spec: r.Spec, UID: uid,
			Sent: m.now.Add(-time.Hour),
		}
		record.Mark = domain.MarkSent
		require.NoError(t, m.store.WriteMatches(t.Context(), m.tenant.Name, []domain.Match{record}, nil))
		m.end("w1")
		m.evaluate()
		m.mustSettle()
		left = m.pods()
		require.Len(t, left, 1)
		require.Equal(t, theirs.GetResourceVersion(), left[0].ResourceVersion)
		require.Empty(t, m.records(), "its record has gone")
	}

	// What is known to be the match's is put right, whatever somebody has made of its annotation.
	require.NoError(t, m.client.Resource(pods).Namespace(m.tenant.Namespace()).Delete(t.Context(), r.ID.Name, metav1.DeleteOptions{}))
	m.run("w1", nil)
	m.evaluate()
	m.mustSettle()
	_, err = m.client.Resource(pods).Namespace(m.tenant.Namespace()).Patch(t.Context(), r.ID.Name, types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"`+match.AnnotationWorkload+`":"another"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	m.run("w1", map[string]string{"app": "web"})
	m.evaluate()
	m.mustSettle()
	require.Equal(t, "w1", m.agrees(1).Annotations[match.AnnotationWorkload])
}

// TestAnObjectThatIsNotToBeLookedAt is in the cluster as ever: that the cluster refuses to show it does not end its record.
func TestAnObjectThatIsNotToBeLookedAt(t *testing.T) {
	m := newMatches(t)
	m.run("w1", nil)
	m.evaluate()
	m.mustSettle()
	m.agrees(1)
	there := m.kubeconfig
	user := kubetest.Name("nobody")
	m.register(kubetest.As(t, there, user))
	m.run("w1", map[string]string{"app": "other"})
	m.evaluate()
	m.mustSettle()
	r := m.record()
	require.Equal(t, domain.MarkUndeleted, r.Mark)
	require.Contains(t, r.Reason, user)
	require.NotNil(t, r.Made)
	m.register(there)
	m.end("w1")
	m.evaluate()
	m.mustSettle()
	m.agrees(0)
	require.Empty(t, m.records())
}

// TestACreateThatIsRefusedWhileAnotherMayBeOnItsWay: the answer is not about that one.
func TestACreateThatIsRefusedWhileAnotherMayBeOnItsWay(t *testing.T) {
	m := newMatches(t)
	m.image("") // clusters want one
	require.NoError(t, m.store.Replace(t.Context(), m.rule))
	m.run("w1", nil)
	m.evaluate()
	rules := match.CompileAll(m.tenant, []*domain.WorkloadRule{m.rule})
	r, _ := rules[0].Resource(m.tenant, nil, m.workloads["w1"])
	require.NoError(t, m.store.WriteMatches(t.Context(), m.tenant.Name, []domain.Match{match.Sending(m.record(), r, m.now)}, nil))
	out := m.mustSettle()
	require.NotNil(t, m.record().Made)
	require.True(t, out.Next.After(m.now))
	m.now = m.now.Add(time.Minute)
	m.mustSettle()
	require.Nil(t, m.record().Made)
	require.Equal(t, domain.MarkRefused, m.record().Mark)
}

// TestACreateIsSentSoonOrNotAtAll: whoever withdraws it waits no longer than it may be on its way. Here the worker is slow between
// the record and the request.
func TestACreateIsSentSoonOrNotAtAll(t *testing.T) {
	m := newMatches(t)
	m.run("w1", nil)
	m.evaluate()
	writes := 0
	m.match.Store = frozenStore{m.store, func() {
		if writes++; writes == 1 {
			m.now = m.now.Add(policy.SendWithin + time.Second)
		}
		if writes == 2 {
			require.Empty(t, m.pods())
			require.Nil(t, m.record().Made, "nothing was sent")
		}
	}}
	m.mustSettle()
	require.Greater(t, writes, 2)
	m.agrees(1)
}

// holding has the cluster behind a server that holds up the creates in which a text is until the test lets go of them, or ends.
func (m *matches) holding(text string) (letGo func()) {
	m.Helper()
	held := make(chan struct{})
	letGo = sync.OnceFunc(func() { close(held) })
	m.Cleanup(letGo)
	m.behind(func(_ http.ResponseWriter, r *http.Request, body []byte) (answered bool) {
		if r.Method == http.MethodPost && bytes.Contains(body, []byte(text)) {
			select {
			case <-held:
			case <-r.Context().Done():
				return true
			}
		}
		return false
	})
	return letGo
}

// behind has the cluster behind a server that may answer requests in its place.
func (m *matches) behind(answers func(w http.ResponseWriter, r *http.Request, body []byte) (answered bool)) {
	m.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(m.kubeconfig)
	require.NoError(m, err)
	through, err := rest.TransportFor(config)
	require.NoError(m, err)
	to, err := url.Parse(config.Host)
	require.NoError(m, err)
	proxy := &httputil.ReverseProxy{Transport: through, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Header.Del("Authorization") // the server's own clients have theirs
	}}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil && answers(w, r, body) {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	m.Cleanup(server.Close)
	m.register((&deaf{server: server}).kubeconfig(m.T))
}

// TestANamespaceThatCouldNotBeMade is made later, and nothing that needs it is refused for good meanwhile.
func TestANamespaceThatCouldNotBeMade(t *testing.T) {
	m := newMatches(t)
	var failed atomic.Int64
	m.behind(func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/namespaces") || failed.Add(1) > 1 {
			return false
		}
		http.Error(w, "etcd has no leader", http.StatusInternalServerError)
		return true
	})
	const n = 5
	for i := range n {
		m.run(fmt.Sprint("w", i), nil)
	}
	m.evaluate()
	m.mustSettle()
	for workload, mark := range m.marks() {
		require.NotEqual(t, domain.MarkRefused, mark, workload)
	}
	for range 3 {
		m.now = m.now.Add(10 * time.Minute)
		m.evaluate()
		m.mustSettle()
	}
	m.agrees(n)
}

// TestWhenTheNextOneIsDueByTheClockOfTheWorkflow, which waits for it: a worker whose own is behind would be asked again and again.
func TestWhenTheNextOneIsDueByTheClockOfTheWorkflow(t *testing.T) {
	m := newMatches(t)
	m.run("w", nil)
	m.evaluate()
	records := m.records()
	records[0].Next = m.now.Add(time.Minute)
	require.NoError(t, m.store.WriteMatches(t.Context(), m.tenant.Name, records, nil))
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		due, err := m.match.DueMatches(t.Context(), activities.DueInput{Tenant: m.tenant.Name, Limit: 10, Now: m.now.Add(ahead)})
		require.NoError(t, err)
		require.Empty(t, due.Matches)
		require.WithinDuration(t, m.now.Add(ahead+time.Minute), due.Next, time.Millisecond)
	}
}

// several has so many workloads run, and one more whose create is held up.
func (m *matches) several(n int) (others []string) {
	m.Helper()
	for i := range n {
		others = append(others, fmt.Sprint("w", i))
		m.run(others[i], nil)
	}
	m.evaluate()
	m.now = m.now.Add(time.Second) // it is due after them: the first one finds out whether the cluster answers
	m.run("held-up", nil)
	m.evaluate()
	return others
}

// marks are those of the records, by workload.
func (m *matches) marks() map[string]domain.Mark {
	m.Helper()
	marks := map[string]domain.Mark{}
	for _, r := range m.records() {
		marks[r.Workload] = r.Mark
	}
	return marks
}

// TestOneThatHangsHoldsUpNoWordOnTheOthers: what came of them is written while it hangs.
func TestOneThatHangsHoldsUpNoWordOnTheOthers(t *testing.T) {
	activities.SetNoteEvery(t, time.Millisecond)
	m := newMatches(t)
	letGo := m.holding("held-up")
	others := m.several(3 * 8)
	settled := make(chan error, 1)
	go func() {
		_, err := m.settle()
		settled <- err
	}()
	require.Eventually(t, func() bool {
		marks := m.marks()
		return !slices.ContainsFunc(others, func(id string) bool { return marks[id] != domain.MarkApplied })
	}, time.Minute, 10*time.Millisecond)
	require.NotEqual(t, domain.MarkApplied, m.marks()["held-up"])
	letGo()
	require.NoError(t, <-settled)
	m.agrees(len(others) + 1)
	require.Equal(t, domain.MarkApplied, m.marks()["held-up"])
}

// TestATryThatRunsOutOfTime writes what came of what was done, so that what is left is no more than was not.
func TestATryThatRunsOutOfTime(t *testing.T) {
	activities.SetNoteEvery(t, time.Hour)
	m := newMatches(t)
	m.holding("held-up")
	others := m.several(4)
	for limit := 2 * time.Second; ; limit *= 2 { // a slow machine needs longer for the others, or before it makes any
		require.NoError(t, context.Cause(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		m.context = ctx
		_, err := m.settle()
		cancel()
		require.Error(t, err)
		marks := m.marks()
		require.NotEqual(t, domain.MarkApplied, marks["held-up"])
		made := !slices.ContainsFunc(others, func(id string) bool { return marks[id] != domain.MarkApplied })
		if made && strings.Contains(err.Error(), "not all was done in time") {
			return
		}
	}
}

// TestAMatchWhoseWorkerDies goes on from each state in which a worker that dies can leave a match.
func TestAMatchWhoseWorkerDies(t *testing.T) {
	m := newMatches(t)
	m.run("w1", nil)
	m.evaluate()
	due := m.record()
	made := func() domain.Match {
		rules := match.CompileAll(m.tenant, []*domain.WorkloadRule{m.rule})
		r, reason := rules[0].Resource(m.tenant, nil, m.workloads["w1"])
		require.Nil(t, reason)
		return match.Sending(due, r, m.now)
	}
	write := func(r domain.Match) {
		t.Helper()
		require.NoError(t, m.store.WriteMatches(t.Context(), m.tenant.Name, []domain.Match{r}, nil))
	}
	write(made()) // it has died before the create
	m.mustSettle()
	first := m.agrees(1)

	sent := made() // or its answer was lost
	sent.Revision = m.record().Revision
	write(sent)
	m.mustSettle()
	require.Equal(t, first.UID, m.agrees(1).UID)

	m.end("w1")
	m.evaluate()
	before := m.record()
	write(match.Withdrawing(before)) // it has died before the delete
	m.mustSettle()
	m.agrees(0)

	before.Mark, before.Revision = domain.MarkDeleting, 0 // or its answer was lost
	write(before)
	m.mustSettle()
	require.Empty(t, m.records())
}

// TestACreateThatMayBeOnItsWayIsWaitedFor for some seconds, also where the clock of who has sent it was ahead.
func TestACreateThatMayBeOnItsWayIsWaitedFor(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"of a right clock": 0, "of a clock that was ahead": 3 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			m := newMatches(t)
			m.run("w1", nil)
			m.evaluate()
			rules := match.CompileAll(m.tenant, []*domain.WorkloadRule{m.rule})
			r, _ := rules[0].Resource(m.tenant, nil, m.workloads["w1"])
			require.NoError(t, m.store.WriteMatches(t.Context(), m.tenant.Name, []domain.Match{match.Sending(m.record(), r, m.now.Add(ahead))}, nil))
			m.end("w1")
			m.evaluate()
			out := m.mustSettle()
			require.True(t, out.Next.After(m.now), "that nothing is there does not say that nothing comes")
			require.False(t, out.Next.After(m.now.Add(policy.SendWithin+policy.CreateLasts+policy.CreateArrives)))
			require.NotNil(t, m.record().Made)

			kubetest.MakeNamespace(t, m.client, m.tenant.Namespace())
			late := &unstructured.Unstructured{}
			require.NoError(t, late.UnmarshalJSON(r.Manifest))
			_, err := m.client.Resource(pods).Namespace(m.tenant.Namespace()).Create(t.Context(), late, metav1.CreateOptions{})
			require.NoError(t, err)
			m.now = out.Next
			m.mustSettle()
			m.agrees(0)
			require.Empty(t, m.records())
		})
	}
}

func TestWhatIsGoneIsMadeAgain(t *testing.T) {
	m := newMatches(t)
	m.run("w1", nil)
	m.evaluate()
	m.mustSettle()
	wait := time.Second
	for range 3 {
		pod := m.agrees(1)
		require.NoError(t, m.client.Resource(pods).Namespace(pod.Namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}))
		gone := m.record()
		gone.Due = m.now
		require.NoError(t, m.store.WriteMatches(t.Context(), m.tenant.Name, []domain.Match{gone}, nil))
		out := m.mustSettle()
		require.WithinDuration(t, m.now.Add(wait), out.Next, time.Millisecond)
		require.Empty(t, m.pods())
		m.now, wait = out.Next, 2*wait
		m.mustSettle()
	}
	m.agrees(1)
}

func TestAMatchThatOutlivesItsDeletion(t *testing.T) {
	m := newMatches(t)
	m.run("w1", nil)
	m.evaluate()
	m.mustSettle()
	pod := m.agrees(1)
	hold := func(list string) {
		t.Helper()
		_, err := m.client.Resource(pods).Namespace(pod.Namespace).Patch(t.Context(), pod.Name, types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":`+list+`}}`), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	hold(`["drover.io/held"]`)
	m.image("nginx:2")
	require.NoError(t, m.store.Replace(t.Context(), m.rule))
	m.evaluate()
	out := m.mustSettle()
	require.Equal(t, pod.UID, m.agrees(1).UID, "never two for a match")
	require.Equal(t, domain.MarkEnding, m.record().Mark)
	require.Contains(t, m.record().Reason, "drover.io/held")
	hold(`[]`)
	m.now = out.Next
	m.mustSettle()
	require.Equal(t, "nginx:2", m.agrees(1).Spec.Containers[0].Image)
}

// report says what the cluster reports of the rule.
func (m *matches) report() *domain.Observation {
	m.Helper()
	o := &domain.Observation{
		ObservedApp: domain.ObservedApp{ContextID: m.tenant.ContextID, App: "side", Cluster: m.tenant.ClusterName()}, Kinds: []string{"Pod"},
	}
	for _, p := range m.pods() {
		data, err := json.Marshal(p)
		require.NoError(m, err)
		o.Resources = append(o.Resources, domain.ObservedResource{Version: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, JSON: data})
	}
	return o
}

// settler counts how often a tenant is to be settled.
type settler struct{ asked int }

func (s *settler) Settle(context.Context, string) error { s.asked++; return nil }

func TestWhatIsReported(t *testing.T) {
	m := newMatches(t)
	asked := &settler{}
	m.match.Settler = asked
	heard := func(ours bool, settles int) {
		t.Helper()
		got, err := m.match.Reported(t.Context(), m.report())
		require.NoError(t, err)
		require.Equal(t, ours, got)
		require.Equal(t, settles, asked.asked)
	}
	heard(false, 0)
	m.run("w1", nil)
	m.evaluate()
	m.mustSettle()
	heard(true, 0)
	pod, before := m.agrees(1), m.record()

	require.NoError(t, m.client.Resource(pods).Namespace(pod.Namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}))
	heard(true, 1)
	m.now = m.mustSettle().Next
	m.mustSettle()
	require.NotEqual(t, pod.UID, m.agrees(1).UID, "what is gone is made again")
	heard(true, 1)

	stale := m.report()
	m.end("w1")
	m.evaluate()
	m.mustSettle()
	_, err := m.match.Reported(t.Context(), stale)
	require.NoError(t, err)
	require.Empty(t, m.records(), "a report that is older than the end of what it tells of is no word on it")
	require.Equal(t, 1, asked.asked)
	late := &unstructured.Unstructured{}
	rules := match.CompileAll(m.tenant, []*domain.WorkloadRule{m.rule})
	r, _ := rules[0].Resource(m.tenant, nil, &domain.Workload{Tenant: m.tenant.Name, ID: before.Workload, ResourceNamespace: "default"})
	require.NoError(t, late.UnmarshalJSON(r.Manifest))
	_, err = m.client.Resource(pods).Namespace(m.tenant.Namespace()).Create(t.Context(), late, metav1.CreateOptions{})
	require.NoError(t, err)
	heard(true, 2)
	m.mustSettle()
	m.agrees(0)
	require.Empty(t, m.records(), "what comes back without a record goes")

	registered := m.kubeconfig
	m.register(nil)
	_, err = m.match.Reported(t.Context(), stale)
	require.NoError(t, err)
	require.Equal(t, domain.MarkDoomed, m.record().Mark, "which the cluster cannot be asked about")
	require.Equal(t, 3, asked.asked)
	m.register(registered)
	m.mustSettle()
	require.Empty(t, m.records())

	m.match.Store = newerMatches{m.match.Store}
	_, err = m.match.Reported(t.Context(), m.report())
	ids, err := domain.UnreadableOf(err)
	require.NoError(t, err)
	require.Len(t, ids, 1, "which is no word of the store's that it does not answer")
}

// newerMatches are such as a newer build has written.
type newerMatches struct{ activities.MatchStore }

func (newerMatches) Matches(context.Context, string) ([]domain.Match, error) {
	return nil, version.Refuse("match 1", 2, 1)
}

func TestANamespaceGoesWithItsTenant(t *testing.T) {
	m := newMatches(t)
	m.match.Settler = &settler{}
	m.run("w1", nil)
	m.evaluate()
	m.mustSettle()
	m.end("w1")
	m.evaluate()
	m.mustSettle()
	env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
	env.RegisterActivity(m.match)
	leave := func() error {
		_, err := env.ExecuteActivity(m.match.LeaveHomes, activities.TenantInput{Tenant: m.tenant.Name})
		return err
	}
	there := func() bool {
		t.Helper()
		o, err := m.client.Resource(allNamespaces).Get(t.Context(), m.tenant.Namespace(), metav1.GetOptions{})
		return err == nil && o.GetDeletionTimestamp() == nil
	}
	require.NoError(t, leave())
	require.True(t, there())
	require.NoError(t, m.store.Delete(t.Context(), domain.Tenants, domain.KeyOf(m.tenant), 0))
	behind, err := m.match.SettleBehind(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, behind, "whoever has deleted it may have died")
	_ = leave() // the namespace is waited for
	require.False(t, there())
}

func TestARefusedMatch(t *testing.T) {
	m := newMatches(t)
	m.image("") // clusters want one
	require.NoError(t, m.store.Replace(t.Context(), m.rule))
	m.run("w1", nil)
	m.evaluate()
	require.Equal(t, &activities.Settled{}, m.mustSettle())
	r := m.record()
	require.Equal(t, domain.MarkRefused, r.Mark)
	require.Contains(t, r.Reason, "image")
	require.Zero(t, r.Due)
	m.image("nginx:1")
	require.NoError(t, m.store.Replace(t.Context(), m.rule))
	m.evaluate()
	m.mustSettle()
	m.agrees(1)
}

func TestAMatchOfAClusterThatIsAway(t *testing.T) {
	m := newMatches(t)
	m.run("w1", nil)
	m.evaluate()
	there := m.kubeconfig
	m.kubeconfig = elsewhere(t, there)
	require.Equal(t, &activities.Settled{Away: true}, m.mustSettle())
	require.False(t, m.record().Due.IsZero())
	require.NotNil(t, m.record().Made, "it may have been sent")
}

// TestAFrozenWorkerMakesNoMatch freezes a worker between the record and the request.
func TestAFrozenWorkerMakesNoMatch(t *testing.T) {
	m := newMatches(t)
	m.run("w1", nil)
	m.evaluate()
	var now atomic.Int64
	x := lease.New(func() lease.Instant { return lease.Instant{Boot: time.Duration(now.Load())} }, lease.Instant{}, time.Hour)
	t.Cleanup(x.Close)
	m.context = lease.With(t.Context(), x)
	m.match.Store = frozenStore{m.store, func() { now.Store(int64(time.Hour)) }}
	_, err := m.settle()
	require.ErrorContains(t, err, lease.ErrLost.Error())
	require.Empty(t, m.pods())
	require.NotNil(t, m.record().Made)
}

// frozenStore freezes the process when it has written records.
type frozenStore struct {
	*store.Store
	freeze func()
}

func (s frozenStore) WriteMatches(ctx context.Context, tenant string, write, remove []domain.Match) error {
	defer s.freeze()
	return s.Store.WriteMatches(ctx, tenant, write, remove)
}

// elsewhere is a kubeconfig that leads nowhere.
func elsewhere(t *testing.T, kubeconfig []byte) []byte {
	t.Helper()
	config, err := clientcmd.Load(kubeconfig)
	require.NoError(t, err)
	for _, c := range config.Clusters {
		c.Server = "https://127.0.0.1:1"
	}
	data, err := clientcmd.Write(*config)
	require.NoError(t, err)
	return data
}
