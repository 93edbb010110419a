package door_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/service"
)

// paper is a trail that may be torn.
type paper struct {
	mu      sync.Mutex
	records []audit.Record
	later   []audit.Record
	down    bool
	behind  bool        // its clock, for all, or for the event in fails
	fails   audit.Event // only these
	full    bool        // of refusals
	more    int
}

func (p *paper) Write(_ context.Context, r audit.Record) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.behind && (p.fails == "" || r.Event == p.fails) {
		return 0, fail.Wrap(audit.ErrClock, fail.Unavailable, "this clock is 2h0m0s behind the database's")
	}
	if p.down || r.Event == p.fails {
		return 0, fail.New(fail.Timeout, "the database does not answer in time")
	}
	p.records = append(p.records, r)
	return int64(len(p.records)), nil
}

func (p *paper) Later(r audit.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.later = append(p.later, r)
	if !p.down && !p.behind && r.Event != p.fails {
		p.records = append(p.records, r)
	}
}

func (p *paper) Admits(audit.Record) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.full {
		p.more++
	}
	return !p.full
}

func (p *paper) Digest(sum []byte) string { return string(sum) }

// told are the events and outcomes of the records.
func (p *paper) told() (told []string) {
	for _, r := range p.records {
		told = append(told, string(r.Event)+" "+r.Verb+" "+r.Key+" "+r.Result)
	}
	return told
}

func TestAudited(t *testing.T) {
	forbidden := fail.New(fail.Forbidden, "may not")
	hidden := fail.New(fail.NotFound, "not found")
	for name, c := range map[string]struct {
		verb    door.Verb
		refusal error // of a step
		err     error // of the work
		want    []string
	}{
		"a command":                     {door.Put, nil, nil, []string{"begun put projects/p ", "answered put projects/p done"}},
		"a command that fails":          {door.Delete, nil, fail.New(fail.Conflict, "in use"), []string{"begun delete projects/p ", "answered delete projects/p Conflict"}},
		"a command that is not allowed": {door.Put, forbidden, nil, []string{"answered put projects/p Forbidden"}},
		"a command on what is hidden":   {door.Put, hidden, nil, []string{"answered put projects/p NotFound"}},
		"a command nobody waits for":    {door.Put, nil, context.Canceled, []string{"begun put projects/p ", "answered put projects/p Canceled"}},
		"a query":                       {door.Get, nil, nil, nil},
		"a query that fails":            {door.Get, nil, fail.New(fail.Internal, "it failed"), nil},
		"a query of what is not there":  {door.Get, nil, hidden, nil},
		"a query of what is hidden":     {door.Get, hidden, nil, []string{"answered get projects/p NotFound"}},
		"a query that is not allowed":   {door.Get, forbidden, nil, []string{"answered get projects/p Forbidden"}},
		"a stream whose right ends":     {door.Watch, nil, forbidden, []string{"answered watch projects/p Forbidden"}},
		"a query when it is busy":       {door.Get, fail.New(fail.Unavailable, "later"), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := &paper{}
			outer, inner := door.Audited(p)
			d := door.New(door.Parts{}, outer, func(ctx context.Context, _ *door.Request, next door.Next) error {
				if c.refusal != nil {
					return c.refusal
				}
				return next(ctx)
			}, inner)
			ctx := caller.WithRequest(t.Context(), &caller.Request{ID: "the request", Remote: "192.0.2.1:4711"})
			err := d.Pass(ctx, &door.Request{Verb: c.verb, Noun: domain.Projects, Name: "p"}, func(ctx context.Context, _ door.Service) error {
				require.NoError(t, c.refusal)
				if c.err == nil {
					caller.RequestOf(ctx).Begin("the operation")
					caller.RequestOf(ctx).Changed([]byte("before"), []byte("after"))
				}
				if fail.Is(c.err, fail.Conflict) {
					caller.RequestOf(ctx).Changed([]byte("before"), nil)
				}
				return c.err
			})
			require.ErrorIs(t, err, map[bool]error{true: c.refusal, false: c.err}[c.refusal != nil])
			require.Equal(t, c.want, p.told())
			for _, r := range p.records {
				require.Equal(t, &audit.Who{Kind: "anonymous"}, r.Who)
				require.Equal(t, "the request", r.Request)
				require.Equal(t, "192.0.2.1:4711", r.From)
			}
			if name == "a command that fails" {
				require.Equal(t, "before", p.records[1].Before, "it has changed something all the same")
			}
			if name == "a command" {
				require.Equal(t, int64(1), p.records[1].Begun)
				require.Equal(t, "before", p.records[1].Before)
				require.Equal(t, "after", p.records[1].After)
				require.Equal(t, "the operation", p.records[1].Workflow)
			}
		})
	}
}

// TestWhatGoesWithADeleteIsRecorded: each by itself, and where that fails in the middle, also the one of which nobody knows whether it is gone.
func TestWhatGoesWithADeleteIsRecorded(t *testing.T) {
	p := &paper{}
	outer, inner := door.Audited(p)
	slow := fail.New(fail.Timeout, "the database does not answer in time")
	ctx := caller.WithRequest(t.Context(), &caller.Request{ID: "the request"})
	err := door.New(door.Parts{}, outer, inner).Pass(ctx, &door.Request{Verb: door.Delete, Noun: domain.Projects, Name: "p"}, func(ctx context.Context, _ door.Service) error {
		r := caller.RequestOf(ctx)
		r.Removes(caller.Removed{Noun: domain.ProjectRoleBindings.Kind, Key: "projects/p/role-bindings/a", Before: []byte("a")})
		r.Removes(caller.Removed{Noun: domain.ProjectRoleBindings.Kind, Key: "projects/p/role-bindings/b", Before: []byte("b"), Err: slow})
		return slow
	})
	require.ErrorIs(t, err, slow)
	require.Equal(t, []string{
		"begun delete projects/p ", "answered delete projects/p/role-bindings/a done", "answered delete projects/p/role-bindings/b Timeout", "answered delete projects/p Timeout",
	}, p.told())
	require.Equal(t, "b", p.records[2].Before)
}

// TestWhatCannotBeRecordedIsNotDone: no record, no change; and what was done, and cannot be recorded any more, is not said to be
// well.
func TestWhatCannotBeRecordedIsNotDone(t *testing.T) {
	p := &paper{down: true}
	outer, inner := door.Audited(p)
	d := door.New(door.Parts{}, outer, inner)
	done := 0
	pass := func(verb door.Verb) error {
		return d.Pass(t.Context(), &door.Request{Verb: verb, Noun: domain.Projects, Name: "p"}, func(context.Context, door.Service) error {
			done++
			return nil
		})
	}
	err := pass(door.Put)
	require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
	require.Contains(t, fail.TextOf(err), "nothing was done")
	require.True(t, fail.IsUndone(err), "so that it can be sent again")
	require.NotZero(t, fail.RetryAfterOf(err))
	require.Zero(t, done)
	require.Equal(t, []string{"Unavailable"}, []string{p.later[0].Result})
	require.NoError(t, pass(door.Get), "who reads changes nothing")
	require.Equal(t, 1, done)

	p.down, p.behind = false, true
	err = pass(door.Put)
	require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
	require.Contains(t, fail.TextOf(err), "while the API's clock is far behind the database's, so nothing was done")
	require.True(t, fail.IsUndone(err))
	require.Equal(t, 1, done)

	p.behind, p.fails, p.later = false, audit.Answered, nil
	err = pass(door.Put)
	require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
	require.False(t, fail.IsUndone(err))
	require.Contains(t, fail.TextOf(err), "it was done")
	require.Equal(t, 2, done)
	require.Len(t, p.later, 1)
	require.Equal(t, audit.Done, p.later[0].Result)
	require.Equal(t, int64(1), p.later[0].Begun)

	p.behind = true
	err = pass(door.Put)
	require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
	require.False(t, fail.IsUndone(err))
	require.Contains(t, fail.TextOf(err), "it was done, but the audit log cannot be written while the API's clock is far behind the database's, so that it is not recorded yet")
	require.Equal(t, 3, done)
}

// TestLogins: who shows who they are is recorded once for each proof; what proves nothing is refused, and that is recorded.
func TestLogins(t *testing.T) {
	p := &paper{}
	outer, inner := door.Audited(p)
	d := door.New(door.Parts{}, outer, func(ctx context.Context, _ *door.Request, next door.Next) error {
		if _, err := caller.IdentityOf(ctx); err != nil {
			return err
		}
		return next(ctx)
	}, inner)
	pass := func(i caller.Identity, err error) error {
		return d.Pass(caller.WithIdentity(t.Context(), i, err), &door.Request{Verb: door.Get, Noun: domain.Projects, Name: "p"},
			func(context.Context, door.Service) error { return nil })
	}
	alice := caller.Identity{Kind: caller.User, Name: "alice", By: "oidc", Expires: time.Unix(1, 0)}
	for range 3 {
		require.NoError(t, pass(alice, nil))
	}
	require.Equal(t, []string{"login   done"}, p.told())
	require.Equal(t, &audit.Who{Kind: "user", Name: "alice", By: "oidc"}, p.records[0].Who)
	alice.Expires = time.Unix(2, 0)
	require.NoError(t, pass(alice, nil))
	require.Len(t, p.records, 2, "another token")
	require.NoError(t, pass(caller.Identity{Kind: caller.Open}, nil))
	require.NoError(t, pass(caller.Identity{}, nil))
	require.Len(t, p.records, 2, "nobody has shown anything")
	require.Error(t, pass(caller.Identity{}, fail.New(fail.Unauthorized, "the token is not known")))
	require.Equal(t, "answered get projects/p Unauthorized", p.told()[2])
}

// TestTheLongestKeyIsInItsRecord: no document has the key of another one there, since both were cut.
func TestTheLongestKeyIsInItsRecord(t *testing.T) {
	for _, noun := range domain.Nouns {
		var key string
		for n := noun; n != nil; n = n.Parent {
			names := strings.Repeat("/"+strings.Repeat("n", cmp.Or(n.Longest, domain.MaxName)), len(n.Names))
			key = "/" + n.Collection + names + key
		}
		r := audit.Record{Key: strings.TrimPrefix(key, "/")}
		require.Equal(t, r.Key, r.Bounded().Key, "%s: %d bytes", noun.Kind, len(r.Key))
	}
}

// TestASaidName: while nobody is asked who they are, records have the name that was said, and none that reads as if it were proven.
func TestASaidName(t *testing.T) {
	p := &paper{}
	outer, inner := door.Audited(p)
	d := door.New(door.Parts{}, outer, inner)
	for _, said := range []string{"alice", "user alice", ""} {
		ctx := caller.With(caller.WithIdentity(t.Context(), caller.Identity{Kind: caller.Open}, nil), said)
		require.NoError(t, d.Pass(ctx, &door.Request{Verb: door.Delete, Noun: domain.Projects, Name: "p"},
			func(context.Context, door.Service) error { return nil }))
	}
	var who []string
	for _, r := range p.records {
		require.False(t, r.Who.Proven())
		who = append(who, r.Who.Text())
	}
	require.Equal(t, []string{"open alice", "open alice", `open "user alice"`, `open "user alice"`, "open", "open"}, who)
}

// TestRefusalsAreBounded: who has not shown who they are does not wait for the record of a refusal, and it has none when there are too
// many; what came of a command that was begun always has one.
func TestRefusalsAreBounded(t *testing.T) {
	p := &paper{}
	outer, inner := door.Audited(p)
	refusal := fail.New(fail.Forbidden, "may not")
	var refuse bool
	d := door.New(door.Parts{}, outer, func(ctx context.Context, _ *door.Request, next door.Next) error {
		if refuse {
			return refusal
		}
		return next(ctx)
	}, inner)
	pass := func(i caller.Identity, verb door.Verb) error {
		return d.Pass(caller.WithIdentity(t.Context(), i, nil), &door.Request{Verb: verb, Noun: domain.Projects, Name: "p"},
			func(context.Context, door.Service) error { return fail.New(fail.Conflict, "in use") })
	}
	alice := caller.Identity{Kind: caller.User, Name: "alice", By: "oidc"}
	refuse = true
	require.ErrorIs(t, pass(caller.Identity{}, door.Put), refusal)
	require.Len(t, p.later, 1, "nobody waits for it")
	require.ErrorIs(t, pass(alice, door.Get), refusal)
	require.Len(t, p.later, 2, "the login alone")
	require.Len(t, p.records, 3)
	p.full = true
	require.ErrorIs(t, pass(caller.Identity{}, door.Put), refusal)
	require.ErrorIs(t, pass(alice, door.Get), refusal)
	require.Len(t, p.records, 3)
	require.Equal(t, 2, p.more)
	refuse = false
	require.Error(t, pass(alice, door.Delete))
	require.Equal(t, []string{"begun delete projects/p ", "answered delete projects/p Conflict"}, p.told()[3:])

	p.full, p.fails, p.later = false, audit.Begun, nil
	require.True(t, fail.Is(pass(alice, door.Delete), fail.Unavailable))
	require.Len(t, p.later, 1, "it has waited for the store once")
}

// TestWhatIsUndoneLate is in the log, with what it is about and who was refused it; what was taken back is in the audit log, too, as it was written.
func TestWhatIsUndoneLate(t *testing.T) {
	refusal, key := fail.New(fail.NotFound, "project \"p\" not found"), domain.Key("projects/p/composite-apps/ca/v1")
	for name, c := range map[string]struct {
		u     service.Undone
		says  string
		level string
		verb  string // of the record, "" for none
	}{
		"a create":              {service.Undone{Taken: true, Before: []byte("new")}, "a refused write was taken back after its answer", "WARN", "delete"},
		"a put":                 {service.Undone{Taken: true, Before: []byte("new"), After: []byte("old")}, "a refused write was taken back after its answer", "WARN", "put"},
		"a delete":              {service.Undone{Taken: true, After: []byte("old")}, "a refused write was taken back after its answer", "WARN", "create"},
		"one that is not noted": {service.Undone{Taken: true, Before: []byte("new"), Err: errors.New("down")}, "not to its end", "ERROR", "delete"},
		"one that stays":        {service.Undone{Err: errors.New("down")}, "a refused write is not taken back, and may stay", "ERROR", ""},
		"one that has gone":     {service.Undone{}, "there is nothing to take back any more", "WARN", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, said := &paper{}, &bytes.Buffer{}
			ctx := caller.WithRequest(caller.WithIdentity(t.Context(), caller.Identity{Kind: caller.User, Name: "alice"}, nil), &caller.Request{ID: "r1", Remote: "10.0.0.1"})
			u := c.u
			u.Noun, u.Key, u.Refusal = domain.CompositeApps, key, refusal
			door.Undone(p, slog.New(slog.NewJSONHandler(said, nil)))(ctx, u)
			var line map[string]any
			require.NoError(t, json.Unmarshal(said.Bytes(), &line))
			require.Contains(t, line["msg"], c.says)
			require.Equal(t, []any{c.level, "r1", string(key), "user alice", refusal.Message}, []any{line["level"], line["requestId"], line["resource"], line["who"], line["refusal"]})
			require.Equal(t, u.Err != nil, line["error"] != nil)
			if c.verb == "" {
				require.Empty(t, p.records)
				return
			}
			require.Equal(t, []audit.Record{{
				Event: audit.Answered, Who: &audit.Who{Kind: "user", Name: "alice"}, From: "10.0.0.1", Verb: c.verb, Noun: "composite-apps", Key: string(key),
				Result: audit.Done, Before: string(u.Before), After: string(u.After), Request: "r1",
			}}, p.records)
		})
	}
}
