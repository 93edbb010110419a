package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestKeeperReportsWhyAComponentDidNotStart(t *testing.T) {
	k := newKeeper(t, failing, time.Minute)
	if err := k.start(); err != nil {
		t.Fatal(err)
	}
	waitEnded(t, k)
	err := k.failure()
	if err == nil {
		t.Fatal("the failure went unnoticed")
	}
	for _, part := range []string{failing, "exit status 3", k.log, "no such luck"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not mention %q", err, part)
		}
	}
	if err := k.adopt(); err == nil {
		t.Error("a component that has ended was adopted")
	}
}

func TestKeeperRestartsAnAdoptedComponent(t *testing.T) {
	k := newKeeper(t, obedient, time.Minute)
	changes := make(chan int, 10) // pids; 0 while there is no process
	k.changed = func() {
		pid, _ := k.status()
		changes <- pid
	}
	if err := k.start(); err != nil {
		t.Fatal(err)
	}
	if err := k.adopt(); err != nil {
		t.Fatal(err)
	}
	first, _ := k.status()
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if pid := receive(t, changes); pid != 0 {
		t.Errorf("pid %d while the component is down", pid)
	}
	second := receive(t, changes)
	if second == 0 || second == first {
		t.Errorf("pid %d after the restart of pid %d", second, first)
	}
	if _, restarts := k.status(); restarts != 1 {
		t.Errorf("%d restarts, want 1", restarts)
	}
	k.stop(t.Context())
	if gone := syscall.Kill(second, 0); !errors.Is(gone, syscall.ESRCH) {
		t.Errorf("pid %d has outlived stop: %v", second, gone)
	}
}

func TestKeeperKillsAComponentThatDoesNotStop(t *testing.T) {
	k := newKeeper(t, stubborn, 50*time.Millisecond)
	if err := k.start(); err != nil {
		t.Fatal(err)
	}
	waitAnnounced(t, k)
	pid, _ := k.status()
	k.stop(t.Context())
	if gone := syscall.Kill(pid, 0); !errors.Is(gone, syscall.ESRCH) {
		t.Errorf("pid %d has outlived stop: %v", pid, gone)
	}
}

func TestKeeperStopsWithoutGraceWhenForced(t *testing.T) {
	k := newKeeper(t, stubborn, time.Hour)
	if err := k.start(); err != nil {
		t.Fatal(err)
	}
	waitAnnounced(t, k)
	forced, cancel := context.WithCancel(t.Context())
	cancel()
	k.stop(forced)
	waitEnded(t, k)
}

func TestKeeperStopsWhileItWaitsToRestart(t *testing.T) {
	k := newKeeper(t, obedient, time.Minute)
	down := make(chan int, 10)
	k.changed = func() { down <- 0 }
	if err := k.start(); err != nil {
		t.Fatal(err)
	}
	if err := k.adopt(); err != nil {
		t.Fatal(err)
	}
	k.signal(syscall.SIGKILL)
	receive(t, down)
	k.stop(t.Context())
	waitEnded(t, k)
}

func newKeeper(t *testing.T, component string, grace time.Duration) *keeper {
	t.Helper()
	return &keeper{
		component: component,
		log:       filepath.Join(t.TempDir(), component+".log"),
		grace:     grace,
		starter:   newStarter(),
		notify:    t.Logf,
		changed:   func() {},
	}
}

func waitEnded(t *testing.T, k *keeper) {
	t.Helper()
	select {
	case <-k.ended:
	case <-time.After(time.Minute):
		t.Fatalf("%s has not ended", k.component)
	}
}

// waitAnnounced waits until the component's own code runs: before that, it does
// not ignore signals yet.
func waitAnnounced(t *testing.T, k *keeper) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := poll(ctx, func(context.Context) error {
		content, err := os.ReadFile(k.log)
		if err == nil && !strings.Contains(string(content), announced) {
			err = fmt.Errorf("the log is %q", content)
		}
		return err
	}, k.failure)
	if err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, pids <-chan int) int {
	t.Helper()
	select {
	case pid := <-pids:
		return pid
	case <-time.After(time.Minute):
		t.Fatal("nothing has changed")
		return 0
	}
}
