package oidc

import (
	"context"
	"time"

	"github.com/drover-io/drover/internal/lease"
)

// SetClock sets by what the age of an issuer's keys is told.
func (p *Providers) SetClock(issuer string, clock lease.Clock) { p.by[issuer].keys.clock = clock }

// Fetch fetches the keys of an issuer, as happens when they are old.
func (p *Providers) Fetch(ctx context.Context, issuer string) error {
	return p.by[issuer].keys.fetch(ctx)
}

// Proven is how many tokens are known.
func (p *Providers) Proven() int { return p.proven.Len() }

// SweepFor is Sweep with another time for each provider.
func (s *Sessions) SweepFor(ctx context.Context, most time.Duration) error {
	return s.sweepFor(ctx, most)
}
