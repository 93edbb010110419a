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
	n := 0
	for _, m := range marks {
		if m == domain.MarkKept {
			n++
		}
	}
	return n
}

// ContextStatusOf is where an app context stands after op has ended, which is one that makes a context or
// OpTerminate; for any other operation it is ContextNone. One that makes a context has succeeded when all resources
// are Applied, a terminate when all are Deleted but the kept ones (Kept), which are Applied. An operation
// that was stopped has failed, whatever it came to (seeds, AppContext State).
func ContextStatusOf(op domain.Operation, counts map[domain.ResourceState]int, kept int, stopped bool) domain.ContextStatus {
	unsettled := counts[domain.ResourcePending] + counts[domain.ResourceRetrying] + counts[domain.ResourceFailed]
	failed := stopped || unsettled > 0
	switch op {
	case domain.OpInstantiate, domain.OpUpdate, domain.OpRollback, domain.OpMigrate:
		if failed || counts[domain.ResourceDeleted] > 0 {
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
