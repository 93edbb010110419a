package activities

import (
	"sync"
	"time"

	"go.temporal.io/sdk/log"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// outages has a worker's log say when a cluster goes and when it is back: work on one that is away is tried again every
// 10 s, by every leaf. The zero value is ready to use.
type outages struct {
	mu   sync.Mutex
	away map[domain.ClusterName]time.Time // since when
}

// mostAway is of how many clusters it is known that they are away. More are said again.
const mostAway = 10_000

// gone says that work on a cluster does not get through, and why, unless that was said.
func (o *outages) gone(to log.Logger, what string, c domain.ClusterName, why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, said := o.away[c]; said {
		return
	}
	if len(o.away) >= mostAway { // those whose registrations were deleted meanwhile never come back
		clear(o.away)
	}
	if o.away == nil {
		o.away = map[domain.ClusterName]time.Time{}
	}
	o.away[c] = time.Now()
	to.Warn("cluster is away", "cluster", c.String(), "for", what, "reason", fail.TextOf(why))
}

// back says that a cluster that was gone is there.
func (o *outages) back(to log.Logger, what string, c domain.ClusterName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if since, said := o.away[c]; said {
		delete(o.away, c)
		to.Info("cluster is back", "cluster", c.String(), "for", what, "after", time.Since(since).Round(time.Second).String())
	}
}
