package match

import (
	"time"

	"github.com/drover-io/drover/internal/domain"
)

// Changes is what is to be written so that records say what is wanted.
type Changes struct {
	// Write are records that are new (Revision 0) or changed (with the revision with which they were read): each is written
	// only if what is stored has that revision still, and with the next one.
	Write []domain.Match
	// Remove are records of which nothing is wanted and nothing was ever sent: each is removed if it has that revision still.
	Remove []domain.Match
}

// Diff compares the matches that there are to be with the records, both of one tenant, and both of the same part of it: all,
// or those of one rule, or of one workload. What does not differ is in neither list. Both lists are in the order of what is
// given: what is wanted first, then the records of which nothing is wanted.
func Diff(wanted, records []domain.Match, now time.Time) Changes {
	have := make(map[identity]*domain.Match, len(records))
	for i := range records {
		have[identityOf(&records[i])] = &records[i]
	}
	var c Changes
	for i := range wanted {
		id := identityOf(&wanted[i])
		record, ok := have[id]
		delete(have, id)
		if !ok {
			record = &domain.Match{Tenant: wanted[i].Tenant, Rule: wanted[i].Rule, Workload: wanted[i].Workload, Mark: domain.MarkPending}
		}
		if next, changed := Change(*record, wanted[i].Wanted, now); changed || !ok {
			c.Write = append(c.Write, next)
		}
	}
	for i := range records {
		record := &records[i]
		if _, unwanted := have[identityOf(record)]; !unwanted {
			continue
		}
		if record.Made == nil && !record.Mark.MayBeThere() {
			c.Remove = append(c.Remove, *record)
			continue
		}
		if next, changed := Change(*record, nil, now); changed {
			c.Write = append(c.Write, next)
		}
	}
	return c
}

// identity tells the matches of a tenant apart, as their ids do, and takes no hash.
type identity struct {
	rule     domain.Key
	workload string
}

func identityOf(m *domain.Match) identity { return identity{m.Rule, m.Workload} }

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
	case !stays(m):
		return domain.MarkDoomed
	case m.Mark != domain.MarkApplied: // nobody knows what of the last request is there, or it is being changed
		return domain.MarkSent
	case made.Annotations != m.Wanted.Annotations:
		return domain.MarkOutdated
	default:
		return domain.MarkApplied
	}
}

// stays says whether what was made is still wanted, where it is; its annotations may have to be others.
func stays(m *domain.Match) bool {
	return m.IsWanted() && m.Made.Spec == m.Wanted.Spec && m.Made.Cluster == m.Wanted.Cluster
}

func same(a, b *domain.Wanted) bool { return a == b || a != nil && b != nil && *a == *b }
