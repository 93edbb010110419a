package service

import (
	"sync"
	"time"

	"github.com/drover-io/drover/internal/policy"
)

// keeper has what is kept of tables: what streams and requests read now, and of all else what was asked for last, as far as its
// bytes and its time allow.
type keeper struct {
	now func() time.Time

	mu    sync.Mutex
	kept  map[keptKey]*kept
	timer *time.Timer // of the next tidying; nil when none is needed
}

// Bounds of what nobody reads now.
const (
	keptBytes = 64 << 20
	keptLeast = 16 << 10 // is what each counts at least
)

func newKeeper(now func() time.Time) *keeper { return &keeper{now: now, kept: map[keptKey]*kept{}} }

// kept are those of a query of a group: those there are, or new ones. They stay until keeper.release. Who waits for room has none of them: nobody would count
// them meanwhile.
func (t *Tables) kept(key keptKey) *kept {
	s := t.keeper
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kept[key]
	if k == nil {
		k = &kept{tables: t, key: key, turn: make(chan struct{}, 1), size: keptLeast}
		s.kept[key] = k
	}
	k.pins++
	s.tidy()
	return k
}

// put notes what tables take in memory now.
func (s *keeper) put(k *kept, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k.size, k.looked = max(size, keptLeast), true
	s.tidy()
}

// sizeOf is what was noted last.
func (s *keeper) sizeOf(k *kept) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return k.size
}

// has says whether there are tables of a query, or somebody makes them now.
func (s *keeper) has(key keptKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kept[key]
	return k != nil && (k.looked || k.pins > 0)
}

// release is when one of those who read them does not any more.
func (s *keeper) release(k *kept) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k.pins--
	k.used = s.now()
	s.tidy()
}

// tidy lets go what was not asked for for long, and the oldest of what is too much. With the mutex.
func (s *keeper) tidy() {
	now := s.now()
	var bytes int64
	for key, k := range s.kept {
		switch {
		case k.pins > 0:
		case now.Sub(k.used) > policy.TablesKept:
			delete(s.kept, key)
		default:
			bytes += k.size
		}
	}
	for bytes > keptBytes {
		var oldest *kept
		for _, k := range s.kept {
			if k.pins == 0 && (oldest == nil || k.used.Before(oldest.used)) {
				oldest = k
			}
		}
		delete(s.kept, oldest.key)
		bytes -= oldest.size
	}
	if len(s.kept) > 0 && s.timer == nil {
		s.timer = time.AfterFunc(policy.TablesKept, s.later)
	}
}

// later tidies when nobody asks.
func (s *keeper) later() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = nil
	s.tidy()
}
