// Package lrutest measures what values hold, which caches weigh (lru.Weighed).
package lrutest

import "runtime"

// HeapOf is how many bytes of memory stay in use by what something makes. Nothing else may work meanwhile.
func HeapOf[T any](make func() T) (T, int64) {
	before := live()
	made := make()
	return made, live() - before
}

func live() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what finalizers and pools held
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
