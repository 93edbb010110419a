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
