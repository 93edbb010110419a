package api_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/api"
	"github.com/drover-io/drover/internal/access"
	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/notify"
	"github.com/drover-io/drover/internal/notify/notifytest"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/render"
	"github.com/drover-io/drover/internal/secret"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// call is one request and what the answer must be.
type call struct {
	name        string
	method, url string
	body        string
	file        []byte // sent as a form with body as metadata
	header      map[string]string
	status      int
	is          string // the whole answer, as JSON
	contains    []string
	lacks       []string
	answers     map[string]string // headers of the answer
}

// placeOf is the parameter continue that asks for what is behind a place.
func placeOf(place string) string { return base64.RawURLEncoding.EncodeToString([]byte(place)) }

func do(t testing.TB, h http.Handler, c call) *httptest.ResponseRecorder {
	t.Helper()
	contentType, body := "application/json", io.Reader(strings.NewReader(c.body))
	if c.file != nil {
		contentType, body = upload(t, c.body, c.file)
	}
	r := httptest.NewRequestWithContext(t.Context(), c.method, c.url, body)
	r.Header.Set("Content-Type", contentType)
	r.Host = "127.0.0.1:9015"
	for k, v := range c.header {
		if r.Header.Set(k, v); v == "" {
			r.Header.Del(k)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// check makes the calls in order.
func check(t *testing.T, h http.Handler, calls []call) {
	t.Helper()
	for _, c := range calls {
		name := c.name
		if name == "" {
			name = c.method + " " + c.url
		}
		t.Run(name, func(t *testing.T) {
			w := do(t, h, c)
			require.Equal(t, c.status, w.Code, "%s %s: %s", c.method, c.url, w.Body)
			if c.is != "" {
				require.JSONEq(t, c.is, w.Body.String())
			}
			for _, s := range c.contains {
				require.Contains(t, w.Body.String(), s)
			}
			for _, s := range c.lacks {
				require.NotContains(t, w.Body.String(), s)
			}
			for k, v := range c.answers {
				require.Equal(t, v, w.Header().Get(k), k)
			}
		})
	}
}

// upload makes the form that emcoctl sends.
func upload(t testing.TB, metadata string, file []byte) (contentType string, body io.Reader) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if metadata != "" {
		require.NoError(t, w.WriteField("metadata", metadata))
	}
	part, err := w.CreateFormFile("file", "filename")
	require.NoError(t, err)
	_, err = part.Write(file)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return w.FormDataContentType(), &b
}

// tgz packs files, given as name, content, name, content.
func tgz(t testing.TB, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for i := 0; i < len(files); i += 2 {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: files[i], Mode: 0o644, Size: int64(len(files[i+1]))}))
		_, err := io.WriteString(w, files[i+1])
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	return b.Bytes()
}

func chartOf(t testing.TB, app string) []byte {
	return tgz(t, app+"/Chart.yaml", "apiVersion: v2\nname: "+app+"\nversion: 0.1.0\n",
		app+"/templates/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm}\n")
}

func profileOf(t testing.TB) []byte {
	return tgz(t, "manifest.yaml", "version: v1\ntype:\n  values: override_values.yaml\n", "override_values.yaml", "a: b\n")
}

const kubeconfig = `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "https://127.0.0.1:6443"}}]
users: [{name: u, user: {token: sesame}}]
`

// operations stands for the engine: it answers what a test tells it to, and knows one context's status.
type operations struct {
	asked    []string
	warnings []string
	err      error
	panics   bool
	status   domain.ContextStatus
	forgot   []domain.Key
	left     []string
	tenants  bool   // groups have something in the clusters of logical clouds
	caller   string // who asked for the last instantiate
}

func (o *operations) ask(what string, group domain.Key) error {
	o.asked = append(o.asked, what+" "+group.Name())
	if o.panics {
		panic("defect")
	}
	return o.err
}

func (o *operations) Approve(_ context.Context, g domain.Key) ([]string, error) {
	return o.warnings, o.ask("approve", g)
}

func (o *operations) Terminate(_ context.Context, g domain.Key) error { return o.ask("terminate", g) }
func (o *operations) Stop(_ context.Context, g domain.Key) error      { return o.ask("stop", g) }

func (o *operations) Instantiate(ctx context.Context, g domain.Key) ([]string, error) {
	o.caller = caller.Of(ctx)
	return o.warnings, o.ask("instantiate", g)
}

func (o *operations) Update(_ context.Context, g domain.Key, _ service.UpdateOptions) (int, []string, error) {
	return 2, o.warnings, o.ask("update", g)
}

func (o *operations) Rollback(_ context.Context, g domain.Key, revision int) ([]string, error) {
	return o.warnings, o.ask(fmt.Sprintf("rollback to %d", revision), g)
}

func (o *operations) Migrate(_ context.Context, g domain.Key, version, target string) ([]string, error) {
	return o.warnings, o.ask("migrate to "+version+"/"+target, g)
}

func (o *operations) ContextStatus(context.Context, domain.Key, string) (domain.ContextStatus, error) {
	return o.status, nil
}

func (*operations) Awaits(context.Context, domain.Owner) error { return nil }

func (*operations) Repair(_ context.Context, owner domain.Owner) (domain.Owner, error) {
	return owner, nil
}

func (*operations) Planned(context.Context, string) (*plan.Bundle, error) { return nil, nil }

func (o *operations) User(_ context.Context, c domain.ClusterName) (domain.Key, bool, error) {
	return "projects/p/composite-apps/c/v1/deployment-intent-groups/holder", c.Name == "held", nil
}

func (o *operations) Tenant(_ context.Context, _ domain.Key, c domain.ClusterName) (domain.Key, bool, error) {
	return "projects/p/composite-apps/c/v1/deployment-intent-groups/tenant", o.tenants && c.Name == "c1", nil
}

func (o *operations) Within(context.Context, domain.Key) (domain.Key, bool, error) {
	return "", false, nil
}

func (*operations) Clusters(context.Context, domain.Key, func(domain.ClusterName) bool) ([]domain.ClusterName, error) {
	return nil, nil
}

func (o *operations) Left(context.Context, domain.Key) ([]string, error) { return o.left, nil }

func (o *operations) Forget(_ context.Context, owner domain.Key) (bool, error) {
	o.forgot = append(o.forgot, owner)
	return false, nil
}

// text is a document of a status query.
type text string

func (d text) Write(w io.Writer) error {
	_, err := io.WriteString(w, string(d))
	return err
}

// lines are what is logged. A stream writes its last line after its client has left.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// world is the API over a real database, and what stands in for the engine.
type world struct {
	router     *echo.Echo
	store      *store.Store
	service    *service.Service
	tenancy    *service.Matcher
	operations *operations
	statuses   *notifytest.Statuses
	hub        *notify.Hub
	ready      map[string]func(context.Context) error
	beside     map[string]func(context.Context) error
	log        *lines
	contexts   int       // made by put
	stored     time.Time // what the clock of the store says; the time there is when zero
	reached    []string  // kubeconfigs that were tried
	unreached  error     // why clusters cannot be reached
}

func (w *world) reach(_ context.Context, kubeconfig []byte) (version string, err error) {
	w.reached = append(w.reached, string(kubeconfig))
	return "v1.34.1", w.unreached
}

// see says of a cluster that some of the rights of a role are missing.
func (w *world) see(ctx context.Context, kubeconfig, role []byte) (*access.Seen, error) {
	version, err := w.reach(ctx, kubeconfig)
	s := &access.Seen{Version: version, Latency: 4 * time.Millisecond, Needed: strings.Count(string(role), "verbs:"), Lacks: []string{"delete apps/*"}}
	if strings.Contains(string(role), `"example.com"`) {
		s.Lacks = append(s.Lacks, "delete example.com/*")
	}
	if strings.Contains(string(role), "certificatesigningrequests/approval") {
		s.Lacks = append(s.Lacks, "update certificates.k8s.io/certificatesigningrequests/approval")
	}
	return s, err
}

// theInstallation is the id of the world's.
const theInstallation = "3f9a0c1b7d2e4f58"

var now = time.Date(2026, 11, 21, 5, 29, 7, 36e6, time.UTC)

func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldWith(t, nil)
}

// deps are what a world is made of.
type deps struct {
	api.Deps
	door.Parts
	lifecycle  service.Operations
	operations int         // at a time
	first      []door.Step // outermost at the door
	steps      []door.Step // innermost there
	trail      door.Trail  // of what is refused before it; nil for none

	podSecurity domain.PodSecurity // service.Deps'
}

// newWorldWith lets change put other parts in; it may be nil.
func newWorldWith(t testing.TB, change func(w *world, d *deps, instances *service.Instances)) *world {
	t.Helper()
	w := &world{operations: &operations{}, ready: map[string]func(context.Context) error{}, beside: map[string]func(context.Context) error{}, log: &lines{}}
	db := storetest.Open(t, store.Config{Now: func() time.Time {
		if !w.stored.IsZero() {
			return w.stored
		}
		return time.Now()
	}})
	w.store = db
	sealer, err := secret.Parse("test:" + strings.Repeat("A", 43) + "=")
	require.NoError(t, err)
	w.statuses = notifytest.New(1, 1, 2)
	w.hub, err = notify.New(notify.Of(w.statuses), notify.Options{Interval: time.Millisecond, Backlog: 5, Now: func() time.Time { return now }}, prometheus.NewRegistry())
	require.NoError(t, err)
	t.Cleanup(w.hub.Close)
	var instances service.Instances = w.operations
	log := slog.New(slog.NewTextHandler(w.log, nil))
	d := deps{
		Deps:      api.Deps{Installation: theInstallation, Ready: w.ready, Beside: w.beside, MaxBody: 1 << 20, Listen: "127.0.0.1:9015", KubeconfigDownload: true, Log: log},
		lifecycle: w.operations,
	}
	d.Parts = door.Parts{
		Streams: w.hub,
		Statuses: door.StatusFunc(func(ctx context.Context, group domain.Key, q url.Values) (door.Document, error) {
			if domain.OwnerNoun(group) == domain.LogicalClouds { // one of level 0 has no contexts to ask for
				d, err := service.NewLifecycle(db, db, nil, nil, time.Now).Status(ctx, group, q)
				if err != nil {
					return nil, err
				}
				return d, nil
			}
			return text(`{"name":"` + group.Name() + `","output":"` + q.Get("output") + `"}` + "\n"), w.operations.err
		}),
	}
	d.Audits = service.NewAudit(db, func(context.Context) error { return nil }, audit.Keys{Keys: []audit.PublicKey{{}}}, time.Now)
	if change != nil {
		change(w, &d, &instances)
	}
	w.tenancy = service.NewMatcher(db, nil, time.Now, "api")
	d.Tenancy = w.tenancy
	w.service = service.New(service.Deps{
		Matching: w.tenancy,
		Store:    db, Sealer: sealer, Instances: instances, Operations: d.lifecycle, Now: func() time.Time { return now },
		UserKubeconfig: func(_ context.Context, r *domain.ClusterReference) ([]byte, error) {
			return []byte("certificate: " + r.Spec.Certificate), nil
		},
		Checks: service.Checks{
			Chart:      func(_ context.Context, app string, tgz []byte) error { return render.CheckChart(app, tgz) },
			Profile:    func(_ context.Context, tgz []byte) ([]string, error) { return render.CheckProfile(tgz) },
			Kubeconfig: kube.Config{}.CheckKubeconfig, Reach: w.reach, See: w.see,
		},
		Renewing: db.Renewing, PodSecurity: d.podSecurity,
	})
	d.Commands, d.Documents = w.service, w.service
	d.Door = door.New(d.Parts, slices.Concat(d.first, []door.Step{door.Traced(log), door.Identified, door.NewRooms(d.operations).Slots, door.Timed}, d.steps)...)
	d.Door.Record(d.trail)
	if d.Prove == nil {
		d.Prove = authn.Off
	}
	w.router, err = api.New(d.Deps)
	require.NoError(t, err)
	return w
}

// paths of what furnish makes.
const (
	theProvider            = "/v2/cluster-providers/p1"
	theCluster             = theProvider + "/clusters/c1"
	theAccount             = "/v2/service-accounts/ci"
	theProject             = "/v2/projects/proj"
	theCloud               = theProject + "/logical-clouds/lc"
	theComposite           = theProject + "/composite-apps/ca/v1"
	theProfile             = theComposite + "/composite-profiles/cp"
	theGroup               = theComposite + "/deployment-intent-groups/dig"
	thePlacement           = theGroup + "/generic-placement-intents/gpi"
	theNetControllerIntent = theGroup + "/network-controller-intent/ovn"
	theWorkloadIntent      = theNetControllerIntent + "/workload-intents/w"
	theTrafficGroup        = theGroup + "/traffic-group-intents/traffic"
	theInbound             = theTrafficGroup + "/inbound-intents/in"
	theClients             = theInbound + "/clients/client"
	theHPAIntent           = theGroup + "/hpa-intents/hpa"
	theHPAConsumer         = theHPAIntent + "/hpa-resource-consumers/c"
	theGenericIntent       = theGroup + "/generic-k8s-intents/gac"
	theGenericResource     = theGenericIntent + "/resources/r"
	theTenant              = "/v2/tenants/t1"
)

const groupBody = `{"metadata":{"name":"dig"},"spec":{"compositeProfile":"cp","version":"r1","logicalCloud":"lc","overrideValues":[{"app":"sink","values":{"k":"v"}}]}}`

// furnish makes one of everything, in the order of EMCO's examples.
func furnish(t testing.TB, w *world) {
	t.Helper()
	for _, c := range []call{
		{url: "/v2/controllers", body: `{"metadata":{"name":"rsync"},"spec":{"host":"rsync","port":9031}}`},
		{url: "/v2/status-collectors", body: `{"metadata":{"name":"phases"},"spec":{"groupBy":[{"name":"phase","def":"returned.status.phase"}],"combinedFields":[{"name":"count","type":"COUNT"}]}}`},
		{url: "/v2/cluster-providers", body: `{"metadata":{"name":"p1"}}`},
		{url: theProvider + "/clusters", body: `{"metadata":{"name":"c1"}}`, file: []byte(kubeconfig)},
		{url: theCluster + "/labels", body: `{"clusterLabel":"edge"}`},
		{url: theCluster + "/kv-pairs", body: `{"metadata":{"name":"kv"},"spec":{"kv":[{"a":"b"},{"c.d":"$e"}]}}`},
		{url: "/v2/projects", body: `{"metadata":{"name":"proj"}}`},
		{url: theProject + "/logical-clouds", body: `{"metadata":{"name":"lc"},"spec":{"level":"0"}}`},
		{url: theCloud + "/cluster-references", body: `{"metadata":{"name":"ref"},"spec":{"clusterProvider":"p1","cluster":"c1","loadbalancerIp":"0.0.0.0"}}`},
		{url: theProject + "/logical-clouds", body: `{"metadata":{"name":"standard"}}`},
		{url: theCloud + "/instantiate", status: 202},
		{url: theProject + "/composite-apps", body: `{"metadata":{"name":"ca"},"spec":{"compositeAppVersion":"v1"}}`},
		{url: theComposite + "/apps", body: `{"metadata":{"name":"sink"}}`, file: chartOf(t, "sink")},
		{url: theComposite + "/apps", body: `{"metadata":{"name":"web"}}`, file: chartOf(t, "web")},
		{url: theComposite + "/composite-profiles", body: `{"metadata":{"name":"cp"}}`},
		{url: theProfile + "/profiles", body: `{"metadata":{"name":"sinkp"},"spec":{"app":"sink"}}`, file: profileOf(t)},
		{url: "/v2/tenants", body: `{"metadata":{"name":"t1"},"spec":{"cluster":"p1+c1"}}`},
		{url: theTenant + "/hosts", body: `{"metadata":{"name":"host-a"},"spec":{"nodes":["dpu1"]}}`},
		{url: "/v2/service-accounts", body: `{"metadata":{"name":"ci"}}`},
		{url: theAccount + "/tokens", body: `{"metadata":{"name":"first"}}`},
	} {
		post(t, w, c)
	}
	furnishGroup(t, w, "dig")
}

// furnishGroup makes a group with all that hangs below it, in a world that is furnished with what it needs.
func furnishGroup(t testing.TB, w *world, name string) {
	t.Helper()
	for _, c := range []call{
		{url: theComposite + "/deployment-intent-groups", body: groupBody},
		{url: theGroup + "/intents", body: `{"metadata":{"name":"intent"},"spec":{"intent":{"genericPlacementIntent":"gpi"}}}`},
		{url: theGroup + "/generic-placement-intents", body: `{"metadata":{"name":"gpi"}}`},
		{url: thePlacement + "/app-intents", body: `{"metadata":{"name":"ai"},"spec":{"app":"sink","intent":{"allOf":[{"clusterProvider":"p1","cluster":"c1"}]}}}`},
		{url: theGroup + "/network-controller-intent", body: `{"metadata":{"name":"ovn"}}`},
		{url: theNetControllerIntent + "/workload-intents", body: `{"metadata":{"name":"w"},"spec":{"app":"web","workloadResource":"r1-web","type":"Deployment"}}`},
		{url: theGroup + "/generic-k8s-intents", body: `{"metadata":{"name":"gac"}}`},
		{url: theGenericIntent + "/resources", body: resourceBody("r", "true", "ConfigMap"), file: []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: cm}}")},
		{url: theGenericResource + "/customizations", body: customizationBody("c", ""), file: []byte{}},
		{url: theWorkloadIntent + "/interfaces", body: `{"metadata":{"name":"if"},"spec":{"interface":"eth1","name":"net-a"}}`},
		{url: theGroup + "/traffic-group-intents", body: `{"metadata":{"name":"traffic"}}`},
		{url: theTrafficGroup + "/inbound-intents", body: `{"metadata":{"name":"in"},"spec":{"app":"web","appLabel":"app=web","serviceName":"web","port":80,"protocol":"TCP"}}`},
		{url: theInbound + "/clients", body: `{"metadata":{"name":"client"},"spec":{"app":"sink","appLabel":"app=sink","serviceName":"sink","namespaces":[],"cidrs":[]}}`},
		{url: theClients + "/access-points", body: `{"metadata":{"name":"get"},"spec":{"action":"ALLOW","url":["/status/*"],"access":["GET"]}}`},
		{url: theGroup + "/hpa-intents", body: `{"metadata":{"name":"hpa"},"spec":{"app":"web"}}`},
		{url: theHPAIntent + "/hpa-resource-consumers", body: `{"metadata":{"name":"c"},"spec":{"name":"r1-web","container":"web"}}`},
		{url: theHPAConsumer + "/resource-requirements", body: `{"metadata":{"name":"cpu"},"spec":{"allocatable":true,"resource":{"name":"cpu","requests":4}}}`},
	} {
		c.url, c.body = strings.Replace(c.url, "/dig", "/"+name, 1), strings.Replace(c.body, `"dig"`, `"`+name+`"`, 1)
		post(t, w, c)
	}
}

// resourceBody is a generic resource of the app web.
func resourceBody(name, isNew, kind string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"app":"web","newObject":%q,"resourceGVK":{"apiVersion":"v1","kind":%q,"name":"cm"}}}`, name, isNew, kind)
}

// customizationBody is a customization for all clusters, with more members of its spec.
func customizationBody(name, more string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"clusterSpecific":"false","clusterInfo":{"scope":"label","clusterProvider":"p1","cluster":"","clusterLabel":"edge","mode":"allow"}%s}}`, name, more)
}

// post sends what is to be made, which answers 201 unless the call says otherwise.
func post(t testing.TB, w *world, c call) {
	t.Helper()
	if c.method = http.MethodPost; c.status == 0 {
		c.status = http.StatusCreated
	}
	answer := do(t, w.router, c)
	require.Equal(t, c.status, answer.Code, "%s: %s", c.url, answer.Body)
}
