package readiness

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Freshness is how long rules that were read are taken for those that there are: so much later at the most a change
// has its effect.
const Freshness = time.Second

// Book keeps the rules of users compiled, however often they are asked for: they are read once in Freshness, and
// compiled when they have changed.
type Book struct {
	read func(ctx context.Context) ([]Rule, error)
	now  func() time.Time

	mu       sync.Mutex
	at       time.Time // when they were read
	rules    []Rule
	compiled *Rules
}

// NewBook makes a book of what read returns, always in the same order.
func NewBook(read func(ctx context.Context) ([]Rule, error), now func() time.Time) *Book {
	return &Book{read: read, now: now}
}

// Rules are those of users. An error is that of read, which bounds how long it takes; who asks meanwhile waits.
func (b *Book) Rules(ctx context.Context) (*Rules, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if b.compiled != nil && now.Sub(b.at) < Freshness {
		return b.compiled, nil
	}
	rules, err := b.read(ctx)
	if err != nil {
		return nil, err
	}
	if b.compiled == nil || !slices.Equal(rules, b.rules) {
		b.rules, b.compiled = rules, Compile(rules...)
	}
	b.at = now
	return b.compiled, nil
}
