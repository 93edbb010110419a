package test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/mongotest"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/test/harness"
)

// commanded is a command that an API is in the middle of when something happens to it.
type commanded struct {
	verb string
	key  domain.Key // that its records name
	// prepare makes it possible, by another API, and ready waits until what it has begun is over. Either may be nil.
	prepare, ready func()
	send           func(api *client.API) error
	state          func() string // of what it changes
	// ends is the operation whose end has a record in the project, and as what; "" for a command that begins none.
	ends    domain.Operation
	endedAs string
}

// audited is what the commands of this test are about.
type auditedWorld struct {
	t   *testing.T
	s   *harness.Stack
	ctx context.Context
	db  *store.Store
}

// track is the history of a group, as it is stored.
func (w *auditedWorld) track(key domain.Key) string {
	w.t.Helper()
	o, err := w.db.Get(w.ctx, domain.DeploymentIntentGroups, key)
	require.NoError(w.t, err)
	data, err := json.Marshal(o.(domain.Owner).Track())
	require.NoError(w.t, err)
	return string(data)
}

// document is what is stored under a key; "" for nothing.
func (w *auditedWorld) document(noun *domain.Noun, key domain.Key) string {
	w.t.Helper()
	o, err := w.db.Get(w.ctx, noun, key)
	if fail.Is(err, fail.NotFound) {
		return ""
	}
	require.NoError(w.t, err)
	data, err := json.Marshal(o)
	require.NoError(w.t, err)
	return string(data)
}

// commands are those that change something, in an order in which each is possible.
func (w *auditedWorld) commands() []commanded {
	t, ctx, s := w.t, w.ctx, w.s
	cluster := harness.NewCluster(t, harness.ClusterNames[0])
	d := s.Deployment(ctx, []*harness.Cluster{cluster}, client.App{Name: "web", Chart: says(t, "web", "a=1")})
	do(ctx, t, d, "approve", "instantiate")
	s.Await(ctx, d, "Instantiated")
	next := *d
	next.Version, next.Group = "v2", "next-"+d.Group
	require.NoError(t, next.API.Run(ctx, next.GroupSteps(), nil))
	do(ctx, t, &next, "approve")
	away := s.Register(ctx, "away", []byte("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"+
		"clusters: [{name: c, cluster: {server: \"https://127.0.0.1:1\"}}]\nusers: [{name: u, user: {token: none}}]\n"))
	hung := s.On(ctx, []domain.ClusterName{away}, client.App{Name: "web", Chart: says(t, "web", "a=1")})
	do(ctx, t, hung, "approve")

	charts := 0
	operation := func(of *client.Deployment, op domain.Operation, on *client.Deployment, status domain.ContextStatus, send func(api *client.API) error) commanded {
		if send == nil {
			send = func(api *client.API) error { _, err := api.Operate(ctx, of.Key(), op); return err }
		}
		return commanded{
			verb: string(op), key: of.Key(), send: send, state: func() string { return w.track(of.Key()) }, ready: func() { s.Await(ctx, on, status) },
			ends: op, endedAs: audit.Done,
		}
	}
	update := operation(d, domain.OpUpdate, d, "Instantiated", nil)
	update.prepare = func() {
		charts++
		replaceChart(ctx, t, d, "web", says(t, "web", fmt.Sprintf("a=1 b=%d", charts)))
	}
	stop := operation(hung, domain.OpStop, hung, "InstantiateFailed", nil)
	stop.ends, stop.endedAs = domain.OpInstantiate, audit.Stopped
	stop.prepare = func() {
		if got, err := hung.Summary(ctx); err != nil || got.Status != domain.ContextInstantiating {
			do(ctx, t, hung, "instantiate")
		}
	}
	project := &domain.Project{Metadata: domain.Metadata{Name: "plain-" + d.Project}}
	plain := func(verb string, send func(api *client.API) error) commanded {
		return commanded{verb: verb, key: domain.KeyOf(project), send: send, state: func() string { return w.document(domain.Projects, domain.KeyOf(project)) }}
	}
	create := plain("create", func(api *client.API) error { _, err := api.Create(ctx, project, nil); return err })
	put := plain("put", func(api *client.API) error {
		changed := *project
		changed.Description = "another one"
		_, err := api.Put(ctx, &changed, nil)
		return err
	})
	remove := plain("delete", func(api *client.API) error { return api.Delete(ctx, domain.KeyOf(project)) })
	return []commanded{
		create, put, remove, update,
		operation(d, domain.OpRollback, d, "Instantiated", func(api *client.API) error { _, err := api.Rollback(ctx, d.Key(), 1); return err }),
		operation(d, domain.OpMigrate, &next, "Instantiated", func(api *client.API) error { _, err := api.Migrate(ctx, d.Key(), next.Version, next.Group); return err }),
		operation(&next, domain.OpTerminate, &next, "Terminated", nil),
		stop,
	}
}

// records are those of a command, of an event.
func (w *auditedWorld) records(c *commanded, event audit.Event) (all []audit.Record) {
	w.t.Helper()
	resource := c.key
	if c.verb == "create" { // it has no name before it is made
		resource = ""
	}
	filter := url.Values{"event": {string(event)}, "verb": {c.verb}, "from": {"1h"}}
	if resource != "" {
		filter.Set("resource", string(resource))
	} else {
		filter.Set("noun", "projects")
	}
	for r, err := range w.s.Client.API().AuditRecords(w.ctx, "", filter) {
		require.NoError(w.t, err)
		all = append(all, r)
	}
	return all
}

// by are those of them that a writer has written.
func by(writer string, of []audit.Record) (own []audit.Record) {
	for _, r := range of {
		if r.Writer == writer {
			own = append(own, r)
		}
	}
	return own
}

// writer is the name under which an API that runs writes audit records: the last one that has come to the store's list.
func (w *auditedWorld) writers() map[string]audit.Presence {
	w.t.Helper()
	all, err := w.db.Auditors(w.ctx)
	require.NoError(w.t, err)
	found := map[string]audit.Presence{}
	for _, p := range all {
		found[p.Writer] = p
	}
	return found
}

// export is the whole log with the keys to verify it by.
func (w *auditedWorld) export() ([]byte, audit.Options) {
	w.t.Helper()
	read := func(path string) []byte {
		answer := w.s.Send(w.ctx, http.MethodGet, w.s.URL()+path, map[string]string{"Accept": "application/x-ndjson, application/json;q=0.5"}, "")
		require.Equal(w.t, http.StatusOK, answer.Code, "%s", answer.Body)
		return answer.Body
	}
	keys, err := audit.ParseKeys(read("/v2/audit/keys"))
	require.NoError(w.t, err)
	return read("/v2/audit"), audit.Options{Keys: keys}
}

// verified checks that nothing is wrong with the log, and that each record of a writer is missed.
func (w *auditedWorld) verified(writer string) {
	w.t.Helper()
	lines, options := w.export()
	report, err := audit.Verify(bytes.NewReader(lines), options)
	require.NoError(w.t, err)
	require.Empty(w.t, report.Problems)
	each, own := bytes.SplitAfter(lines, []byte("\n")), 0
	for i, line := range each {
		if !bytes.HasPrefix(line, []byte(`{"writer":"`+writer+`"`)) {
			continue
		}
		own++
		report, err := audit.Verify(bytes.NewReader(bytes.Join(slices.Delete(slices.Clone(each), i, i+1), nil)), options)
		require.NoError(w.t, err)
		require.False(w.t, report.Good(), "without %s", line)
	}
	require.NotZero(w.t, own, writer)
}

// struck is an API that something happens to as it makes a write.
type struck struct {
	*harness.Replica
	proxy  *mongotest.Proxy
	writer string
}

// api starts one behind a proxy, and knows it by its name in the log.
func (w *auditedWorld) api(proxy *mongotest.Proxy) *struck {
	w.t.Helper()
	known := w.writers()
	a := &struck{Replica: w.s.AddAPI(w.t, "DROVER_MONGO_URI="+proxy.URI()), proxy: proxy}
	for name, p := range w.writers() {
		if _, was := known[name]; !was && !p.Closed {
			require.Empty(w.t, a.writer, "another process has begun meanwhile")
			a.writer = name
		}
	}
	require.NotEmpty(w.t, a.writer)
	return a
}

// TestEveryCommandIsRecordedWhoeverIsKilled kills an API in the middle of every kind of command: when it has recorded that it begins, and
// nothing is done, and when all is done, and the record of that is never stored. What was changed has a record of its beginning; what nobody
// knows the outcome of is said to be so; and what the dead have written can be verified, and not be taken away.
func TestEveryCommandIsRecordedWhoeverIsKilled(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), harness.NewStack(t)
	w := &auditedWorld{t: t, s: s, ctx: ctx, db: s.Store()}
	proxy := mongotest.NewProxy(t, s.DatabaseURI())
	for _, c := range w.commands() {
		for _, moment := range []struct {
			what  string
			write int // of audit records that is struck
			done  bool
		}{
			{"when it has recorded that it begins", 1, false},
			{"when it is done, and not recorded", 2, true},
		} {
			if c.prepare != nil {
				c.prepare()
			}
			before := c.state()
			a := w.api(proxy)
			fault := mongotest.Fault{Done: a.Kill}
			if moment.done {
				fault = mongotest.Fault{Before: a.Kill, Cut: true}
			}
			proxy.Meet("audit-*", moment.write, fault)
			require.Error(t, c.send(a.Client.API()), "%s is killed %s", c.verb, moment.what)
			require.True(t, proxy.Met(), "%s was killed %s", c.verb, moment.what)
			harness.Until(ctx, t, "it is gone", func() bool { return !a.Alive() })
			begun := by(a.writer, w.records(&c, audit.Begun))
			require.Len(t, begun, 1, "%s, killed %s", c.verb, moment.what)
			require.Empty(t, by(a.writer, w.records(&c, audit.Answered)), "%s, killed %s", c.verb, moment.what)
			require.Len(t, by(a.writer, w.records(&c, audit.Unanswered)), 1, "%s, killed %s: nobody knows what came of it, and the log says so", c.verb, moment.what)
			if moment.done {
				harness.Until(ctx, t, c.verb+" is done", func() bool { return c.state() != before })
			} else {
				require.Equal(t, before, c.state(), "%s was killed before it was done", c.verb)
			}
			if moment.done && c.ready != nil {
				c.ready()
			}
			if moment.done && c.ends != "" {
				w.hasEnded(&c)
			}
			w.api(proxy).Kill() // who begins seals what it finds of the dead
			w.verified(a.writer)
		}
	}
}

// hasEnded waits for the record of the end of what a command has begun, or has ended.
func (w *auditedWorld) hasEnded(c *commanded) {
	w.t.Helper()
	filter := url.Values{"resource": {string(domain.ScopeOf(c.key))}, "event": {string(audit.Ended)}, "verb": {string(c.ends)}}
	harness.Until(w.ctx, w.t, "a record of the end of "+c.verb, func() bool {
		for r, err := range w.s.Client.API().AuditRecords(w.ctx, "", filter) {
			require.NoError(w.t, err)
			if r.Result == c.endedAs && r.Workflow != "" {
				return true
			}
		}
		return false
	})
}

// TestAnAPIThatWasFrozenGoesOnInTheLog freezes an API in the middle of every kind of command, until others have taken it for dead and have
// stated its end. When it goes on it does what it has begun and records it: nothing of that is taken for forged, nor is missed by nobody.
func TestAnAPIThatWasFrozenGoesOnInTheLog(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), harness.NewStack(t)
	w := &auditedWorld{t: t, s: s, ctx: ctx, db: s.Store()}
	proxy := mongotest.NewProxy(t, s.DatabaseURI())
	a := w.api(proxy)
	for _, c := range w.commands() {
		if c.prepare != nil {
			c.prepare()
		}
		before, frozen := c.state(), make(chan func(), 1)
		proxy.Meet("audit-*", 1, mongotest.Fault{Done: func() { frozen <- a.Freeze(t) }})
		answered := make(chan error, 1)
		go func() { answered <- c.send(a.Client.API()) }()
		thaw := <-frozen
		there := w.writers()[a.writer]
		there.Seen = time.Now().Add(-time.Hour) // it was frozen for that long
		require.NoError(t, w.db.PutAuditor(ctx, there))
		w.api(mongotest.NewProxy(t, s.DatabaseURI())).Kill()
		require.True(t, w.writers()[a.writer].Closed, "it is taken for dead")
		require.Equal(t, before, c.state(), c.verb)
		thaw()
		require.NoError(t, <-answered, c.verb)
		harness.Until(ctx, t, c.verb+" is done", func() bool { return c.state() != before })
		require.Empty(t, by(a.writer, w.records(&c, audit.Unanswered)), c.verb)
		done := by(a.writer, w.records(&c, audit.Answered))
		require.NotEmpty(t, done, c.verb)
		require.Equal(t, audit.Done, done[0].Result, c.verb)
		if c.ready != nil {
			c.ready()
		}
		if c.ends != "" {
			w.hasEnded(&c)
		}
	}
	harness.Until(ctx, t, "it has signed what it has written since", func() bool {
		lines, options := w.export()
		report, err := audit.Verify(bytes.NewReader(lines), options)
		require.NoError(t, err)
		return report.Good()
	})
	require.NoError(t, a.Stop(ctx))
	w.api(mongotest.NewProxy(t, s.DatabaseURI())).Kill() // who begins names its end
	w.verified(a.writer)
}
