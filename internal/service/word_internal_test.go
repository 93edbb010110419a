package service

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/policy"
)

// idle is a store in which nothing is to be looked for.
type idle struct{ TenantStore }

func (idle) ChangeSettings(context.Context, string) (string, error)      { return "1", nil }
func (idle) LostStreams(context.Context) ([]*domain.Stream, error)       { return nil, nil }
func (idle) StreamsOf(context.Context, string) ([]*domain.Stream, error) { return nil, nil }
func (idle) StandingStreams(context.Context) (map[string]string, error)  { return nil, nil }
func (idle) SettingsChanged(context.Context, string, string) error       { return nil }
func (idle) UnfinishedSettings(context.Context, time.Duration) (map[string][]string, error) {
	return nil, nil
}
func (idle) List(context.Context, *domain.Noun, domain.Key) ([]domain.Object, error) { return nil, nil }

// TestWordsThatNobodyTakesBackAreForgotten: a database that does not answer in time leaves one with each write, and the store has them.
func TestWordsThatNobodyTakesBackAreForgotten(t *testing.T) {
	now := time.UnixMilli(1.7e12)
	m := NewMatcher(idle{}, nil, func() time.Time { return now }, "process")
	require.NoError(t, m.Changing(t.Context(), "t"))
	require.NoError(t, m.Changing(t.Context(), "gone"))
	now = now.Add(policy.Unfinished - 1)
	require.NoError(t, m.Changing(t.Context(), "t"))
	require.NoError(t, m.Sweep(t.Context()))
	require.Len(t, m.changing["t"], 2, "they may be taken back")
	now = now.Add(1)
	require.NoError(t, m.Sweep(t.Context()))
	require.Len(t, m.changing["t"], 1)
	require.Len(t, m.changing, 1)
	m.Unchanged(t.Context(), "t")
	require.Empty(t, m.changing)
}

// TestAWordIsOldAfterASuspension: the clock that stands still meanwhile tells nothing of it, while Sweep of another process has ended the word.
func TestAWordIsOldAfterASuspension(t *testing.T) {
	for name, slept := range map[string]lease.Instant{
		"that the machine knows of":                       {Boot: policy.Unfinished},
		"of which only the time of day tells, by its NTP": {Wall: policy.Unfinished},
	} {
		t.Run(name, func(t *testing.T) {
			m, now := NewMatcher(idle{}, nil, time.Now, "process"), lease.Instant{}
			m.moment = func() lease.Instant { return now }
			for _, old := range []bool{false, true} {
				require.NoError(t, m.Changing(t.Context(), "t"))
				if old {
					now = slept
				}
				require.Equal(t, old, m.mayBeEnded(m.given("t")))
			}
		})
	}
}
