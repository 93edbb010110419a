package test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	temporalclient "go.temporal.io/sdk/client"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/workflows"
)

// recordVariable names the folder that TestRecordReplay writes to.
const recordVariable = "DROVER_RECORD_REPLAY"

// TestRecordReplay writes the histories of whole operations, for the replay test of package workflows.
// Record from the code that is deployed, never from a change to it: new code replayed against its own
// histories always passes.
func TestRecordReplay(t *testing.T) {
	folder := os.Getenv(recordVariable)
	if folder == "" {
		t.Skip(recordVariable + " is not set")
	}
	s, clusters := harness.NewStack(t), twoClusters(t)
	r := &recorder{temporal: s.TemporalClient(), folder: folder, cluster: clusters[1].Name}

	t.Run("plain", func(t *testing.T) {
		ctx := within(t)
		d := s.Deployment(ctx, clusters, twoApps(t)...)
		do(ctx, t, s, d, "approve", "instantiate")
		got := s.Await(ctx, d, "Instantiated")
		do(ctx, t, s, d, "terminate")
		s.Await(ctx, d, "Terminated")
		r.record(ctx, t, d, got.ContextID(), "instantiate", "plain")
		r.record(ctx, t, d, got.ContextID(), "terminate", "plain")
		r.recordRemnants(ctx, t, d, got.ContextID())
	})
	// begin instantiates with the second cluster down, and waits until that is seen.
	begin := func(ctx context.Context, t *testing.T) (*client.Deployment, string) {
		d := s.Deployment(ctx, clusters, twoApps(t)...)
		clusters[1].Down()
		do(ctx, t, s, d, "approve", "instantiate")
		got, err := d.Wait(ctx, s.Client, harness.Poll, func(g *client.Status) bool {
			return g.Rsync["Applied"] == 5 && g.Rsync["Retrying"] == 5
		})
		require.NoError(t, err)
		return d, got.ContextID()
	}
	t.Run("cluster down, then up", func(t *testing.T) {
		ctx := within(t)
		d, id := begin(ctx, t)
		clusters[1].Up(t)
		s.Await(ctx, d, "Instantiated")
		do(ctx, t, s, d, "terminate")
		s.Await(ctx, d, "Terminated")
		r.record(ctx, t, d, id, "instantiate", "cluster-down-then-up")
	})
	t.Run("stopped while a cluster is down", func(t *testing.T) {
		ctx := within(t)
		d, id := begin(ctx, t)
		do(ctx, t, s, d, "stop")
		s.Await(ctx, d, "InstantiateFailed")
		clusters[1].Up(t)
		do(ctx, t, s, d, "terminate")
		s.Await(ctx, d, "Terminated")
		r.record(ctx, t, d, id, "instantiate", "stopped-while-cluster-down")
		r.record(ctx, t, d, id, "terminate", "after-stop")
	})
	t.Run("terminated while a cluster is down", func(t *testing.T) {
		ctx := within(t)
		d, id := begin(ctx, t)
		do(ctx, t, s, d, "terminate")
		_, err := d.Wait(ctx, s.Client, harness.Poll, func(g *client.Status) bool {
			return g.Rsync["Retrying"] > 0 && g.Rsync["Deleted"] >= 5
		})
		require.NoError(t, err)
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
		require.NoError(t, depend(ctx, s, d, "front", "db", "Ready", 1))
		do(ctx, t, s, d, "approve", "instantiate")
		got := s.Await(ctx, d, "Instantiated")
		do(ctx, t, s, d, "terminate")
		s.Await(ctx, d, "Terminated")
		r.record(ctx, t, d, got.ContextID(), "instantiate", "waits-for-another-app")
	})
	t.Run("networks", func(t *testing.T) {
		ctx := within(t)
		n := newNetworks(ctx, t, s, clusters[1], "none")
		n.create(ctx, 1)
		n.do(ctx, "apply")
		id := n.awaitStatus(ctx, "Instantiated").contextID()
		n.clean(ctx)
		r.recordApp(ctx, t, n.path, "network-intents", id, "instantiate", "networks")
		r.recordApp(ctx, t, n.path, "network-intents", id, "terminate", "networks")
	})
	t.Run("logical cloud", func(t *testing.T) { r.recordCloud(within(t), t, s) })
	t.Run("watches", func(t *testing.T) { r.recordWatch(within(t), t) })
}

// recorder writes histories to a folder per workflow type.
type recorder struct {
	temporal temporalclient.Client
	folder   string
	cluster  string // whose leaves are recorded
}

// record writes the histories of an operation's root, of its group's first app, and of that app on the cluster.
func (r *recorder) record(ctx context.Context, t *testing.T, d *client.Deployment, contextID, operation, situation string) {
	t.Helper()
	r.recordApp(ctx, t, d.Path(), d.Apps[0].Name, contextID, operation, situation)
}

// recordApp is record for an app of any owner.
func (r *recorder) recordApp(ctx context.Context, t *testing.T, owner, app, contextID, operation, situation string) {
	t.Helper()
	id := workflows.OperationID(domain.Scope{Owner: domain.Key(strings.Trim(owner, "/")), ContextID: contextID, Operation: domain.Operation(operation)})
	for _, suffix := range []string{"/" + app, "+" + r.cluster, ""} {
		// The status is there a moment before the workflow is closed.
		_ = r.temporal.GetWorkflow(ctx, id, "").Get(ctx, nil) // how it ended does not matter
		history := r.history(ctx, t, id)
		r.write(t, history, situation)
		id = childOf(history, suffix)
	}
}

// recordRemnants writes what looks after a context that is terminated, when it has looked once.
func (r *recorder) recordRemnants(ctx context.Context, t *testing.T, d *client.Deployment, contextID string) {
	t.Helper()
	id := workflows.RemnantsID(activities.RemnantsInput{Owner: domain.Key(strings.Trim(d.Path(), "/")), ContextID: contextID})
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
	last := func(operation, situation string) {
		t.Helper()
		got := s.Await(ctx, c.Deployment, "Instantiated")
		r.record(ctx, t, c.Deployment, got.ContextID(), operation, situation)
	}
	c.chart(ctx, "web", "a=1 b=2 d=1")
	c.update(ctx)
	last("update", "applies-and-prunes")
	c.chart(ctx, "web", "a=1 b=3 d=1")
	c.update(ctx)
	last("update", "applies")
	require.NoError(t, c.rollback(ctx, "1"))
	last("rollback", "rolled-back")

	c.clusters[1].Down()
	c.update(ctx)
	got, err := c.Wait(ctx, s.Client, harness.Poll, func(g *client.Status) bool { return g.Rsync["Retrying"] > 0 })
	require.NoError(t, err)
	do(ctx, t, s, c.Deployment, "stop")
	s.Await(ctx, c.Deployment, "InstantiateFailed")
	r.record(ctx, t, c.Deployment, got.ContextID(), "update", "update-stopped-while-cluster-down")
	c.clusters[1].Up(t)

	next := *c.Deployment
	next.Version, next.Group = "v2", "next-"+next.Group
	next.Apps = slices.Clone(next.Apps[:1])
	next.Apps[0].Chart = says(t, "web", "a=2")
	require.NoError(t, client.Run(ctx, s.Client, next.GroupSteps(), nil))
	do(ctx, t, s, &next, "approve")
	_, err = s.Client.Post(ctx, c.Path()+"/migrate", client.M{"spec": client.M{
		"targetCompositeAppVersion": next.Version, "targetDeploymentIntentGroup": next.Group,
	}})
	require.NoError(t, err)
	c.Deployment = &next
	last("migrate", "migrated")
	do(ctx, t, s, &next, "terminate")
	got = s.Await(ctx, &next, "Terminated")
	r.record(ctx, t, &next, got.ContextID(), "terminate", "after-migrate")
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
	do(ctx, t, s, d, "approve", "instantiate")
	got := s.Await(ctx, d, "Instantiated")
	do(ctx, t, s, d, "terminate")
	s.Await(ctx, d, "Terminated")
	r.record(ctx, t, d, got.ContextID(), "instantiate", "hooks")
	r.record(ctx, t, d, got.ContextID(), "terminate", "hooks")

	d = s.Deployment(ctx, clusters, hookApp(t, "web", map[string]string{"slow": hookJob("slow", "pre-install", "", suspended)}))
	do(ctx, t, s, d, "approve", "instantiate")
	awaitReason(ctx, t, s, d, "web", "waits for the pre-install hook Job "+d.Release+"-slow")
	do(ctx, t, s, d, "stop")
	got = s.Await(ctx, d, "InstantiateFailed")
	do(ctx, t, s, d, "terminate")
	s.Await(ctx, d, "Terminated")
	r.record(ctx, t, d, got.ContextID(), "instantiate", "stopped-while-a-hook-runs")
}

// recordCloud writes the operations on a logical cloud of level 1, and what keeps its certificates.
func (r *recorder) recordCloud(ctx context.Context, t *testing.T, s *harness.Stack) {
	t.Helper()
	const app, situation = "logical-cloud", "logical-cloud"
	c := newLevel1(ctx, t, s)
	// ask gives the instance that an operation made or ended.
	ask := func(operation, status string) string {
		t.Helper()
		_, err := c.do(operation)
		require.NoError(t, err)
		actions := c.awaitStatus(ctx, status).States.Actions
		return actions[len(actions)-1].Instance
	}
	first := ask("instantiate", "Instantiated")
	r.recordApp(ctx, t, c.path, app, first, "instantiate", situation)

	before := c.certificate(0)
	c.signal(ctx, workflows.RenewSignal)
	harness.Until(ctx, t, "renewed", func() bool { return c.certificate(0).SerialNumber.Cmp(before.SerialNumber) != 0 })

	permission := client.M{"namespace": "kube-public", "apiGroups": []string{""}, "resources": []string{"secrets"}, "verbs": []string{"list"}}
	c.post(c.path+"/user-permissions", client.Named("public", permission))
	updated := ask("update", "Instantiated")
	require.NotEqual(t, first, updated)
	r.recordApp(ctx, t, c.path, app, updated, "update", situation)

	r.recordApp(ctx, t, c.path, app, ask("terminate", "Terminated"), "terminate", situation)
	r.write(t, r.history(ctx, t, c.keeper()), "renewed-then-terminated")
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
