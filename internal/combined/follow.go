package combined

import (
	"context"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/view"
)

// rowPrint tells what is known of an object on a cluster from what was known before. Zero is like no other, itself included.
type rowPrint uint64

// silentPrint is that of a row of which nothing is known.
const silentPrint rowPrint = 1

// Follow takes what differs of the rows of a source from what the set has taken so far, and looks at no other object: it says
// whether a document may have changed. The source is of the group that the set was made of; clusters bounds what is looked at,
// nil for all. Errors are those of the source; what was taken before them stays.
func (s *Set) Follow(ctx context.Context, source *view.Source, clusters []domain.ClusterName) (changed bool, err error) {
	if s.Empty() {
		return false, nil
	}
	defer s.Settle()
	ask := s.Ask()
	ask.Clusters = clusters
	seen := map[*entry]map[domain.ClusterName]bool{}
	for r, err := range source.Rows(ask) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return changed, err
		}
		e := s.entryOf(r)
		if e == nil {
			continue
		}
		c := r.Place.Cluster.ClusterName
		if seen[e] == nil {
			seen[e] = map[domain.ClusterName]bool{}
		}
		seen[e][c] = true
		now := printOf(r)
		if now != 0 && e.print(c) == now {
			continue
		}
		_, more, err := s.take(ctx, r)
		if err != nil {
			return changed, err
		}
		e.prints[c], changed = now, changed || more
	}
	for _, e := range s.objects {
		if e.rows() {
			changed = s.followSilent(ctx, e, clusters, seen[e]) || changed
		}
	}
	return changed, ctx.Err()
}

// followSilent takes that nothing is known of an object on clusters of which there was no row.
func (s *Set) followSilent(ctx context.Context, e *entry, clusters []domain.ClusterName, seen map[domain.ClusterName]bool) (changed bool) {
	for _, c := range e.Targets {
		if seen[c] || clusters != nil && !slices.Contains(clusters, c) {
			continue
		}
		if s.group.Status.Deleting() { // it is gone
			changed = s.drop(e, c) || changed
			delete(e.prints, c)
			continue
		}
		if e.print(c) != silentPrint {
			changed = s.put(ctx, e, s.silent(e, c)) || changed
			e.prints[c] = silentPrint
		}
	}
	return changed
}

// print is that of what was taken last of a cluster, zero for nothing.
func (e *entry) print(c domain.ClusterName) rowPrint {
	if e.prints == nil {
		e.prints = map[domain.ClusterName]rowPrint{}
	}
	return e.prints[c]
}

// printOf is that of a row. One whose object has no sum, as documents of earlier versions have none, may always have changed.
func printOf(r *view.Row) rowPrint {
	if r.Observed && r.Sum == 0 {
		return 0
	}
	b := make([]byte, 0, 128)
	b = strconv.AppendUint(b, r.Sum, 36)
	b = append(strconv.AppendInt(append(b, ' '), r.Stored.UnixMilli(), 36), ' ')
	b = append(b, byte(r.Readiness), byte(r.LastReadiness), byte(r.Presence), byte(r.LastPresence))
	b = append(append(append(append(b, r.State...), 0), r.Message...), 0)
	if why := r.Why(); why != nil {
		b = append(append(why.LastSeen.UTC().AppendFormat(b, time.RFC3339Nano), 0), why.Reason...)
	}
	h := fnv.New64a()
	h.Write(b)
	return max(rowPrint(h.Sum64()), silentPrint+1)
}
