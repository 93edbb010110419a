package service

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

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
