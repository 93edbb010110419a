package measure

import "sync"

// sizes are the caches that are there, each with how much it has.
var sizes = struct {
	sync.Mutex
	of   map[int]sized
	last int
}{of: map[int]sized{}}

type sized struct {
	cache string
	size  func() int
}

// Size has a cache's size measured until end is called.
func Size(cache string, size func() int) (end func()) {
	sizes.Lock()
	defer sizes.Unlock()
	sizes.last++
	n := sizes.last
	sizes.of[n] = sized{cache, size}
	return func() {
		sizes.Lock()
		defer sizes.Unlock()
		delete(sizes.of, n)
	}
}

func init() {
	Read(func(say Say) {
		sizes.Lock()
		defer sizes.Unlock()
		sum := map[string]int{}
		for _, s := range sizes.of {
			sum[s.cache] += s.size()
		}
		for cache, n := range sum {
			say(CacheSize, float64(n), cache)
		}
	}, CacheSize)
}

// Looked counts a look into a cache.
func Looked(cache string, found bool) {
	if found {
		CacheLookups.Add(1, cache, "hit")
		return
	}
	CacheLookups.Add(1, cache, "miss")
}
