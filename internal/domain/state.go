package domain

import (
	"fmt"
	"time"

	"github.com/drover-io/drover/internal/limits"
)

// State is the last operation that a user asked of a resource with a lifecycle (seeds, 21.03).
type State string

// The states of deployment intent groups and logical clouds.
const (
	Created            State = "Created"
	Approved           State = "Approved"
	Instantiated       State = "Instantiated"
	Terminated         State = "Terminated"
	InstantiateStopped State = "InstantiateStopped"
	TerminateStopped   State = "TerminateStopped"
	// Updated is that of a context which another one has taken over from. As a group's last state it says that
	// the other one belongs to the group that it was migrated to.
	Updated State = "Updated"
	// Applied is Instantiated in the words of cluster network intents.
	Applied State = "Applied"
)

// ContextStatus is where an app context stands: the asynchronous side of a State.
type ContextStatus string

// The statuses of an app context. The empty status means: never instantiated.
const (
	ContextNone              ContextStatus = ""
	ContextInstantiating     ContextStatus = "Instantiating"
	ContextInstantiated      ContextStatus = "Instantiated"
	ContextInstantiateFailed ContextStatus = "InstantiateFailed"
	ContextTerminating       ContextStatus = "Terminating"
	ContextTerminated        ContextStatus = "Terminated"
	ContextTerminateFailed   ContextStatus = "TerminateFailed"
	ContextUpdated           ContextStatus = "Updated" // another context has taken over from it
)

// InProgress says whether work is still going on in the context.
func (s ContextStatus) InProgress() bool {
	return s == ContextInstantiating || s == ContextTerminating
}

// Over says whether nothing of the context is in clusters any more, or is to be: it is terminated, or another one has taken
// over what it had.
func (s ContextStatus) Over() bool { return s == ContextTerminated || s == ContextUpdated }

// Deleting says whether the context is not to be there any more, however far that has come.
func (s ContextStatus) Deleting() bool {
	return s == ContextTerminating || s == ContextTerminated || s == ContextTerminateFailed
}

// Succeeded says whether the last operation has brought the context where it was to.
func (s ContextStatus) Succeeded() bool { return s == ContextInstantiated || s == ContextTerminated }

// Abandoned is where a context stands that is recorded as s while the workflow that was to go on is not open: a person has
// ended it by hand. Says made that the operation which made the context goes on, which a terminate was to end first.
func (s ContextStatus) Abandoned(made bool) ContextStatus {
	switch {
	case s == ContextInstantiating:
		return ContextInstantiateFailed
	case s == ContextTerminating && made:
		return ContextInstantiating
	case s == ContextTerminating:
		return ContextTerminateFailed
	default:
		return s
	}
}

// Action is one entry of a history. Time has millisecond precision.
type Action struct {
	State     State     `json:"state"`
	ContextID string    `json:"instance"`
	Time      time.Time `json:"time"`
	Revision  int       `json:"revision"`
	// By is, with Updated, the context that took over.
	By string `json:"-" bson:"by,omitempty"`
	// Operation is what brought it about, where the state alone does not tell: "update", "rollback to 3", "migrate from v1/web".
	Operation string `json:"operation,omitempty" bson:"operation,omitempty"`
	// RequestedBy is who asked for it, "" when nobody said.
	RequestedBy string `json:"requestedBy,omitempty" bson:"requestedBy,omitempty"`
}

// Is says whether both are the same entry.
func (a Action) Is(b Action) bool {
	return a.State == b.State && a.ContextID == b.ContextID && a.Time.Equal(b.Time) && a.Revision == b.Revision && a.By == b.By
}

// History is what was asked of a resource, oldest first; of one of which much was asked, what was asked last (Append). StatusContextID names the
// context by whose id clusters know the resources: the first one since the last instantiate.
type History struct {
	StatusContextID string   `json:"statusctxid"`
	Actions         []Action `json:"actions"`
}

// NewHistory starts a history in Created.
func NewHistory(now time.Time) History {
	return History{Actions: []Action{{State: Created, Time: stamp(now)}}}
}

// State is that of the last action; Created for an empty history.
func (h *History) State() State {
	if len(h.Actions) == 0 {
		return Created
	}
	return h.Last().State
}

// ContextID is that of the last action that has one, "" when there was never a context.
func (h *History) ContextID() string {
	for i := len(h.Actions) - 1; i >= 0; i-- {
		if id := h.Actions[i].ContextID; id != "" {
			return id
		}
	}
	return ""
}

// Sign is another one after anything was asked of the resource: what is cut from the history (bound) is so much that its length comes again after
// two hundred actions only.
func (h *History) Sign() string {
	return fmt.Sprintf("%d %s %s", len(h.Actions), h.State(), h.ContextID())
}

// Made is when the resource was made, by which it is told from another one of its name; zero for an empty history.
func (h *History) Made() time.Time {
	if len(h.Actions) == 0 {
		return time.Time{}
	}
	return h.Actions[0].Time
}

// Knows says whether the context belongs to the history.
func (h *History) Knows(contextID string) bool {
	for i := range h.Actions {
		if contextID != "" && h.Actions[i].ContextID == contextID {
			return true
		}
	}
	return false
}

// Last is the last action, zero for an empty history.
func (h *History) Last() Action {
	if len(h.Actions) == 0 {
		return Action{}
	}
	return h.Actions[len(h.Actions)-1]
}

// Revision is that of the last instance, 0 when there was none.
func (h *History) Revision() int {
	for i := len(h.Actions) - 1; i >= 0; i-- {
		if h.Actions[i].State == Instantiated {
			return h.Actions[i].Revision
		}
	}
	return 0
}

// Revisions are the instances since the last one that took over from none, newest first. Revisions are counted
// anew with every such one, so that those before it are not meant.
func (h *History) Revisions() []Action {
	var found []Action
	for i := len(h.Actions) - 1; i >= 0; i-- {
		if h.Actions[i].State != Instantiated {
			continue
		}
		found = append(found, h.Actions[i])
		if i == 0 || h.Actions[i-1].State != Updated {
			break
		}
	}
	return found
}

// Append records a state. A context id given with Instantiated or Applied becomes StatusContextID.
func (h *History) Append(s State, contextID string, revision int, now time.Time) {
	if s == Instantiated || s == Applied {
		h.StatusContextID = contextID
	}
	h.bound() // before: the new one may be taken back
	h.Actions = append(h.Actions, Action{State: s, ContextID: contextID, Time: stamp(now), Revision: revision})
}

// bound cuts a history of twice as many actions as are kept to the newest ones. The first stays too, which says when the resource was made, and of
// the last instance what it took over from and what was asked of it last: there may be more changes and approvals after it than are kept.
func (h *History) bound() {
	n := len(h.Actions)
	if n < 2*limits.Actions {
		return
	}
	from := n - limits.Actions
	kept := h.Actions[:1:1]
	for _, i := range h.instance(from) {
		if i > 0 {
			kept = append(kept, h.Actions[i])
		}
	}
	h.Actions = append(kept, h.Actions[from:]...)
}

// instance is where in Actions the last instance is, the action before it by which another one was left, and the last one about it, as far as they are
// before an index.
func (h *History) instance(before int) (at []int) {
	for i := len(h.Actions) - 1; i >= 0; i-- {
		if s := h.Actions[i].State; s != Instantiated && s != Applied {
			continue
		}
		if i > 0 && i <= before && h.Actions[i-1].State == Updated {
			at = append(at, i-1)
		}
		if i < before {
			at = append(at, i)
		}
		for last := before - 1; last > i; last-- {
			if h.Actions[last].ContextID == h.Actions[i].ContextID {
				return append(at, last)
			}
		}
		return at
	}
	return nil
}

// Leave records that another context takes over from one, which had the revision.
func (h *History) Leave(contextID, by string, revision int, now time.Time) {
	h.Actions = append(h.Actions, Action{State: Updated, ContextID: contextID, Time: stamp(now), Revision: revision, By: by})
}

// Note says of the last action which operation it belongs to, as Action.Operation does, and who asked for that.
func (h *History) Note(operation, requestedBy string) {
	if n := len(h.Actions); n > 0 {
		h.Actions[n-1].Operation, h.Actions[n-1].RequestedBy = operation, requestedBy
	}
}

// RevisionOf is that of an instance, 0 when the history does not know it.
func (h *History) RevisionOf(contextID string) int {
	for i := range h.Actions {
		if h.Actions[i].ContextID == contextID && h.Actions[i].State == Instantiated {
			return h.Actions[i].Revision
		}
	}
	return 0
}

// TakeBack undoes Leave, or a terminate, when it was the last action.
func (h *History) TakeBack() {
	if h.Last().By != "" || h.Last().State == Terminated {
		h.Actions = h.Actions[:len(h.Actions)-1]
	}
}

// Retract removes the last action, by which a context was made that has sent nothing.
func (h *History) Retract() {
	h.Actions = h.Actions[:len(h.Actions)-1]
	h.StatusContextID = h.ContextID()
}

// stamp is the precision that MongoDB keeps and EMCO shows.
func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// Operation is what a user asks of a resource with a lifecycle.
type Operation string

// The operations. OpChange stands for a write to the resource, OpChangeBelow for one to what hangs below it.
const (
	OpApprove     Operation = "approve"
	OpInstantiate Operation = "instantiate"
	OpTerminate   Operation = "terminate"
	OpStop        Operation = "stop"
	OpUpdate      Operation = "update"
	OpRollback    Operation = "rollback"
	OpMigrate     Operation = "migrate"
	OpChange      Operation = "change"
	OpChangeBelow Operation = "change with what is below it"
	OpDelete      Operation = "delete"
	// OpReceive is OpMigrate from the side of the group that is migrated to.
	OpReceive Operation = "be migrated to"
)

// TakesOver says whether the operation makes an app context that takes over from another one.
func (o Operation) TakesOver() bool {
	return o == OpUpdate || o == OpRollback || o == OpMigrate
}

// Transition is the answer of the state machine: the state to append and its revision, or, when Same is
// true, that the resource is already there and nothing is to be done.
type Transition struct {
	To       State
	Revision int
	Same     bool
	// Why says, when Same is true, why nothing is done, and what to do instead; "" where nobody misses anything.
	Why string
	// Leaves says that an action Updated goes before it, of the context that there is and with the revision
	// before.
	Leaves bool
}
