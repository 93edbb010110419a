package service_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/readiness"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/view"
)

// open are the operations whose workflows are open; all others were ended by hand.
type open struct {
	ended
	operations map[domain.Operation]bool
	changed    []domain.Scope
}

func (o *open) Running(_ context.Context, s domain.Scope) (bool, error) {
	return o.operations[s.Operation], nil
}

func (o *open) Change(_ context.Context, s domain.Scope, _ domain.Seen, _ domain.Goal) (int, []string, error) {
	o.changed = append(o.changed, s)
	return 0, nil, nil
}

func (*open) Counts(context.Context, domain.Scope) (map[domain.ResourceState]int, error) {
	return nil, fail.New(fail.NotFound, "the operation is not running")
}

func (*open) Open(context.Context, domain.Scope, string) ([]domain.Leaf, error) {
	return nil, fail.New(fail.NotFound, "the operation is not running")
}

func (*open) StopWatching(context.Context, string) error { return nil }

// unheard are clusters that report nothing.
type unheard struct{ service.Heard }

func (unheard) Watches(context.Context, []domain.ClusterName) (map[domain.ClusterName]domain.Watch, error) {
	return nil, nil
}

func (unheard) Rules(context.Context) (*readiness.Rules, error) { return readiness.Compile(), nil }

func (unheard) Observations(context.Context, string, string, []domain.ClusterName) iter.Seq2[view.Report, error] {
	return func(func(view.Report, error) bool) {}
}

// owned are owners of all nouns in the middle of something: two groups (theGroup and givenTo), a logical cloud of level 1, and a cluster with
// networks.
type owned struct {
	*fixture
	*service.Lifecycle
	verbs  *service.Service
	engine *open
}

const (
	theCloud = domain.Key("projects/proj/logical-clouds/lc1")
	theEdge  = domain.Key("cluster-providers/p/clusters/edge01")
)

func newOwned(t *testing.T) *owned {
	t.Helper()
	f, e := newFixture(t), &open{operations: map[domain.Operation]bool{}}
	standard := cloud("lc1")
	standard.Spec = domain.LogicalCloudSpec{Level: domain.LevelStandard, Namespace: "ns"}
	for _, o := range []domain.Object{
		group("next"), standard,
		&domain.ClusterProvider{Metadata: domain.Metadata{Name: "p"}},
		&domain.Cluster{Identity: identity("cluster-providers/p"), Metadata: domain.Metadata{Name: "edge01"}},
		&domain.Cluster{Identity: identity("cluster-providers/p"), Metadata: domain.Metadata{Name: "edge02"}},
	} {
		require.NoError(t, f.Create(t.Context(), o), domain.KeyOf(o))
	}
	l := service.NewLifecycle(f.store, f.store.Store, unheard{}, e, time.Now)
	return &owned{fixture: f, Lifecycle: l, verbs: f.with(l), engine: e}
}

// has gives an owner a history of words such as "Instantiated 1".
func (o *owned) has(t *testing.T, key domain.Key, actions ...string) {
	t.Helper()
	owner := o.owner(t, key)
	for _, action := range actions {
		words := strings.Fields(action)
		switch {
		case len(words) == 1:
			owner.Track().Append(domain.State(words[0]), "", 0, time.Unix(1, 0))
		case len(words) == 2:
			owner.Track().Append(domain.State(words[0]), words[1], 1, time.Unix(1, 0))
		default: // Updated 1 by 2
			owner.Track().Leave(words[1], words[3], 1, time.Unix(1, 0))
		}
	}
	require.NoError(t, o.store.Store.Replace(t.Context(), owner))
}

func (o *owned) owner(t *testing.T, key domain.Key) domain.Owner {
	t.Helper()
	found, err := o.store.Get(t.Context(), domain.OwnerNoun(key), key)
	require.NoError(t, err)
	return found.(domain.Owner)
}

// record stores the record of a context with a plan for a cluster.
func (o *owned) record(t *testing.T, i domain.Instance, cluster string) {
	t.Helper()
	data, err := json.Marshal(plan.Plan{ContextID: i.ContextID, Owner: i.Owner, Apps: []plan.App{{
		Name: "app", Resources: make([]plan.ResourceID, 1),
		Targets: []plan.Target{{ClusterName: domain.ClusterName{Provider: "p", Name: cluster}}},
	}}})
	require.NoError(t, err)
	i.Plan, err = o.store.PutBlob(t.Context(), data)
	require.NoError(t, err)
	require.NoError(t, o.store.PutInstance(t.Context(), &i))
}

func (o *owned) instance(t *testing.T, contextID string) *domain.Instance {
	t.Helper()
	i, err := o.store.Instance(t.Context(), contextID)
	if fail.Is(err, fail.NotFound) {
		return nil
	}
	require.NoError(t, err)
	return i
}

func (o *owned) deleteCluster(ctx context.Context, name string) error {
	return o.verbs.Delete(ctx, domain.ClustersNoun, domain.Join("cluster-providers", "p", "clusters", name))
}

// status is what a summary says of an owner.
func (o *owned) status(t *testing.T, key domain.Key, contextID string) (state, status string) {
	t.Helper()
	query := url.Values{"status": {"deployed"}, "output": {"summary"}}
	if contextID != "" {
		query.Set("instance", contextID)
	}
	d, err := o.Status(t.Context(), key, query)
	require.NoError(t, err)
	var text strings.Builder
	require.NoError(t, d.Write(&text))
	var shown struct {
		States struct {
			Actions []struct {
				State string `json:"state"`
			} `json:"actions"`
		} `json:"states"`
		Status string `json:"deployedStatus"`
	}
	require.NoError(t, json.Unmarshal([]byte(text.String()), &shown))
	return shown.States.Actions[len(shown.States.Actions)-1].State, shown.Status
}

// TestTakeoverOfWhichTheOwnerDoesNotKnow has the record of the context that is to take over, and nothing else: it goes with whatever
// is asked next, and a cluster that only it names can be deleted.
func TestTakeoverOfWhichTheOwnerDoesNotKnow(t *testing.T) {
	for name, c := range map[string]struct {
		owner   domain.Key
		op      domain.Operation
		actions []string
	}{
		"an update":            {theGroup, domain.OpUpdate, []string{"Approved", "Instantiated 1"}},
		"a rollback":           {theGroup, domain.OpRollback, []string{"Approved", "Instantiated 1"}},
		"an update of a cloud": {theCloud, domain.OpUpdate, []string{"Instantiated 1"}},
		"an instantiate after a stopped terminate": {theGroup, domain.OpInstantiate, []string{"Approved", "Instantiated 1", "Terminated 1", "TerminateStopped 1"}},
		"an apply after a stopped terminate":       {theEdge, domain.OpInstantiate, []string{"Applied 1", "Terminated 1", "TerminateStopped 1"}},
	} {
		begin := func(t *testing.T) *owned {
			t.Helper()
			o := newOwned(t)
			o.has(t, c.owner, c.actions...)
			first := domain.Instance{ContextID: "1", Owner: c.owner, Origin: domain.OpInstantiate, Operation: domain.OpInstantiate, Status: domain.ContextInstantiated}
			if c.op == domain.OpInstantiate {
				first.Operation, first.Status = domain.OpTerminate, domain.ContextTerminateFailed
			}
			o.record(t, first, "edge01")
			o.record(t, domain.Instance{ContextID: "2", Owner: c.owner, Origin: c.op, Operation: c.op, Status: domain.ContextInstantiating, From: "1", Label: "1"}, "edge02")
			return o
		}
		t.Run(name, func(t *testing.T) {
			o := begin(t)
			revision := o.owner(t, c.owner).Base().Revision
			o.engine.operations[c.op] = true
			_, err := o.Repair(t.Context(), o.owner(t, c.owner))
			require.NoError(t, err)
			require.NotNil(t, o.instance(t, "2"), "it goes on")
			require.True(t, fail.Is(o.deleteCluster(t.Context(), "edge02"), fail.Conflict))

			o.engine.operations[c.op] = false
			_, shown := o.status(t, c.owner, "")
			require.Equal(t, string(o.instance(t, "1").Status), shown)
			require.NoError(t, o.Terminate(t.Context(), c.owner))
			require.Equal(t, []domain.Scope{{Owner: c.owner, ContextID: "1", Operation: domain.OpTerminate}}, o.engine.started)
			require.Nil(t, o.instance(t, "2"))
			require.Greater(t, o.owner(t, c.owner).Base().Revision, revision, "a last attempt at the owner's state must fail")
		})
		t.Run(name+", whose cluster is deleted", func(t *testing.T) {
			o := begin(t)
			require.NoError(t, o.deleteCluster(t.Context(), "edge02"))
			require.Nil(t, o.instance(t, "2"))
			if c.owner != theEdge { // whose own leftovers do not keep it
				require.True(t, fail.Is(o.deleteCluster(t.Context(), "edge01"), fail.Conflict))
			}
		})
	}
}

// TestTakeoverOfWhichTheContextBeforeDoesNotKnow has all writes but the last.
func TestTakeoverOfWhichTheContextBeforeDoesNotKnow(t *testing.T) {
	for name, c := range map[string]struct {
		owner   domain.Key
		actions []string
	}{
		"an update":            {theGroup, []string{"Approved", "Instantiated 1", "Updated 1 by 2", "Instantiated 2"}},
		"an update of a cloud": {theCloud, []string{"Instantiated 1", "Updated 2"}},
	} {
		begin := func(t *testing.T) *owned {
			t.Helper()
			o := newOwned(t)
			o.has(t, c.owner, c.actions...)
			o.record(t, domain.Instance{ContextID: "1", Owner: c.owner, Origin: domain.OpInstantiate, Operation: domain.OpInstantiate, Status: domain.ContextInstantiated}, "edge01")
			o.record(t, domain.Instance{ContextID: "2", Owner: c.owner, Origin: domain.OpUpdate, Operation: domain.OpUpdate, Status: domain.ContextInstantiating, From: "1", Label: "1"}, "edge02")
			return o
		}
		t.Run(name, func(t *testing.T) {
			o := begin(t)
			_, shown := o.status(t, c.owner, "")
			require.Equal(t, "InstantiateFailed", shown)
			_, _, err := o.Update(t.Context(), c.owner, service.UpdateOptions{})
			require.NoError(t, err)
			require.Len(t, o.engine.changed, 1)
			require.Equal(t, domain.ContextUpdated, o.instance(t, "1").Status)
			require.Equal(t, domain.ContextInstantiating, o.instance(t, "2").Status)
		})
		t.Run(name+", whose cluster is deleted", func(t *testing.T) {
			o := begin(t)
			require.NoError(t, o.deleteCluster(t.Context(), "edge01"))
			require.True(t, fail.Is(o.deleteCluster(t.Context(), "edge02"), fail.Conflict))
		})
	}
}

// migrated has a migrate of theGroup's context 1, labelled by 0, to givenTo's 2 as far as told.
func migrated(t *testing.T, left, received bool) *owned {
	t.Helper()
	o := newOwned(t)
	o.has(t, theGroup, "Approved", "Instantiated 0", "Updated 0 by 1", "Instantiated 1")
	o.has(t, givenTo, "Approved")
	o.record(t, domain.Instance{ContextID: "0", Owner: theGroup, Origin: domain.OpInstantiate, Operation: domain.OpInstantiate, Status: domain.ContextUpdated}, "edge01")
	o.record(t, domain.Instance{ContextID: "1", Owner: theGroup, Origin: domain.OpUpdate, Operation: domain.OpUpdate, Status: domain.ContextInstantiated, From: "0", Label: "0"}, "edge01")
	o.record(t, domain.Instance{ContextID: "2", Owner: givenTo, Origin: domain.OpMigrate, Operation: domain.OpMigrate, Status: domain.ContextInstantiating, From: "1", Label: "0"}, "edge02")
	if left {
		o.has(t, theGroup, "Updated 1 by 2")
	}
	if received {
		o.has(t, givenTo, "Instantiated 2")
	}
	return o
}

// TestMigrateOfWhichTheRecordsDoNotKnow: they are the other group's, and outlive the one that has given its instance away.
func TestMigrateOfWhichTheRecordsDoNotKnow(t *testing.T) {
	for name, ask := range map[string]func(ctx context.Context, o *owned) error{
		"deletes the one that had it": func(ctx context.Context, o *owned) error {
			return o.verbs.Delete(ctx, domain.DeploymentIntentGroups, theGroup)
		},
		"approves the one that had it":          func(ctx context.Context, o *owned) error { _, err := o.Approve(ctx, theGroup); return err },
		"terminates the other one":              func(ctx context.Context, o *owned) error { return o.Terminate(ctx, givenTo) },
		"deletes a cluster that both have left": func(ctx context.Context, o *owned) error { return o.deleteCluster(ctx, "edge01") },
	} {
		t.Run("who "+name, func(t *testing.T) {
			o := migrated(t, true, true)
			state, shown := o.status(t, theGroup, "")
			require.Equal(t, "Updated", state)
			require.Equal(t, "Updated", shown)
			require.NoError(t, ask(t.Context(), o))
			for _, id := range []string{"0", "1"} {
				i := o.instance(t, id)
				require.NotNil(t, i, id)
				require.Equal(t, givenTo, i.Owner, id)
				require.Equal(t, domain.ContextUpdated, i.Status, id)
			}
		})
	}
}

// TestWhatIsShownIsWhatWillBeWritten: an instantiate after a terminate that failed takes over what that left, or gives its label up.
// The record of the one before learns of it last.
func TestWhatIsShownIsWhatWillBeWritten(t *testing.T) {
	for label, want := range map[string]domain.ContextStatus{"1": domain.ContextUpdated, "": domain.ContextTerminated} {
		o := newOwned(t)
		o.has(t, theGroup, "Approved", "Instantiated 1", "Terminated 1", "Instantiated 2")
		o.record(t, domain.Instance{ContextID: "1", Owner: theGroup, Operation: domain.OpTerminate, Status: domain.ContextTerminateFailed}, "edge01")
		o.record(t, domain.Instance{ContextID: "2", Owner: theGroup, Origin: domain.OpInstantiate, Status: domain.ContextInstantiated, From: "1", Label: label}, "edge01")
		_, shown := o.status(t, theGroup, "1")
		require.Equal(t, string(want), shown)
		require.NoError(t, o.Terminate(t.Context(), theGroup)) // writes what follows first
		require.Equal(t, want, o.instance(t, "1").Status)
	}
}

// TestMigrateOfWhichItsTargetDoesNotKnow is repaired from the target's side too, with nothing lost.
func TestMigrateOfWhichItsTargetDoesNotKnow(t *testing.T) {
	for name, left := range map[string]bool{"before the first write": false, "after the first write": true} {
		t.Run(name, func(t *testing.T) {
			o := migrated(t, left, false)
			revision := o.owner(t, givenTo).Base().Revision
			_, err := o.Instantiate(t.Context(), givenTo)
			require.NoError(t, err)
			require.Nil(t, o.instance(t, "2"))
			require.Greater(t, o.owner(t, givenTo).Base().Revision, revision)
			require.Equal(t, domain.Instantiated, o.owner(t, theGroup).Track().State())
			require.Equal(t, domain.ContextInstantiated, o.instance(t, "1").Status)
			require.NoError(t, o.Terminate(t.Context(), theGroup))
		})
	}
}

// TestTerminateOfWhichItsContextDoesNotKnow has the state Terminated, and nothing was done: it is taken back.
func TestTerminateOfWhichItsContextDoesNotKnow(t *testing.T) {
	for name, c := range map[string]struct {
		owner    domain.Key
		before   string
		conflict fail.Kind // of a delete, which would lose what is in clusters
	}{
		"of a group":         {theGroup, "Instantiated", fail.Conflict},
		"of a cloud":         {theCloud, "Instantiated", fail.Conflict},
		"of a cluster":       {theEdge, "Applied", fail.Conflict},
		"of a stopped group": {theGroup, "InstantiateStopped", fail.Conflict},
	} {
		begin := func(t *testing.T) *owned {
			t.Helper()
			o := newOwned(t)
			o.has(t, c.owner, "Instantiated 1", c.before+" 1", "Terminated 1")
			o.record(t, domain.Instance{ContextID: "1", Owner: c.owner, Origin: domain.OpInstantiate, Operation: domain.OpInstantiate, Status: domain.ContextInstantiated}, "edge01")
			return o
		}
		t.Run(name, func(t *testing.T) {
			o := begin(t)
			state, shown := o.status(t, c.owner, "")
			require.Equal(t, c.before, state)
			require.Equal(t, "Instantiated", shown)
			x, err := service.NewExplainer(o.Lifecycle, o.engine, explain.WebUI{}).Explain(t.Context(), c.owner)
			require.NoError(t, err)
			require.Contains(t, x.May, "terminate")
			require.Equal(t, domain.Terminated, o.owner(t, c.owner).Track().State(), "who asks changes nothing")

			require.True(t, fail.Is(o.verbs.Delete(t.Context(), domain.OwnerNoun(c.owner), c.owner), c.conflict))
			require.Equal(t, domain.State(c.before), o.owner(t, c.owner).Track().State())
			require.NoError(t, o.Terminate(t.Context(), c.owner))
			require.Equal(t, []domain.Scope{{Owner: c.owner, ContextID: "1", Operation: domain.OpTerminate}}, o.engine.started)
		})
		t.Run(name+" that goes on", func(t *testing.T) {
			o := begin(t)
			o.engine.operations[domain.OpTerminate] = true
			require.True(t, fail.Is(o.Terminate(t.Context(), c.owner), fail.Conflict))
			require.True(t, fail.Is(o.verbs.Delete(t.Context(), domain.OwnerNoun(c.owner), c.owner), fail.Conflict))
			require.Equal(t, domain.Terminated, o.owner(t, c.owner).Track().State())
		})
	}
}

// TestIntentsWhileATerminateIsUnbegun: the networks are in the cluster still.
func TestIntentsWhileATerminateIsUnbegun(t *testing.T) {
	o := newOwned(t)
	o.has(t, theEdge, "Applied 1", "Terminated 1")
	o.record(t, domain.Instance{ContextID: "1", Owner: theEdge, Origin: domain.OpInstantiate, Operation: domain.OpInstantiate, Status: domain.ContextInstantiated}, "edge01")
	err := o.verbs.Create(t.Context(), &domain.Network{Identity: identity(theEdge), Metadata: domain.Metadata{Name: "net"}, Spec: domain.NetworkSpec{
		CNIType: "ovn4nfv", IPv4Subnets: []domain.Subnet{{Name: "s", Subnet: "10.1.0.0/24", Gateway: "10.1.0.1/24"}},
	}})
	require.True(t, fail.Is(err, fail.Invalid), "%v", err)
	require.ErrorContains(t, err, "must be terminated before creating")
}

// TestInstantiateGoesOnAfterItsTerminate, which was ended by hand before it had ended the instantiate.
func TestInstantiateGoesOnAfterItsTerminate(t *testing.T) {
	for name, c := range map[string]struct {
		owner domain.Key
		last  string
	}{
		"of a group":            {theGroup, "Terminated 1"},
		"of a group, stopped":   {theGroup, "TerminateStopped 1"},
		"of a cloud":            {theCloud, "Terminated 1"},
		"of a cluster":          {theEdge, "Terminated 1"},
		"of a cluster, stopped": {theEdge, "TerminateStopped 1"},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOwned(t)
			o.has(t, c.owner, "Instantiated 1", c.last)
			o.record(t, domain.Instance{ContextID: "1", Owner: c.owner, Origin: domain.OpInstantiate, Operation: domain.OpTerminate, Status: domain.ContextTerminating}, "edge01")
			o.engine.operations[domain.OpInstantiate] = true
			_, shown := o.status(t, c.owner, "")
			require.Equal(t, "Instantiating", shown)
			require.True(t, fail.Is(o.verbs.Delete(t.Context(), domain.OwnerNoun(c.owner), c.owner), fail.Conflict))
			_, err := o.Instantiate(t.Context(), c.owner)
			require.True(t, fail.Is(err, fail.Conflict), "%v", err)
			x, err := service.NewExplainer(o.Lifecycle, o.engine, explain.WebUI{}).Explain(t.Context(), c.owner)
			require.NoError(t, err)
			require.Contains(t, x.May, "terminate")
			require.NoError(t, o.Terminate(t.Context(), c.owner))
			require.Len(t, o.engine.started, 1)

			o.engine.operations[domain.OpInstantiate] = false
			_, shown = o.status(t, c.owner, "")
			require.Equal(t, "TerminateFailed", shown)
		})
	}
}

// TestEarlierInstance of a context that has taken over is shown as Updated, whatever its record says.
func TestEarlierInstance(t *testing.T) {
	o := migrated(t, true, true)
	_, shown := o.status(t, theGroup, "1")
	require.Equal(t, "Updated", shown)
}

// TestCountsOfWhatWasMigrated are the other group's, whatever has become of it.
func TestCountsOfWhatWasMigrated(t *testing.T) {
	o := migrated(t, true, true)
	for _, id := range []string{"1", "2"} {
		require.NoError(t, o.store.UpdateInstance(t.Context(), id, func(i *domain.Instance) error {
			i.Counts = map[domain.ResourceState]int{domain.ResourceApplied: 1}
			return nil
		}))
	}
	summary := func(key domain.Key, parameters url.Values) string {
		d, err := o.Status(t.Context(), key, parameters)
		require.NoError(t, err)
		var text strings.Builder
		require.NoError(t, d.Write(&text))
		return text.String()
	}
	for _, q := range []url.Values{{"status": {"deployed"}, "output": {"summary"}}, {"status": {"deployed"}}, {"type": {"rsync"}}, {"app": {"web"}}} {
		require.Contains(t, summary(theGroup, q), `"Updated"`)
		require.NotContains(t, summary(theGroup, q), "Applied", q)
	}
	for _, q := range []url.Values{{"status": {"deployed"}, "instance": {"0"}}} { // an earlier one is shown as it was
		require.Contains(t, summary(theGroup, q), `"app"`, q)
	}
}

// TestStatusOfWhatIsGoneWithItsTaker: nothing has failed of an instance that another group got, which is deleted since with all records.
func TestStatusOfWhatIsGoneWithItsTaker(t *testing.T) {
	for name, more := range map[string][]string{"as it was left": nil, "approved since": {"Approved"}} {
		t.Run(name, func(t *testing.T) {
			o := migrated(t, true, true)
			_, err := o.Repair(t.Context(), o.owner(t, theGroup)) // passes its records on
			require.NoError(t, err)
			o.has(t, theGroup, more...)
			given, err := o.store.InstancesOf(t.Context(), givenTo)
			require.NoError(t, err)
			for _, i := range given {
				require.NoError(t, o.store.DeleteInstances(t.Context(), []string{i.ContextID}))
			}
			require.Nil(t, o.instance(t, "1"))
			_, shown := o.status(t, theGroup, "")
			require.Equal(t, "Updated", shown)
			stands, err := o.ContextStatus(t.Context(), theGroup, "1")
			require.NoError(t, err)
			require.Equal(t, domain.ContextUpdated, stands)
			_, err = o.Instantiate(t.Context(), theGroup)
			require.Equal(t, more == nil, err != nil, "%v", err)
		})
	}
}

// TestRepairOnASlowStore: what puts operations right is put right itself when a write of it is done and its answer lost, or done twice.
func TestRepairOnASlowStore(t *testing.T) {
	for name, c := range map[string]struct {
		begin  func(t *testing.T) *owned
		owner  domain.Key
		states map[domain.Key]domain.State
		writes int // of owners
		gone   string
	}{
		"a migrate that is taken back": {
			func(t *testing.T) *owned { t.Helper(); return migrated(t, true, false) }, theGroup,
			map[domain.Key]domain.State{theGroup: domain.Instantiated, givenTo: domain.Approved}, 2, "2",
		},
		"a migrate that is given back": {
			func(t *testing.T) *owned { t.Helper(); return migrated(t, true, false) }, givenTo,
			map[domain.Key]domain.State{theGroup: domain.Instantiated, givenTo: domain.Approved}, 2, "2",
		},
		"a terminate that has not begun": {
			func(t *testing.T) *owned {
				t.Helper()
				o := newOwned(t)
				o.has(t, theGroup, "Instantiated 1", "Terminated 1")
				o.record(t, domain.Instance{
					ContextID: "1", Owner: theGroup, Origin: domain.OpInstantiate, Operation: domain.OpInstantiate, Status: domain.ContextInstantiated,
				}, "edge01")
				return o
			}, theGroup, map[domain.Key]domain.State{theGroup: domain.Instantiated}, 1, "",
		},
	} {
		for n := range c.writes {
			for how, fault := range map[string]func(m *meddler){
				"is lost": func(m *meddler) { m.lost = n + 1 }, "is done twice": func(m *meddler) { m.again = n + 1 },
			} {
				t.Run(fmt.Sprintf("%s, whose write %d %s", name, n+1, how), func(t *testing.T) {
					o := c.begin(t)
					fault(o.store)
					for range 2 { // a user asks again when he is told that it took too long
						if _, err := o.Repair(t.Context(), o.owner(t, c.owner)); err == nil {
							break
						} else {
							require.True(t, fail.Is(err, fail.Timeout), "%v", err)
						}
					}
					require.Negative(t, max(o.store.lost, -1)+max(o.store.again, -1), "the fault met no write")
					for key, state := range c.states {
						require.Equal(t, state, o.owner(t, key).Track().State(), key)
					}
					if c.gone == "" {
						return
					}
					_, err := o.Repair(t.Context(), o.owner(t, givenTo)) // whose record it is
					require.NoError(t, err)
					require.Nil(t, o.instance(t, c.gone))
				})
			}
		}
	}
}

// TestTerminateOfACloudInWhichAGroupHasLeftSomething is refused, though the group names another cloud by now.
func TestTerminateOfACloudInWhichAGroupHasLeftSomething(t *testing.T) {
	o := newOwned(t)
	clouds := service.New(service.Deps{Store: o.store, Instances: o.Lifecycle, Operations: o.Lifecycle, Now: time.Now})
	o.has(t, theCloud, "Instantiated 2")
	o.has(t, theGroup, "Approved", "Instantiated 1", "Terminated 1")
	o.record(t, domain.Instance{
		ContextID: "2", Owner: theCloud, LogicalCloud: theCloud, Origin: domain.OpInstantiate, Operation: domain.OpInstantiate, Status: domain.ContextInstantiated,
	}, "edge01")
	o.record(t, domain.Instance{
		ContextID: "1", Owner: theGroup, LogicalCloud: theCloud, Origin: domain.OpInstantiate, Operation: domain.OpTerminate, Status: domain.ContextTerminateFailed,
	}, "edge01")
	err := clouds.Terminate(t.Context(), theCloud)
	require.True(t, fail.Is(err, fail.Conflict), "%v", err)
	require.ErrorContains(t, err, string(theGroup)+" has something in its clusters")
	require.Empty(t, o.engine.started)

	require.NoError(t, o.store.UpdateInstance(t.Context(), "1", func(i *domain.Instance) error { i.Status = domain.ContextTerminated; return nil }))
	require.NoError(t, clouds.Terminate(t.Context(), theCloud))
	require.Equal(t, []domain.Scope{{Owner: theCloud, ContextID: "2", Operation: domain.OpTerminate}}, o.engine.started)
}
