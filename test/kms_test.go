package test

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/built"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/freeport"
	"github.com/drover-io/drover/internal/kmstest"
	"github.com/drover-io/drover/test/harness"
)

// TestAKMSHasTheKeys that seal the store. While it is away operations go on; a process that starts waits for it and says so; another key of
// its own seals everything while the product runs.
func TestAKMSHasTheKeys(t *testing.T) {
	t.Parallel()
	ctx, kms, cluster := within(t), kmstest.Start(t), harness.NewCluster(t, harness.ClusterNames[0])
	s := harness.NewStackOn(t, harness.Servers{Keys: kms.Line("vault") + "\n"})
	d := s.On(ctx, []domain.ClusterName{s.Register(ctx, cluster.Name, cluster.Kubeconfig(t))}, many(t, 3))
	do(ctx, t, d, "approve", "instantiate")
	s.Await(ctx, d, "Instantiated")

	kms.Stop()
	do(ctx, t, d, "terminate")
	s.Await(ctx, d, "Terminated")
	s.Worker.Kill()
	waiting := exec.CommandContext(ctx, built.Binary(t, "drover"), "worker")
	waiting.Env = append(append(waiting.Environ(), s.Env()...), "DROVER_METRICS_LISTEN="+freeport.Address())
	said, err := waiting.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, waiting.Start())
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if strings.Contains(lines.Text(), `"secret keys"`) {
			break
		}
	}
	require.Contains(t, lines.Text(), `the KMS \"vault\"`)
	kms.Listen()
	require.NoError(t, waiting.Process.Kill())
	_ = waiting.Wait()
	s.StartWorker()
	do(ctx, t, d, "approve", "instantiate")
	s.Await(ctx, d, "Instantiated")

	kms.Rotate("2")
	rotated := func() string {
		cmd := exec.CommandContext(ctx, built.Binary(t, "drover"), "keys", "rotate")
		cmd.Env = append(os.Environ(), s.Env()...)
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	harness.Until(ctx, t, "sealed by the new key alone", func() bool { // processes ask now and then which key seals
		return strings.Contains(rotated(), "key vault@2 seals everything")
	})
	do(ctx, t, d, "terminate")
	s.Await(ctx, d, "Terminated")
}
