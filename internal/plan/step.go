package plan

import (
	"slices"

	"github.com/drover-io/drover/internal/domain"
)

// Events are those of the hooks that are run before and after the work of an operation.
func Events(op domain.Operation) (before, after string) {
	switch op {
	case domain.OpInstantiate:
		return "pre-install", "post-install"
	case domain.OpTerminate:
		return "pre-delete", "post-delete"
	case domain.OpUpdate, domain.OpMigrate:
		return "pre-upgrade", "post-upgrade"
	case domain.OpRollback:
		return "pre-rollback", "post-rollback"
	default:
		return "", ""
	}
}

// HasHooks says whether one of the events is of the operation.
func HasHooks(events []string, op domain.Operation) bool {
	before, after := Events(op)
	return slices.Contains(events, before) || slices.Contains(events, after)
}

// follows says whether the hook is run after the release, by one of the operations that apply.
func (h *Hook) follows() bool {
	return slices.ContainsFunc([]domain.Operation{domain.OpInstantiate, domain.OpUpdate, domain.OpRollback}, func(op domain.Operation) bool {
		_, after := Events(op)
		return slices.Contains(h.Events, after)
	})
}

// EventsOf are the events of all hooks among the resources, sorted.
func EventsOf(resources []Resource) []string {
	var events []string
	for i := range resources {
		if h := resources[i].Hook; h != nil {
			events = append(events, h.Events...)
		}
	}
	slices.Sort(events)
	return slices.Compact(events)
}

// Work is what a step does.
type Work string

// The kinds of steps.
const (
	WorkApply  Work = "apply"
	WorkHook   Work = "hook"   // one, to its completion
	WorkTidy   Work = "tidy"   // deletes the hooks of an event as their policies say
	WorkDelete Work = "delete" // all steps' resources
)

// Step is a part of the work on a leaf. What came of it is recorded before the next step begins, so that
// nothing is done twice.
type Step struct {
	Work  Work
	Event string // of the hooks
	// Resources are indices in the bundle.
	Resources []int
}

// Steps are those of an operation on a bundle, in order: at least one. CRDs come before the hooks, as in EMCO.
// A terminate leaves nothing of the hooks behind.
func Steps(resources []Resource, op domain.Operation) []Step {
	var definitions, release, hooks []int
	for i := range resources {
		switch {
		case resources[i].Hook != nil:
			hooks = append(hooks, i)
		case resources[i].Kind == "CustomResourceDefinition":
			definitions = append(definitions, i)
		default:
			release = append(release, i)
		}
	}
	before, after := Events(op)
	first, last := hookSteps(resources, hooks, before), hookSteps(resources, hooks, after)
	var steps []Step
	if op == domain.OpTerminate {
		release = append(release, definitions...)
		if len(first)+len(last) == 0 {
			return []Step{{Work: WorkDelete, Resources: append(release, hooks...)}}
		}
		steps = append(append(first, Step{Work: WorkDelete, Resources: release}), last...)
		return append(steps, Step{Work: WorkDelete, Resources: hooks})
	}
	if len(first) > 0 && len(definitions) > 0 {
		steps = append(steps, Step{Work: WorkApply, Resources: definitions})
	} else {
		release = append(release, definitions...)
	}
	steps = append(steps, first...)
	return append(append(steps, Step{Work: WorkApply, Resources: release}), last...)
}

// hookSteps run the hooks of an event, and tidy up after them.
func hookSteps(resources []Resource, hooks []int, event string) []Step {
	var steps []Step
	tidy := Step{Work: WorkTidy, Event: event}
	for _, i := range hooks {
		h := resources[i].Hook
		if !slices.Contains(h.Events, event) {
			continue
		}
		steps = append(steps, Step{Work: WorkHook, Event: event, Resources: []int{i}})
		if h.Has(WhenSucceeded) || h.Has(WhenFailed) {
			tidy.Resources = append(tidy.Resources, i)
		}
	}
	if len(tidy.Resources) > 0 {
		steps = append(steps, tidy)
	}
	return steps
}

// Next is the step that follows one, 0 when it was the last. After a failure there is nothing but tidying up.
func Next(steps []Step, at int, failed bool) int {
	for next := at + 1; next < len(steps); next++ {
		tidies := steps[next].Work == WorkTidy && steps[at].Work == WorkHook && steps[next].Event == steps[at].Event
		if !failed || tidies {
			return next
		}
	}
	return 0
}

// Due are the marks with which an operation that applies begins on a leaf. The operation's own hooks are to be run; hooks of
// other operations are idle, or keep the mark that they have. The marks that are given say what is there. What is to be
// deleted is no hook any more.
func Due(resources []Resource, op domain.Operation, inherited domain.Marks) domain.Marks {
	marks := slices.Clone(inherited)
	for i := range min(len(resources), len(marks)) {
		h := resources[i].Hook
		if h == nil {
			continue
		}
		switch m, due := inherited[i], HasHooks(h.Events, op); {
		case m.Absent() && due:
			marks[i] = domain.MarkPending
		case m.Absent():
			marks[i] = domain.MarkIdle
		case due && m.Ours() && !m.ToDelete():
			marks[i] = domain.MarkSent // something of it may be there
		}
	}
	return marks
}

// dropped says of a resource, by the marks with which its context began on a cluster, that the context does not want it there: an
// earlier one did. As a hook it is not run any more, while there may be something to prune.
func dropped(inherited domain.Marks, i int) bool {
	return i < len(inherited) && (inherited[i] == domain.MarkGone || inherited[i].ToDelete())
}

// Doom are the marks with which a terminate begins on a leaf that an operation has left with the marks was, and that began with
// the marks inherited: its own hooks are to be run, unless there is nothing to delete, an update has dropped them, or an earlier
// terminate has completed them; what is to be kept is not deleted, but looked for where nobody knows whether it is there.
func Doom(resources []Resource, inherited, was domain.Marks, by domain.Operation) domain.Marks {
	marks := was.Doom()
	var due []int
	for i := range min(len(resources), len(marks)) {
		h := resources[i].Hook
		if h != nil && !dropped(inherited, i) && was[i] != domain.MarkGone && HasHooks(h.Events, domain.OpTerminate) && (by != domain.OpTerminate || !was[i].Completed()) {
			due = append(due, i)
		}
	}
	if by != domain.OpTerminate && !marks.Has(domain.Mark.ToDelete) {
		return marks
	}
	for _, i := range due {
		if marks[i].MayBeThere() {
			marks[i] = domain.MarkSent // something of it may be there
		} else {
			marks[i] = domain.MarkPending
		}
	}
	for i := range min(len(resources), len(marks)) {
		marks[i] = keep(resources[i], marks[i])
	}
	return marks
}
