// Package test has the end-to-end tests: real servers, real clusters, the product as processes, REST only.
package test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/test/harness"
)

func TestMain(m *testing.M) {
	code := m.Run()
	harness.StopClusters()
	os.Exit(code)
}

// within bounds a test.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// twoClusters are edge01 and edge02, each behind a proxy of the test's own.
func twoClusters(t *testing.T) []*harness.Cluster {
	t.Helper()
	return []*harness.Cluster{harness.NewCluster(t, harness.ClusterNames[0]), harness.NewCluster(t, harness.ClusterNames[1])}
}

func do(ctx context.Context, t *testing.T, s *harness.Stack, d *client.Deployment, operations ...string) {
	t.Helper()
	for _, op := range operations {
		require.NoError(t, d.Do(ctx, s.Client, op), op)
	}
}

// code is the status code of a refused request.
func code(t *testing.T, err error) int {
	t.Helper()
	var refused *client.Error
	require.ErrorAs(t, err, &refused)
	return refused.Code
}
