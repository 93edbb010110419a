package service

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/access"
	"github.com/drover-io/drover/internal/policy"
)

// TestAClusterIsAskedOneThingAtATime: who asks the same shares the answer, who asks another thing waits for it, and other clusters do not. What
// nobody waits for any more ends, and is not shared.
func TestAClusterIsAskedOneThingAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLooks()
		var begun, going atomic.Int32
		proceed := make(chan struct{})
		see := func(ctx context.Context) (*access.Seen, error) {
			n := begun.Add(1)
			going.Add(1)
			defer going.Add(-1)
			select {
			case <-proceed:
				return &access.Seen{Needed: int(n)}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		type answer struct {
			seen *access.Seen
			err  error
		}
		ask := func(ctx context.Context, question string) <-chan answer {
			told := make(chan answer, 1)
			go func() {
				seen, err := l.share(ctx, "cluster-providers/p/clusters/c", question, see)
				told <- answer{seen, err}
			}()
			synctest.Wait()
			return told
		}
		first, again, other := ask(t.Context(), "a"), ask(t.Context(), "a"), ask(t.Context(), "b")
		require.EqualValues(t, 1, begun.Load())
		proceed <- struct{}{}
		synctest.Wait()
		require.Equal(t, 1, (<-first).seen.Needed)
		require.Equal(t, 1, (<-again).seen.Needed)
		require.EqualValues(t, 2, begun.Load(), "the other question has its turn")
		elsewhere := make(chan error, 1)
		go func() {
			_, err := l.share(t.Context(), "cluster-providers/p/clusters/d", "a", see)
			elsewhere <- err
		}()
		synctest.Wait()
		require.EqualValues(t, 3, begun.Load())
		proceed <- struct{}{}
		proceed <- struct{}{}
		require.Equal(t, 2, (<-other).seen.Needed)
		require.NoError(t, <-elsewhere)

		gone := errors.New("gone")
		leaving, leave := context.WithCancelCause(t.Context())
		left, stays := ask(leaving, "a"), ask(t.Context(), "a")
		leave(gone)
		require.ErrorIs(t, (<-left).err, gone)
		require.EqualValues(t, 1, going.Load(), "somebody waits for it")
		proceed <- struct{}{}
		require.Equal(t, 4, (<-stays).seen.Needed)

		leaving, leave = context.WithCancelCause(t.Context())
		left = ask(leaving, "a")
		leave(gone)
		require.ErrorIs(t, (<-left).err, gone)
		synctest.Wait()
		require.Zero(t, going.Load(), "nobody waits for it")

		begins, silent := time.Now(), ask(t.Context(), "a")
		require.ErrorIs(t, (<-silent).err, context.DeadlineExceeded)
		require.Equal(t, policy.ClusterCheck, time.Since(begins))
		require.Empty(t, l.at)
	})
}
