package authn_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/token"
)

// still is a store that says nothing until it is told to.
type still struct {
	*kept
	asked  atomic.Int64
	answer chan struct{}
}

func (s *still) Get(ctx context.Context, _ *domain.Noun, key domain.Key) (domain.Object, error) {
	s.asked.Add(1)
	select {
	case <-s.answer:
		return nil, fail.New(fail.NotFound, "%s is not there", key)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// TestTokensOfStrangersAreLookedForAFewAtATime: of an address half of those, whatever its ports; more than may wait are refused at once,
// and other addresses are asked for all the same.
func TestTokensOfStrangersAreLookedForAFewAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &still{kept: &kept{}, answer: make(chan struct{})}
		prove := authn.Prover(authn.Tokens{Store: store, Now: time.Now, Turns: authn.NewTurns()}.Prove)
		text, _ := token.New("service-accounts/ci/tokens/first")
		refused, unknown := new(atomic.Int64), new(atomic.Int64)
		ask := func(remote string) {
			ctx := caller.WithRequest(t.Context(), &caller.Request{Remote: remote})
			go func() {
				_, err := caller.IdentityOf(prove.Into(ctx, bearer(text)))
				switch {
				case fail.Is(err, fail.Unavailable) && fail.RetryAfterOf(err) >= time.Second &&
					strings.HasPrefix(fail.TextOf(err), "too many calls whose credentials are still looked at, from 192.0.2.1 or in all"):
					refused.Add(1)
				case fail.Is(err, fail.Unauthorized):
					unknown.Add(1)
				}
			}()
		}
		for i := range 600 {
			ask(fmt.Sprintf("192.0.2.1:%d", i+1))
		}
		synctest.Wait()
		require.EqualValues(t, authn.MostLookups/2, store.asked.Load())
		require.EqualValues(t, 600-512, refused.Load())
		ask("192.0.2.2:1")
		for i := range 2 * authn.MostLookups {
			ask(fmt.Sprintf("[2001:db8::%x]:1", i+1)) // one network
		}
		synctest.Wait()
		require.EqualValues(t, authn.MostLookups, store.asked.Load(), "there is one turn less than the others want")
		close(store.answer)
		synctest.Wait()
		require.EqualValues(t, 512+1+2*authn.MostLookups, unknown.Load())
		require.EqualValues(t, 600-512, refused.Load())
		for i := range 512 {
			ask(fmt.Sprintf("192.0.2.1:%d", i+1))
		}
		synctest.Wait()
		require.EqualValues(t, 600-512, refused.Load(), "nobody waits any more")
	})
}

// TestWhoIsNotWaitedFor: a store that never answers holds a call up for policy.Prove, and takes no turn with it.
func TestWhoIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &still{kept: &kept{}, answer: make(chan struct{})}
		turns := authn.NewTurns()
		prove := authn.Prover(authn.Tokens{Store: store, Now: time.Now, Turns: turns}.Prove)
		text, _ := token.New("service-accounts/ci/tokens/first")
		var asking sync.WaitGroup
		for range 3 * authn.MostLookups {
			asking.Go(func() {
				_, err := caller.IdentityOf(prove.Into(t.Context(), bearer(text)))
				if !fail.Is(err, fail.Unavailable) {
					t.Errorf("%v", err)
				}
			})
		}
		asking.Wait()
		for range authn.MostLookups / 2 {
			_, err := turns.Take(t.Context(), "")
			require.NoError(t, err)
		}
	})
}
