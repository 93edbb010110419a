package service

import (
	"context"
	"iter"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/view"
)

// hear adds to the source what clusters report under the label, and whether those, all when there are none, are heard now.
func (l *Lifecycle) hear(ctx context.Context, s *view.Source, label string, clusters []domain.ClusterName, words map[string]domain.Leaf) error {
	watches, err := l.heard.Watches(ctx, clusters)
	if err != nil {
		return err
	}
	if s.Rules, err = l.heard.Rules(ctx); err != nil {
		return err
	}
	s.Now = l.now()
	s.Hear(view.Reports{
		Watches: watches, Leaves: words,
		Read: func(app string, clusters []domain.ClusterName) iter.Seq2[view.Report, error] {
			return l.heard.Observations(ctx, label, app, clusters)
		},
	})
	return nil
}
