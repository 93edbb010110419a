package activities

import (
	"context"
	"maps"
	"slices"
	"sync"

	"go.temporal.io/sdk/activity"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/policy"
)

// Whose an observation is need not be asked for each: contexts go on for days. But one that ends is not told to those who
// watch the cluster for others. So the records of those of which there was news are looked at some time later, all at once.

// lookAtNews is how often.
var lookAtNews = policy.News

// news are the apps of which clusters said since then that they have something, as the last word on each.
type news struct {
	mu sync.Mutex
	of map[domain.ObservedApp]struct{}
}

// note takes that a cluster has something of an app.
func (n *news) note(o domain.ObservedApp) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.of == nil {
		n.of = map[domain.ObservedApp]struct{}{}
	}
	n.of[o] = struct{}{}
}

// forget takes that it has nothing of it any more.
func (n *news) forget(o domain.ObservedApp) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.of, o)
}

// take are the contexts that have news, which are not news any more.
func (n *news) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	contexts := map[string]bool{}
	for o := range n.of {
		contexts[o.ContextID] = true
	}
	n.of = nil
	return slices.Sorted(maps.Keys(contexts))
}

// follow looks at the news until ctx ends. What the store did not answer is looked at with the next news of it.
func (s *shard) follow(ctx context.Context) {
	for pause.For(ctx, lookAtNews) == nil {
		contexts := s.news.take()
		if len(contexts) == 0 {
			continue
		}
		if err := s.sift(ctx, contexts); err != nil && ctx.Err() == nil {
			activity.GetLogger(ctx).Warn("look for contexts that have ended", "error", err)
		}
	}
}

// sift has the remnants removed of those contexts that have ended.
func (s *shard) sift(ctx context.Context, contexts []string) error {
	for _, id := range contexts {
		s.ours.Delete(id) // as far as it is not found to go on
	}
	records, unreadable := s.Store.InstancesByID(ctx, contexts)
	if _, err := domain.UnreadableOf(unreadable); err != nil {
		return err
	}
	for _, i := range records {
		ended, err := s.ended(ctx, i)
		switch {
		case err != nil:
			return err
		case !ended:
			s.ours.Store(i.ContextID, nil)
		default:
			if err := s.seen(ctx, i); err != nil {
				return err
			}
		}
	}
	return unreadable // of which it is not known whether they have ended
}

// ended says whether the label of a context is nobody's any more: one that was taken over lives on in the last one.
func (s *shard) ended(ctx context.Context, i *domain.Instance) (bool, error) {
	if i.Status != domain.ContextUpdated {
		return i.Status.Over(), nil
	}
	all, err := s.Store.InstancesOf(ctx, i.Owner)
	return !slices.ContainsFunc(all, func(other *domain.Instance) bool {
		return other.LabelID() == i.LabelID() && !other.Status.Over()
	}), err
}

// seen has the remnants of a context removed.
func (s *shard) seen(ctx context.Context, i *domain.Instance) error {
	return s.Sweeps.Seen(ctx, RemnantsInput{Owner: i.Owner, ContextID: i.ContextID, Label: i.LabelID()})
}
