package rpc

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/drover-io/drover/internal/lru"
	"github.com/drover-io/drover/internal/policy"
)

// What tenants are charged for, in changes of a workload, of which each may have so many a second.
const (
	callCosts = 10       // a call, or the begin of a stream
	syncParts = 10       // so many workloads of a sync count as one change: most of them have not changed
	sizeCosts = 16 << 10 // so many bytes of a message count as one change, too
	mostPaces = 2_000    // tenants that are remembered; the one that has said nothing for longest is forgotten first
)

// paces have those wait who say more than their share: nothing of them is dropped, and what they say next is read later. A tenant
// may say at once what it may say in policy.PaceBurst. Who has said more is not read for policy.PacePause at least, so that what comes
// then is stored together: a flood costs the database a few writes a second, and not as many as it takes.
type paces struct {
	rate float64 // changes a second; 0 for no limit
	log  *slog.Logger
	now  func() time.Time

	mu sync.Mutex
	of *lru.Cache[string, *pace]
}

// pace is what a tenant may say still; less than 0 when it has said too much.
type pace struct {
	left   float64
	at     time.Time
	logged time.Time
}

func newPaces(rate int, log *slog.Logger) *paces {
	return &paces{rate: float64(rate), log: log, now: time.Now, of: lru.New[string, *pace](mostPaces)}
}

func (p *paces) burst() float64 { return p.rate * policy.PaceBurst.Seconds() }

// costs is what a message of a stream costs.
func costs(sync bool, workloads, bytes int) float64 {
	cost := float64(workloads)
	if sync {
		cost = 1 + cost/syncParts
	}
	return cost + float64(bytes/sizeCosts)
}

// spend charges somebody, and says for how long nothing is to be read then.
func (p *paces) spend(who string, cost float64) time.Duration {
	if p.rate == 0 {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	b, known := p.of.Get(who)
	if !known {
		b = &pace{left: p.burst(), at: now}
		p.of.Add(who, b)
	}
	p.refill(b, now)
	// What is owed is not more than a burst: who has sent the largest sync again and again is slow, and not silent for minutes.
	if b.left = max(b.left-cost, -p.burst()); b.left >= 0 {
		return 0
	}
	if now.Sub(b.logged) > policy.PaceLog {
		b.logged = now
		p.log.LogAttrs(context.Background(), slog.LevelWarn, "a tenant is read slowly: it says more than its share",
			slog.String("of", who), slog.Float64("perSecond", p.rate))
	}
	return time.Duration(-b.left/p.burst()*float64(policy.PaceBurst)) + policy.PacePause
}

func (p *paces) refill(b *pace, now time.Time) {
	b.left = min(b.left+now.Sub(b.at).Seconds()*p.rate, p.burst())
	b.at = now
}

// pause waits; false when one of two things ends it before.
func pause(d time.Duration, ends, closed <-chan struct{}) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ends:
		return false
	case <-closed:
		return false
	}
}
