package test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/workflows"
)

// ask makes a request with headers, and returns the body of its 2xx answer.
func ask(ctx context.Context, t *testing.T, s *harness.Stack, method, url string, header map[string]string) string {
	t.Helper()
	answer := s.Send(ctx, method, url, header, "")
	require.Equal(t, 2, answer.Code/100, "%s %s: %d %s", method, url, answer.Code, answer.Body)
	return string(answer.Body)
}

// explanation is the answer as JSON, and as text.
func explanation(ctx context.Context, t *testing.T, s *harness.Stack, d *client.Deployment) (*explain.Explanation, string) {
	t.Helper()
	x, err := d.API.Explain(ctx, d.Key())
	require.NoError(t, err)
	// Afterwards, so that the text knows at least what the explanation that somebody waits for knows.
	text := ask(ctx, t, s, http.MethodGet, s.At(d.Key())+"/explain", map[string]string{"Accept": "text/plain"})
	require.LessOrEqual(t, strings.Count(text, "\n"), 45, "%s", text)
	return x, text
}

// explains waits until the gravest reason is of the kind.
func explains(ctx context.Context, t *testing.T, s *harness.Stack, d *client.Deployment, kind explain.Kind, is func(*explain.Explanation) bool) (*explain.Explanation, string) {
	t.Helper()
	var x *explain.Explanation
	var text string
	var took time.Duration
	harness.Until(ctx, t, string(kind), func() bool {
		asked := time.Now()
		x, text = explanation(ctx, t, s, d)
		took = time.Since(asked) / 2
		return len(x.Reasons) > 0 && x.Reasons[0].Kind == kind && (is == nil || is(x))
	})
	t.Logf("explained in %s\n%s", took.Round(time.Millisecond), text)
	return x, text
}

// oneOfTwoDone says that the work on the other cluster is done and recorded.
func oneOfTwoDone(x *explain.Explanation) bool {
	return len(x.Reasons) == 1 && strings.Contains(x.Summary, "1 of 2 clusters done")
}

func TestExplain(t *testing.T) {
	t.Parallel()
	ctx, s, clusters := within(t), harness.NewStack(t), twoClusters(t)
	temporal := s.TemporalClient()

	// Temporal takes its time to forget an operation: it has it while other things are looked at.
	old := s.Deployment(ctx, clusters[:1], many(t, 3))
	do(ctx, t, old, "approve", "instantiate")
	s.Await(ctx, old, "Instantiated")
	harness.Until(ctx, t, "completed", func() bool { // the watches begin when the operation is over
		x, _ := explanation(ctx, t, s, old)
		if x.Operation.Workflow.Status != explain.Completed {
			return false
		}
		require.True(t, x.AsWished)
		_, err := temporal.WorkflowService().DeleteWorkflowExecution(ctx, &workflowservice.DeleteWorkflowExecutionRequest{
			Namespace: "drover", WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: x.Operation.Workflow.ID},
		})
		require.NoError(t, err)
		return true
	})

	t.Run("one cluster is dead", func(t *testing.T) {
		ctx := within(t)
		d := s.Deployment(ctx, clusters, twoApps(t)...)
		explains(ctx, t, s, d, explain.NotAsked, nil)
		clusters[1].Down()
		do(ctx, t, d, "approve")
		asked := time.Now().Truncate(time.Second)
		ask(ctx, t, s, http.MethodPost, s.At(d.Key())+"/instantiate", map[string]string{"X-Forwarded-User": "alice"})
		tried := func(x *explain.Explanation) bool {
			e := x.Reasons[0].Examples
			return oneOfTwoDone(x) && len(e) == 2 && e[0].Attempt > 2 && e[1].Attempt > 2 && e[0].NextAttempt != nil &&
				strings.Contains(x.Reasons[0].Error, "refused") // not what a worker says of one attempt that was held up
		}
		x, text := explains(ctx, t, s, d, explain.ClusterHoldsUp, tried)
		require.Equal(t, "alice", x.Operation.By)
		require.WithinRange(t, x.Operation.Since, asked, time.Now())
		reason := x.Reasons[0]
		require.Equal(t, 1, reason.Clusters)
		require.Contains(t, reason.Error, "refused")
		require.Contains(t, reason.Do, client.At(d.Key())+"/stop")
		for _, e := range reason.Examples {
			require.Equal(t, d.Clusters[1].Provider+"+"+clusters[1].Name, e.Cluster)
			require.WithinRange(t, *e.Since, asked, time.Now())
			require.Greater(t, e.Attempt, 1)
			require.Contains(t, text, e.App+" ApplyToCluster on "+e.Cluster)
			require.Contains(t, ask(ctx, t, s, http.MethodGet, e.Workflow.Link, nil), "<html")
		}
		id := workflows.OperationID(scope(d, x.ContextID, domain.OpInstantiate))
		require.Equal(t, id, x.Operation.Workflow.ID)
		require.True(t, strings.HasPrefix(x.Operation.Workflow.Link, s.WebUI()+"/namespaces/drover/workflows/"), x.Operation.Workflow.Link)
		require.True(t, strings.HasSuffix(x.Operation.Workflow.Link, "/"+x.Operation.Workflow.RunID))

		require.NoError(t, temporal.TerminateWorkflow(ctx, id, "", "lost patience"))
		x, _ = explains(ctx, t, s, d, explain.WorkflowGone, nil)
		require.Contains(t, x.Reasons[0].Text, "terminated by hand: lost patience")
		require.Contains(t, x.Reasons[0].Do, client.At(d.Key())+"/terminate")
		clusters[1].Up(t)
		do(ctx, t, d, "terminate")
		s.Await(ctx, d, "Terminated")
		x, text = explanation(ctx, t, s, d)
		require.True(t, x.AsWished, "%s", text)
	})

	t.Run("a resource is refused", func(t *testing.T) {
		ctx := within(t)
		d := s.Deployment(ctx, clusters, client.App{Name: "mixed", Chart: harness.Chart(t, "mixed", map[string]string{
			"good.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-good'}\ndata: {a: b}\n",
			"bad.yaml":  "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-bad'}\ndata: {a: [1]}\n",
		})})
		do(ctx, t, d, "approve", "instantiate")
		s.Await(ctx, d, "InstantiateFailed")
		x, _ := explains(ctx, t, s, d, explain.ResourceRefused, nil)
		require.Len(t, x.Reasons, 1, "two clusters say the same: %+v", x.Reasons)
		require.Equal(t, 2, x.Reasons[0].Clusters)
		require.Contains(t, x.Reasons[0].Error, "data")
		require.Equal(t, "ConfigMap/"+d.Release+"-bad", x.Reasons[0].Examples[0].Resource)
	})

	t.Run("what clusters report", func(t *testing.T) {
		ctx := within(t)
		c := clusters[0]
		d := s.On(ctx, []domain.ClusterName{register(ctx, t, s, c, "agentless")}, reportedApp(t))
		do(ctx, t, d, "approve", "instantiate")
		reports(ctx, t, s, d, "status=ready", ready(1))
		harness.Until(ctx, t, "as wished", func() bool {
			x, _ := explanation(ctx, t, s, d)
			return x.AsWished && x.Summary == "everything is as wished: 4 resources are applied on 1 cluster and ready"
		})

		require.NoError(t, c.Client(t).CoreV1().ConfigMaps("default").Delete(ctx, d.Release+"-site-001", metav1.DeleteOptions{}))
		x, _ := explains(ctx, t, s, d, explain.ResourceMissing, nil)
		require.Equal(t, "ConfigMap/"+d.Release+"-site-001", x.Reasons[0].Examples[0].Resource)

		down := time.Now().Truncate(time.Second)
		c.Down()
		x, _ = explains(ctx, t, s, d, explain.ClusterUnheard, nil)
		require.Len(t, x.Reasons, 1, "nobody knows what is missing there now: %+v", x.Reasons)
		require.WithinRange(t, *x.Reasons[0].Examples[0].LastSeen, down, time.Now())
		c.Up(t)
		terminate(ctx, t, s, d, c)
	})

	t.Run("what is long over", func(t *testing.T) {
		ctx := within(t)
		var x *explain.Explanation
		harness.Until(ctx, t, "forgotten, and its cluster, which was away a moment ago, is heard", func() bool {
			x, _ = explanation(ctx, t, s, old)
			return x.Operation.Workflow.RunID == "" && x.AsWished
		})
		require.Empty(t, x.Operation.Workflow.Link)
	})

	t.Run("the worker is gone", func(t *testing.T) {
		ctx := within(t)
		d := s.Deployment(ctx, clusters[:1], many(t, 3))
		do(ctx, t, d, "approve")
		s.Worker.Kill()
		answered := make(chan error, 1)
		go func() { answered <- d.Do(ctx, "instantiate") }() // it is answered when the worker is back
		x, _ := explains(ctx, t, s, d, explain.NoWorker, nil)
		require.Contains(t, x.Summary, "instantiate is being prepared: no worker")
		s.StartWorker()
		s.Await(ctx, d, "Instantiated")
		<-answered // an error where that took too long
	})

	t.Run("the engine is gone", func(t *testing.T) {
		ctx := within(t)
		d := s.Deployment(ctx, clusters, twoApps(t)...)
		clusters[1].Down()
		do(ctx, t, d, "approve", "instantiate")
		explains(ctx, t, s, d, explain.ClusterHoldsUp, oneOfTwoDone)
		s.Temporal.Kill()
		x, text := explanation(ctx, t, s, d)
		require.Equal(t, explain.EngineSilent, x.Reasons[0].Kind, "%s", text)
		require.Equal(t, "Instantiating", string(x.Status))
		require.Contains(t, text, "nothing is recorded of the work on 1 of 2 clusters")
		t.Log("\n" + text)
		s.StartTemporal()
		clusters[1].Up(t)
		s.Await(ctx, d, "Instantiated")
	})
}
