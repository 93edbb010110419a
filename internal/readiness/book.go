package readiness

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/drover-io/drover/internal/share"
)

// Freshness is how long rules that were read are taken for those that there are: so much later at the most a change
// has its effect.
const Freshness = time.Second

// Book keeps the rules of users compiled, however often they are asked for: they are read once in Freshness, and
// compiled when they have changed.
type Book struct {
	read  func(ctx context.Context) ([]Rule, error)
	now   func() time.Time
	reads *share.Reads[*Rules]

	mu       sync.Mutex // not held while rules are read: nobody who waits for it can leave
	at       time.Time  // when they were read
	rules    []Rule
	compiled *Rules
}

// NewBook makes a book of what read returns, always in the same order.
func NewBook(read func(ctx context.Context) ([]Rule, error), now func() time.Time) *Book {
	return &Book{read: read, now: now, reads: share.New[*Rules]()}
}

// Rules are those of users. An error is that of read, which bounds how long it takes, or ctx's; who asks meanwhile waits.
func (b *Book) Rules(ctx context.Context) (*Rules, error) {
	if known := b.known(); known != nil {
		return known, nil
	}
	return b.reads.Get(ctx, "", b.renew)
}

// known are the rules as they were read a short time ago, nil when that is too long ago.
func (b *Book) known() *Rules {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.compiled != nil && b.now().Sub(b.at) < Freshness {
		return b.compiled
	}
	return nil
}

// renew reads the rules, unless that was done while it waited for its turn. There is one at a time.
func (b *Book) renew(ctx context.Context) (*Rules, error) {
	if known := b.known(); known != nil {
		return known, nil
	}
	at := b.now()
	rules, err := b.read(ctx)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.compiled == nil || !slices.Equal(rules, b.rules) {
		b.rules, b.compiled = rules, Compile(rules...)
	}
	b.at = at
	return b.compiled, nil
}
