package combined

import (
	"context"
	"fmt"
	"time"

	"github.com/drover-io/drover/internal/combine"
	"github.com/drover-io/drover/internal/domain"
)

// Collector is a status collector that can be evaluated, or that cannot.
type Collector struct {
	Name    string // as intents name it
	Program *combine.Program
	// Broken is what there is in place of a table where Program is nil.
	Broken *combine.Result
	// Made tells what it was compiled from.
	Made string
}

// MaxCollectors is how many collectors an object may have. Those that come after them by name have errors instead of rows.
const MaxCollectors = 100

// Input is what is known of an object on a target.
type Input struct {
	combine.Row
	Reason string // why it is stale, "" when it is not
}

// item is a CombinedStatus on its way: the tables of an object, or of all objects of an app together.
type item struct {
	app     string
	object  *Object // nil for all of the app together
	tables  []table // by name
	inputs  inputs
	content *CombinedStatus // as it was made last; nil when something has changed since
	held    int64           // what it took in memory when it was weighed last
}

func (i *item) add(c Collector, wants func(o *Object) bool) {
	t := table{program: c.Program, broken: c.Broken, wants: wants}
	switch {
	case len(i.tables) >= MaxCollectors:
		t.broken = &combine.Result{
			Name: c.Name, ColumnNames: []string{}, Rows: []combine.ResultRow{},
			Errors: []string{fmt.Sprintf("an object has at most %d collectors", MaxCollectors)},
		}
	case c.Program != nil:
		t.rows = combine.NewTable(c.Program)
	}
	i.tables = append(i.tables, t)
}

// put takes a row of an object. Tables that have taken more than a slice of time leave it for later.
func (i *item) put(ctx context.Context, o *Object, in *Input, slice time.Duration) (changed bool) {
	row := i.row(o, in)
	changed = i.inputs.put(row.Key, heard{row.Propagation.Reported, row.Propagation.Stale, row.Propagation.StaleSince, in.Reason})
	for n := range i.tables {
		if t := &i.tables[n]; t.rows != nil && t.wants(o) && t.put(ctx, row, slice) {
			changed = true
		}
	}
	if changed {
		i.content = nil
	}
	return changed
}

// row is that of an object in the tables of the item.
func (i *item) row(o *Object, in *Input) *combine.Row {
	row := in.Row
	row.Key = i.key(o, in.Cluster)
	return &row
}

func (i *item) key(o *Object, c domain.ClusterName) combine.Key {
	key := combine.Key{Cluster: c}
	if i.object == nil {
		key.Object = o.String()
	}
	return key
}

// complete says that the tables have all rows but those that they have left: what comes later is a change, and has a time of its own.
func (i *item) complete() {
	for n := range i.tables {
		if t := &i.tables[n]; t.rows != nil && t.left == nil {
			t.rows.Whole()
		}
	}
}

func (i *item) drop(o *Object, c domain.ClusterName) (changed bool) {
	key := i.key(o, c)
	if !i.inputs.drop(key) {
		return false
	}
	for n := range i.tables {
		if t := &i.tables[n]; t.rows != nil {
			t.drop(key)
		}
	}
	i.content = nil
	return true
}
