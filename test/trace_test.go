package test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/test/harness"
)

// spans are those that a test has seen, to be asked for.
type spans []harness.Span

// of gives the spans of a trace with a name, each once: Temporal gives a task again whose answer came too late, and the worker tells the span of
// its run again then, with the same id.
func (all spans) of(trace, name string) (found spans) {
	for _, s := range all {
		if s.Trace == trace && s.Name == name && !slices.ContainsFunc(found, func(x harness.Span) bool { return x.ID == s.ID }) {
			found = append(found, s)
		}
	}
	return found
}

// below says whether each has a span of the name above it, some way up.
func (all spans) below(s harness.Span, name string) bool {
	for range 20 {
		at := slices.IndexFunc(all, func(x harness.Span) bool { return x.ID == s.Parent && x.Trace == s.Trace })
		if at < 0 {
			return false
		}
		if s = all[at]; s.Name == name {
			return true
		}
	}
	return false
}

// TestTraces: an operation is one trace, from the request to each request to clusters and to the store, on real processes, with a
// collector that takes what they send.
func TestTraces(t *testing.T) {
	t.Parallel()
	const mark = "swordfish-of-this-test"
	collector := harness.NewCollector(t)
	ctx, s, clusters := within(t), harness.NewStackOn(t, harness.Servers{Traces: collector.URL}), twoClusters(t)
	temporal := s.TemporalClient()
	secret := map[string]string{"s.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: \"{{ .Release.Name }}-s\"}\nstringData: {password: " + mark + "}\n"}
	d := s.Deployment(ctx, clusters, client.App{Name: "web", Chart: harness.Chart(t, "web", secret)})
	do(ctx, t, d, "approve")

	const theirs = "11111111111111111111111111111111" // the callers' trace, to which those of requests are linked
	// ask has something done, and gives the trace of the request.
	ask := func(operation string) (*harness.Raw, string) {
		t.Helper()
		answer := s.Send(ctx, http.MethodPost, s.At(d.Key())+"/"+operation,
			map[string]string{"Traceparent": "00-" + theirs + "-00f067aa0ba902b7-01", "Accept": "application/json"}, "")
		parts := strings.Split(answer.Header.Get("Traceparent"), "-")
		require.Len(t, parts, 4, "%v", answer.Header)
		return answer, parts[1]
	}
	accepted := func(operation string) (trace string) {
		t.Helper()
		answer, trace := ask(operation)
		require.Equal(t, http.StatusAccepted, answer.Code)
		return trace
	}
	seen := func(what string, is func(all spans) bool) (all spans) {
		t.Helper()
		harness.Until(ctx, t, what, func() bool {
			all = collector.Spans()
			return is(all)
		})
		return all
	}
	inOrder := func(all spans, trace, top string, names ...string) {
		t.Helper()
		for _, name := range names {
			found := all.of(trace, name)
			require.NotEmpty(t, found, "%s in %s", name, trace)
			for _, x := range found {
				require.True(t, all.below(x, top), "%s is not below %s", name, top)
			}
			top = name
		}
	}

	// One cluster is away, so that there are retries.
	clusters[1].Down()
	began := accepted("instantiate")
	seen("three attempts at the cluster that is away", func(all spans) bool { return len(all.of(began, "ApplyToCluster")) >= 5 })
	x, err := d.API.Explain(ctx, d.Key())
	require.NoError(t, err)
	require.Equal(t, began, x.Operation.Workflow.TraceID)
	description, err := temporal.DescribeWorkflowExecution(ctx, x.Operation.Workflow.ID, "")
	require.NoError(t, err)
	require.NotNil(t, description.GetWorkflowExecutionInfo().GetMemo().GetFields()["traceId"])
	require.Equal(t, map[string]float64{"slots": 30, "at work": 0, "outside": 1, "waiting": 0}, windowsOf(ctx, t, s, func(w map[string]float64) bool { return w["outside"] == 1 && w["at work"] == 0 }),
		"the app's window has the cluster that is away outside")
	clusters[1].Up(t)
	s.Await(ctx, d, "Instantiated")
	all := seen("the end of the operation", func(all spans) bool {
		// The API sends its spans when it comes to it.
		return len(all.of(began, "Instantiate")) > 0 && len(all.of(began, "accept instantiate")) > 0 &&
			slices.ContainsFunc(all, func(x harness.Span) bool { return x.Trace == began && strings.HasPrefix(x.Name, "POST ") })
	})
	taken := all.of(began, "accept instantiate")
	require.Len(t, taken, 1)
	require.Equal(t, "drover-api", taken[0].Service)
	require.Equal(t, string(d.Key()), taken[0].Attributes["drover.owner"])
	require.True(t, slices.ContainsFunc(all, func(x harness.Span) bool {
		return x.Trace == began && x.Parent == "" && slices.Contains(x.Links, theirs) && strings.HasPrefix(x.Name, "POST ") && all.below(taken[0], x.Name)
	}), "the request is linked to its caller's")
	inOrder(all, began, "accept instantiate", "Instantiate", "DeployApp", "ApplyToCluster", "cluster GET")
	root := all.of(began, "Instantiate")
	require.Len(t, root, 1, "a run is recorded once")
	require.Equal(t, "drover-worker", root[0].Service)
	require.Equal(t, "Instantiated", root[0].Attributes["drover.outcome"])
	require.NotEmpty(t, all.of(began, "Prepare"))
	attempts := map[string]int{} // by cluster
	for _, x := range all.of(began, "ApplyToCluster") {
		require.Equal(t, "web", x.Attributes["drover.app"])
		if x.Attributes["drover.attempt"] != "" {
			attempts[x.Attributes["drover.cluster"]]++
			require.True(t, all.below(x, "ApplyToCluster"), "an attempt is below its leaf")
		}
	}
	require.Len(t, attempts, 2)
	require.Greater(t, attempts[d.Clusters[1].String()], 1, "retries are told one by one")
	stored := false
	for _, x := range all {
		stored = stored || x.Trace == began && strings.HasPrefix(x.Name, "store ") && all.below(x, "Prepare")
	}
	require.True(t, stored, "what is asked of the store is below who asks")

	// A request that is refused names its trace.
	answer, refused := ask("instantiate")
	require.Equal(t, http.StatusConflict, answer.Code)
	var problem struct {
		TraceID string `json:"traceID"`
	}
	require.NoError(t, json.Unmarshal(answer.Body, &problem))
	require.Equal(t, refused, problem.TraceID)

	// A terminate is a trace of its own, and so is the request that stops it.
	clusters[1].Down()
	end := accepted("terminate")
	seen("attempts to delete", func(all spans) bool { return len(all.of(end, "DeleteFromCluster")) >= 2 })
	stop := accepted("stop")
	s.Await(ctx, d, "TerminateFailed")
	all = seen("the end of the terminate", func(all spans) bool {
		return len(all.of(end, "Terminate")) > 0 && len(all.of(end, "stop")) > 0 && len(all.of(end, "accept terminate")) > 0
	})
	inOrder(all, end, "accept terminate", "Terminate", "RemoveApp", "DeleteFromCluster")
	stops := all.of(end, "stop")
	require.Len(t, stops, 1)
	require.Equal(t, []string{stop}, stops[0].Links, "the stop is linked to the request for it")
	require.True(t, all.below(stops[0], "Terminate"))
	require.Empty(t, all.of(stop, "Terminate"))

	clusters[1].Up(t)
	again := accepted("terminate")
	s.Await(ctx, d, "Terminated")

	// A watch serves all who come later: it is in no deployment's trace, and says by whom it was begun.
	all = seen("the end of a watch", func(all spans) bool {
		return slices.ContainsFunc(all, func(x harness.Span) bool { return x.Name == "WatchClusters" })
	})
	own := []string{began, stop, end, again, refused}
	for _, x := range all {
		require.NotEqual(t, theirs, x.Trace, "%s is in a trace of its caller's", x.Name)
		switch x.Name {
		case "WatchClusters":
			require.Len(t, x.Links, 1)
			require.Contains(t, own, x.Links[0])
			require.NotContains(t, own, x.Trace)
			require.Empty(t, x.Parent)
		case "WatchShard":
			require.NotContains(t, own, x.Trace)
		}
		for name, value := range x.Attributes {
			require.NotContains(t, value, mark, "%s of %s", name, x.Name)
		}
	}
	require.Contains(t, s.Worker.Log(), "traceId="+began)
	require.Contains(t, s.API.Log(), "traceId="+began)

	// Each of the operations is found by its trace: in the list of operations, by the run's memo, and in the audit log.
	listed := map[string]string{}
	for o, err := range d.API.Operations(ctx, url.Values{"owner": {"/v2/" + string(d.Key())}}) {
		require.NoError(t, err)
		listed[o.Workflow.TraceID] = o.Operation
	}
	require.Equal(t, "instantiate", listed[began])
	require.Equal(t, "terminate", listed[end])
	require.Equal(t, "terminate", listed[again])
	records := s.Send(ctx, http.MethodGet, s.At("audit")+"?limit=1000", nil, "")
	require.Equal(t, http.StatusOK, records.Code)
	var audited struct {
		Items []struct{ Verb, Event, Trace, Outcome string }
	}
	require.NoError(t, json.Unmarshal(records.Body, &audited))
	verbs := map[string]string{}
	for _, r := range audited.Items {
		if r.Event == "answered" {
			verbs[r.Trace] = r.Verb
		}
	}
	for trace, verb := range map[string]string{began: "instantiate", stop: "stop", end: "terminate", again: "terminate", refused: "instantiate"} {
		require.Equal(t, verb, verbs[trace], trace)
	}
	windowsOf(ctx, t, s, func(w map[string]float64) bool { return w["slots"] == 0 }) // nothing goes on, and nothing is left
}

// windowsOf waits until the windows of apps in the worker are as they should be, and gives what it shows of them.
func windowsOf(ctx context.Context, t *testing.T, s *harness.Stack, is func(map[string]float64) bool) map[string]float64 {
	t.Helper()
	found := map[string]float64{}
	harness.Until(ctx, t, "the windows of apps", func() bool {
		all := harness.Metrics(ctx, t, s.WorkerURL())
		for _, state := range []string{"slots", "at work", "outside", "waiting"} {
			found[state] = all[fmt.Sprintf("drover_app_window_leaves{state=%q}", state)]
		}
		return is(found)
	})
	return found
}

// agentsSendTraces: each write of a report is a trace, with the requests that it took.
func agentsSendTraces(t *testing.T) { // alone, as the cluster has one definition of reports
	ctx, s, collector := within(t), harness.SharedStack(t), harness.NewCollector(t)
	cluster := harness.NewCluster(t, harness.AgentClusterNames[1])
	cluster.DefineReports(t)
	cluster.StartAgent(t, "--otlp-endpoint", collector.URL)
	d := s.On(ctx, []domain.ClusterName{register(ctx, t, s, cluster, domain.ReportAgent)}, reportedApp(t))
	do(ctx, t, d, "approve", "instantiate")
	reports(ctx, t, s, d, "status=ready", ready(1))
	id := s.Await(ctx, d, "Instantiated").States.ContextID()
	harness.Until(ctx, t, "a report with its requests", func() bool {
		all := spans(collector.Spans())
		return slices.ContainsFunc(all, func(x harness.Span) bool {
			return x.Service == "drover-monitor" && x.Name == "cluster PATCH" && slices.ContainsFunc(all, func(r harness.Span) bool {
				return r.Name == "report" && r.ID == x.Parent && r.Parent == "" && strings.HasPrefix(r.Attributes["drover.deployment"], id+"-")
			})
		})
	})
	terminate(ctx, t, s, d, cluster)
}
