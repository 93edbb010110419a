package domain

import (
	"fmt"

	"github.com/drover-io/drover/internal/fail"
)

// The lifecycle of a cluster is that of its network intents (seeds, "Cluster Network Intent lifecycle";
// reference 1.3). Applied is their word for instantiated.

// Track is the history of the network intents.
func (c *Cluster) Track() *History { return &c.History }

// Decide is reference 1.3. A refusal is a Conflict in EMCO's words.
func (c *Cluster) Decide(observed ContextStatus, op Operation) (Transition, error) {
	s := c.History.State()
	busy := observed.InProgress()
	switch op {
	case OpInstantiate:
		switch {
		case s == Applied, s == InstantiateStopped:
			return Transition{To: s, Same: true, Why: c.notApplied(observed)}, nil
		case busy:
			return c.refuse(observed, notTerminated, c.wait(observed))
		default:
			return Transition{To: Applied}, nil
		}
	case OpTerminate:
		switch {
		case s == Created:
			return c.refuse(observed, "Cluster network intents have not been applied", "apply them first")
		case s == Applied, s == InstantiateStopped:
			return Transition{To: Terminated}, nil
		// EMCO has no way to finish a termination that failed or was stopped; leftovers would stay for ever.
		// Nor to end an instantiate that goes on after its terminate was ended by hand.
		case observed == ContextTerminateFailed, observed == ContextInstantiating:
			return Transition{To: Terminated}, nil
		case s == TerminateStopped && observed == ContextTerminating: // what is accepted now would be lost with the terminate that ends
			return c.refuse(observed, notTerminated, "wait until the stop has ended, then terminate them again")
		default:
			return Transition{To: s, Same: true}, nil
		}
	case OpStop:
		return c.stop(observed)
	case OpDelete:
		switch {
		case s == Applied, s == InstantiateStopped:
			return c.refuse(observed, "Cluster network intents must be terminated before it can be deleted", "terminate them first")
		case busy:
			return c.refuse(observed, notTerminated, c.wait(observed))
		default:
			return Transition{To: s, Same: true}, nil
		}
	default:
		return Transition{}, fail.New(fail.Internal, "unknown operation %q", op)
	}
}

// notApplied says why an apply does nothing, which EMCO does not; "" where all is there, or is on its way.
func (c *Cluster) notApplied(observed ContextStatus) string {
	s := c.History.State()
	if s == Applied && (observed == ContextInstantiated || observed == ContextInstantiating) {
		return ""
	}
	return fmt.Sprintf("nothing is applied: cluster %q is in state %s%s; terminate the network intents first", c.Name, s, ofContext(observed))
}

func (c *Cluster) stop(observed ContextStatus) (Transition, error) {
	switch s := c.History.State(); {
	case s == Applied && observed == ContextInstantiating:
		return Transition{To: InstantiateStopped}, nil
	case s == Terminated && observed == ContextTerminating:
		return Transition{To: TerminateStopped}, nil
	case s == InstantiateStopped:
		return c.refuse(observed, "Cluster network intents instantiation already stopped", "terminate them")
	case s == TerminateStopped && observed == ContextTerminating:
		return c.refuse(observed, terminationStopped, c.wait(observed))
	case s == TerminateStopped:
		return c.refuse(observed, terminationStopped, "terminate them again, or apply them")
	case s == Created:
		return c.refuse(observed, "Cluster network intents have not been applied", "there is nothing to stop")
	default:
		return c.refuse(observed, "Cluster network intents are not instantiating or terminating", "there is nothing to stop")
	}
}

// Sentences of EMCO that several refusals begin with.
const (
	notTerminated      = "Network intents for cluster have not completed terminating"
	terminationStopped = "Cluster network intents termination already stopped"
)

// wait is the advice while something goes on.
func (c *Cluster) wait(observed ContextStatus) string {
	if c.History.State() == TerminateStopped && observed == ContextTerminating {
		return "wait until the stop has ended"
	}
	return "wait, or stop it"
}

func (c *Cluster) refuse(observed ContextStatus, sentence, advice string) (Transition, error) {
	return Transition{}, fail.New(fail.Conflict, "%s: cluster %q is in state %s%s; %s",
		sentence, c.Name, c.History.State(), ofContext(observed), advice)
}

// MayChange says whether an intent of the noun may be created, replaced or, when gone, deleted: what is in the
// cluster, or may be, is what the intents say. EMCO answers some of it as Invalid.
func (c *Cluster) MayChange(intents *Noun, gone bool) error {
	switch s := c.History.State(); {
	case s == Created, s == Terminated, s == TerminateStopped && gone:
		return nil
	case gone:
		return fail.New(fail.Conflict, "Cluster %s intents must be terminated before deleting: cluster %q is in state %s; terminate them first",
			intents.Title, c.Name, s)
	case s == Applied:
		return fail.New(fail.Invalid, "Existing cluster %s intents must be terminated before creating: cluster %q is in state %s; terminate them first",
			intents.Title, c.Name, s)
	default:
		return fail.New(fail.Conflict, "Cluster is in an invalid state: cluster %q is in state %s; terminate its network intents first, and wait until that has ended",
			c.Name, s)
	}
}
