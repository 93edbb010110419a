package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
)

// TestWhyThereAreNoTables is said as it is.
func TestWhyThereAreNoTables(t *testing.T) {
	w := newWorld(t)
	status := domain.ContextInstantiated
	w.engine.does = func(s domain.Scope) (int, []string, error) {
		w.stand(s.Owner, domain.Instantiated, status, 1)
		return 1, nil, nil
	}
	w.done("deploy", w.chart(), "--name", "web", "--clusters", "edge01")
	require.Contains(t, w.run("combined", "web").err, "No status intent of the group names a status collector for an object that it has.\n")
	require.Contains(t, w.run("combined", "web", "--kind", "Pod").err, "No object and collector that are asked for have a table.\n")
	w.stand("projects/default/composite-apps/web/v1/deployment-intent-groups/web", domain.Terminated, domain.ContextTerminated, 1)
	for _, args := range [][]string{{}, {"--kind", "Pod"}} {
		require.Contains(t, w.run(append([]string{"combined", "web"}, args...)...).err, "The group has nothing in clusters, so that there are no tables.\n")
	}
}

// TestCollectorsAreCompletedAsIntentsNameThem: a filter by another name is refused.
func TestCollectorsAreCompletedAsIntentsNameThem(t *testing.T) {
	w := newWorld(t)
	w.engine.does = func(s domain.Scope) (int, []string, error) {
		w.stand(s.Owner, domain.Instantiated, domain.ContextInstantiated, 1)
		return 1, nil, nil
	}
	w.done("deploy", w.chart(), "--name", "web", "--clusters", "edge01")
	w.done("apply", "-f", w.file("collectors.yaml", `resourceContext: {anchor: status-collectors}
metadata: {name: availability}
spec: {combinedFields: [{name: n, type: COUNT}]}
---
resourceContext: {anchor: projects/default/status-collectors}
metadata: {name: own}
spec: {combinedFields: [{name: n, type: COUNT}]}
---
resourceContext: {anchor: projects/default/composite-apps/web/v1/deployment-intent-groups/web/status-intents}
metadata: {name: all}
spec: {statusCollectors: [fleet/availability, own]}
`))
	require.Equal(t, "fleet/availability\nown\n:4\n", w.done("__complete", "combined", "web", "--collector", ""))
	for _, collector := range []string{"fleet/availability", "own"} {
		w.done("combined", "web", "--collector", collector, "--resource", "web")
	}
	require.Contains(t, w.run("combined", "web", "--collector", "availability").err, "fleet/availability, own")
}
