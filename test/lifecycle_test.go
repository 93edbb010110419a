package test

import (
	"fmt"
	"net/url"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/idle"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/workflows"
)

// twoApps are an app of a Deployment and a Service, and one of three ConfigMaps: 5 resources a cluster.
func twoApps(t *testing.T) []client.App {
	t.Helper()
	return []client.App{
		{Name: "web", Chart: harness.Chart(t, "web", harness.Web("web"))},
		{Name: "settings", Chart: harness.Chart(t, "settings", harness.ConfigMaps("settings", 3))},
	}
}

func TestInstantiateAndTerminate(t *testing.T) {
	t.Parallel()
	ctx, s, clusters := within(t), harness.SharedStack(t), twoClusters(t)
	d := s.Deployment(ctx, clusters, twoApps(t)...)

	require.Equal(t, 409, code(t, d.Do(ctx, "instantiate")), "before it is approved")
	do(ctx, t, d, "approve", "instantiate")
	require.Equal(t, 409, code(t, d.Do(ctx, "instantiate")), "twice")
	got := s.Await(ctx, d, "Instantiated")
	require.Equal(t, map[domain.ResourceState]int{"Applied": 10}, got.Deployed)
	require.Equal(t, []string{"Created", "Approved", "Instantiated"}, states(got))
	for _, c := range clusters {
		require.Len(t, c.Labelled(t, got.States.ContextID()), 5, "on %s", c.Name)
	}

	do(ctx, t, d, "terminate")
	got = s.Await(ctx, d, "Terminated")
	require.Equal(t, map[domain.ResourceState]int{"Deleted": 10}, got.Deployed)
	for _, c := range clusters {
		require.Empty(t, c.Labelled(t, got.States.ContextID()), "on %s", c.Name)
	}
	require.Equal(t, 409, code(t, d.Do(ctx, "terminate")), "twice")

	first := got.States.ContextID()
	do(ctx, t, d, "instantiate")
	again := s.Await(ctx, d, "Instantiated")
	require.NotEqual(t, first, again.States.ContextID())
	earlier, err := d.Status(ctx, url.Values{"output": {"summary"}, "instance": {first}})
	require.NoError(t, err)
	require.Equal(t, domain.ContextTerminated, earlier.Status)
	require.Equal(t, map[domain.ResourceState]int{"Deleted": 10}, earlier.Deployed)
	do(ctx, t, d, "terminate")
	s.Await(ctx, d, "Terminated")
}

// TestLittleIsDoneAtOnce looks at the workflows of leaves: their work, which is little, is done in their own task, and no
// activity is scheduled for it. Of 12 leaves nine at least are done so, by an instantiate and by a terminate. A leaf has 600 ms
// for that; what a machine does that is more than four times too slow says nothing, and is done again.
func TestLittleIsDoneAtOnce(t *testing.T) { // alone, as the others make the machine slow
	const most = 4
	ctx, s, clusters := within(t), harness.SharedStack(t), twoClusters(t)
	temporal := s.TemporalClient()
	apps := make([]client.App, 6)
	for i := range apps {
		name := fmt.Sprintf("little%d", i)
		apps[i] = client.App{Name: name, Chart: harness.Chart(t, name, harness.ConfigMaps(name, 3))}
	}
	// count counts the leaves of an operation, and those that were done at once.
	count := func(d *client.Deployment, contextID string, operation domain.Operation) (leaves, atOnce int) {
		for _, app := range apps {
			for _, c := range d.Clusters {
				tasks, activities := 0, 0
				leaf := workflows.LeafID(scope(d, contextID, operation), app.Name, c)
				events := temporal.GetWorkflowHistory(ctx, leaf, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
				for events.HasNext() {
					e, err := events.Next()
					require.NoError(t, err)
					switch e.GetEventType() {
					case enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
						tasks++
					case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
						activities++
					default:
					}
				}
				if leaves++; tasks == 1 && activities == 0 {
					atOnce++
				}
			}
		}
		return leaves, atOnce
	}
	said := map[domain.Operation]bool{}
	harness.Until(ctx, t, "quick enough a machine to say", func() bool {
		d := s.Deployment(ctx, clusters, apps...)
		do(ctx, t, d, "approve")
		for _, step := range []struct {
			operation domain.Operation
			ends      domain.ContextStatus
		}{{domain.OpInstantiate, "Instantiated"}, {domain.OpTerminate, "Terminated"}} {
			operation := step.operation
			clock := idle.Start(t)
			do(ctx, t, d, operation)
			got := s.Await(ctx, d, step.ends)
			quiet, wall := clock.Read()
			clock.Stop()
			leaves, atOnce := count(d, got.States.ContextID(), operation)
			t.Logf("%s: %d of %d leaves at once, in %s, which are %s on an idle machine", operation, atOnce, leaves, wall, quiet)
			if wall > most*quiet {
				continue
			}
			said[operation] = true
			require.GreaterOrEqual(t, 4*atOnce, 3*leaves, "%s: %d of %d leaves were done at once", operation, atOnce, leaves)
		}
		return len(said) == 2
	})
}

func TestPlacementIsRecordedAndShown(t *testing.T) {
	t.Parallel()
	ctx, s, clusters := within(t), harness.SharedStack(t), twoClusters(t)
	d := s.Deployment(ctx, clusters, many(t, 1))
	place := func(where domain.Placement) error {
		_, err := d.API.Put(ctx, d.PlacementOf("many", where), nil)
		return err
	}
	named := func(name string) domain.ClusterName {
		return domain.ClusterName{Provider: d.Clusters[0].Provider, Name: name}
	}
	do(ctx, t, d, "approve")
	require.NoError(t, place(domain.Placement{AnyOf: []domain.Clusters{
		harness.One(named(harness.ClusterNames[1])), harness.One(named(harness.ClusterNames[0])),
	}}))
	got, err := d.Summary(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"Created", "Approved", "Created"}, states(got), "a change unapproves")
	do(ctx, t, d, "approve", "instantiate")
	s.Await(ctx, d, "Instantiated")
	got, err = d.Status(ctx, url.Values{"output": {"detail"}})
	require.NoError(t, err)
	require.Len(t, got.Apps[0].Clusters, 1)
	require.Equal(t, harness.ClusterNames[0], got.Apps[0].Clusters[0].Name)
	require.Equal(t, "anyOf: first of 2", got.Apps[0].Clusters[0].Placement)
	// What is written while it is instantiated is for the next update; the instance stays what it is.
	require.NoError(t, place(harness.All(named(harness.ClusterNames[1]))))
	got, err = d.Status(ctx, url.Values{"output": {"all"}})
	require.NoError(t, err)
	require.Equal(t, domain.Instantiated, got.States.State())
	require.Equal(t, harness.ClusterNames[0], got.Apps[0].Clusters[0].Name)
	require.Equal(t, 409, code(t, d.API.Delete(ctx, d.Key())), "while it is instantiated")
	do(ctx, t, d, "terminate")
	s.Await(ctx, d, "Terminated")

	const outside = "outside"
	_, err = d.API.Create(ctx, &domain.Cluster{
		Identity: domain.Identity{Parent: domain.Join(domain.ClusterProviders.Collection, d.Clusters[0].Provider)}, Metadata: domain.Metadata{Name: outside},
	}, clusters[0].Kubeconfig(t))
	require.NoError(t, err)
	require.NoError(t, place(harness.All(named(outside))))
	before, err := d.Summary(ctx)
	require.NoError(t, err)
	err = d.Do(ctx, "approve")
	require.Equal(t, 400, code(t, err))
	require.ErrorContains(t, err, outside)
	got, err = d.Summary(ctx)
	require.NoError(t, err)
	require.Equal(t, states(before), states(got), "a refusal leaves nothing behind")
}

func states(s *status.Document) []string {
	var states []string
	for _, a := range s.States.Actions {
		states = append(states, string(a.State))
	}
	return slices.Clip(states)
}
