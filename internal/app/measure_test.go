package app

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/engine"
	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/internal/policy"
)

// TestTheWholeIsAskedForSeldom, and old figures are not shown for new ones.
func TestTheWholeIsAskedForSeldom(t *testing.T) {
	var failure error
	asked, now := 0, time.Unix(1e9, 0)
	w := &whole{
		now: func() time.Time { return now },
		backlogs: func(context.Context) ([]engine.Backlog, error) {
			asked++
			return []engine.Backlog{{Queue: "q", Task: "activity", Tasks: 7, Age: time.Minute}}, failure
		},
		running: func(context.Context) (map[domain.Operation]int64, error) {
			return map[domain.Operation]int64{domain.OpUpdate: 3}, failure
		},
	}
	read := func() map[*measure.Gauge]float64 {
		found := map[*measure.Gauge]float64{}
		w.say(func(g *measure.Gauge, value float64, _ ...string) { found[g] = value })
		return found
	}
	want := map[*measure.Gauge]float64{measure.Backlog: 7, measure.BacklogAge: 60, measure.OperationsRunning: 3}
	require.Equal(t, want, read())
	require.Equal(t, want, read())
	require.Equal(t, 1, asked)
	failure, now = errors.New("away"), now.Add(policy.Measured)
	require.Empty(t, read())
	failure, now = nil, now.Add(policy.Measured)
	require.Equal(t, want, read())
}

// TestWhatIsSlowSilencesNothingElse: the number of operations comes from Temporal's visibility, which may be slow while Temporal works.
func TestWhatIsSlowSilencesNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		w := &whole{
			now:      time.Now,
			backlogs: func(context.Context) ([]engine.Backlog, error) { return []engine.Backlog{{Queue: "q", Tasks: 7}}, nil },
			running:  func(ctx context.Context) (map[domain.Operation]int64, error) { return nil, slow(ctx) },
		}
		read := func() (found []*measure.Gauge) {
			w.say(func(g *measure.Gauge, _ float64, _ ...string) { found = append(found, g) })
			return found
		}
		require.Equal(t, []*measure.Gauge{measure.Backlog, measure.BacklogAge}, read())
		time.Sleep(policy.Measured) //nolint:forbidigo // of the bubble's time
		w.backlogs = func(ctx context.Context) ([]engine.Backlog, error) { return nil, slow(ctx) }
		w.running = func(context.Context) (map[domain.Operation]int64, error) {
			return map[domain.Operation]int64{domain.OpUpdate: 3}, nil
		}
		require.Equal(t, []*measure.Gauge{measure.OperationsRunning}, read())
	})
}
