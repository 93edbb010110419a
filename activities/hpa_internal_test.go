package activities

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/policy"
)

// slowNodes are those of clusters that answer just in time, or not at all.
type slowNodes struct{ takes time.Duration }

func (s slowNodes) Nodes(ctx context.Context, _ domain.ClusterName, _ bool, _ kube.LeftOut) ([]kube.Node, error) {
	select {
	case <-time.After(s.takes):
		return nil, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// TestManySlowClustersHoldUpNoPlan: those that are not asked in time have nodes that nobody knows.
func TestManySlowClustersHoldUpNoPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Control{Nodes: slowNodes{policy.Nodes - time.Second}, dry: true}
		amounts := map[domain.ClusterName]bool{}
		for i := range 100 * nodesAtOnce {
			amounts[domain.ClusterName{Provider: "p", Name: fmt.Sprint(i)}] = true
		}
		w, begun := &wanted{}, time.Now()
		require.NoError(t, l.askNodes(t.Context(), w, amounts, kube.LeftOut{}))
		require.LessOrEqual(t, time.Since(begun), policy.NodesAll)
		require.Len(t, w.hpa.room.Nodes, len(amounts))
		known := 0
		for _, n := range w.hpa.room.Nodes {
			if n.Unknown == "" {
				known++
			} else {
				require.Equal(t, "its nodes are not known: the clusters have not told theirs in the 25s that all have together", n.Unknown)
			}
		}
		require.Greater(t, known, nodesAtOnce)
		require.Less(t, known, len(amounts))
	})
}

// TestAThousandClustersTellTheirNodesInTime: a second each, as those that have many take, or that are far away.
func TestAThousandClustersTellTheirNodesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Control{Nodes: slowNodes{time.Second}, dry: true}
		amounts := map[domain.ClusterName]bool{}
		for i := range 1000 {
			amounts[domain.ClusterName{Provider: "p", Name: fmt.Sprint(i)}] = true
		}
		w := &wanted{}
		require.NoError(t, l.askNodes(t.Context(), w, amounts, kube.LeftOut{}))
		for c, n := range w.hpa.room.Nodes {
			require.Empty(t, n.Unknown, "%s", c)
		}
	})
}

// TestAPlanWithoutTimeForNodes: who has less time than clusters may take is not told so in words of Go.
func TestAPlanWithoutTimeForNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l := &Control{Nodes: slowNodes{time.Hour}}
		nodes := l.nodesOf(ctx, domain.ClusterName{Provider: "p", Name: "c"}, policy.Nodes, false, kube.LeftOut{})
		require.Equal(t, "its nodes are not known: it took too long", nodes.Unknown)
	})
}

// TestAClusterThatHangsIsGivenUp: what is said of it is that it has not told all, as it may have so much.
func TestAClusterThatHangsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Control{Nodes: slowNodes{time.Hour}, dry: true}
		c, away := domain.ClusterName{Provider: "p", Name: "c"}, domain.ClusterName{Provider: "p", Name: "away"}
		w, begun := &wanted{unreachable: map[domain.ClusterName]bool{away: true}}, time.Now()
		require.NoError(t, l.askNodes(t.Context(), w, map[domain.ClusterName]bool{c: true, away: true}, kube.LeftOut{}))
		require.Equal(t, policy.Nodes, time.Since(begun))
		require.Equal(t, "its nodes are not known: the cluster has not told all of them in 10s", w.hpa.room.Nodes[c].Unknown)
		require.Equal(t, "its nodes are not known: the cluster has not told all of them in 5s", w.hpa.room.Nodes[away].Unknown)
	})
}
