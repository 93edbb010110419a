package store

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/fail"
)

// gate holds calls up until the test lets each go on.
type gate struct {
	begun   chan []int
	proceed chan struct{}
}

func newGate() *gate { return &gate{make(chan []int), make(chan struct{})} }

var errOdd = errors.New("odd")

func (g *gate) call(items []int) []error {
	g.begun <- items
	<-g.proceed
	outcomes := make([]error, len(items))
	for i, item := range items {
		if item%2 == 1 {
			outcomes[i] = errOdd
		}
	}
	return outcomes
}

// arrived waits until n items wait for the next call.
func arrived(g *gatherer[int], n int) bool {
	for {
		g.mu.Lock()
		waiting := len(g.waiting)
		g.mu.Unlock()
		if waiting >= n {
			return waiting == n
		}
		runtime.Gosched()
	}
}

func TestGathererMakesOneCallOfMany(t *testing.T) {
	gate := newGate()
	g := newGatherer(gate.call)
	const n = 2*maxBatch + 10
	outcomes := make([]error, n)
	var wg sync.WaitGroup
	put := func(i int) { wg.Go(func() { outcomes[i] = g.do(t.Context(), i) }) }

	put(0)
	require.Equal(t, []int{0}, <-gate.begun, "the first waits for nobody")
	for i := 1; i < n; i++ {
		put(i)
	}
	require.True(t, arrived(g, n-1))
	for _, size := range []int{maxBatch, maxBatch, 9} {
		gate.proceed <- struct{}{}
		require.Len(t, <-gate.begun, size)
	}
	gate.proceed <- struct{}{}
	wg.Wait()
	for i, err := range outcomes {
		if i%2 == 1 {
			require.ErrorIs(t, err, errOdd, "item %d", i)
		} else {
			require.NoError(t, err, "item %d", i)
		}
	}
}

func TestGathererLetsACallerGo(t *testing.T) {
	gate := newGate()
	g := newGatherer(gate.call)
	ctx, cancel := context.WithCancel(t.Context())
	left, stayed := make(chan error, 1), make(chan error, 1)
	go func() { left <- g.do(ctx, 0) }()
	<-gate.begun
	go func() { stayed <- g.do(t.Context(), 2) }()
	require.True(t, arrived(g, 1))
	cancel()
	require.ErrorIs(t, <-left, context.Canceled)
	gate.proceed <- struct{}{}
	<-gate.begun
	gate.proceed <- struct{}{}
	require.NoError(t, <-stayed, "the others are not held up")
}

// TestGathererForgetsWhatWasGivenUp: what waited for a slow call, and whose caller has gone, is not called for, unless it has to be.
func TestGathererForgetsWhatWasGivenUp(t *testing.T) {
	for _, lasts := range []bool{false, true} {
		gate := newGate()
		g := newGatherer(gate.call)
		g.lasts = lasts
		first, left, stayed := make(chan error, 1), make(chan error, 1), make(chan error, 1)
		go func() { first <- g.do(t.Context(), 0) }()
		<-gate.begun
		ctx, cancel := context.WithCancel(t.Context())
		go func() { left <- g.do(ctx, 2) }()
		require.True(t, arrived(g, 1))
		go func() { stayed <- g.do(t.Context(), 4) }()
		require.True(t, arrived(g, 2))
		cancel()
		require.ErrorIs(t, <-left, context.Canceled)
		gate.proceed <- struct{}{}
		want := []int{4}
		if lasts {
			want = []int{2, 4}
		}
		require.Equal(t, want, <-gate.begun)
		gate.proceed <- struct{}{}
		require.NoError(t, <-first)
		require.NoError(t, <-stayed)
	}
}

func TestGathererCloses(t *testing.T) {
	gate := newGate()
	g := newGatherer(gate.call)
	outcome, closed := make(chan error, 1), make(chan struct{})
	go func() { outcome <- g.do(t.Context(), 2) }()
	<-gate.begun
	go func() { g.close(t.Context()); close(closed) }()
	gate.proceed <- struct{}{}
	<-closed
	require.NoError(t, <-outcome, "what was there is done")
	require.True(t, fail.Is(g.do(t.Context(), 4), fail.Unavailable), "what comes later is refused")
}

// TestAGathererThatHangs does not hold up the end of the process.
func TestAGathererThatHangs(t *testing.T) {
	gate := newGate()
	g := newGatherer(gate.call)
	outcome := make(chan error, 1)
	go func() { outcome <- g.do(t.Context(), 2) }()
	<-gate.begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.close(ctx)
	gate.proceed <- struct{}{}
	require.NoError(t, <-outcome)
}

// TestACallThatPanics fails for all whose items are in it; the next one goes well.
func TestACallThatPanics(t *testing.T) {
	broken := true
	g := newGatherer(func(items []int) []error {
		if broken {
			panic("defect")
		}
		return make([]error, len(items))
	})
	require.ErrorContains(t, g.do(t.Context(), 1), "defect")
	broken = false
	require.NoError(t, g.do(t.Context(), 1))
	g.close(t.Context())
}
