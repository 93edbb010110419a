package api_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/mongotest"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/trail"
)

// TestUnanswered: what was begun by a process that has died meanwhile is found, and what is no record any more is shown as that.
func TestUnanswered(t *testing.T) {
	w, records := newAuditedWorld(t)
	dead := audit.NewChain("dead")
	for _, r := range []audit.Record{
		{Event: audit.Begun, Verb: "put", Key: "projects/a"}, {Event: audit.Answered, Begun: 1, Verb: "put", Key: "projects/a", Result: audit.Done},
		{Event: audit.Begun, Verb: "delete", Key: "projects/a"},
	} {
		line, _, err := dead.Add(r, time.Now(), nil)
		require.NoError(t, err)
		_, err = records.PutAudit(t.Context(), []audit.Line{line})
		require.NoError(t, err)
	}
	require.Equal(t, []string{"begun delete projects/a "}, told(audited(t, w, "/v2/audit?event=unanswered")))
	require.Empty(t, audited(t, w, "/v2/audit?event=unanswered&verb=put").Items)
	changed := audit.Line{ID: audit.Place(time.Now()) + "/dead/000000000004", Text: []byte(`{"writer":"dead"}`)}
	_, err := records.PutAudit(t.Context(), []audit.Line{changed})
	require.NoError(t, err)
	require.Equal(t, []string{"unreadable  " + changed.ID + " "}, told(audited(t, w, "/v2/audit?event=unreadable")))
}

// TestUnansweredInPages: however small a page is, what has an answer is in none, also when the answer came after what is asked for.
func TestUnansweredInPages(t *testing.T) {
	w, records := newAuditedWorld(t)
	chain, at := audit.NewChain("busy"), time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	write := func(r audit.Record, second int) {
		r.Verb = "put"
		line, _, err := chain.Add(r, at.Add(time.Duration(second)*time.Second), nil)
		require.NoError(t, err)
		_, err = records.PutAudit(t.Context(), []audit.Line{line})
		require.NoError(t, err)
	}
	const n = 12
	var want []string
	for i := range n {
		key := fmt.Sprintf("projects/p%02d", i)
		write(audit.Record{Event: audit.Begun, Key: key}, i)
		if i%3 != 0 {
			want = append(want, "begun put "+key+" ")
		}
	}
	for i := range n {
		if i%3 == 0 {
			write(audit.Record{Event: audit.Answered, Begun: int64(i + 1), Result: audit.Done}, n+i)
		}
	}
	var got []string
	for query := "&limit=3"; query != ""; {
		list := audited(t, w, "/v2/audit?event=unanswered"+query)
		require.LessOrEqual(t, len(list.Items), 3)
		got = append(told(list), got...)
		if query = ""; list.Continue != "" {
			query = "&limit=3&continue=" + list.Continue
		}
	}
	require.Equal(t, want, got)
	page, plain := audited(t, w, "/v2/audit?event=unanswered&limit=3").Continue, audited(t, w, "/v2/audit?limit=3").Continue
	for _, query := range []string{"event=unanswered&continue=" + plain, "continue=" + page} { // what was answered would be in the one
		answer := do(t, w.router, call{method: "GET", url: "/v2/audit?" + query})
		require.Equal(t, http.StatusBadRequest, answer.Code)
		require.Contains(t, answer.Body.String(), "is of another list")
	}
	to := url.QueryEscape(at.Add(n * time.Second).Format(time.RFC3339))
	require.Equal(t, want, told(audited(t, w, "/v2/audit?event=unanswered&limit=1000&to="+to)))
}

// auditStore is the store, which can be away for audit records alone, and counts those that are read.
type auditStore struct {
	*store.Store
	down atomic.Bool
	read atomic.Int64
}

func (s *auditStore) AuditLines(ctx context.Context, from, to string, backwards bool, take func(audit.Line) (bool, error)) error {
	return s.Store.AuditLines(ctx, from, to, backwards, func(l audit.Line) (bool, error) {
		s.read.Add(1)
		return take(l)
	})
}

func (s *auditStore) PutAudit(ctx context.Context, lines []audit.Line) (int, error) {
	if s.down.Load() {
		return 0, fail.New(fail.Unavailable, "the database cannot be reached")
	}
	return s.Store.PutAudit(ctx, lines)
}

// newAuditedWorld is a world whose requests are recorded. Nobody may delete controllers, and what is called secret is hidden.
func newAuditedWorld(t *testing.T, change ...func(*deps)) (w *world, records *auditStore) {
	records = &auditStore{}
	key := audit.NewKey(bytes.Repeat([]byte{3}, 32))
	var tr *trail.Trail
	w = newWorldWith(t, func(w *world, d *deps, _ *service.Instances) {
		records.Store = w.store
		tr = trail.New(trail.Config{
			Store: records, Process: "api", Key: key, Keys: map[string]ed25519.PublicKey{key.Stated().Key: key.Public()},
			Secret: []byte("secret"), Log: slog.New(slog.DiscardHandler), Now: time.Now,
			Wait: mongotest.Timeout,
		})
		d.trail = tr
		d.Audits = service.NewAudit(records, tr.Seal, audit.Keys{Keys: []audit.PublicKey{key.Stated()}}, time.Now)
		outer, inner := door.Audited(tr)
		d.steps = []door.Step{outer, func(ctx context.Context, r *door.Request, next door.Next) error {
			switch {
			case r.Noun == domain.Controllers && r.Verb == door.Delete:
				return fail.New(fail.Forbidden, "may not")
			case r.Name == "hidden":
				return fail.New(fail.NotFound, "not found")
			}
			return next(ctx)
		}, inner}
		for _, c := range change {
			c(d)
		}
	})
	require.NoError(t, tr.Begin(t.Context()))
	t.Cleanup(func() { require.NoError(t, tr.Close(context.WithoutCancel(t.Context()))) })
	return w, records
}

// audited is a page of records.
func audited(t *testing.T, w *world, query string) service.AuditList {
	t.Helper()
	answer := do(t, w.router, call{method: "GET", url: query})
	require.Equal(t, http.StatusOK, answer.Code, "%s: %s", query, answer.Body)
	var list service.AuditList
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &list))
	return list
}

// told are the events of records, the oldest first.
func told(list service.AuditList) (told []string) {
	for _, r := range list.Items {
		told = append([]string{fmt.Sprintf("%s %s %s %s", r.Event, r.Verb, r.Key, r.Result)}, told...)
	}
	return told
}

// TestADownloadIsAudited: what is handed out lets in elsewhere. Who takes the document alone takes no credential.
func TestADownloadIsAudited(t *testing.T) {
	w, _ := newAuditedWorld(t)
	furnish(t, w)
	before := len(audited(t, w, "/v2/audit?limit=1000").Items)
	for _, accept := range []string{"application/json", "application/octet-stream", "multipart/form-data"} {
		require.Equal(t, 200, do(t, w.router, call{method: "GET", url: theCluster, header: map[string]string{"Accept": accept}}).Code, accept)
	}
	require.Equal(t, 200, do(t, w.router, call{method: "GET", url: theComposite + "/apps/sink", header: map[string]string{"Accept": "application/octet-stream"}}).Code)
	require.Equal(t, 404, do(t, w.router, call{method: "GET", url: theCloud + "/cluster-references/none/kubeconfig"}).Code)
	const key = "download cluster-providers/p1/clusters/c1 "
	const none = "download projects/proj/logical-clouds/lc/cluster-references/none "
	require.Equal(t, []string{"begun " + key, "answered " + key + "done", "begun " + key, "answered " + key + "done", "begun " + none, "answered " + none + "NotFound"},
		told(audited(t, w, "/v2/audit?limit=1000"))[before:])
}

// TestHEADOfAnExportReadsOneRecord: else who probes is answered when all are read, most of all where a filter lets none pass.
func TestHEADOfAnExportReadsOneRecord(t *testing.T) {
	w, records := newAuditedWorld(t)
	for i := range 3 {
		do(t, w.router, call{method: "POST", url: "/v2/projects", body: fmt.Sprintf(`{"metadata":{"name":"p%d"}}`, i)})
	}
	export := call{method: "GET", header: map[string]string{"Accept": "application/x-ndjson"}}
	for _, query := range []string{"/v2/audit", "/v2/audit?who=nobody", "/v2/projects/p0/audit?outcome=done&from=1h"} {
		export.method, export.url = "GET", query
		records.read.Store(0)
		got := do(t, w.router, export)
		require.Greater(t, records.read.Load(), int64(5), query)
		records.read.Store(0)
		export.method = "HEAD"
		head := do(t, w.router, export)
		require.Equal(t, http.StatusOK, head.Code, query)
		require.Equal(t, got.Header().Get("Content-Type"), head.Header().Get("Content-Type"), query)
		require.Empty(t, head.Body.String(), query)
		require.Equal(t, int64(1), records.read.Load(), query)
	}
	for _, query := range []string{"limit=1", "continue=x", "from=yesterday"} {
		export.url = "/v2/audit?" + query
		require.Equal(t, http.StatusBadRequest, do(t, w.router, export).Code, query)
	}
}

func TestCommandsAreAudited(t *testing.T) {
	w, _ := newAuditedWorld(t)
	const marked = "a-word-that-is-content"
	for _, c := range []struct {
		call
		want int
	}{
		{call{method: "POST", url: "/v2/projects", body: `{"metadata":{"name":"p","description":"` + marked + `"}}`}, 201},
		{call{method: "POST", url: "/v2/projects", body: `{"metadata":{"name":"p"}}`}, 409},
		{call{method: "PUT", url: "/v2/projects/p", body: `{"metadata":{"name":"p","description":"another"}}`}, 200},
		{call{method: "POST", url: "/v2/projects/p/composite-apps", body: `{"metadata":{"name":"ca"},"spec":{"compositeAppVersion":"v1"}}`}, 201},
		{call{method: "GET", url: "/v2/projects/p"}, 200},
		{call{method: "GET", url: "/v2/projects/nobody"}, 404},
		{call{method: "GET", url: "/v2/projects/hidden"}, 404},
		{call{method: "DELETE", url: "/v2/controllers/rsync"}, 403},
		{call{method: "POST", url: "/v2/projects", body: `{"metadata":`}, 422},
		{call{method: "DELETE", url: "/v2/projects/p/composite-apps/ca/v1"}, 204},
		{call{method: "DELETE", url: "/v2/projects/p"}, 204},
	} {
		require.Equal(t, c.want, do(t, w.router, c.call).Code, "%s %s", c.method, c.url)
	}
	all := audited(t, w, "/v2/audit?limit=1000")
	require.Empty(t, all.Continue)
	require.Equal(t, []string{
		"checkpoint   ",
		"begun create projects/p ", "answered create projects/p done",
		"begun create projects/p ", "answered create projects/p Conflict",
		"begun put projects/p ", "answered put projects/p done",
		"begun create projects/p/composite-apps/ca/v1 ", "answered create projects/p/composite-apps/ca/v1 done",
		"answered get projects/hidden NotFound",
		"answered delete controllers/rsync Forbidden",
		"begun create  ", "answered create  Malformed",
		"begun delete projects/p/composite-apps/ca/v1 ", "answered delete projects/p/composite-apps/ca/v1 done",
		"begun delete projects/p ", "answered delete projects/p done",
	}, told(all))
	byKey := audited(t, w, "/v2/audit?resource=projects/p&event=answered&outcome=done&noun=projects").Items
	require.Len(t, byKey, 3)
	deleted, replaced, created := byKey[0], byKey[1], byKey[2]
	require.Empty(t, created.Before)
	require.Equal(t, created.After, replaced.Before, "what is after one write is before the next one")
	require.Equal(t, replaced.After, deleted.Before)
	require.NotEqual(t, replaced.Before, replaced.After)
	require.Empty(t, deleted.After)
	require.NotEmpty(t, created.Request)
	require.NotEmpty(t, created.From)
	require.Equal(t, "open", created.Who.Kind, "nobody is asked who they are")

	require.Equal(t, []string{"answered create projects/p/composite-apps/ca/v1 done"}, told(audited(t, w, "/v2/projects/p/audit?verb=create&event=answered&noun=composite-apps")))
	require.Len(t, audited(t, w, "/v2/projects/p/audit?outcome=done").Items, 5)
	require.Equal(t, audited(t, w, "/v2/projects/p/audit"), audited(t, w, "/v2/audit?project=p"))
	require.Empty(t, audited(t, w, "/v2/projects/other/audit").Items)
	require.Empty(t, audited(t, w, "/v2/audit?to=1h").Items)
	require.Empty(t, audited(t, w, "/v2/audit?event=unanswered").Items)
	require.Len(t, audited(t, w, "/v2/audit?from=1h").Items, len(all.Items))
	require.Len(t, audited(t, w, "/v2/audit?who=open&outcome=Forbidden").Items, 1)

	var pages service.AuditList
	for next := ""; ; {
		page := audited(t, w, "/v2/audit?limit=3&continue="+url.QueryEscape(next))
		require.LessOrEqual(t, len(page.Items), 3)
		pages.Items = append(pages.Items, page.Items...)
		if next = page.Continue; next == "" {
			break
		}
	}
	require.Equal(t, all.Items, pages.Items)

	keys, err := audit.ParseKeys(do(t, w.router, call{method: "GET", url: "/v2/audit/keys"}).Body.Bytes())
	require.NoError(t, err)
	export := do(t, w.router, call{method: "GET", url: "/v2/audit", header: map[string]string{"Accept": "application/x-ndjson"}})
	require.Equal(t, http.StatusOK, export.Code)
	require.Equal(t, "application/x-ndjson", export.Header().Get("Content-Type"))
	require.NotContains(t, export.Body.String(), marked)
	report, err := audit.Verify(strings.NewReader(export.Body.String()), audit.Options{Keys: keys})
	require.NoError(t, err)
	require.Empty(t, report.Problems)
	require.Empty(t, report.Tails, "an export is sealed to its end")
	require.Zero(t, report.Unknown)
	require.Equal(t, len(all.Items)+1, report.Records)
	some := do(t, w.router, call{method: "GET", url: "/v2/projects/p/audit?outcome=done", header: map[string]string{"Accept": "application/x-ndjson"}})
	require.Equal(t, 5, strings.Count(some.Body.String(), "\n"))
	require.Len(t, audited(t, w, "/v2/audit?limit=1000").Items, report.Records, "to read the log writes nothing but a seal")

	for query, want := range map[string]string{
		"from=yesterday": "from: ", "from=9999-12-31T23:59:59-01:00": "from: ", "to=0001-01-01T00:00:00%2B01:00": "to: ", "to=2h&from=1h": "to: is before from", "outcome=well": "outcome: ", "event=end": "event: ", "limit=0": "limit",
		"continue=!": "continue", "whom=me": "did you mean who?",
		"noun=app": `Invalid query noun: "app"; use `, "noun=": `Invalid query noun: ""; use `, "verb=Create": `Invalid query verb: "Create"; use approve, create`, "verb=use": "use approve, create",
	} {
		answer := do(t, w.router, call{method: "GET", url: "/v2/audit?" + query})
		require.Equal(t, http.StatusBadRequest, answer.Code, query)
		require.Contains(t, answer.Body.String(), want)
	}
	require.Equal(t, http.StatusBadRequest, do(t, w.router, call{method: "GET", url: "/v2/projects/p/audit?resource=projects/q"}).Code)
	require.Empty(t, audited(t, w, "/v2/audit?project=gone&noun=apps&verb=delete").Items, "the log outlives what it tells of")
	for _, method := range []string{"POST", "CALL"} {
		require.Empty(t, audited(t, w, "/v2/audit?verb="+method).Items, "of what is refused before the door")
	}
	require.Equal(t, http.StatusNotAcceptable, do(t, w.router, call{method: "GET", url: "/v2/audit", header: map[string]string{"Accept": "text/csv"}}).Code)
}

// TestRefusalsBeforeTheDoorAreAudited: a host that is not ours, a page of another site, a body of another type, and what cannot be asked
// for. Of too many at a time there is their number.
func TestRefusalsBeforeTheDoorAreAudited(t *testing.T) {
	w, _ := newAuditedWorld(t)
	rebound := func() {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v2/projects", nil)
		r.Host = "rebound.example"
		answer := httptest.NewRecorder()
		w.router.ServeHTTP(answer, r)
		require.Equal(t, http.StatusForbidden, answer.Code)
	}
	rebound()
	for _, c := range []struct {
		call
		want int
	}{
		{call{method: "POST", url: "/v2/projects", body: `{}`, header: map[string]string{"Origin": "https://evil.example"}}, 403},
		{call{method: "PUT", url: "/v2/projects/p", body: `<x/>`, header: map[string]string{"Content-Type": "text/xml"}}, 415},
		{call{method: "GET", url: "/v2/projects?nobody=knows"}, 400},
		{call{method: "GET", url: "/v2/nothing"}, 404},
		{call{method: "PATCH", url: "/v2/projects"}, 405},
	} {
		require.Equal(t, c.want, do(t, w.router, c.call).Code, "%s %s", c.method, c.url)
	}
	want := []string{
		"answered GET /v2/projects Forbidden", "answered POST /v2/projects Forbidden", "answered PUT /v2/projects/p Malformed", "answered GET /v2/projects Invalid",
	}
	list := audited(t, w, "/v2/audit?event=answered") // which waits for nothing that is still to be written
	for ctx := t.Context(); len(list.Items) < len(want) && ctx.Err() == nil; {
		list = audited(t, w, "/v2/audit?event=answered")
	}
	require.ElementsMatch(t, want, told(list))
	require.NotEmpty(t, list.Items[0].From)

	for range 40 {
		rebound()
	}
	require.Less(t, len(audited(t, w, "/v2/audit?event=answered&limit=1000").Items), len(want)+40, "nobody fills the log")
}

// TestBindingsThatGoAreAudited with their project, each by itself, with what the request had.
func TestBindingsThatGoAreAudited(t *testing.T) {
	w, _ := newAuditedWorld(t)
	require.Equal(t, 201, do(t, w.router, call{method: "POST", url: "/v2/projects", body: `{"metadata":{"name":"p"}}`}).Code)
	for _, name := range []string{"a", "b"} {
		body := `{"metadata":{"name":"` + name + `"},"spec":{"role":"viewer","subjects":[{"kind":"user","name":"alice"}]}}`
		require.Equal(t, 201, do(t, w.router, call{method: "POST", url: "/v2/projects/p/role-bindings", body: body}).Code)
	}
	require.Equal(t, 204, do(t, w.router, call{method: "DELETE", url: "/v2/projects/p"}).Code)
	list := audited(t, w, "/v2/projects/p/audit?verb=delete")
	require.Equal(t, []string{
		"begun delete projects/p ", "answered delete projects/p/role-bindings/a done", "answered delete projects/p/role-bindings/b done", "answered delete projects/p done",
	}, told(list))
	made := audited(t, w, "/v2/projects/p/audit?verb=create&noun=project-role-bindings&event=answered").Items
	require.Len(t, made, 2)
	require.Equal(t, made[0].After, list.Items[1].Before)
	require.Equal(t, list.Items[0].Request, list.Items[1].Request)
	require.Empty(t, audited(t, w, "/v2/audit?event=unanswered").Items)
}

// TestLabelsThatGoAreAudited with their cluster, each by itself, and the cluster's own record has what the cluster was.
func TestLabelsThatGoAreAudited(t *testing.T) {
	w, _ := newAuditedWorld(t)
	require.Equal(t, 201, do(t, w.router, call{method: "POST", url: "/v2/cluster-providers", body: `{"metadata":{"name":"site"}}`}).Code)
	const cluster = "/v2/cluster-providers/site/clusters"
	require.Equal(t, 201, do(t, w.router, call{method: "POST", url: cluster, body: `{"metadata":{"name":"edge01"}}`, file: []byte(kubeconfig)}).Code)
	for _, label := range []string{"a", "b"} {
		require.Equal(t, 201, do(t, w.router, call{method: "POST", url: cluster + "/edge01/labels", body: `{"clusterLabel":"` + label + `"}`}).Code)
	}
	require.Equal(t, 204, do(t, w.router, call{method: "DELETE", url: cluster + "/edge01?labels=true"}).Code)
	list := audited(t, w, "/v2/audit?verb=delete")
	const key = "cluster-providers/site/clusters/edge01"
	require.Equal(t, []string{
		"begun delete " + key + " ", "answered delete " + key + "/labels/a done", "answered delete " + key + "/labels/b done", "answered delete " + key + " done",
	}, told(list))
	made := audited(t, w, "/v2/audit?verb=create&event=answered&noun=clusters").Items
	require.Equal(t, made[0].After, list.Items[0].Before)
	made = audited(t, w, "/v2/audit?verb=create&event=answered&noun=cluster-labels").Items
	require.Equal(t, made[0].After, list.Items[1].Before)
	require.Equal(t, list.Items[0].Request, list.Items[1].Request)
}

// TestAllThatGoAreAudited each by itself, also before one that is refused, and that one, too: the record of the request names none of them.
func TestAllThatGoAreAudited(t *testing.T) {
	w, _ := newAuditedWorld(t)
	furnish(t, w)
	const intents, group = theGroup + "/hpa-intents", "projects/proj/composite-apps/ca/v1/deployment-intent-groups/dig"
	const key = group + "/hpa-intents"
	create := func(names ...string) {
		for _, name := range names {
			require.Equal(t, 201, do(t, w.router, call{method: "POST", url: intents, body: `{"metadata":{"name":"` + name + `"},"spec":{"app":"sink"}}`}).Code)
		}
	}
	for _, url := range []string{theHPAConsumer + "/resource-requirements", theHPAIntent + "/hpa-resource-consumers", intents} {
		require.Equal(t, 204, do(t, w.router, call{method: "DELETE", url: url}).Code)
	}
	cleared := len(audited(t, w, "/v2/audit?verb=delete&noun=hpa-intents").Items)
	create("a", "b", "c")
	require.Equal(t, 201, do(t, w.router, call{method: "POST", url: intents + "/b/hpa-resource-consumers", body: `{"metadata":{"name":"c"},"spec":{"name":"r1-sink","container":"sink"}}`}).Code)
	require.Equal(t, 409, do(t, w.router, call{method: "DELETE", url: intents}).Code)
	list := audited(t, w, "/v2/audit?verb=delete&noun=hpa-intents")
	require.Equal(t, []string{"begun delete " + group + " ", "answered delete " + key + "/a done", "answered delete " + key + "/b Conflict", "answered delete " + group + " Conflict"}, told(list)[cleared:])
	require.Equal(t, list.Items[0].Request, list.Items[1].Request)
	require.Empty(t, list.Items[1].Before, "it is there")
	require.Empty(t, list.Items[0].Before)

	require.Equal(t, 204, do(t, w.router, call{method: "DELETE", url: intents + "/b/hpa-resource-consumers"}).Code)
	create("a")
	require.Equal(t, 204, do(t, w.router, call{method: "DELETE", url: intents}).Code)
	list = audited(t, w, "/v2/audit?verb=delete&noun=hpa-intents")
	require.Equal(t, []string{
		"begun delete " + group + " ", "answered delete " + key + "/a done", "answered delete " + key + "/b done", "answered delete " + key + "/c done", "answered delete " + group + " done",
	}, told(list)[cleared+4:])
	require.Empty(t, list.Items[0].Before)
	made := audited(t, w, "/v2/audit?verb=create&event=answered&noun=hpa-intents").Items
	require.Equal(t, made[1].After, list.Items[1].Before, "of c")
	require.Equal(t, made[0].After, list.Items[3].Before, "of the new a")
}

// TestNothingIsChangedUnrecorded: while audit records cannot be stored a change is refused, and reading goes on. What could not be
// recorded of the refusals comes when the store is back.
func TestNothingIsChangedUnrecorded(t *testing.T) {
	w, records := newAuditedWorld(t)
	put := func(name string) int {
		return do(t, w.router, call{method: "PUT", url: "/v2/projects/" + name, body: `{"metadata":{"name":"` + name + `"}}`}).Code
	}
	require.Equal(t, 200, put("before"))
	records.down.Store(true)
	answer := do(t, w.router, call{method: "PUT", url: "/v2/projects/meanwhile", body: `{"metadata":{"name":"meanwhile"}}`})
	require.Equal(t, http.StatusServiceUnavailable, answer.Code)
	require.Contains(t, answer.Body.String(), "nothing was done")
	require.Equal(t, []string{"true", "2"}, []string{answer.Header().Get("Drover-Undone"), answer.Header().Get("Retry-After")})
	require.Equal(t, http.StatusServiceUnavailable, do(t, w.router, call{method: "DELETE", url: "/v2/projects/before"}).Code)
	require.Equal(t, http.StatusForbidden, do(t, w.router, call{method: "DELETE", url: "/v2/controllers/rsync"}).Code)
	require.Equal(t, 404, do(t, w.router, call{method: "GET", url: "/v2/projects/meanwhile"}).Code)
	require.Equal(t, 200, do(t, w.router, call{method: "GET", url: "/v2/projects/before"}).Code)
	records.down.Store(false)
	require.Equal(t, 200, put("after"))
	list := told(audited(t, w, "/v2/audit?event=answered"))
	require.ElementsMatch(t, []string{
		"answered put projects/before done", "answered put projects/meanwhile Unavailable", "answered delete projects/before Unavailable",
		"answered delete controllers/rsync Forbidden", "answered put projects/after done",
	}, list)
}
