package service

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// unsized is a store that does not say how much a tenant has.
type unsized struct{ TenantStore }

func (unsized) LookBytes(ctx context.Context, _ string) (int64, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// TestWhoWaitsForALookIsToldWhatHeWaitsFor: not only that it took too long, of which nobody knows what.
func TestWhoWaitsForALookIsToldWhatHeWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMatcher(unsized{}, nil, time.Now, "process")
		defer m.Close()
		for range 2 { // the first one begins the look, and the second one waits for its end
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := m.look(ctx, "t", scope{})
			cancel()
			require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
			require.Contains(t, fail.TextOf(err), `all workloads of tenant "t"`)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, m.look(gone, "t", scope{}), context.Canceled)
	})
}

// deserted is a store in which there is one tenant, of which nothing is to be done. It notes whose workloads are looked at.
type deserted struct {
	TenantStore
	there  string
	fails  error
	looked []string
}

func (s *deserted) UnfinishedSettings(context.Context, time.Duration) (map[string][]string, error) {
	return nil, nil
}
func (s *deserted) LostStreams(context.Context) ([]*domain.Stream, error)       { return nil, nil }
func (s *deserted) StreamsOf(context.Context, string) ([]*domain.Stream, error) { return nil, nil }
func (s *deserted) StandingStreams(context.Context) (map[string]string, error)  { return nil, nil }
func (s *deserted) AnyGone(context.Context, string, time.Time) (bool, error)    { return false, nil }
func (s *deserted) Matches(context.Context, string) ([]domain.Match, error)     { return nil, nil }
func (s *deserted) SettingsVersion(context.Context, string) (string, bool, error) {
	return "", false, fail.New(fail.NotFound, "there is no such tenant")
}

func (s *deserted) List(context.Context, *domain.Noun, domain.Key) ([]domain.Object, error) {
	return []domain.Object{&domain.Tenant{Metadata: domain.Metadata{Name: s.there}}}, nil
}

func (s *deserted) LookBytes(_ context.Context, tenant string) (int64, error) {
	s.looked = append(s.looked, tenant)
	return 0, s.fails
}

// TestWhatAProcessKnowsOfTenantsGoesWithThem, whichever process has deleted them: names of tenants that come and go would fill its memory. A look that was
// asked for is done before that.
func TestWhatAProcessKnowsOfTenantsGoesWithThem(t *testing.T) {
	s := &deserted{there: "there", fails: fail.New(fail.Unavailable, "the database is away")}
	m := NewMatcher(s, nil, time.Now, "process")
	defer m.Close()
	for _, tenant := range []string{"there", "gone", "anew"} {
		m.ask(tenant, "")
		m.count(tenant, func(c *TenantCounts) { c.Streams++ })
		m.again[tenant] = time.Now()
	}
	m.beginning("anew", 1) // it was made after the list, and has a stream already
	require.ErrorIs(t, m.Sweep(t.Context()), s.fails)
	require.Equal(t, []string{"gone"}, s.looked)
	require.Contains(t, m.unseen, "gone", "somebody may have made one of the name")
	s.fails = nil
	require.NoError(t, m.Sweep(t.Context()))
	require.Equal(t, []string{"gone", "gone"}, s.looked)
	for _, tenant := range []string{"there", "anew"} {
		require.Contains(t, m.unseen, tenant)
		require.Contains(t, m.stats, tenant)
		require.Contains(t, m.again, tenant)
	}
	require.NotContains(t, m.unseen, "gone")
	require.NotContains(t, m.stats, "gone")
	require.NotContains(t, m.again, "gone")
}
