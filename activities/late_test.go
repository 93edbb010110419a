package activities_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/policy"
)

// run is the scope of one of the runs of an operation, which begin one after the other.
func (d *deployment) run(op domain.Operation, began int64) domain.Scope {
	s := d.scope(op)
	s.Began = began
	return s
}

// TestLateAttempts have been frozen until others have done their work, and more.
func TestLateAttempts(t *testing.T) {
	record := func(d *deployment, s domain.Scope) error {
		in := activities.RecordInput{Scope: s}
		if s.Operation == domain.OpInstantiate {
			in.Prepared = d.instantiate().Prepared
		}
		return d.Record(t.Context(), in)
	}
	finish := func(d *deployment, s domain.Scope) error {
		_, err := d.Finish(t.Context(), activities.FinishInput{Scope: s, Plan: d.plan})
		return err
	}
	stop := func(d *deployment, s domain.Scope) error {
		return d.RecordStop(t.Context(), activities.StopInput{Scope: s})
	}
	type step struct {
		do    func(*deployment, domain.Scope) error
		op    domain.Operation
		began int64
	}
	instantiated := []step{{record, domain.OpInstantiate, 1}, {finish, domain.OpInstantiate, 1}}
	terminated := append(instantiated[:2:2], step{record, domain.OpTerminate, 2}, step{finish, domain.OpTerminate, 2})
	stopped := append(instantiated[:2:2], step{record, domain.OpTerminate, 2}, step{stop, domain.OpTerminate, 2}, step{finish, domain.OpTerminate, 2})
	again := append(stopped[:5:5], step{record, domain.OpTerminate, 3})
	for name, c := range map[string]struct {
		before []step
		late   step
		kind   fail.Kind // of the refusal, "" for none
	}{
		"a terminate, when it has ended":               {terminated, step{record, domain.OpTerminate, 2}, ""},
		"a terminate, when it was stopped":             {stopped, step{record, domain.OpTerminate, 2}, ""},
		"a terminate, when there is another one":       {again, step{record, domain.OpTerminate, 2}, fail.Conflict},
		"an instantiate, when it is terminated":        {terminated, step{record, domain.OpInstantiate, 1}, ""},
		"the end of one that has ended":                {terminated, step{finish, domain.OpTerminate, 2}, ""},
		"the end of a terminate, when there is more":   {again, step{finish, domain.OpTerminate, 2}, ""},
		"the end of an instantiate":                    {terminated, step{finish, domain.OpInstantiate, 1}, ""},
		"the stop of an instantiate":                   {terminated, step{stop, domain.OpInstantiate, 1}, ""},
		"the stop of one that has ended":               {terminated, step{stop, domain.OpTerminate, 2}, ""},
		"the stop of a terminate, when there is more":  {again, step{stop, domain.OpTerminate, 2}, ""},
		"the stop of an instantiate that has ended so": {instantiated, step{stop, domain.OpInstantiate, 1}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(t)
			for _, cluster := range []string{"a", "b"} {
				d.leaf(t, cluster, "2A")
			}
			for _, s := range c.before {
				require.NoError(t, s.do(d, d.run(s.op, s.began)))
			}
			for _, cluster := range []string{"a", "b"} { // whoever counts again finds something else
				d.leaf(t, cluster, "2X")
			}
			states, instance := d.store.states(), d.store.instances["1"]
			err := c.late.do(d, d.run(c.late.op, c.late.began))
			if c.kind == "" {
				require.NoError(t, err)
			} else {
				require.True(t, fail.Is(err, c.kind), "%v", err)
			}
			require.Equal(t, states, d.store.states())
			require.Equal(t, instance, d.store.instances["1"])
		})
	}
}

// TestLateEndOfWhatWasUpdated does not make an earlier context the present one.
func TestLateEndOfWhatWasUpdated(t *testing.T) {
	d, in := updating(t)
	require.NoError(t, d.Record(t.Context(), in))
	_, err := d.Finish(t.Context(), activities.FinishInput{Scope: d.scope(domain.OpInstantiate), Plan: d.plan})
	require.NoError(t, err)
	require.Equal(t, domain.ContextUpdated, d.store.instances["1"].Status)
}

// meanwhile has something happen before the next write of the owner.
type meanwhile struct {
	*memory
	do func()
}

func (m *meanwhile) Replace(ctx context.Context, o domain.Object) error {
	if do := m.do; do != nil {
		m.do = nil
		do()
	}
	return m.memory.Replace(ctx, o)
}

// TestTakeOverOfTwoAttempts: the one that comes too late does not take back what the other one has recorded.
func TestTakeOverOfTwoAttempts(t *testing.T) {
	d, in := updating(t)
	d.Store = &meanwhile{memory: d.store, do: func() { require.NoError(t, d.Record(t.Context(), in)) }}
	require.NoError(t, d.Record(t.Context(), in))
	require.Equal(t, after(domain.Instantiated, domain.Updated, domain.Instantiated), d.store.states())
	require.Equal(t, domain.ContextInstantiating, d.store.instances["2"].Status)
	require.Equal(t, domain.ContextUpdated, d.store.instances["1"].Status)
}

// TestWhatNobodyWaitsForIsNotRecorded: its caller was told that it is given up. What is recorded goes on, however late.
func TestWhatNobodyWaitsForIsNotRecorded(t *testing.T) {
	record := func(d *deployment, in activities.RecordInput) error {
		env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
		env.RegisterActivity(d.Record)
		_, err := env.ExecuteActivity(d.Record, in)
		return err
	}
	for name, begin := range map[string]func(*testing.T) (*deployment, activities.RecordInput){
		"an instantiate": func(t *testing.T) (*deployment, activities.RecordInput) {
			d := newDeployment(t)
			return d, d.instantiate()
		},
		"an update": updating,
		"a terminate": func(t *testing.T) (*deployment, activities.RecordInput) {
			d, _ := updating(t)
			return d, activities.RecordInput{Scope: d.scope(domain.OpTerminate)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, in := begin(t)
			states, instances := d.store.states(), len(d.store.instances)
			in.Began = time.Now().Add(-2 * policy.Accept).UnixNano()
			require.ErrorContains(t, record(d, in), "nobody waits for it any more")
			require.Equal(t, states, d.store.states())
			require.Len(t, d.store.instances, instances)
		})
		t.Run(name+" of which its workflow knows it", func(t *testing.T) {
			d, in := begin(t)
			states, instances := d.store.states(), len(d.store.instances)
			require.ErrorContains(t, d.RecordLate(t.Context(), in), "nobody waits for it any more")
			require.Equal(t, states, d.store.states())
			require.Len(t, d.store.instances, instances)

			d, in = begin(t)
			in.Began = time.Now().UnixNano()
			require.NoError(t, d.Record(t.Context(), in))
			recorded := d.store.states()
			require.NoError(t, d.RecordLate(t.Context(), in))
			require.Equal(t, recorded, d.store.states())
		})
		t.Run(name+" in time", func(t *testing.T) {
			d, in := begin(t)
			states := d.store.states()
			in.Began = time.Now().Add(-policy.Accept / 2).UnixNano()
			require.NoError(t, record(d, in))
			require.NotEqual(t, states, d.store.states())
		})
		t.Run(name+" that an attempt has recorded that died", func(t *testing.T) {
			d, in := begin(t)
			in.Began = time.Now().Add(-2 * policy.Accept).UnixNano()
			require.NoError(t, d.Record(t.Context(), in))
			recorded := d.store.states()
			require.NoError(t, record(d, in))
			require.Equal(t, recorded, d.store.states())
		})
	}
}

// TestATerminateAgainThatNobodyWaitsForIsRefused: the history says already that the context is terminated, by the one before, which has failed.
func TestATerminateAgainThatNobodyWaitsForIsRefused(t *testing.T) {
	d := newDeployment(t)
	d.leaf(t, "a", "2A")
	finish := func(op domain.Operation, began int64) {
		_, err := d.Finish(t.Context(), activities.FinishInput{Scope: d.run(op, began), Plan: d.plan})
		require.NoError(t, err)
	}
	in := d.instantiate()
	in.Began = 1
	require.NoError(t, d.Record(t.Context(), in))
	finish(domain.OpInstantiate, 1)
	require.NoError(t, d.Record(t.Context(), activities.RecordInput{Scope: d.run(domain.OpTerminate, 2)}))
	finish(domain.OpTerminate, 2)
	require.Equal(t, domain.ContextTerminateFailed, d.store.instances["1"].Status)
	before := d.store.instances["1"]
	in = activities.RecordInput{Scope: d.run(domain.OpTerminate, 3)}
	require.ErrorContains(t, d.RecordLate(t.Context(), in), "nobody waits for it any more: the terminate of ")
	require.Equal(t, before, d.store.instances["1"])

	require.NoError(t, d.Record(t.Context(), in))
	require.NoError(t, d.RecordLate(t.Context(), in), "it is recorded")
	require.Equal(t, domain.ContextTerminating, d.store.instances["1"].Status)
}

// TestAMigrateThatNobodyWaitsForIsGivenBack: an attempt had the source leave its instance, and not the target get it.
func TestAMigrateThatNobodyWaitsForIsGivenBack(t *testing.T) {
	d, s, in := migrating(t)
	source, target := slices.Clone(s.source.History.Actions), d.store.states()
	in.Began = time.Now().Add(-2 * policy.Accept).UnixNano()
	s.left = func() error {
		s.left = nil
		return fail.New(fail.Unavailable, "store is gone")
	}
	require.ErrorContains(t, d.Record(t.Context(), in), "store is gone")
	require.Equal(t, domain.Updated, s.source.History.State())
	require.Contains(t, s.instances, "2")

	for _, refusal := range []string{"nobody waits for it any more", "was changed meanwhile"} { // the second one finds the source written
		env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
		env.RegisterActivity(d.Record)
		_, err := env.ExecuteActivity(d.Record, in)
		require.ErrorContains(t, err, refusal)
		require.Equal(t, source, s.source.History.Actions)
		require.Equal(t, target, d.store.states())
		require.NotContains(t, s.instances, "2")
		require.Equal(t, domain.ContextInstantiated, s.instances["1"].Status)
		require.Equal(t, domain.KeyOf(&s.source), s.instances["1"].Owner)
	}
}

// TestFrozenWhileItRecords: who has lost the lease records nothing.
func TestFrozenWhileItRecords(t *testing.T) {
	x := lease.New(lease.Now, lease.Now(), time.Hour)
	defer x.Close()
	x.Lose()
	ctx := lease.With(t.Context(), x)
	d, in := updating(t)
	d.leaf(t, "a", "2A")
	states, instance := d.store.states(), d.store.instances["1"]
	for name, do := range map[string]func() error{
		"an update":   func() error { return d.Record(ctx, in) },
		"a terminate": func() error { return d.Record(ctx, activities.RecordInput{Scope: d.scope(domain.OpTerminate)}) },
		"an end": func() error {
			_, err := d.Finish(ctx, activities.FinishInput{Scope: d.scope(domain.OpInstantiate), Plan: d.plan})
			return err
		},
		"a stop":       func() error { return d.RecordStop(ctx, activities.StopInput{Scope: d.scope(domain.OpInstantiate)}) },
		"a leaf's end": func() error { return d.RecordLeaf(ctx, domain.Leaf{ContextID: "1", App: "app", Marks: "2X"}) },
	} {
		require.ErrorIs(t, do(), lease.ErrLost, name)
	}
	require.Equal(t, states, d.store.states())
	require.Equal(t, instance, d.store.instances["1"])
	require.Len(t, d.store.leaves, 1)
}

// TestTurns are in the order in which the work on a leaf goes on.
func TestTurns(t *testing.T) {
	leaf := func(began int64, prune bool, step int) activities.LeafInput {
		return activities.LeafInput{Scope: domain.Scope{Began: began}, Prune: prune, Step: step}
	}
	turns := []domain.Turn{
		leaf(1, false, 0).Turn(activities.ByTask, 1),
		leaf(1, false, 0).Turn(activities.ByAttempt, 1),
		leaf(1, false, 0).Turn(activities.ByAttempt, 1_000_000),
		leaf(1, false, 0).Turn(activities.ByWorkflow, 0),
		leaf(1, false, 1).Turn(activities.ByAttempt, 1),
		leaf(1, false, 1).Turn(activities.ByWorkflow, 0),
		leaf(1, false, 10_000).Turn(activities.ByAttempt, 1),
		leaf(1, true, 0).Turn(activities.ByTask, 1),
		leaf(1, true, 0).Turn(activities.ByWorkflow, 0),
		leaf(2, false, 0).Turn(activities.ByTask, 1),
	}
	for i, x := range turns {
		for j, y := range turns {
			require.Equal(t, i < j, x.Before(y), "%d before %d", i, j)
		}
	}
}
