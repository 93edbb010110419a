package harness

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Postgres is a PostgreSQL server with the settings it is installed with.
type Postgres struct {
	*Process
	URL string // of the database temporal, which need not exist
}

// postgresStop bounds the end of a PostgreSQL server.
const postgresStop = 10 * time.Second

// StartPostgres starts a PostgreSQL server, which ends with the test. It skips the test where PostgreSQL is
// not installed.
func StartPostgres(t testing.TB) *Postgres {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	require.NoError(t, err)
	if len(found) == 0 {
		t.Skip("PostgreSQL is not installed: there is no /usr/lib/postgresql/*/bin")
	}
	bin := found[len(found)-1]
	dir, err := os.MkdirTemp("", "drover-postgres") // not the test's, into which no other user may look
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	var as *syscall.Credential
	if os.Getuid() == 0 { // as whom it refuses to run
		as = postgresUser(t)
		require.NoError(t, os.Chown(dir, int(as.Uid), int(as.Gid)))
	}
	data, port := filepath.Join(dir, "data"), fmt.Sprint(FreePorts(1)[0])
	initdb := exec.Command(filepath.Join(bin, "initdb"), "--pgdata", data, "--username", "postgres",
		"--auth", "trust", "--no-locale", "--encoding", "UTF8", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
	out, err := initdb.CombinedOutput()
	require.NoError(t, err, string(out))
	// It says on standard error that it is ready, and Process reads standard output.
	cmd := exec.Command("/bin/sh", "-c", `exec "$0" "$@" 2>&1`, filepath.Join(bin, "postgres"),
		"-D", data, "-k", dir, "-h", "127.0.0.1", "-p", port, "-c", "log_line_prefix=")
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
	p := &Postgres{URL: fmt.Sprintf("postgres://postgres@127.0.0.1:%s/temporal?sslmode=disable", port)}
	p.Process, err = launch("postgres", "LOG:  database system is ready", cmd)
	require.NoError(t, err)
	t.Cleanup(p.stop)
	return p
}

// stop disconnects whoever is connected, and ends the server.
func (p *Postgres) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-p.done:
	case <-time.After(postgresStop):
		p.Kill()
	}
}

// CPU is the time that the server and the processes of its connections have spent on processors, user and
// system.
func (p *Postgres) CPU(t testing.TB) time.Duration {
	t.Helper()
	self, err := readStat(p.PID())
	require.NoError(t, err)
	total := self.own + self.ended
	all, err := os.ReadDir("/proc")
	require.NoError(t, err)
	for _, entry := range all {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if s, err := readStat(pid); err == nil && s.parent == p.PID() { // one that has ended meanwhile has no stat
			total += s.own
		}
	}
	return total
}

func postgresUser(t testing.TB) *syscall.Credential {
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
