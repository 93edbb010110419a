package authn

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/policy"
)

// MostLookups is how many tokens of callers who are not known yet are looked for in the store at a time, of an address half of those. So many as
// limits.TokenCalls wait for that.
const MostLookups = 16

// Turns lets tokens be looked for a few at a time, so that who sends what is none keeps no other address waiting. Its methods may be
// called concurrently.
type Turns struct {
	lookups *semaphore.Weighted

	mu      sync.Mutex
	waiting int
	of      map[string]*turn // by address, of those that have calls
}

// turn is that of an address.
type turn struct {
	lookups *semaphore.Weighted
	waiting int
}

// NewTurns makes them.
func NewTurns() *Turns {
	return &Turns{lookups: semaphore.NewWeighted(MostLookups), of: map[string]*turn{}}
}

// Take waits for the turn of a call from an address, which lasts until leave is called. Unavailable, at once, when too many wait; the
// cause of ctx when that ends.
func (t *Turns) Take(ctx context.Context, address string) (leave func(), err error) {
	host := Host(address)
	one, err := t.enter(host)
	if err != nil {
		return nil, err
	}
	if err := one.lookups.Acquire(ctx, 1); err != nil {
		t.leave(host)
		return nil, context.Cause(ctx)
	}
	if err := t.lookups.Acquire(ctx, 1); err != nil {
		one.lookups.Release(1)
		t.leave(host)
		return nil, context.Cause(ctx)
	}
	return func() {
		t.lookups.Release(1)
		one.lookups.Release(1)
		t.leave(host)
	}, nil
}

func (t *Turns) enter(host string) (*turn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.of[host]
	if t.waiting >= limits.TokenCalls || one != nil && one.waiting >= limits.TokenAddressCalls {
		return nil, &fail.Error{
			Kind: fail.Unavailable, Undone: true, RetryAfter: policy.TokensRetry,
			Message: fmt.Sprintf("too many calls whose credentials are still looked at, from %s or in all; try again later", cmp.Or(host, "an address that is not known")),
		}
	}
	if one == nil {
		one = &turn{lookups: semaphore.NewWeighted(MostLookups / 2)}
		t.of[host] = one
	}
	t.waiting++
	one.waiting++
	return one, nil
}

func (t *Turns) leave(host string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting--
	if one := t.of[host]; one.waiting > 1 {
		one.waiting--
	} else {
		delete(t.of, host)
	}
}

// Host is an address without the port; of IPv6 its network of 64 bits, of which one host has all addresses.
func Host(address string) string {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return address
	}
	host := at.Addr().Unmap()
	if host.Is6() {
		return netip.PrefixFrom(host.WithZone(""), 64).Masked().String()
	}
	return host.String()
}
