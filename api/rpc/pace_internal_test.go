package rpc

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/policy"
)

// TestWhoSaysMoreThanItsShareWaits: by itself, and for as long as what it has said takes by its rate.
func TestWhoSaysMoreThanItsShareWaits(t *testing.T) {
	now := time.Now()
	p := newPaces(100, slog.New(slog.DiscardHandler))
	p.now = func() time.Time { return now }
	require.Zero(t, p.spend("noisy", 1000), "what may be said at once")
	require.Equal(t, 10*time.Millisecond+policy.PacePause, p.spend("noisy", 1))
	require.Zero(t, p.spend("quiet", 1))
	now = now.Add(510 * time.Millisecond)
	require.Zero(t, p.spend("noisy", 50), "what has come meanwhile is read at once")
	require.Equal(t, 10*time.Millisecond+policy.PacePause, p.spend("noisy", 1))
	require.Equal(t, policy.PaceBurst+policy.PacePause, p.spend("noisy", 1e9), "nobody is silent for longer")
	now = now.Add(time.Hour)
	require.Zero(t, p.spend("noisy", 1000), "no more than that is saved")
	require.Positive(t, p.spend("noisy", 1))
	require.Zero(t, newPaces(0, nil).spend("noisy", 1e9), "no limit")

	for i := range 3 * mostPaces { // names without end, all at once
		p.spend(fmt.Sprint(i), 1)
		require.Positive(t, p.spend("noisy", 1), "who goes on is not forgotten")
	}
	require.LessOrEqual(t, p.of.Len(), mostPaces)
}

func TestWhatMessagesCost(t *testing.T) {
	require.InDelta(t, 1, costs(false, 1, 700), 0)
	require.InDelta(t, 33, costs(false, 1, 512<<10), 0)
	require.InDelta(t, 1, costs(true, 0, 0), 0)
	require.InDelta(t, 1001, costs(true, 10_000, 0), 0)
}
