package test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/test/harness"
)

// clusterStatusOfThousandsOfPods: a report that is larger than an object may be.
func clusterStatusOfThousandsOfPods(t *testing.T) {
	const pods = 2000
	ctx, s := within(t), harness.SharedStack(t)
	c := harness.NewCluster(t, harness.AgentClusterNames[0])
	c.DefineReports(t)
	c.StartAgent(t)
	d := s.Deployment(ctx, []*harness.Cluster{c}, client.App{Name: "site", Chart: harness.Chart(t, "site", harness.ConfigMaps("site", 1))})
	do(ctx, t, d, "approve", "instantiate")
	contextID := s.Await(ctx, d, "Instantiated").States.ContextID()
	label, began := "emco/deployment-id="+contextID+"-site", time.Now()
	c.RunPods(ctx, t, label, pods)
	t.Logf("%d Pods made in %s", pods, time.Since(began).Round(time.Millisecond))

	reports(ctx, t, s, d, "status=ready", func(r *reportedStatus) bool {
		return r.Ready == "Ready" && r.ReadyCounts["Ready"] == pods+1
	})
	fresh(ctx, t, s, d, "type=cluster&output=summary", func(r *reportedStatus) bool { return r.Counts["Present"] == pods+1 })
	parts := 0
	for name, r := range c.Reports(t) {
		if strings.Contains(name, contextID) {
			parts++
			data, err := json.Marshal(r.Object["status"])
			require.NoError(t, err)
			require.LessOrEqual(t, len(data), 1<<20)
		}
	}
	require.Greater(t, parts, 1)

	// One among thousands is seen. So much is not written every second: etcd keeps each version for a while.
	failed := harness.PodName(1234)
	c.FailPod(ctx, t, failed)
	got := reports(ctx, t, s, d, "status=ready", func(r *reportedStatus) bool { return r.ReadyCounts["NotReady"] == 1 })
	require.Equal(t, "NotReady", got.Ready)
	found := got.of("Pod")
	i := slices.IndexFunc(found, func(x reportedResource) bool { return x.Ready == "NotReady" })
	require.Equal(t, failed, found[i].Name)
	c.RemovePods(t, label)
	reports(ctx, t, s, d, "status=ready", ready(0))
	terminate(ctx, t, s, d, c)
}
