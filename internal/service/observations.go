package service

import (
	"context"
	"iter"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/readiness"
	"github.com/drover-io/drover/internal/view"
)

// hear adds to the source what clusters report under the label, and whether those, all when there are none, are heard now.
func (l *Lifecycle) hear(ctx context.Context, s *view.Source, label string, clusters []domain.ClusterName, words map[string]domain.Leaf) error {
	h, err := l.hearing(ctx, clusters)
	if err == nil {
		l.hearAs(ctx, s, label, h, words)
	}
	return err
}

// hearing says which clusters are heard at a time, and by which rules what they say is judged.
type hearing struct {
	watches map[domain.ClusterName]domain.Watch
	rules   *readiness.Rules
	at      time.Time
}

func (l *Lifecycle) hearing(ctx context.Context, clusters []domain.ClusterName) (h hearing, err error) {
	if h.watches, err = l.heard.Watches(ctx, clusters); err != nil {
		return h, err
	}
	h.rules, err = l.heard.Rules(ctx)
	h.at = l.now()
	return h, err
}

// hearAs is hear where it is known who is heard.
func (l *Lifecycle) hearAs(ctx context.Context, s *view.Source, label string, h hearing, words map[string]domain.Leaf) {
	s.Rules, s.Now = h.rules, h.at
	s.Hear(view.Reports{
		Watches: h.watches, Leaves: words,
		Read: func(app string, clusters []domain.ClusterName) iter.Seq2[view.Report, error] {
			return l.heard.Observations(ctx, label, app, clusters)
		},
	})
}
