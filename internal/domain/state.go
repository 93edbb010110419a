package domain

import (
	"time"

	"github.com/drover-io/drover/internal/fail"
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
)

// InProgress says whether work is still going on in the context.
func (s ContextStatus) InProgress() bool {
	return s == ContextInstantiating || s == ContextTerminating
}

// Action is one entry of a history. Time has millisecond precision.
type Action struct {
	State     State     `json:"state"`
	ContextID string    `json:"instance"`
	Time      time.Time `json:"time"`
	Revision  int       `json:"revision"`
}

// History is what was asked of a resource, oldest first. StatusContextID names the context whose status
// is shown by default.
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
	return h.Actions[len(h.Actions)-1].State
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

// Knows says whether the context belongs to the history.
func (h *History) Knows(contextID string) bool {
	for i := range h.Actions {
		if contextID != "" && h.Actions[i].ContextID == contextID {
			return true
		}
	}
	return false
}

// Append records a state. A context id given with Instantiated becomes the one whose status is shown.
func (h *History) Append(s State, contextID string, revision int, now time.Time) {
	if s == Instantiated {
		h.StatusContextID = contextID
	}
	h.Actions = append(h.Actions, Action{State: s, ContextID: contextID, Time: stamp(now), Revision: revision})
}

// stamp is the precision that MongoDB keeps and EMCO shows.
func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// Operation is what a user asks of a resource with a lifecycle.
type Operation string

// The operations. Change stands for a write to the resource or to what hangs below it.
const (
	OpApprove     Operation = "approve"
	OpInstantiate Operation = "instantiate"
	OpTerminate   Operation = "terminate"
	OpStop        Operation = "stop"
	OpChange      Operation = "change"
	OpDelete      Operation = "delete"
)

// Transition is the answer of the state machine: the state to append, or, when Same is true, that the
// resource is already there and nothing is to be done.
type Transition struct {
	To   State
	Same bool
}

// Decide says what op does to a deployment intent group named name in state s with its last context in
// status c (the table of reference 2.3; seeds: a change of an approved group sets it back to Created).
// A refusal is a Conflict that says the state and what to do.
func Decide(name string, s State, c ContextStatus, op Operation) (Transition, error) {
	refuse := func(format string, args ...any) (Transition, error) {
		return Transition{}, fail.New(fail.Conflict, "deployment intent group %q cannot %s in state %s%s: "+format,
			append([]any{name, op, s, ofContext(c)}, args...)...)
	}
	busy := c.InProgress()
	switch op {
	case OpApprove:
		switch {
		case s == Approved:
			return Transition{To: Approved, Same: true}, nil
		case s == Created, s == Terminated && !busy:
			return Transition{To: Approved}, nil
		case s == Terminated:
			return refuse("wait until it is terminated, or stop it")
		case s == Instantiated:
			return refuse("it has already been instantiated; terminate it first")
		default:
			return refuse("instantiate or terminate it instead")
		}
	case OpInstantiate:
		switch {
		case s == Created:
			return refuse("it must be approved before instantiating")
		case s == Instantiated:
			return refuse("it has already been instantiated; terminate it first")
		case s == InstantiateStopped:
			return refuse("terminate it first")
		case busy:
			return refuse("wait until the last operation has ended, or stop it")
		default:
			return Transition{To: Instantiated}, nil
		}
	case OpTerminate:
		switch {
		case s == Instantiated, s == InstantiateStopped:
			return Transition{To: Terminated}, nil
		// EMCO has no way to finish a termination that failed or was stopped; leftovers would stay for ever.
		case (s == TerminateStopped || s == Terminated) && c == ContextTerminateFailed:
			return Transition{To: Terminated}, nil
		case s == Terminated && busy:
			return refuse("it is already being terminated")
		case s == Terminated:
			return refuse("it is already terminated")
		default:
			return refuse("it is not instantiated")
		}
	case OpStop:
		switch {
		case s == Instantiated && c == ContextInstantiating:
			return Transition{To: InstantiateStopped}, nil
		case s == Terminated && c == ContextTerminating:
			return Transition{To: TerminateStopped}, nil
		case (s == InstantiateStopped || s == TerminateStopped) && busy:
			return Transition{To: s, Same: true}, nil
		case s == InstantiateStopped, s == TerminateStopped:
			return refuse("it is already stopped")
		default:
			return refuse("it is not instantiating or terminating")
		}
	case OpChange:
		switch {
		case s == Instantiated, s == InstantiateStopped:
			return refuse("it is instantiated; terminate it first")
		case busy:
			return refuse("wait until it is terminated, or stop it")
		case s == Created:
			return Transition{To: Created, Same: true}, nil
		default:
			return Transition{To: Created}, nil
		}
	case OpDelete:
		switch {
		case s == Instantiated, s == InstantiateStopped:
			return refuse("it is instantiated; terminate it first")
		case busy:
			return refuse("wait until it is terminated, or stop it")
		default:
			return Transition{To: s, Same: true}, nil
		}
	default:
		return Transition{}, fail.New(fail.Internal, "unknown operation %q", op)
	}
}

func ofContext(c ContextStatus) string {
	if c == ContextNone {
		return ""
	}
	return " (" + string(c) + ")"
}
