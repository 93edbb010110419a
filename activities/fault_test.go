package activities_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/mongotest"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// What a slow database does to the records of operations: a write whose answer nobody got may have been done, may be done
// any time later, or is done twice. In the end there must be what there is without that.

// slow is a store whose database is slow when a test says so.
type slow struct {
	*activities.Control
	past pastStore // where nothing is slow
	// meet has the nth write from now on suffer a fault, and flush ends it: what was written, and whether there was no such
	// write.
	meet  func(nth int, f mongotest.Fault)
	flush func() (writes []string, unmet bool)
	runs  int
}

// pastStore is what a test writes and reads past all faults.
type pastStore interface {
	Create(ctx context.Context, o domain.Object) error
	Get(ctx context.Context, noun *domain.Noun, key domain.Key) (domain.Object, error)
	PutBlob(ctx context.Context, data []byte) (domain.Digest, error)
	PutInstance(ctx context.Context, in *domain.Instance) error
	InstancesOf(ctx context.Context, owner domain.Key) ([]*domain.Instance, error)
	Leaf(ctx context.Context, id string) (*domain.Leaf, error)
}

// newSlow has the activities on a store with faults.
func newSlow(t *testing.T, s activities.Store, past pastStore) *slow {
	t.Helper()
	return &slow{past: past, Control: &activities.Control{Store: s, Runs: closed{}, Now: func() time.Time { return begun }}}
}

// newSlowDatabase has a real one behind a proxy.
func newSlowDatabase(t *testing.T) *slow {
	t.Helper()
	name, proxy := mongotest.Database(t), mongotest.NewProxy(t, mongotest.URI(t))
	s := newSlow(t, storetest.Open(t, store.Config{URI: proxy.URI(), Database: name}), storetest.Open(t, store.Config{Database: name}))
	s.meet = func(nth int, f mongotest.Fault) { proxy.Meet("", nth, f) }
	s.flush = proxy.Flush
	return s
}

// owned are the owners and contexts of one run of an operation.
type owned struct {
	*slow
	t      *testing.T
	n      int
	groups map[string]*domain.DeploymentIntentGroup // as they began
}

// run is another project, in which nothing has happened yet.
func (s *slow) run(t *testing.T) *owned {
	t.Helper()
	s.runs++
	return &owned{slow: s, t: t, n: s.runs, groups: map[string]*domain.DeploymentIntentGroup{}}
}

// plan is a group's. No other run has its resource.
func (o *owned) plan(group string) domain.Digest {
	o.t.Helper()
	digest, err := o.past.PutBlob(o.t.Context(), fmt.Appendf(nil,
		`{"owner":%q,"apps":[{"name":"app","resources":[{"name":"run%d"}],"targets":[{"provider":"p","name":"c"}]}]}`, o.key(group), o.n))
	require.NoError(o.t, err)
	return digest
}

func (o *owned) key(group string) domain.Key {
	return domain.Key(fmt.Sprintf("projects/p%d/composite-apps/ca/v1/deployment-intent-groups/%s", o.n, group))
}

// id is a context's.
func (o *owned) id(number int) string {
	if number == 0 {
		return ""
	}
	return fmt.Sprintf("%d-%d", o.n, number)
}

// group makes one that is approved, with what has become of it since then.
func (o *owned) group(name string, since func(h *domain.History)) {
	o.t.Helper()
	key := o.key(name)
	g := &domain.DeploymentIntentGroup{
		Identity: domain.Identity{Parent: domain.Key(fmt.Sprintf("projects/p%d/composite-apps/ca/v1", o.n))},
		Metadata: domain.Metadata{Name: key.Name()}, History: domain.NewHistory(begun),
	}
	g.History.Append(domain.Approved, "", 0, begun)
	if since != nil {
		since(&g.History)
	}
	require.NoError(o.t, o.past.Create(o.t.Context(), g))
	o.groups[name] = g
}

// context makes the record of one.
func (o *owned) record(group string, number, label int, op domain.Operation, status domain.ContextStatus) {
	o.t.Helper()
	require.NoError(o.t, o.past.PutInstance(o.t.Context(), &domain.Instance{
		ContextID: o.id(number), Owner: o.key(group), Origin: domain.OpInstantiate, Operation: op, Status: status, Label: o.id(label), Plan: o.plan(group),
	}))
}

func (o *owned) scope(group string, number int, op domain.Operation) domain.Scope {
	return domain.Scope{Owner: o.key(group), ContextID: o.id(number), Operation: op}
}

// begin is Record for an operation that makes a context, which takes over from another one, 0 for none. The owners are as
// they were in the beginning, or have been written so many times since.
func (o *owned) begin(op domain.Operation, group string, number int, source string, from, writes int) step {
	in := activities.RecordInput{Scope: o.scope(group, number, op)}
	in.Prepared = &activities.Prepared{Plan: o.plan(group), OwnerRevision: o.groups[group].Revision + int64(writes)}
	if from != 0 {
		in.Prepared.Label = o.id(1)
		in.Prepared.From = &activities.From{ContextID: o.id(from), Owner: o.key(source), OwnerRevision: o.groups[source].Revision + int64(writes)}
	}
	return func(ctx context.Context) error { return o.Record(ctx, in) }
}

func (o *owned) terminate(number int, observed domain.ContextStatus) step {
	in := activities.RecordInput{Scope: o.scope("group", number, domain.OpTerminate), Seen: domain.Seen{Status: observed}}
	return func(ctx context.Context) error { return o.Record(ctx, in) }
}

func (o *owned) stop(op domain.Operation) step {
	return func(ctx context.Context) error {
		return o.RecordStop(ctx, activities.StopInput{Scope: o.scope("group", 1, op)})
	}
}

func (o *owned) leaf(op domain.Operation, marks string) step {
	return func(ctx context.Context) error {
		return o.RecordLeaf(ctx, domain.Leaf{
			ContextID: o.id(1), Operation: op, App: "app", Cluster: domain.ClusterName{Provider: "p", Name: "c"}, Marks: marks,
		})
	}
}

func (o *owned) finish(op domain.Operation, number int) step {
	plan := o.plan("group")
	return func(ctx context.Context) error {
		_, err := o.Finish(ctx, activities.FinishInput{Scope: o.scope("group", number, op), Plan: plan})
		return err
	}
}

// step is one activity.
type step func(ctx context.Context) error

// tries are more than any fault takes.
const tries = 5

// do does it as a workflow does: again, as long as that may help.
func (s step) do(ctx context.Context) (err error) {
	for range tries {
		if err = s(ctx); err == nil || !fail.KindOf(err).Retryable() {
			return err
		}
	}
	return err
}

// left is what a run has left in the store, without the numbers of the run.
type left struct {
	Refused string
	History map[string][]string
	Records map[string]string
	Leaf    string
}

func (o *owned) left(refusal error) left {
	o.t.Helper()
	out := left{History: map[string][]string{}, Records: map[string]string{}}
	if refusal != nil {
		out.Refused = string(fail.KindOf(refusal))
	}
	number := func(id string) string { return id[min(len(id), len(o.id(1))-1):] }
	for _, name := range []string{"group", "source"} {
		if o.groups[name] == nil {
			continue
		}
		g, err := o.past.Get(o.t.Context(), domain.DeploymentIntentGroups, o.key(name))
		require.NoError(o.t, err)
		for _, a := range g.(*domain.DeploymentIntentGroup).History.Actions {
			out.History[name] = append(out.History[name], fmt.Sprintf("%s %s %s %d", a.State, number(a.ContextID), number(a.By), a.Revision))
		}
		records, err := o.past.InstancesOf(o.t.Context(), o.key(name))
		require.NoError(o.t, err)
		for _, i := range records {
			if refusal != nil && !g.(*domain.DeploymentIntentGroup).History.Knows(i.ContextID) {
				continue // it goes when anything is asked of its owner, see service.Lifecycle.Repair
			}
			out.Records[number(i.ContextID)] = fmt.Sprintf("%s %s %s %v label %s from %s", name, i.Operation, i.Status, i.Counts, number(i.Label), number(i.From))
		}
	}
	leaf, err := o.past.Leaf(o.t.Context(), domain.LeafID(o.id(1), "app", domain.ClusterName{Provider: "p", Name: "c"}))
	if err == nil {
		out.Leaf = leaf.Marks
	}
	return out
}

// since gives a group a history of words such as "Instantiated 1".
func (o *owned) since(actions ...string) func(*domain.History) {
	return func(h *domain.History) {
		for _, action := range actions {
			var state string
			var number int
			_, err := fmt.Sscan(action, &state, &number)
			require.NoError(o.t, err)
			h.Append(domain.State(state), o.id(number), 1, begun)
		}
	}
}

// instantiated has a group with a context, labelled by the first one.
func (o *owned) instantiated(name string, number int) {
	o.t.Helper()
	o.group(name, o.since(fmt.Sprintf("Instantiated %d", number)))
	o.record(name, number, 1, domain.OpInstantiate, domain.ContextInstantiated)
}

// operations are what a workflow does one after the other.
var operations = map[string]func(o *owned) []step{
	"an instantiate and a terminate": func(o *owned) []step {
		o.group("group", nil)
		return []step{
			o.begin(domain.OpInstantiate, "group", 1, "", 0, 0), o.leaf(domain.OpInstantiate, "1A"), o.finish(domain.OpInstantiate, 1),
			o.terminate(1, domain.ContextInstantiated), o.leaf(domain.OpTerminate, "1D"), o.finish(domain.OpTerminate, 1),
		}
	},
	"an instantiate that is stopped": func(o *owned) []step {
		o.group("group", nil)
		return []step{o.begin(domain.OpInstantiate, "group", 1, "", 0, 0), o.stop(domain.OpInstantiate), o.finish(domain.OpInstantiate, 1)}
	},
	"a terminate that goes on with one that has failed, and is stopped": func(o *owned) []step {
		o.group("group", o.since("Instantiated 1", "Terminated 1"))
		o.record("group", 1, 0, domain.OpTerminate, domain.ContextTerminateFailed)
		return []step{o.terminate(1, domain.ContextTerminateFailed), o.stop(domain.OpTerminate), o.finish(domain.OpTerminate, 1)}
	},
	"a terminate of what was never recorded": func(o *owned) []step {
		o.group("group", o.since("Instantiated 1"))
		return []step{o.terminate(1, domain.ContextInstantiateFailed)}
	},
	"an update and a terminate": func(o *owned) []step {
		o.instantiated("group", 1)
		return []step{
			o.begin(domain.OpUpdate, "group", 2, "group", 1, 0), o.finish(domain.OpUpdate, 2), o.terminate(2, domain.ContextInstantiated),
		}
	},
	"an update of an update": func(o *owned) []step {
		o.instantiated("group", 1)
		return []step{
			o.begin(domain.OpUpdate, "group", 2, "group", 1, 0), o.finish(domain.OpUpdate, 2), o.begin(domain.OpUpdate, "group", 3, "group", 2, 1),
		}
	},
	"a migrate": func(o *owned) []step {
		o.group("group", nil)
		o.instantiated("source", 2)
		o.record("source", 1, 0, domain.OpInstantiate, domain.ContextUpdated)
		return []step{o.begin(domain.OpMigrate, "group", 3, "source", 2, 0), o.finish(domain.OpMigrate, 3)}
	},
	"an instantiate after a terminate that has left something": func(o *owned) []step {
		o.group("group", o.since("Instantiated 1", "Terminated 1", "TerminateStopped 1"))
		o.record("group", 1, 0, domain.OpTerminate, domain.ContextTerminateFailed)
		return []step{o.begin(domain.OpInstantiate, "group", 2, "group", 1, 0)}
	},
	"an instantiate that is refused": func(o *owned) []step {
		o.group("group", o.since("Created 0"))
		return []step{o.begin(domain.OpInstantiate, "group", 1, "", 0, 0)}
	},
	"a terminate that is refused": func(o *owned) []step {
		o.group("group", nil)
		return []step{o.terminate(0, domain.ContextNone)}
	},
	"an update that is refused": func(o *owned) []step {
		o.instantiated("group", 1)
		return []step{o.begin(domain.OpUpdate, "group", 2, "group", 1, -1)}
	},
	"a migrate that its target refuses": func(o *owned) []step {
		o.group("group", o.since("Created 0"))
		o.instantiated("source", 1)
		return []step{o.begin(domain.OpMigrate, "group", 2, "source", 1, 0)}
	},
}

// faults are what may happen to a write. Most of an operation's writes are followed by less than soon commands until an
// attempt after it is done with the same document.
func faults(soon int) map[string]mongotest.Fault {
	all := map[string]mongotest.Fault{"of which the answer is lost": {Lost: true}, "done twice": {Twice: true}, "done when all is over": {After: 1000}}
	for after := range soon {
		all[fmt.Sprintf("done before command %d after it", after+1)] = mongotest.Fault{After: after + 1}
	}
	return all
}

// suffers does an operation with each fault of each of its writes.
func (s *slow) suffers(t *testing.T, prepare func(o *owned) []step, faults map[string]mongotest.Fault) {
	t.Helper()
	run := func(t *testing.T, nth int, f mongotest.Fault) (left, []string) {
		t.Helper()
		o := s.run(t)
		steps := prepare(o)
		s.flush()
		if nth > 0 {
			s.meet(nth, f)
		}
		var err error
		for _, step := range steps {
			if err = step.do(t.Context()); err != nil {
				break
			}
		}
		writes, unmet := s.flush()
		require.False(t, unmet, "there is no such write")
		return o.left(err), writes
	}
	want, writes := run(t, 0, mongotest.Fault{})
	require.NotEmpty(t, writes)
	for i, collection := range writes {
		for what, f := range faults {
			t.Run(fmt.Sprintf("write %d, of %s, %s", i+1, collection, what), func(t *testing.T) {
				got, _ := run(t, i+1, f)
				require.Equal(t, want, got)
			})
		}
	}
}

func TestSlowStore(t *testing.T) {
	for name, prepare := range operations {
		t.Run(name, func(t *testing.T) { newSlowMemory(t).suffers(t, prepare, faults(12)) })
	}
}

// TestSlowDatabase is TestSlowStore with a real one, which takes its time.
func TestSlowDatabase(t *testing.T) {
	s := newSlowDatabase(t)
	for _, name := range []string{"an instantiate that is stopped", "an update and a terminate"} {
		t.Run(name, func(t *testing.T) { s.suffers(t, operations[name], faults(2)) })
	}
}
