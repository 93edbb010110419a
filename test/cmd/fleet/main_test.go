package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/test/fleet"
)

func TestRunServesUntilItIsEnded(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	in, out := io.Pipe()
	dir := filepath.Join(t.TempDir(), "kubeconfigs")
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, fleet.Config{Clusters: 3}, dir, out) }()
	var ready fleet.Ready
	require.NoError(t, json.NewDecoder(in).Decode(&ready))
	require.Equal(t, 3, ready.Clusters)

	kubeconfig, err := os.ReadFile(filepath.Join(dir, "edge0003.yaml"))
	require.NoError(t, err)
	cluster := kubetest.Open(t, kube.Config{}, kubeconfig)
	require.NoError(t, cluster.Ping(t.Context()))
	remote, err := fleet.NewRemote(ready)
	require.NoError(t, err)
	defer remote.Close()
	counts, err := remote.Requests(t.Context(), "edge0003")
	require.NoError(t, err)
	require.Equal(t, int64(1), counts["other"])

	cancel()
	require.NoError(t, <-ended)
	require.Error(t, cluster.Ping(t.Context()))
}
