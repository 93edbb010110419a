package observe

import (
	"slices"
	"sync"
)

// Room is what the clusters that a process watches without agent may hold together. Each has as much as it takes (limits.ClusterHeld at the most) until
// there is no more; then those yield that hold most, so that none whose objects have no more than its share (see share) is left out for another's sake.
//
// Its lock is taken while that of a cluster's objects is held, and never the other way round: who takes bytes holds no lock.
type Room struct {
	most int // bytes

	turn sync.Mutex // of those who have others yield, one at a time; held before any lock

	mu    sync.Mutex
	bytes int              // what is held, and what is taken and not held yet
	of    map[*objects]int // the bytes that each cluster holds which has any objects
}

// NewRoom makes room for so many bytes.
func NewRoom(most int) *Room { return &Room{most: most, of: map[*objects]int{}} }

// take takes bytes for what a cluster is to hold from now on, until keep says what it does hold. Where there are too few of them the clusters that hold most
// yield, down to what this one would have; where it would itself hold most, nothing is taken.
func (r *Room) take(x *objects, more int) (ok bool) {
	if more <= 0 || r.add(more) {
		return true
	}
	r.turn.Lock()
	defer r.turn.Unlock()
	for !r.add(more) {
		largest, short := r.largest(x, more)
		if largest == nil {
			return false
		}
		largest.yield(short)
	}
	return true
}

// add takes bytes if there are so many.
func (r *Room) add(more int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes+more > r.most {
		return false
	}
	r.bytes += more
	return true
}

// largest is the cluster that holds most, and how many bytes it is to yield for x to have more; nil where x would hold most.
func (r *Room) largest(x *objects, more int) (largest *objects, short int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	most := r.of[x] + more
	for other, bytes := range r.of {
		if other != x && bytes > most {
			largest, most = other, bytes
		}
	}
	return largest, r.bytes + more - r.most
}

// keep says what a cluster holds by now, having taken so many bytes for it. The lock of x is held.
func (r *Room) keep(x *objects, taken int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x.gone {
		r.bytes -= taken
		return
	}
	r.bytes += x.bytes - r.of[x] - taken
	if r.of[x] = x.bytes; len(x.where) == 0 {
		delete(r.of, x)
	}
}

// leave forgets a cluster that is not heard any more in this way.
func (r *Room) leave(x *objects) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes -= r.of[x]
	delete(r.of, x)
}

// share is how many bytes a cluster may hold for all that others hold: what each had if all were dealt out evenly, those that hold less left the rest to
// others. Of these bytes some may have to be yielded first; free are those that are nobody's.
func (r *Room) share(x *objects) (share, free int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	others := make([]int, 0, len(r.of))
	for other, bytes := range r.of {
		if other != x {
			others = append(others, bytes)
		}
	}
	free = max(r.most-r.bytes, 0)
	slices.Sort(others)
	left := r.most
	for i, bytes := range others {
		if even := left / (len(others) - i + 1); bytes >= even {
			return even, free
		}
		left -= bytes
	}
	return left, free
}
