package service

import (
	"context"
	"iter"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/readiness"
	"github.com/drover-io/drover/internal/view"
)

// said is what clusters have said of the one app, in order, and whether they are heard.
type said struct {
	Heard
	reports []view.Report
	watches map[domain.ClusterName]domain.Watch
	asked   *[][]domain.ClusterName // what of, nil where nobody counts
}

func (s said) Watches(_ context.Context, clusters []domain.ClusterName) (map[domain.ClusterName]domain.Watch, error) {
	s.ask(clusters)
	return s.watches, nil
}

func (s said) Rules(context.Context) (*readiness.Rules, error) { return readiness.Compile(), nil }

func (s said) ask(clusters []domain.ClusterName) {
	if s.asked != nil {
		*s.asked = append(*s.asked, clusters)
	}
}

func (s said) Observations(_ context.Context, _, _ string, clusters []domain.ClusterName) iter.Seq2[view.Report, error] {
	s.ask(clusters)
	return func(yield func(view.Report, error) bool) {
		for _, r := range s.reports {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func cluster0(name string) domain.ClusterName { return domain.ClusterName{Provider: "p", Name: name} }
