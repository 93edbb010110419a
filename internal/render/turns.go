package render

import (
	"context"
	"hash/maphash"
	"sync"
)

// turns let all processes but one work on the same chart at a time. A chart that takes all of its time, and that somebody asks
// for again and again, would otherwise hold up everybody's.
type turns struct {
	most int
	seed maphash.Seed

	mu sync.Mutex
	of map[uint64]*turn // by the hash of a chart
}

type turn struct {
	places chan struct{}
	users  int // those that wait, too
}

func newTurns(size int) *turns {
	return &turns{most: max(1, size-1), seed: maphash.MakeSeed(), of: map[uint64]*turn{}}
}

// take waits for a turn. Whoever has it calls leave.
func (t *turns) take(ctx context.Context, chart, profile []byte) (leave func(), err error) {
	key := maphash.Bytes(t.seed, chart)
	if len(chart) == 0 {
		key = maphash.Bytes(t.seed, profile) // of which one may be checked without a chart
	}
	t.mu.Lock()
	mine := t.of[key]
	if mine == nil {
		mine = &turn{places: make(chan struct{}, t.most)}
		t.of[key] = mine
	}
	mine.users++
	t.mu.Unlock()
	forget := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if mine.users--; mine.users == 0 {
			delete(t.of, key)
		}
	}
	select {
	case mine.places <- struct{}{}:
		return func() {
			<-mine.places
			forget()
		}, nil
	case <-ctx.Done():
		forget()
		return nil, ctx.Err()
	}
}
