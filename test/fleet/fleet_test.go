package fleet_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/test/fleet"
)

func start(t testing.TB, config fleet.Config) *fleet.Fleet {
	t.Helper()
	config.Clusters = max(config.Clusters, 1)
	f, err := fleet.Start(config)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	return f
}

func TestFleetBehavesAsRealClusters(t *testing.T) {
	t.Parallel()
	f := start(t, fleet.Config{})
	kubetest.Suite(t, f.Kubeconfig(fleet.Name(1)))
}
