package share

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// waitTime is how long a test waits for what is to come.
const waitTime = time.Minute

func TestSharedReadsBeginAfterTheyWereAskedFor(t *testing.T) {
	r := New[int]()
	begun, proceed := make(chan int), make(chan struct{})
	reads := 0
	read := func(context.Context) (int, error) {
		reads++
		n := reads
		begun <- n
		<-proceed
		return n, nil
	}
	type result struct {
		value int
		err   error
	}
	ask := func(ctx context.Context) <-chan result {
		answer := make(chan result, 1)
		go func() {
			v, err := r.Get(ctx, "key", read)
			answer <- result{v, err}
		}()
		return answer
	}
	// joined waits until somebody waits for the read after the one under way.
	joined := func() *call[int] {
		for {
			r.mu.Lock()
			next := r.next["key"]
			r.mu.Unlock()
			if next != nil {
				return next
			}
			runtime.Gosched()
		}
	}

	first := ask(t.Context())
	require.Equal(t, 1, <-begun)
	second := ask(t.Context())
	next := joined()
	require.Same(t, next, r.join("key", nil), "all that ask while a read is under way share the next")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, (<-ask(ctx)).err, context.Canceled)

	proceed <- struct{}{}
	require.Equal(t, result{1, nil}, <-first)
	require.Equal(t, 2, <-begun)
	proceed <- struct{}{}
	require.Equal(t, result{2, nil}, <-second)
}

// TestAReadThatNobodyWantsIsNotBegun: those who shared it have gone before the one under way was over.
func TestAReadThatNobodyWantsIsNotBegun(t *testing.T) {
	r := New[int]()
	begun, proceed := make(chan int), make(chan struct{})
	reads := 0
	read := func(context.Context) (int, error) {
		reads++
		begun <- reads
		<-proceed
		return reads, nil
	}
	answers := make(chan error, 3)
	ask := func(ctx context.Context) {
		go func() {
			_, err := r.Get(ctx, "key", read)
			answers <- err
		}()
	}
	waiting := func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		if next := r.next["key"]; next != nil {
			return next.askers
		}
		return 0
	}
	ask(t.Context())
	require.Equal(t, 1, <-begun)
	ctx, cancel := context.WithCancel(t.Context())
	ask(ctx)
	ask(ctx)
	require.Eventually(t, func() bool { return waiting() == 2 }, waitTime, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-answers, context.Canceled)
	require.ErrorIs(t, <-answers, context.Canceled)
	proceed <- struct{}{}
	require.NoError(t, <-answers)
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.next)+len(r.busy) == 0
	}, waitTime, time.Millisecond)
	require.Equal(t, 1, reads)
	ask(t.Context())
	require.Equal(t, 2, <-begun, "who asks later has it read")
	proceed <- struct{}{}
	require.NoError(t, <-answers)
}

// TestAReadIsToldThatNobodyWantsIt, when the last of those who share it has gone. It goes on for all that.
func TestAReadIsToldThatNobodyWantsIt(t *testing.T) {
	r := New[int]()
	begun, answers := make(chan context.Context), make(chan error, 3)
	read := func(ctx context.Context) (int, error) {
		wanted, release := Wanted(ctx)
		defer release()
		begun <- wanted
		<-wanted.Done()
		return 0, ctx.Err()
	}
	ask := func() context.CancelFunc {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := r.Get(ctx, "key", read)
			answers <- err
		}()
		return cancel
	}
	leaveFirst := ask()
	<-begun
	leave, leaveLast := ask(), ask()
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.next["key"] != nil && r.next["key"].askers == 2
	}, waitTime, time.Millisecond)
	leaveFirst()
	require.ErrorIs(t, <-answers, context.Canceled)
	wanted := <-begun
	leave()
	require.ErrorIs(t, <-answers, context.Canceled)
	require.NoError(t, wanted.Err(), "one waits for it yet")
	leaveLast()
	require.ErrorIs(t, <-answers, context.Canceled)
	<-wanted.Done()
	alone, release := Wanted(t.Context())
	require.NoError(t, alone.Err(), "of no read")
	release()
}

func TestSharedReadsAreApartByKey(t *testing.T) {
	r := New[string]()
	errRead := errors.New("read")
	outer, err := r.Get(t.Context(), "a", func(ctx context.Context) (string, error) {
		inner, err := r.Get(ctx, "b", func(context.Context) (string, error) { return "b", errRead })
		require.ErrorIs(t, err, errRead)
		return "a" + inner, nil
	})
	require.NoError(t, err)
	require.Equal(t, "ab", outer)
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.next)+len(r.busy) == 0
	}, waitTime, time.Millisecond, "nothing is kept")
}

// TestAReadThatPanics fails for those who share it; the next one goes well.
func TestAReadThatPanics(t *testing.T) {
	r, broken := New[int](), true
	read := func(context.Context) (int, error) {
		if broken {
			panic("defect")
		}
		return 7, nil
	}
	_, err := r.Get(t.Context(), "key", read)
	require.ErrorContains(t, err, "defect")
	broken = false
	v, err := r.Get(t.Context(), "key", read)
	require.NoError(t, err)
	require.Equal(t, 7, v)
}
