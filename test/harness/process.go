// Package harness runs the real parts of the product as processes for end-to-end tests: servers, API,
// worker, clusters, and a proxy before each cluster that can do harm.
package harness

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/freeport"
	"github.com/drover-io/drover/internal/tether"
)

// Process is a running program.
type Process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{}
	log  *tail
}

// Start runs a program until it prints a line that begins with ready. It dies with the test process.
func Start(t testing.TB, name, ready string, env []string, path string, args ...string) *Process {
	t.Helper()
	p, err := start(name, ready, env, path, args...)
	require.NoError(t, err)
	t.Cleanup(func() { p.Kill() })
	return p
}

func start(name, ready string, env []string, path string, args ...string) (*Process, error) {
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), env...)
	p := &Process{name: name, cmd: cmd, done: make(chan struct{}), log: &tail{}}
	p.cmd.Stderr = p.log
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	lines := make(chan struct{})
	if err := tether.Start(p.cmd, syscall.SIGKILL); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	go func() {
		scanner, said := bufio.NewScanner(out), false
		for scanner.Scan() {
			fmt.Fprintln(p.log, scanner.Text())
			if !said && strings.HasPrefix(scanner.Text(), ready) {
				said = true
				close(lines)
			}
		}
	}()
	select {
	case <-lines:
		return p, nil
	case <-p.done:
		return nil, fmt.Errorf("%s ended at once:\n%s", name, p.log)
	case <-time.After(3 * time.Minute):
		p.Kill()
		return nil, fmt.Errorf("%s is not ready:\n%s", name, p.log)
	}
}

// Refused runs a process of the product that does not start, and gives its exit code and what it said.
func (s *Stack) Refused(ctx context.Context, t testing.TB, process string) (code int, said string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.program(), process)
	cmd.Env = append(append(os.Environ(), s.Env()...), "DROVER_METRICS_LISTEN="+freeport.Address()) // the stack's worker has its own
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "%s", out)
	return exit.ExitCode(), string(out)
}

// Kill ends the process as kill -9 does and waits until it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Stop asks the process to end and waits.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
		if code := p.cmd.ProcessState.ExitCode(); code != 0 {
			return fmt.Errorf("%s: exit code %d:\n%s", p.name, code, p.log)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s does not stop: %w\n%s", p.name, ctx.Err(), p.log)
	}
}

// Freeze stops the process as SIGSTOP does, until thaw is called or the test ends.
func (p *Process) Freeze(t testing.TB) (thaw func()) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGSTOP))
	thaw = sync.OnceFunc(func() { _ = p.cmd.Process.Signal(syscall.SIGCONT) })
	t.Cleanup(thaw)
	// One thread has the signal, and stops the others when it gets a processor: on a busy machine they go on until then.
	Until(t.Context(), t, "all of it is stopped", p.stopped)
	return thaw
}

// stopped says whether no thread of the process runs, as Linux tells it.
func (p *Process) stopped() bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
	if err != nil {
		return false
	}
	for _, thread := range threads {
		data, err := os.ReadFile(thread) //nolint:gosec // of a process of ours
		if _, state, found := strings.Cut(string(data), ") "); err == nil && found && !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return true
}

// Alive says whether the process runs.
func (p *Process) Alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Log is the end of what the process wrote.
func (p *Process) Log() string { return p.log.String() }

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	data []byte
}

const tailSize = 64 << 10

var _ io.Writer = (*tail)(nil)

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, b...)
	if n := len(t.data) - tailSize; n > 0 {
		t.data = append(t.data[:0], t.data[n:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.data)
}
