// Package repair decides what is to be written when a person has ended the workflow of an operation by hand. An operation
// records itself in several writes, and the workflow may have ended between two of them:
//
//	written are                                               then
//	of a migrate: the state of the group that gives           that group takes its instance back (Halfway)
//	of a terminate: the owner's state, not the context's      the owner's state is taken back: nothing was deleted yet (Unbegun)
//	of what takes over: the new context's record alone        the record goes: nothing was sent yet (Unknown)
//	of what takes over: that and the owner's state            the rest is written: records of earlier contexts (PassedOn)
//
// The package looks at values alone. Whoever writes has to ask first whether the workflow is still open.
package repair

import (
	"cmp"
	"slices"

	"github.com/drover-io/drover/internal/domain"
)

// Taker is the context that a migrate made of an owner's instance for another owner, if that is the last entry of the
// owner's history; "" if it is not.
func Taker(h *domain.History) string {
	if last := h.Last(); last.State == domain.Updated {
		return last.By
	}
	return ""
}

// Halfway says whether a migrate has done the first of its writes and not the second: the history h of one group gives its
// instance away, and the group that is to get it does not know it. The taker is the record of the new context (Taker), and
// nil when it has gone with its group. The group is the history of the group that is to get it, and nil when that is gone.
func Halfway(h *domain.History, taker *domain.Instance, group *domain.History) bool {
	id := Taker(h)
	return id != "" && taker != nil && (group == nil || !group.Knows(id))
}

// Ending is the context that a terminate was asked for, if that is the last entry of the owner's history; "" if it is not.
func Ending(h *domain.History) string {
	if last := h.Last(); last.State == domain.Terminated {
		return last.ContextID
	}
	return ""
}

// Unbegun says whether a terminate has written the owner's state and not yet its context's record. The record is nil when
// the context has none: nothing was ever sent then, and the owner's state may stay as it is.
func Unbegun(h *domain.History, record *domain.Instance) bool {
	return Ending(h) != "" && record != nil && record.Working() != domain.OpTerminate
}

// Unknown says whether a context was to take over from another one and its owner never learned of it: the record is there,
// and the owner's history does not have the context.
func Unknown(h *domain.History, record *domain.Instance) bool {
	return record.From != "" && record.Status.InProgress() && !h.Knows(record.ContextID)
}

// Unfinished says whether a terminate that was asked for has not brought the context to its end, be it that it goes on.
func Unfinished(record *domain.Instance) bool {
	return record.Working() == domain.OpTerminate && record.Status != domain.ContextTerminated
}

// TakerOf is the context that has taken over from one of an owner's contexts, as the owner's history says it; "" for none.
func TakerOf(h *domain.History, contextID string) string {
	for _, a := range h.Actions {
		if a.ContextID == contextID && a.By != "" {
			return a.By
		}
	}
	return ""
}

// Holds says whether an active record tells what may be in clusters. It does not when its owner, whose history is h, has not got
// the context and the operation that wrote the record does not run any more: nothing was sent. Nor does it when the taker, the
// record of TakerOf, is there: that one tells what may be there. Until then the record counts: whatever was to take over has
// sent nothing.
func Holds(h *domain.History, record *domain.Instance, running bool, taker *domain.Instance) bool {
	if !h.Knows(record.ContextID) {
		return running
	}
	return taker == nil
}

// Successor is the context that has taken over from all earlier ones of an owner: the owner's last one, or, after a migrate,
// the one that another owner got; "" for none.
func Successor(h *domain.History) string { return cmp.Or(h.Last().By, h.ContextID()) }

// PassedOn are the ids of the contexts from which the successor has taken over, so that their records are to say it, as Earlier has them. The
// successor is given by its record, and given are the records of a group that has given its instance away.
func PassedOn(owner domain.Key, h *domain.History, successor *domain.Instance, given []*domain.Instance) []string {
	if h.Last().By == "" && successor.Owner != owner {
		return nil
	}
	return Earlier(successor, given)
}

// Earlier are the ids of the contexts of which the records are to say that the successor has taken over. After a migrate these are all that
// the instance had, as what a worker sends late for any of them is found by its record. The one that it took over from is the last: until
// its record says it, that tells whose the others are.
func Earlier(successor *domain.Instance, given []*domain.Instance) (earlier []string) {
	if successor.From == "" {
		return nil
	}
	for _, i := range given {
		if i.LabelID() == successor.LabelID() {
			earlier = append(earlier, i.ContextID)
		}
	}
	earlier = slices.DeleteFunc(append(earlier, successor.Label), func(id string) bool { return id == "" || id == successor.From })
	slices.Sort(earlier)
	return append(slices.Compact(earlier), successor.From)
}

// Told says whether the record of an earlier context says already that the successor has taken over: whether
// domain.Instance.PassOn would change nothing.
func Told(earlier domain.Instance, successor *domain.Instance) bool {
	told := earlier
	told.PassOn(successor)
	return told.Owner == earlier.Owner && told.Status == earlier.Status
}

// Left says whether another context has taken over from one of an owner's contexts; halfway says whether the owner is in the
// middle of a migrate, which does not count.
func Left(h *domain.History, contextID string, halfway bool) bool {
	return contextID != h.ContextID() || h.Last().By != "" && !halfway
}

// Shown is the status of a context that was left (Left) as users are to see it while its record has not been told yet: what it
// will be once the record is. The successor is nil when it has no record.
func Shown(left domain.Instance, successor *domain.Instance) domain.ContextStatus {
	if successor != nil {
		left.PassOn(successor)
	}
	if left.Status.Over() {
		return left.Status
	}
	return domain.ContextUpdated
}

// Write is one of the things to be written. They are written in their order, owners from the revision that was read.
type Write struct {
	Do        Do
	Owner     domain.Key // that is touched, or takes its last action back
	ContextID string     // whose record is dropped
}

// Do is what is written.
type Do string

// The writes. TakeBack removes the last entry of an owner's history. Drop removes the record of a context. Touch writes an
// owner as it is, which counts its revision up: a worker that does not know yet that its workflow has ended may still try to
// write the owner's state. It does so by the revision before, and fails.
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
