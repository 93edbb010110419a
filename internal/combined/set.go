package combined

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/combine"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/view"
)

// Set is what a query asks of a group: its objects, with the tables and the states that are made of what clusters report of them.
// It may be used by one goroutine at a time.
type Set struct {
	group   *Group // without its plan and its bundles, which may be large
	apps    map[string]*app
	objects []*entry // in their order
	items   []*item  // in the order of documents
	states  bool
	whole   bool // Follow has come to its end, so that there is a row of each object on each cluster
	// unfinished stands in place of the rows of a table that has left some.
	unfinished string
	// held is what Size says, in bytes, kept up with each row: see bound.
	held int64
	// once says that nobody goes on with it: see Once.
	once bool
}

// app is what the objects of an app have in common.
type app struct {
	goes    map[domain.ClusterName]bool
	entries map[int]*entry // by index in the bundle
}

// entry is an object with what is made of its rows.
type entry struct {
	*Object
	items  []*item // its own, and that of its app together
	states map[domain.ClusterName]state
	// bytes are what the states take.
	bytes  int64
	prints map[domain.ClusterName]rowPrint // of what Follow has taken
}

// NewSet makes the set of what a filter leaves of a group, without anything that clusters report. Collectors has what intents
// name; where nil, no tables are asked for, but states of objects are kept for Objects. An error is that of ctx or of Group.Room, Internal, or
// Invalid where there are more objects or tables than an answer may have.
func NewSet(ctx context.Context, g *Group, f Filter, collectors map[string]Collector) (*Set, error) {
	objects, err := g.objects(ctx, &f, func(w *domain.StatusWanted) bool {
		return collectors == nil && f.Collectors == nil || slices.ContainsFunc(w.Collectors, func(c string) bool { return among(f.Collectors, c) })
	})
	if err != nil {
		return nil, err
	}
	lean := *g
	lean.Plan, lean.Bundles, lean.Overlays = nil, nil, nil
	s := &Set{group: &lean, apps: map[string]*app{}, states: collectors == nil, unfinished: unfinished}
	for _, o := range objects {
		s.held += o.bytes()
		e := &entry{Object: o}
		if s.states && (o.Wants.Singleton || o.Wants.Multi) {
			e.states = map[domain.ClusterName]state{}
		}
		a := s.apps[o.App]
		if a == nil {
			a = &app{goes: map[domain.ClusterName]bool{}, entries: map[int]*entry{}}
			s.apps[o.App] = a
		}
		for _, c := range o.Targets {
			if !a.goes[c] {
				a.goes[c] = true
				s.held += perTarget
			}
		}
		a.entries[o.Index] = e
		s.objects = append(s.objects, e)
		if s.states {
			continue
		}
		own := &item{app: o.App, object: o, inputs: newInputs()}
		for _, name := range o.Wants.Collectors {
			if among(f.Collectors, name) {
				own.add(named(collectors, name), func(*Object) bool { return true })
			}
		}
		if len(own.tables) > 0 {
			e.items = append(e.items, own)
			s.items = append(s.items, own)
			s.weigh(own)
		}
		if err := s.full(); err != nil {
			return nil, err
		}
	}
	if !s.states && f.Kinds == nil && f.Resources == nil {
		s.together(&f, collectors)
	}
	if err := s.full(); err != nil {
		return nil, err
	}
	return s, nil
}

// together adds the tables of all objects of an app.
func (s *Set) together(f *Filter, collectors map[string]Collector) {
	for _, name := range slices.Sorted(maps.Keys(s.apps)) {
		all := &item{app: name, inputs: newInputs()}
		wanted := map[string]bool{}
		for _, e := range s.apps[name].entries {
			for _, c := range e.Wants.Together {
				wanted[c] = wanted[c] || among(f.Collectors, c)
			}
		}
		for _, c := range slices.Sorted(maps.Keys(wanted)) {
			if wanted[c] {
				all.add(named(collectors, c), func(o *Object) bool { return slices.Contains(o.Wants.Together, c) })
			}
		}
		if len(all.tables) == 0 {
			continue
		}
		s.items = append(s.items, all)
		s.weigh(all)
		for _, e := range s.apps[name].entries {
			if slices.ContainsFunc(e.Wants.Together, func(c string) bool { return wanted[c] }) {
				e.items = append(e.items, all)
			}
		}
	}
}

// named is a collector by its name; one that has gone since the intents were read says so.
func named(collectors map[string]Collector, name string) Collector {
	if c, ok := collectors[name]; ok {
		return c
	}
	return Collector{Name: name, Broken: &combine.Result{
		Name: name, ColumnNames: []string{}, Rows: []combine.ResultRow{}, Errors: []string{"there is no such status collector any more"},
	}}
}

// Ask is which rows the set needs; none where Empty.
func (s *Set) Ask() view.Ask {
	names := map[string]bool{}
	for _, e := range s.objects {
		if e.rows() {
			names[e.Name] = true
		}
	}
	return view.Ask{
		Apps: slices.Sorted(maps.Keys(s.apps)), Resources: slices.Sorted(maps.Keys(names)),
		Reported: true, Judged: true, Detail: true, Order: view.AsPlanned,
	}
}

// rows says whether rows of the object are looked at.
func (e *entry) rows() bool { return len(e.items) > 0 || e.states != nil }

// Empty says whether no rows are needed.
func (s *Set) Empty() bool { return !slices.ContainsFunc(s.objects, (*entry).rows) }

// Evaluate takes all rows of the source, which is of the group's app context, and has a row for each target that there is none
// of. When ctx ends, tables that take long are not there yet. Errors are those of Follow.
func (s *Set) Evaluate(ctx context.Context, source *view.Source) error {
	if _, err := s.Follow(ctx, source, nil); err != nil {
		return err
	}
	_, err := s.CatchUp(ctx, source)
	return err
}

// Once says that the set is for one answer: that nobody goes on with it is what tables say then that have left rows, and documents are not kept.
func (s *Set) Once() { s.once, s.unfinished = true, unfinishedOnce }

// complete ends the time that tables have for all that was put until now: what comes later has a time of its own.
func (s *Set) complete() {
	for _, i := range s.items {
		i.complete()
	}
}

// Put takes what is known of an object on a cluster, and says whether a document may have changed. Rows of what the set is not
// about do nothing. Errors are those of view.Row.Object and of Group.Room, and Invalid as Follow has it.
func (s *Set) Put(ctx context.Context, r *view.Row) (changed bool, err error) {
	if e := s.entryOf(r); e != nil {
		if changed, err = s.take(ctx, e, r, firstSlice); err == nil {
			err = s.full()
		}
		return changed, err
	}
	return false, nil
}

// Drop takes the rows of an app on a cluster out, which it does not go to any more.
func (s *Set) Drop(app string, c domain.ClusterName) (changed bool) {
	if a := s.apps[app]; a != nil {
		for _, e := range a.entries {
			changed = s.drop(e, c) || changed
		}
	}
	return changed
}

// entryOf is the object that a row is of, nil where the set has nothing of the row.
func (s *Set) entryOf(r *view.Row) *entry {
	a := s.apps[r.Place.App.Name]
	if a == nil || r.Index < 0 || !a.goes[r.Place.Cluster.ClusterName] {
		return nil
	}
	if e := a.entries[r.Index]; e != nil && e.rows() && !e.lacking[r.Place.Cluster.ClusterName] {
		return e
	}
	return nil
}

// take takes the row of an object. Tables that have taken more than a slice of time leave it for later.
func (s *Set) take(ctx context.Context, e *entry, r *view.Row, slice time.Duration) (changed bool, err error) {
	if s.gone(r) {
		return s.drop(e, r.Place.Cluster.ClusterName), nil
	}
	in, err := s.input(e, r)
	if err != nil {
		return false, err
	}
	return s.put(ctx, e, in, slice), nil
}

// gone says whether the row's object has been deleted from its cluster.
func (s *Set) gone(r *view.Row) bool {
	return s.group.Status.Deleting() && r.Mark == domain.MarkDeleted
}

func (s *Set) put(ctx context.Context, e *entry, in *Input, slice time.Duration) (changed bool) {
	for _, i := range e.items {
		changed = i.put(ctx, e.Object, in, slice) || changed
		s.weigh(i)
	}
	if e.states != nil {
		now := stateOf(in)
		s.count(e, now.bytes-e.states[in.Cluster].bytes)
		e.states[in.Cluster] = now
		changed = true
	}
	return s.bound() || changed
}

func (s *Set) drop(e *entry, c domain.ClusterName) (changed bool) {
	for _, i := range e.items {
		changed = i.drop(e.Object, c) || changed
		s.weigh(i)
	}
	if was, ok := e.states[c]; ok {
		s.count(e, -was.bytes)
		delete(e.states, c)
		changed = true
	}
	return changed
}

// count counts what the states of an object take.
func (s *Set) count(e *entry, bytes int64) {
	e.bytes += bytes
	s.held += bytes
}

// input makes the row of an object on a cluster.
func (s *Set) input(e *entry, r *view.Row) (*Input, error) {
	object, err := r.Object()
	if err != nil {
		return nil, err
	}
	returned, unread := combine.Decode(object)
	in := s.silent(e, r.Place.Cluster.ClusterName)
	p := &in.Propagation
	p.State, p.Message, p.Ready = string(r.State), r.Message, status.Readiness(r.Readiness)
	in.Returned = returned
	if r.Observed {
		in.Reason = ""
		p.LastReturnedUpdate, p.Reported, p.Stale = r.Stored, true, false
		p.Present = r.Presence == view.Present || r.LastPresence == view.Present
		p.Summarised = summarised(returned)
	} else if r.Was {
		in.Reason = ""
		p.LastReturnedUpdate, p.Reported, p.Stale = r.Stored, true, false
		if r.Presence == view.Unknown && r.LastPresence != view.Missing {
			p.Stale, in.Reason = true, "objects of the kind are not reported any more"
		}
	} else if r.Presence == view.Missing {
		in.Reason = "the object is not in the cluster"
	}
	if why := r.Why(); why != nil {
		p.Stale, in.Reason = true, cmp.Or(why.Reason, in.Reason)
		if p.Reported && !why.LastSeen.IsZero() { // of what was never reported, nothing has become old
			since := why.LastSeen.UTC()
			p.StaleSince = &since
		}
	}
	if unread != nil { // one object on one cluster ends no table: it is as if it had not been reported, and says why
		p.Stale, in.Returned, in.Reason = true, nil, "what the cluster reports of the object cannot be read: "+unread.Error()
	}
	return in, nil
}

// silent is the row of an object on a cluster that nothing is known of.
func (s *Set) silent(e *entry, c domain.ClusterName) *Input {
	return &Input{
		Row: combine.Row{
			Key: combine.Key{Cluster: c}, Labels: s.group.Labels[c], Object: e.on(c),
			Propagation: combine.Propagation{Stale: true, State: string(domain.ResourcePending)},
		},
		Reason: "nothing has been reported of the object",
	}
}

func summarised(returned map[string]any) bool {
	metadata, _ := returned["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	return annotations[bundle.SummarisedAnnotation] == "true"
}
