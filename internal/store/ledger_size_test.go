package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/storetest"
)

// What a workload and a match may take in the database, in bytes, with all that is kept beside.
const (
	workloadStoredBytes = 2048
	matchStoredBytes    = 1024
)

// TestWhatLedgersTake: with what changes have left of earlier states.
func TestWhatLedgersTake(t *testing.T) {
	c := storetest.Config(t)
	s := storetest.Open(t, c)
	const count = 1000
	stream := begin(t, s)
	_, err := s.WriteWorkloads(t.Context(), "t", &domain.WorkloadWrite{Begun: stream.Begun, Put: workloads(0, count)})
	require.NoError(t, err)
	var matches []domain.Match
	for n := range count {
		m := match(n)
		m.Due = time.UnixMilli(1e12)
		m.Wanted = &domain.Wanted{Cluster: domain.ClusterName{Provider: "provider", Name: "edge"}, Spec: strings.Repeat("5", 32), Annotations: strings.Repeat("a", 32)}
		matches = append(matches, m)
	}
	require.NoError(t, s.WriteMatches(t.Context(), "t", matches, nil))
	for n := range 2 * count {
		w := workload(n % count)
		w.Ready = n < count
		_, err := s.WriteWorkloads(t.Context(), "t", &domain.WorkloadWrite{Begun: stream.Begun, Put: []*domain.Workload{w}})
		require.NoError(t, err)
		m := matches[n%count]
		m.Mark, m.Attempts = domain.MarkSent, n
		m.Made = &domain.Made{Cluster: m.Wanted.Cluster, Version: "v1", Kind: "Pod", Namespace: "tenant-t", Name: "nginx-0123456789", UID: strings.Repeat("u", 36), Spec: m.Wanted.Spec, Annotations: m.Wanted.Annotations}
		one := []domain.Match{m}
		require.NoError(t, s.WriteMatches(t.Context(), "t", one, nil))
		matches[n%count] = one[0]
	}
	client, err := mongo.Connect(options.Client().ApplyURI(c.URI))
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Disconnect(t.Context())) }()
	taken := func(prefix string) (bytes int) {
		names, err := client.Database(c.Database).ListCollectionNames(t.Context(), bson.D{})
		require.NoError(t, err)
		for _, name := range names {
			if !strings.HasPrefix(name, prefix) {
				continue
			}
			cursor, err := client.Database(c.Database).Collection(name).Find(t.Context(), bson.D{})
			require.NoError(t, err)
			for cursor.Next(t.Context()) {
				bytes += len(cursor.Current)
			}
			require.NoError(t, cursor.Err())
		}
		return bytes
	}
	workloadBytes, matchBytes := taken("workloads-")/count, taken("matches-")/count
	t.Logf("workload_stored_bytes %d, match_stored_bytes %d", workloadBytes, matchBytes)
	require.NotZero(t, workloadBytes)
	require.NotZero(t, matchBytes)
	require.LessOrEqual(t, workloadBytes, workloadStoredBytes)
	require.LessOrEqual(t, matchBytes, matchStoredBytes)
}
