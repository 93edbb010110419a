// Package lru is a cache of a fixed number of values: the value that was not used for longest is forgotten first.
package lru

import lru "github.com/hashicorp/golang-lru/v2"

// Cache keeps a number of values, and forgets the one that was not used for longest. It may be used by many at once.
type Cache[K comparable, V any] = lru.Cache[K, V]

// New makes a cache of a size, which has to be positive.
func New[K comparable, V any](size int) *Cache[K, V] {
	c, err := lru.New[K, V](size)
	if err != nil {
		panic(err)
	}
	return c
}
