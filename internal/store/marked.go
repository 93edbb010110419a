package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
)

// storedMark is since when a resource's JSON has been stored as it is.
type storedMark struct {
	sum    uint64 // sumOf the JSON
	stored time.Time
}

// sumOf tells a resource's JSON from others; never 0.
func sumOf(data []byte) uint64 {
	sum := sha256.Sum256(data)
	return max(binary.LittleEndian.Uint64(sum[:8]), 1)
}

// marked are the marks of what takes the place of an observation, in the order of its resources, and what is gone then. Where
// nobody can read what there was, all is new.
func (s *Store) marked(ctx context.Context, before *observation, o *domain.Observation) ([]storedMark, []goneResource, error) {
	known, err := s.marksOf(ctx, before)
	if err == nil {
		var gone []goneResource
		if gone, err = s.goneAfter(ctx, before, known, o); err == nil {
			return markedAfter(known, o, s.now()), gone, nil
		}
	}
	if !fail.Is(err, fail.NotFound) && !errors.Is(err, domain.ErrUnreadable) { // NotFound: deleted meanwhile
		return nil, nil, err
	}
	return markedAfter(nil, o, s.now()), nil, nil
}

// owned says of an object that it goes with another one.
var owned = []byte(`"ownerReferences":`)

// goneAfter is what was gone before and has not come back, then what the observation has lost that it takes the place of.
func (s *Store) goneAfter(
	ctx context.Context, before *observation, known map[plan.ResourceID]storedMark, o *domain.Observation,
) ([]goneResource, error) {
	there := make(map[uint64]bool, len(o.Resources))
	for i := range o.Resources {
		there[shortIdentity(identityOf(&o.Resources[i]))] = true
	}
	gone := slices.DeleteFunc(slices.Clone(before.Gone), func(g goneResource) bool { return there[uint64(g.Identity)] })
	lost := map[uint64]bool{}
	for id := range known {
		if short := shortIdentity(id); !there[short] {
			lost[short] = true
		}
	}
	if len(lost) > 0 {
		resources, before, err := s.resourcesOf(ctx, before)
		if err != nil {
			return nil, err
		}
		stored, err := s.stored(ctx, o.ContextID, o.App, &saidOfCluster{before, resources})
		if err != nil {
			return nil, err
		}
		for i := range resources {
			short := shortIdentity(identityOf(&resources[i]))
			if !lost[short] {
				continue
			}
			body, err := stored.Object(i)
			if err != nil {
				return nil, err
			}
			if !bytes.Contains(body, owned) {
				since := max(s.now().UnixMilli(), resources[i].Stored.UnixMilli())
				gone = append(gone, goneResource{int64(short), since})
			}
		}
	}
	return gone[max(0, len(gone)-domain.MaxGone):], nil
}

func shortIdentity(id plan.ResourceID) uint64 {
	return domain.IdentityOf(id.Group, id.Kind, id.Namespace, id.Name)
}

// markedAfter marks the resources of an observation: what says what it said before keeps its time. Any other is of now, but
// not of before what it takes the place of, which may have been written by a clock that is a little ahead.
func markedAfter(known map[plan.ResourceID]storedMark, o *domain.Observation, now time.Time) []storedMark {
	marks := make([]storedMark, len(o.Resources))
	for i := range o.Resources {
		r := &o.Resources[i]
		m := storedMark{sum: sumOf(r.JSON), stored: now}
		was, ok := known[identityOf(r)]
		if ok && (was.sum == m.sum || was.stored.After(now) && was.stored.Sub(now) <= policy.ClockSkew) {
			m.stored = was.stored
		}
		marks[i] = m
	}
	return marks
}

// marksOf are the marks of an observation.
func (s *Store) marksOf(ctx context.Context, o *observation) (map[plan.ResourceID]storedMark, error) {
	resources, _, err := s.resourcesOf(ctx, o)
	if err != nil {
		return nil, err
	}
	marks := make(map[plan.ResourceID]storedMark, len(resources))
	for i := range resources {
		r := &resources[i]
		marks[identityOf(r)] = storedMark{r.Sum, r.Stored}
	}
	return marks, nil
}
