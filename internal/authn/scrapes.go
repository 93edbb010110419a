package authn

import (
	"context"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/lru"
	"github.com/drover-io/drover/internal/policy"
)

// Scrapes knows the tokens that were good when they last asked for metrics, for a time in which the store does not answer: metrics are what
// that is seen by. As long as it answers, a token is good by what it says, and one that it refuses is known no more.
type Scrapes struct {
	now   lease.Clock
	good  *lru.Cache[string, scrape] // by key and hash
	looks singleflight.Group
}

// scrape is until when a token is good, and when the look began that said so.
type scrape struct {
	until time.Time
	at    lease.Instant
}

// scrapers is how many tokens are known that ask for metrics.
const scrapers = 64

// NewScrapes makes one that knows none.
func NewScrapes(now lease.Clock) *Scrapes {
	return &Scrapes{now: now, good: lru.New[string, scrape](scrapers)}
}

// look says until when a token is good that asks for metrics. One that is known waits for no stranger's turn, and is looked for once at a time.
func (k *Scrapes) look(ctx context.Context, t Tokens, key domain.Key, hash []byte) (until time.Time, err error) {
	id, at := string(key)+" "+string(hash), k.now()
	last, known := k.good.Get(id)
	if !known {
		if until, err = t.first(ctx, key, hash); err == nil {
			k.good.Add(id, scrape{until, at})
		}
		return until, err
	}
	answer, err, _ := k.looks.Do(id, func() (any, error) {
		at := k.now()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), policy.ScrapeLook) // others wait for it, too
		defer cancel()
		until, err := t.Look(ctx, domain.ServiceAccountTokens, key, hash)
		switch {
		case err == nil:
			k.good.Add(id, scrape{until, at})
		case fail.Is(err, fail.Unauthorized):
			k.good.Remove(id)
		case k.now().Since(last.at) < policy.ScrapeGood && t.Now().Before(last.until):
			return last.until, nil
		}
		return until, err
	})
	until, _ = answer.(time.Time)
	return until, err
}
