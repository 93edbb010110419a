// Package outcome says what an operation changes in the documents of its owner and its app context: when it is accepted, when
// it is stopped, and when it has ended. For the last it adds up the marks that the leaves were left with. An example: an
// instantiate with all resources Applied, and one Failed, is InstantiateFailed.
package outcome

import (
	"cmp"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/internal/plan"
)

// Tally is what the leaves of an operation have come to.
type Tally struct {
	Counts map[domain.ResourceState]int
	kept   int // resources that a terminate leaves in the cluster on purpose; they count as Applied
	idle   int // hooks of other operations; they count as Pending
	doomed int // what is to be deleted, and nobody came to; it counts as Applied
}

// Add counts the marks of a leaf on which nothing is done any more.
func (t *Tally) Add(marks domain.Marks) {
	t.Counts = Rollup(t.Counts, marks.Count(false, domain.ConnectivityAvailable))
	for _, m := range marks {
		switch m.Residue() {
		case domain.ResidueKept:
			t.kept++
		case domain.ResidueIdle:
			t.idle++
		case domain.ResidueUndealt:
			t.doomed++
		case domain.ResidueNone:
		}
	}
}

// Status is where an app context stands after op has ended, which is one that makes a context or OpTerminate; for any other
// operation it is ContextNone. One that makes a context has succeeded when all resources are Applied, or Deleted as hooks
// that have done their work, but the idle ones, and nothing is left that was to be pruned; a terminate when all are Deleted but the kept ones. An operation that was
// stopped has failed, whatever it came to (seeds, AppContext State).
func (t *Tally) Status(op domain.Operation, stopped bool) domain.ContextStatus {
	missed := t.Counts[domain.ResourcePending] - t.idle + t.Counts[domain.ResourceRetrying] + t.Counts[domain.ResourceFailed]
	failed := stopped || missed > 0
	switch op {
	case domain.OpInstantiate, domain.OpUpdate, domain.OpRollback, domain.OpMigrate:
		if failed || t.doomed > 0 {
			return domain.ContextInstantiateFailed
		}
		return domain.ContextInstantiated
	case domain.OpTerminate:
		if failed || t.Counts[domain.ResourceApplied] != t.kept {
			return domain.ContextTerminateFailed
		}
		return domain.ContextTerminated
	default:
		return domain.ContextNone
	}
}

// Measured is how an operation that has left a context with the status is counted among those that have ended. One that was stopped
// when all was done has done it.
func Measured(s domain.ContextStatus, stopped bool) string {
	switch {
	case s.Succeeded():
		return measure.Done
	case stopped:
		return measure.Stopped
	default:
		return measure.Failed
	}
}

// Succeeded says whether an operation has left the resources of a leaf as it was to.
func Succeeded(op domain.Operation, marks domain.Marks) bool {
	var t Tally
	t.Add(marks)
	return t.Status(op, false).Succeeded()
}

// Ended is an operation whose work has ended.
type Ended struct {
	Operation domain.Operation
	Stopped   bool
	// Left says, of a terminate, that clusters have something that is in no leaf's record.
	Left bool
}

// Of adds up what the leaves of a plan have left.
func Of(p *plan.Plan, left Left, e Ended) (domain.ContextStatus, map[domain.ResourceState]int) {
	t := Tally{Counts: map[domain.ResourceState]int{}}
	for i := range p.Apps {
		a := &p.Apps[i]
		for j := range a.Targets {
			t.Add(left(a, &a.Targets[j]))
		}
	}
	status := t.Status(e.Operation, e.Stopped)
	if e.Left && status == domain.ContextTerminated {
		status = domain.ContextTerminateFailed
	}
	return status, t.Counts
}

// Left are the marks of an app on one of its clusters.
type Left func(a *plan.App, t *plan.Target) domain.Marks

// LeftBy says how the leaves of a context have ended: as recorded (domain.Leaf.Marks, by the leaves' ids), or as they began.
func LeftBy(contextID string, recorded map[string]string) Left {
	return func(a *plan.App, t *plan.Target) domain.Marks {
		if marks, ok := recorded[domain.LeafID(contextID, a.Name, t.ClusterName)]; ok {
			return domain.DecodeMarks(marks)
		}
		return t.Begin(len(a.Resources))
	}
}

// Over says whether an operation whose workflow goes on has ended by the record of its context: it may have no effect any more. That is so where
// Temporal's database was restored to a time before the operation's end. Where the record does not say so the operation goes on: there is none (nil), it
// is older than the operation, or it was read before that was recorded. What a terminate is about to end goes on until that has ended it.
func Over(i *domain.Instance, s domain.Scope) bool {
	switch {
	case i == nil:
		return false
	case i.Status == domain.ContextUpdated:
		return true
	case i.Has(s):
		return !i.Ended.IsZero()
	case !i.Overtaken(s):
		return false
	case s.Operation == domain.OpTerminate: // none begins before the one before it has ended
		return true
	default:
		return !i.Ended.IsZero() || i.Finished(s.Operation)
	}
}

// Record is what the end of an operation changes in the record of its context.
type Record struct {
	Status     domain.ContextStatus
	Counts     map[domain.ResourceState]int
	Plan       domain.Digest
	Stopped    bool
	Reason     string
	NotStarted map[string]string
	Lost       bool // domain.Instance's
	Sound      bool // domain.Ran's
	At         time.Time
}

// Word says what Record.Write did. Attempts at an operation's last write may come twice, or late.
type Word int

// The answers of Record.Write.
const (
	Written   Word = iota // the record has the operation's end now
	Overtaken             // nothing was changed: a later operation is recorded, or another context has taken over
	Said                  // nothing was changed: an earlier attempt has written the end
)

// Write notes the end of an operation, that of the scope, in the record of its context. It changes nothing when the record
// tells of another operation, or has the end already.
func (r Record) Write(i *domain.Instance, s domain.Scope) Word {
	switch {
	case i.Operation != s.Operation, i.Overtaken(s), i.Status == domain.ContextUpdated:
		return Overtaken
	case i.Has(s) && !i.Ended.IsZero():
		return Said
	}
	reason := r.Reason
	if r.Status == domain.ContextTerminateFailed { // what it had still waited for when it was stopped
		reason = cmp.Or(reason, i.Remnants)
	}
	i.Status, i.Counts, i.Reason, i.Plan, i.Ended = r.Status, r.Counts, reason, r.Plan, r.At
	i.Remnants, i.NotStarted = "", r.NotStarted
	i.End(domain.Ran{Operation: s.Operation, Status: r.Status, Stopped: r.Stopped, Reason: reason, Sound: r.Sound, Ended: r.At})
	i.Lost = i.Lost || r.Lost
	return Written
}
