package activities

import (
	"context"
	"fmt"
	"slices"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/plan"
)

// The work on a leaf with hooks is done in the steps of plan.Steps, an activity each. What a step came to is in
// the leaf's record before the next one begins: there the next one goes on.

// occasion is the operation whose hooks are run: where an update brings an app to, or finds its install unfinished, it is
// installed.
func (in LeafInput) occasion() domain.Operation {
	if in.Installs {
		return domain.OpInstantiate
	}
	return in.Operation
}

// Runs says whether the work runs hooks of the events. Pruning does not.
func (in LeafInput) Runs(events []string) bool {
	return !in.Prune && plan.HasHooks(events, in.occasion())
}

// steps are those of the work on a bundle.
func (in LeafInput) steps(resources []plan.Resource) []plan.Step {
	if !in.Prune {
		return plan.Steps(resources, in.occasion())
	}
	all := plan.Step{Work: plan.WorkDelete}
	for i := range resources {
		all.Resources = append(all.Resources, i)
	}
	return []plan.Step{all}
}

// step does the attempt's step.
func (a *attempt) step(ctx context.Context, cluster, admin *kube.Cluster) kube.Outcome {
	s, last := a.steps[a.in.Step], a.in.Step == len(a.steps)-1
	switch s.Work {
	case plan.WorkHook:
		return a.hook(ctx, cluster, s)
	case plan.WorkTidy:
		return a.tidy(ctx, cluster, s)
	case plan.WorkDelete:
		if a.in.Operation == domain.OpTerminate {
			a.doom(s)
		}
		if !last { // the cluster is to report on what follows
			return cluster.Delete(ctx, a.job(s))
		}
		return a.remove(ctx, cluster, admin, a.job(s))
	default:
		return a.apply(ctx, cluster, admin, a.job(s))
	}
}

// goOn takes up what the step before has recorded.
func (a *attempt) goOn(ctx context.Context) (domain.Marks, error) {
	leaf, err := a.kube.leaves.Leaf(ctx, a.in.LeafID())
	if err != nil {
		return nil, err
	}
	if leaf.Operation != a.in.Operation || a.in.Step >= len(a.steps) {
		return nil, fail.New(fail.Internal, "step %d of leaf %s does not follow the record of its %s", a.in.Step, a.in.LeafID(), leaf.Operation)
	}
	a.state.Notes, a.state.Report, a.state.Connectivity = leaf.Notes, leaf.Report, leaf.Connectivity
	a.state.Warnings, a.state.Unpatchable = leaf.Warnings, leaf.Unpatchable
	a.state.Reported = a.in.Operation == domain.OpTerminate
	return domain.DecodeMarks(leaf.Marks), nil
}

// next is the step that follows the attempt's, 0 for none.
func (a *attempt) next() int {
	if a.halted {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return plan.Next(a.steps, a.in.Step, a.all.Failed())
}

// job is the work on a step's resources.
func (a *attempt) job(s plan.Step) kube.Job {
	a.mu.Lock()
	defer a.mu.Unlock()
	return kube.Job{
		Resources: a.claimed(), Marks: slices.Clone(a.all), Selects: among(s.Resources), Namespace: a.in.Namespace,
		DeploymentID: a.in.deploymentID(), Operation: fmt.Sprintf("%s/%d", a.in.ContextID, a.in.Began), Prunes: a.in.Prune, TakesAll: domain.Certifies(a.in.Owner),
		Failing: a.state.Failing, BeforeStage: a.announce, BeforeReplace: a.replaces, OnMark: a.mark,
		OnDropped: a.dropped, OnShared: a.shared, OnUnpatchable: a.unpatchable,
	}
}

// among selects some resources, for kube.Job.
func among(indices []int) func(int) bool {
	chosen := make(map[int]bool, len(indices))
	for _, i := range indices {
		chosen[i] = true
	}
	return func(i int) bool { return chosen[i] }
}

// doom has the hooks of a step deleted that were run in the steps before.
func (a *attempt) doom(s plan.Step) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = s.Doomed(a.resources, a.all)
}

func (a *attempt) marked(i int) domain.Mark {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all[i]
}
