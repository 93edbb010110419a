package store_test

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/built"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
	"github.com/drover-io/drover/internal/tether"
)

// TestAFullDisk fills a small one, for which it must be allowed to mount.
func TestAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=24m"); err != nil {
		if os.Getenv("DROVER_TEST_REQUIRE") != "" && os.Geteuid() == 0 {
			t.Fatalf("a small disk cannot be mounted: %v", err)
		}
		t.Skipf("a small disk cannot be mounted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	server := exec.CommandContext(t.Context(), built.Binary(t, "drover-local"), "mongo", "--dir", filepath.Join(dir, "documents"), "--port", "0", "--log-level", "error")
	said, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, tether.Start(server, syscall.SIGKILL))
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	line, err := bufio.NewReader(said).ReadString('\n')
	require.NoError(t, err)
	uri := strings.TrimPrefix(strings.TrimSpace(line), "ready mongo uri=")
	s, err := store.Open(store.Config{URI: uri, Database: "full", Keys: storetest.Keys})
	require.NoError(t, err)
	defer s.Close(t.Context())
	require.NoError(t, s.EnsureIndexes(t.Context())) // as every process does, which makes the tables
	require.NoError(t, s.Ready(t.Context()))

	// Only what has its table already is written from here on: the embedded database keeps half of a table whose making
	// fails, and then says of the other half that it is there.
	some := 0
	write := func() error {
		some++
		return s.Create(t.Context(), &domain.Project{Metadata: domain.Metadata{Name: fmt.Sprintf("p%d", some)}})
	}
	require.NoError(t, write())
	ballast, err := os.Create(filepath.Join(dir, "ballast"))
	require.NoError(t, err)
	_, err = io.Copy(ballast, rand.Reader)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, ballast.Close())
	const most = 10_000 // there may be room in the database's own files
	for err = write(); err == nil && some < most; {
		err = write()
	}
	require.Equal(t, fail.Unavailable, fail.KindOf(err), "%v", err)
	require.Contains(t, fail.TextOf(err), "disk is full")
	require.NotZero(t, fail.RetryAfterOf(err))
	require.NoError(t, s.Ping(t.Context()), "which does not notice")
	require.Eventually(t, func() bool { // small things may find room in what is there
		err = s.Ready(t.Context())
		return err != nil
	}, time.Minute, time.Millisecond)
	require.Contains(t, fail.TextOf(err), "disk is full")

	require.NoError(t, os.Remove(ballast.Name()))
	require.NoError(t, write(), "as soon as there is room")
	require.NoError(t, s.Ready(t.Context()))
}
