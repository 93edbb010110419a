package oidc

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// faulty is a store that panics some times, and has no session then.
type faulty struct {
	SessionStore
	left int
}

func (f *faulty) Session(context.Context, string) (*domain.Session, error) {
	if f.left--; f.left >= 0 {
		panic("a fault")
	}
	return nil, fail.New(fail.NotFound, "there is none")
}

// TestALookForASessionThatPanicsKeepsNoTurn: nobody could log in any more once all are taken.
func TestALookForASessionThatPanicsKeepsNoTurn(t *testing.T) {
	store := &faulty{left: authn.MostLookups}
	s := NewSessions(nil, store, nil, time.Now)
	shown := &authn.Shown{Session: "secret"}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for range authn.MostLookups {
		require.PanicsWithValue(t, "a fault", func() { _, _ = s.Prove(ctx, shown) })
	}
	_, err := s.Prove(ctx, shown)
	require.True(t, fail.Is(err, fail.Unauthorized), "%v", err)
}
