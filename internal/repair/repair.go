// Package repair decides what is to be written when a person has ended the workflow of an operation between two of the
// writes by which it records itself:
//
//	a migrate has the first of two groups' writes          the group that had the instance takes it back (Halfway)
//	a terminate has the owner's state, not the context's   the owner's state is taken back: nothing was deleted yet (Unbegun)
//	what takes over from a context has its record alone    the record goes: nothing was sent yet (Unknown)
//	or the owner's state, not all that follows             what follows is written (PassedOn)
//
// That the workflow is not open, whoever writes has to ask.
package repair

import (
	"cmp"
	"slices"

	"github.com/drover-io/drover/internal/domain"
)

// Taker is the context that an owner's history says, at its end, another owner has been given; "" for none.
func Taker(h *domain.History) string {
	if last := h.Last(); last.State == domain.Updated {
		return last.By
	}
	return ""
}

// Halfway says whether a migrate has the first of its writes and not the second: the history gives the instance away to the
// taker, whose record that is, and the taker's group does not know it. The record is nil where it has gone with the group
// that had it, the group's history where the group is gone.
func Halfway(h *domain.History, taker *domain.Instance, group *domain.History) bool {
	id := Taker(h)
	return id != "" && taker != nil && (group == nil || !group.Knows(id))
}

// Ending is the context that an owner's history says, at its end, is terminated; "" for none.
func Ending(h *domain.History) string {
	if last := h.Last(); last.State == domain.Terminated {
		return last.ContextID
	}
	return ""
}

// Unbegun says whether a terminate has the owner's state and not the context's, whose record is nil when it has none: then
// nothing was ever sent, and the terminate may stay.
func Unbegun(h *domain.History, record *domain.Instance) bool {
	return Ending(h) != "" && record != nil && record.Working() != domain.OpTerminate
}

// Unknown says whether a context was to take over from another one, and the history of its owner does not know it.
func Unknown(h *domain.History, record *domain.Instance) bool {
	return record.From != "" && record.Status.InProgress() && !h.Knows(record.ContextID)
}

// Successor is the context that all earlier ones of an owner are to know of: its last one, or that which another owner has
// been given; "" for none.
func Successor(h *domain.History) string { return cmp.Or(h.Last().By, h.ContextID()) }

// PassedOn are the contexts whose records are to say that the successor, whose record that is, has taken over from them.
func PassedOn(owner domain.Key, h *domain.History, successor *domain.Instance) (earlier []string) {
	if successor.From == "" || h.Last().By == "" && successor.Owner != owner {
		return nil
	}
	for _, id := range []string{successor.From, successor.Label} {
		if id != "" && !slices.Contains(earlier, id) {
			earlier = append(earlier, id)
		}
	}
	return earlier
}

// Told says whether the record of an earlier context has all that PassOn writes.
func Told(earlier domain.Instance, successor *domain.Instance) bool {
	told := earlier
	told.PassOn(successor)
	return told.Owner == earlier.Owner && told.Status == earlier.Status
}

// Shown is where a context of an owner stands, as its record will say it when it has been told of its successor. Recorded is
// where it stands by itself, halfway whether the owner is in the middle of a migrate.
func Shown(recorded domain.ContextStatus, h *domain.History, contextID string, halfway bool) domain.ContextStatus {
	left := contextID != h.ContextID() || h.Last().By != "" && !halfway
	if left && !recorded.Over() {
		return domain.ContextUpdated
	}
	return recorded
}

// Write is one of the things to be written. They are written in their order, owners from the revision that was read.
type Write struct {
	Do        Do
	Owner     domain.Key // that is touched, or takes its last action back
	ContextID string     // whose record is dropped
}

// Do is what is written.
type Do string

// The writes. Touch leaves an owner as it is, with another revision: a last attempt at its state may still be on its way, in
// a worker that does not know yet that its workflow has ended. It is made from the revision before, and fails.
const (
	Touch    Do = "touch"
	TakeBack Do = "take back"
	Drop     Do = "drop"
)

// OfHalfway undoes the first write of a migrate. The group that was to get the instance is "" when it is gone.
func OfHalfway(source, group domain.Key, taker string) []Write {
	writes := []Write{{Do: TakeBack, Owner: source}, {Do: Drop, ContextID: taker}}
	if group != "" {
		writes = slices.Insert(writes, 0, Write{Do: Touch, Owner: group})
	}
	return writes
}

// OfUnbegun undoes a terminate that has not begun.
func OfUnbegun(owner domain.Key) []Write { return []Write{{Do: TakeBack, Owner: owner}} }

// OfUnknown removes the record of a context that its owner does not know.
func OfUnknown(owner domain.Key, contextID string) []Write {
	return []Write{{Do: Touch, Owner: owner}, {Do: Drop, ContextID: contextID}}
}
