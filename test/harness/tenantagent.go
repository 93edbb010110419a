package harness

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/built"
	"github.com/drover-io/drover/internal/freeport"
)

// TenantAgent is a process that tells what runs in a tenant's cluster.
type TenantAgent struct {
	*Process
	url string // of health and metrics
}

// StartTenantAgent starts a program of build/bin as one in a shared cluster, past all proxies. It dies with the test.
func StartTenantAgent(t testing.TB, program, cluster string, args ...string) *TenantAgent {
	t.Helper()
	kubeconfig, listen := filepath.Join(t.TempDir(), "kubeconfig"), freeport.Address()
	require.NoError(t, os.WriteFile(kubeconfig, Kubeconfig(t, cluster), 0o600))
	return &TenantAgent{
		Process: Start(t, "agent of a tenant", "ready", nil, built.Binary(t, program),
			append([]string{"tenant-agent", "--kubeconfig", kubeconfig, "--metrics-listen", listen}, args...)...),
		url: "http://" + listen,
	}
}

// Metric is what the agent shows by a name without the part that all of them share; 0 for what it does not show.
func (a *TenantAgent) Metric(ctx context.Context, t testing.TB, name string) float64 {
	t.Helper()
	return Metrics(ctx, t, a.url)["drover_tenant_agent_"+name]
}
