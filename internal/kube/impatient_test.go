package kube_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/kubetest"
)

// TestAProgramThatHangsHoldsUpNoCall: what finds credentials is waited for no longer than for an answer.
func TestAProgramThatHangsHoldsUpNoCall(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	user := clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode, Command: "cat", Args: []string{pipe},
	}}
	c := kubetest.Open(t, kube.Config{Allowed: kube.Allowed{Exec: true}}, kubeconfig(t, clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}, user))
	ctx, cancel := context.WithCancel(t.Context())
	said := make(chan error, 1)
	go func() { said <- c.Ping(ctx) }()
	writer, err := os.OpenFile(pipe, os.O_WRONLY, 0) // when the program reads
	require.NoError(t, err)
	cancel()
	require.Error(t, <-said)
	require.NoError(t, writer.Close()) // the program ends
}

// TestAKubeconfigsPipeIsNotRead: it would be waited for without end.
func TestAKubeconfigsPipeIsNotRead(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	err := kube.Config{Allowed: kube.Allowed{Files: true}}.CheckKubeconfig(
		kubeconfig(t, clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}, clientcmdapi.AuthInfo{TokenFile: pipe}))
	require.True(t, fail.Is(err, fail.Invalid), "%v", err)
	require.ErrorContains(t, err, "no regular file")
}
