package temporal_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdktemporal "go.temporal.io/sdk/temporal"

	"github.com/drover-io/drover/deploy/local/temporal"
)

func TestWorkflowOnPostgres(t *testing.T) {
	c := temporal.Config{
		Postgres:         startPostgres(t),
		SearchAttributes: map[string]enumspb.IndexedValueType{"DroverProject": keyword},
	}
	s := mustStart(t, c)
	cl := dial(t, s)
	stopWorker := work(t, cl)
	project := sdktemporal.NewSearchAttributeKeyKeyword("DroverProject")
	options := client.StartWorkflowOptions{
		ID: "survivor", TaskQueue: taskQueue, TypedSearchAttributes: sdktemporal.NewSearchAttributes(project.ValueSet("p1")),
	}
	if _, err := cl.ExecuteWorkflow(t.Context(), options, WaitForSignal); err != nil {
		t.Fatal(err)
	}
	t.Run("a second server is refused", func(t *testing.T) {
		if second, err := temporal.Start(t.Context(), c); err == nil {
			mustStop(t, second)
			t.Error("it started")
		} else if !strings.Contains(err.Error(), "another server is using it") {
			t.Error(err)
		}
	})
	stopWorker()
	mustStop(t, s)

	// The databases exist now, with an attribute less than is wanted.
	c.SearchAttributes = map[string]enumspb.IndexedValueType{"N": number}
	s = start(t, c)
	cl = dial(t, s)
	t.Cleanup(work(t, cl))
	if err := cl.SignalWorkflow(t.Context(), "survivor", "", "go", "after restart"); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := cl.GetWorkflow(t.Context(), "survivor", "").Get(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	if got != "after restart" {
		t.Errorf("result %q", got)
	}
	options.ID = "numbered"
	options.TypedSearchAttributes = sdktemporal.NewSearchAttributes(project.ValueSet("p1"), sdktemporal.NewSearchAttributeKeyInt64("N").ValueSet(1))
	if _, err := cl.ExecuteWorkflow(t.Context(), options, One); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both workflows are found by their search attribute", func() error {
		r, err := cl.CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{
			Query: `DroverProject = "p1" AND ExecutionStatus = "Completed"`,
		})
		if err == nil && r.GetCount() != 2 {
			err = fmt.Errorf("%d workflows found", r.GetCount())
		}
		return err
	})
}

func TestPostgresConfigIsChecked(t *testing.T) {
	for name, test := range map[string]struct {
		config temporal.Config
		want   string
	}{
		"a file as well":   {temporal.Config{DBFile: filepath.Join(t.TempDir(), "temporal.db"), Postgres: "postgres://u@127.0.0.1/temporal"}, "only one of --db and --postgres"},
		"another scheme":   {temporal.Config{Postgres: "mysql://u:secret@127.0.0.1/temporal"}, "postgres://"},
		"no user":          {temporal.Config{Postgres: "postgres://127.0.0.1/temporal"}, "postgres://"},
		"no database":      {temporal.Config{Postgres: "postgres://u:secret@127.0.0.1/"}, "postgres://"},
		"not a URL":        {temporal.Config{Postgres: "postgres://u:secret%@127.0.0.1/temporal"}, "postgres://"},
		"nobody listening": {temporal.Config{Postgres: fmt.Sprintf("postgres://u:secret@127.0.0.1:%d/temporal", freePort(t))}, "create temporal databases on 127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := temporal.Start(t.Context(), test.config)
			if err == nil {
				mustStop(t, s)
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %q lacks %q", err, test.want)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("error %q shows the password", err)
			}
		})
	}
}

// BenchmarkFanOutOnPostgres is BenchmarkFanOut on PostgreSQL.
func BenchmarkFanOutOnPostgres(b *testing.B) {
	c := dial(b, start(b, temporal.Config{Postgres: startPostgres(b)}))
	b.Cleanup(work(b, c))
	fanOut(b, c)
}

// startPostgres runs a PostgreSQL server until the test ends and returns the URL
// of a database that does not exist in it yet.
func startPostgres(tb testing.TB) string {
	tb.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(found) == 0 {
		tb.Skip("PostgreSQL is not installed: there is no /usr/lib/postgresql/*/bin")
	}
	bin := found[len(found)-1]
	dir, err := os.MkdirTemp("", "drover-postgres") // not the test's, into which no other user may look
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	as := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 { // as whom it refuses to run
		as.Credential = postgresUser(tb)
		if err := os.Chown(dir, int(as.Credential.Uid), int(as.Credential.Gid)); err != nil {
			tb.Fatal(err)
		}
	}
	command := func(program string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, program), args...)
		cmd.SysProcAttr, cmd.Dir = as, dir
		return cmd
	}
	data := filepath.Join(dir, "data")
	if out, err := command("initdb", "--pgdata", data, "--username", "postgres", "--auth", "trust", "--no-locale", "--encoding", "UTF8", "--no-sync").CombinedOutput(); err != nil {
		tb.Fatalf("initdb: %v\n%s", err, out)
	}
	port := fmt.Sprint(freePort(tb))
	var log strings.Builder
	server := command("postgres", "-D", data, "-k", dir, "-h", "127.0.0.1", "-p", port)
	server.Stderr = &log
	runtime.LockOSThread() // with whose end Pdeathsig comes
	if err := server.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := errors.Join(server.Process.Signal(syscall.SIGINT), server.Wait()); err != nil {
			tb.Errorf("stop PostgreSQL: %v\n%s", err, log.String())
		}
		runtime.UnlockOSThread()
	})
	url := "postgres://postgres@127.0.0.1:" + port
	eventually(tb, "PostgreSQL answers", func() error {
		conn, err := pgx.Connect(tb.Context(), url+"/postgres")
		if err != nil {
			return err
		}
		return conn.Close(context.WithoutCancel(tb.Context()))
	})
	return url + "/temporal?sslmode=disable"
}

func postgresUser(tb testing.TB) *syscall.Credential {
	tb.Helper()
	u, err := user.Lookup("postgres")
	if err != nil {
		tb.Skip("PostgreSQL does not run as root, and there is no user postgres")
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		tb.Fatal(err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		tb.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}
