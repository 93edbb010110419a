package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/workflows"
)

const contextID = "2621114006130701074"

var begun = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// clusters stand for the activities on clusters. What a cluster does is decided by its name; "" applies
// and deletes all.
type clusters struct {
	store *memory

	mu    sync.Mutex
	acts  map[string]func(ctx context.Context, in activities.LeafInput) (*domain.Leaf, error)
	asked map[string]int
	// activities counts what was asked by way of Temporal, not in the workflow's own task.
	activities map[string]int
	halted     []string                                                  // workflow ids
	onHalt     func()                                                    // nil for nothing
	attempts   map[string]chan struct{}                                  // by cluster: those that HaltApp ends
	ready      func(ctx context.Context, in activities.ReadyInput) error // nil: at once
	order      []string                                                  // apps, as they were first asked for
	inputs     []activities.LeafInput
	gathered   int // calls of Gather
	swept      []activities.RemnantsInput
	remnants   func(look int) (*activities.RemnantsResult, error) // nil: there are none
}

func (c *clusters) AwaitReady(ctx context.Context, in activities.ReadyInput) error {
	c.mu.Lock()
	c.order = append(c.order, in.App+" is ready?")
	ready := c.ready
	c.mu.Unlock()
	if ready != nil {
		return ready(ctx, in)
	}
	return nil
}

func (c *clusters) Halt(ctx context.Context) (*domain.Leaf, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.halted = append(c.halted, activity.GetInfo(ctx).WorkflowExecution.ID)
	if c.onHalt != nil {
		c.onHalt()
	}
	return nil, nil
}

func (c *clusters) Gather(context.Context, time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gathered++
	return nil
}

func (c *clusters) HaltApp(context.Context, activities.HaltInput) (halted []domain.ClusterName, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, attempt := range c.attempts {
		close(attempt)
		halted = append(halted, domain.ClusterName{Provider: "p", Name: name})
	}
	return halted, nil
}

func (c *clusters) RemoveRemnants(_ context.Context, in activities.RemnantsInput) (*activities.RemnantsResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.swept = append(c.swept, in)
	if c.remnants != nil {
		return c.remnants(len(c.swept))
	}
	return &activities.RemnantsResult{}, nil
}

func (c *clusters) ApplyToCluster(ctx context.Context, in activities.LeafInput) (*domain.Leaf, error) {
	return c.work(ctx, in, domain.MarkApplied)
}

func (c *clusters) DeleteFromCluster(ctx context.Context, in activities.LeafInput) (*domain.Leaf, error) {
	return c.work(ctx, in, domain.MarkDeleted)
}

func (c *clusters) work(ctx context.Context, in activities.LeafInput, m domain.Mark) (*domain.Leaf, error) {
	c.mu.Lock()
	c.asked[in.Cluster.Name]++
	c.inputs = append(c.inputs, in)
	if !slices.Contains(c.order, in.App) {
		c.order = append(c.order, in.App)
	}
	if !activity.GetInfo(ctx).IsLocalActivity {
		c.activities[in.Cluster.Name]++
	}
	act := c.acts[in.Cluster.Name]
	c.mu.Unlock()
	if act != nil {
		return act(ctx, in)
	}
	return c.end(ctx, in, domain.NewMarks(in.Resources, m))
}

// end records a leaf as the real activity does.
func (c *clusters) end(ctx context.Context, in activities.LeafInput, marks domain.Marks) (*domain.Leaf, error) {
	leaf := domain.Leaf{
		ID: in.LeafID(), ContextID: in.ContextID, Operation: in.Operation, App: in.App, Cluster: in.Cluster,
		Connectivity: domain.ConnectivityAvailable, Marks: marks.Encode(),
	}
	return &leaf, c.store.PutLeaf(ctx, leaf)
}

// dead does not answer: it tells the workflow once, and is tried again.
func dead(marks string) func(context.Context, activities.LeafInput) (*domain.Leaf, error) {
	return func(ctx context.Context, _ activities.LeafInput) (*domain.Leaf, error) {
		err := fail.New(fail.Unavailable, "connection refused")
		if activity.GetInfo(ctx).Attempt == 1 {
			activity.RecordHeartbeat(ctx, activities.Contact{Connectivity: domain.ConnectivityRetrying, Marks: marks, Error: err.Message})
		}
		return nil, workflows.ToTemporal(err, activity.GetInfo(ctx).Attempt)
	}
}

// refuses has refused the last resource.
func (c *clusters) refuses(ctx context.Context, in activities.LeafInput) (*domain.Leaf, error) {
	marks := domain.NewMarks(in.Resources, domain.MarkApplied)
	marks[in.Resources-1] = domain.MarkRefused
	return c.end(ctx, in, marks)
}

// kinds turns the errors of activities into Temporal's, as the product's worker does.
type kinds struct {
	interceptor.WorkerInterceptorBase
	interceptor.ActivityInboundInterceptorBase
}

func (*kinds) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &kinds{ActivityInboundInterceptorBase: interceptor.ActivityInboundInterceptorBase{Next: next}}
}

func (k *kinds) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	out, err := k.Next.ExecuteActivity(ctx, in)
	return out, workflows.ToTemporal(err, activity.GetInfo(ctx).Attempt)
}

// runs stands for the engine.
type runs struct {
	ended   activities.RunEnd
	onClose func() // nil for nothing
}

func (r *runs) Close(context.Context, domain.Scope) (activities.RunEnd, error) {
	if r.onClose != nil {
		r.onClose()
	}
	return r.ended, nil
}

func (*runs) Running(context.Context, domain.Scope) (bool, error) { return false, nil }

// shards stand for the workflows that watch.
type shards struct {
	activities.Shards

	mu        sync.Mutex
	watched   map[string][]domain.ClusterName // by context
	narrowed  []domain.ClusterName            // to which a context was
	unwatched []string
}

func (s *shards) Watch(_ context.Context, _ int, w activities.Watching) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watched[w.ContextID] = append(s.watched[w.ContextID], w.Clusters...)
	if w.Only {
		s.narrowed = append(s.narrowed, w.Clusters...)
	}
	return nil
}

func (s *shards) Unwatch(_ context.Context, _ int, contextID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unwatched = append(s.unwatched, contextID)
	return nil
}

// plans are what it takes of a store to begin and end watches.
type plans struct {
	activities.Observations
	memory *memory
}

func (p plans) Blob(ctx context.Context, digest domain.Digest) ([]byte, error) {
	return p.memory.Blob(ctx, digest)
}

// world is an operation's surroundings.
type world struct {
	*testsuite.TestWorkflowEnvironment
	t        *testing.T
	store    *memory
	clusters *clusters
	shards   *shards
	runs     runs
	scope    domain.Scope
	prepared *activities.Prepared // what Prepare returns, or
	refusal  error                // fails with
	asked    bool                 // somebody waits for it to be accepted
	nobody   bool                 // nobody does
	prepare  *testsuite.MockCallWrapper
}

// newWorld has an approved group whose apps go to the clusters, two resources each.
func newWorld(t *testing.T, op domain.Operation, apps int, names ...string) *world {
	t.Helper()
	return newWorldOf(t, op, func(*plan.Plan) {}, apps, names...)
}

// newEnvironment has times that a loaded machine cannot miss.
func newEnvironment() *testsuite.TestWorkflowEnvironment {
	var s testsuite.WorkflowTestSuite
	s.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := s.NewTestWorkflowEnvironment()
	env.SetTestTimeout(2 * time.Minute)
	env.SetWorkerOptions(worker.Options{
		DeadlockDetectionTimeout: time.Minute, Interceptors: []interceptor.WorkerInterceptor{&kinds{}},
	})
	return env
}

// newWorldOf is newWorld with a change of the plan.
func newWorldOf(t *testing.T, op domain.Operation, change func(*plan.Plan), apps int, names ...string) *world {
	t.Helper()
	w := &world{TestWorkflowEnvironment: newEnvironment(), t: t, store: newMemory(), shards: &shards{watched: map[string][]domain.ClusterName{}}}
	w.clusters = &clusters{store: w.store, asked: map[string]int{}, activities: map[string]int{}, acts: map[string]func(context.Context, activities.LeafInput) (*domain.Leaf, error){}}
	w.store.group = domain.DeploymentIntentGroup{
		Identity: domain.Identity{Parent: "projects/p/composite-apps/ca/v1", Revision: 3},
		Metadata: domain.Metadata{Name: "group"}, History: domain.NewHistory(begun),
	}
	w.store.group.History.Append(domain.Approved, "", 0, begun)
	w.scope = domain.Scope{Owner: domain.KeyOf(&w.store.group), ContextID: contextID, Operation: op}
	w.runs.ended = activities.RunInOrder

	p := &plan.Plan{ContextID: contextID, Owner: w.scope.Owner, Namespace: "default"}
	for i := range apps {
		a := plan.App{Name: fmt.Sprintf("app%d", i), Resources: make([]plan.ResourceID, 2)}
		for _, name := range names {
			a.Targets = append(a.Targets, plan.Target{ClusterName: domain.ClusterName{Provider: "p", Name: name}})
		}
		p.Apps = append(p.Apps, a)
	}
	change(p)
	prepared := w.store.planned(t, p)
	if op == domain.OpTerminate {
		w.store.group.History.Append(domain.Instantiated, contextID, 1, begun)
		w.store.instances[contextID] = domain.Instance{
			ContextID: contextID, Owner: w.scope.Owner, Operation: domain.OpInstantiate, Status: domain.ContextInstantiated, Plan: prepared.Plan,
		}
	}
	workflows.Register(w)
	w.RegisterActivity(w.clusters)
	w.register(prepared)
	w.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: workflows.OperationID(w.scope), TaskQueue: workflows.LifecycleQueue})
	w.SetOnActivityHeartbeatListener(func(info *activity.Info, details converter.EncodedValues) {
		var c activities.Contact
		if details.HasValues() && details.Get(&c) == nil && c.Marks != "" {
			_ = w.SignalWorkflowByID(info.WorkflowExecution.ID, workflows.ContactSignal, c)
		}
	})
	return w
}

// register has the real activities but for Prepare, which wants charts.
func (w *world) register(prepared activities.Prepared) {
	l := &activities.Control{Store: w.store, Runs: &w.runs, Now: func() time.Time { return begun }}
	w.RegisterActivity(l)
	w.RegisterActivity(&activities.Watch{Store: plans{memory: w.store}, Shards: w.shards})
	w.prepared = &prepared
	w.prepare = w.OnActivity(l.Prepare, mock.Anything, mock.Anything).Maybe().Return(
		func(context.Context, domain.Scope) (*activities.Prepared, error) {
			return w.prepared, workflows.ToTemporal(w.refusal, 1)
		})
}

// run runs the operation to its end.
func (w *world) run() (*activities.Outcome, error) {
	w.t.Helper()
	if !w.asked && !w.nobody {
		w.update(workflows.AcceptUpdate, 0)
	}
	w.ExecuteWorkflow(workflows.OperationName(w.scope.Operation), workflows.OperationInput{Scope: w.scope})
	require.True(w.t, w.IsWorkflowCompleted(), "it has not ended")
	if err := w.GetWorkflowError(); err != nil {
		return nil, err
	}
	var out activities.Outcome
	require.NoError(w.t, w.GetWorkflowResult(&out))
	return &out, nil
}

// leaf is the record of app0 on a cluster.
func (w *world) leaf(cluster string) domain.Leaf {
	w.t.Helper()
	leaf, err := w.store.Leaf(w.t.Context(), domain.LeafID(contextID, "app0", domain.ClusterName{Provider: "p", Name: cluster}))
	require.NoError(w.t, err)
	return *leaf
}

func (w *world) status() domain.ContextStatus { return w.store.instances[contextID].Status }

// midway is when a dead cluster is known as such, and everything else is done: while activities run, the environment's
// time is that of the machine. It gives up after 10 attempts, nearly a minute, which Temporal does not.
const midway = 45 * time.Second

// at does something in the middle of the run, and fails the test when the run has ended before.
func (w *world) at(d time.Duration, f func()) {
	done := false
	w.RegisterDelayedCallback(func() { done = true; f() }, d)
	w.t.Cleanup(func() { require.True(w.t, done, "the operation ended before %s", d) })
}

// answer takes the end of an update.
type answer struct {
	accepted, done bool
	err            error
}

func (a *answer) callbacks() *testsuite.TestUpdateCallback {
	return &testsuite.TestUpdateCallback{
		OnAccept:   func() { a.accepted = true },
		OnReject:   func(err error) { a.done, a.err = true, err },
		OnComplete: func(_ any, err error) { a.done, a.err = true, err },
	}
}

func (w *world) update(name string, after time.Duration) *answer {
	a := &answer{}
	w.asked = w.asked || name == workflows.AcceptUpdate
	w.at(after, func() { w.UpdateWorkflow(name, name, a.callbacks()) })
	return a
}

// kindOf is the kind of a refusal that crossed Temporal.
func kindOf(t *testing.T, err error) fail.Kind {
	t.Helper()
	e, ok := workflows.FromTemporal(err)
	require.True(t, ok, "%v is no failure of ours", err)
	return e.Kind
}

var instantiated = []domain.State{domain.Created, domain.Approved, domain.Instantiated}

func TestInstantiateSucceeds(t *testing.T) {
	w := newWorld(t, domain.OpInstantiate, 2, "a", "b", "c")
	accepted := w.update(workflows.AcceptUpdate, 0)
	out, err := w.run()
	require.NoError(t, err)
	require.Equal(t, domain.ContextInstantiated, out.Status)
	require.Equal(t, map[domain.ResourceState]int{domain.ResourceApplied: 12}, out.Counts)
	require.True(t, accepted.done)
	require.NoError(t, accepted.err)
	require.Equal(t, instantiated, w.store.states())
	require.Equal(t, contextID, w.store.group.History.StatusContextID)
	in := w.store.instances[contextID]
	require.Equal(t, domain.ContextInstantiated, in.Status)
	require.Equal(t, out.Counts, in.Counts)
	require.Equal(t, begun, in.Ended)
	require.Len(t, w.store.leaves, 6)
	require.ElementsMatch(t, []domain.ClusterName{{Provider: "p", Name: "a"}, {Provider: "p", Name: "b"}, {Provider: "p", Name: "c"}},
		w.shards.watched[contextID], "each is watched once, whatever the number of apps")
	require.Empty(t, w.shards.unwatched)
}

func TestInstantiateWithARefusal(t *testing.T) {
	w := newWorld(t, domain.OpInstantiate, 1, "a", "b")
	w.clusters.acts["b"] = w.clusters.refuses
	out, err := w.run()
	require.NoError(t, err)
	require.Equal(t, domain.ContextInstantiateFailed, out.Status)
	require.Equal(t, map[domain.ResourceState]int{domain.ResourceApplied: 3, domain.ResourceFailed: 1}, out.Counts)
	require.Equal(t, instantiated, w.store.states())
}

func TestPrepareRefuses(t *testing.T) {
	w := newWorld(t, domain.OpInstantiate, 1, "a")
	w.refusal = fail.New(fail.Invalid, "chart of app %q is broken", "app0")
	accepted := w.update(workflows.AcceptUpdate, 0)
	out, err := w.run()
	require.NoError(t, err, "nothing has failed")
	require.Equal(t, &activities.Outcome{Refused: `chart of app "app0" is broken`}, out)
	require.True(t, accepted.done)
	require.Equal(t, fail.Invalid, kindOf(t, accepted.err))
	e, _ := workflows.FromTemporal(accepted.err)
	require.Equal(t, `chart of app "app0" is broken`, e.Message)
	require.Equal(t, []domain.State{domain.Created, domain.Approved}, w.store.states())
	require.Empty(t, w.store.instances)
	require.Empty(t, w.clusters.asked)
}

// TestNobodyWaits is of operations that the engine takes up after whoever asked for them was told that they failed.
func TestNobodyWaits(t *testing.T) {
	for name, c := range map[string]struct {
		op   domain.Operation
		late bool // somebody has waited
	}{
		"for an instantiate": {op: domain.OpInstantiate}, "for a terminate": {op: domain.OpTerminate},
		"any more": {domain.OpInstantiate, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.op, 1, "a")
			before := w.store.states()
			if w.nobody = !c.late; c.late {
				w.prepare.After(policy.Accept + time.Second)
			}
			revision := w.store.group.Revision
			out, err := w.run()
			require.NoError(t, err)
			require.Equal(t, "nobody waits for it any more: the "+string(c.op)+" of "+domain.NameOwner(w.scope.Owner)+" was asked for long ago", out.Refused)
			require.Equal(t, before, w.store.states())
			require.Greater(t, w.store.group.Revision, revision, "what a worker that died has sent comes to nothing")
			require.Empty(t, w.clusters.asked)
		})
	}
}

// TestWhatIsRecordedIsNotRefused, though nobody waits for it any more: a worker has recorded it in the workflow's own task, and died.
func TestWhatIsRecordedIsNotRefused(t *testing.T) {
	for name, c := range map[string]struct {
		op   domain.Operation
		late bool // somebody has waited
		want domain.ContextStatus
	}{
		"an instantiate":                    {op: domain.OpInstantiate, want: domain.ContextInstantiated},
		"a terminate":                       {op: domain.OpTerminate, want: domain.ContextTerminated},
		"an instantiate that was asked for": {domain.OpInstantiate, true, domain.ContextInstantiated},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.op, 1, "a")
			if w.nobody = !c.late; c.late {
				w.prepare.After(policy.Accept + time.Second)
			}
			began := w.Now()
			w.at(policy.Accept/2, func() {
				in := activities.RecordInput{Scope: w.scope}
				if in.Began = began.UnixNano(); c.op == domain.OpInstantiate {
					in.Prepared = w.prepared
				}
				l := &activities.Control{Store: w.store, Runs: &w.runs, Now: func() time.Time { return begun }}
				require.NoError(t, l.Record(t.Context(), in))
			})
			out, err := w.run()
			require.NoError(t, err)
			require.Empty(t, out.Refused)
			require.Equal(t, c.want, out.Status)
			require.Equal(t, 1, w.clusters.asked["a"])
			require.Equal(t, c.want, w.status())
		})
	}
}

func TestOwnerChangedWhilePreparing(t *testing.T) {
	w := newWorld(t, domain.OpInstantiate, 1, "a")
	w.store.group.Revision++
	accepted := w.update(workflows.AcceptUpdate, 0)
	out, err := w.run()
	require.NoError(t, err)
	require.NotEmpty(t, out.Refused)
	require.Equal(t, fail.Conflict, kindOf(t, accepted.err))
	require.Equal(t, []domain.State{domain.Created, domain.Approved}, w.store.states())
}

// TestWatchesWait: an operation that nothing holds up has its clusters to itself at first, and one that lasts is watched meanwhile.
func TestWatchesWait(t *testing.T) {
	silent := func(ctx context.Context, _ activities.LeafInput) (*domain.Leaf, error) {
		return nil, workflows.ToTemporal(fail.New(fail.Unavailable, "no word of it"), activity.GetInfo(ctx).Attempt)
	}
	for name, c := range map[string]struct {
		act    func(context.Context, activities.LeafInput) (*domain.Leaf, error)
		events []string // of hooks
		soon   bool
	}{
		"nothing is known to hold it up": {act: silent},
		"a cluster does not answer":      {act: dead("2p"), soon: true},
		"a hook may take any time":       {act: silent, events: []string{"pre-install"}, soon: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldOf(t, domain.OpInstantiate, func(p *plan.Plan) { p.Apps[0].Events = c.events }, 1, "a")
			w.clusters.acts["a"] = c.act
			watched := func() bool {
				w.shards.mu.Lock()
				defer w.shards.mu.Unlock()
				return len(w.shards.watched[contextID]) > 0
			}
			w.at(6*time.Second, func() { require.Equal(t, c.soon, watched()) })
			w.at(20*time.Second, func() { require.True(t, watched(), "it lasts") })
			w.update(workflows.StopUpdate, midway)
			_, err := w.run()
			require.NoError(t, err)
			require.Len(t, w.shards.watched[contextID], 1, "once")
		})
	}
}

// TestStop stops while one cluster does not answer and another has all.
func TestStop(t *testing.T) {
	for name, stop := range map[string]func(w *world) *answer{
		"by update": func(w *world) *answer { return w.update(workflows.StopUpdate, midway) },
		"by signal": func(w *world) *answer {
			w.at(midway, func() { w.SignalWorkflow(workflows.StopSignal, nil) })
			return nil
		},
		"twice": func(w *world) *answer {
			w.at(midway, func() { w.SignalWorkflow(workflows.StopSignal, nil) })
			return w.update(workflows.StopUpdate, midway)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, domain.OpInstantiate, 1, "a", "dead")
			w.clusters.acts["dead"] = dead("1s1p")
			stopped := stop(w)
			out, err := w.run()
			require.NoError(t, err)
			require.Equal(t, domain.ContextInstantiateFailed, out.Status)
			require.Equal(t, map[domain.ResourceState]int{
				domain.ResourceApplied: 2, domain.ResourceFailed: 1, domain.ResourcePending: 1,
			}, out.Counts, "what was applied stays")
			require.Equal(t, append(instantiated[:3:3], domain.InstantiateStopped), w.store.states())
			require.Equal(t, "2A", w.leaf("a").Marks)
			require.Equal(t, "1s1p", w.leaf("dead").Marks, "as its activity said last")
			require.Equal(t, domain.ConnectivityRetrying, w.leaf("dead").Connectivity)
			require.Equal(t, "connection refused", w.leaf("dead").LastError)
			require.Zero(t, w.clusters.activities["a"], "the cluster answers at once")
			require.Positive(t, w.clusters.activities["dead"])
			if stopped != nil {
				require.True(t, stopped.done)
				require.NoError(t, stopped.err)
			}
		})
	}
}

func TestCancel(t *testing.T) {
	w := newWorld(t, domain.OpInstantiate, 1, "a", "dead")
	w.clusters.acts["dead"] = dead("2p")
	w.at(midway, w.CancelWorkflow)
	_, err := w.run()
	require.True(t, temporal.IsCanceledError(err), "%v", err)
	require.Equal(t, append(instantiated[:3:3], domain.InstantiateStopped), w.store.states())
	require.Equal(t, domain.ContextInstantiateFailed, w.status())
	require.Equal(t, "2A", w.leaf("a").Marks)
}

func TestStopBeforeAcceptance(t *testing.T) {
	w := newWorld(t, domain.OpInstantiate, 1, "a")
	accepted, stopped := w.update(workflows.AcceptUpdate, 0), w.update(workflows.StopUpdate, 0)
	_, err := w.run()
	require.Error(t, err)
	require.True(t, accepted.done)
	require.Error(t, accepted.err)
	require.True(t, stopped.done)
	require.NoError(t, stopped.err)
	require.Equal(t, []domain.State{domain.Created, domain.Approved}, w.store.states(), "nothing is recorded")
	require.Empty(t, w.store.instances)
	require.Empty(t, w.clusters.asked)
}

// TestSilentLeaf stops a leaf whose activity never said a word: it may have sent all.
func TestSilentLeaf(t *testing.T) {
	for name, c := range map[string]struct {
		op     domain.Operation
		events []string // of hooks
		want   string
	}{
		"applying":                {op: domain.OpInstantiate, want: "2s"},
		"deleting":                {op: domain.OpTerminate, want: "2r"},
		"deleting, with hooks":    {op: domain.OpTerminate, events: []string{"pre-delete"}, want: "2s"}, // or a hook that never ran counts as one that was deleted
		"deleting, without their": {op: domain.OpTerminate, events: []string{"pre-install"}, want: "2r"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldOf(t, c.op, func(p *plan.Plan) { p.Apps[0].Events = c.events }, 1, "silent")
			w.clusters.acts["silent"] = func(ctx context.Context, _ activities.LeafInput) (*domain.Leaf, error) {
				return nil, workflows.ToTemporal(fail.New(fail.Unavailable, "worker lost"), activity.GetInfo(ctx).Attempt)
			}
			w.update(workflows.StopUpdate, midway)
			out, err := w.run()
			require.NoError(t, err)
			require.Equal(t, map[domain.ResourceState]int{domain.ResourceFailed: 2}, out.Counts)
			require.Equal(t, c.want, w.leaf("silent").Marks)
		})
	}
}

// TestLeafThatGivesUp fails for good after its cluster was heard of: what it did meanwhile is not known.
func TestLeafThatGivesUp(t *testing.T) {
	w := newWorld(t, domain.OpInstantiate, 1, "broken")
	w.clusters.acts["broken"] = func(ctx context.Context, in activities.LeafInput) (*domain.Leaf, error) {
		if activity.GetInfo(ctx).Attempt < 3 {
			return dead("1A1p")(ctx, in)
		}
		return nil, workflows.ToTemporal(fail.New(fail.Invalid, "kubeconfig is broken"), 3)
	}
	out, err := w.run()
	require.NoError(t, err)
	require.Equal(t, domain.ContextInstantiateFailed, out.Status)
	require.Equal(t, "1A1s", w.leaf("broken").Marks)
	require.Equal(t, "kubeconfig is broken", w.leaf("broken").LastError)
}

// TestLeafThatIsEndedByHand fails the whole run, so that a terminate does not believe that nothing was sent.
func TestLeafThatIsEndedByHand(t *testing.T) {
	w := newWorld(t, domain.OpInstantiate, 1, "a", "b")
	w.OnWorkflow(workflows.ApplyToClusterName, mock.Anything, mock.Anything).Return(
		func(ctx workflow.Context, in activities.LeafInput) (*workflows.ClusterProgress, error) {
			if in.Cluster.Name == "a" {
				return nil, errors.New("ended by hand")
			}
			return workflows.WorkCluster(ctx, in)
		})
	_, err := w.run()
	require.ErrorContains(t, err, "the work on 1 clusters did not come to its own end")
	require.Equal(t, domain.ContextInstantiateFailed, w.status())
	require.Equal(t, "2A", w.leaf("b").Marks)
	record := w.store.instances[contextID]
	require.False(t, record.Sound(domain.OpInstantiate))
}

func TestTerminate(t *testing.T) {
	w := newWorld(t, domain.OpTerminate, 2, "a", "b")
	accepted := w.update(workflows.AcceptUpdate, 0)
	out, err := w.run()
	require.NoError(t, err)
	require.NoError(t, accepted.err)
	require.Equal(t, domain.ContextTerminated, out.Status)
	require.Equal(t, map[domain.ResourceState]int{domain.ResourceDeleted: 8}, out.Counts)
	require.Equal(t, append(instantiated[:3:3], domain.Terminated), w.store.states())
	require.Equal(t, domain.OpTerminate, w.store.instances[contextID].Operation)
	for _, in := range w.clusters.inputs {
		require.Equal(t, w.store.instances[contextID].Plan, in.Plan, "it says what other apps keep")
	}
}

func TestTerminateIsStopped(t *testing.T) {
	w := newWorld(t, domain.OpTerminate, 1, "a", "dead")
	w.clusters.acts["dead"] = dead("2d")
	w.update(workflows.StopUpdate, midway)
	out, err := w.run()
	require.NoError(t, err)
	require.Equal(t, domain.ContextTerminateFailed, out.Status)
	require.Equal(t, map[domain.ResourceState]int{domain.ResourceDeleted: 2, domain.ResourceApplied: 2}, out.Counts)
	require.Equal(t, domain.TerminateStopped, w.store.group.History.State())
}

// TestTerminateIsStoppedBeforeItBegins has the stop come while it ends what may still go on. Nothing was sent then, and its records are
// as sound as any.
func TestTerminateIsStoppedBeforeItBegins(t *testing.T) {
	w := newWorld(t, domain.OpTerminate, 2, "a")
	w.runs.onClose = func() { w.SignalWorkflow(workflows.StopSignal, nil) }
	out, err := w.run()
	require.NoError(t, err)
	require.Equal(t, domain.ContextTerminateFailed, out.Status)
	require.Equal(t, domain.TerminateStopped, w.store.group.History.State())
	require.Empty(t, w.clusters.asked)
	record := w.store.instances[contextID]
	require.True(t, record.Sound(domain.OpTerminate))
	require.Equal(t, "not started: the operation was stopped before", record.NotStarted["app1"])
}

func TestTerminateTwice(t *testing.T) {
	w := newWorld(t, domain.OpTerminate, 1, "a")
	w.store.group.History.Append(domain.Terminated, "another", 0, begun)
	out, err := w.run()
	require.NoError(t, err)
	require.NotEmpty(t, out.Refused)
	require.Empty(t, w.clusters.asked)
}

// TestDeadClustersDoNotStarve has more dead clusters than may be at work at a time, all before a live one.
func TestDeadClustersDoNotStarve(t *testing.T) {
	var names []string
	for i := range 40 {
		names = append(names, fmt.Sprintf("dead%02d", i))
	}
	w := newWorld(t, domain.OpInstantiate, 1, append(names, "live")...)
	for _, name := range names {
		w.clusters.acts[name] = dead("2p")
	}
	w.at(midway, func() {
		require.Equal(t, "2A", w.leaf("live").Marks)
		root := ask[workflows.OperationProgress](w, workflows.OperationID(w.scope))
		require.Equal(t, domain.ContextInstantiating, root.Status)
		require.Equal(t, []workflows.AppProgress{{
			App: "app0", Clusters: 41, Done: 1, Retrying: 40,
			Counts: workflows.Counts{domain.ResourceApplied: 2, domain.ResourceRetrying: 80},
		}}, root.Apps)
		app := ask[workflows.AppDetail](w, workflows.AppID(w.scope, "app0", 0, 0))
		require.Len(t, app.Open, 40)
		require.Equal(t, domain.ConnectivityRetrying, app.Open[0].Connectivity)
		leaf := ask[workflows.ClusterProgress](w, workflows.LeafID(w.scope, "app0", domain.ClusterName{Provider: "p", Name: "dead00"}))
		require.Equal(t, app.Open[0], leaf)
		require.Equal(t, "connection refused", leaf.Error)
	})
	w.update(workflows.StopUpdate, midway+time.Second)
	_, err := w.run()
	require.NoError(t, err)
}

// ask queries a run of the operation.
func ask[T any](w *world, id string) T {
	w.t.Helper()
	value, err := w.QueryWorkflowByID(id, workflows.ProgressQuery)
	require.NoError(w.t, err)
	var out T
	require.NoError(w.t, value.Get(&out))
	return out
}

func TestManyClustersAreSplit(t *testing.T) {
	var names []string
	for i := range 501 {
		names = append(names, fmt.Sprintf("c%03d", i))
	}
	w := newWorld(t, domain.OpInstantiate, 1, names...)
	w.clusters.acts["c500"] = dead("2p")
	w.at(midway, func() {
		app := ask[workflows.AppDetail](w, workflows.AppID(w.scope, "app0", 0, 0))
		require.Equal(t, []string{
			workflows.AppID(w.scope, "app0", 0, 250), workflows.AppID(w.scope, "app0", 250, 500), workflows.AppID(w.scope, "app0", 500, 501),
		}, app.Batches)
		require.Empty(t, app.Open)
		require.Len(t, ask[workflows.AppDetail](w, app.Batches[2]).Open, 1)
		root := ask[workflows.OperationProgress](w, workflows.OperationID(w.scope))
		require.Equal(t, 500, root.Apps[0].Done)
		require.Equal(t, 1, root.Apps[0].Retrying)
	})
	w.update(workflows.StopUpdate, midway+time.Second)
	out, err := w.run()
	require.NoError(t, err)
	require.Equal(t, 1000, out.Counts[domain.ResourceApplied])
	for i := range 500 {
		again := w.clusters.activities[names[i]] // after a try at once that a busy machine takes for too late
		require.LessOrEqual(t, again, 1, names[i])
		require.Equal(t, 1, w.clusters.asked[names[i]]-again, names[i])
	}
}

// TestStopWhileAnActivityHangs ends although the activity on a cluster does not.
func TestStopWhileAnActivityHangs(t *testing.T) {
	w := newWorld(t, domain.OpInstantiate, 1, "a", "hangs")
	release, others := make(chan struct{}), make(chan struct{})
	w.SetOnChildWorkflowCompletedListener(func(i *workflow.Info, _ converter.EncodedValue, _ error) {
		if i.WorkflowExecution.ID == workflows.LeafID(w.scope, "app0", domain.ClusterName{Provider: "p", Name: "a"}) {
			close(others)
		}
	})
	w.clusters.acts["hangs"] = func(ctx context.Context, _ activities.LeafInput) (*domain.Leaf, error) {
		if activity.GetInfo(ctx).IsLocalActivity {
			return nil, fail.New(fail.Unavailable, "not done at once")
		}
		<-others
		w.SignalWorkflow(workflows.StopSignal, nil)
		<-release
		return nil, context.Canceled
	}
	w.clusters.onHalt = func() { close(release) }
	out, err := w.run()
	require.NoError(t, err)
	require.Equal(t, domain.ContextInstantiateFailed, out.Status)
	require.Equal(t, "2A", w.leaf("a").Marks)
	require.Equal(t, "2s", w.leaf("hangs").Marks)
	hangs := workflows.LeafID(w.scope, "app0", w.leaf("hangs").Cluster)
	// The environment ends a cancelled activity at once, and so the leaf, maybe while it has its attempt halted.
	require.Eventually(t, func() bool {
		w.clusters.mu.Lock()
		defer w.clusters.mu.Unlock()
		return slices.Equal([]string{hangs}, w.clusters.halted)
	}, time.Minute, time.Millisecond)
}

// TestSmallOperationsHaveFewActivities: what is quick is done in the tasks of the workflows, but for planning, which must be in the history before
// anything is recorded.
func TestSmallOperationsHaveFewActivities(t *testing.T) {
	for op, want := range map[domain.Operation][]string{domain.OpInstantiate: {"Prepare"}, domain.OpTerminate: nil} {
		t.Run(string(op), func(t *testing.T) {
			w := newWorld(t, op, 1, "a")
			var scheduled []string
			w.SetOnActivityStartedListener(func(i *activity.Info, _ context.Context, _ converter.EncodedValues) {
				scheduled = append(scheduled, i.ActivityType.Name)
			})
			_, err := w.run()
			require.NoError(t, err)
			require.Equal(t, want, scheduled)
		})
	}
}

// TestByHand: who completes a leaf's activity in Temporal, or signals the leaf, says nothing of what is in the cluster.
func TestByHand(t *testing.T) {
	w := newWorld(t, domain.OpInstantiate, 1, "completed", "signalled")
	w.clusters.acts["completed"] = func(context.Context, activities.LeafInput) (*domain.Leaf, error) { return &domain.Leaf{}, nil }
	w.clusters.acts["signalled"] = func(ctx context.Context, _ activities.LeafInput) (*domain.Leaf, error) {
		if activity.GetInfo(ctx).IsLocalActivity {
			return nil, fail.New(fail.Unavailable, "not done at once")
		}
		_ = w.SignalWorkflowByID(activity.GetInfo(ctx).WorkflowExecution.ID, workflows.ContactSignal, activities.Contact{})
		return nil, workflows.ToTemporal(fail.New(fail.Invalid, "no such bundle"), 1)
	}
	out, err := w.run()
	require.NoError(t, err)
	require.Equal(t, domain.ContextInstantiateFailed, out.Status)
	require.Equal(t, "2s", w.leaf("completed").Marks, "it may all be there")
	require.Contains(t, w.leaf("completed").LastError, "completed by hand")
	require.Equal(t, "2s", w.leaf("signalled").Marks)
}

// TestLeafWhoseErrorNobodyClassified: neither its text, nor what Temporal says around it, is for users.
func TestLeafWhoseErrorNobodyClassified(t *testing.T) {
	w := newWorld(t, domain.OpInstantiate, 1, "defect", "panics")
	w.clusters.acts["defect"] = func(context.Context, activities.LeafInput) (*domain.Leaf, error) { return nil, errors.New("hidden") }
	w.clusters.acts["panics"] = func(context.Context, activities.LeafInput) (*domain.Leaf, error) { panic("hidden") }
	out, err := w.run()
	require.NoError(t, err)
	require.Equal(t, domain.ContextInstantiateFailed, out.Status)
	require.Equal(t, "internal error; the worker's log has it", w.leaf("defect").LastError)
	require.Equal(t, "internal error; the worker's log has it", w.leaf("panics").LastError)
}

// TestStopOfAttemptsOfTheSameWorker ends the leaves whose attempts it has halted without cancelling them.
func TestStopOfAttemptsOfTheSameWorker(t *testing.T) {
	w := newWorld(t, domain.OpInstantiate, 1, "a", "hangs")
	attempt := make(chan struct{})
	w.clusters.attempts = map[string]chan struct{}{"hangs": attempt}
	w.clusters.acts["hangs"] = func(ctx context.Context, in activities.LeafInput) (*domain.Leaf, error) {
		if activity.GetInfo(ctx).IsLocalActivity {
			return nil, fail.New(fail.Unavailable, "not done at once")
		}
		w.SignalWorkflow(workflows.StopSignal, nil)
		<-attempt
		leaf := domain.Leaf{
			ID: in.LeafID(), ContextID: in.ContextID, Operation: in.Operation, App: in.App, Cluster: in.Cluster,
			Connectivity: domain.ConnectivityAvailable, Marks: "1A1s",
		}
		return &leaf, w.store.PutLeaf(ctx, leaf)
	}
	out, err := w.run()
	require.NoError(t, err)
	require.Equal(t, domain.ContextInstantiateFailed, out.Status)
	require.Equal(t, "1A1s", w.leaf("hangs").Marks)
	require.Empty(t, w.clusters.halted, "nothing was cancelled")
}
