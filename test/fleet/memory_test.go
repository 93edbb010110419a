package fleet_test

import (
	"fmt"
	"net/http"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-io/drover/test/fleet"
)

// Memory of a fleet of the size of the scale figures, full.
func TestMemoryOfAThousandClusters(t *testing.T) {
	const clusters, objects, limit = 1000, 36, 1 << 30
	before := heapInUse()
	f := start(t, fleet.Config{Clusters: clusters})
	empty := heapInUse()
	config, err := clientcmd.RESTConfigFromKubeConfig(f.Kubeconfig(fleet.Name(1)))
	require.NoError(t, err)
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	var g errgroup.Group
	g.SetLimit(runtime.NumCPU())
	for _, name := range f.Names() {
		config, err := clientcmd.RESTConfigFromKubeConfig(f.Kubeconfig(name))
		require.NoError(t, err)
		g.Go(func() error {
			for i := range objects {
				if err := applyConfigMap(client, config.Host, fmt.Sprintf("a%d", i), http.StatusCreated); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	n, err := f.Objects(fleet.All, "emco/deployment-id=1-a")
	require.NoError(t, err)
	require.Equal(t, clusters*objects, n)
	full := heapInUse()
	t.Logf("heap in use: %d MiB for %d empty clusters, %d MiB with %d objects", (empty-before)>>20, clusters, (full-before)>>20, n)
	require.Less(t, full, uint64(limit))
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}
