package service_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/operations"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// runs are those of an engine, which gives them in pages.
type runs struct {
	service.Engine
	all   []operations.Execution
	blind error                 // of what finds the runs of one operation
	now   *operations.Execution // the last run of every operation; nil for one that is not known
	away  error                 // of what asks for it
	pages int
}

func (r *runs) Executions(_ context.Context, _ operations.Filter, limit int, after []byte) ([]operations.Execution, []byte, error) {
	r.pages++
	from, _ := strconv.Atoi(string(after))
	to := min(from+limit, len(r.all))
	if to == len(r.all) {
		return r.all[from:to], nil, nil
	}
	return r.all[from:to], []byte(strconv.Itoa(to)), nil
}

func (r *runs) ExecutionsOf(_ context.Context, s domain.Scope) (found []operations.Execution, _ error) {
	if r.blind != nil {
		return nil, r.blind
	}
	for _, x := range r.all {
		if x.ContextID == s.ContextID && x.Operation == s.Operation {
			found = append(found, x)
		}
	}
	return found, nil
}

func (r *runs) Execution(_ context.Context, s domain.Scope) (x operations.Execution, _ error) {
	switch {
	case r.away != nil:
		return x, r.away
	case r.now == nil:
		return x, fail.New(fail.NotFound, "it is not running")
	}
	x = *r.now
	x.Scope = s
	return x, nil
}

func (r *runs) Counts(context.Context, domain.Scope) (map[domain.ResourceState]int, error) {
	return map[domain.ResourceState]int{domain.ResourcePending: 3}, nil
}

// counted counts what is read of the records.
type counted struct {
	*store.Store
	reads int
}

func (c *counted) InstancesByID(ctx context.Context, ids []string) ([]*domain.Instance, error) {
	c.reads++
	return c.Store.InstancesByID(ctx, ids)
}

func TestJournal(t *testing.T) {
	db := storetest.Open(t, store.Config{})
	const n = 40
	key, r, records := domain.KeyOf(group("dig")), &runs{}, &counted{Store: db}
	for i := range n {
		x := operations.Execution{
			Scope: domain.Scope{Owner: key, ContextID: fmt.Sprint(1000 + i), Operation: domain.OpUpdate},
			Run:   explain.Run{ID: "run", RunID: fmt.Sprint("r", i), Status: explain.Completed},
		}
		if i == 0 {
			x.Run.Status = explain.Running
		}
		r.all = append(r.all, x)
		record := &domain.Instance{ContextID: x.ContextID, Owner: key, Operation: x.Operation, Counts: map[domain.ResourceState]int{domain.ResourceApplied: 2}}
		record.Begin(domain.Ran{RunID: x.Run.RunID, Operation: x.Operation, Detail: "update", RequestedBy: "alice", Accepted: time.Unix(1e9, 0)})
		if i > 0 {
			status := domain.ContextInstantiated
			if i%5 == 0 {
				status = domain.ContextInstantiateFailed
			}
			record.End(domain.Ran{Operation: x.Operation, Status: status, Ended: time.Unix(1e9+1, 0)})
		}
		require.NoError(t, db.PutInstance(t.Context(), record))
	}
	j := service.NewJournal(service.NewLifecycle(db, records, nil, r, time.Now), r, explain.WebUI{})
	list := func(query string) *operations.List {
		t.Helper()
		v, err := url.ParseQuery(query)
		require.NoError(t, err)
		l, err := j.Operations(t.Context(), v)
		require.NoError(t, err)
		return l
	}
	all := list("")
	require.Len(t, all.Items, n)
	require.Empty(t, all.Continue)
	require.Equal(t, 1, records.reads, "records are read at once")
	require.Equal(t, operations.Running, all.Items[0].State)
	require.Equal(t, "alice", all.Items[1].By)

	var seen []operations.Operation
	for page, token := 0, ""; page == 0 || token != ""; page++ {
		l := list("limit=7&continue=" + token)
		require.LessOrEqual(t, len(l.Items), 7)
		seen, token = append(seen, l.Items...), l.Continue
	}
	require.Equal(t, all.Items, seen)

	failed := list("state=Failed&limit=3")
	require.Len(t, failed.Items, 3)
	require.NotEmpty(t, failed.Continue)
	r.pages = 0
	refused := list("state=Refused&limit=3")
	require.Empty(t, refused.Items)
	require.Equal(t, 10, r.pages, "what one question reads is bounded")
	require.NotEmpty(t, refused.Continue, "and how to go on is said")

	one, err := j.Operation(t.Context(), "1000-update")
	require.NoError(t, err)
	require.Equal(t, map[domain.ResourceState]int{domain.ResourcePending: 3}, one.Counts)
	r.all = r.all[1:]
	one, err = j.Operation(t.Context(), "1001-update")
	require.NoError(t, err)
	require.Equal(t, map[domain.ResourceState]int{domain.ResourceApplied: 2}, one.Counts)
	r.all = nil
	again, err := j.Operation(t.Context(), "1001-update")
	require.NoError(t, err, "the record outlives the run")
	require.Equal(t, operations.Succeeded, again.State)
	require.Equal(t, key, again.Resource)
	for _, id := range []string{"1001-terminate", "1-update", "nonsense"} {
		_, err = j.Operation(t.Context(), id)
		require.True(t, fail.Is(err, fail.NotFound), "%s: %v", id, err)
	}
	for _, query := range []string{"limit=0", "limit=1001", "limit=x", "continue=%21", "kind=approve"} {
		v, err := url.ParseQuery(query)
		require.NoError(t, err)
		_, err = j.Operations(t.Context(), v)
		require.True(t, fail.Is(err, fail.Invalid), "%s: %v", query, err)
	}
}

// TestAnOperationThatIsNotListedYet: the engine's list is late, or does not answer, and what the record and the engine itself know is told all the same.
func TestAnOperationThatIsNotListedYet(t *testing.T) {
	key, op, began := domain.KeyOf(group("dig")), domain.OpTerminate, time.Unix(1e9, 0)
	run := func(id string, status explain.RunStatus, closed time.Time) operations.Execution {
		return operations.Execution{
			Scope: domain.Scope{Owner: key, ContextID: "1000", Operation: op},
			Run:   explain.Run{ID: "run", RunID: id, Status: status, Started: began}, Closed: closed,
		}
	}
	first := domain.Ran{RunID: "r1", Operation: op, Accepted: began, Ended: began.Add(time.Second), Status: domain.ContextTerminateFailed, Reason: "no cluster"}
	second := domain.Ran{RunID: "r2", Operation: op, Accepted: began.Add(time.Hour)}
	down := fail.New(fail.Unavailable, "visibility is away")
	going, over := run("r2", explain.Running, time.Time{}), run("r2", explain.Terminated, began.Add(2*time.Hour))
	before, ended := run("r1", explain.Completed, began.Add(time.Second)), run("r2", explain.Completed, began.Add(2*time.Hour))
	done := second
	done.Ended, done.Status = began.Add(2*time.Hour), domain.ContextTerminated
	for name, c := range map[string]struct {
		runs     *runs
		recorded []domain.Ran
		state    operations.State
		run      string // "" for none
		kind     fail.Kind
	}{
		"it has just begun":           {runs: &runs{now: &going}, recorded: []domain.Ran{second}, state: operations.Running, run: "r2"},
		"the one before it is listed": {runs: &runs{now: &going, all: []operations.Execution{before}}, recorded: []domain.Ran{first, second}, state: operations.Running, run: "r2"},
		"the list is away":            {runs: &runs{now: &going, blind: down}, recorded: []domain.Ran{first, second}, state: operations.Running, run: "r2"},
		"it has ended, and the one before is listed": {
			runs: &runs{now: &ended, all: []operations.Execution{before}}, recorded: []domain.Ran{first, done}, state: operations.Succeeded, run: "r2",
		},
		"it was ended by hand":                     {runs: &runs{now: &over, all: []operations.Execution{before}}, recorded: []domain.Ran{first, second}, state: operations.Failed, run: "r2"},
		"it is forgotten":                          {runs: &runs{}, recorded: []domain.Ran{second}, state: operations.Failed},
		"it is listed, and nothing else is asked":  {runs: &runs{all: []operations.Execution{going}, away: down}, recorded: []domain.Ran{second}, state: operations.Running, run: "r2"},
		"it has ended, and the list is away":       {runs: &runs{now: &before, blind: down}, recorded: []domain.Ran{first}, state: operations.Failed, run: "r1"},
		"it has ended, and nothing else is known":  {runs: &runs{blind: down, away: down}, recorded: []domain.Ran{first}, state: operations.Failed},
		"nobody knows whether it goes on":          {runs: &runs{away: down}, recorded: []domain.Ran{second}, kind: fail.Unavailable},
		"nothing is recorded, and nothing answers": {runs: &runs{blind: down}, kind: fail.Unavailable},
		"it is not recorded yet either":            {runs: &runs{now: &going}, state: operations.Running, run: "r2"},
		"nothing is recorded, the list is away":    {runs: &runs{now: &going, blind: down}, state: operations.Running, run: "r2"},
		"it never was":                             {runs: &runs{}, kind: fail.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			db := storetest.Open(t, store.Config{})
			require.NoError(t, db.PutInstance(t.Context(), &domain.Instance{ContextID: "1000", Owner: key, Operation: op, Runs: c.recorded}))
			o, err := service.NewJournal(service.NewLifecycle(db, db, nil, c.runs, time.Now), c.runs, explain.WebUI{}).Operation(t.Context(), "1000-terminate")
			if c.kind != "" {
				require.True(t, fail.Is(err, c.kind), "%v", err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.state, o.State)
			require.Equal(t, key, o.Resource)
			if c.run == "" {
				require.Nil(t, o.Workflow)
			} else {
				require.Equal(t, c.run, o.Workflow.RunID)
			}
		})
	}
}

// ending is a store to which an operation writes its end after it was read first.
type ending struct {
	*store.Store
	end func()
}

func (e *ending) InstancesByID(ctx context.Context, ids []string) ([]*domain.Instance, error) {
	found, err := e.Store.InstancesByID(ctx, ids)
	e.end()
	return found, err
}

// TestAnOperationThatEndsWhileItIsAskedFor has succeeded: its record was read before its workflow had ended.
func TestAnOperationThatEndsWhileItIsAskedFor(t *testing.T) {
	db, key := storetest.Open(t, store.Config{}), domain.KeyOf(group("dig"))
	record := &domain.Instance{ContextID: "1000", Owner: key, Operation: domain.OpInstantiate}
	record.Begin(domain.Ran{RunID: "r1", Operation: domain.OpInstantiate, Accepted: time.Unix(1e9, 0)})
	require.NoError(t, db.PutInstance(t.Context(), record))
	records := &ending{db, func() {
		require.NoError(t, db.UpdateInstance(t.Context(), "1000", func(i *domain.Instance) error {
			i.End(domain.Ran{Operation: domain.OpInstantiate, Status: domain.ContextInstantiated, Ended: time.Unix(1e9+1, 0)})
			return nil
		}))
	}}
	r := &runs{all: []operations.Execution{{
		Scope: domain.Scope{Owner: key, ContextID: "1000", Operation: domain.OpInstantiate},
		Run:   explain.Run{ID: "run", RunID: "r1", Status: explain.Completed}, Closed: time.Unix(1e9+1, 0),
	}}}
	o, err := service.NewJournal(service.NewLifecycle(db, records, nil, r, time.Now), r, explain.WebUI{}).Operation(t.Context(), "1000-instantiate")
	require.NoError(t, err)
	require.Equal(t, operations.Succeeded, o.State)
}

// TestOperationsAreWatched: a watch has them by their runs, and asks the engine once a second at the most, however many look.
func TestOperationsAreWatched(t *testing.T) {
	db := storetest.Open(t, store.Config{})
	key, now := domain.KeyOf(group("dig")), time.Unix(1e9, 0)
	execution := func(n int, status explain.RunStatus) operations.Execution {
		return operations.Execution{
			Scope: domain.Scope{Owner: key, ContextID: fmt.Sprint(1000 + n), Operation: domain.OpInstantiate},
			Run:   explain.Run{ID: "run", RunID: fmt.Sprint("r", n), Status: status},
		}
	}
	r := &runs{all: []operations.Execution{execution(1, explain.Running), execution(2, explain.Completed)}}
	l := service.NewLifecycle(db, db, nil, r, func() time.Time { return now })
	f := service.NewFleet(l, db, service.NewJournal(l, r, explain.WebUI{}))
	t.Cleanup(f.Close)
	states := func() map[string]operations.State {
		t.Helper()
		s, err := f.Snapshot(t.Context(), service.FleetOperations)
		require.NoError(t, err)
		image, err := s.Image(status.Query{})
		require.NoError(t, err)
		var all map[string]operations.Operation
		require.NoError(t, json.Unmarshal(image.Document(), &all))
		found := map[string]operations.State{}
		for run, o := range all {
			found[run] = o.State
		}
		return found
	}
	require.Equal(t, map[string]operations.State{"r1": operations.Running, "r2": operations.Unknown}, states())
	asked := r.pages
	r.all = r.all[:1]
	require.Len(t, states(), 2)
	require.Equal(t, asked, r.pages, "it was asked a moment ago")
	now = now.Add(2 * time.Second)
	require.Equal(t, map[string]operations.State{"r1": operations.Running}, states())

	require.NoError(t, (&service.Journal{}).CheckWatch(url.Values{"watch": {"true"}}))
	err := (&service.Journal{}).CheckWatch(url.Values{"watch": {"true"}, "project": {"p"}})
	require.True(t, fail.Is(err, fail.Invalid))
	require.Equal(t, "project", fail.FieldsOf(err)[0].Path)
	require.ErrorContains(t, err, "up to 2000 that go on and up to 100 that have ended within 24h")
}
