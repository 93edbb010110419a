package test

import (
	"testing"

	"github.com/drover-io/drover/test/harness"
)

// TestWithAgents has the tests in which agents report, one after the other, as they have clusters of their own together, and beside all others.
func TestWithAgents(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		name string
		test func(*testing.T)
	}{
		{"ClusterStatus", clusterStatus},
		{"ClusterStatusOfThousandsOfPods", clusterStatusOfThousandsOfPods},
		{"ClusterStatusWithoutAnAPIServer", clusterStatusWithoutAnAPIServer},
		{"CombinedStatus", combinedStatus},
		{"MatchesOfClustersWithAnAgent", matchesOfClustersWithAnAgent},
		{"ReadinessRule", readinessRule},
		{"AgentsSendTraces", agentsSendTraces},
	} {
		t.Run(one.name, one.test)
	}
}

// clustersOfAgents are edge03 and edge04, each behind a proxy of the test's own.
func clustersOfAgents(t *testing.T) []*harness.Cluster {
	t.Helper()
	return []*harness.Cluster{harness.NewCluster(t, harness.AgentClusterNames[0]), harness.NewCluster(t, harness.AgentClusterNames[1])}
}
