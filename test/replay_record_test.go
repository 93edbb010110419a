package test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	temporalclient "go.temporal.io/sdk/client"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/workflows"
)

// recordVariable names the folder that TestRecordReplay writes to, recordedVariable the program of build/bin that is recorded, "" for drover.
const (
	recordVariable   = "DROVER_RECORD_REPLAY"
	recordedVariable = "DROVER_RECORD_PROGRAM"
)

// TestRecordReplay writes the histories of whole operations, for the replay test of package workflows.
// Record from the code that is deployed, never from a change to it: new code replayed against its own
// histories always passes.
func TestRecordReplay(t *testing.T) {
	folder := os.Getenv(recordVariable)
	if folder == "" {
		t.Skip(recordVariable + " is not set")
	}
	s, clusters := harness.NewStackOn(t, harness.Servers{Program: os.Getenv(recordedVariable)}), twoClusters(t)
	r := &recorder{temporal: s.TemporalClient(), folder: folder, cluster: clusters[1].Name}

	t.Run("plain", func(t *testing.T) {
		ctx := within(t)
		d := s.Deployment(ctx, clusters, twoApps(t)...)
		do(ctx, t, d, "approve", "instantiate")
		got := s.Await(ctx, d, "Instantiated")
		do(ctx, t, d, "terminate")
		s.Await(ctx, d, "Terminated")
		r.record(ctx, t, d, got.States.ContextID(), "instantiate", "plain")
		r.record(ctx, t, d, got.States.ContextID(), "terminate", "plain")
		r.recordRemnants(ctx, t, d, got.States.ContextID())
	})
	// begin instantiates with the second cluster down, and waits until that is seen.
	begin := func(ctx context.Context, t *testing.T) (*client.Deployment, string) {
		d := s.Deployment(ctx, clusters, twoApps(t)...)
		clusters[1].Down()
		do(ctx, t, d, "approve", "instantiate")
		got := waitFor(ctx, t, d, func(g *status.Document) bool {
			return g.Deployed["Applied"] == 5 && retrying(g) == 5
		})
		return d, got.States.ContextID()
	}
	t.Run("cluster down, then up", func(t *testing.T) {
		ctx := within(t)
		d, id := begin(ctx, t)
		clusters[1].Up(t)
		s.Await(ctx, d, "Instantiated")
		do(ctx, t, d, "terminate")
		s.Await(ctx, d, "Terminated")
		r.record(ctx, t, d, id, "instantiate", "cluster-down-then-up")
	})
	t.Run("stopped while a cluster is down", func(t *testing.T) {
		ctx := within(t)
		d, id := begin(ctx, t)
		do(ctx, t, d, "stop")
		s.Await(ctx, d, "InstantiateFailed")
		clusters[1].Up(t)
		do(ctx, t, d, "terminate")
		s.Await(ctx, d, "Terminated")
		r.record(ctx, t, d, id, "instantiate", "stopped-while-cluster-down")
		r.record(ctx, t, d, id, "terminate", "after-stop")
	})
	t.Run("terminated while a cluster is down", func(t *testing.T) {
		ctx := within(t)
		d, id := begin(ctx, t)
		do(ctx, t, d, "terminate")
		waitFor(ctx, t, d, func(g *status.Document) bool {
			return retrying(g) > 0 && g.Deployed["Deleted"] >= 5
		})
		clusters[1].Up(t)
		s.Await(ctx, d, "Terminated")
		r.record(ctx, t, d, id, "instantiate", "terminated-while-cluster-down")
		r.record(ctx, t, d, id, "terminate", "cluster-down-then-up")
	})
	t.Run("update, rollback and migrate", func(t *testing.T) { r.recordChanges(within(t), t, s) })
	t.Run("sweep", func(t *testing.T) {
		ctx := within(t)
		id := sweep(ctx, t, r.temporal)
		require.NoError(t, r.temporal.GetWorkflow(ctx, id, "").Get(ctx, nil))
		r.write(t, r.history(ctx, t, id), "scheduled")
	})
	t.Run("hooks", func(t *testing.T) { r.recordHooks(within(t), t, s, clusters) })
	t.Run("an app that waits for another", func(t *testing.T) {
		ctx := within(t)
		d := s.Deployment(ctx, clusters, client.App{Name: "front", Chart: harness.Chart(t, "front", harness.ConfigMaps("front", 1))},
			client.App{Name: "db", Chart: harness.Chart(t, "db", harness.Web("db"))})
		require.NoError(t, depend(ctx, d, "front", "db", "Ready", 1))
		do(ctx, t, d, "approve", "instantiate")
		got := s.Await(ctx, d, "Instantiated")
		do(ctx, t, d, "terminate")
		s.Await(ctx, d, "Terminated")
		r.record(ctx, t, d, got.States.ContextID(), "instantiate", "waits-for-another-app")
	})
	t.Run("networks", func(t *testing.T) {
		ctx := within(t)
		n := newNetworks(ctx, t, s, clusters[1], "none")
		n.create(ctx, 1)
		n.do(ctx, "apply")
		id := n.awaitStatus(ctx, "Instantiated").States.ContextID()
		n.clean(ctx)
		r.recordApp(ctx, t, n.key, "network-intents", id, "instantiate", "networks")
		r.recordApp(ctx, t, n.key, "network-intents", id, "terminate", "networks")
	})
	t.Run("stopped before it is recorded", func(t *testing.T) { r.recordUnaccepted(within(t), t, s, clusters) })
	t.Run("nobody waits for it", func(t *testing.T) { r.recordUnawaited(within(t), t, s, clusters) })
	t.Run("many clusters", func(t *testing.T) { r.recordMany(t, s) })
	t.Run("logical cloud", func(t *testing.T) { r.recordCloud(within(t), t, s) })
	t.Run("watches", func(t *testing.T) { r.recordWatch(within(t), t) })
	t.Run("a watch of much", func(t *testing.T) { r.recordWatchOfMuch(within(t), t) })
	// Last, as its tenant stays, and is watched.
	t.Run("matches", func(t *testing.T) { r.recordMatches(within(t), t, s) })
}

// recorder writes histories to a folder per workflow type.
type recorder struct {
	temporal temporalclient.Client
	folder   string
	cluster  string // whose leaves are recorded
}

// record writes the histories of an operation's root, of its group's first app, and of that app on the cluster.
func (r *recorder) record(ctx context.Context, t *testing.T, d *client.Deployment, contextID string, operation domain.Operation, situation string) {
	t.Helper()
	r.recordApp(ctx, t, d.Key(), d.Apps[0].Name, contextID, operation, situation)
}

// recordApp is record for an app of any owner.
func (r *recorder) recordApp(ctx context.Context, t *testing.T, owner domain.Key, app, contextID string, operation domain.Operation, situation string) {
	t.Helper()
	id := workflows.OperationID(domain.Scope{Owner: owner, ContextID: contextID, Operation: operation})
	for _, suffix := range []string{"/" + app, "+" + r.cluster, ""} {
		// The status is there a moment before the workflow is closed.
		_ = r.temporal.GetWorkflow(ctx, id, "").Get(ctx, nil) // how it ended does not matter
		history := r.history(ctx, t, id)
		r.write(t, history, situation)
		id = childOf(history, suffix)
	}
}

// unawaited begins an instantiate for which nobody waits, as where the engine has lost what came with it, so that it waits.
func (r *recorder) unawaited(ctx context.Context, t *testing.T, s *harness.Stack, clusters []*harness.Cluster) temporalclient.WorkflowRun {
	t.Helper()
	d := s.Deployment(ctx, clusters, twoApps(t)...)
	do(ctx, t, d, "approve")
	scope := domain.Scope{Owner: d.Key(), ContextID: "1", Operation: domain.OpInstantiate}
	run, err := r.temporal.ExecuteWorkflow(ctx, temporalclient.StartWorkflowOptions{
		ID: workflows.OperationID(scope), TaskQueue: workflows.LifecycleQueue,
		TypedSearchAttributes: workflows.OperationAttributes(scope), StaticSummary: workflows.Summary(scope),
	}, workflows.OperationName(scope.Operation), workflows.OperationInput{Scope: scope})
	require.NoError(t, err)
	return run
}

// recordUnawaited writes an instantiate that nobody waits for until it is given up.
func (r *recorder) recordUnawaited(ctx context.Context, t *testing.T, s *harness.Stack, clusters []*harness.Cluster) {
	t.Helper()
	run := r.unawaited(ctx, t, s, clusters)
	_ = run.Get(ctx, nil) // up to v0.1.0 it fails
	r.write(t, r.history(ctx, t, run.GetID()), "nobody-waits")
}

// recordUnaccepted writes an instantiate that is stopped before it has recorded itself.
func (r *recorder) recordUnaccepted(ctx context.Context, t *testing.T, s *harness.Stack, clusters []*harness.Cluster) {
	t.Helper()
	run := r.unawaited(ctx, t, s, clusters)
	id := run.GetID()
	harness.Until(ctx, t, "it is prepared", func() bool {
		return slices.ContainsFunc(r.history(ctx, t, id).GetEvents(), func(e *historypb.HistoryEvent) bool { return e.GetActivityTaskCompletedEventAttributes() != nil })
	})
	require.NoError(t, r.temporal.SignalWorkflow(ctx, id, "", workflows.StopSignal, nil))
	_ = run.Get(ctx, nil) // it was cancelled
	r.write(t, r.history(ctx, t, id), "stopped-before-it-is-recorded")
}

// recordMany writes the operations on an app that has more batches of clusters than are at work at a time, and the last one of these: it has
// more clusters than are at work in it at a time, 6 where all batches are, as in v0.1.0, and 7 of four batches.
func (r *recorder) recordMany(t *testing.T, s *harness.Stack) {
	const (
		batches, clusters, app = 1_000, 1_010, "app" // the last one is the fifth
		situation, last        = "many-clusters", "last-batch-of-many-clusters"
	)
	fleet := harness.StartFleet(t, clusters)
	const provider, label = "fleet", "edge"
	steps, names := []client.Step{{Object: &domain.ClusterProvider{Metadata: domain.Metadata{Name: provider}}}}, []domain.ClusterName{}
	for _, name := range fleet.Names {
		k := domain.ClusterName{Provider: provider, Name: name}
		names = append(names, k)
		parent, _ := domain.Cut(domain.ClustersNoun, k.Key())
		steps = append(steps, client.Step{Object: &domain.Cluster{ // nobody watches them, which would take more than all the rest
			Identity: domain.Identity{Parent: parent}, Metadata: domain.Metadata{Name: name}, Spec: domain.ClusterSpec{Report: domain.ReportNone},
		}, File: fleet.Kubeconfig(t, name)}, client.Step{Object: &domain.ClusterLabel{Identity: domain.Identity{Parent: k.Key()}, Label: label}})
	}
	require.NoError(t, s.Client.API().Run(within(t), steps, nil))
	d := s.On(within(t), names, client.App{
		Name: app, Chart: harness.Chart(t, app, harness.ConfigMaps(app, 1)), Intent: harness.Labelled(label, names[0]),
	})
	ctx := within(t)
	do(ctx, t, d, "approve", "instantiate")
	contextID := s.Await(ctx, d, "Instantiated").States.ContextID()
	do(ctx, t, d, "terminate")
	s.Await(ctx, d, "Terminated")
	for _, operation := range []domain.Operation{domain.OpInstantiate, domain.OpTerminate} {
		scope := domain.Scope{Owner: d.Key(), ContextID: contextID, Operation: operation}
		id := workflows.OperationID(scope)
		require.NoError(t, r.temporal.GetWorkflow(ctx, id, "").Get(ctx, nil))
		root := r.history(ctx, t, id)
		r.write(t, root, situation)
		r.write(t, r.history(ctx, t, childOf(root, "/"+app)), situation)
		r.write(t, r.history(ctx, t, workflows.AppID(scope, app, batches, clusters)), last)
	}
}

// recordRemnants writes what looks after a context that is terminated, when it has looked once.
func (r *recorder) recordRemnants(ctx context.Context, t *testing.T, d *client.Deployment, contextID string) {
	t.Helper()
	id := workflows.RemnantsID(activities.RemnantsInput{Owner: d.Key(), ContextID: contextID})
	require.NoError(t, r.temporal.SignalWorkflow(ctx, id, "", workflows.RemnantSignal, nil))
	looked := func(event *historypb.HistoryEvent) bool {
		return event.GetActivityTaskCompletedEventAttributes() != nil
	}
	harness.Until(ctx, t, "looked", func() bool { return slices.ContainsFunc(r.history(ctx, t, id).GetEvents(), looked) })
	r.write(t, r.history(ctx, t, id), "looked-once")
}

// recordChanges writes what makes of one instance another.
func (r *recorder) recordChanges(ctx context.Context, t *testing.T, s *harness.Stack) {
	t.Helper()
	c := instantiated(ctx, t, s, "web:a=1 b=1 c=1", "log:x=1")
	last := func(operation domain.Operation, situation string) {
		t.Helper()
		got := s.Await(ctx, c.Deployment, "Instantiated")
		r.record(ctx, t, c.Deployment, got.States.ContextID(), operation, situation)
	}
	c.chart(ctx, "web", "a=1 b=2 d=1")
	c.update(ctx)
	last("update", "applies-and-prunes")
	c.chart(ctx, "web", "a=1 b=3 d=1")
	c.update(ctx)
	last("update", "applies")
	require.NoError(t, c.rollback(ctx, 1))
	last("rollback", "rolled-back")

	c.clusters[1].Down()
	c.update(ctx)
	got := waitFor(ctx, t, c.Deployment, func(g *status.Document) bool { return retrying(g) > 0 })
	do(ctx, t, c.Deployment, "stop")
	s.Await(ctx, c.Deployment, "InstantiateFailed")
	r.record(ctx, t, c.Deployment, got.States.ContextID(), "update", "update-stopped-while-cluster-down")
	c.clusters[1].Up(t)

	next := *c.Deployment
	next.Version, next.Group = "v2", "next-"+next.Group
	next.Apps = slices.Clone(next.Apps[:1])
	next.Apps[0].Chart = says(t, "web", "a=2")
	require.NoError(t, next.API.Run(ctx, next.GroupSteps(), nil))
	do(ctx, t, &next, "approve")
	require.NoError(t, migrate(ctx, c.Deployment, next.Version, next.Group))
	c.Deployment = &next
	last("migrate", "migrated")
	do(ctx, t, &next, "terminate")
	got = s.Await(ctx, &next, "Terminated")
	r.record(ctx, t, &next, got.States.ContextID(), "terminate", "after-migrate")
}

// recordHooks writes what has hooks before and after it, and what is stopped while one of them runs.
func (r *recorder) recordHooks(ctx context.Context, t *testing.T, s *harness.Stack, clusters []*harness.Cluster) {
	t.Helper()
	d := s.Deployment(ctx, clusters, hookApp(t, "web", map[string]string{
		"before": hookJob("before", "pre-install", ", helm.sh/hook-delete-policy: hook-succeeded", ""),
		"after": `apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ .Release.Name }}-after', annotations: {helm.sh/hook: post-install}}
`,
		"leave": hookJob("leave", "pre-delete", "", ""),
	}))
	do(ctx, t, d, "approve", "instantiate")
	got := s.Await(ctx, d, "Instantiated")
	do(ctx, t, d, "terminate")
	s.Await(ctx, d, "Terminated")
	r.record(ctx, t, d, got.States.ContextID(), "instantiate", "hooks")
	r.record(ctx, t, d, got.States.ContextID(), "terminate", "hooks")

	d = s.Deployment(ctx, clusters, hookApp(t, "web", map[string]string{"slow": hookJob("slow", "pre-install", "", suspended)}))
	do(ctx, t, d, "approve", "instantiate")
	awaitReason(ctx, t, d, "web", "waits for the pre-install hook Job "+d.Release+"-slow")
	do(ctx, t, d, "stop")
	got = s.Await(ctx, d, "InstantiateFailed")
	do(ctx, t, d, "terminate")
	s.Await(ctx, d, "Terminated")
	r.record(ctx, t, d, got.States.ContextID(), "instantiate", "stopped-while-a-hook-runs")
}

// recordCloud writes the operations on a logical cloud of level 1, and what keeps its certificates.
func (r *recorder) recordCloud(ctx context.Context, t *testing.T, s *harness.Stack) {
	t.Helper()
	const app, situation = "logical-cloud", "logical-cloud"
	c := newLevel1(ctx, t, s)
	// ask gives the instance that an operation made or ended.
	ask := func(operation domain.Operation, where domain.ContextStatus) string {
		t.Helper()
		_, err := c.do(operation)
		require.NoError(t, err)
		got := c.awaitStatus(ctx, where)
		return got.States.Last().ContextID
	}
	first := ask("instantiate", "Instantiated")
	r.recordApp(ctx, t, c.key, app, first, "instantiate", situation)

	before := c.certificate(0)
	c.signal(ctx, workflows.RenewSignal)
	harness.Until(ctx, t, "renewed", func() bool { return c.certificate(0).SerialNumber.Cmp(before.SerialNumber) != 0 })
	goesOn := r.goOnInARound(ctx, t, c)

	c.create(c.permission("public", domain.UserPermissionSpec{
		Namespace: "kube-public", APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list"},
	}))
	updated := ask("update", "Instantiated")
	require.NotEqual(t, first, updated)
	r.recordApp(ctx, t, c.key, app, updated, "update", situation)

	r.recordApp(ctx, t, c.key, app, ask("terminate", "Terminated"), "terminate", situation)
	r.write(t, r.history(ctx, t, c.keeper()), "renewed-then-terminated")
	require.NoError(t, r.temporal.SignalWorkflow(ctx, goesOn.GetID(), "", workflows.KeepSignal, nil))
	require.NoError(t, goesOn.Get(ctx, nil))
	r.write(t, r.history(ctx, t, goesOn.GetID()), "goes-on-in-a-round")
}

// goOnInARound has certificates renewed by a run as one with many clusters hands it on. It ends when the cloud is terminated.
func (r *recorder) goOnInARound(ctx context.Context, t *testing.T, c *level1) temporalclient.WorkflowRun {
	t.Helper()
	id, before := c.keeper()+"-of-many", []*x509.Certificate{c.certificate(0), c.certificate(1)}
	now := time.Now().UTC()
	run, err := r.temporal.ExecuteWorkflow(ctx, temporalclient.StartWorkflowOptions{
		ID: id, TaskQueue: workflows.LifecycleQueue, TypedSearchAttributes: workflows.CloudAttributes(c.key),
	}, workflows.KeepCertificatesName, c.key, workflows.KeepRun{Round: &workflows.KeepRound{
		All: true, Began: now, After: &activities.RenewalPlace{At: now.AddDate(100, 0, 0)}, // before all
	}})
	require.NoError(t, err)
	harness.Until(ctx, t, "renewed", func() bool {
		return c.certificate(0).SerialNumber.Cmp(before[0].SerialNumber) != 0 && c.certificate(1).SerialNumber.Cmp(before[1].SerialNumber) != 0
	})
	return run
}

// recordMatches writes what settles the matches of a tenant: one, many, and those of a cluster that is away for a time.
func (r *recorder) recordMatches(ctx context.Context, t *testing.T, s *harness.Stack) {
	t.Helper()
	e := newTenancy(ctx, t, s, domain.ReportNone)
	id := workflows.TenantID(e.tenant.Name)
	write := func(situation, child string) {
		t.Helper()
		require.NoError(t, r.temporal.GetWorkflow(ctx, id, "").Get(ctx, nil))
		history := r.history(ctx, t, id)
		r.write(t, history, situation)
		for _, event := range history.GetEvents() {
			if at := event.GetChildWorkflowExecutionCompletedEventAttributes(); at != nil {
				r.write(t, r.history(ctx, t, at.GetWorkflowExecution().GetWorkflowId()), child)
			}
		}
	}
	e.run(ctx, 1)
	e.settled(ctx, 1)
	write("one", "") // which is done at once
	down := func(change func()) {
		t.Helper()
		e.cluster.Down()
		change()
		harness.Until(ctx, t, "waits for the cluster", func() bool {
			return slices.ContainsFunc(r.history(ctx, t, id).GetEvents(), isAwaiting)
		})
		e.cluster.Up(t)
	}
	down(func() { e.run(ctx, 2) })
	e.settled(ctx, 2)
	write("one-of-a-cluster-that-was-down", "one")
	down(func() { e.run(ctx, 4) })
	e.settled(ctx, 4)
	write("few-of-a-cluster-that-was-down", "few")
	e.run(ctx, 60)
	e.settled(ctx, 60)
	write("many", "batch")
	down(func() { e.end(ctx) })
	e.settled(ctx, 0)
	write("cluster-down-then-up", "batch-of-a-cluster-that-was-down")
	id = trigger(ctx, t, r.temporal, workflows.BehindSchedule)
	require.NoError(t, r.temporal.GetWorkflow(ctx, id, "").Get(ctx, nil))
	r.write(t, r.history(ctx, t, id), "scheduled")
}

// recordWatch writes the longest history of the workflows that watched: nothing is watched any more.
func (r *recorder) recordWatch(ctx context.Context, t *testing.T) {
	t.Helper()
	longest := &historypb.History{}
	for shard := range activities.WatchShards {
		id := workflows.WatchID(shard)
		err := r.temporal.GetWorkflow(ctx, id, "").Get(ctx, nil)
		var unknown *serviceerror.NotFound
		if errors.As(err, &unknown) {
			continue
		}
		require.NoError(t, err, id)
		if h := r.history(ctx, t, id); len(h.GetEvents()) > len(longest.GetEvents()) {
			longest = h
		}
	}
	r.write(t, longest, "until-nothing-is-left")
}

// recordWatchOfMuch writes what a watch with many claims goes on as: one of a shard that no cluster is in, until nothing is left. How many there are does
// not matter to it.
func (r *recorder) recordWatchOfMuch(ctx context.Context, t *testing.T) {
	t.Helper()
	id, contextID := workflows.WatchID(activities.WatchShards), "1"
	run, err := r.temporal.ExecuteWorkflow(ctx, temporalclient.StartWorkflowOptions{
		ID: id, TaskQueue: workflows.LifecycleQueue, TypedSearchAttributes: workflows.WatchAttributes(), StaticSummary: workflows.WatchSummary(activities.WatchShards),
	}, workflows.WatchManyClustersName, workflows.WatchManyInput{
		Shard: activities.WatchShards, Generation: 1, Term: 1, Clusters: []domain.ClusterName{{Provider: "none", Name: "a"}, {Provider: "none", Name: "b"}},
		Claims: []workflows.ClaimOnMany{{Claim: workflows.Claim{ContextID: contextID}, On: []int{0, 2}}},
	})
	require.NoError(t, err)
	harness.Until(ctx, t, "its activity has asked", func() bool {
		return slices.ContainsFunc(r.history(ctx, t, id).GetEvents(), func(e *historypb.HistoryEvent) bool {
			return e.GetWorkflowExecutionUpdateCompletedEventAttributes() != nil
		})
	})
	require.NoError(t, r.temporal.SignalWorkflow(ctx, id, "", workflows.UnwatchSignal, contextID))
	require.NoError(t, run.Get(ctx, nil))
	r.write(t, r.history(ctx, t, id), "until-nothing-is-left")
}

// childOf is the id of the child whose id ends with the suffix.
func childOf(history *historypb.History, suffix string) string {
	for _, event := range history.GetEvents() {
		id := event.GetStartChildWorkflowExecutionInitiatedEventAttributes().GetWorkflowId()
		if id != "" && strings.HasSuffix(id, suffix) {
			return id
		}
	}
	return ""
}

func (r *recorder) history(ctx context.Context, t *testing.T, id string) *historypb.History {
	t.Helper()
	history := &historypb.History{}
	events := r.temporal.GetWorkflowHistory(ctx, id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		require.NoError(t, err, id)
		history.Events = append(history.Events, event)
	}
	require.NotEmpty(t, history.GetEvents(), id)
	return history
}

// write keeps one event to a line, so that two recordings can be compared.
func (r *recorder) write(t *testing.T, history *historypb.History, situation string) {
	t.Helper()
	started := history.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes()
	var b bytes.Buffer
	for i, event := range history.GetEvents() {
		data, err := protojson.Marshal(event)
		require.NoError(t, err)
		var members any
		require.NoError(t, json.Unmarshal(data, &members))
		data, err = json.Marshal(anonymous(members))
		require.NoError(t, err)
		b.WriteString(map[bool]string{true: "{\"events\":[\n", false: ",\n"}[i == 0])
		b.Write(data)
	}
	b.WriteString("\n]}\n")
	path := filepath.Join(r.folder, started.GetWorkflowType().GetName(), situation+".json")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
	t.Logf("%s: %d events, %d bytes", path, len(history.GetEvents()), b.Len())
}

// anonymous takes out the names of the machine that recorded, and of its builds. A worker's own queue is called
// after its machine.
func anonymous(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if v["kind"] == "TASK_QUEUE_KIND_STICKY" {
			v["name"] = "sticky"
		}
		for name, member := range v {
			switch name {
			case "identity", "stackTrace", "binaryChecksum", "lastHeartbeatDetails":
				delete(v, name)
			default:
				v[name] = anonymous(member)
			}
		}
	case []any:
		for i := range v {
			v[i] = anonymous(v[i])
		}
	}
	return v
}
