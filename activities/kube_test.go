package activities_test

import (
	"cmp"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/deploy/crd"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/readiness"
)

// leaf is a leaf's surroundings: a cluster, which is a server of the test's own under the real client, and
// a workflow that listens.
type leaf struct {
	t       *testing.T
	store   *memory
	how     domain.Report // "" is none: the cluster is asked for nothing but the leaf's resources
	in      activities.LeafInput
	env     *testsuite.TestActivityEnvironment
	kube    *activities.Kube
	server  *httptest.Server
	url     string           // the server's
	handle  http.HandlerFunc // nil answers as a cluster that has nothing and takes all
	body    func(w http.ResponseWriter, r *http.Request, body []byte)
	options worker.Options
	// clusters are the clients, whose credentials have been replaced so many times.
	clusters *kube.Clusters
	replaced int

	mu       sync.Mutex
	requests []string // method and name
	contacts []activities.Contact
	beats    []progress
	raw      map[string]any // the last heartbeat, with all that it has
	lacking  []activities.Lacking
	rules    *readiness.Rules

	onContact func(activities.Contact)
	refusal   error // of what the workflow is told
	onLacking func()
}

// progress is what heartbeats carry.
type progress struct {
	Marks        string              `json:"marks"`
	Announced    string              `json:"announced,omitempty"`
	Connectivity domain.Connectivity `json:"connectivity"`
}

// newLeaf has ConfigMaps a0, a1 and so on, one for each stage given.
func newLeaf(t *testing.T, op domain.Operation, stages ...int) *leaf {
	t.Helper()
	l := &leaf{t: t, store: newMemory()}
	l.server = httptest.NewUnstartedServer(http.HandlerFunc(l.serve))
	l.server.EnableHTTP2 = true
	l.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	l.server.StartTLS()
	l.url = l.server.URL
	t.Cleanup(l.stop)

	bundle := plan.Bundle{App: "app"}
	for i, stage := range stages {
		name := "a" + strconv.Itoa(i)
		bundle.Resources = append(bundle.Resources, plan.Resource{
			ResourceID: plan.ResourceID{Version: "v1", Kind: "ConfigMap", Name: name}, Stage: stage,
			Manifest: json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"}}`),
		})
	}
	l.in = activities.LeafInput{
		Scope: domain.Scope{Owner: "owner", ContextID: "1", Operation: op}, App: "app", Cluster: domain.ClusterName{Provider: "p", Name: "c"},
		Bundle: l.store.put(t, bundle), Resources: len(stages), Namespace: "default",
	}
	l.connect(kube.Config{Request: time.Minute})
	return l
}

// connect makes the activities, with clients that have the configuration.
func (l *leaf) connect(config kube.Config) {
	clusters, err := kube.NewClusters(config, func(context.Context, domain.ClusterName) ([]byte, domain.Digest, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.kubeconfig(), domain.Digest(fmt.Sprint(l.replaced)), nil
	})
	require.NoError(l.t, err)
	l.t.Cleanup(clusters.Close)
	l.clusters = clusters
	l.kube = activities.NewKube(clusters, l.store, l, l, agent())
	l.kube.Rules, l.kube.Records = l, l.store
	l.env = l.environment()
}

// environment is one in which the activities run.
func (l *leaf) environment() *testsuite.TestActivityEnvironment {
	var s testsuite.WorkflowTestSuite
	s.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := s.NewTestActivityEnvironment()
	env.RegisterActivity(l.kube)
	env.SetTestTimeout(time.Minute)
	env.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) {
		var p progress
		if details.HasValues() && details.Get(&p) == nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.beats = append(l.beats, p)
			l.raw = nil
			_ = details.Get(&l.raw)
		}
	})
	return env
}

// asked counts the requests.
func (l *leaf) asked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.requests)
}

// seen are the requests so far. One whose client has gone may still come.
func (l *leaf) seen() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.requests)
}

// forget has seen begin anew.
func (l *leaf) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = nil
}

// agent stands for what installs one: the definition and something else.
func agent() []plan.Resource {
	return []plan.Resource{crd.ResourceBundleStates(), {
		ResourceID: plan.ResourceID{Version: "v1", Kind: "ConfigMap", Namespace: "agents", Name: "agent"}, Stage: 1,
		Manifest: json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"agent","namespace":"agents"}}`),
	}}
}

// Report implements activities.Reports.
func (l *leaf) Report(domain.ClusterName) domain.Report { return l.how }

// Rules implements activities.ReadinessRules.
func (l *leaf) Rules(context.Context) (*readiness.Rules, error) { return l.rules, nil }

// lacks answers, where it is asked for the definition of reports, as a cluster without it: what most tests are not about.
func (l *leaf) lacks(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case strings.HasSuffix(r.URL.Path, "/k8splugin.io/v1alpha1"):
		http.NotFound(w, r)
	case r.URL.Path == "/apis":
		answer(w, http.StatusOK, metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}})
	default:
		return false
	}
	return true
}

func (l *leaf) stop() {
	l.server.CloseClientConnections()
	l.server.Close()
}

// down has the cluster, which has not been asked for anything yet, where nobody listens.

func (l *leaf) kubeconfig() []byte {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: l.server.Certificate().Raw})
	data, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: l.url, CertificateAuthorityData: ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: "token"}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	})
	require.NoError(l.t, err)
	return data
}

func (l *leaf) serve(w http.ResponseWriter, r *http.Request) {
	body := bodyOf(r)
	if l.how == "" && l.lacks(w, r) {
		return
	}
	l.mu.Lock()
	l.requests = append(l.requests, r.Method+" "+path.Base(r.URL.Path))
	l.mu.Unlock()
	switch {
	case l.body != nil:
		l.body(w, r, body)
	case l.handle != nil:
		l.handle(w, r)
	case r.Method == http.MethodPatch:
		answer(w, http.StatusCreated, map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": path.Base(r.URL.Path), "uid": "1"},
		})
	default:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, path.Base(r.URL.Path))
	}
}

func answer(w http.ResponseWriter, code int, document any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(document)
}

// refuse is a word on the ConfigMap of the name.
func refuse(w http.ResponseWriter, code int32, reason metav1.StatusReason, name string) {
	answer(w, int(code), metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: code, Reason: reason, Message: "it is " + string(reason), Details: &metav1.StatusDetails{Kind: "configmaps", Name: name},
	})
}

// Contact is the workflow's side.
func (l *leaf) Contact(_ context.Context, _, _ string, c activities.Contact) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.contacts = append(l.contacts, c)
	if l.onContact != nil {
		l.onContact(c)
	}
	return l.refusal
}

// Lacking is the operation's side.
func (l *leaf) Lacking(_ context.Context, _, _ string, x activities.Lacking) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lacking = append(l.lacking, x)
	if l.onLacking != nil {
		l.onLacking()
	}
	return nil
}

// told are the marks that the workflow has heard.
func (l *leaf) told() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var marks []string
	for _, c := range l.contacts {
		marks = append(marks, c.Marks)
	}
	return marks
}

// run is one attempt. The error is the activity's own.
func (l *leaf) run() (*domain.Leaf, error) {
	l.t.Helper()
	var failure error
	l.options.Interceptors = append(l.options.Interceptors, &errorsOf{err: &failure})
	l.env.SetWorkerOptions(l.options)
	do := l.kube.ApplyToCluster
	if l.in.Deletes() {
		do = l.kube.DeleteFromCluster
	}
	value, err := l.env.ExecuteActivity(do, l.in)
	if err != nil {
		require.Error(l.t, failure, "%v", err)
		return nil, failure
	}
	var out domain.Leaf
	require.NoError(l.t, value.Get(&out))
	return &out, nil
}

// recorded is the leaf's record.
func (l *leaf) recorded() *domain.Leaf {
	l.t.Helper()
	leaf, err := l.store.Leaf(l.t.Context(), l.in.LeafID())
	require.NoError(l.t, err)
	return leaf
}

func TestApply(t *testing.T) {
	l := newLeaf(t, domain.OpInstantiate, 0, 0, 1)
	out, err := l.run()
	require.NoError(t, err)
	require.Equal(t, "3A", out.Marks)
	require.Equal(t, domain.ConnectivityAvailable, out.Connectivity)
	require.Equal(t, "3A", l.recorded().Marks)
	require.Equal(t, domain.OpInstantiate, l.recorded().Operation)
	require.Empty(t, l.contacts, "the workflow need not hear of a cluster that answers")
	require.Empty(t, l.store.reachable)
}

func TestApplyIsRefused(t *testing.T) {
	l := newLeaf(t, domain.OpInstantiate, 0, 0)
	l.handle = func(w http.ResponseWriter, r *http.Request) {
		if path.Base(r.URL.Path) == "a1" {
			refuse(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "a1")
			return
		}
		answer(w, http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a0"}})
	}
	out, err := l.run()
	require.NoError(t, err, "a refusal is an end")
	require.Equal(t, "1A1F", out.Marks)
	require.Empty(t, out.Notes, "histories stay small")
	require.Len(t, l.recorded().Notes, 1)
	require.Equal(t, 1, l.recorded().Notes[0].Index)
	require.Contains(t, l.recorded().Notes[0].Message, "it is Invalid")
}

func TestUnreachable(t *testing.T) {
	l := newLeaf(t, domain.OpInstantiate, 0, 0)
	l.stop()
	_, err := l.run()
	require.Equal(t, fail.Unavailable, fail.KindOf(err), "%v", err)
	require.Len(t, l.contacts, 1)
	require.Equal(t, domain.ConnectivityRetrying, l.contacts[0].Connectivity)
	require.Contains(t, l.contacts[0].Error, "refused")
	require.Equal(t, []bool{false}, l.store.reachable)
	require.Empty(t, l.store.leaves, "it has not ended")
	last := l.beats[len(l.beats)-1]
	require.Equal(t, progress{
		Marks: l.contacts[0].Marks, Announced: l.contacts[0].Marks, Connectivity: domain.ConnectivityRetrying,
	}, last, "the next attempt knows what was told")
}

// TestUnreachableAgain must not add to the history at every attempt.
func TestUnreachableAgain(t *testing.T) {
	l := newLeaf(t, domain.OpInstantiate, 0, 0)
	l.stop()
	_, err := l.run()
	require.Error(t, err)
	told, last := len(l.contacts), l.beats[len(l.beats)-1]
	for range 3 {
		l.env.SetHeartbeatDetails(last)
		_, err = l.run()
		require.Equal(t, fail.Unavailable, fail.KindOf(err))
		last = l.beats[len(l.beats)-1]
	}
	// The first stage is announced once; from then on all is known.
	require.LessOrEqual(t, len(l.contacts), told+1, "%v", l.told())
	require.Equal(t, []bool{false}, l.store.reachable)
}

func TestResume(t *testing.T) {
	l := newLeaf(t, domain.OpInstantiate, 0, 0)
	l.env.SetHeartbeatDetails(progress{Marks: "1A1p", Connectivity: domain.ConnectivityAvailable})
	out, err := l.run()
	require.NoError(t, err)
	require.Equal(t, "2A", out.Marks)
	require.Equal(t, []string{"PATCH a1"}, l.seen())
}

func TestResumeOfWhatIsDone(t *testing.T) {
	l := newLeaf(t, domain.OpInstantiate, 0, 0)
	l.env.SetHeartbeatDetails(progress{Marks: "1A1F", Connectivity: domain.ConnectivityAvailable})
	out, err := l.run()
	require.NoError(t, err)
	require.Equal(t, "1A1F", out.Marks)
	require.Empty(t, l.seen())
	require.Equal(t, "1A1F", l.recorded().Marks)
}

// TestNewestErrorIsTold, when it is another one than was told, the less often the longer the cluster has been away.
func TestNewestErrorIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		lost, toldAt time.Duration // ago
		error        string
		told         bool
	}{
		"another one":                      {lost: 20 * time.Second, toldAt: 10 * time.Second, error: "http2: connection lost", told: true},
		"another one, a moment later":      {lost: 20 * time.Second, toldAt: time.Second, error: "http2: connection lost"},
		"another one, when it is old":      {lost: time.Hour, toldAt: 20 * time.Minute, error: "http2: connection lost", told: true},
		"another one, soon for an old one": {lost: time.Hour, toldAt: 5 * time.Minute, error: "http2: connection lost"},
		"the same one":                     {lost: time.Hour, toldAt: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLeaf(t, domain.OpInstantiate, 0, 0)
			l.stop()
			_, err := l.run()
			require.Error(t, err)
			refused := l.contacts[0].Error
			now := time.Now()
			l.env = l.environment()
			l.env.SetHeartbeatDetails(map[string]any{
				"marks": "2s", "announced": "2s", "connectivity": domain.ConnectivityRetrying, "error": "of the attempt before",
				"told": cmp.Or(c.error, refused), "toldAt": now.Add(-c.toldAt), "lost": now.Add(-c.lost),
			})
			_, err = l.run()
			require.Error(t, err)
			if !c.told {
				require.Len(t, l.contacts, 1)
				return
			}
			require.Len(t, l.contacts, 2)
			require.Equal(t, activities.Contact{Connectivity: domain.ConnectivityRetrying, Marks: "2s", Error: refused}, l.contacts[1])
		})
	}
}

// TestTimesOfAClockThatWasAhead: the next attempt measures from its beginning what the one before has noted as later.
func TestTimesOfAClockThatWasAhead(t *testing.T) {
	l := newLeaf(t, domain.OpInstantiate, 0)
	l.handle = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
	ahead := time.Now().Add(2 * time.Hour)
	noted := []string{"lost", "toldAt", "failing", "sent", "since", "heard", "leaving"}
	before := map[string]any{"marks": "1s", "announced": "1s", "connectivity": domain.ConnectivityRetrying, "told": "of the attempt before"}
	for _, name := range noted {
		before[name] = ahead
	}
	l.env.SetHeartbeatDetails(before)
	_, err := l.run()
	require.Equal(t, fail.Unavailable, fail.KindOf(err), "%v", err)
	for _, name := range noted {
		at, err := time.Parse(time.RFC3339, fmt.Sprint(l.raw[name]))
		require.NoError(t, err, name)
		require.False(t, at.After(time.Now()), "%s: %s", name, at)
	}
}

// TestAnnounce: once the workflow has heard of the leaf it must know of every stage before it is sent.
func TestAnnounce(t *testing.T) {
	l := newLeaf(t, domain.OpInstantiate, 0, 1)
	l.env.SetHeartbeatDetails(progress{Marks: "2p", Announced: "2p", Connectivity: domain.ConnectivityRetrying})
	known := map[string][]string{}
	l.handle = func(w http.ResponseWriter, r *http.Request) {
		name := path.Base(r.URL.Path)
		told := l.told()
		l.mu.Lock()
		known[name] = told
		l.mu.Unlock()
		answer(w, http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}})
	}
	out, err := l.run()
	require.NoError(t, err)
	require.Equal(t, "2A", out.Marks)
	require.Equal(t, []string{"1s1p"}, known["a0"])
	require.Equal(t, []string{"1s1p", "1A1s"}, known["a1"])
	require.Equal(t, domain.ConnectivityAvailable, l.contacts[1].Connectivity)
	require.Equal(t, []bool{true}, l.store.reachable)
}

// TestCancel cancels a leaf whose cluster hangs: what was sent is recorded as such.
func TestCancel(t *testing.T) {
	l := newLeaf(t, domain.OpInstantiate, 0, 1)
	ctx, cancel := context.WithCancelCause(t.Context())
	l.options.BackgroundActivityContext = ctx
	l.handle = func(_ http.ResponseWriter, r *http.Request) {
		cancel(temporal.NewCanceledError())
		<-r.Context().Done()
	}
	out, err := l.run()
	require.NoError(t, err)
	require.Equal(t, "1s1p", out.Marks)
	require.Equal(t, "1s1p", l.recorded().Marks)
}

// TestHeartbeatIsLost has the SDK end an attempt because it could not tell Temporal of it in time: nobody has stopped the
// work, and another attempt does it.
func TestHeartbeatIsLost(t *testing.T) {
	l := newLeaf(t, domain.OpInstantiate, 0, 1)
	ctx, cancel := context.WithCancelCause(t.Context())
	l.options.BackgroundActivityContext = ctx
	l.handle = func(_ http.ResponseWriter, r *http.Request) {
		cancel(serviceerror.NewDeadlineExceeded("no answer"))
		<-r.Context().Done()
	}
	_, err := l.run()
	require.Error(t, err)
	var app *temporal.ApplicationError
	require.False(t, errors.As(err, &app) && app.NonRetryable(), "%v", err)
	require.Empty(t, l.store.leaves)
}

func TestWorkerStops(t *testing.T) {
	l := newLeaf(t, domain.OpInstantiate, 0)
	stop := make(chan struct{})
	l.env.SetWorkerStopChannel(stop)
	l.handle = func(_ http.ResponseWriter, r *http.Request) {
		close(stop)
		<-r.Context().Done()
	}
	_, err := l.run()
	require.Equal(t, fail.Unavailable, fail.KindOf(err), "%v", err)
	require.Equal(t, "1s", l.beats[len(l.beats)-1].Marks)
	require.Empty(t, l.store.leaves)
}

func TestDelete(t *testing.T) {
	for name, c := range map[string]struct {
		record     string // what the instantiate left; "" for none
		incomplete bool
		asked      []string
		want       string
	}{
		"what was applied":                  {record: "1A1F", asked: []string{"a0"}, want: "2D"},
		"what may have been applied":        {record: "1s1p", asked: []string{"a0"}, want: "2D"},
		"nothing that was never sent":       {record: "2p", want: "2D"},
		"nothing without a record":          {want: "2D"},
		"all when the record may be wrong":  {record: "2p", incomplete: true, asked: []string{"a0", "a1"}, want: "2D"},
		"all when there should be a record": {incomplete: true, asked: []string{"a0", "a1"}, want: "2D"},
		"nothing that is kept":              {record: "2K", want: "2K"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLeaf(t, domain.OpTerminate, 0, 0)
			l.in.Incomplete = c.incomplete
			if c.record != "" {
				require.NoError(t, l.store.PutLeaf(t.Context(), domain.Leaf{ID: l.in.LeafID(), Marks: c.record}))
			}
			out, err := l.run()
			require.NoError(t, err)
			require.Equal(t, c.want, out.Marks)
			require.Equal(t, c.want, l.recorded().Marks)
			require.Equal(t, domain.OpTerminate, l.recorded().Operation)
			asked := map[string]bool{}
			for _, r := range l.seen() {
				_, name, _ := strings.Cut(r, " ")
				asked[name] = true
			}
			require.Len(t, asked, len(c.asked), "%v", l.seen())
			for _, a := range c.asked {
				require.True(t, asked[a], "%v", l.seen())
			}
		})
	}
}

// TestDeleteCutOff: a delete that got no answer may have happened.
func TestDeleteCutOff(t *testing.T) {
	l := newLeaf(t, domain.OpTerminate, 0)
	require.NoError(t, l.store.PutLeaf(t.Context(), domain.Leaf{ID: l.in.LeafID(), Marks: "1A"}))
	l.stop()
	_, err := l.run()
	require.Equal(t, fail.Unavailable, fail.KindOf(err))
	require.Equal(t, "1r", l.beats[len(l.beats)-1].Marks)
}

func TestNoBundle(t *testing.T) {
	l := newLeaf(t, domain.OpInstantiate, 0)
	l.in.Bundle = "none"
	_, err := l.run()
	require.Equal(t, fail.NotFound, fail.KindOf(err))
	require.Empty(t, l.seen())
}

// TestRegistrationReplacedInMidWork: the attempt goes on with the new credentials, and nobody is told that the cluster does
// not let it through.
func TestRegistrationReplacedInMidWork(t *testing.T) {
	for _, op := range []domain.Operation{domain.OpInstantiate, domain.OpTerminate} {
		t.Run(string(op), func(t *testing.T) {
			l := newLeaf(t, op, 0, 0)
			if op == domain.OpTerminate {
				require.NoError(t, l.store.PutLeaf(t.Context(), domain.Leaf{ID: l.in.LeafID(), Operation: domain.OpInstantiate, Marks: "2A"}))
			}
			begun := make(chan struct{}, 1)
			l.handle = func(_ http.ResponseWriter, r *http.Request) {
				select {
				case begun <- struct{}{}:
				default:
				}
				<-r.Context().Done()
			}
			go func() {
				<-begun
				l.mu.Lock()
				l.replaced++
				l.mu.Unlock()
				_ = l.clusters.Renew(context.WithoutCancel(t.Context()), func(domain.ClusterName) bool { return true })
			}()
			_, err := l.run()
			require.ErrorIs(t, err, kube.ErrReplaced)
			require.Empty(t, l.contacts)
			require.NotEmpty(t, l.beats, "the next attempt knows what was sent")
		})
	}
}

// TestARegistrationOfAMomentAgo: a leaf works on the cluster that is registered now, though the client of the one before it in this name
// is not to be renewed for long.
func TestARegistrationOfAMomentAgo(t *testing.T) {
	l, other := newLeaf(t, domain.OpInstantiate, 0), newLeaf(t, domain.OpInstantiate, 0)
	l.connect(kube.Config{Request: time.Minute, Fresh: time.Hour})
	_, err := l.run()
	require.NoError(t, err)
	require.NotEmpty(t, l.seen())
	l.forget()
	l.mu.Lock()
	l.server, l.url = other.server, other.url
	l.replaced++
	l.mu.Unlock()
	l.in.ContextID = "2"
	_, err = l.run()
	require.NoError(t, err)
	require.Empty(t, l.seen())
	require.NotEmpty(t, other.seen())
}

// waiting has reads of blobs wait.
type waiting struct {
	*memory
	read func()
}

func (w waiting) Blob(ctx context.Context, digest domain.Digest) ([]byte, error) {
	w.read()
	return w.memory.Blob(ctx, digest)
}

// TestHeartbeatsWhileItReads: an attempt whose reads take long is not lost, nor is what the one before has come to.
func TestHeartbeatsWhileItReads(t *testing.T) {
	t.Parallel()
	l := newLeaf(t, domain.OpInstantiate, 0, 0)
	before := progress{Marks: "1A1p", Announced: "1A1p", Connectivity: domain.ConnectivityRetrying}
	l.kube = activities.NewKube(l.clusters, waiting{l.store, func() {
		require.Eventually(t, func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return slices.Contains(l.beats, before)
		}, 30*time.Second, 10*time.Millisecond)
	}}, l, l, agent())
	l.kube.Rules, l.kube.Records = l, l.store
	l.env = l.environment()
	l.env.SetHeartbeatDetails(before)
	end, err := l.run()
	require.NoError(t, err)
	require.Equal(t, "2A", end.Marks)
	require.Equal(t, []string{"PATCH a1"}, l.seen(), "the first one was applied before")
}
