package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
)

// Kind is what sort of reason a Reason is.
type Kind string

// The kinds.
const (
	EngineSilent     Kind = "EngineSilent"     // Temporal does not answer
	WorkflowGone     Kind = "WorkflowGone"     // an operation's workflow has ended without its own end
	NoWorker         Kind = "NoWorker"         // no worker takes up the workflow
	Paused           Kind = "Paused"           // somebody has paused it in Temporal
	StepFails        Kind = "StepFails"        // a step of the operation itself is tried again and again
	Preparing        Kind = "Preparing"        // an operation is not accepted yet
	ResourceRefused  Kind = "ResourceRefused"  // a cluster refuses a resource, or its deletion
	HookFailed       Kind = "HookFailed"       // a hook has not done its work, or could not be run
	WorkGaveUp       Kind = "WorkGaveUp"       // the work on a cluster ended with an error
	ClusterHoldsUp   Kind = "ClusterHoldsUp"   // a cluster does not let the work through; it is tried again
	Unanswered       Kind = "Unanswered"       // sent to a cluster, and nobody knows what became of it
	Stopped          Kind = "Stopped"          // a person has stopped the operation
	Leftover         Kind = "Leftover"         // not deleted, because the operation ended before
	Remnants         Kind = "Remnants"         // in clusters again, although it is terminated
	NeverSent        Kind = "NeverSent"        // not applied, because the instantiate ended before
	Unrecorded       Kind = "Unrecorded"       // the store does not know, and there is nobody to ask
	Waiting          Kind = "Waiting"          // for a hook, or for what outlives its deletion
	AtWork           Kind = "AtWork"           // under way
	NotStarted       Kind = "NotStarted"       // an app waits for another one, or for a time after it
	Queued           Kind = "Queued"           // its turn has not come
	Finishing        Kind = "Finishing"        // all is done but the operation's own last steps
	ResourceMissing  Kind = "ResourceMissing"  // applied, and not in the cluster any more
	ResourceNotReady Kind = "ResourceNotReady" // in the cluster, and not ready
	ClusterUnheard   Kind = "ClusterUnheard"   // a cluster that was heard is not heard any more
	ClusterUnreached Kind = "ClusterUnreached" // a cluster could not be reached when its registration was tried
	NotAsked         Kind = "NotAsked"         // a person has to ask for it

	RuleRefused    Kind = "RuleRefused"    // a workload rule that its tenant may not have, any more
	NameConflict   Kind = "NameConflict"   // somebody else has an object of the name
	CannotBeMade   Kind = "CannotBeMade"   // a match whose object may not be as it would have to be
	BeyondLimit    Kind = "BeyondLimit"    // a rule applies to more workloads than it may have matches
	LeftOut        Kind = "LeftOut"        // workloads that were said and not taken
	NoPlace        Kind = "NoPlace"        // a match without a node, or a host
	Held           Kind = "Held"           // workloads whose deletion is held
	InGrace        Kind = "InGrace"        // workloads that are gone and stay for a while
	TenantStale    Kind = "TenantStale"    // the tenant's cluster is not connected
	MatchesNothing Kind = "MatchesNothing" // no rule applies to a workload, or a rule to none
)

// kinds are all of them, the gravest first.
var kinds = []Kind{
	EngineSilent, WorkflowGone, NoWorker, Paused, StepFails, Preparing, Stopped, RuleRefused, NameConflict, CannotBeMade, ResourceRefused, HookFailed, WorkGaveUp,
	ClusterHoldsUp, BeyondLimit, LeftOut, NoPlace, Unanswered, Leftover, Remnants, NeverSent, Unrecorded, Waiting, AtWork, NotStarted, Queued, Finishing,
	ResourceMissing, ResourceNotReady, ClusterUnheard, ClusterUnreached, Held, InGrace, MatchesNothing, TenantStale, NotAsked,
}

func (k Kind) rank() int { return slices.Index(kinds, k) }

// tried says whether it is about work that goes on, so that there are attempts at it.
func (k Kind) tried() bool {
	return k == ClusterHoldsUp || k == Waiting || k == AtWork || k == Paused || k == NoWorker
}

// of are the clusters of a group.
func (d *decision) of(g *group) string {
	if d.clusters > len(g.clusters) {
		return fmt.Sprintf("%d of %s", len(g.clusters), count(d.clusters, "cluster"))
	}
	return count(len(g.clusters), "cluster")
}

// text says a reason in one line.
func (d *decision) text(g *group) string {
	resources, of := count(g.resources, "resource"), d.of(g)
	deleting := d.deleting()
	switch g.kind {
	case ResourceRefused:
		if deleting {
			return fmt.Sprintf("the deletion of %s is refused by %s", resources, of)
		}
		return fmt.Sprintf("%s refused by %s", are(g.resources, "resource"), of)
	case HookFailed:
		return fmt.Sprintf("%s failed on %s", count(g.resources, "hook"), of)
	case WorkGaveUp:
		if len(g.clusters) == 0 {
			return g.said
		}
		return fmt.Sprintf("the work on %s ended with an error", of)
	case ClusterHoldsUp:
		return fmt.Sprintf("%s %s not let the work through; it is tried again until %s", of, do(len(g.clusters)), does(len(g.clusters)))
	case Unanswered:
		return fmt.Sprintf("%s sent to %s, and what became of %s is not known", were(g.resources, "resource"), of, them(g.resources))
	case Leftover:
		ended := "operation"
		if deleting {
			ended = "terminate"
		}
		return fmt.Sprintf("%s still on %s: the %s ended before", are(g.resources, "resource"), of, ended)
	case NeverSent:
		return fmt.Sprintf("%s never sent to %s: the operation ended before", were(g.resources, "resource"), of)
	case Unrecorded:
		return fmt.Sprintf("nothing is recorded of the work on %s", of)
	case NoWorker:
		if len(g.clusters) == 0 {
			return g.said
		}
		return fmt.Sprintf("work on %s waits for a worker: %s", of, g.said)
	case Waiting, NotStarted:
		if len(g.clusters) == 0 {
			return g.said
		}
		return fmt.Sprintf("work on %s %s", of, clip(g.said))
	case AtWork:
		return fmt.Sprintf("work on %s is under way", of)
	case Paused:
		if len(g.clusters) == 0 {
			return g.said
		}
		return fmt.Sprintf("work on %s stands still: %s", of, g.said)
	case Queued:
		return fmt.Sprintf("work on %s has not begun: it waits for its turn", of)
	case ResourceMissing:
		return fmt.Sprintf("%s not on %s any more", are(g.resources, "resource"), of)
	case ResourceNotReady:
		return fmt.Sprintf("%s not ready on %s", are(g.resources, "resource"), of)
	case NameConflict:
		return fmt.Sprintf("%s not made: the cluster has something else of the name", are(g.resources, "object"))
	case CannotBeMade:
		return fmt.Sprintf("%s not made: %s not be as the rule wants", are(g.resources, "object"), plural(g.resources, "it may", "they may"))
	case NoPlace:
		return fmt.Sprintf("%s not made: there is no place for %s", are(g.resources, "object"), them(g.resources))
	case LeftOut:
		return fmt.Sprintf("%s said and not taken", were(g.places, "workload"))
	case Held:
		return fmt.Sprintf("%s kept though the last sync did not have %s", are(g.places, "workload"), them(g.places))
	case InGrace:
		return fmt.Sprintf("%s gone and kept for a while", are(g.places, "workload"))
	case ClusterUnheard:
		return fmt.Sprintf("%s %s not heard any more: what is there now is not known", of, is(len(g.clusters)))
	default:
		return g.said
	}
}

// advice says what a person can do about a reason, "" for nothing but wait.
func (d *decision) advice(g *group) string {
	switch g.kind {
	case EngineSilent:
		return "see that Temporal runs and can be reached; operations go on by themselves when it is back"
	case NoWorker:
		return "see that a worker (drover worker) runs and look at its log"
	case WorkflowGone, Leftover:
		return both(d.ask("nobody carries it on by itself; it goes on by", d.again()), d.ask("what may be in clusters is deleted by", domain.OpTerminate))
	case ResourceRefused, HookFailed, WorkGaveUp, Unanswered, NeverSent:
		mend := "mend the cause"
		if strings.Contains(g.said, domain.BeyondHeld) {
			mend = "give Drover's account in the cluster the rules of the chart's roles (--rules FILE, where drover cluster add has made it)"
		}
		if g.replaceable {
			mend = fmt.Sprintf("mend the cause, or have the object deleted and made anew by the annotation %s: \"true\" in the chart", plan.ReplaceAnnotation)
		}
		switch {
		case d.s.Status.InProgress():
			return "the rest goes on"
		case d.again() == domain.OpRollback: // an update goes elsewhere: to what is described
			return cmp.Or(both(d.ask(mend+", then try again by", domain.OpRollback), d.ask("it is brought to what is described now by", domain.OpUpdate)),
				d.ask(mend+", then begin anew by", domain.OpTerminate))
		default:
			return cmp.Or(d.ask(mend+", then try again by", d.again()), d.ask(mend+", then begin anew by", domain.OpTerminate))
		}
	case Stopped:
		return both(d.ask("it goes on by", d.again()), d.ask("what is there is deleted by", domain.OpTerminate))
	case Waiting, NotStarted:
		return d.ask("waiting is ended by", domain.OpStop, domain.OpTerminate)
	case ClusterHoldsUp:
		return d.ask("mend the cluster; waiting for it is ended by", domain.OpStop, domain.OpTerminate)
	case Remnants:
		return "look why it is there again; it is tried to remove it for three days"
	case ClusterUnheard:
		return "see that the cluster can be reached and that its agent runs"
	case NameConflict:
		return "delete or rename that object, then change the rule or the workload"
	case CannotBeMade:
		return "change the rule, or what is injected of the workload"
	case NoPlace:
		return "give the host of the workload nodes: PUT /v2/tenants/{tenant}/hosts/{host}; it is tried again by itself"
	case RuleRefused:
		return "change the rule, or what its tenant may have"
	case BeyondLimit:
		return "make the rule narrower, or divide it"
	case Held:
		return "a sync that has them keeps them; POST /v2/tenants/{tenant}/release lets them go"
	case TenantStale:
		return "see that the agent in the tenant's cluster runs and may connect"
	case ResourceMissing:
		if said := d.ask("put it back by", domain.OpUpdate); said != "" {
			return said + "?reapply=true"
		}
		return ""
	case NotAsked:
		return d.ask("ask for it by", domain.OpApprove, domain.OpInstantiate, domain.OpTerminate)
	default:
		return ""
	}
}

// remedy says what to do about a cluster that does not report for the reason, "" where that says it all.
func remedy(reason string, c domain.ClusterName) string {
	switch reason {
	case bundle.Missing, bundle.Silent:
		return fmt.Sprintf("install the agent: deploy/helm/monitor, or spec.report install; or set spec.report to auto or agentless: PUT /v2/%s", c.Key())
	case domain.Unreported:
		return fmt.Sprintf("set spec.report to auto: PUT /v2/%s", c.Key())
	default:
		return ""
	}
}

// again is the operation that takes up where the last one has ended before its end.
func (d *decision) again() domain.Operation {
	switch op := d.s.Run.Operation; op {
	case domain.OpRollback, domain.OpTerminate:
		return op
	default:
		return domain.OpUpdate
	}
}

// changes says whether the last operation was to change what a chart had put into clusters, and an update carries it on. An
// instantiate finds nothing of its own there, and what is made of a logical cloud has no chart.
func (d *decision) changes() bool {
	return d.s.Noun == domain.DeploymentIntentGroups && d.s.Run.Operation != domain.OpInstantiate && d.again() == domain.OpUpdate
}

// both joins two pieces of advice, each of which may be missing, or be the same.
func both(first, second string) string {
	if first == "" || second == "" || strings.HasSuffix(first, second[strings.Index(second, "POST"):]) {
		return cmp.Or(first, second)
	}
	return first + "; " + second
}

// ask names the first of the operations that is allowed now.
func (d *decision) ask(what string, operations ...domain.Operation) string {
	for _, op := range operations {
		if slices.Contains(d.s.May, op) {
			return fmt.Sprintf("%s POST /v2/%s/%s", what, d.s.Key, d.verb(op)) + d.revertedTo(op)
		}
	}
	return ""
}

// revertedTo says for a rollback, which is not asked for without it, to which revision the last one was; "" for other operations, and where the
// history does not have it any more.
func (d *decision) revertedTo(op domain.Operation) string {
	if op != domain.OpRollback || d.s.Instance == nil {
		return ""
	}
	for i := range d.s.History.Actions {
		a := &d.s.History.Actions[i]
		if to, ok := strings.CutPrefix(a.Operation, "rollback to "); ok && a.State == domain.Instantiated && a.ContextID == d.s.Instance.ContextID {
			return fmt.Sprintf(" with spec.revision %q", to)
		}
	}
	return ""
}

// verb is an operation as URLs have it.
func (d *decision) verb(op domain.Operation) string {
	if d.s.Noun == domain.ClustersNoun && op == domain.OpInstantiate {
		return "apply"
	}
	return string(op)
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func plural(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

func is(n int) string   { return plural(n, "is", "are") }
func do(n int) string   { return plural(n, "does", "do") }
func does(n int) string { return plural(n, "it does", "they do") }
func them(n int) string { return plural(n, "it", "them") }

func are(n int, noun string) string  { return count(n, noun) + " " + is(n) }
func has(n int, noun string) string  { return count(n, noun) + plural(n, " has", " have") }
func were(n int, noun string) string { return count(n, noun) + plural(n, " was", " were") }
