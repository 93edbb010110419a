package activities

import (
	"cmp"
	"context"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/policy"
)

// announce tells the workflow, before a stage is sent, that its resources may be in the cluster from now
// on, if the workflow has heard of the leaf before.
func (a *attempt) announce(ctx context.Context, stage []int) error {
	a.try(stage)
	p := a.snapshot()
	if p.Announced == "" || !p.unannounced(stage) {
		return nil
	}
	return a.tell(ctx, Contact{Connectivity: p.Connectivity, Marks: p.Marks, Error: p.Error, Reason: p.Reason})
}

// unannounced says whether something of the stage is about to be sent of which the workflow does not know yet that it may be.
func (p progress) unannounced(stage []int) bool {
	now, told := p.marks(), domain.DecodeMarks(p.Announced)
	goes := func(m domain.Mark) bool { return m.ToDelete() && !m.Unsent() }
	return slices.ContainsFunc(stage, func(i int) bool {
		return i >= len(told) || now[i] != told[i] && (!goes(now[i]) || !goes(told[i]))
	})
}

// try marks a stage as sent before it is. What is announced stays so, whether its requests get out or not:
// the workflow is told once, not with every attempt. And of what is about to be deleted nobody can say from
// now on that it is still there.
func (a *attempt) try(stage []int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, i := range stage {
		if m := a.all[i]; m.ToDelete() || a.state.Announced != "" {
			a.all[i] = m.Send()
		}
	}
}

// retry tells the workflow that the cluster does not let the work through, unless it knows all of it.
func (a *attempt) retry(ctx context.Context, o kube.Outcome) error {
	p := a.snapshot()
	lost, text, now := p.Said != domain.ConnectivityRetrying, fail.TextOf(o.Retry), time.Now()
	a.kube.outages.gone(activity.GetLogger(ctx), "work", a.in.Cluster, o.Retry)
	a.mu.Lock()
	a.state.Connectivity, a.state.Error, a.state.Reason = domain.ConnectivityRetrying, text, ""
	if a.state.Lost.IsZero() {
		a.state.Lost = now
	}
	switch {
	case !o.Reached: // what it says when it is back may be for a moment
		a.state.Failing = time.Time{}
	case a.state.Failing.IsZero():
		a.state.Failing = now
	}
	a.mu.Unlock()
	news := lost && p.Told == "" || (lost || p.Told != "" && p.Told != text) && p.due(now, p.Lost)
	if news || p.Marks != p.Announced {
		if err := a.tell(ctx, Contact{Connectivity: domain.ConnectivityRetrying, Marks: p.Marks, Error: text}); err != nil {
			return err
		}
		a.mu.Lock()
		a.state.Told, a.state.ToldAt = text, now
		a.mu.Unlock()
	}
	if lost && news && !o.Reached {
		if err := lease.Check(ctx); err != nil { // another worker may have come through meanwhile
			return err
		}
		if err := a.kube.leaves.SetReachable(ctx, a.in.Cluster, false); err != nil {
			activity.GetLogger(ctx).Warn("record reachability", "cluster", a.in.Cluster, "error", err)
		}
	}
	activity.RecordHeartbeat(ctx, a.snapshot())
	return o.Retry
}

// due says whether the workflow is to be told that something else stands in the way than it knows, or is waited for, or nothing. That is told the less
// often the longer it has gone on, so that neither a cluster which answers now and then for weeks nor objects that go one by one fill histories.
func (p progress) due(now, since time.Time) bool {
	return now.Sub(p.ToldAt) >= max(now.Sub(since)/4, policy.TellAgain)
}

// toldNotes bounds how many notes the workflow is told: a history is no place for a thousand of the same kind.
const toldNotes = 10

// await tells the workflow for which objects the leaf waits, unless it knows, or was told something a moment ago. What waits holds no slot anywhere: the error
// has the attempt made again later.
func (a *attempt) await(ctx context.Context, o kube.Outcome) error {
	now := time.Now()
	a.mu.Lock()
	a.state.Connectivity, a.state.Error, a.state.Reason = domain.ConnectivityAvailable, "", o.Waits
	a.state.Failing = time.Time{}
	if a.state.Ending.IsZero() {
		a.state.Ending = now
	}
	since := a.state.Ending
	if a.state.Said == domain.ConnectivityRetrying && !a.state.Lost.IsZero() {
		since = a.state.Lost
	}
	if lately := now.Add(-4 * policy.TellLongest); since.Before(lately) { // whoever looks into it after days waits no longer for what comes of that
		since = lately
	}
	passed := now.Sub(a.state.Ending)
	a.mu.Unlock()
	p := a.snapshot()
	if news := p.Said != p.Connectivity || p.SaidReason != p.Reason || p.Announced != p.Marks; news && p.due(now, since) {
		if err := a.tell(ctx, Contact{Connectivity: p.Connectivity, Marks: p.Marks, Reason: p.Reason, Notes: p.ending()}); err != nil {
			return err
		}
		a.mu.Lock()
		a.state.ToldAt = now
		a.mu.Unlock()
	}
	activity.RecordHeartbeat(ctx, a.snapshot())
	again := fail.Wrap(o.Retry, fail.Unavailable, "%s", o.Waits)
	again.RetryAfter = waitAgain(passed)
	return again
}

// waitAgain is the wait before what outlives its deletion is looked at again, when it was waited for so long.
func waitAgain(passed time.Duration) time.Duration {
	return min(max(passed/4, policy.FirstEnding), policy.LongestEnding)
}

// ending are the notes on what outlives its deletion, toldNotes of them at most.
func (p progress) ending() (notes []domain.Note) {
	marks := p.marks()
	for _, n := range p.Notes {
		if marks[n.Index] == domain.MarkEnding {
			notes = append(notes, n)
		}
	}
	slices.SortFunc(notes, func(x, y domain.Note) int { return cmp.Compare(x.Index, y.Index) })
	return notes[:min(len(notes), toldNotes)]
}

// tell tells the workflow. One that takes no more is none to wait for: work goes to its end, which is told by the activity's result.
func (a *attempt) tell(ctx context.Context, c Contact) error {
	if err := lease.Check(ctx); err != nil {
		return err
	}
	run := activity.GetInfo(ctx).WorkflowExecution
	err := a.kube.reporter.Contact(ctx, run.ID, run.RunID, c)
	if fail.Is(err, fail.Exhausted) {
		activity.GetLogger(ctx).Warn("tell of a cluster", "cluster", a.in.Cluster, "error", err)
		err = nil
	}
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state.Announced, a.state.Said, a.state.SaidReason = c.Marks, c.Connectivity, c.Reason
	return nil
}
