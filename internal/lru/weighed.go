package lru

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Weighed is a Cache of values of which each has a weight: it keeps a number of values that weigh no more together than it may hold. A
// value that is heavier than that is kept alone. It may be used by many at once.
type Weighed[K comparable, V any] struct {
	mu         sync.Mutex
	most, kept int64
	values     *simplelru.LRU[K, weighed[V]]
}

type weighed[V any] struct {
	value  V
	weight int64
}

// NewWeighed makes one of a size and a weight, which have to be positive.
func NewWeighed[K comparable, V any](size int, most int64) *Weighed[K, V] {
	c := &Weighed[K, V]{most: most}
	values, err := simplelru.NewLRU(size, func(_ K, gone weighed[V]) { c.kept -= gone.weight })
	if err != nil {
		panic(err)
	}
	c.values = values
	return c
}

// Get is the value of a key, which is used by that; false when it is not known.
func (c *Weighed[K, V]) Get(key K) (value V, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one, known := c.values.Get(key)
	return one.value, known
}

// Add keeps a value, in place of that which the key has.
func (c *Weighed[K, V]) Add(key K, value V, weight int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.values.Remove(key)
	c.values.Add(key, weighed[V]{value, weight})
	for c.kept += weight; c.kept > c.most && c.values.Len() > 1; {
		c.values.RemoveOldest()
	}
}

// Remove forgets a value.
func (c *Weighed[K, V]) Remove(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.values.Remove(key)
}

// Len is how many values it has.
func (c *Weighed[K, V]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.values.Len()
}

// Weight is what its values weigh together.
func (c *Weighed[K, V]) Weight() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept
}
