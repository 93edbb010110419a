package test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/built"
	"github.com/drover-io/drover/internal/domain"
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
	listens := make(chan struct{})
	go func() { // once the worker has begun to wait
		defer close(listens)
		<-time.After(2 * time.Second)
		kms.Listen()
	}()
	s.StartWorker()
	<-listens
	require.Contains(t, s.Worker.Log(), `"secret keys"`)
	require.Contains(t, s.Worker.Log(), `the KMS \"vault\"`)
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
