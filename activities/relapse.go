package activities

import (
	"sync"
	"time"

	"github.com/drover-io/drover/internal/policy"
)

// relapses are the tenants whose cluster answers when it is asked, and not when there is something to do: one that closes the
// connection of every create, say. Each time is a few requests and a run of SettleTenant's children, without a pause between.
// The zero value is ready to use.
type relapses struct {
	mu   sync.Mutex
	last map[string]relapse
}

type relapse struct {
	until time.Time     // when the pause ended
	pause time.Duration // how long it was
}

// next is how long to pause although the cluster of a tenant answers: not at all the first time, and twice as long each time.
func (r *relapses) next(tenant string, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	for t, l := range r.last {
		if now.Sub(l.until) > policy.RelapseWithin {
			delete(r.last, t)
		}
	}
	pause := time.Duration(0)
	if l, again := r.last[tenant]; again {
		pause = policy.Doubling{First: policy.FirstAway, Most: policy.LongestAway}.After(l.pause)
	}
	if r.last == nil {
		r.last = map[string]relapse{}
	}
	r.last[tenant] = relapse{now.Add(pause), pause}
	return pause
}
