package status

import "github.com/drover-io/drover/internal/domain"

// Rollup adds up counts by state; states without resources are absent.
func Rollup(parts ...map[domain.ResourceState]int) map[domain.ResourceState]int {
	total := map[domain.ResourceState]int{}
	for _, part := range parts {
		for _, s := range domain.ResourceStates {
			if part[s] != 0 {
				total[s] += part[s]
			}
		}
	}
	return total
}

// Kept is how many resources a terminate leaves in the cluster on purpose; they count as Applied.
func Kept(marks domain.Marks) int {
	return number(marks, func(m domain.Mark) bool { return m == domain.MarkKept })
}

// Idle is how many resources are hooks of other operations; they count as Pending.
func Idle(marks domain.Marks) int { return number(marks, domain.Mark.Idle) }

func number(marks domain.Marks, of func(domain.Mark) bool) int {
	n := 0
	for _, m := range marks {
		if of(m) {
			n++
		}
	}
	return n
}

// Succeeded says whether an operation has left the resources with the marks as it was to.
func Succeeded(op domain.Operation, marks domain.Marks) bool {
	counts := marks.Count(false, domain.ConnectivityAvailable)
	switch ContextStatusOf(op, counts, Kept(marks), Idle(marks), false) {
	case domain.ContextInstantiated, domain.ContextTerminated:
		return true
	default:
		return false
	}
}

// ContextStatusOf is where an app context stands after op has ended, which is one that makes a context or
// OpTerminate; for any other operation it is ContextNone. One that makes a context has succeeded when all resources
// are Applied, or Deleted as hooks that have done their work, but the idle ones (Idle), which are Pending; a
// terminate when all are Deleted but the kept ones (Kept), which are Applied. An operation that was stopped
// has failed, whatever it came to (seeds, AppContext State).
func ContextStatusOf(op domain.Operation, counts map[domain.ResourceState]int, kept, idle int, stopped bool) domain.ContextStatus {
	unsettled := counts[domain.ResourcePending] - idle + counts[domain.ResourceRetrying] + counts[domain.ResourceFailed]
	failed := stopped || unsettled > 0
	switch op {
	case domain.OpInstantiate, domain.OpUpdate, domain.OpRollback, domain.OpMigrate:
		if failed {
			return domain.ContextInstantiateFailed
		}
		return domain.ContextInstantiated
	case domain.OpTerminate:
		if failed || counts[domain.ResourceApplied] != kept {
			return domain.ContextTerminateFailed
		}
		return domain.ContextTerminated
	default:
		return domain.ContextNone
	}
}
