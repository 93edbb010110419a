package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/notify"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
	"github.com/drover-io/drover/internal/view"
)

// reporting are clusters of which each reports the one object of its app. Who reads them is held before each until it may go on.
type reporting struct {
	ears
	clusters    []domain.ClusterName
	object      domain.ObservedResource
	hold        chan struct{} // nil where nobody is held
	going, most atomic.Int32
	times       atomic.Int32 // for which somebody has read them
	err         error        // of who reads them, nil for none
}

func (r *reporting) Observations(ctx context.Context, contextID, app string, _ []domain.ClusterName) iter.Seq2[view.Report, error] {
	return func(yield func(view.Report, error) bool) {
		r.times.Add(1)
		now := r.going.Add(1)
		defer r.going.Add(-1)
		for most := r.most.Load(); now > most && !r.most.CompareAndSwap(most, now); most = r.most.Load() {
		}
		if r.err != nil {
			yield(view.Report{}, r.err)
			return
		}
		for _, c := range r.clusters {
			if r.hold != nil {
				select {
				case <-r.hold:
				case <-ctx.Done():
					yield(view.Report{}, context.Cause(ctx))
					return
				}
			}
			o := &domain.Observation{
				ObservedApp: domain.ObservedApp{ContextID: contextID, App: app, Cluster: c}, Kinds: []string{r.object.Kind + "." + r.object.Group},
				Resources: []domain.ObservedResource{r.object},
			}
			if !yield(view.Report{Observation: o, Object: func(int) (json.RawMessage, error) { return r.object.JSON, nil }}, nil) {
				return
			}
		}
	}
}

// reportingTables are those of a group in a store with one object on some clusters, which is reported with a text of so many bytes.
func reportingTables(t *testing.T, clusters, bytes int) (*service.Tables, *reporting, domain.Key) {
	t.Helper()
	ctx, at := t.Context(), time.Date(2026, 11, 21, 5, 29, 7, 0, time.UTC)
	db := storetest.Open(t, store.Config{})
	g := group("dig")
	g.Parent, g.History = "projects/p/composite-apps/ca/v1", domain.NewHistory(at)
	g.History.Append(domain.Instantiated, "1", 1, at)
	require.NoError(t, db.Create(ctx, g))
	put := func(v any) domain.Digest {
		data, err := json.Marshal(v)
		require.NoError(t, err)
		digest, err := db.PutBlob(ctx, data)
		require.NoError(t, err)
		return digest
	}
	id := plan.ResourceID{Group: "apps", Version: "v1", Kind: "Deployment", Name: "web"}
	r := &reporting{ears: ears{db}, object: domain.ObservedResource{
		Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "default", Name: "web", Status: "Ready",
		JSON: []byte(fmt.Sprintf(`{"metadata":{"name":"web"},"status":{"t":%q}}`, strings.Repeat("x", bytes))),
	}}
	var targets []plan.Target
	for c := range clusters {
		name := domain.ClusterName{Provider: "cp", Name: fmt.Sprintf("c%05d", c)}
		r.clusters, targets = append(r.clusters, name), append(targets, plan.Target{ClusterName: name})
	}
	b := plan.Bundle{App: "web", Resources: []plan.Resource{{ResourceID: id, Manifest: []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"}}`)}}}
	require.NoError(t, db.PutInstance(ctx, &domain.Instance{
		ContextID: "1", Owner: domain.KeyOf(g), Operation: domain.OpInstantiate, Status: domain.ContextInstantiated, Namespace: "default", Ended: at,
		Plan: put(plan.Plan{ContextID: "1", Owner: domain.KeyOf(g), Namespace: "default", Apps: []plan.App{{
			Name: "web", Resources: []plan.ResourceID{id}, Bundle: put(b), Targets: targets,
		}}}),
	}))
	tables := service.NewTables(service.NewLifecycle(db, db, r, &progress{}, func() time.Time { return at }))
	return tables, r, domain.KeyOf(g)
}

// take writes an answer, as who has asked for it gets it.
func take(d *service.TablesDocument, err error) error {
	if err == nil {
		_, err = d.WriteTo(io.Discard)
	}
	return err
}

// waysToAsk are the ways to ask for the text that each cluster reports.
func waysToAsk(t *testing.T, tables *service.Tables, key domain.Key) map[string]func() (*service.TablesDocument, error) {
	t.Helper()
	query := whole
	return map[string]func() (*service.TablesDocument, error){
		"of a query":        func() (*service.TablesDocument, error) { return tables.Query(t.Context(), key, &query) },
		"of what is stored": func() (*service.TablesDocument, error) { return tables.CombinedStatus(t.Context(), key, nil) },
		"of objects":        func() (*service.TablesDocument, error) { return tables.Objects(t.Context(), key, nil) },
	}
}

// whole asks for the text that each cluster reports.
var whole = service.TableQuery{Spec: domain.StatusCollectorSpec{Select: []domain.NamedExpression{{Name: "t", Def: "returned.status.t"}}}}

// TestAnswersAreMadeSoManyAtATime, and one caller leaves half of the turns to others: each may take as much memory as limits.Tables says.
func TestAnswersAreMadeSoManyAtATime(t *testing.T) {
	for name, c := range map[string]struct{ callers, want int }{
		"of one caller": {1, limits.AnswersAtOnce / 2},
		"of many":       {limits.AnswersAtOnce * 2, limits.AnswersAtOnce},
	} {
		t.Run(name, func(t *testing.T) {
			tables, r, key := reportingTables(t, 1, 10)
			tables.SetWait(time.Hour)
			r.hold = make(chan struct{})
			intend(t, r.Store, key, whole.Spec)
			var g errgroup.Group
			for n := range limits.AnswersAtOnce * 2 {
				ctx := as(t, fmt.Sprint(n%c.callers))
				g.Go(func() error {
					if n%2 == 0 {
						return take(tables.CombinedStatus(ctx, key, url.Values{"kind": {"Deployment", fmt.Sprint(n)}}))
					}
					q := whole
					return take(tables.Query(ctx, key, &q))
				})
			}
			require.Eventually(t, func() bool { return int(r.going.Load()) >= c.want }, time.Minute, time.Millisecond)
			close(r.hold)
			require.NoError(t, g.Wait())
			require.LessOrEqual(t, int(r.most.Load()), c.want)
			require.True(t, tables.Idle())
		})
	}
}

// TestAnAnswerForWhichThereIsNoRoomIsRefused, and is there when others have theirs: of those who bring a collector, and of those who ask for stored ones.
func TestAnAnswerForWhichThereIsNoRoomIsRefused(t *testing.T) {
	tables, r, key := reportingTables(t, 200, 60_000)
	intend(t, r.Store, key, whole.Spec)
	query := whole
	for name, ask := range map[string]func() error{
		"of a query":        func() error { return take(tables.Query(t.Context(), key, &query)) },
		"of what is stored": func() error { return take(tables.CombinedStatus(t.Context(), key, nil)) },
	} {
		t.Run(name, func(t *testing.T) {
			free := tables.Fill(t.Context(), t, 0)
			err := ask()
			require.True(t, fail.Is(err, fail.Exhausted), "%v", err)
			require.Positive(t, fail.RetryAfterOf(err))
			free()
			require.NoError(t, ask())
			require.True(t, tables.Idle())
		})
	}
}

// TestAnAnswerHasItsRoomUntilItIsSent: a client may take it slowly, or not at all.
func TestAnAnswerHasItsRoomUntilItIsSent(t *testing.T) {
	tables, r, key := reportingTables(t, 2, 60_000)
	intend(t, r.Store, key, whole.Spec)
	query := whole
	for name, ask := range map[string]func() (*service.TablesDocument, error){
		"of a query":        func() (*service.TablesDocument, error) { return tables.Query(t.Context(), key, &query) },
		"of what is stored": func() (*service.TablesDocument, error) { return tables.CombinedStatus(t.Context(), key, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			one, err := ask()
			require.NoError(t, err)
			other, err := ask()
			require.NoError(t, err)
			require.NoError(t, take(one, nil))
			require.False(t, tables.Idle())
			require.NoError(t, take(other, nil))
			require.True(t, tables.Idle())
			_, err = ask()
			require.NoError(t, err)
			require.Eventually(t, func() bool { runtime.GC(); return tables.Idle() }, time.Minute, time.Millisecond, "nobody writes it")
		})
	}
}

// TestWhatMayBeAskedFits: who asks alone is never told to try again later. An answer fits as long as it is within what is documented, and else says what helps.
func TestWhatMayBeAskedFits(t *testing.T) {
	service.SetMostAnswers(t, 2<<20, 1200<<10)
	largest := 0
	for clusters := 1; clusters < 50; clusters += 4 {
		tables, r, key := reportingTables(t, clusters, 60_000)
		intend(t, r.Store, key, whole.Spec)
		for name, ask := range waysToAsk(t, tables, key) {
			for range 2 {
				d, err := ask()
				if err != nil {
					require.True(t, fail.Is(err, fail.Invalid), "%s, %d clusters: %v", name, clusters, err)
					continue
				}
				largest = max(largest, d.Size())
				require.NoError(t, take(d, nil))
				require.True(t, tables.Idle())
			}
		}
	}
	require.Greater(t, largest, 900<<10)
}

// TestWhatIsKeptIsCountedWhereNoStreamReadsIt: several may be read at a time, each of them too large to be kept when nobody does.
func TestWhatIsKeptIsCountedWhereNoStreamReadsIt(t *testing.T) {
	tables, r, key := reportingTables(t, 200, 60_000)
	intend(t, r.Store, key, whole.Spec)
	ask := func() error { return take(tables.CombinedStatus(t.Context(), key, nil)) }
	require.NoError(t, ask())
	free := tables.Fill(t.Context(), t, 0) // a turn has enough for what is sent, and not for the table
	err := ask()
	require.True(t, fail.Is(err, fail.Exhausted), "%v", err)
	free()
	require.NoError(t, ask())
	require.True(t, tables.Idle())
}

// TestWhatIsLittleHasRoomInAnyCase: with a turn, while others have all the rest; and where it is kept without one, while others have the turns.
func TestWhatIsLittleHasRoomInAnyCase(t *testing.T) {
	for name, bytes := range map[string]int{"less than what each counts that is kept": 10, "more than that": 60_000} {
		t.Run(name, func(t *testing.T) {
			tables, r, key := reportingTables(t, 1, bytes)
			intend(t, r.Store, key, whole.Spec)
			ask := func() error { return take(tables.CombinedStatus(t.Context(), key, nil)) }
			free := tables.Fill(t.Context(), t, 0)
			require.NoError(t, ask(), "there are no tables of it")
			require.NoError(t, ask(), "there are")
			free()
			free = tables.Begin(t.Context(), t)
			require.NoError(t, ask())
			free()
			require.True(t, tables.Idle())
		})
	}
}

// TestACallerIsNotRefusedForWhatAnotherHas, although both ask for the same. Who has gone waits for nothing, and holds no tables meanwhile.
func TestACallerIsNotRefusedForWhatAnotherHas(t *testing.T) {
	tables, r, key := reportingTables(t, 2, 60_000)
	intend(t, r.Store, key, whole.Spec)
	tables.SetWait(time.Hour)
	free := tables.Begin(as(t, "one"), t)
	asks, leave := context.WithCancel(as(t, "one"))
	left := make(chan error)
	const turns = limits.AnswersAtOnce / 2
	go func() { left <- take(tables.CombinedStatus(asks, key, nil)) }()
	require.Eventually(t, func() bool { return tables.Parts() == turns+1 }, time.Minute, time.Millisecond)
	require.Zero(t, tables.Kept())
	require.NoError(t, take(tables.CombinedStatus(as(t, "other"), key, nil)))
	leave()
	require.ErrorIs(t, <-left, context.Canceled)
	require.Eventually(t, func() bool { return tables.Parts() == turns }, time.Minute, time.Millisecond, "it waits for nothing any more")
	require.EqualValues(t, 1, r.most.Load())
	free()
	require.True(t, tables.Idle())
}

// TestWhoWaitsForATurnToSendHoldsUpNobody: a caller who has all that one may have waits for their own turns, and others take the same answer meanwhile.
func TestWhoWaitsForATurnToSendHoldsUpNobody(t *testing.T) {
	tables, r, key := reportingTables(t, 2, 100)
	intend(t, r.Store, key, whole.Spec)
	look := streamed(t, tables, key)
	_, err := look.Sign(t.Context())
	require.NoError(t, err)
	_, err = look.Snapshot(t.Context())
	require.NoError(t, err)
	tables.SetWait(time.Hour)
	free, freeTurns := tables.Fill(t.Context(), t, 0), tables.Begin(as(t, "other0"), t)
	has := tables.Parts()
	asks, leave := context.WithCancel(as(t, "other0"))
	const polls = 4
	left := make(chan error, polls)
	for range polls {
		go func() { left <- take(tables.CombinedStatus(asks, key, nil)) }()
	}
	require.Eventually(t, func() bool { return tables.Parts() == has+polls }, time.Minute, time.Millisecond, "each waits by itself")
	require.NoError(t, take(tables.CombinedStatus(as(t, "one"), key, nil)))
	leave()
	for range polls {
		require.ErrorIs(t, <-left, context.Canceled)
	}

	tables.SetWait(3 * time.Second)
	go func() { left <- take(tables.CombinedStatus(as(t, "other0"), key, nil)) }()
	require.Eventually(t, func() bool { return tables.Parts() == has+1 }, time.Minute, time.Millisecond, "it waits")
	unwritten, err := tables.CombinedStatus(as(t, "one"), key, nil)
	require.NoError(t, err)
	require.NoError(t, <-left, "there is room for the answer now, though no turn for who waits")
	require.NoError(t, take(unwritten, nil))
	freeTurns()
	free()
	require.True(t, tables.Idle())
}

// TestAnAnswerThatIsTooLargeAsJSONIsRefused: texts of signs that JSON escapes are six times as large there as in a table.
func TestAnAnswerThatIsTooLargeAsJSONIsRefused(t *testing.T) {
	tables, r, key := reportingTables(t, 2, 60_000)
	intend(t, r.Store, key, whole.Spec)
	for name, ask := range waysToAsk(t, tables, key) {
		t.Run(name, func(t *testing.T) {
			service.SetMostJSON(t, 10)
			err := take(ask())
			require.True(t, fail.Is(err, fail.Invalid), "%v", err)
			require.ErrorContains(t, err, "would have more than 64 MiB; ask for fewer objects")
			require.True(t, tables.Idle())
		})
	}
}

// TestARefusedAnswerCostsNoLook: only its text was too large, or had no room, and what clusters report need not be looked at again, for requests or for a stream.
func TestARefusedAnswerCostsNoLook(t *testing.T) {
	service.SetMostAnswers(t, 8<<20, 2<<20)
	tables, r, key := reportingTables(t, 40, 60_000)
	intend(t, r.Store, key, whole.Spec)
	look := streamed(t, tables, key)
	refused := func(want fail.Kind, refuse func() (free func())) {
		t.Helper()
		for range 2 {
			free := refuse()
			err := take(tables.CombinedStatus(t.Context(), key, nil))
			require.True(t, fail.Is(err, want), "%v", err)
			free()
			require.EqualValues(t, 1, r.times.Load())
		}
	}
	refused(fail.Invalid, func() func() { return service.SetMostJSON(t, 10) })
	refused(fail.Exhausted, func() func() { return tables.Fill(t.Context(), t, 0) })
	_, err := look.Sign(t.Context())
	require.NoError(t, err)
	_, err = look.Snapshot(t.Context())
	require.NoError(t, err)
	require.NoError(t, take(tables.CombinedStatus(t.Context(), key, nil)))
	require.EqualValues(t, 1, r.times.Load())
	require.True(t, tables.Idle())
}

// TestALastAnswerTakesNoRoomOfTheNextOne: where there is room for one of them alone, who asks again is answered with the next one, and waits for nobody.
func TestALastAnswerTakesNoRoomOfTheNextOne(t *testing.T) {
	service.SetMostAnswers(t, 8<<20, 2<<20)
	tables, r, key := reportingTables(t, 20, 60_000)
	intend(t, r.Store, key, whole.Spec)
	ask := func() error { return take(tables.CombinedStatus(t.Context(), key, nil)) }
	require.NoError(t, ask())
	r.object.JSON = []byte(strings.ReplaceAll(string(r.object.JSON), "x", "y"))
	o, err := r.Get(t.Context(), domain.DeploymentIntentGroups, key)
	require.NoError(t, err)
	require.NoError(t, r.Replace(t.Context(), o))
	set, answer := tables.KeptSizes()
	free := tables.Fill(t.Context(), t, set+answer+answer/2)
	require.NoError(t, ask())
	require.EqualValues(t, 2, r.times.Load(), "what was looked at is not looked at again for that")
	free()
	require.True(t, tables.Idle())
}

// TestAReadThatNobodyWantsEnds where it is, and others have its turn.
func TestAReadThatNobodyWantsEnds(t *testing.T) {
	const clusters = 200
	tables, r, key := reportingTables(t, clusters, 10)
	tables.SetWait(time.Hour)
	intend(t, r.Store, key, whole.Spec)
	r.hold = make(chan struct{})
	const turns = limits.AnswersAtOnce / 2
	asks, leave := context.WithCancel(t.Context())
	left := make(chan error, turns)
	for n := range turns {
		go func() {
			left <- take(tables.CombinedStatus(asks, key, url.Values{"kind": {"Deployment", fmt.Sprint(n)}}))
		}()
	}
	require.Eventually(t, func() bool { return r.going.Load() == turns }, time.Minute, time.Millisecond)
	leave()
	for range turns {
		require.ErrorIs(t, <-left, context.Canceled)
	}
	rows := 0
	require.Eventually(t, func() bool {
		select {
		case r.hold <- struct{}{}:
			rows++
		default:
		}
		return tables.Idle()
	}, time.Minute, time.Millisecond)
	require.Less(t, rows, turns*clusters/2)
	close(r.hold)
	require.NoError(t, take(tables.CombinedStatus(t.Context(), key, nil)))
}

// TestAnAnswerIsOfWhoTakesIt: who has taken theirs has room for others, however slowly the next caller takes the same.
func TestAnAnswerIsOfWhoTakesIt(t *testing.T) {
	tables, r, key := reportingTables(t, 2, 60_000)
	intend(t, r.Store, key, whole.Spec)
	ask := func(name string) *service.TablesDocument {
		t.Helper()
		d, err := tables.CombinedStatus(as(t, name), key, nil)
		require.NoError(t, err)
		return d
	}
	one, other := ask("one"), ask("other")
	asked := tables.Askers()
	require.Len(t, asked, 1)
	again := ask("one")
	require.NoError(t, take(one, nil))
	require.Equal(t, asked, tables.Askers(), "it has another one")
	require.NoError(t, take(again, nil))
	left := tables.Askers()
	require.Len(t, left, 1)
	require.NotEqual(t, asked, left)
	require.NoError(t, take(other, nil))
	require.True(t, tables.Idle())
}

// as is who asks by a name.
func as(t *testing.T, name string) context.Context {
	return caller.WithIdentity(t.Context(), caller.Identity{Kind: caller.User, Name: name}, nil)
}

// TestAStreamLooksAgainAfterALookThatFailed: of two looks that others have made since it asked, the last one has left tables without rows.
func TestAStreamLooksAgainAfterALookThatFailed(t *testing.T) {
	tables, r, key := reportingTables(t, 2, 10)
	intend(t, r.Store, key, whole.Spec)
	look := streamed(t, tables, key)
	_, err := look.Sign(t.Context())
	require.NoError(t, err)
	ask := func() error { return take(tables.CombinedStatus(t.Context(), key, nil)) }
	s, err := look.Snapshot(&slow{Context: t.Context(), first: sync.OnceFunc(func() {
		require.NoError(t, ask())
		i := domain.StatusIntents.New().(*domain.StatusIntent)
		i.Parent, i.Name, i.Spec.StatusCollectors = key, "another", []string{"c"}
		require.NoError(t, r.Create(t.Context(), i))
		r.err = errors.New("lost")
		require.ErrorIs(t, ask(), r.err)
		r.err = nil
	})})
	require.NoError(t, err)
	require.Contains(t, string(s.(notify.Answer).Document()), strings.Repeat("x", 10))
}

// slow is a context of one who does not wait for a turn at once: others do something first.
type slow struct {
	context.Context
	first func()
}

func (s *slow) Done() <-chan struct{} {
	s.first()
	return s.Context.Done()
}

// streamed has a stream of combined-status until the test ends.
func streamed(t *testing.T, tables *service.Tables, key domain.Key) notify.Look {
	t.Helper()
	q, err := service.CombinedStatusQuestion(nil)
	require.NoError(t, err)
	look, ok := tables.Look(key, q.Extent())
	require.True(t, ok)
	t.Cleanup(look.Close)
	return look
}

// intend stores a collector, and an intent of a group that names it.
func intend(t *testing.T, db *store.Store, key domain.Key, spec domain.StatusCollectorSpec) {
	t.Helper()
	c := domain.ProjectCollectors.New().(*domain.StatusCollector)
	c.Parent, c.Metadata.Name, c.Spec = "projects/p", "c", spec
	require.NoError(t, db.Create(t.Context(), c))
	i := domain.StatusIntents.New().(*domain.StatusIntent)
	i.Parent, i.Name, i.Spec.StatusCollectors = key, "i", []string{"c"}
	require.NoError(t, db.Create(t.Context(), i))
}
