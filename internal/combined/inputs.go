package combined

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/drover-io/drover/internal/combine"
	"github.com/drover-io/drover/internal/domain"
)

// inputs are the rows of an item as Inputs shows them. There may be thousands, and one of them changes: so they are counted as they
// come and go.
type inputs struct {
	clusters        map[domain.ClusterName]*inputsOf
	reported, stale int // clusters
	rows            int
	// first are the first of the stale clusters, in their order; nil when they have to be looked for.
	first []domain.ClusterName
}

// inputsOf are the rows of a cluster: one, or one for each object of an app.
type inputsOf struct {
	rows            []inputRow // in the order of objects
	reported, stale int        // of them
}

type inputRow struct {
	object string // as combine.Key has it
	heard
}

// heard is what inputs say of a row.
type heard struct {
	reported, stale bool
	since           *time.Time
	reason          string
}

func (h heard) same(other heard) bool {
	return h.reported == other.reported && h.stale == other.stale && h.reason == other.reason && sameTime(h.since, other.since)
}

func sameTime(a, b *time.Time) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(*b)
}

func newInputs() inputs {
	return inputs{clusters: map[domain.ClusterName]*inputsOf{}, first: []domain.ClusterName{}}
}

// put takes a row, and says whether anything is new by that.
func (in *inputs) put(key combine.Key, now heard) bool {
	c := in.clusters[key.Cluster]
	if c == nil {
		c = &inputsOf{}
		in.clusters[key.Cluster] = c
	}
	was := c.says()
	at, there := c.find(key.Object)
	switch {
	case !there:
		c.rows = slices.Insert(c.rows, at, inputRow{key.Object, now})
		in.rows++
	case c.rows[at].same(now):
		return false
	default:
		c.count(c.rows[at].heard, -1)
		c.rows[at].heard = now
	}
	c.count(now, 1)
	in.count(key.Cluster, was, c.says())
	return true
}

// drop takes a row out, and says whether it was there.
func (in *inputs) drop(key combine.Key) bool {
	c := in.clusters[key.Cluster]
	if c == nil {
		return false
	}
	at, there := c.find(key.Object)
	if !there {
		return false
	}
	was := c.says()
	c.count(c.rows[at].heard, -1)
	in.rows--
	if c.rows = slices.Delete(c.rows, at, at+1); len(c.rows) == 0 {
		delete(in.clusters, key.Cluster)
	}
	in.count(key.Cluster, was, c.says())
	return true
}

func (c *inputsOf) find(object string) (int, bool) {
	return slices.BinarySearchFunc(c.rows, object, func(r inputRow, object string) int { return cmp.Compare(r.object, object) })
}

func (c *inputsOf) count(h heard, by int) {
	if h.reported {
		c.reported += by
	}
	if h.stale {
		c.stale += by
	}
}

// says is what counts of a cluster: it has reported when it has reported all of the rows, and is stale when one of them is.
func (c *inputsOf) says() heard {
	return heard{reported: len(c.rows) > 0 && c.reported == len(c.rows), stale: c.stale > 0}
}

// count takes into account that a cluster does not say what it said.
func (in *inputs) count(name domain.ClusterName, was, now heard) {
	if was.reported != now.reported {
		in.reported += sign(now.reported)
	}
	if was.stale == now.stale {
		return
	}
	in.stale += sign(now.stale)
	switch at, there := slices.BinarySearchFunc(in.first, name, domain.ClusterName.Compare); {
	case now.stale && in.first != nil:
		in.first = offer(in.first, name)
	case there:
		if in.first = slices.Delete(in.first, at, at+1); len(in.first) < min(in.stale, maxUnconfirmed) {
			in.first = nil // nobody knows which is the next one
		}
	}
}

func sign(more bool) int {
	if more {
		return 1
	}
	return -1
}

// offer puts a name into the first ones where it is one of them.
func offer(first []domain.ClusterName, name domain.ClusterName) []domain.ClusterName {
	if len(first) == maxUnconfirmed {
		if name.Compare(first[maxUnconfirmed-1]) > 0 {
			return first
		}
		first = first[:maxUnconfirmed-1]
	}
	at, _ := slices.BinarySearchFunc(first, name, domain.ClusterName.Compare)
	return slices.Insert(first, at, name)
}

// shown is what they say.
func (in *inputs) shown() Inputs {
	if in.first == nil {
		in.first = make([]domain.ClusterName, 0, maxUnconfirmed)
		for name, c := range in.clusters {
			if c.stale > 0 {
				in.first = offer(in.first, name)
			}
		}
	}
	shown := Inputs{Clusters: len(in.clusters), Reported: in.reported, Stale: in.stale}
	for _, name := range in.first {
		rows := in.clusters[name].rows
		h := rows[slices.IndexFunc(rows, func(r inputRow) bool { return r.stale })].heard
		shown.Unconfirmed = append(shown.Unconfirmed, Unconfirmed{name.String(), h.since, h.reason})
	}
	return shown
}

// keys are the rows.
func (in *inputs) keys() iter.Seq[combine.Key] {
	return func(yield func(combine.Key) bool) {
		for name, c := range in.clusters {
			for i := range c.rows {
				if !yield(combine.Key{Object: c.rows[i].object, Cluster: name}) {
					return
				}
			}
		}
	}
}
