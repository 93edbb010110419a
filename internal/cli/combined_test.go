package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
)

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
