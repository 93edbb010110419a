package store

import (
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/drover-io/drover/internal/measure"
)

// bounded keeps the values used last, as many as their bytes allow.
type bounded[K comparable, V any] struct {
	name  string // by which it is measured
	limit int64
	size  func(V) int64 // always the same for the same value

	mu     sync.Mutex
	bytes  int64
	values *simplelru.LRU[K, V]
}

func newBounded[K comparable, V any](name string, limit int64, size func(V) int64) *bounded[K, V] {
	b := &bounded[K, V]{name: name, limit: limit, size: size}
	// The number is positive, which is all that it can fail for; what bounds the values is the bytes.
	b.values, _ = simplelru.NewLRU(math.MaxInt32, func(_ K, v V) { b.bytes -= size(v) })
	return b
}

func (b *bounded[K, V]) lookup(key K) (V, bool) {
	b.mu.Lock()
	v, ok := b.values.Get(key)
	b.mu.Unlock()
	measure.Looked(b.name, ok)
	return v, ok
}

func (b *bounded[K, V]) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.values.Len()
}

// add keeps a value in place of the key's last one, unless it would drive out most of the others.
func (b *bounded[K, V]) add(key K, v V) {
	size := b.size(v)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.values.Remove(key)
	if size > b.limit/2 {
		return
	}
	b.values.Add(key, v)
	for b.bytes += size; b.bytes > b.limit; {
		b.values.RemoveOldest()
	}
}

func (b *bounded[K, V]) remove(key K) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.values.Remove(key)
}
