package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/drover-io/drover/deploy/local/kube/internal/cluster"
)

// deadline bounds every wait. It is only ever reached by a defect, or by a
// machine too busy to test on.
const deadline = 2 * time.Minute

// buildBinary builds the binary, or finds the one that is up to date.
func buildBinary(t *testing.T) string {
	t.Helper()
	output, err := exec.Command("../../build.sh").CombinedOutput()
	if err != nil {
		t.Fatalf("build: %v\n%s", err, output)
	}
	binary, err := filepath.Abs("../../../../../build/bin/drover-kube")
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// supervisor is a running "drover-kube up".
type supervisor struct {
	command *exec.Cmd
	output  *output
	ended   chan struct{}
}

// startUp starts the cluster and returns when it is ready.
func startUp(t *testing.T, binary, dataDir string, portBase int) *supervisor {
	t.Helper()
	args := []string{"up", "--data-dir", dataDir, "--cluster", clusterName}
	if portBase != 0 {
		args = append(args, "--port-base", strconv.Itoa(portBase))
	}
	s := &supervisor{command: exec.Command(binary, args...), output: &output{}, ended: make(chan struct{})}
	s.command.Stdout, s.command.Stderr = s.output, s.output
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.ended)
		_ = s.command.Wait() // the exit code is read from the process state
	}()
	t.Cleanup(func() {
		s.interrupt()
		<-s.ended
		t.Logf("output of the supervisor:\n%s", s.output)
	})
	eventually(t, "the cluster is ready", func() error {
		if s.hasEnded() {
			t.Fatalf("the supervisor has ended:\n%s", s.output)
		}
		if !strings.HasSuffix(s.output.String(), "\nready\n") {
			return fmt.Errorf("output: %s", s.output)
		}
		return nil
	})
	return s
}

func (s *supervisor) interrupt() {
	_ = s.command.Process.Signal(syscall.SIGTERM) // it may have ended
}

// stop asks the supervisor to end and returns its exit code.
func (s *supervisor) stop(t *testing.T) int {
	t.Helper()
	s.interrupt()
	s.waitEnded(t)
	return s.command.ProcessState.ExitCode()
}

// kill ends the supervisor without giving it a chance to stop anything.
func (s *supervisor) kill(t *testing.T) {
	t.Helper()
	if err := s.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.waitEnded(t)
}

func (s *supervisor) waitEnded(t *testing.T) {
	t.Helper()
	select {
	case <-s.ended:
	case <-time.After(deadline):
		t.Fatal("the supervisor does not end")
	}
}

func (s *supervisor) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// output collects what a process writes while it is being read.
type output struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffer.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffer.String()
}

func readState(t *testing.T, dataDir string) cluster.State {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dataDir, clusterName, "state.json"))
	if err != nil {
		t.Fatal(err)
	}
	var state cluster.State
	if err := json.Unmarshal(content, &state); err != nil {
		t.Fatal(err)
	}
	if len(state.Components) != len(cluster.Components()) {
		t.Fatalf("the state is incomplete: %s", content)
	}
	return state
}

// alive returns the components whose processes run, with their pids.
func alive(state cluster.State) map[string]int {
	found := map[string]int{}
	for name, component := range state.Components {
		if runs(component.PID) {
			found[name] = component.PID
		}
	}
	return found
}

// runs does not count a process that is dead and waits for init to notice.
func runs(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	}
	_, fields, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(fields, "Z")
}

// freePorts returns the first of a block of ports that nobody listens on, below
// those that the system gives to connections.
func freePorts(t *testing.T) int {
	t.Helper()
	var base int
	eventually(t, "a block of ports is free", func() error {
		base = 15_000 + rand.IntN(15_000)
		ports, err := cluster.AssignPorts(t.TempDir(), base, []string{clusterName})
		if err != nil {
			return err
		}
		return ports[clusterName].CheckFree(clusterName)
	})
	return base
}

// eventually repeats a check until it returns nil, and fails the test with what
// the check returned last when that takes too long.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	timeout := time.After(deadline)
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-timeout:
			t.Fatalf("waited in vain until %s: %v", what, err)
		case <-ticker.C:
		}
	}
}
