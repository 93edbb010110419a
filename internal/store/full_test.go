package store_test

import (
	"bufio"
	"crypto/rand"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/built"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/store"
)

// TestAFullDisk fills a small one, for which it must be allowed to mount.
func TestAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=24m"); err != nil {
		t.Skipf("a small disk cannot be mounted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	server := exec.CommandContext(t.Context(), built.Binary(t, "drover-local"), "mongo", "--dir", filepath.Join(dir, "documents"), "--port", "0", "--log-level", "error")
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	said, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	line, err := bufio.NewReader(said).ReadString('\n')
	require.NoError(t, err)
	uri := strings.TrimPrefix(strings.TrimSpace(line), "ready mongo uri=")
	s, err := store.Open(store.Config{URI: uri, Database: "full"})
	require.NoError(t, err)
	defer s.Close(t.Context())
	require.NoError(t, s.EnsureIndexes(t.Context())) // as every process does, which makes the tables
	require.NoError(t, s.Ready(t.Context()))

	const most = 256
	for i := 0; err == nil && i < most; i++ {
		data := make([]byte, 256<<10)
		_, _ = rand.Read(data)
		_, err = s.PutBlob(t.Context(), data)
	}
	require.Equal(t, fail.Unavailable, fail.KindOf(err), "%v", err)
	require.Contains(t, fail.TextOf(err), "disk is full")
	require.NotZero(t, fail.RetryAfterOf(err))
	require.NoError(t, s.Ping(t.Context()), "which does not notice")
	require.Eventually(t, func() bool { // small things may find room in what is there
		data := make([]byte, 4<<10)
		_, _ = rand.Read(data)
		_, _ = s.PutBlob(t.Context(), data)
		err = s.Ready(t.Context())
		return err != nil
	}, time.Minute, time.Millisecond)
	require.Contains(t, fail.TextOf(err), "disk is full")
}
