package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/activities"
)

var matcher *activities.Match // names the methods; never called

// SettleTenant brings what is in the infrastructure cluster of a tenant in line with what its rules want: it goes over the
// matches that are due until none is. Few are tried at once, in its own task; what that leaves has one child, and of many each
// batch has one. Whoever marks a match due sends SettleSignal, which starts it where it does not run. When the cluster does not
// answer, one activity waits until it does, and nothing else is tried meanwhile.
func SettleTenant(ctx workflow.Context, in activities.TenantInput) error {
	t := &tenant{
		TenantInput: in, signals: workflow.GetSignalChannel(ctx, SettleSignal),
		open: map[string]bool{}, resting: map[string]time.Time{}, listed: true,
	}
	t.whole, _ = workflow.NewDisconnectedContext(ctx)
	for ctx.Err() == nil {
		if err := t.round(ctx); err != nil {
			break
		}
		if t.idle() || t.full(ctx) {
			break
		}
		if err := t.rest(ctx); err != nil || t.full(ctx) {
			break
		}
	}
	if t.leaving { // the next run goes on with it
		t.stay()
	}
	if err := workflow.Await(t.whole, func() bool { return t.working == 0 && !t.leaving }); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if t.signals.Len() == 0 && t.idle() {
		return nil
	}
	for t.signals.ReceiveAsync(nil) {
		continue // the next run begins with a look at what is due
	}
	return workflow.NewContinueAsNewError(ctx, SettleTenantName, in)
}

// tenant is one run of SettleTenant.
type tenant struct {
	activities.TenantInput
	whole   workflow.Context
	signals workflow.ReceiveChannel
	listed  bool                 // what is due is to be listed anew
	tried   bool                 // what was due was tried at once, and not all was settled
	open    map[string]bool      // matches that a child is at, by id; true when they were seen to be due since it began
	resting map[string]time.Time // until when those are left alone whose child has failed
	working int                  // children
	ended   int                  // children that have ended since the last list
	wake    time.Time            // when something is due again; zero for never
	leaving bool                 // namespaces are being left
	stay    func()               // ends that
	away    bool                 // the cluster does not answer
	batches int
}

// round lists what is due and begins it.
func (t *tenant) round(ctx workflow.Context) error {
	for t.signals.ReceiveAsync(nil) {
		t.listed = true // it is about something that may have come after the last list
	}
	if !t.listed {
		return nil
	}
	t.listed, t.ended, t.wake = false, 0, time.Time{}
	var due activities.DueMatches
	in := activities.DueInput{Tenant: t.Tenant, Limit: dueMatches + len(t.open), AtOnce: matchesAtOnce, Now: workflow.Now(ctx)}
	if t.tried {
		in.AtOnce = 0
	}
	err := briefly(t.whole, matcher.DueMatches, in, &due)
	if err != nil {
		return err
	}
	t.again(due.Next)
	if due.Leaves && !t.leaving {
		t.leave(ctx)
	}
	var matches []activities.DueMatch
	for _, m := range due.Matches {
		if _, open := t.open[m.ID]; open {
			t.open[m.ID] = true // it may have been marked since the child has read it
			continue
		}
		if until, resting := t.resting[m.ID]; resting && until.After(workflow.Now(ctx)) {
			t.again(until)
			continue
		}
		delete(t.resting, m.ID)
		matches = append(matches, m)
	}
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("%d matches due", len(matches)+len(t.open)))
	if !t.tried && len(due.Matches) <= in.AtOnce {
		t.atOnce(matches)
		return nil
	}
	t.tried = false
	for chunk := range slices.Chunk(matches, matchBatch) {
		if err := workflow.Await(ctx, func() bool { return t.away || t.working < openMatches }); err != nil {
			return err
		}
		if t.away {
			t.listed = true
			return nil
		}
		t.begin(ctx, chunk)
	}
	t.listed = t.listed || due.More
	return nil
}

// atOnce tries to settle some matches in the workflow's own task.
func (t *tenant) atOnce(matches []activities.DueMatch) {
	if len(matches) == 0 {
		return
	}
	in := activities.MatchesInput{Tenant: t.Tenant}
	for _, m := range matches {
		in.IDs = append(in.IDs, m.ID)
	}
	var settled activities.Settled
	err := workflow.ExecuteLocalActivity(once(t.whole, settleTimeout), matcher.SettleMatches, in).Get(t.whole, &settled)
	t.tried, t.listed = err != nil, true
	t.away = t.away || settled.Away // others have found that out
}

// begin starts the child for some matches.
func (t *tenant) begin(ctx workflow.Context, matches []activities.DueMatch) {
	in := activities.MatchesInput{Tenant: t.Tenant}
	for _, m := range matches {
		in.IDs = append(in.IDs, m.ID)
		t.open[m.ID] = false
	}
	t.working++
	id, summary := MatchID(t.Tenant, matches[0]), matches[0].Rule+" for "+matches[0].Of
	if len(matches) > 1 {
		t.batches++
		id, summary = batchID(t.Tenant, t.batches), batchSummary(matches)
	}
	attributes := TenantAttributes(t.Tenant)
	if sameRule(matches) {
		attributes = TenantAttributes(t.Tenant, appAttribute.ValueSet(fit(matches[0].Rule)))
	}
	future := workflow.ExecuteChildWorkflow(child(ctx, id, attributes, summary), SettleMatchName, in)
	workflow.Go(t.whole, func(c workflow.Context) {
		var settled activities.Settled
		err := future.Get(c, &settled)
		for _, id := range in.IDs {
			t.listed = t.listed || t.open[id]
			delete(t.open, id)
		}
		t.working--
		t.ended++
		if err != nil { // it was ended by hand, say: what it was at is due still
			workflow.GetLogger(c).Error("settle", "tenant", t.Tenant, "error", err)
			for _, id := range in.IDs {
				t.resting[id] = workflow.Now(c).Add(settleAgain)
			}
			return
		}
		t.away = t.away || settled.Away
		t.again(settled.Next)
	})
}

// leave removes the namespaces of tenants of the name that are gone, beside whatever else goes on.
func (t *tenant) leave(ctx workflow.Context) {
	t.leaving = true
	ctx, t.stay = workflow.WithCancel(ctx)
	left := workflow.ExecuteActivity(workOn(ctx, KubeQueue), matcher.LeaveHomes, t.TenantInput)
	workflow.Go(t.whole, func(c workflow.Context) {
		if err := left.Get(c, nil); err != nil {
			workflow.GetLogger(c).Error("leave namespaces", "tenant", t.Tenant, "error", err)
			t.again(workflow.Now(c).Add(settleAgain))
		}
		t.leaving = false
		t.ended++
	})
}

// again has what is due listed at a time; zero says nothing.
func (t *tenant) again(at time.Time) {
	if !at.IsZero() && (t.wake.IsZero() || at.Before(t.wake)) {
		t.wake = at
	}
}

// idle says that there is nothing to wait for: what is due was listed after all that was begun has ended, and nothing was.
func (t *tenant) idle() bool {
	return t.working == 0 && !t.leaving && t.ended == 0 && !t.listed && !t.away && t.wake.IsZero() && t.signals.Len() == 0
}

// full says that the history is long enough for a new run.
func (t *tenant) full(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	return info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > settleEvents
}

// rest waits until there is something to list: a signal has come, the last child has ended, or something is due again.
func (t *tenant) rest(ctx workflow.Context) error {
	if t.away {
		return t.awaitCluster(ctx)
	}
	due := func() bool {
		return t.listed || t.away || t.signals.Len() > 0 || t.ended > 0 && t.working == 0 || t.full(ctx)
	}
	for !due() {
		if t.wake.IsZero() {
			if err := workflow.Await(ctx, func() bool { return due() || !t.wake.IsZero() }); err != nil {
				return err
			}
			continue
		}
		wake := t.wake
		passed, err := workflow.AwaitWithTimeout(ctx, wake.Sub(workflow.Now(ctx)), func() bool { return due() || t.wake.Before(wake) })
		if err != nil {
			return err
		}
		if !passed {
			break
		}
	}
	t.listed = true
	return nil
}

// awaitCluster waits until the cluster answers.
func (t *tenant) awaitCluster(ctx workflow.Context) error {
	if err := workflow.Await(ctx, func() bool { return t.working == 0 }); err != nil {
		return err
	}
	waits, cancel := workflow.WithCancel(awaiting(ctx))
	defer cancel()
	workflow.SetCurrentDetails(ctx, "waits for the cluster, which does not answer")
	answers := workflow.ExecuteActivity(waits, matcher.AwaitCluster, t.TenantInput)
	if err := workflow.Await(ctx, func() bool { return answers.IsReady() || t.full(ctx) }); err != nil {
		return err
	}
	if !answers.IsReady() { // signals have made the history long
		cancel()
	}
	err := answers.Get(ctx, nil)
	t.away, t.listed = false, true
	if err != nil && !temporal.IsCanceledError(err) {
		workflow.GetLogger(ctx).Error("wait for the cluster", "tenant", t.Tenant, "error", err)
		return workflow.Sleep(ctx, settleAgain)
	}
	return ctx.Err()
}

// SettleTenants starts SettleTenant for each tenant that is behind, and where it runs already has it look again. A schedule
// starts it; see BehindSchedule.
func SettleTenants(ctx workflow.Context) (behind int, err error) {
	err = workflow.ExecuteActivity(waiting(ctx), matcher.SettleBehind).Get(ctx, &behind)
	return behind, err
}
