package combined

import (
	"cmp"
	"context"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/drover-io/drover/internal/combine"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/view"
)

// rowPrint tells what is known of an object on a cluster from what was known before. Zero says that nobody can tell.
type rowPrint uint64

// silentPrint is that of a row of which nothing is known.
const silentPrint rowPrint = 1

// Follow takes what differs of the rows of a source from what the set has taken so far, and looks at no other object: it says
// whether a document may have changed. The source is of the group that the set was made of; clusters bounds what is looked at, nil
// for all. Tables that take long leave some rows to CatchUp, and of those that are too large together some are given up. Errors are those of the
// source, of ctx and of Group.Room; what was taken before them stays, and the next call looks at all clusters. Invalid says that the set holds more than an
// answer may: it is of no use any more.
func (s *Set) Follow(ctx context.Context, source *view.Source, clusters []domain.ClusterName) (changed bool, err error) {
	if s.Empty() {
		s.whole = true
		return false, nil
	}
	if !s.whole {
		clusters = nil
	}
	s.whole = false
	p := pass{Set: s, ask: s.Ask(), slice: firstSlice, seen: map[*entry]map[domain.ClusterName]bool{}}
	p.ask.Clusters = clusters
	if changed, err = p.run(ctx, source, s.objects); err != nil {
		return changed, err
	}
	s.whole = true
	s.complete()
	return changed, nil
}

// Whole says whether the last Follow has come to its end. Documents of a set that is not whole say less than there is.
func (s *Set) Whole() bool { return s.whole }

// Behind says whether tables have left rows. Each of them has an error, and no rows, until CatchUp has come to its end.
func (s *Set) Behind() bool { return slices.ContainsFunc(s.objects, (*entry).behind) }

// Unfinished says whether a table that is Behind has an error because of that. One that is tried again shows what it did.
func (s *Set) Unfinished() bool {
	return slices.ContainsFunc(s.items, func(i *item) bool {
		return slices.ContainsFunc(i.tables, func(t table) bool { return t.left != nil && t.again == nil })
	})
}

// CatchUp has tables take the rows that they have left, and says whether a document may have changed. Those that take least are
// finished first. Errors are as Follow has them; the next call goes on from there.
func (s *Set) CatchUp(ctx context.Context, source *view.Source) (changed bool, err error) {
	for s.Behind() {
		p := pass{Set: s, ask: s.Ask(), slice: s.nextSlice(), seen: map[*entry]map[domain.ClusterName]bool{}, again: true}
		var names []string
		var objects []*entry
		for _, e := range s.objects {
			if e.behind() {
				names, objects = append(names, e.Name), append(objects, e)
			}
		}
		p.ask.Resources = slices.Compact(slices.Sorted(slices.Values(names)))
		more, err := p.run(ctx, source, objects)
		changed = changed || more
		if err != nil {
			return changed, err
		}
		if p.slice > combine.TableTime { // every row that there is has been put
			changed = s.finish() || changed
		}
	}
	return changed, nil
}

// Retry has tables that were given up take all rows again with CatchUp: the smallest first, and only as many as there is room for. The
// errors of each stay until it has.
func (s *Set) Retry() {
	var all []weighed
	for _, i := range s.items {
		for n := range i.tables {
			if t := &i.tables[n]; t.rows != nil && t.rows.GivenUp() && t.again == nil {
				all = append(all, weighed{i, t, max(t.was, perLeft*int64(i.inputs.rows))})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b weighed) int { return cmp.Compare(a.bytes, b.bytes) })
	room := s.group.most() - s.held
	for _, o := range all {
		if room -= o.bytes; room < 0 {
			o.was /= 2 // clusters may report less by now: so it has its turn
			continue
		}
		o.retry(o.inputs.keys())
		s.weigh(o.item)
	}
}

// GivenUp says whether a table was.
func (s *Set) GivenUp() bool {
	return slices.ContainsFunc(s.items, func(i *item) bool {
		return slices.ContainsFunc(i.tables, func(t table) bool { return t.rows != nil && t.rows.GivenUp() })
	})
}

// behind says whether a table of the object, or of its app together, has left rows.
func (e *entry) behind() bool {
	return slices.ContainsFunc(e.items, func(i *item) bool {
		return slices.ContainsFunc(i.tables, func(t table) bool { return t.left != nil })
	})
}

// nextSlice is long enough for one of the tables that have left rows at least.
func (s *Set) nextSlice() time.Duration {
	least := combine.TableTime
	for _, i := range s.items {
		for n := range i.tables {
			if t := &i.tables[n]; t.left != nil {
				least = min(least, t.live().Taken())
			}
		}
	}
	return sliceGrowth * max(least, firstSlice)
}

// finish forgets rows that are left and are not there any more.
func (s *Set) finish() (changed bool) {
	for _, i := range s.items {
		for n := range i.tables {
			if t := &i.tables[n]; t.left != nil && t.finish() {
				i.content, changed = nil, true
			}
		}
		s.weigh(i)
	}
	return changed
}

// pass goes once through the rows of a source.
type pass struct {
	*Set
	ask   view.Ask
	slice time.Duration                          // that a table has
	seen  map[*entry]map[domain.ClusterName]bool // where there was a row
	// again says that rows are looked at because of what was left of them. One of which nobody can tell whether it has changed is
	// not taken for that.
	again bool
}

// run takes the rows of some objects, which are all that it asks for.
func (p *pass) run(ctx context.Context, source *view.Source, objects []*entry) (changed bool, err error) {
	for r, err := range source.Rows(p.ask) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return changed, err
		}
		e := p.entryOf(r)
		if e == nil {
			continue
		}
		c := r.Place.Cluster.ClusterName
		if p.seen[e] == nil {
			p.seen[e] = map[domain.ClusterName]bool{}
		}
		p.seen[e][c] = true
		more, err := p.follow(ctx, e, r)
		if err != nil {
			return changed, err
		}
		changed = changed || more
		if err := p.full(); err != nil {
			return changed, err
		}
	}
	for _, e := range objects {
		if e.rows() {
			changed = p.followSilent(ctx, e) || changed
		}
		if err := p.full(); err != nil {
			return changed, err
		}
	}
	return changed, ctx.Err()
}

// follow takes a row where it differs from what was taken before, and else what tables have left of it.
func (p *pass) follow(ctx context.Context, e *entry, r *view.Row) (changed bool, err error) {
	c, now := r.Place.Cluster.ClusterName, printOf(r)
	before, known := e.print(c)
	if known && before == now && (now != 0 || p.again) {
		if !e.left(c, p.slice) {
			return false, nil
		}
		in, err := p.input(e, r)
		if err != nil {
			return false, err
		}
		return p.catchUp(ctx, e, in), nil
	}
	if changed, err = p.take(ctx, e, r, p.slice); err == nil {
		p.mark(e, c, now)
	}
	return changed, err
}

// left says whether a table that has not taken more than a slice of time has left the row of a cluster.
func (e *entry) left(c domain.ClusterName, slice time.Duration) bool {
	for _, i := range e.items {
		for n := range i.tables {
			if t := &i.tables[n]; t.left != nil && t.live().Taken() <= slice {
				if _, left := t.left[i.key(e.Object, c)]; left {
					return true
				}
			}
		}
	}
	return false
}

// catchUp has tables take a row that they have left.
func (p *pass) catchUp(ctx context.Context, e *entry, in *Input) (changed bool) {
	for _, i := range e.items {
		row := i.row(e.Object, in)
		for n := range i.tables {
			t := &i.tables[n]
			if _, left := t.left[row.Key]; !left {
				continue
			}
			var more bool
			if t.wants(e.Object) {
				more = t.put(ctx, row, p.slice)
			} else {
				more = t.took(row.Key)
			}
			if more {
				i.content, changed = nil, true
			}
		}
		p.weigh(i)
	}
	return p.bound() || changed
}

// followSilent takes that nothing is known of an object on clusters of which there was no row.
func (p *pass) followSilent(ctx context.Context, e *entry) (changed bool) {
	seen, clusters, goes := p.seen[e], p.ask.Clusters, p.apps[e.App].goes
	if clusters == nil {
		clusters = e.Targets
	}
	for _, c := range clusters {
		if seen[c] || !goes[c] || e.lacking[c] {
			continue
		}
		if p.group.Status.Deleting() { // it is gone
			changed = p.drop(e, c) || changed
			p.unmark(e, c)
			continue
		}
		if before, _ := e.print(c); before != silentPrint {
			changed = p.put(ctx, e, p.silent(e, c), p.slice) || changed
			p.mark(e, c, silentPrint)
		} else if e.left(c, p.slice) {
			changed = p.catchUp(ctx, e, p.silent(e, c)) || changed
		}
	}
	return changed
}

// print is that of what was taken last of a cluster; known is false for nothing.
func (e *entry) print(c domain.ClusterName) (last rowPrint, known bool) {
	if e.prints == nil {
		e.prints = map[domain.ClusterName]rowPrint{}
	}
	last, known = e.prints[c]
	return last, known
}

// mark notes the print of what was taken of a cluster.
func (s *Set) mark(e *entry, c domain.ClusterName, now rowPrint) {
	if _, known := e.print(c); !known {
		s.held += perPrint
	}
	e.prints[c] = now
}

// unmark forgets what mark has noted.
func (s *Set) unmark(e *entry, c domain.ClusterName) {
	if _, known := e.print(c); known {
		s.held -= perPrint
	}
	delete(e.prints, c)
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
