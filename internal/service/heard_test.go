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
}

func (s said) Watches(context.Context, []domain.ClusterName) (map[domain.ClusterName]domain.Watch, error) {
	return s.watches, nil
}

func (s said) Rules(context.Context) (*readiness.Rules, error) { return readiness.Compile(), nil }

func (s said) Observations(context.Context, string, string, []domain.ClusterName) iter.Seq2[view.Report, error] {
	return func(yield func(view.Report, error) bool) {
		for _, r := range s.reports {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func cluster0(name string) domain.ClusterName { return domain.ClusterName{Provider: "p", Name: name} }
