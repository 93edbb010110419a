package api_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/service"
)

// asked are the operations of the OpenAPI document that a client has asked for.
type asked struct {
	patterns map[string]*regexp.Regexp // by operation: "GET /projects/{project}"
	found    map[string]bool
}

func (a *asked) note(r *http.Request) {
	for operation, pattern := range a.patterns {
		if pattern.MatchString(r.Method + " " + r.URL.EscapedPath()) {
			a.found[operation] = true
		}
	}
}

// newAsked reads the document.
func newAsked(t *testing.T, w *world) *asked {
	var document struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	answer := do(t, w.router, call{method: "GET", url: "/openapi.json"})
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &document))
	a := &asked{patterns: map[string]*regexp.Regexp{}, found: map[string]bool{}}
	names := regexp.MustCompile(`\\\{\w+\\\}`)
	for path, methods := range document.Paths {
		for method := range methods {
			operation := strings.ToUpper(method) + " " + path
			pattern := names.ReplaceAllString(regexp.QuoteMeta(strings.ToUpper(method)+" /v2"+path), `[^/]+`)
			a.patterns[operation] = regexp.MustCompile("^" + pattern + "$")
		}
	}
	require.Greater(t, len(a.patterns), 100)
	return a
}

// apiOf is the API of a world over a connection, and its client.
func apiOf(t *testing.T, w *world, note func(*http.Request)) *client.API {
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		note(r)
		w.router.ServeHTTP(out, r)
	}))
	t.Cleanup(server.Close)
	c := client.New(server.URL + "/v2")
	t.Cleanup(c.Close)
	return c.API()
}

// TestTheClientHasEveryOperation: what the OpenAPI document has the client has, and documents come back as they were sent.
func TestTheClientHasEveryOperation(t *testing.T) {
	w := newRealWorld(t)
	furnish(t, w)
	all := newAsked(t, w)
	api, ctx := apiOf(t, w, all.note), t.Context()

	rows := nouns(t)
	var made []domain.Key
	for _, n := range domain.Nouns {
		row, name := rows[n.Title], "made"
		body := strings.ReplaceAll(row.body, "NAME", name)
		if n == domain.Apps {
			name = "spare" // which a profile is for
			row.file = chartOf(t, name)
			body = strings.ReplaceAll(row.body, "NAME", name)
		}
		o := n.New()
		require.NoError(t, json.Unmarshal([]byte(body), o), n.Title)
		parent, _, _ := strings.Cut(strings.TrimPrefix(row.path, "/v2/")+"|", "/"+n.Collection+"|")
		if o.Base().Parent = domain.Key(parent); n.Parent == nil {
			o.Base().Parent = ""
		}
		var files []domain.Upload
		if n.Files {
			files, row.file = []domain.Upload{{Name: "file", Data: row.file}}, nil
		}
		_, err := api.Create(ctx, o, row.file, files...)
		require.NoError(t, err, n.Title)
		if secret, ok := o.(domain.Bearer); ok { // which is shown once
			_, status, _ := secret.Parts()
			require.NotEmpty(t, status.Token)
			status.Token, status.LastUsed = "", nil
		}
		key := domain.KeyOf(o)
		made = append(made, key)
		got, err := api.Get(ctx, n, key)
		require.NoError(t, err, n.Title)
		require.Equal(t, o, got, n.Title)
		list, err := api.List(ctx, n, o.Base().Parent)
		if n != domain.DeploymentIntents { // EMCO's list has no names
			require.NoError(t, err, n.Title)
			require.Contains(t, list, got, n.Title)
		}
		if row.put != 0 {
			_, err = api.Put(ctx, got, row.file, files...)
			require.NoError(t, err, n.Title)
		}
		if n.File {
			file, err := api.File(ctx, key)
			require.NoError(t, err, n.Title)
			if n.Files {
				row.file = files[0].Data
			}
			require.Equal(t, row.file, file, n.Title)
		}
	}

	composite := domain.Key(strings.TrimPrefix(theComposite, "/v2/"))
	bindings, err := api.Bindings(ctx, theGroupKey)
	require.NoError(t, err)
	require.Contains(t, bindings, map[string]string{"genericPlacementIntent": "gpi"})
	binding, err := api.Binding(ctx, theGroupKey, "intent")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"genericPlacementIntent": "gpi"}, binding)
	placement, err := api.PlacementOf(ctx, theGroupKey+"/generic-placement-intents/gpi", "sink")
	require.NoError(t, err)
	require.Equal(t, "sink", placement.App)
	profile, err := api.ProfileOf(ctx, composite+"/composite-profiles/cp", "sink")
	require.NoError(t, err)
	require.Equal(t, "sinkp", profile.Name)
	names, err := api.ClustersByLabel(ctx, "cluster-providers/p1", "edge")
	require.NoError(t, err)
	require.Equal(t, []string{"c1"}, names)
	labelled, err := api.ClustersWithLabels(ctx, "cluster-providers/p1")
	require.NoError(t, err)
	require.NotEmpty(t, labelled)
	value, err := api.Value(ctx, theClusterKey+"/kv-pairs/kv", "a")
	require.NoError(t, err)
	require.Equal(t, "b", value)

	for _, n := range domain.Owners {
		key := map[*domain.Noun]domain.Key{
			domain.DeploymentIntentGroups: theGroupKey, domain.LogicalClouds: theUsersKey, domain.ClustersNoun: theClusterKey,
		}[n]
		d, err := api.Status(ctx, key, url.Values{"output": {"all"}})
		require.NoError(t, err)
		require.True(t, strings.HasSuffix(d.Name, key.Name()), d.Name)
		require.Equal(t, domain.Created, d.States.State())
		x, err := api.Explain(ctx, key)
		require.NoError(t, err)
		require.Equal(t, key, x.Resource)
		for _, o := range n.Owner.Operations {
			var err error
			switch o.Operation {
			case domain.OpRollback:
				_, err = api.Rollback(ctx, key, 1)
			case domain.OpMigrate:
				_, err = api.Migrate(ctx, key, "v2", "other")
			default:
				_, err = api.Operate(ctx, key, o.Operation)
			}
			require.NotEqual(t, fail.Internal, fail.KindOf(errOr(err)), "%s of %s: %v", o.Operation, key, err)
		}
	}
	tables, err := api.CombinedStatus(ctx, theGroupKey, nil)
	require.NoError(t, err)
	require.Equal(t, "CombinedStatusList", tables.Kind)
	objects, err := api.Objects(ctx, theGroupKey, url.Values{"app": {"sink"}})
	require.NoError(t, err)
	require.Equal(t, "List", objects.Kind)
	_, err = api.QueryTables(ctx, theGroupKey, &service.TableQuery{})
	require.True(t, fail.Is(err, fail.Invalid), "%v", err)
	here, err := api.Cluster(ctx, theClusterKey)
	require.NoError(t, err)
	require.Equal(t, "p1+c1", here.Name)
	_, err = api.UserKubeconfig(ctx, "projects/proj/logical-clouds/standard/cluster-references/none")
	require.True(t, fail.Is(err, fail.NotFound), "%v", err)

	operation := first(t, api.Operations(ctx, nil))
	require.Equal(t, theGroupKey, operation.Resource)
	again, err := api.Operation(ctx, operation.ID)
	require.NoError(t, err)
	require.Equal(t, operation.ID, again.ID)
	for _, below := range []domain.Key{"", "projects/proj", composite} {
		require.NotEmpty(t, first(t, api.Groups(ctx, below)).Resource)
	}
	require.NotEmpty(t, first(t, api.Clusters(ctx, "cluster-providers/p1")).Name)
	require.NotEmpty(t, first(t, api.Clusters(ctx, "")).Name)

	for _, project := range []domain.Key{"", "projects/proj"} {
		for range api.AuditRecords(ctx, project, nil) {
			t.Fatal("nothing was recorded")
		}
	}
	signs, err := api.AuditKeys(ctx)
	require.NoError(t, err)
	require.Len(t, signs.Keys, 1)

	who, err := api.Whoami(ctx, nil)
	require.NoError(t, err)
	require.NotEmpty(t, who.Kind)

	checked, err := api.CheckCluster(ctx, theClusterKey, service.Needs{Groups: []string{"example.com"}})
	require.NoError(t, err)
	require.Contains(t, checked.Rights.Missing, "delete example.com/*")
	preview, err := api.PreviewGroup(ctx, theGroupKey)
	require.NoError(t, err)
	require.Len(t, preview.Apps, 1)
	diff, err := api.Diff(ctx, theGroupKey, nil)
	require.NoError(t, err)
	require.Len(t, diff.Items, 1)

	tenant := domain.TenantKey("t1")
	_, err = w.store.BeginStream(ctx, "t1", "api")
	require.NoError(t, err)
	_, err = w.store.WriteWorkloads(ctx, "t1", &domain.WorkloadWrite{Put: []*domain.Workload{{Tenant: "t1", ID: "a/b", ResourceName: "pod"}}})
	require.NoError(t, err)
	stands, err := api.TenantStatus(ctx, tenant)
	require.NoError(t, err)
	require.Equal(t, 1, stands.Workloads)
	require.NoError(t, api.Release(ctx, tenant))
	require.Equal(t, "a/b", first(t, api.Workloads(ctx, tenant, url.Values{"name": {"pod"}})).ID)
	one, err := api.Workload(ctx, tenant, "a/b")
	require.NoError(t, err)
	require.Equal(t, "pod", one.ResourceName)
	for _, rule := range []domain.Object{&domain.WorkloadRule{Identity: domain.Identity{Parent: tenant}}, &domain.OperatorRule{}} {
		_, err = api.Preview(ctx, rule, nil)
		require.True(t, fail.Is(err, fail.Invalid), "%v", err)
	}
	why, err := api.Explain(ctx, tenant)
	require.NoError(t, err)
	require.Equal(t, "tenant", why.Title)
	why, err = api.ExplainWorkload(ctx, tenant, "a/b", "")
	require.NoError(t, err)
	require.Equal(t, "tenants/t1/workloads/a%2Fb", string(why.Resource))
	for _, rule := range []domain.Key{tenant + "/workload-rules/made", "workload-rules/made"} {
		why, err = api.ExplainRule(ctx, rule, "a/b")
		require.NoError(t, err)
		require.Equal(t, "a/b", why.Judged[0].Workload)
	}
	for _, of := range []domain.Key{tenant, tenant + "/workload-rules/r1", "workload-rules/o1"} {
		for _, err := range api.Matches(ctx, of, nil) {
			require.NotEqual(t, fail.Internal, fail.KindOf(errOr(err)), "%s: %v", of, err)
		}
	}

	for _, key := range slices.Backward(made) {
		if err := api.Delete(ctx, key); err != nil {
			require.True(t, fail.Is(err, fail.Conflict), "%s: %v", key, err)
		}
	}
	for _, below := range []struct {
		noun   *domain.Noun
		parent domain.Key
	}{
		{domain.HPAResources, theGroupKey + "/hpa-intents/hpa/hpa-resource-consumers/c"}, {domain.HPAConsumers, theGroupKey + "/hpa-intents/hpa"},
		{domain.HPAIntents, theGroupKey},
	} {
		require.NoError(t, api.DeleteAll(ctx, below.noun, below.parent))
		left, err := api.List(ctx, below.noun, below.parent)
		require.NoError(t, err)
		require.Empty(t, left)
	}
	for operation := range all.patterns {
		require.True(t, all.found[operation], "the client does not have %s", operation)
	}
}

func errOr(err error) error { return cmp.Or(err, error(fail.New(fail.Invalid, "none"))) }

// first is the first of a sequence.
func first[T any](t *testing.T, all iter.Seq2[T, error]) T {
	t.Helper()
	for one, err := range all {
		require.NoError(t, err)
		return one
	}
	t.Fatal("there is none")
	panic("unreachable")
}

// TestErrorsComeBackAsTheyWere: kind, message, fields and delay of an error are the same on both sides.
func TestErrorsComeBackAsTheyWere(t *testing.T) {
	var said error
	w := newWorldWith(t, func(_ *world, d *deps, _ *service.Instances) {
		d.steps = []door.Step{func(context.Context, *door.Request, door.Next) error { return said }}
	})
	api := apiOf(t, w, func(*http.Request) {})
	for _, want := range []*fail.Error{
		{Kind: fail.Invalid, Message: "wrong", Fields: []fail.Field{{Path: "spec.a", Message: "is\nbad"}, {Path: "spec.b", Message: "too"}}},
		{Kind: fail.Invalid, Fields: []fail.Field{{Path: "metadata.name", Message: "is required"}}},
		{Kind: fail.Malformed, Message: "unreadable"}, {Kind: fail.Unauthorized, Message: "who?"}, {Kind: fail.Forbidden, Message: "no\nreally"},
		{Kind: fail.NotFound, Message: "gone"}, {Kind: fail.Conflict, Message: "taken"}, {Kind: fail.Precondition, Message: "if"},
		{Kind: fail.Unavailable, Message: "later", RetryAfter: 2 * time.Second}, {Kind: fail.Timeout, Message: "late"},
	} {
		said = want
		_, err := api.Get(t.Context(), domain.Projects, "projects/p")
		var got *fail.Error
		require.ErrorAs(t, err, &got)
		require.Equal(t, want, got)
		var answer *client.Error
		require.ErrorAs(t, err, &answer)
		require.NotEmpty(t, answer.RequestID)
		answers := 0
		for _, err := range api.StreamStatus(t.Context(), theGroupKey, nil, "") {
			got = nil
			require.ErrorAs(t, err, &got)
			require.Equal(t, want, got, "a watch")
			answers++
		}
		require.Equal(t, 1, answers, "a watch ends with the error")
	}
	said = errors.New("a defect of which nobody is told")
	_, err := api.Get(t.Context(), domain.Projects, "projects/p")
	require.True(t, fail.Is(err, fail.Internal))
	require.NotContains(t, fmt.Sprint(err), "defect")
}

// TestNobodyAnswers: what has no answer has a kind too.
func TestNobodyAnswers(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	api := client.New(server.URL + "/v2").API()
	server.Close()
	_, err := api.Get(t.Context(), domain.Projects, "projects/p")
	require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = api.Get(ctx, domain.Projects, "projects/p")
	require.ErrorIs(t, err, context.Canceled)
	ctx, cancel = context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	_, err = api.Get(ctx, domain.Projects, "projects/p")
	require.True(t, fail.Is(err, fail.Timeout), "%v", err)
}

// TestPagesAreRead: a list of many pages is one sequence, which asks for no more pages than are looked at.
func TestPagesAreRead(t *testing.T) {
	w := newRealWorld(t)
	furnish(t, w)
	for i := range 250 {
		require.NoError(t, w.store.Create(t.Context(), &domain.Cluster{
			Identity: domain.Identity{Parent: "cluster-providers/p1"}, Metadata: domain.Metadata{Name: fmt.Sprintf("n%03d", i)},
		}))
	}
	pages := 0
	api := apiOf(t, w, func(*http.Request) { pages++ })
	var names []string
	for c, err := range api.Clusters(t.Context(), "cluster-providers/p1") {
		require.NoError(t, err)
		names = append(names, c.Name)
	}
	require.Len(t, names, 251)
	require.True(t, slices.IsSorted(names))
	require.Equal(t, 3, pages)
	pages = 0
	first(t, api.Clusters(t.Context(), "cluster-providers/p1"))
	require.Equal(t, 1, pages)
}

// TestStreamsEnd: a stream lasts as long as the loop over it, or its context.
func TestStreamsEnd(t *testing.T) {
	w := newWorld(t)
	api := apiOf(t, w, func(*http.Request) {})
	key := domain.Key("projects/fleet/composite-apps/collectd/v1/deployment-intent-groups/everywhere")
	event := first(t, api.StreamStatus(t.Context(), key, nil, ""))
	require.Equal(t, "status", event.Kind)
	require.True(t, event.Tells())
	told, err := event.Status()
	require.NoError(t, err)
	require.Equal(t, domain.ContextInstantiating, told.Status)
	event.Data = "{"
	_, err = event.Status()
	require.ErrorContains(t, err, "decode event")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range api.StreamStatus(ctx, key, nil, "") {
		last = err
		cancel()
	}
	require.ErrorIs(t, last, context.Canceled)
	require.NotContains(t, w.log.String(), "panic")
}

// TestClientTellsWhatIsLeftOut: who prunes or exports by a list must not take it for all there is.
func TestClientTellsWhatIsLeftOut(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Drover-Left-Out", "1")
		w.Header().Set("Warning", `299 - "projects/b cannot be read"`)
		_, _ = w.Write([]byte(`[{"metadata":{"name":"a"}}]`))
	}))
	defer server.Close()
	c := client.New(server.URL + "/v2")
	defer c.Close()
	list, err := c.API().List(t.Context(), domain.Projects, "")
	require.Len(t, list, 1)
	require.ErrorContains(t, err, "projects/b cannot be read")
}
