// Package servicetest has doubles of what the service asks, for tests of those who ask the service.
package servicetest

import (
	"context"
	"iter"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/operations"
	"github.com/drover-io/drover/internal/readiness"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/view"
)

// GoingOn is the context of the one operation that Willing tells of, an update.
const GoingOn = "7"

// Willing is an engine that takes every operation and never comes to its end.
type Willing struct {
	service.Engine
	Warnings []string // of what is started
	Group    domain.Key
	Now      func() time.Time
}

// Start implements service.Engine.
func (w Willing) Start(context.Context, domain.Scope, domain.Seen) ([]string, error) {
	return w.Warnings, nil
}

// Change implements service.Engine.
func (Willing) Change(context.Context, domain.Scope, domain.Seen, domain.Goal) (int, []string, error) {
	return 2, nil, nil
}

// Stop implements service.Engine.
func (Willing) Stop(context.Context, domain.Scope) error { return nil }

// StopWatching implements service.Engine.
func (Willing) StopWatching(context.Context, string) error { return nil }

// Running implements service.Engine.
func (Willing) Running(context.Context, domain.Scope) (bool, error) { return true, nil }

// Counts implements service.Engine.
func (Willing) Counts(context.Context, domain.Scope) (map[domain.ResourceState]int, error) {
	return nil, fail.New(fail.NotFound, "not asked yet")
}

// Open implements service.Engine.
func (Willing) Open(context.Context, domain.Scope, string) ([]domain.Leaf, error) { return nil, nil }

// NotStarted implements service.Engine.
func (Willing) NotStarted(context.Context, domain.Scope) (map[string]string, error) { return nil, nil }

// Run tells an explainer that it runs.
func (Willing) Run(context.Context, domain.Scope) (explain.Run, error) {
	return explain.Run{Status: explain.Running}, nil
}

// Starting tells an explainer that nothing is about to be accepted.
func (Willing) Starting(context.Context, domain.Key, string) (*explain.Run, error) { return nil, nil }

// Attempts tells an explainer of none.
func (Willing) Attempts(context.Context, domain.Scope, []explain.Place) (map[explain.Place]explain.Attempt, error) {
	return nil, nil
}

// Waiting tells an explainer of none.
func (Willing) Waiting(context.Context, []string) *explain.Task { return nil }

// Executions tells a journal of one, of Group.
func (w Willing) Executions(context.Context, operations.Filter, int, []byte) ([]operations.Execution, []byte, error) {
	return []operations.Execution{{
		Scope: domain.Scope{Owner: w.Group, ContextID: GoingOn, Operation: domain.OpUpdate},
		Run:   explain.Run{ID: "dig/" + GoingOn + "/update", RunID: "run", Status: explain.Running, Started: w.Now(), By: "alice"},
	}}, nil, nil
}

// ExecutionsOf is Executions where that is the one that is asked for.
func (w Willing) ExecutionsOf(ctx context.Context, s domain.Scope) ([]operations.Execution, error) {
	if s.ContextID != GoingOn {
		return nil, nil
	}
	found, _, err := w.Executions(ctx, operations.Filter{}, 1, nil)
	return found, err
}

// Execution tells a journal that none is known.
func (Willing) Execution(context.Context, domain.Scope) (operations.Execution, error) {
	return operations.Execution{}, fail.New(fail.NotFound, "it is not running")
}

// Deaf hears no cluster.
type Deaf struct{ service.Heard }

// Rules implements service.Heard.
func (Deaf) Rules(context.Context) (*readiness.Rules, error) { return nil, nil }

// ObservationsVersion implements service.Heard.
func (Deaf) ObservationsVersion(context.Context, string) (string, error) { return "", nil }

// Watches implements service.Heard.
func (Deaf) Watches(context.Context, []domain.ClusterName) (map[domain.ClusterName]domain.Watch, error) {
	return nil, nil
}

// Observations implements service.Heard.
func (Deaf) Observations(context.Context, string, string, []domain.ClusterName) iter.Seq2[view.Report, error] {
	return func(func(view.Report, error) bool) {}
}
