package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/built"
	"github.com/drover-io/drover/test/fleet"
)

// Fleet is a fleet of simulated clusters in a process of its own.
type Fleet struct {
	*Process
	*fleet.Remote
	Names []string
	dir   string
}

// fleetTimeout bounds what a Fleet is asked: counting goes over every cluster.
const fleetTimeout = 30 * time.Second

// StartFleet starts n simulated clusters, with more arguments.
func StartFleet(t testing.TB, n int, args ...string) *Fleet {
	t.Helper()
	f := &Fleet{dir: t.TempDir()}
	f.Process = Start(t, "fleet", "{", nil, built.Binary(t, "fleet"), append([]string{"-clusters", fmt.Sprint(n), "-kubeconfigs", f.dir}, args...)...)
	var ready fleet.Ready
	require.NoError(t, json.Unmarshal([]byte(f.Log()), &ready))
	var err error
	f.Remote, err = fleet.NewRemote(ready)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	for i := range n {
		f.Names = append(f.Names, fleet.Name(i+1))
	}
	return f
}

// Kubeconfig is that of one cluster.
func (f *Fleet) Kubeconfig(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(f.dir, name+".yaml"))
	require.NoError(t, err)
	return data
}

// Count is the number of objects in all clusters that a label selector finds.
func (f *Fleet) Count(t testing.TB, selector string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), fleetTimeout)
	defer cancel()
	n, err := f.Objects(ctx, fleet.All, selector)
	require.NoError(t, err)
	return n
}

// Harm puts faults into a cluster, or fleet.All, in place of those that are there; none heals it.
func (f *Fleet) Harm(t testing.TB, cluster string, faults ...fleet.Fault) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), fleetTimeout)
	defer cancel()
	require.NoError(t, f.Inject(ctx, cluster, faults...))
}
