package service

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/policy"
)

// sized are reads of tenants that have so many bytes each.
func sized(bytes int64) *reads {
	return newReads(func(context.Context, string) (int64, error) { return bytes, nil })
}

// by is who asks.
func by(ctx context.Context, name string) context.Context {
	return caller.WithIdentity(ctx, caller.Identity{Kind: caller.User, Name: name}, nil)
}

// TestWhoWaitsForReadersIsTold, in time, and holds up nobody who reads another tenant.
func TestWhoWaitsForReadersIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, began := sized(1), time.Now()
		leave, err := r.begin(t.Context(), "a", []string{"a"})
		require.NoError(t, err)
		refused := make(chan error, limits.TenantReads)
		for n := range limits.TenantReads - 1 {
			go func() {
				_, err := r.begin(by(t.Context(), fmt.Sprint(n%3)), "a", []string{"a"})
				refused <- err
			}()
		}
		synctest.Wait()
		_, err = r.begin(t.Context(), "a", []string{"a"})
		require.True(t, fail.Is(err, fail.Exhausted), "%v", err)
		require.Zero(t, time.Since(began), "there are so many who wait")
		for _, of := range []string{"b", ""} {
			other, err := r.begin(t.Context(), of, []string{"a", "b"})
			require.NoError(t, err)
			other()
		}
		for range limits.TenantReads - 1 {
			err := <-refused
			require.True(t, fail.Is(err, fail.Exhausted), "%v", err)
			require.Contains(t, err.Error(), `tenant "a"`)
			require.Equal(t, policy.ReadLater, fail.RetryAfterOf(err))
		}
		require.Equal(t, policy.ReadWait, time.Since(began))
		leave()
		require.Empty(t, r.of)
	})
}

// TestReadersShareMemory, whoever they read of: a large tenant has half of it, so that another one is read beside it.
func TestReadersShareMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := sized(4 * limits.Tenants)
		var leaves []func()
		for _, of := range []string{"a", "b"} {
			leave, err := r.begin(t.Context(), of, []string{of})
			require.NoError(t, err)
			leaves = append(leaves, leave)
		}
		_, err := r.begin(t.Context(), "c", []string{"c"})
		require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
		require.True(t, fail.IsUndone(err), "a preview is a POST")
		require.Equal(t, policy.ReadLater, fail.RetryAfterOf(err))

		gone := errors.New("the caller has gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		_, err = r.begin(ctx, "c", []string{"c"})
		require.ErrorIs(t, err, gone)
		_, err = r.begin(ctx, "a", []string{"a"})
		require.ErrorIs(t, err, gone)
		time.AfterFunc(policy.ReadWait/2, leaves[0])
		leave, err := r.begin(t.Context(), "c", []string{"c"})
		require.NoError(t, err)
		leave()
		leaves[1]()
		require.Empty(t, r.of)
		require.True(t, r.room.TryAcquire(readBytes))
	})
}

// TestAReadWhoseSizeIsNotKnown is refused with the store's word, and keeps nobody waiting.
func TestAReadWhoseSizeIsNotKnown(t *testing.T) {
	broken := fail.New(fail.Internal, "it cannot be read")
	r := newReads(func(context.Context, string) (int64, error) { return 0, broken })
	_, err := r.begin(t.Context(), "a", []string{"a"})
	require.ErrorIs(t, err, broken)
	require.Empty(t, r.of)
}

// TestAReadWhoseSizePanics keeps nobody waiting either.
func TestAReadWhoseSizePanics(t *testing.T) {
	r := newReads(func(context.Context, string) (int64, error) { panic("a fault") })
	for range limits.TenantReads + 1 {
		require.PanicsWithValue(t, "a fault", func() { _, _ = r.begin(t.Context(), "a", []string{"a"}) })
		require.Empty(t, r.of)
	}
}

// TestAStoreThatIsSlowIsNotCalledMemory: nobody else reads, and who asks has as long as for all else.
func TestAStoreThatIsSlowIsNotCalledMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := 3 * policy.ReadWait
		r := newReads(func(ctx context.Context, _ string) (int64, error) {
			select {
			case <-time.After(slow):
				return 1, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		})
		leave, err := r.begin(t.Context(), "a", []string{"a"})
		require.NoError(t, err)
		leave()
		ctx, cancel := context.WithTimeout(t.Context(), policy.ReadWait)
		defer cancel()
		_, err = r.begin(ctx, "a", []string{"a"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotContains(t, err.Error(), "memory")
		require.Empty(t, r.of)
	})
}

// TestWhatIsNoMoreRoomIsNotAskedFor: what a tenant has is read for that, and it may be 64 MiB.
func TestWhatIsNoMoreRoomIsNotAskedFor(t *testing.T) {
	asked := 0
	r := newReads(func(context.Context, string) (int64, error) { asked++; return limits.Tenants/2 + 1, nil })
	leave, err := r.begin(t.Context(), "", make([]string, 100))
	require.NoError(t, err)
	require.Equal(t, 2, asked)
	require.False(t, r.room.TryAcquire(readBytes/2+1), "it has half")
	leave()
}

// TestNobodyHasAllPlacesOfReaders: one caller who asks without end keeps nobody else from a turn.
func TestNobodyHasAllPlacesOfReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := sized(1)
		read := func(who string) error {
			leave, err := r.begin(by(t.Context(), who), "t", []string{"t"})
			if err == nil {
				<-time.After(policy.ReadWait / limits.TenantReads)
				leave()
			}
			return err
		}
		greedy := make(chan error, limits.TenantReads)
		for range limits.TenantReads {
			go func() { greedy <- read("a") }()
		}
		synctest.Wait()
		require.NoError(t, read("b"))
		refused := 0
		for range limits.TenantReads {
			if err := <-greedy; err != nil {
				require.True(t, fail.Is(err, fail.Exhausted), "%v", err)
				refused++
			}
		}
		require.Equal(t, limits.TenantReads/2, refused)
		require.NoError(t, read("a"), "as before")
		require.Empty(t, r.of)
	})
}
