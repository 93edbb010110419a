package bench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/test/harness"
)

// TestTimeline shows where the time of an instantiate of 500 ConfigMaps goes: every event of its workflows,
// in milliseconds from the POST.
func TestTimeline(t *testing.T) {
	if os.Getenv("DROVER_BENCH_TIMELINE") == "" {
		t.Skip("DROVER_BENCH_TIMELINE is not set")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	s := harness.NewStack(t)
	name := harness.ClusterNames[0]
	cluster := s.Register(ctx, name, harness.Kubeconfig(t, name))
	temporal := s.TemporalClient()
	for round := range 3 { // the first warms up
		d := s.On(ctx, []domain.ClusterName{cluster}, client.App{Name: "many", Chart: harness.Chart(t, "many", harness.ConfigMaps("many", 500))})
		require.NoError(t, d.Do(ctx, "approve"))
		begun := time.Now()
		since := func(at time.Time) float64 { return float64(at.Sub(begun).Microseconds()) / 1000 }
		require.NoError(t, d.Do(ctx, "instantiate"))
		answered := time.Now()
		got, err := d.Wait(ctx, eager, func(g *status.Document) bool { return g.Status != "Instantiating" })
		seen := time.Now()
		require.NoError(t, err)
		require.Equal(t, domain.ContextInstantiated, got.Status)
		time.Sleep(2 * time.Second) // until the list of workflows knows them
		list, err := temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Namespace: "drover"})
		require.NoError(t, err)
		type line struct {
			at   float64
			text string
		}
		lines := []line{{since(answered), "POST answered"}, {since(seen), "Instantiated seen"}}
		for _, e := range list.GetExecutions() {
			if e.GetStartTime().AsTime().Before(begun.Add(-time.Second)) {
				continue
			}
			events := temporal.GetWorkflowHistory(ctx, e.GetExecution().GetWorkflowId(), e.GetExecution().GetRunId(), false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
			for events.HasNext() {
				event, err := events.Next()
				require.NoError(t, err)
				what := event.GetEventType().String()
				if a := event.GetActivityTaskScheduledEventAttributes(); a != nil {
					what += " " + a.GetActivityType().GetName()
				}
				lines = append(lines, line{since(event.GetEventTime().AsTime()), fmt.Sprintf("%s %d %s", e.GetType().GetName(), event.GetEventId(), what)})
			}
		}
		slices.SortStableFunc(lines, func(a, b line) int { return int(1000 * (a.at - b.at)) })
		var b strings.Builder
		for _, l := range lines {
			fmt.Fprintf(&b, "%8.1f %s\n", l.at, l.text)
		}
		t.Logf("round %d\n%s", round, b.String())
		require.NoError(t, d.Do(ctx, "terminate"))
		_, err = d.Wait(ctx, 50*time.Millisecond, func(g *status.Document) bool { return g.Status != "Terminating" })
		require.NoError(t, err)
	}
}
