package match

import (
	"slices"
	"time"

	"github.com/drover-io/drover/internal/domain"
)

// Changes is what is to be written so that records say what is wanted. Both are sorted by id.
type Changes struct {
	// Write are records that are new (Revision 0) or changed (with the revision with which they were read): each is written
	// only if what is stored has that revision still, and with the next one.
	Write []domain.Match
	// Remove are records of which nothing is wanted and nothing was ever sent: each is removed if it has that revision still.
	Remove []domain.Match
}

// Diff compares the matches that there are to be with the records, both of one tenant, and both of the same part of it: all,
// or those of one rule, or of one workload. What does not differ is in neither list.
func Diff(wanted, records []domain.Match, now time.Time) Changes {
	have := make(map[string]*domain.Match, len(records))
	for i := range records {
		have[records[i].ID()] = &records[i]
	}
	var c Changes
	for i := range wanted {
		id := wanted[i].ID()
		record, ok := have[id]
		delete(have, id)
		if !ok {
			record = &domain.Match{Tenant: wanted[i].Tenant, Rule: wanted[i].Rule, Workload: wanted[i].Workload, Mark: domain.MarkPending}
		}
		if next, changed := Change(*record, wanted[i].Wanted, now); changed || !ok {
			c.Write = append(c.Write, next)
		}
	}
	for _, record := range have {
		if record.Made == nil && !record.Mark.MayBeThere() {
			c.Remove = append(c.Remove, *record)
			continue
		}
		if next, changed := Change(*record, nil, now); changed {
			c.Write = append(c.Write, next)
		}
	}
	slices.SortFunc(c.Write, byID)
	slices.SortFunc(c.Remove, byID)
	return c
}

// Change is a record when something else is wanted: Wanted, Mark and Due are set anew, and what was waited for or had been
// refused is tried at once. changed is false when nothing else is wanted.
//
//	| made            | wanted                              | mark                       | due |
//	|-----------------|-------------------------------------|----------------------------|-----|
//	| nothing         | an object                           | Pending                    | yes |
//	| nothing         | nothing, for a reason               | Pending, Refused if Failed | no  |
//	| an object       | nothing, or another object or place | Doomed: to be deleted      | yes |
//	| an object       | the same with other annotations     | Outdated                   | yes |
//	| to be deleted   | whatever                            | as it is: that comes first | yes |
//	| sent, unknown   | the same object                     | Sent                       | yes |
//	| an object       | the same as made                    | Applied                    | no  |
func Change(record domain.Match, wanted *domain.Wanted, now time.Time) (next domain.Match, changed bool) {
	if same(record.Wanted, wanted) {
		return record, false
	}
	next = record
	next.Wanted, next.Reason, next.Attempts, next.Next = wanted, "", 0, time.Time{}
	next.Mark, next.Due = mark(&next), time.Time{}
	if !next.Mark.Settled() && (next.Made != nil || next.IsWanted()) {
		next.Due = now
	}
	return next, true
}

// mark is that of a record of which something else is wanted.
func mark(m *domain.Match) domain.Mark {
	switch made := m.Made; {
	case made == nil && m.Wanted != nil && m.Wanted.Failed:
		return domain.MarkRefused
	case made == nil:
		return domain.MarkPending
	case m.Mark.ToDelete():
		return m.Mark
	case !m.IsWanted() || made.Spec != m.Wanted.Spec || made.Cluster != m.Wanted.Cluster:
		return domain.MarkDoomed
	case m.Mark != domain.MarkApplied: // nobody knows what of the last request is there, or it is being changed
		return domain.MarkSent
	case made.Annotations != m.Wanted.Annotations:
		return domain.MarkOutdated
	default:
		return domain.MarkApplied
	}
}

func same(a, b *domain.Wanted) bool { return a == b || a != nil && b != nil && *a == *b }
