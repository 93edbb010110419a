package activities

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/policy"
)

// Heard says which clusters of a shard are heard, for who looks at its workflow; those that are not said anything of
// have just been begun.
type Heard struct {
	Clusters int       `json:"clusters"`       // that are heard
	Lost     int       `json:"lost,omitempty"` // that are not
	Reasons  []Unheard `json:"reasons,omitempty"`
}

// Unheard is why a cluster is not heard.
type Unheard struct {
	Cluster domain.ClusterName `json:"cluster"`
	Reason  string             `json:"reason"`
}

// maxReasons is of how many clusters the reason is told, the first by name.
const maxReasons = 50

// tellEvery is the least time between two words on who is heard.
var tellEvery = policy.Heard

// contacts is what the watches of a shard last said.
type contacts struct {
	mu    sync.Mutex
	of    map[domain.ClusterName]domain.Watch
	since map[domain.ClusterName]time.Time // of Connected as it is
}

func (c *contacts) put(w domain.Watch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of, c.since = map[domain.ClusterName]domain.Watch{}, map[domain.ClusterName]time.Time{}
	}
	if last, known := c.of[w.Cluster]; !known || last.Connected != w.Connected {
		c.since[w.Cluster] = time.Now()
	}
	c.of[w.Cluster] = w
}

func (c *contacts) forget(name domain.ClusterName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.of, name)
	delete(c.since, name)
}

// without are the last words on clusters that are not among others.
func (c *contacts) without(others map[domain.ClusterName]bool) (words []domain.Watch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, w := range c.of {
		if !others[name] {
			words = append(words, w)
		}
	}
	return words
}

func (c *contacts) heard() (h Heard) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.of {
		if w.Connected {
			h.Clusters++
			continue
		}
		h.Reasons = append(h.Reasons, Unheard{w.Cluster, w.Reason})
	}
	h.Lost = len(h.Reasons)
	slices.SortFunc(h.Reasons, func(a, b Unheard) int { return a.Cluster.Compare(b.Cluster) })
	h.Reasons = h.Reasons[:min(len(h.Reasons), maxReasons)]
	return h
}

// tell tells the workflow who is heard, when that has changed, until ctx ends.
func (s *shard) tell(ctx context.Context, number int) {
	var told Heard
	for pause.For(ctx, tellEvery) == nil {
		now := s.contacts.heard()
		if reflect.DeepEqual(now, told) {
			continue
		}
		if err := s.Shards.Heard(ctx, number, now); err != nil {
			activity.GetLogger(ctx).Warn("tell who is heard", "shard", number, "error", err)
			continue
		}
		told = now
	}
}
