package combined

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/drover-io/drover/internal/combine"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
)

// perTarget is what a cluster of an app takes in memory, and perPrint what Follow keeps of an object on a cluster.
const perTarget, perPrint = 100, 90

// Size is what the set takes in memory: between half and twice of it. It is no more than a set may hold.
func (s *Set) Size() (n int64) {
	for _, e := range s.objects {
		n += e.Object.bytes() + perPrint*int64(len(e.prints)) + e.bytes
	}
	for _, a := range s.apps {
		n += perTarget * int64(len(a.goes))
	}
	for _, i := range s.items {
		n += i.size()
	}
	return n
}

// bytes is what the object takes in memory.
func (o *Object) bytes() int64 {
	const perObject = 1 << 10
	return perObject + o.size
}

// perLeft is what a row takes in memory that a table has left.
const perLeft = 130

// size is what the tables and the inputs of an item take in memory.
func (i *item) size() (n int64) {
	const perInput, perRow, perBroken = 170, 60, 1 << 10
	n = perInput*int64(len(i.inputs.clusters)) + perRow*int64(i.inputs.rows)
	for t := range i.tables {
		if rows := i.tables[t].rows; rows != nil {
			n += rows.Size()
		} else {
			n += perBroken
		}
		if again := i.tables[t].again; again != nil {
			n += again.Size()
		}
		n += perLeft * int64(len(i.tables[t].left))
	}
	return n
}

// mostHeld is limits.Tables but in tests.
var mostHeld int64 = limits.Tables

// most is how many bytes a set of the group may hold.
func (g *Group) most() int64 { return cmp.Or(g.Most, mostHeld) }

// tooLarge is why tables are given up that are too large together.
var tooLarge = "with it the tables of the answer take more than " + strconv.Itoa(limits.Tables>>20) +
	" MiB; select less, filter rows, or ask for fewer objects or collectors"

// weigh counts what an item takes now among what the set holds.
func (s *Set) weigh(i *item) {
	now := i.size()
	s.held += now - i.held
	i.held = now
}

// weighed is a table of an item with what it takes in memory, or would.
type weighed struct {
	*item
	*table
	bytes int64
}

// bound gives tables up where the set holds too much, and says whether it did: of those that are tried again, without which there was
// room, the largest, until there is; then the largest of the others, until a quarter is free. So it seldom has to look at all of them,
// and what a small table says stays.
func (s *Set) bound() (changed bool) {
	most := s.group.most()
	if s.held <= most {
		return false
	}
	giveUp := func(o weighed) {
		o.was = max(o.was, o.live().Size())
		o.giveUp(tooLarge)
		o.content, changed = nil, true
		s.weigh(o.item)
	}
	var again, all []weighed
	for _, i := range s.items {
		for n := range i.tables {
			switch o := (weighed{item: i, table: &i.tables[n]}); {
			case o.rows == nil:
			case o.again != nil:
				o.bytes = o.again.Size()
				again = append(again, o)
			case !o.rows.GivenUp():
				o.bytes = o.rows.Size()
				all = append(all, o)
			}
		}
	}
	largest := func(a, b weighed) int { return cmp.Compare(b.bytes, a.bytes) }
	slices.SortStableFunc(again, largest)
	for _, o := range again {
		if giveUp(o); s.held <= most {
			return changed
		}
	}
	slices.SortStableFunc(all, largest)
	for _, o := range all {
		if s.held <= most-most/4 {
			break
		}
		giveUp(o)
	}
	return changed
}

// full is an error where the set holds too much though its tables are given up: see Group.full.
func (s *Set) full() error { return s.group.full(s.held) }

// full is an error where a set of the group may not hold so many bytes: Invalid, with what helps, and that of Room.
func (g *Group) full(held int64) error {
	switch {
	case held > g.most():
		return fail.New(fail.Invalid, "the answer about %s would take more than %d MiB; ask for fewer objects, by app, kind or resource, or by the tests of a query",
			domain.NameOwner(g.Key), limits.Tables>>20)
	case g.Room != nil:
		return g.Room(held)
	default:
		return nil
	}
}

// state is what a cluster says of an object whose status is asked for.
type state struct {
	combine.Reported
	bytes int64 // that it takes in memory
}

// stateOf is that of a row. It keeps no more of the object than combine.Aggregate looks at.
func stateOf(in *Input) state {
	const perState = 250
	p := &in.Propagation
	s := state{bytes: perState, Reported: combine.Reported{
		Cluster: in.Cluster, Stale: p.Stale, Summarised: p.Summarised, Gone: p.Reported && !p.Present && !p.Stale,
	}}
	if in.Returned == nil {
		return s
	}
	if s.Status, _ = in.Returned["status"].(map[string]any); s.Status == nil {
		s.Status = map[string]any{}
	}
	if spec, ok := in.Returned["spec"].(map[string]any); ok {
		s.Spec = map[string]any{"replicas": spec["replicas"]}
	}
	metadata, _ := in.Returned["metadata"].(map[string]any)
	s.Generation, _ = metadata["generation"].(int64)
	s.bytes += sizeOf(s.Status) + sizeOf(s.Spec)
	return s
}

// sizeOf is what a value of combine.Decode takes in memory, about.
func sizeOf(v any) (n int64) {
	const word, perMap, few, perEntry = 8, 360, 8, 60
	switch v := v.(type) {
	case map[string]any:
		switch {
		case len(v) == 0:
			return few * word
		case len(v) <= few:
			n = perMap
		default:
			n = perEntry * int64(len(v))
		}
		for name, member := range v {
			n += word + int64(len(name)) + sizeOf(member)
		}
		return n
	case []any:
		n = 3 * word
		for _, item := range v {
			n += 2*word + sizeOf(item)
		}
		return n
	case string:
		return 2*word + int64(len(v))
	default:
		return word
	}
}
