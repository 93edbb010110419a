package notify_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/notify"
	"github.com/drover-io/drover/internal/policy"
)

// counter is a look at a number, which says how it is used.
type counter struct {
	mu                       sync.Mutex
	number, evaluated, looks int
	closed                   int
	kept                     int64
}

func (c *counter) locked(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
}

func (c *counter) Sign(context.Context) (sign string, _ error) {
	c.locked(func() { sign = strconv.Itoa(c.number) })
	return sign, nil
}

func (c *counter) Snapshot(context.Context) (s notify.Snapshot, _ error) {
	c.locked(func() { c.evaluated++; s = c.number })
	return s, nil
}

func (c *counter) Size() (kept int64) {
	c.locked(func() { kept = c.kept })
	return kept
}
func (c *counter) Reported() bool { return false }
func (c *counter) Close()         { c.locked(func() { c.closed++ }) }

// multiple asks for a multiple of the number.
type multiple int

type numberExtent struct{}

func (m multiple) ID() string            { return fmt.Sprint("times ", int(m)) }
func (m multiple) Extent() notify.Extent { return numberExtent{} }
func (m multiple) Answer(_ context.Context, s notify.Snapshot, before notify.Answer) (notify.Answer, error) {
	if now := number(s.(int) * int(m)); now != before {
		return now, nil
	}
	return nil, nil
}

type number int

func (n number) Document() []byte { return []byte(strconv.Itoa(int(n))) }
func (n number) Size() int64      { return 0 }
func (n number) Since(before notify.Answer) ([]byte, error) {
	return fmt.Appendf(nil, "%+d", n-before.(number)), nil
}

// TestAnyQuestionIsAnsweredFromOneLook whatever is asked, by however many.
func TestAnyQuestionIsAnsweredFromOneLook(t *testing.T) {
	c := &counter{number: 1}
	at := &clock{now: time.Unix(1e9, 0)}
	hub, err := notify.New(func(owner domain.Key, e notify.Extent) notify.Look {
		require.Equal(t, group, owner)
		require.Equal(t, numberExtent{}, e)
		c.locked(func() { c.looks++ })
		return c
	}, notify.Options{Interval: time.Millisecond, Now: at.Now}, prometheus.NewRegistry())
	require.NoError(t, err)
	defer hub.Close()
	w := &world{T: t}
	var streams []*notify.Subscription
	for i := range 20 {
		s, err := hub.SubscribeTo(t.Context(), group, multiple(i%2+1), "")
		require.NoError(t, err)
		require.Equal(t, strconv.Itoa(i%2+1), string(w.next(s, notify.Status).Data))
		streams = append(streams, s)
	}
	var before int
	c.locked(func() { before = c.evaluated; c.number = 3 })
	for i, s := range streams {
		require.Equal(t, fmt.Sprintf("+%d", 2*(i%2+1)), string(w.next(s, notify.Change).Data))
		s.Close()
	}
	c.locked(func() {
		require.Equal(t, before+1, c.evaluated)
		require.Equal(t, 1, c.looks)
		require.Zero(t, c.closed)
	})
	at.pass(policy.StreamLinger + time.Second)
	w.eventually(func() (closed bool) { c.locked(func() { closed = c.closed == 1 }); return closed })
}

// TestLooksHaveTheirTurn: nothing is looked at nor evaluated without a turn. One that does not come ends no stream that goes on, and is the answer
// to who waits for a first document.
func TestLooksHaveTheirTurn(t *testing.T) {
	c := &counter{number: 1}
	var mu sync.Mutex
	var refused error
	held, signs, evaluations, refusals := 0, 0, 0, 0
	turn := func(_ context.Context, owner domain.Key, asks bool) (func(), error) {
		require.Equal(t, group, owner)
		mu.Lock()
		defer mu.Unlock()
		if refused != nil {
			refusals++
			return nil, refused
		}
		held++
		if signs++; asks {
			signs--
			evaluations++
		}
		return func() {
			mu.Lock()
			defer mu.Unlock()
			held--
		}, nil
	}
	let := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		refused, refusals = err, 0
	}
	at := &clock{now: time.Unix(1e9, 0)}
	hub, err := notify.New(func(domain.Key, notify.Extent) notify.Look { return c }, notify.Options{Interval: time.Millisecond, Now: at.Now, Turn: turn},
		prometheus.NewRegistry())
	require.NoError(t, err)
	w := &world{T: t}
	s, err := hub.SubscribeTo(t.Context(), group, multiple(1), "")
	require.NoError(t, err)
	w.next(s, notify.Status)
	let(fail.New(fail.Exhausted, "others ask, too"))
	var before int
	c.locked(func() { before = c.evaluated; c.number = 3 })
	_, err = hub.SubscribeTo(t.Context(), group, multiple(2), "")
	require.True(t, fail.Is(err, fail.Exhausted), "%v", err)
	c.locked(func() { require.Equal(t, before, c.evaluated) })
	let(nil)
	require.Equal(t, "+2", string(w.next(s, notify.Change).Data))
	let(fail.New(fail.Exhausted, "others ask, too"))
	// The look that made the change is over, so that the time does not pass in it: it would say that it was made after that.
	w.eventually(func() bool { mu.Lock(); defer mu.Unlock(); return refusals > 0 })
	at.pass(policy.StreamPatience + time.Second)
	w.next(s, notify.Failed)
	hub.Close()
	require.Zero(t, held)
	require.GreaterOrEqual(t, signs, evaluations)
	c.locked(func() { require.Equal(t, evaluations, c.evaluated) })
}

// heavy asks for an answer of a size, and of as many bytes more as the number says where it grows.
type heavy struct {
	name  string
	size  int64
	grows bool
}

func (h heavy) ID() string            { return h.name }
func (h heavy) Extent() notify.Extent { return numberExtent{} }
func (h heavy) Answer(_ context.Context, s notify.Snapshot, before notify.Answer) (notify.Answer, error) {
	now := weighty{number(s.(int)), h.size}
	if h.grows {
		now.size += int64(s.(int))
	} else if before != nil {
		return nil, nil
	}
	return now, nil
}

type weighty struct {
	number
	size int64
}

func (w weighty) Size() int64 { return w.size }
func (w weighty) Since(before notify.Answer) ([]byte, error) {
	return w.number.Since(before.(weighty).number)
}

// TestStreamsTakeNoMoreMemoryThanTheyMay: what nobody reads any more makes room, and what does not fit is refused.
func TestStreamsTakeNoMoreMemoryThanTheyMay(t *testing.T) {
	c := &counter{}
	hub, err := notify.New(func(domain.Key, notify.Extent) notify.Look { return c },
		notify.Options{Interval: time.Millisecond, Bytes: 100}, prometheus.NewRegistry())
	require.NoError(t, err)
	defer hub.Close()
	w := &world{T: t}
	subscribe := func(h heavy) *notify.Subscription {
		t.Helper()
		s, err := hub.SubscribeTo(t.Context(), group, h, "")
		require.NoError(t, err)
		w.next(s, notify.Status)
		return s
	}
	refused := func(h heavy) {
		t.Helper()
		_, err := hub.SubscribeTo(t.Context(), group, h, "")
		require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
	}
	first := subscribe(heavy{name: "first", size: 60})
	refused(heavy{name: "second", size: 50})
	first.Close()
	second := subscribe(heavy{name: "second", size: 50})
	defer second.Close()
	refused(heavy{name: "first", size: 60})
	grows := subscribe(heavy{name: "grows", size: 20, grows: true})
	c.locked(func() { c.number = 10 })
	w.next(grows, notify.Change)
	c.locked(func() { c.number = 40 })
	require.True(t, fail.Is(w.next(grows, notify.Failed).Cause, fail.Unavailable))
	w.over(grows)
	subscribe(heavy{name: "another", size: 50}).Close()
	c.locked(func() { c.kept, c.number = 60, 50 })
	require.True(t, fail.Is(w.next(second, notify.Failed).Cause, fail.Unavailable), "what it is looked with counts, too")
	c.locked(func() { c.kept = 0 })
	subscribe(heavy{name: "first", size: 100}).Close()
}

// shared is a hub whose looks take nothing, and what subscribes to questions of projects there.
type shared struct {
	*world
	hub *notify.Hub
	n   int
}

func newSharedHub(t *testing.T, o notify.Options) *shared {
	t.Helper()
	o.Interval = time.Millisecond
	c := &counter{}
	hub, err := notify.New(func(domain.Key, notify.Extent) notify.Look { return c }, o, prometheus.NewRegistry())
	require.NoError(t, err)
	t.Cleanup(hub.Close)
	return &shared{world: &world{T: t}, hub: hub}
}

// ask asks what nobody has asked before, of a group of a project.
func (s *shared) ask(project string, size int64) (*notify.Subscription, error) {
	s.n++
	owner := domain.Join("projects", project, "composite-apps/ca/v1/deployment-intent-groups", fmt.Sprint("g", s.n%3))
	return s.hub.SubscribeTo(s.Context(), owner, heavy{name: fmt.Sprint(s.n), size: size}, "")
}

func (s *shared) subscribe(project string, size int64) *notify.Subscription {
	s.Helper()
	subscribed, err := s.ask(project, size)
	require.NoError(s, err)
	s.Cleanup(subscribed.Close)
	s.next(subscribed, notify.Status)
	return subscribed
}

func (s *shared) refused(project string, size int64) {
	s.Helper()
	_, err := s.ask(project, size)
	require.True(s, fail.Is(err, fail.Unavailable), "%v", err)
}

// ended is a subscription whose view was taken for others.
func (s *shared) ended(subscribed *notify.Subscription) {
	s.Helper()
	e := s.next(subscribed, notify.Failed)
	require.True(s, fail.Is(e.Cause, fail.Unavailable))
	require.Contains(s, string(e.Data), "others ask for streams, too")
	s.over(subscribed)
}

// TestNoProjectHasAllStreams: who has asked for all there are gives others of them until these have as many. Those that are alone have all.
func TestNoProjectHasAllStreams(t *testing.T) {
	s := newSharedHub(t, notify.Options{Views: 6})
	var flood []*notify.Subscription
	for range 6 {
		flood = append(flood, s.subscribe("q", 1))
	}
	s.refused("q", 1)
	s.subscribe("p", 1)
	s.ended(flood[5])
	s.refused("q", 1)
	s.subscribe("p", 1)
	s.ended(flood[4])
	s.subscribe("p", 1)
	s.ended(flood[3])
	s.refused("p", 1)
	s.refused("q", 1)
	s.subscribe("third", 1) // of one of the two
	s.refused("p", 1)
	s.refused("q", 1)
	flood[0].Close()
	s.subscribe("q", 1) // what nobody reads goes first
}

// TestNoProjectHasAllMemoryOfStreams is the same of the bytes; what is one's only stream, and large, is not ended for others.
func TestNoProjectHasAllMemoryOfStreams(t *testing.T) {
	s := newSharedHub(t, notify.Options{Bytes: 100})
	var flood []*notify.Subscription
	for range 10 {
		flood = append(flood, s.subscribe("q", 10))
	}
	s.refused("q", 10)
	s.subscribe("p", 25)
	for _, subscribed := range flood[7:] {
		s.ended(subscribed)
	}
	s.refused("p", 50)
	s.refused("q", 10)

	s = newSharedHub(t, notify.Options{Bytes: 100})
	s.subscribe("large", 60)
	s.subscribe("q", 30)
	s.refused("q", 20)
	s.refused("third", 20)
}
