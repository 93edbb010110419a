package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/api"
	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/cli"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/notify"
	"github.com/drover-io/drover/internal/notify/notifytest"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/render"
	"github.com/drover-io/drover/internal/rights"
	"github.com/drover-io/drover/internal/secret"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/service/servicetest"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

func TestMain(m *testing.M) {
	render.Main()
	if os.Getenv(asCommand) != "" {
		os.Exit(cli.Main(context.Background(), cli.Options{Program: "drover", Args: os.Args[1:], In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv}))
	}
	os.Exit(kubetest.Main(m))
}

// asCommand has this program be the command, as a process that a test can kill.
const asCommand = "DROVER_TEST_COMMAND"

// world is the API over a real database, with an engine that takes every operation and never comes to its end, and a user with a
// config folder.
type world struct {
	t        testing.TB
	url      string
	env      map[string]string
	terminal bool
	requests atomic.Int64
	asks     func(*http.Request) // hears of each; nil for nobody
	db       *store.Store
	engine   *engine
	contexts atomic.Int64 // that stand has made
	// reaches says whether the API reaches a cluster, nil for any.
	reaches func(ctx context.Context, kubeconfig []byte) (version string, err error)
	apps    []string // of a difference, beside web
	// doubts are what a difference warns of.
	doubts []string
	// places says where a group would be put, nil for nowhere.
	places []plan.App
	// foresees says what becomes of texts of a ConfigMap by an operation, nil for nothing.
	foresees func(s domain.Scope, goal domain.Goal) (before, after string, err error)
}

func newWorld(t testing.TB) *world { return newWorldWith(t, authn.Off) }

func newWorldWith(t testing.TB, prove authn.Prover) *world {
	t.Helper()
	return newWorldWhere(t, prove, authn.Offers{Asked: true})
}

// newWorldWhere is one where people log in.
func newWorldWhere(t testing.TB, prove authn.Prover, offers authn.Offers) *world {
	t.Helper()
	return newWorldBound(t, prove, offers, nil)
}

// newWorldOf is one where callers are users by the names that they show as tokens, and may do what bindings say.
func newWorldOf(t testing.TB, roles []*domain.Role, bindings ...*domain.RoleBinding) *world {
	t.Helper()
	return newWorldBound(t, named, authn.Offers{Asked: true}, func(context.Context) (*rights.Book, error) { return rights.NewBook(roles, bindings), nil })
}

// named knows callers by the names that they show as tokens.
func named(_ context.Context, s *authn.Shown) (*authn.Proof, error) {
	if len(s.Authorization) == 0 {
		return nil, nil
	}
	return &authn.Proof{Identity: caller.Identity{Kind: caller.User, Name: strings.TrimPrefix(s.Authorization[0], "Bearer ")}}, nil
}

// newWorldBound is one where a book says what may be done, nil for everything.
func newWorldBound(t testing.TB, prove authn.Prover, offers authn.Offers, book func(context.Context) (*rights.Book, error)) *world {
	t.Helper()
	return newWorldFrom(t, storetest.Open(t, store.Config{}), prove, offers, book)
}

// newWorldOn is one with a store of a configuration.
func newWorldOn(t testing.TB, config store.Config) *world {
	t.Helper()
	return newWorldFrom(t, storetest.Open(t, config), authn.Off, authn.Offers{Asked: true}, nil)
}

// newWorldFrom is one with a store.
func newWorldFrom(t testing.TB, db *store.Store, prove authn.Prover, offers authn.Offers, book func(context.Context) (*rights.Book, error)) *world {
	t.Helper()
	sealer, err := secret.Parse("test:" + strings.Repeat("A", 43) + "=")
	require.NoError(t, err)
	hub, err := notify.New(notify.Of(notifytest.New(1, 1, 2)), notify.Options{Interval: time.Millisecond, Backlog: 5, Now: time.Now}, prometheus.NewRegistry())
	require.NoError(t, err)
	t.Cleanup(hub.Close)
	log := slog.New(slog.DiscardHandler)
	willing := servicetest.Willing{
		Warnings: []string{"mind the gap"}, Group: "projects/demo/composite-apps/vfw/v1/deployment-intent-groups/web", Now: time.Now,
	}
	w := &world{t: t, db: db, engine: &engine{Willing: willing}}
	lifecycle := service.NewLifecycle(db, db, servicetest.Deaf{}, w.engine, time.Now)
	lifecycle.Rehearse = func(_ context.Context, group *domain.DeploymentIntentGroup) (*plan.Plan, []string, error) {
		return &plan.Plan{Owner: domain.KeyOf(group), Apps: w.places}, nil, nil
	}
	lifecycle.Foresee = w.foresee
	tenancy := service.NewMatcher(db, nil, time.Now, "api")
	s := service.New(service.Deps{
		Matching: tenancy, Store: db, Sealer: sealer, Instances: lifecycle, Operations: lifecycle, Now: time.Now,
		UserKubeconfig: func(context.Context, *domain.ClusterReference) ([]byte, error) { return nil, nil },
		Checks: service.Checks{
			Chart:      func(_ context.Context, app string, tgz []byte) error { return render.CheckChart(app, tgz) },
			Profile:    func(_ context.Context, tgz []byte) ([]string, error) { return render.CheckProfile(tgz) },
			Kubeconfig: kube.Config{}.CheckKubeconfig,
			Reach: func(ctx context.Context, kubeconfig []byte) (string, error) {
				if w.reaches == nil {
					return "", nil
				}
				return w.reaches(ctx, kubeconfig)
			},
			See: kube.Config{}.See,
		},
		Renewing: db.Renewing,
	})
	parts := door.Parts{
		Audits:   service.NewAudit(db, func(context.Context) error { return nil }, audit.Keys{Keys: []audit.PublicKey{{}}}, time.Now),
		Commands: s, Documents: s, Previews: lifecycle, Streams: hub, Tenancy: tenancy,
		Explanations: service.NewExplainer(lifecycle, willing, explain.WebUI{}),
		Journal:      service.NewJournal(lifecycle, willing, explain.WebUI{}),
		Fleet:        service.NewFleet(lifecycle, db, nil), Tables: service.NewTables(lifecycle),
		Statuses: door.StatusFunc(func(ctx context.Context, owner domain.Key, q url.Values) (door.Document, error) {
			return lifecycle.Status(ctx, owner, q)
		}),
	}
	steps := []door.Step{door.Traced(log), door.Identified}
	if book != nil {
		steps = append(steps, door.NewRights(book, lease.Now).Authorised)
	}
	root, err := db.Root(t.Context())
	require.NoError(t, err)
	router, err := api.New(api.Deps{
		Door: door.New(parts, append(steps, door.Timed)...), Installation: root.ID(), Prove: prove, Login: api.Login{Offers: offers},
		Ready: map[string]func(context.Context) error{}, Listen: "127.0.0.1:9015", Log: log,
	})
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		w.requests.Add(1)
		if w.asks != nil {
			w.asks(r)
		}
		router.ServeHTTP(out, r)
	}))
	t.Cleanup(server.Close)
	w.url = server.URL
	w.env = map[string]string{"XDG_CONFIG_HOME": t.TempDir(), "DROVER_SERVER": server.URL}
	return w
}

// result is what a command has printed, and its exit code.
type result struct {
	out, err string
	code     int
}

// run runs a command.
func (w *world) run(args ...string) result { return w.feed("", args...) }

// feed runs a command with a standard input.
func (w *world) feed(stdin string, args ...string) result {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	var out, err bytes.Buffer
	code := w.start(ctx, strings.NewReader(stdin), &out, &err, args...)
	return result{w.neutral(out.String()), w.neutral(err.String()), code}
}

func (w *world) start(ctx context.Context, in io.Reader, out, err io.Writer, args ...string) int {
	return cli.Main(ctx, cli.Options{
		Program: "drover", Args: args, In: in, Out: out, Err: err, Terminal: w.terminal,
		Getenv: func(name string) string { return w.env[name] },
	})
}

// neutral has no addresses and folders of this run.
func (w *world) neutral(text string) string {
	text = strings.ReplaceAll(text, w.url, "http://API")
	if folder := w.env["XDG_CONFIG_HOME"]; folder != "" {
		text = strings.ReplaceAll(text, folder, "CONFIG")
	}
	return text
}

// done runs a command that must end well, and gives what it has printed.
func (w *world) done(args ...string) string {
	w.t.Helper()
	r := w.run(args...)
	require.Zero(w.t, r.code, "%v: %s%s", args, r.out, r.err)
	return r.out
}

// file writes a file of the user's.
func (w *world) file(name, text string) string {
	w.t.Helper()
	path := filepath.Join(w.env["XDG_CONFIG_HOME"], name)
	require.NoError(w.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(w.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// knows lets in who shows the token good, and may do nothing of whom shows another.
func knows(_ context.Context, s *authn.Shown) (*authn.Proof, error) {
	switch {
	case len(s.Authorization) == 0:
		return nil, nil
	case s.Authorization[0] != "Bearer good":
		return nil, fail.New(fail.Unauthorized, "the token is not known")
	}
	return &authn.Proof{Identity: caller.Identity{Kind: caller.User, Name: "alice"}}, nil
}

// engine is a willing one, unless does says what becomes of an operation.
type engine struct {
	servicetest.Willing
	does func(domain.Scope) (revision int, warnings []string, err error)
	// stops is called when an operation is to be stopped.
	stops func(domain.Scope)
}

func (*engine) StopWatching(context.Context, string) error { return nil }

func (e *engine) Stop(_ context.Context, s domain.Scope) error {
	if e.stops != nil {
		e.stops(s)
	}
	return nil
}

func (e *engine) Start(ctx context.Context, s domain.Scope, seen domain.Seen) ([]string, error) {
	if e.does == nil {
		return e.Willing.Start(ctx, s, seen)
	}
	_, warnings, err := e.does(s)
	return warnings, err
}

func (e *engine) Change(_ context.Context, s domain.Scope, _ domain.Seen, _ domain.Goal) (int, []string, error) {
	return e.does(s)
}

// foresee is the way from one text to another one, which an app web has on the clusters p+a and p+b; of what only one side has there is a
// Secret.
func (w *world) foresee(_ context.Context, s domain.Scope, goal domain.Goal) (*plan.Way, error) {
	before, after := "", ""
	var err error
	if w.foresees != nil {
		before, after, err = w.foresees(s, goal)
	}
	if err != nil {
		return nil, err
	}
	side := func(id, text, secret string) plan.Side {
		p, bundles := &plan.Plan{ContextID: id, Owner: s.Owner}, map[string]*plan.Bundle{}
		for _, name := range append([]string{"web"}, w.apps...) {
			b := &plan.Bundle{App: name}
			add := func(kind, name, data string) {
				r := plan.ResourceID{Version: "v1", Kind: kind, Name: name}
				manifest, _ := json.Marshal(map[string]any{"kind": kind, "apiVersion": "v1", "data": map[string]string{"text": data}})
				b.Resources = append(b.Resources, plan.Resource{ResourceID: r, Manifest: manifest})
			}
			add("ConfigMap", name, text)
			if text != "" {
				add("Secret", secret, text)
			}
			app := plan.App{Name: name}
			for _, r := range b.Resources {
				app.Resources = append(app.Resources, r.ResourceID)
			}
			for _, name := range []string{"a", "b"} {
				app.Targets = append(app.Targets, plan.Target{ClusterName: domain.ClusterName{Provider: "p", Name: name}})
			}
			p.Apps, bundles[name] = append(p.Apps, app), b
		}
		return plan.Side{Plan: p, Bundles: bundles}
	}
	from := side("1", before, "old").Done()
	return &plan.Way{Warnings: w.doubts, From: *from, Change: plan.Diff(*from, side("2", after, "new"), domain.OpUpdate)}, nil
}

// stand puts an owner where an operation has left it, in a context that it keeps.
func (w *world) stand(key domain.Key, state domain.State, status domain.ContextStatus, revision int) {
	w.t.Helper()
	ctx := w.t.Context()
	o, err := w.db.Get(ctx, domain.OwnerNoun(key), key)
	require.NoError(w.t, err)
	h := o.(domain.Owner).Track()
	id := h.ContextID()
	if id == "" || h.State() != state {
		id = or(id, fmt.Sprint(w.contexts.Add(1)))
		h.Append(state, id, revision, time.Now())
	}
	h.Actions[len(h.Actions)-1].Revision = revision
	require.NoError(w.t, w.db.Replace(ctx, o))
	made := plan.Plan{ContextID: id, Owner: key}
	if cloud, ok := o.(*domain.LogicalCloud); ok && !cloud.Admin() {
		references, err := w.db.List(ctx, domain.ClusterReferences, key)
		require.NoError(w.t, err)
		app := plan.App{Name: cloud.Name, Resources: []plan.ResourceID{{Version: "v1", Kind: "Namespace", Name: cloud.Name}}}
		for _, r := range references {
			app.Targets = append(app.Targets, plan.Target{ClusterName: r.(*domain.ClusterReference).ClusterName()})
		}
		made.Apps = append(made.Apps, app)
	}
	data, err := json.Marshal(made)
	require.NoError(w.t, err)
	digest, err := w.db.PutBlob(ctx, data)
	require.NoError(w.t, err)
	require.NoError(w.t, w.db.PutInstance(ctx, &domain.Instance{
		ContextID: id, Owner: key, Origin: domain.OpInstantiate, Operation: domain.OpInstantiate, Accepted: time.Now(), Plan: digest,
	}))
	require.NoError(w.t, w.db.UpdateInstance(ctx, id, func(i *domain.Instance) error {
		i.Status = status
		if made.Apps != nil { // as an update has it
			i.Plan = digest
		}
		return nil
	}))
}

// leaves records what an operation has left of an owner's app web on the cluster p+edge01: a mark for each of its resources.
func (w *world) leaves(key domain.Key, marks ...domain.Mark) {
	w.t.Helper()
	ctx := w.t.Context()
	owner, err := w.db.Get(ctx, domain.OwnerNoun(key), key)
	require.NoError(w.t, err)
	id, edge := owner.(domain.Owner).Track().ContextID(), domain.ClusterName{Provider: "p", Name: "edge01"}
	app := plan.App{Name: "web", Targets: []plan.Target{{ClusterName: edge}}}
	for i := range marks {
		app.Resources = append(app.Resources, plan.ResourceID{Version: "v1", Kind: "ConfigMap", Name: fmt.Sprintf("web-%d", i)})
	}
	data, err := json.Marshal(plan.Plan{ContextID: id, Owner: key, Apps: []plan.App{app}})
	require.NoError(w.t, err)
	digest, err := w.db.PutBlob(ctx, data)
	require.NoError(w.t, err)
	require.NoError(w.t, w.db.UpdateInstance(ctx, id, func(i *domain.Instance) error { i.Plan = digest; return nil }))
	require.NoError(w.t, w.db.PutLeaf(ctx, domain.Leaf{
		ID: domain.LeafID(id, "web", edge), ContextID: id, Operation: domain.OpInstantiate, App: "web", Cluster: edge, Marks: domain.Marks(marks).Encode(),
	}))
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// refuse answers as the API does when it refuses something: with the id of the request.
func refuse(out http.ResponseWriter, why string, code int) {
	out.Header().Set("X-Request-Id", "r")
	http.Error(out, why, code)
}
