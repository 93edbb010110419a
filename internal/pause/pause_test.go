package pause_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/pause"
)

func TestBackoffDoublesUpToTheMost(t *testing.T) {
	b := pause.Backoff{First: 100 * time.Millisecond, Most: time.Second}
	waits := []time.Duration{100, 200, 400, 800, 1000, 1000}
	for round := range 2 {
		for i, ms := range waits {
			want := ms * time.Millisecond
			got := b.Next()
			require.LessOrEqual(t, got, want, "round %d, wait %d", round, i)
			require.GreaterOrEqual(t, got, want-want/4, "round %d, wait %d", round, i)
		}
		b.Reset()
	}
}

func TestBackoffIsNeverMoreThanTheMost(t *testing.T) {
	b := pause.Backoff{First: time.Hour, Most: time.Second}
	require.LessOrEqual(t, b.Next(), time.Second)
}

// TestBackoffsPart: of a hundred that begin together not all go on together.
func TestBackoffsPart(t *testing.T) {
	waits := map[time.Duration]bool{}
	for range 100 {
		b := pause.Backoff{First: time.Second, Most: time.Second}
		waits[b.Next()] = true
	}
	require.Greater(t, len(waits), 1)
}

func TestBackoffWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := pause.Backoff{First: time.Minute, Most: time.Hour}
		began := time.Now()
		require.NoError(t, b.Wait(t.Context()))
		require.GreaterOrEqual(t, time.Since(began), 45*time.Second)
		require.LessOrEqual(t, time.Since(began), time.Minute)
	})
}

func TestWaitsEndWithTheContext(t *testing.T) {
	stopped := errors.New("stopped")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(stopped) })
		began := time.Now()
		b := pause.Backoff{First: time.Hour, Most: time.Hour}
		require.ErrorIs(t, b.Wait(ctx), stopped)
		require.Equal(t, time.Second, time.Since(began))
		require.ErrorIs(t, pause.For(ctx, time.Hour), stopped)
	})
}
