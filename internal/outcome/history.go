package outcome

import (
	"fmt"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// Asked is an operation that is to be recorded in the history of its owner.
type Asked struct {
	domain.Scope
	// Seen is what whoever asks for it has seen of the owner.
	domain.Seen
	Goal domain.Goal
	By   string // who asks for it
	// Made is what was planned for the context that it makes, nil for an operation that makes none.
	Made *Made
	// Late says that nobody waits for it any more: whoever asked for it was told that it comes to nothing unless it is recorded already.
	Late bool
}

// Made is a context that an operation makes.
type Made struct {
	OwnerRevision int64  // of the owner as it was planned from
	Label         string // of the context that it takes over from, "" for none
}

// Verdict is what is to be done with the document of an owner in whose history something was to be recorded.
//
//	Write  Refusal
//	false  nil      nothing: it has been recorded already, or there is nothing to record
//	true   nil      the document is written: its history has it now
//	true   not nil  the document is written as it was read, and then the refusal returned: what an earlier attempt has sent is
//	                made from the revision that was read, and comes to nothing
//	false  not nil  the refusal is returned: no earlier attempt can get through either
type Verdict struct {
	Write   bool
	Refusal error
}

// Detail says of an operation what the state that it leads to does not: "update", "update, all applied again", "rollback to 3", "migrate from v1/web".
func Detail(op domain.Operation, goal domain.Goal, h *domain.History) string {
	switch op {
	case domain.OpUpdate:
		if goal.Reapply {
			return "update, all applied again"
		}
		return string(op)
	case domain.OpRollback:
		return fmt.Sprintf("rollback to %d", h.RevisionOf(goal.Revert))
	case domain.OpMigrate:
		return "migrate from " + versioned(goal.Source)
	default:
		return ""
	}
}

// versioned names a group within all versions of its composite app: v1/web.
func versioned(group domain.Key) string {
	version, _ := domain.CompositeAppVersion(group)
	return version + "/" + group.Name()
}

// Recorded says whether the history has the operation: one that makes a context by its id, and a terminate, of which a context
// may see more than one, when it is the last action.
func Recorded(h *domain.History, s domain.Scope) bool {
	if s.Operation == domain.OpTerminate {
		return h.Last().State == domain.Terminated && h.Last().ContextID == s.ContextID
	}
	return h.Knows(s.ContextID)
}

// Accept records an operation in the history of its owner, if the owner's state allows it and nothing else was asked since
// the operation was. The last is the record of the owner's last context, nil when there is none.
func Accept(owner domain.Owner, last *domain.Instance, a Asked, now time.Time) Verdict {
	h, status := owner.Track(), a.Status
	// What is below a group may be changed while it is terminated, and a repeated request is no other one by that.
	if last != nil && last.ContextID == a.ContextID && last.Has(a.Scope) {
		return Verdict{} // recorded, and stopped since
	}
	if a.History != "" && h.Sign() != a.History || !a.Created.IsZero() && !a.Created.Equal(h.Made()) {
		return Verdict{Refusal: ChangedMeanwhile(owner)}
	}
	if last != nil {
		switch {
		case last.ContextID == a.ContextID && last.Overtaken(a.Scope):
			return Verdict{Refusal: Later(a.Scope)}
		case !last.Status.InProgress() || status == domain.ContextNone:
			status = last.Status
		}
	}
	op := a.Operation
	if op == domain.OpMigrate {
		op = domain.OpReceive
	}
	t, err := owner.Decide(status, op)
	switch {
	case a.Made != nil && owner.Base().Revision != a.Made.OwnerRevision: // no earlier attempt gets through either
		if err == nil {
			err = ChangedMeanwhile(owner)
		}
		return Verdict{Refusal: err}
	case err != nil:
		return Verdict{Write: true, Refusal: err}
	case t.Same || a.Made == nil && h.ContextID() != a.ContextID:
		return Verdict{Write: true, Refusal: ChangedMeanwhile(owner)}
	case a.Late:
		return Verdict{Write: true, Refusal: NobodyWaits(a.Scope)}
	}
	if t.Leaves {
		h.Leave(h.ContextID(), a.ContextID, t.Revision-1, now)
		h.Note(Detail(a.Operation, a.Goal, h), a.By)
	}
	did := Detail(a.Operation, a.Goal, h)
	h.Append(t.To, a.ContextID, t.Revision, now)
	h.Note(did, a.By)
	if a.Made != nil && a.Made.Label != "" {
		h.StatusContextID = a.Made.Label
	}
	return Verdict{Write: true}
}

// Stop records that an operation is stopped, unless it has ended or was never recorded, or the owner has gone on to another state: a terminate that
// cancels an instantiate has recorded its own. The record is that of the operation's context, nil when there is none.
func Stop(owner domain.Owner, record *domain.Instance, s domain.Scope, by string, now time.Time) Verdict {
	during := domain.ContextInstantiating
	if s.Operation == domain.OpTerminate {
		during = domain.ContextTerminating
	}
	h := owner.Track()
	t, err := owner.Decide(during, domain.OpStop)
	switch {
	case err != nil, t.Same, h.Last().ContextID != s.ContextID, !Recorded(h, s): // there is nothing to stop any more
		return Verdict{}
	case record != nil && (record.Overtaken(s) || record.Has(s) && !record.Ended.IsZero()):
		return Verdict{}
	}
	h.Append(t.To, s.ContextID, t.Revision, now)
	h.Note("", by)
	return Verdict{Write: true}
}

// Given is an instance that a migrate takes from one group and gives to another one.
type Given struct {
	ContextID     string // of the group that gives it
	OwnerRevision int64  // of that group as it was planned from
	Status        domain.ContextStatus
	To            domain.Scope // the group that gets it, and the new context
	By            string       // who asks for it
}

// Give records that a group gives its instance to another one.
func Give(source domain.Owner, g Given, now time.Time) Verdict {
	h := source.Track()
	if h.Last().By == g.To.ContextID { // it has
		return Verdict{}
	}
	if source.Base().Revision != g.OwnerRevision {
		return Verdict{Refusal: ChangedMeanwhile(source)}
	}
	t, err := source.Decide(g.Status, domain.OpMigrate)
	if err != nil {
		return Verdict{Write: true, Refusal: err}
	}
	h.Leave(g.ContextID, g.To.ContextID, t.Revision, now)
	h.Note("migrate to "+versioned(g.To.Owner), g.By)
	return Verdict{Write: true}
}

// Terminating notes in the record of its context that a terminate, that of the scope, begins. It changes nothing when the
// record tells of it already, or of a later one.
func Terminating(i *domain.Instance, s domain.Scope, run domain.Ran) Word {
	switch {
	case i.Has(s): // it may have ended meanwhile
		return Said
	case i.Overtaken(s):
		return Overtaken
	}
	i.Operation, i.Status, i.Reason, i.Ended = s.Operation, domain.ContextTerminating, "", time.Time{}
	i.Began = s.Began
	i.Begin(run)
	return Written
}

// Later refuses what an operation would record on a context of which a later one has recorded something. No operation
// begins while another one runs, so that it is the last of a run that was ended, or Temporal's clock was set back.
func Later(s domain.Scope) error {
	return fail.New(fail.Conflict, "another operation on app context %s was recorded meanwhile; try again", s.ContextID)
}

// NobodyWaits refuses an operation whose caller was told that it comes to nothing, and that nothing has recorded.
func NobodyWaits(s domain.Scope) error {
	return fail.New(fail.Conflict, "nobody waits for it any more: the %s of %s was asked for long ago", s.Operation, domain.NameOwner(s.Owner))
}

// ChangedMeanwhile refuses an operation that was asked for, or planned, by what the owner was before.
func ChangedMeanwhile(o domain.Owner) error {
	return fail.New(fail.Conflict, "%s %q was changed meanwhile; try again", o.Noun().Title, o.LocalName())
}
