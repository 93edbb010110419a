package service_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/service"
)

const givenTo = theComposite + "/deployment-intent-groups/next"

// ended is an engine in which a migrate runs, or has been ended by hand.
type ended struct {
	service.Engine
	running bool
	started []domain.Scope
}

func (e *ended) Running(context.Context, domain.Scope) (bool, error) { return e.running, nil }

func (e *ended) Start(_ context.Context, s domain.Scope, _ domain.Seen) ([]string, error) {
	e.started = append(e.started, s)
	return nil, nil
}

func (e *ended) Run(_ context.Context, s domain.Scope) (explain.Run, error) {
	return explain.Run{Operation: s.Operation, Status: explain.Terminated, End: "by hand"}, nil
}

func (*ended) Attempts(context.Context, domain.Scope, []explain.Place) (map[explain.Place]explain.Attempt, error) {
	return nil, nil
}

func (*ended) Waiting(context.Context, []string) *explain.Task { return nil }

func (*ended) Starting(context.Context, domain.Key, string) (*explain.Run, error) { return nil, nil }

// halfway has a migrate of dig's instance 1 that has the first of its writes: next is to have it as 2.
func halfway(t *testing.T) (*fixture, *service.Lifecycle, *ended) {
	t.Helper()
	f, e, ctx := newFixture(t), &ended{}, t.Context()
	require.NoError(t, f.Create(ctx, group("next")))
	require.NoError(t, f.reach(ctx, domain.Instantiated))
	for id, i := range map[string]domain.Instance{
		"1": {Owner: theGroup, Operation: domain.OpInstantiate, Origin: domain.OpInstantiate, Status: domain.ContextInstantiated},
		"2": {Owner: givenTo, From: "1", Operation: domain.OpMigrate, Origin: domain.OpMigrate, Status: domain.ContextInstantiating},
	} {
		i.ContextID = id
		require.NoError(t, f.store.PutInstance(ctx, &i))
	}
	source := f.group(t, theGroup)
	source.History.Leave("1", "2", 0, time.Unix(1, 0))
	require.NoError(t, f.store.Store.Replace(ctx, source))
	l := service.NewLifecycle(f.store, f.store.Store, nil, e, time.Now)
	return f, l, e
}

func (f *fixture) group(t *testing.T, key domain.Key) *domain.DeploymentIntentGroup {
	t.Helper()
	o, err := f.store.Get(t.Context(), domain.DeploymentIntentGroups, key)
	require.NoError(t, err)
	return o.(*domain.DeploymentIntentGroup)
}

func TestTerminateAfterAMigrateThatWasEndedHalfway(t *testing.T) {
	f, l, e := halfway(t)
	x, err := service.NewExplainer(l, e, explain.WebUI{}).Explain(t.Context(), theGroup)
	require.NoError(t, err)
	require.Equal(t, explain.WorkflowGone, x.Reasons[0].Kind)
	require.Contains(t, x.Reasons[0].Text, "the workflow of the migrate has ended without recording an end: it was terminated by hand")
	require.Contains(t, x.May, "terminate")
	require.Equal(t, domain.Updated, f.group(t, theGroup).History.State(), "who asks changes nothing")

	other := f.group(t, givenTo).Revision
	require.NoError(t, l.Terminate(t.Context(), theGroup))
	require.Equal(t, []domain.Scope{{Owner: theGroup, ContextID: "1", Operation: domain.OpTerminate}}, e.started)
	require.Equal(t, domain.Instantiated, f.group(t, theGroup).History.State(), "the terminate itself has not been recorded")
	require.Greater(t, f.group(t, givenTo).Revision, other, "a last attempt at the second write must fail")
	_, err = f.store.Instance(t.Context(), "2")
	require.True(t, fail.Is(err, fail.NotFound), "%v", err)
	require.NoError(t, l.Terminate(t.Context(), theGroup), "again")
}

// TestWhatWouldLoseTheInstance of a migrate that was ended halfway is refused.
func TestWhatWouldLoseTheInstance(t *testing.T) {
	f, l, _ := halfway(t)
	_, err := l.Approve(t.Context(), theGroup)
	require.True(t, fail.Is(err, fail.Conflict), "%v", err)
	require.Equal(t, domain.Instantiated, f.group(t, theGroup).History.State())

	f, l, _ = halfway(t)
	s := f.with(l)
	require.True(t, fail.Is(s.Delete(t.Context(), domain.DeploymentIntentGroups, theGroup), fail.Conflict))

	f, l, _ = halfway(t)
	changed := group("dig")
	changed.Description = "new"
	_, err = f.with(l).Put(t.Context(), changed)
	require.NoError(t, err)
	require.Equal(t, "new", f.group(t, theGroup).Description)
	require.Equal(t, domain.Instantiated, f.group(t, theGroup).History.State())
}

// TestTheGroupThatAMigrateGoesToIsNotDeleted while it goes on: with the group would go the record of the context that has the instance.
func TestTheGroupThatAMigrateGoesToIsNotDeleted(t *testing.T) {
	f, l, e := halfway(t)
	next := f.group(t, givenTo)
	next.History.Append(domain.Approved, "", 0, time.Unix(1, 0))
	require.NoError(t, f.store.Store.Replace(t.Context(), next))
	e.running = true
	err := f.with(l).Delete(t.Context(), domain.DeploymentIntentGroups, givenTo)
	require.True(t, fail.Is(err, fail.Conflict), "%v", err)
	require.ErrorContains(t, err, "migrate")
	_, err = f.store.Instance(t.Context(), "2")
	require.NoError(t, err)

	e.running = false
	require.NoError(t, f.with(l).Delete(t.Context(), domain.DeploymentIntentGroups, givenTo))
	require.Equal(t, domain.Instantiated, f.group(t, theGroup).History.State(), "its instance is back")
}

func TestAMigrateGoesOn(t *testing.T) {
	for name, begin := range map[string]func(t *testing.T, f *fixture, e *ended){
		"which runs": func(_ *testing.T, _ *fixture, e *ended) { e.running = true },
		"which has both writes": func(t *testing.T, f *fixture, _ *ended) {
			t.Helper()
			f.receive(t.Context(), t)
		},
		"the last attempt of which was faster": func(t *testing.T, f *fixture, _ *ended) {
			t.Helper()
			f.store.before = func(ctx context.Context) error { f.receive(ctx, t); return nil }
		},
		"whose group has been deleted with it": func(t *testing.T, f *fixture, _ *ended) {
			t.Helper()
			contexts, err := f.store.InstancesOf(t.Context(), givenTo)
			require.NoError(t, err)
			for _, i := range contexts {
				require.NoError(t, f.store.DeleteInstances(t.Context(), []string{i.ContextID}))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, l, e := halfway(t)
			begin(t, f, e)
			require.True(t, fail.Is(l.Terminate(t.Context(), theGroup), fail.Conflict))
			require.Empty(t, e.started)
			require.Equal(t, domain.Updated, f.group(t, theGroup).History.State())
		})
	}
}

// receive is the second write.
func (f *fixture) receive(ctx context.Context, t *testing.T) {
	t.Helper()
	next := f.group(t, givenTo)
	next.History.Append(domain.Instantiated, "2", 0, time.Unix(2, 0))
	require.NoError(t, f.store.Store.Replace(ctx, next))
}

// with are the plain verbs over a lifecycle.
func (f *fixture) with(l *service.Lifecycle) *service.Service {
	return service.New(service.Deps{Store: f.store, Instances: l, Now: time.Now})
}
