// Package postgrestest gives tests a PostgreSQL server.
package postgrestest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/freeport"
	"github.com/drover-io/drover/internal/tether"
)

// deadline bounds the start and the end of a server.
const deadline = 2 * time.Minute

// Server is a PostgreSQL server with the settings it is installed with.
type Server struct {
	URL string // of the database temporal, which need not exist
	PID int
}

// Start starts a server, which ends with the test. It skips the test where PostgreSQL is not installed.
func Start(t testing.TB) *Server {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	require.NoError(t, err)
	if len(found) == 0 {
		t.Skip("PostgreSQL is not installed: there is no /usr/lib/postgresql/*/bin")
	}
	dir, err := os.MkdirTemp("", "drover-postgres") //nolint:usetesting // into the test's own no other user may look
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	attributes := &syscall.SysProcAttr{}
	if os.Getuid() == 0 { // as whom it refuses to run
		attributes.Credential = postgres(t)
		require.NoError(t, os.Chown(dir, int(attributes.Credential.Uid), int(attributes.Credential.Gid)))
	}
	command := func(program string, arguments ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(found[len(found)-1], program), arguments...)
		cmd.Dir, cmd.SysProcAttr = dir, attributes
		return cmd
	}
	data, port := filepath.Join(dir, "data"), strconv.Itoa(freeport.Block(1)[0])
	out, err := command("initdb", "--pgdata", data, "--username", "postgres",
		"--auth", "trust", "--no-locale", "--encoding", "UTF8", "--no-sync").CombinedOutput()
	require.NoError(t, err, string(out))
	cmd := command("postgres", "-D", data, "-k", dir, "-h", "127.0.0.1", "-p", port, "-c", "log_line_prefix=")
	ended := launch(t, cmd)
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT) // disconnects whoever is connected; it may have ended
		select {
		case <-ended:
		case <-time.After(deadline):
			t.Error("PostgreSQL does not end")
			_ = cmd.Process.Kill()
		}
	})
	return &Server{URL: "postgres://postgres@127.0.0.1:" + port + "/temporal?sslmode=disable", PID: cmd.Process.Pid}
}

// launch starts the server and waits until it is ready.
func launch(t testing.TB, cmd *exec.Cmd) (ended chan struct{}) {
	t.Helper()
	log, err := cmd.StderrPipe()
	require.NoError(t, err)
	ended = make(chan struct{})
	ready := make(chan string, 1)
	require.NoError(t, tether.Start(cmd, syscall.SIGKILL))
	go func() {
		defer close(ended)
		var said strings.Builder
		for lines := bufio.NewScanner(log); lines.Scan(); {
			fmt.Fprintln(&said, lines.Text())
			if strings.HasPrefix(lines.Text(), "LOG:  database system is ready") {
				ready <- ""
			}
		}
		_ = cmd.Wait() // what it says is in the log
		select {
		case ready <- "it has ended: " + said.String():
		default: // it was ready
		}
	}()
	select {
	case failure := <-ready:
		require.Empty(t, failure)
	case <-time.After(deadline):
		_ = cmd.Process.Kill()
		require.FailNow(t, "PostgreSQL is not ready in time")
	}
	return ended
}

// postgres is the user as whom PostgreSQL runs.
func postgres(t testing.TB) *syscall.Credential {
	t.Helper()
	u, err := user.Lookup("postgres")
	if err != nil {
		t.Skip("PostgreSQL does not run as root, and there is no user postgres")
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	require.NoError(t, err)
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	require.NoError(t, err)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}
