package workflows

import (
	"cmp"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/policy"
)

// pacedRemnants names the change by which RemoveRemnants looks less and less often also where it finds nothing in between, and goes on as a new
// run.
const pacedRemnants = "paced-remnants"

// RemnantsRun is what one run of RemoveRemnants hands to the next. Who starts the first one says no more than RemnantsInput.
type RemnantsRun struct {
	activities.RemnantsInput
	Began    time.Time     `json:"began,omitzero"`     // of the first run
	Next     time.Time     `json:"next,omitzero"`      // of the next look
	Wait     time.Duration `json:"wait,omitempty"`     // that comes before it in all
	Clean    int           `json:"clean,omitempty"`    // looks that have found nothing, one after another
	Relapses int           `json:"relapses,omitempty"` // how often something was found after these
	Seen     bool          `json:"seen,omitempty"`     // something was reported after the last look
}

// RemoveRemnants looks after a context that is terminated: twice, after a minute and a quarter of an hour, and at once when
// whoever watches a cluster reports something of it. As long as it finds something, or a cluster does not answer, it looks
// again, after a minute at first and an hour in the end, for three days. What is made again and again is found again and again: the more
// often something was found after a look that found nothing, the longer it waits then, too.
func RemoveRemnants(ctx workflow.Context, in RemnantsRun) error {
	paced := workflow.GetVersion(ctx, pacedRemnants, workflow.DefaultVersion, 1) != workflow.DefaultVersion
	in.Ending = false
	seen := workflow.GetSignalChannel(ctx, RemnantSignal)
	if in.Began.IsZero() {
		in.Began, in.Wait = workflow.Now(ctx), firstSweep
		in.Next = in.Began.Add(in.Wait)
	}
	waits := policy.Doubling{First: firstSweep, Most: rarestSweep}
	full := func() bool {
		info := workflow.GetInfo(ctx)
		return paced && (info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > keepEvents)
	}
	for in.Clean < 2 && workflow.Now(ctx).Sub(in.Began) < longestSweep {
		heard := func() bool { return (in.Seen || seen.Len() > 0) && (in.Clean > 0 || in.Wait == firstSweep) }
		left := max(in.Next.Sub(workflow.Now(ctx)), 0)
		if _, err := workflow.AwaitWithTimeout(ctx, left, func() bool { return heard() || full() }); err != nil {
			return err
		}
		for seen.ReceiveAsync(nil) {
			in.Seen = true
		}
		if full() {
			return workflow.NewContinueAsNewError(ctx, RemoveRemnantsName, in)
		}
		in.Seen = false
		var result activities.RemnantsResult
		err := workflow.ExecuteActivity(sweeping(ctx), kube.RemoveRemnants, in.RemnantsInput).Get(ctx, &result)
		if err != nil {
			return err
		}
		in.Reach = cmp.Or(result.Reach, in.Reach)
		switch {
		case result.Over:
			return nil
		case result.Clean():
			in.Clean, in.Wait = in.Clean+1, lastSweep
		case in.Clean > 0:
			in.Clean, in.Wait = 0, firstSweep
			if paced {
				in.Wait = waits.Nth(in.Relapses)
			}
			in.Relapses++
		default:
			in.Wait = waits.After(in.Wait)
		}
		// What is reported comes in bursts.
		if err := workflow.Sleep(ctx, sweepGap); err != nil {
			return err
		}
		in.Next = workflow.Now(ctx).Add(in.Wait)
		if paced && in.Clean == 2 && seen.Len() > 0 { // it was reported during the look, or after it: who reported it does not say it again
			in.Clean = 1
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
