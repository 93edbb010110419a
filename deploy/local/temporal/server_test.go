package temporal_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/deploy/local/temporal"
	"github.com/drover-io/drover/internal/freeport"
)

const (
	taskQueue = "test"
	keyword   = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	number    = enumspb.INDEXED_VALUE_TYPE_INT
)

// start runs a server until the test ends.
func start(tb testing.TB, c temporal.Config) *temporal.Server {
	tb.Helper()
	s := mustStart(tb, c)
	tb.Cleanup(func() { mustStop(tb, s) })
	return s
}

func mustStart(tb testing.TB, c temporal.Config) *temporal.Server {
	tb.Helper()
	s, err := temporal.Start(tb.Context(), c)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func mustStop(tb testing.TB, s *temporal.Server) {
	tb.Helper()
	if err := s.Stop(); err != nil {
		tb.Error(err)
	}
}

// dial is a client of the server's default namespace.
func dial(tb testing.TB, s *temporal.Server) client.Client {
	tb.Helper()
	c, err := client.DialContext(tb.Context(), client.Options{
		HostPort:  s.Addr(),
		Namespace: "drover",
		Logger:    slog.New(slog.DiscardHandler),
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// work runs a worker with every workflow of these tests; call the result to
// stop it.
func work(tb testing.TB, c client.Client) (stop func()) {
	tb.Helper()
	w := worker.New(c, taskQueue, worker.Options{})
	w.RegisterWorkflow(One)
	w.RegisterWorkflow(Accept)
	w.RegisterWorkflow(FanOut)
	w.RegisterWorkflow(Queried)
	w.RegisterWorkflow(WaitForSignal)
	w.RegisterActivity(Touch)
	if err := w.Start(); err != nil {
		tb.Fatal(err)
	}
	return w.Stop
}

// WaitForSignal returns what it is sent.
func WaitForSignal(ctx workflow.Context) (string, error) {
	var s string
	workflow.GetSignalChannel(ctx, "go").Receive(ctx, &s)
	return s, nil
}

func TestWorkflowSurvivesRestart(t *testing.T) {
	project := sdktemporal.NewSearchAttributeKeyKeyword("DroverProject")
	c := temporal.Config{
		DBFile:           filepath.Join(t.TempDir(), "new", "with space%20?.db"),
		SearchAttributes: map[string]enumspb.IndexedValueType{"DroverProject": keyword},
	}

	s := mustStart(t, c)
	cl := dial(t, s)
	stopWorker := work(t, cl)
	_, err := cl.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID:                    "survivor",
		TaskQueue:             taskQueue,
		TypedSearchAttributes: sdktemporal.NewSearchAttributes(project.ValueSet("p1")),
	}, WaitForSignal)
	if err != nil {
		t.Fatal(err)
	}
	stopWorker()
	mustStop(t, s)

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
	eventually(t, "the workflow is found by its search attribute", func() error {
		r, err := cl.CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{
			Query: `DroverProject = "p1" AND ExecutionStatus = "Completed"`,
		})
		if err == nil && r.GetCount() != 1 {
			err = fmt.Errorf("%d workflows found", r.GetCount())
		}
		return err
	})
}

func TestSecondStartAddsSearchAttributes(t *testing.T) {
	c := temporal.Config{
		DBFile:           filepath.Join(t.TempDir(), "temporal.db"),
		SearchAttributes: map[string]enumspb.IndexedValueType{"A": keyword},
	}
	mustStop(t, mustStart(t, c))
	c.SearchAttributes = map[string]enumspb.IndexedValueType{"B": keyword, "N": number}
	s := start(t, c)

	// All three can be used at once, without waiting for any cache.
	_, err := dial(t, s).ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		TaskQueue: taskQueue,
		TypedSearchAttributes: sdktemporal.NewSearchAttributes(
			sdktemporal.NewSearchAttributeKeyKeyword("A").ValueSet("a"),
			sdktemporal.NewSearchAttributeKeyKeyword("B").ValueSet("b"),
			sdktemporal.NewSearchAttributeKeyInt64("N").ValueSet(1),
		),
	}, WaitForSignal)
	if err != nil {
		t.Error(err)
	}
}

func TestSearchAttributeKeepsItsType(t *testing.T) {
	c := temporal.Config{
		DBFile:           filepath.Join(t.TempDir(), "temporal.db"),
		SearchAttributes: map[string]enumspb.IndexedValueType{"A": keyword},
	}
	mustStop(t, mustStart(t, c))
	c.SearchAttributes["A"] = number
	_, err := temporal.Start(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), "search attribute A") {
		t.Errorf("error %v", err)
	}
}

// An update-with-start may take many times longer than the server waits with its
// answer, which we made short, and still be one update of one workflow.
func TestUpdateWithStartMayTakeLong(t *testing.T) {
	const late = 2 * time.Second
	parent := t
	c := dial(t, start(t, temporal.Config{}))
	call := func(id string) error {
		update, err := c.UpdateWithStartWorkflow(t.Context(), acceptance(c, id))
		if err != nil {
			return err
		}
		return update.Get(t.Context(), nil)
	}

	t.Run("no worker yet", func(t *testing.T) {
		done := make(chan error, 1)
		go func() { done <- call("no-worker") }()
		<-time.After(late)
		parent.Cleanup(work(parent, c))
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	// held holds up activities, until release is called.
	held := func() (release func()) {
		until := make(chan struct{})
		hold.Store(&until)
		return func() {
			hold.Store(nil)
			close(until)
		}
	}
	t.Run("slow activity", func(t *testing.T) {
		time.AfterFunc(late, held())
		if err := call("slow"); err != nil {
			t.Error(err)
		}
	})
	t.Run("second start is refused", func(t *testing.T) {
		release := held()
		first := make(chan error, 1)
		go func() { first <- call("twice") }()
		eventually(t, "the first is running", func() error {
			_, err := c.DescribeWorkflowExecution(t.Context(), "twice", "")
			return err
		})
		var started *serviceerror.WorkflowExecutionAlreadyStarted
		if err := call("twice"); !errors.As(err, &started) {
			t.Errorf("the second call: %v", err)
		}
		release()
		if err := <-first; err != nil {
			t.Errorf("the first call: %v", err)
		}
	})
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().(*net.TCPAddr).Port

	for name, c := range map[string]temporal.Config{
		"gRPC":   {FrontendPort: taken},
		"Web UI": {UIPort: taken},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := temporal.Start(t.Context(), c)
			if err == nil || !strings.Contains(err.Error(), strconv.Itoa(taken)) || !strings.Contains(err.Error(), name) {
				t.Errorf("error %v should name port %d and its purpose, %s", err, taken, name)
			}
		})
	}
}

func TestOneServerPerFile(t *testing.T) {
	c := temporal.Config{DBFile: filepath.Join(t.TempDir(), "temporal.db")}
	start(t, c)
	if _, err := temporal.Start(t.Context(), c); err == nil {
		t.Error("a second server started on the same file")
	}
}

func TestServersInMemoryAreSeparate(t *testing.T) {
	a, b := start(t, temporal.Config{}), start(t, temporal.Config{})
	options := client.StartWorkflowOptions{ID: "w", TaskQueue: taskQueue}
	if _, err := dial(t, a).ExecuteWorkflow(t.Context(), options, WaitForSignal); err != nil {
		t.Fatal(err)
	}
	_, err := dial(t, b).DescribeWorkflowExecution(t.Context(), "w", "")
	var notFound *serviceerror.NotFound
	if !errors.As(err, &notFound) {
		t.Errorf("the other server answers %v", err)
	}
}

func TestWebUI(t *testing.T) {
	s := start(t, temporal.Config{UIPort: freeport.Block(1)[0]})
	for path, want := range map[string]string{
		"/":                         "<html",
		"/api/v1/namespaces/drover": "NAMESPACE_STATE_REGISTERED",
	} {
		resp, err := http.Get(s.UIURL() + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("GET %s: %s, %v: %.200s", path, resp.Status, err, body)
		}
	}
}

// A page whose name an attacker lets lead here says that name as Host.
func TestWebUIHasNoOtherName(t *testing.T) {
	s := start(t, temporal.Config{UIPort: freeport.Block(1)[0]})
	for host, want := range map[string]int{"": http.StatusOK, "localhost": http.StatusOK, "evil.example": http.StatusForbidden} {
		for _, path := range []string{
			"/", "/api/v1/settings", "/api/v1/namespaces/drover",
			"/api/v1/namespaces/drover/workflows/w/runs/r/history.json", "/api/v1/namespaces/drover/workflows/w/history-reverse",
		} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.UIURL()+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if host != "" {
				r.Host = host
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			switch {
			case err != nil:
				t.Fatal(err)
			case want == http.StatusForbidden && resp.StatusCode != want, want != http.StatusForbidden && resp.StatusCode == http.StatusForbidden:
				t.Errorf("GET %s of %q: %s: %.200s", path, host, resp.Status, body)
			}
		}
	}
}

// Nothing in here asks who is calling, so nothing may listen anywhere else.
func TestListensOnlyOnTheGivenAddress(t *testing.T) {
	before := ownListeners(t) // of other tests
	start(t, temporal.Config{IP: "127.0.0.2"})
	there := false
	for _, a := range ownListeners(t) {
		switch {
		case strings.HasPrefix(a, "127.0.0.2:"):
			there = true
		case !slices.Contains(before, a):
			t.Errorf("also listens on %s", a)
		}
	}
	if !there {
		t.Error("found no listener at all")
	}
}

// ownListeners reads the addresses this process listens on from /proc.
func ownListeners(t *testing.T) []string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	own := map[string]bool{}
	fds, _ := filepath.Glob("/proc/self/fd/*")
	for _, fd := range fds {
		target, _ := os.Readlink(fd)
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			own[strings.TrimSuffix(inode, "]")] = true
		}
	}
	var all []string
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			continue // no IPv6 here
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			// sl local_address rem_address st … inode; 0A is LISTEN
			v := strings.Fields(lines.Text())
			if len(v) > 9 && v[3] == "0A" && own[v[9]] {
				all = append(all, address(t, v[1]))
			}
		}
	}
	return all
}

// address turns the kernel's 0200007F:1C41 into 127.0.0.2:7233. An IPv6 address
// stays as it is.
func address(t *testing.T, hex string) string {
	t.Helper()
	var a, b, c, d, port int
	if _, err := fmt.Sscanf(hex, "%02X%02X%02X%02X:%04X", &d, &c, &b, &a, &port); err != nil {
		return hex
	}
	return fmt.Sprintf("%d.%d.%d.%d:%d", a, b, c, d, port)
}

// leaks are the goroutines that the libraries leave behind with every server,
// by who created them. All of them sleep.
var leaks = map[string]string{
	"database/sql.OpenDB": "the driver keeps the connection to a database",
	"google.golang.org/grpc/internal/grpcsync.NewCallbackSerializer": "the services never close the connections between them",
	"google.golang.org/grpc.(*acBalancerWrapper).Connect":            "one of those connections tries again now and then",
}

func TestStopLeavesNothingRunning(t *testing.T) {
	run := func() {
		s := mustStart(t, temporal.Config{DBFile: filepath.Join(t.TempDir(), "temporal.db"), UIPort: freeport.Block(1)[0]})
		cl := dial(t, s)
		stopWorker := work(t, cl)
		r, err := cl.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: taskQueue}, One)
		if err == nil {
			err = r.Get(t.Context(), nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		stopWorker()
		cl.Close()
		mustStop(t, s)
	}
	run() // whatever is made once per process exists from here on
	before := goroutines()
	run()

	eventually(t, "every goroutine has ended but the known ones", func() error {
		var left []string
		for where, n := range goroutines() {
			if extra := n - before[where]; extra > 0 && leaks[where] == "" {
				left = append(left, fmt.Sprintf("%d × %s", extra, where))
			}
		}
		if len(left) == 0 {
			return nil
		}
		return errors.New(strings.Join(left, "\n"))
	})
}

var createdBy = regexp.MustCompile(`(?m)^created by (\S+)`)

// goroutines counts the goroutines of this process by who created them.
func goroutines() map[string]int {
	buf := make([]byte, 16<<20)
	buf = buf[:runtime.Stack(buf, true)]
	count := map[string]int{}
	for _, m := range createdBy.FindAllSubmatch(buf, -1) {
		count[string(m[1])]++
	}
	return count
}

// eventually fails the test when f keeps failing for longer than a busy machine can
// make it.
func eventually(t testing.TB, what string, f func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not so: %s: %v", what, err)
		case <-tick.C:
		}
	}
}
