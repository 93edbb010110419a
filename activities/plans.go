package activities

import (
	"context"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/lru"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/share"
	"github.com/drover-io/drover/internal/stored"
)

// Plans keeps decoded plans for who only reads them: the leaves and batches of an operation have the same one, and begin together, so that
// one of them reads and decodes it.
type Plans struct {
	kept  *lru.Weighed[domain.Digest, *plan.Plan]
	reads *share.Reads[*plan.Plan]
}

// decodedPlans and decodedPlanBytes bound Plans.
const decodedPlans, decodedPlanBytes = 8, 128 << 20

func newPlans() *Plans {
	return &Plans{kept: lru.NewWeighed[domain.Digest, *plan.Plan](decodedPlans, decodedPlanBytes), reads: share.New[*plan.Plan]()}
}

// get is the plan with the digest, which must not be changed.
func (s *Plans) get(ctx context.Context, from stored.Blobs, digest domain.Digest) (*plan.Plan, error) {
	if p, ok := s.kept.Get(digest); ok {
		return p, nil
	}
	return s.reads.Get(ctx, string(digest), func(ctx context.Context) (*plan.Plan, error) {
		if p, ok := s.kept.Get(digest); ok { // by the read before this one
			return p, nil
		}
		p, err := stored.JSON[plan.Plan](ctx, from, digest)
		if err == nil {
			s.kept.Add(digest, p, p.Weight())
		}
		return p, err
	})
}
