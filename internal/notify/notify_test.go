package notify_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/notify"
	"github.com/drover-io/drover/internal/notify/notifytest"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/status"
)

const group = domain.Key("projects/fleet/composite-apps/collectd/v1/deployment-intent-groups/everywhere")

// clock is a time that passes when a test says so.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// deadline bounds every wait; only a defect or a very busy machine reaches it.
const deadline = time.Minute

type world struct {
	*testing.T
	statuses *notifytest.Statuses
	hub      *notify.Hub
	clock    *clock
	metrics  *prometheus.Registry
	closed   atomic.Int64 // looks that have ended
}

// closing is a look that counts its end.
type closing struct {
	notify.Look
	closed *atomic.Int64
}

func (c *closing) Close() {
	c.Look.Close()
	c.closed.Add(1)
}

// newWorld has two apps on two clusters with two resources each.
func newWorld(t *testing.T, o notify.Options) *world {
	t.Helper()
	w := &world{T: t, statuses: notifytest.New(2, 2, 2), clock: &clock{now: time.Unix(1e9, 0)}, metrics: prometheus.NewRegistry()}
	o.Interval, o.Now = time.Millisecond, w.clock.Now
	looks := notify.Of(w.statuses)
	var err error
	w.hub, err = notify.New(func(owner domain.Key, e notify.Extent) notify.Look { return &closing{looks(owner, e), &w.closed} }, o, w.metrics)
	require.NoError(t, err)
	t.Cleanup(w.hub.Close)
	return w
}

func query(t testing.TB, text string) status.Query {
	t.Helper()
	v, err := url.ParseQuery(text)
	require.NoError(t, err)
	q, err := status.ParseQuery(v)
	require.NoError(t, err)
	return q
}

func (w *world) subscribe(text, after string) *notify.Subscription {
	w.Helper()
	s, err := w.hub.Subscribe(w.Context(), group, query(w, text), after)
	require.NoError(w, err)
	w.Cleanup(s.Close)
	return s
}

func (w *world) next(s *notify.Subscription, kind notify.Kind) notify.Event {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), deadline)
	defer cancel()
	e, err := s.Next(ctx)
	require.NoError(w, err)
	require.Equal(w, kind, e.Kind, "%s", e.Data)
	return e
}

func (w *world) over(s *notify.Subscription) {
	w.Helper()
	_, err := s.Next(w.Context())
	require.ErrorIs(w, err, io.EOF)
}

// metric is the value of one without labels.
func (w *world) metric(name string) float64 {
	w.Helper()
	families, err := w.metrics.Gather()
	require.NoError(w, err)
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	require.FailNow(w, "no such metric", name)
	return 0
}

func (w *world) eventually(is func() bool) {
	w.Helper()
	require.Eventually(w, is, deadline, time.Millisecond)
}

// looks waits until everything that was there to be seen has been seen.
func (w *world) looks() {
	w.Helper()
	before, _ := w.statuses.Asked()
	w.eventually(func() bool { now, _ := w.statuses.Asked(); return now > before+2 })
}

func TestFirstTheDocumentThenWhatChanges(t *testing.T) {
	w := newWorld(t, notify.Options{})
	s := w.subscribe("", "")
	first := w.next(s, notify.Status)
	require.Contains(t, string(first.Data), `"rsync-status":{"Pending":8}`)
	w.statuses.Mark(1, 0, 1, domain.MarkApplied)
	change := w.next(s, notify.Change)
	require.NotEqual(t, first.ID, change.ID)
	require.JSONEq(t, `{"rsync-status":{"Applied":1,"Pending":7},"apps":[{"name":"app-1","clusters":[{"cluster-provider":"provider","cluster":"edge-0000","resources":[
		{"GVK":{"Group":"apps","Version":"v1","Kind":"Deployment"},"name":"component-1","rsync-status":"Applied"}]}]}]}`, string(change.Data))
	w.statuses.Change(func(s *status.Source) { s.Status = domain.ContextInstantiated })
	require.JSONEq(t, `{"status":"Instantiated"}`, string(w.next(s, notify.Change).Data))
}

func TestNothingIsEvaluatedWhileNothingChanges(t *testing.T) {
	w := newWorld(t, notify.Options{})
	w.next(w.subscribe("", ""), notify.Status)
	for range 5 {
		w.looks()
	}
	_, evaluated := w.statuses.Asked()
	require.Equal(t, 1, evaluated)
	w.clock.pass(policy.StreamAnew)
	w.eventually(func() bool { _, n := w.statuses.Asked(); return n == 2 })
	require.Zero(t, w.metric("drover_status_changes_total"))
}

func TestManySubscribersCostOneEvaluationAChange(t *testing.T) {
	const subscribers, changes = 500, 4
	w := newWorld(t, notify.Options{})
	queries := []string{"", "app=app-1", "status=deployed", "cluster=provider%2Bedge-0001&output=summary"}
	var all []*notify.Subscription
	for i := range subscribers {
		s := w.subscribe(queries[i%len(queries)], "")
		w.next(s, notify.Status)
		all = append(all, s)
	}
	_, before := w.statuses.Asked()
	require.Equal(t, len(queries), before, "once when a query is new")
	require.InDelta(t, subscribers, w.metric("drover_status_subscribers"), 0)
	for i := range changes {
		w.statuses.Mark(1, 1, i%2, []domain.Mark{domain.MarkApplied, domain.MarkRefused}[i/2])
		for _, s := range all {
			w.next(s, notify.Change)
		}
	}
	_, after := w.statuses.Asked()
	require.Equal(t, changes, after-before)
	require.InDelta(t, after, w.metric("drover_status_evaluations_total"), 0)
}

func TestSubscribersSeeWhatTheirQueryShows(t *testing.T) {
	w := newWorld(t, notify.Options{})
	all, filtered := w.subscribe("", ""), w.subscribe("app=app-0&output=all", "")
	w.next(all, notify.Status)
	require.NotContains(t, string(w.next(filtered, notify.Status).Data), "app-1")
	w.statuses.Mark(1, 0, 0, domain.MarkApplied) // not in the filter
	w.next(all, notify.Change)
	w.statuses.Mark(0, 0, 0, domain.MarkApplied)
	w.next(all, notify.Change)
	require.Contains(t, string(w.next(filtered, notify.Change).Data), "app-0")
}

func TestResumeByID(t *testing.T) {
	w := newWorld(t, notify.Options{Backlog: 3})
	s := w.subscribe("", "")
	ids := []string{w.next(s, notify.Status).ID}
	for i := range 4 {
		w.statuses.Mark(i/2, i%2, 0, domain.MarkApplied)
		ids = append(ids, w.next(s, notify.Change).ID)
	}
	s.Close()
	require.Equal(t, ids[2], w.next(w.subscribe("", ids[1]), notify.Change).ID, "all that came after is known")
	later := w.subscribe("", ids[3])
	require.Equal(t, ids[4], w.next(later, notify.Change).ID)
	latest := w.subscribe("", ids[4])
	w.statuses.Mark(0, 0, 1, domain.MarkApplied)
	require.Equal(t, w.next(later, notify.Change), w.next(latest, notify.Change), "nothing twice")
	for name, id := range map[string]string{
		"older than what is kept": ids[0], "of another process": "KRZ5DWYMBXAEJGHQTOLFCVNPSU-2", "of nobody": "none",
		"not there yet": ids[4][:len(ids[4])-1] + "77",
	} {
		t.Run(name, func(*testing.T) { w.next(w.subscribe("", id), notify.Status) })
	}
	t.Run("of another query", func(*testing.T) { w.next(w.subscribe("output=summary", ids[3]), notify.Status) })
}

func TestSlowReaderIsDropped(t *testing.T) {
	for name, o := range map[string]notify.Options{"by number": {Backlog: 2}, "by size": {Size: 600}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, o)
			slow, quick := w.subscribe("", ""), w.subscribe("", "")
			known := w.next(slow, notify.Status).ID
			w.next(quick, notify.Status)
			for i := range 4 {
				w.statuses.Mark(i/2, i%2, 0, domain.MarkApplied)
				known = w.next(quick, notify.Change).ID
			}
			end := w.next(slow, notify.Dropped)
			require.Contains(t, string(end.Data), "too slow")
			require.Empty(t, end.ID)
			w.over(slow)
			require.InDelta(t, 1, w.metric("drover_status_subscribers_dropped_total"), 0)
			w.statuses.Mark(0, 0, 1, domain.MarkApplied)
			w.next(quick, notify.Change)
			w.next(w.subscribe("", known), notify.Change)
		})
	}
}

func TestLatestSkipsWhatIsOutOfDate(t *testing.T) {
	w := newWorld(t, notify.Options{Backlog: 1})
	slow, quick := w.subscribe("", ""), w.subscribe("", "")
	answer, err := slow.Latest(t.Context())
	require.NoError(t, err)
	require.Contains(t, string(answer.Document()), `{"Pending":8}`)
	w.next(quick, notify.Status)
	for i := range 4 {
		w.statuses.Mark(i/2, i%2, 0, domain.MarkApplied)
		w.next(quick, notify.Change)
	}
	answer, err = slow.Latest(t.Context())
	require.NoError(t, err)
	require.Contains(t, string(answer.Document()), `{"Applied":4,"Pending":4}`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = slow.Latest(ctx)
	require.ErrorIs(t, err, context.Canceled, "nothing new")
}

func TestTheEndIsTold(t *testing.T) {
	gone := fail.New(fail.NotFound, `deployment intent group "everywhere" not found`)
	t.Run("group deleted", func(t *testing.T) {
		w := newWorld(t, notify.Options{})
		s := w.subscribe("", "")
		w.next(s, notify.Status)
		w.statuses.Fail(gone)
		var reason notify.Reason
		require.NoError(t, json.Unmarshal(w.next(s, notify.End).Data, &reason))
		require.Equal(t, fail.NotFound, reason.Kind)
		require.Contains(t, reason.Reason, gone.Message)
		w.over(s)
		_, err := w.hub.Subscribe(t.Context(), group, query(t, ""), "")
		require.ErrorIs(t, err, gone)
		w.statuses.Fail(nil)
		w.next(w.subscribe("", ""), notify.Status)
	})
	t.Run("process stops", func(t *testing.T) {
		w := newWorld(t, notify.Options{})
		s := w.subscribe("", "")
		w.next(s, notify.Status)
		w.statuses.Mark(0, 0, 0, domain.MarkApplied)
		w.next(s, notify.Change)
		w.hub.Close()
		w.next(s, notify.End)
		w.over(s)
		_, err := w.hub.Subscribe(t.Context(), group, query(t, ""), "")
		require.True(t, fail.Is(err, fail.Unavailable))
		_, err = s.Latest(t.Context())
		require.True(t, fail.Is(err, fail.Unavailable))
	})
	t.Run("the query does not fit any more", func(t *testing.T) {
		w := newWorld(t, notify.Options{})
		s, other := w.subscribe("app=app-1", ""), w.subscribe("", "")
		w.next(s, notify.Status)
		w.next(other, notify.Status)
		w.statuses.Change(func(s *status.Source) { s.Apps = s.Apps[:1] })
		require.Contains(t, string(w.next(s, notify.Failed).Data), "app-1")
		require.Contains(t, string(w.next(other, notify.Change).Data), `"removed"`)
	})
}

func TestNothingStandsForLongThatNobodyConfirms(t *testing.T) {
	for text, patience := range map[string]time.Duration{"": policy.StreamPatience, "status=ready": domain.PulseLife} {
		t.Run(text, func(t *testing.T) {
			w := newWorld(t, notify.Options{})
			s := w.subscribe(text, "")
			w.next(s, notify.Status)
			w.statuses.Fail(fail.New(fail.Unavailable, "the database does not answer"))
			_, err := w.hub.Subscribe(t.Context(), group, query(t, text+"&cluster=provider%2Bedge-0000&app=app-0"), "")
			require.True(t, fail.Is(err, fail.Unavailable), "who comes is told at once")
			w.clock.pass(patience)
			w.looks()
			w.statuses.Fail(nil)
			w.statuses.Change(func(s *status.Source) { s.Status = domain.ContextInstantiated })
			w.next(s, notify.Change)
			w.looks()
			w.statuses.Fail(fail.New(fail.Unavailable, "the database does not answer"))
			w.clock.pass(patience + time.Second)
			require.Contains(t, string(w.next(s, notify.Failed).Data), "database")
			w.over(s)
		})
	}
}

func TestLimits(t *testing.T) {
	w := newWorld(t, notify.Options{Subscribers: 2, Views: 1})
	first := w.subscribe("", "")
	_, err := w.hub.Subscribe(t.Context(), group, query(t, "output=summary"), "")
	require.True(t, fail.Is(err, fail.Unavailable))
	w.subscribe("", "")
	_, err = w.hub.Subscribe(t.Context(), group, query(t, ""), "")
	require.True(t, fail.Is(err, fail.Unavailable))
	first.Close()
	first.Close()
	w.subscribe("", "")
}

func TestWhoComesBackSoonGoesOn(t *testing.T) {
	w := newWorld(t, notify.Options{Views: 1})
	s := w.subscribe("", "")
	id := w.next(s, notify.Status).ID
	s.Close()
	w.statuses.Mark(0, 0, 0, domain.MarkApplied)
	w.eventually(func() bool { return w.metric("drover_status_changes_total") == 1 })
	s = w.subscribe("", id)
	w.next(s, notify.Change)
	s.Close()
	require.Zero(t, w.metric("drover_status_subscribers"))
	w.clock.pass(policy.StreamLinger + time.Second)
	w.eventually(func() bool { return w.closed.Load() == 1 })
	w.next(w.subscribe("", id), notify.Status) // what was kept for it is forgotten
}

// TestWhoHasLeftMakesRoom: what is kept for who may come back keeps nobody out, and goes by who has left first. Who subscribes to one group after
// the other has no more feeds than views.
func TestWhoHasLeftMakesRoom(t *testing.T) {
	w := newWorld(t, notify.Options{Views: 2})
	first := w.subscribe("", "")
	firstID := w.next(first, notify.Status).ID
	first.Close()
	w.clock.pass(time.Second)
	second := w.subscribe("output=summary", "")
	secondID := w.next(second, notify.Status).ID
	second.Close()
	third := w.subscribe("app=app-1", "")
	w.next(third, notify.Status)
	w.statuses.Mark(1, 0, 0, domain.MarkApplied)
	w.next(third, notify.Change)
	second = w.subscribe("output=summary", secondID)
	w.next(second, notify.Change)
	_, err := w.hub.Subscribe(t.Context(), group, query(t, ""), firstID)
	require.True(t, fail.Is(err, fail.Unavailable), "there are two who listen: %v", err)
	third.Close()

	const groups = 50
	for n := range groups {
		s, err := w.hub.Subscribe(t.Context(), domain.Key(fmt.Sprint(group, "-", n)), query(t, ""), "")
		require.NoError(t, err, "%d", n)
		s.Close()
	}
	w.eventually(func() bool { return w.closed.Load() >= groups-1 }) // the last one may be asked for again
	w.statuses.Mark(1, 1, 0, domain.MarkApplied)
	w.next(second, notify.Change)
	w.next(w.subscribe("", firstID), notify.Status) // it was the first to go
}

func TestFirstQuestionIsRefusedAsThePlainOne(t *testing.T) {
	w := newWorld(t, notify.Options{})
	_, err := w.hub.Subscribe(t.Context(), group, query(t, "app=none"), "")
	require.True(t, fail.Is(err, fail.Invalid))
	require.ErrorContains(t, err, "none")
	require.Zero(t, w.metric("drover_status_subscribers"))
}

// processor is the processor's time that the process has had.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkChange has one change told to subscribers of one group of 3 apps on 100 clusters with 4 resources each.
func BenchmarkChange(b *testing.B) {
	for _, subscribers := range []int{1, 500} {
		b.Run(fmt.Sprintf("%d subscribers", subscribers), func(b *testing.B) {
			statuses := notifytest.New(3, 100, 4)
			still := time.Now() // no time passes: a look is not followed by a wait
			hub, err := notify.New(notify.Of(statuses), notify.Options{Interval: time.Microsecond, Now: func() time.Time { return still }}, prometheus.NewRegistry())
			require.NoError(b, err)
			defer hub.Close()
			seen := make(chan struct{}, subscribers)
			for range subscribers {
				s, err := hub.Subscribe(b.Context(), group, query(b, ""), "")
				require.NoError(b, err)
				go func() {
					defer s.Close()
					for {
						if e, err := s.Next(b.Context()); err != nil || e.Kind == notify.End {
							return
						}
						seen <- struct{}{}
					}
				}()
			}
			wait := func() {
				for range subscribers {
					<-seen
				}
			}
			wait()
			_, before := statuses.Asked()
			marks := []domain.Mark{domain.MarkApplied, domain.MarkPending}
			changes, began := 0, processor(b)
			for b.Loop() {
				statuses.Mark(1, 50, 2, marks[changes%2])
				changes++
				wait()
			}
			_, after := statuses.Asked()
			b.ReportMetric(float64(after-before)/float64(changes), "evaluations/op")
			b.ReportMetric(float64((processor(b)-began).Microseconds())/float64(changes), "cpu-µs/op")
		})
	}
}

// broken panics when a status is evaluated.
type broken struct{ *notifytest.Statuses }

func (broken) Snapshot(context.Context, domain.Key, status.Extent) (notify.StatusSnapshot, error) {
	panic("a status that nobody thought of")
}

func TestAPanicEndsAStreamAndNotTheProcess(t *testing.T) {
	hub, err := notify.New(notify.Of(broken{notifytest.New(1, 1, 1)}), notify.Options{Interval: time.Millisecond}, prometheus.NewRegistry())
	require.NoError(t, err)
	t.Cleanup(hub.Close)
	_, err = hub.Subscribe(t.Context(), group, status.Query{Type: status.TypeRsync, Output: status.OutputAll}, "")
	require.Equal(t, fail.Internal, fail.KindOf(err))
	require.NotContains(t, fail.TextOf(err), "nobody thought of")
}
