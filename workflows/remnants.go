package workflows

import (
	"cmp"
	"slices"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/policy"
)

// RemoveRemnants looks after a context that is terminated: twice, after a minute and a quarter of an hour, and at once when
// whoever watches a cluster reports something of it. As long as it finds something, or a cluster does not answer, it looks
// again, after a minute at first and an hour in the end, for three days.
func RemoveRemnants(ctx workflow.Context, in activities.RemnantsInput) error {
	in.Ending = false
	seen := workflow.GetSignalChannel(ctx, RemnantSignal)
	began := workflow.Now(ctx)
	wait, clean := firstSweep, 0
	for clean < 2 && workflow.Now(ctx).Sub(began) < longestSweep {
		heard := func() bool { return seen.Len() > 0 && (clean > 0 || wait == firstSweep) }
		if _, err := workflow.AwaitWithTimeout(ctx, wait, heard); err != nil {
			return err
		}
		for seen.ReceiveAsync(nil) {
			continue
		}
		var result activities.RemnantsResult
		err := workflow.ExecuteActivity(sweeping(ctx), kube.RemoveRemnants, in).Get(ctx, &result)
		if err != nil {
			return err
		}
		in.Reach = cmp.Or(result.Reach, in.Reach)
		switch {
		case result.Over:
			return nil
		case result.Clean():
			clean, wait = clean+1, lastSweep
		case clean > 0:
			clean, wait = 0, firstSweep
		default:
			wait = policy.Doubling{First: firstSweep, Most: rarestSweep}.After(wait)
		}
		// What is reported comes in bursts.
		if err := workflow.Sleep(ctx, sweepGap); err != nil {
			return err
		}
	}
	return nil
}

// sweep ends a terminate: what carries the context's label is removed from all clusters in which the contexts of the label
// ever had something, for whatever reason it is there. Where not all has been deleted as planned it does not: a hook that has
// failed keeps what it is to be run for. It returns why the context is not terminated, "" when it is.
func (o *operation) sweep(prepared activities.Prepared) (left string) {
	failed := func(a *appRun) bool { return !a.deployed }
	if o.stopping || len(o.apps) == 0 || slices.ContainsFunc(o.apps, failed) {
		return ""
	}
	result, err := o.lookForRemnants(prepared)
	if err != nil { // a stop, or there is no truth to be had: what is there is found later
		workflow.GetLogger(o.whole).Warn("sweep", "error", err)
		o.unseen = true
		return ""
	}
	o.reach = result.Reach
	return result.Left
}

// lookForRemnants looks at few clusters at once, and as an activity at many and where that has not got through.
func (o *operation) lookForRemnants(prepared activities.Prepared) (result activities.RemnantsResult, err error) {
	in := o.remnants(prepared)
	if few(prepared) {
		err = workflow.ExecuteLocalActivity(atOnce(o.work), kube.RemoveRemnants, in).Get(o.work, &result)
		if err == nil {
			return result, nil
		}
	}
	err = workflow.ExecuteActivity(sweeping(o.work), kube.RemoveRemnants, in).Get(o.work, &result)
	return result, err
}

// few says whether the clusters are so few that they are looked at in the workflow's own task.
func few(prepared activities.Prepared) bool {
	n := 0
	for i := range prepared.Apps {
		n = max(n, prepared.Apps[i].Clusters)
	}
	return n <= fewClusters
}

func (o *operation) remnants(prepared activities.Prepared) activities.RemnantsInput {
	return activities.RemnantsInput{Owner: o.in.Owner, ContextID: o.in.ContextID, Label: prepared.Label, Ending: true, Reach: o.reach}
}

// lookAfterItself has the context looked after, unless there is nowhere to look.
func (o *operation) lookAfterItself(prepared activities.Prepared) {
	if o.reach != "" || o.unseen {
		o.lookAfter(o.remnants(prepared))
	}
}

// endEarlier does what a terminate does last, for the context of which an instantiate takes over nothing.
func (o *operation) endEarlier(from *activities.From) {
	if from == nil || from.Ended == "" {
		return
	}
	o.lookAfter(activities.RemnantsInput{Owner: from.Owner, ContextID: from.ContextID, Label: from.Ended})
	o.stopWatching(activities.Prepared{Label: from.Ended, Plan: from.Plan})
}

// lookAfter starts the workflow that looks after a context, now that it is terminated. One that runs goes on.
func (o *operation) lookAfter(in activities.RemnantsInput) {
	in.Ending = false
	ctx := child(o.whole, RemnantsID(in), RemnantsAttributes(in), RemnantsSummary(in))
	options := workflow.GetChildWorkflowOptions(ctx)
	options.ParentClosePolicy = enumspb.PARENT_CLOSE_POLICY_ABANDON
	ctx = workflow.WithChildOptions(ctx, options)
	err := workflow.ExecuteChildWorkflow(ctx, RemoveRemnantsName, in).GetChildWorkflowExecution().Get(ctx, nil)
	if err != nil && !temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		workflow.GetLogger(o.whole).Error("look after remnants", "error", err)
	}
}

// RemnantsID is the id of the workflow that looks after a context.
func RemnantsID(in activities.RemnantsInput) string {
	return fit(ownerPath(in.Owner) + "/" + in.ContextID + "/remnants")
}

// RemnantsAttributes are its search attributes.
func RemnantsAttributes(in activities.RemnantsInput) temporal.SearchAttributes {
	return searchAttributes(domain.Scope{Owner: in.Owner, ContextID: in.ContextID, Operation: "remnants"})
}

// RemnantsSummary is the one line by which a person knows it in the Web UI.
func RemnantsSummary(in activities.RemnantsInput) string {
	return "looks for what turns up again of " + in.Owner.Name()
}
