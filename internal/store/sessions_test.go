package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// TestSessions: one is stored once, replaced by who has read it last, and forgotten when its time is over.
func TestSessions(t *testing.T) {
	s := storetest.Open(t, store.Config{})
	ctx, now := t.Context(), time.Now().UTC().Truncate(time.Millisecond)
	x := &domain.Session{ID: "one", Expires: now.Add(time.Hour), Token: "marked-token", Refresh: "marked-refresh", Renewed: now}
	require.NoError(t, s.PutSession(ctx, x))
	require.True(t, fail.Is(s.PutSession(ctx, &domain.Session{ID: "one"}), fail.Conflict))
	found, err := s.Session(ctx, "one")
	require.NoError(t, err)
	require.Equal(t, x.Token, found.Token)
	require.True(t, x.Expires.Equal(found.Expires))

	stale := *found
	found.Token = "another"
	done, err := s.ReplaceSession(ctx, found)
	require.NoError(t, err)
	require.True(t, done)
	done, err = s.ReplaceSession(ctx, &stale)
	require.NoError(t, err)
	require.False(t, done, "somebody else has written it meanwhile")

	require.NoError(t, s.PutSession(ctx, &domain.Session{ID: "old", Expires: now.Add(-time.Second)}))
	require.NoError(t, s.DropSessions(ctx, now))
	_, err = s.Session(ctx, "old")
	require.True(t, fail.Is(err, fail.NotFound))
	_, err = s.Session(ctx, "one")
	require.NoError(t, err)
	done, err = s.EndSession(ctx, &stale)
	require.NoError(t, err)
	require.False(t, done, "somebody else has written it meanwhile")
	done, err = s.EndSession(ctx, found)
	require.NoError(t, err)
	require.True(t, done)
	require.NoError(t, s.DeleteSession(ctx, "one"))
	require.NoError(t, s.DeleteSession(ctx, "one"))
	_, err = s.Session(ctx, "one")
	require.True(t, fail.Is(err, fail.NotFound))
	done, err = s.ReplaceSession(ctx, found)
	require.NoError(t, err)
	require.False(t, done, "it has ended")
}
