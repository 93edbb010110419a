package activities_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
)

var begun = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// deployment is an approved group, and the plan of one app with two resources on clusters a and b.
type deployment struct {
	*activities.Control
	store *memory
	plan  domain.Digest
}

func newDeployment(t *testing.T) *deployment {
	t.Helper()
	d := &deployment{store: newMemory()}
	d.Control = &activities.Control{Store: d.store, Now: func() time.Time { return begun }}
	d.store.group = domain.DeploymentIntentGroup{
		Identity: domain.Identity{Parent: "projects/p/composite-apps/ca/v1", Revision: 3},
		Metadata: domain.Metadata{Name: "group"}, History: domain.NewHistory(begun),
	}
	d.store.group.History.Append(domain.Approved, "", 0, begun)
	a := plan.App{Name: "app", Resources: make([]plan.ResourceID, 2)}
	for _, name := range []string{"a", "b"} {
		a.Targets = append(a.Targets, plan.Target{ClusterName: domain.ClusterName{Provider: "p", Name: name}})
	}
	d.plan = d.store.put(t, plan.Plan{ContextID: "1", Owner: domain.KeyOf(&d.store.group), Namespace: "default", Apps: []plan.App{a}})
	return d
}

func (d *deployment) scope(op domain.Operation) domain.Scope {
	return domain.Scope{Owner: domain.KeyOf(&d.store.group), ContextID: "1", Operation: op}
}

func (d *deployment) instantiate() activities.RecordInput {
	return activities.RecordInput{
		Scope:    d.scope(domain.OpInstantiate),
		Prepared: &activities.Prepared{Plan: d.plan, Namespace: "default", OwnerRevision: 3},
	}
}

func (d *deployment) leaf(t *testing.T, cluster, marks string) {
	t.Helper()
	require.NoError(t, d.RecordLeaf(t.Context(), domain.Leaf{
		ContextID: "1", App: "app", Cluster: domain.ClusterName{Provider: "p", Name: cluster}, Marks: marks,
	}))
}

// TestALeafThatItsWorkflowRecords keeps what the step before has recorded of it.
func TestALeafThatItsWorkflowRecords(t *testing.T) {
	d := newDeployment(t)
	step := domain.Leaf{
		ContextID: "1", Operation: domain.OpInstantiate, App: "app", Cluster: domain.ClusterName{Provider: "p", Name: "a"}, Marks: "1F1p",
		Notes: []domain.Note{{Message: "refused"}}, Warnings: []domain.Note{{Index: 1, Message: "dropped"}}, Report: "no agent",
		Turn: domain.Turn{Began: 5, Rank: 1},
	}
	step.ID = domain.LeafID(step.ContextID, step.App, step.Cluster)
	require.NoError(t, d.store.PutLeaf(t.Context(), step))
	given := step
	given.Marks, given.LastError, given.Turn.Rank = "1F1s", "its worker died", 2
	want := given
	given.Notes, given.Warnings, given.Report = nil, nil, ""
	require.NoError(t, d.RecordLeaf(t.Context(), given))
	got, err := d.store.Leaf(t.Context(), step.ID)
	require.NoError(t, err)
	require.Equal(t, &want, got)
}

var approved = []domain.State{domain.Created, domain.Approved}

// after are the states after Created and Approved.
func after(more ...domain.State) []domain.State { return append(approved[:2:2], more...) }

func TestRecordTwice(t *testing.T) {
	d := newDeployment(t)
	for range 2 {
		require.NoError(t, d.Record(t.Context(), d.instantiate()))
		require.Equal(t, after(domain.Instantiated), d.store.states())
		require.Equal(t, domain.ContextInstantiating, d.store.instances["1"].Status)
	}
	in := activities.RecordInput{Scope: d.scope(domain.OpTerminate)}
	for range 2 {
		require.NoError(t, d.Record(t.Context(), in))
		require.Equal(t, after(domain.Instantiated, domain.Terminated), d.store.states())
		require.Equal(t, domain.ContextTerminating, d.store.instances["1"].Status)
		require.Equal(t, domain.OpTerminate, d.store.instances["1"].Operation)
	}
}

// brokenOnce loses the first write of an instance's record.
type brokenOnce struct {
	*memory
	broken bool
}

func (b *brokenOnce) PutInstance(ctx context.Context, in *domain.Instance) error {
	if !b.broken {
		b.broken = true
		return fail.New(fail.Unavailable, "store is gone")
	}
	return b.memory.PutInstance(ctx, in)
}

func TestRecordAfterACrashInItsMiddle(t *testing.T) {
	d := newDeployment(t)
	d.Store = &brokenOnce{memory: d.store}
	require.True(t, fail.Is(d.Record(t.Context(), d.instantiate()), fail.Unavailable))
	require.Equal(t, after(domain.Instantiated), d.store.states())
	require.Empty(t, d.store.instances)
	require.NoError(t, d.Record(t.Context(), d.instantiate()))
	require.Equal(t, after(domain.Instantiated), d.store.states())
	require.Equal(t, d.plan, d.store.instances["1"].Plan)
}

// closed are operations that are over.
type closed struct{}

func (closed) Close(context.Context, domain.Scope) (activities.RunEnd, error) {
	return activities.RunInOrder, nil
}

func (closed) Running(context.Context, domain.Scope) (bool, error) { return false, nil }

// TestTerminateOfWhatWasNeverRecorded is one of a context of which the group knows and nobody else: its instantiate was
// ended by hand between its two writes.
func TestTerminateOfWhatWasNeverRecorded(t *testing.T) {
	d := newDeployment(t)
	d.Runs = closed{}
	d.store.group.History.Append(domain.Instantiated, "1", 1, begun)
	in := activities.RecordInput{Scope: d.scope(domain.OpTerminate), Seen: domain.Seen{Status: domain.ContextInstantiateFailed}}
	for range 2 {
		require.NoError(t, d.Record(t.Context(), in))
		require.Equal(t, after(domain.Instantiated, domain.Terminated), d.store.states())
		require.Equal(t, domain.ContextTerminating, d.store.instances["1"].Status)
	}
	prepared, err := d.Supersede(t.Context(), in.Scope)
	require.NoError(t, err)
	require.Empty(t, prepared.Apps)
	out, err := d.Finish(t.Context(), activities.FinishInput{Scope: in.Scope, Plan: prepared.Plan})
	require.NoError(t, err)
	require.Equal(t, domain.ContextTerminated, out.Status)
	require.Equal(t, domain.ContextTerminated, d.store.instances["1"].Status)
}

// TestTerminateBetweenTheWritesOfAnInstantiate waits for the second one: an instantiate that goes on is to find its own record.
func TestTerminateBetweenTheWritesOfAnInstantiate(t *testing.T) {
	d := newDeployment(t)
	d.Runs, d.Store = &running{}, &brokenOnce{memory: d.store}
	require.True(t, fail.Is(d.Record(t.Context(), d.instantiate()), fail.Unavailable))
	in := activities.RecordInput{Scope: d.scope(domain.OpTerminate), Seen: domain.Seen{Status: domain.ContextInstantiating}}
	require.Equal(t, fail.Unavailable, fail.KindOf(d.Record(t.Context(), in)))
	require.Empty(t, d.store.instances)
	require.NoError(t, d.Record(t.Context(), d.instantiate()))
	require.NoError(t, d.Record(t.Context(), in))
	require.Equal(t, d.plan, d.store.instances["1"].Plan)
	require.Equal(t, domain.ContextTerminating, d.store.instances["1"].Status)
}

// ended is what the engine says of an operation when that is over.
type ended struct {
	activities.Runs
	as activities.RunEnd
}

func (e ended) Close(context.Context, domain.Scope) (activities.RunEnd, error) { return e.as, nil }

// TestWhatTheEngineHasForgotten: the record of a context says how its operation ended when its workflow is not known any more, and
// then alone. One that has lost sight of some of its work may have sent more than is recorded, and so may one of which v0.1.0 has recorded
// the end, which said nothing of that: its workflow failed.
func TestWhatTheEngineHasForgotten(t *testing.T) {
	for name, c := range map[string]struct {
		as          activities.RunEnd
		lost, sound bool
		status      domain.ContextStatus
		want        bool
	}{
		"forgotten":                            {activities.RunUnknown, false, true, domain.ContextInstantiateFailed, true},
		"forgotten, and it had lost something": {activities.RunUnknown, true, false, domain.ContextInstantiateFailed, false},
		"forgotten, it had lost something, and all is applied": {
			activities.RunUnknown, true, false, domain.ContextInstantiated, false,
		},
		"forgotten, of v0.1.0":                 {activities.RunUnknown, false, false, domain.ContextInstantiateFailed, false},
		"forgotten, of v0.1.0, all is applied": {activities.RunUnknown, false, false, domain.ContextInstantiated, true},
		"broken":                               {activities.RunBroken, false, true, domain.ContextInstantiateFailed, false},
		"broken, of v0.1.0":                    {activities.RunBroken, false, false, domain.ContextInstantiateFailed, false},
		"broken, of v0.1.0, all is applied":    {activities.RunBroken, false, false, domain.ContextInstantiated, false},
		"in order, of v0.1.0":                  {activities.RunInOrder, false, false, domain.ContextInstantiateFailed, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // what may be on its way is waited for
				d := newDeployment(t)
				d.Runs = ended{as: c.as}
				require.NoError(t, d.Record(t.Context(), d.instantiate()))
				scope := d.scope(domain.OpInstantiate)
				_, err := d.Finish(t.Context(), activities.FinishInput{Scope: scope, Plan: d.plan, Stopped: true, Lost: c.lost, Sound: c.sound})
				require.NoError(t, err)
				record := d.store.instances["1"]
				record.Runs[0].Status = c.status
				in := activities.RecordInput{Scope: d.scope(domain.OpTerminate)}
				require.NoError(t, d.Record(t.Context(), in))
				began := time.Now()
				prepared, err := d.Supersede(t.Context(), in.Scope)
				require.NoError(t, err)
				require.Equal(t, !c.want, prepared.Incomplete)
				require.Equal(t, c.want, time.Now().Equal(began))
			})
		})
	}
}

func TestRecordRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(d *deployment, in *activities.RecordInput)
	}{
		"a group that was changed after it was planned": {func(d *deployment, _ *activities.RecordInput) { d.store.group.Revision++ }},
		"a group that is not approved": {func(d *deployment, _ *activities.RecordInput) {
			d.store.group.History = domain.NewHistory(begun)
		}},
		"a group that another instantiate has": {func(d *deployment, _ *activities.RecordInput) {
			d.store.group.History.Append(domain.Instantiated, "2", 1, begun)
		}},
		"a termination of what is not instantiated": {func(_ *deployment, in *activities.RecordInput) {
			in.Operation, in.Prepared = domain.OpTerminate, nil
		}},
		"a termination of an earlier context": {func(d *deployment, in *activities.RecordInput) {
			d.store.group.History.Append(domain.Instantiated, "2", 1, begun)
			in.Operation, in.Prepared = domain.OpTerminate, nil
		}},
		"an instantiate while the last context is terminating": {func(d *deployment, in *activities.RecordInput) {
			d.store.group.History.Append(domain.Instantiated, "0", 1, begun)
			d.store.group.History.Append(domain.Terminated, "0", 0, begun)
			d.store.instances["0"] = domain.Instance{ContextID: "0", Status: domain.ContextTerminating}
			in.Status = domain.ContextTerminating
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(t)
			in := d.instantiate()
			c.change(d, &in)
			before := d.store.states()
			err := d.Record(t.Context(), in)
			require.True(t, fail.Is(err, fail.Conflict), "%v", err)
			require.Equal(t, before, d.store.states())
			require.NotContains(t, d.store.instances, "1")
		})
	}
}

// TestRecordTrustsTheRecord: what the API saw is out of date when the record says that the context has ended.
func TestRecordTrustsTheRecord(t *testing.T) {
	d := newDeployment(t)
	d.store.group.History.Append(domain.Instantiated, "0", 1, begun)
	d.store.group.History.Append(domain.Terminated, "0", 0, begun)
	d.store.instances["0"] = domain.Instance{ContextID: "0", Status: domain.ContextTerminated}
	in := d.instantiate()
	in.Status = domain.ContextTerminating
	require.NoError(t, d.Record(t.Context(), in))
}

func TestRecordStop(t *testing.T) {
	for name, c := range map[string]struct {
		op       domain.Operation
		states   []domain.State
		appended domain.State
	}{
		"an instantiate": {domain.OpInstantiate, []domain.State{domain.Instantiated}, domain.InstantiateStopped},
		"a terminate":    {domain.OpTerminate, []domain.State{domain.Instantiated, domain.Terminated}, domain.TerminateStopped},
		"an instantiate that is stopped": {
			op: domain.OpInstantiate, states: []domain.State{domain.Instantiated, domain.InstantiateStopped},
		},
		"an instantiate that a terminate cancels": {
			op: domain.OpInstantiate, states: []domain.State{domain.Instantiated, domain.Terminated},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(t)
			for _, s := range c.states {
				d.store.group.History.Append(s, "1", 0, begun)
			}
			want := after(c.states...)
			if c.appended != "" {
				want = append(want, c.appended)
			}
			for range 2 {
				require.NoError(t, d.RecordStop(t.Context(), activities.StopInput{Scope: d.scope(c.op), By: "alice"}))
				require.Equal(t, want, d.store.states())
			}
			if c.appended != "" {
				require.Equal(t, "alice", d.store.group.History.Last().RequestedBy)
			}
		})
	}
}

func TestFinish(t *testing.T) {
	for name, c := range map[string]struct {
		op      domain.Operation
		a, b    string // marks of the leaves; "" when there is no record
		stopped bool
		want    domain.ContextStatus
		counts  map[domain.ResourceState]int
	}{
		"all applied": {
			op: domain.OpInstantiate, a: "2A", b: "2A", want: domain.ContextInstantiated,
			counts: map[domain.ResourceState]int{"Applied": 4},
		},
		"one refused": {
			op: domain.OpInstantiate, a: "2A", b: "1A1F", want: domain.ContextInstantiateFailed,
			counts: map[domain.ResourceState]int{"Applied": 3, "Failed": 1},
		},
		"a leaf without a record": {
			op: domain.OpInstantiate, a: "2A", want: domain.ContextInstantiateFailed,
			counts: map[domain.ResourceState]int{"Applied": 2, "Pending": 2},
		},
		"all applied, and stopped": {
			op: domain.OpInstantiate, a: "2A", b: "2A", stopped: true, want: domain.ContextInstantiateFailed,
			counts: map[domain.ResourceState]int{"Applied": 4},
		},
		"all deleted": {
			op: domain.OpTerminate, a: "2D", b: "2D", want: domain.ContextTerminated,
			counts: map[domain.ResourceState]int{"Deleted": 4},
		},
		"one kept": {
			op: domain.OpTerminate, a: "1K1D", b: "2D", want: domain.ContextTerminated,
			counts: map[domain.ResourceState]int{"Applied": 1, "Deleted": 3},
		},
		"one not come to": {
			op: domain.OpTerminate, a: "2D", b: "1d1D", want: domain.ContextTerminateFailed,
			counts: map[domain.ResourceState]int{"Applied": 1, "Deleted": 3},
		},
		"one not deleted": {
			op: domain.OpTerminate, a: "2D", b: "1X1r", want: domain.ContextTerminateFailed,
			counts: map[domain.ResourceState]int{"Failed": 2, "Deleted": 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(t)
			d.store.instances["1"] = domain.Instance{ContextID: "1", Operation: c.op}
			d.leaf(t, "a", c.a)
			if c.b != "" {
				d.leaf(t, "b", c.b)
			}
			for range 2 {
				out, err := d.Finish(t.Context(), activities.FinishInput{Scope: d.scope(c.op), Plan: d.plan, Stopped: c.stopped})
				require.NoError(t, err)
				require.Equal(t, c.want, out.Status)
				require.Equal(t, c.counts, out.Counts)
				require.Equal(t, c.want, d.store.instances["1"].Status)
				require.Equal(t, c.counts, d.store.instances["1"].Counts)
				require.Equal(t, begun, d.store.instances["1"].Ended)
			}
		})
	}
}

// marksAlone fails a test that reads more of the leaves of a context than their marks.
type marksAlone struct {
	*memory
	t *testing.T
}

func (m marksAlone) EachLeaf(context.Context, string, func(domain.Leaf) error) error {
	m.t.Error("the texts of leaves are read")
	return nil
}

func (m marksAlone) Leaf(context.Context, string) (*domain.Leaf, error) {
	m.t.Error("a leaf's texts are read")
	return &domain.Leaf{}, nil
}

// TestFinishReadsMarksAlone: what clusters say of the leaves of a large operation may take more memory than a worker has.
func TestFinishReadsMarksAlone(t *testing.T) {
	d := newDeployment(t)
	d.store.instances["1"] = domain.Instance{ContextID: "1", Operation: domain.OpInstantiate}
	d.leaf(t, "a", "2A")
	d.leaf(t, "b", "2A")
	d.Store = marksAlone{d.store, t}
	out, err := d.Finish(t.Context(), activities.FinishInput{Scope: d.scope(domain.OpInstantiate), Plan: d.plan})
	require.NoError(t, err)
	require.Equal(t, domain.ContextInstantiated, out.Status)
}

func TestFinishAfterATerminateTookOver(t *testing.T) {
	d := newDeployment(t)
	taken := domain.Instance{ContextID: "1", Operation: domain.OpTerminate, Status: domain.ContextTerminating}
	d.store.instances["1"] = taken
	_, err := d.Finish(t.Context(), activities.FinishInput{Scope: d.scope(domain.OpInstantiate), Plan: d.plan})
	require.NoError(t, err)
	require.Equal(t, taken, d.store.instances["1"])
}

func TestTargets(t *testing.T) {
	d := newDeployment(t)
	b := domain.ClusterName{Provider: "p", Name: "b"}
	d.store.unreachable = map[domain.ClusterName]bool{b: true}
	out, err := d.Targets(t.Context(), activities.TargetsInput{Plan: d.plan, App: "app", From: 1, To: 2})
	require.NoError(t, err)
	require.Equal(t, &activities.Targets{Clusters: []domain.ClusterName{b}, Suspect: []int{0}}, out)
	for _, in := range []activities.TargetsInput{{Plan: d.plan, App: "app", To: 3}, {Plan: d.plan, App: "other", To: 1}} {
		_, err = d.Targets(t.Context(), in)
		require.True(t, fail.Is(err, fail.Invalid), "%v", err)
	}
}
