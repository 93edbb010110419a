package readiness_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/readiness"
)

func TestABookReadsOnceInAWhile(t *testing.T) {
	now, reads := time.Unix(0, 0), 0
	var stored []readiness.Rule
	var fault error
	b := readiness.NewBook(func(context.Context) ([]readiness.Rule, error) {
		reads++
		return stored, fault
	}, func() time.Time { return now })
	rules := func() *readiness.Rules {
		r, err := b.Rules(t.Context())
		require.NoError(t, err)
		return r
	}
	fault = errors.New("no store")
	_, err := b.Rules(t.Context())
	require.ErrorIs(t, err, fault)
	fault = nil
	first := rules()
	require.False(t, first.Has(database))
	require.Same(t, first, rules())
	require.Equal(t, 2, reads, "what could not be read is read again")

	stored = []readiness.Rule{rule("true")}
	now = now.Add(readiness.Freshness - 1)
	require.Same(t, first, rules(), "what has changed is not seen yet")
	now = now.Add(1)
	second := rules()
	require.True(t, second.Has(database))

	now = now.Add(readiness.Freshness)
	require.Same(t, second, rules(), "what has not changed is not compiled again")
	require.Equal(t, 4, reads)
}

// TestWhoWaitsForABookMayLeave: a database that does not answer keeps nobody who has no time left, and is asked by one at a time.
func TestWhoWaitsForABookMayLeave(t *testing.T) {
	begun, answers := make(chan struct{}, 1), make(chan struct{})
	b := readiness.NewBook(func(context.Context) ([]readiness.Rule, error) {
		begun <- struct{}{} // a second read would wait for ever
		<-answers
		return nil, nil
	}, func() time.Time { return time.Unix(0, 0) })
	ask := func(ctx context.Context) <-chan error {
		answer := make(chan error, 1)
		go func() {
			_, err := b.Rules(ctx)
			answer <- err
		}()
		return answer
	}
	first := ask(t.Context())
	require.Eventually(t, func() bool { return len(begun) == 1 }, time.Minute, time.Millisecond)
	ctx, leave := context.WithCancel(t.Context())
	second, third := ask(ctx), ask(t.Context())
	leave()
	select {
	case err := <-second:
		require.ErrorIs(t, err, context.Canceled)
	case <-time.After(time.Minute):
		t.Error("it waits, although it has left")
	}
	close(answers)
	require.NoError(t, <-first)
	require.NoError(t, <-third, "what was read while it waited is new enough")
}
