package supervisor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	firstBackoff = 250 * time.Millisecond
	maxBackoff   = 10 * time.Second
	// A component that ran for this long was healthy: the next failure is a new
	// one and does not wait for the sins of the past.
	steadyAfter = 30 * time.Second
)

// keeper keeps one component running.
//
// Until it is adopted, the end of the component's process is final: a component
// that fails while its cluster comes up would fail again. After that, the process
// is restarted whenever it ends.
type keeper struct {
	component string
	args      []string
	log       string
	// grace is how long the component may take to end by itself.
	grace   time.Duration
	starter *starter
	// notify tells the user about the component.
	notify func(format string, args ...any)
	// changed is called when the process was replaced or is gone.
	changed func()

	// ended is closed when no process runs and none will be started again.
	ended chan struct{}
	// stopping is closed by stop.
	stopping chan struct{}

	mu       sync.Mutex
	process  *os.Process // nil while none runs
	restarts int
	adopted  bool
	err      error // why the keeper ended before it was adopted
}

// start starts the component and returns without waiting for it to be ready.
func (k *keeper) start() error {
	k.ended = make(chan struct{})
	k.stopping = make(chan struct{})
	command, err := k.launch()
	if err != nil {
		close(k.ended)
		return err
	}
	go k.keep(command)
	return nil
}

func (k *keeper) keep(command *exec.Cmd) {
	defer close(k.ended)
	backoff := firstBackoff
	for {
		started := time.Now()
		reason := waitReason(command)
		if !k.exited(reason) {
			return
		}
		if time.Since(started) >= steadyAfter {
			backoff = firstBackoff
		}
		for command = nil; command == nil; backoff = min(2*backoff, maxBackoff) {
			k.notify("%s %s, restart in %s (log: %s)", k.component, reason, backoff, k.log)
			if !k.pause(backoff) {
				return
			}
			var err error
			if command, err = k.launch(); err != nil {
				reason = err.Error()
			}
		}
		k.mu.Lock()
		k.restarts++
		k.mu.Unlock()
		k.notify("%s restarted (pid %d)", k.component, command.Process.Pid)
		k.changed()
	}
}

// exited notes that the process is gone and reports whether to start another.
func (k *keeper) exited(reason string) bool {
	k.mu.Lock()
	k.process = nil
	adopted := k.adopted
	if !adopted {
		k.err = fmt.Errorf("%s %s\n%s", k.component, reason, quoteTail(k.log))
	}
	k.mu.Unlock()
	select {
	case <-k.stopping:
		return false
	default:
	}
	if adopted {
		k.changed()
	}
	return adopted
}

// pause waits, and reports false if the keeper is stopped meanwhile.
func (k *keeper) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-k.stopping:
		return false
	}
}

// launch starts a process of the component, unless the keeper was stopped.
func (k *keeper) launch() (*exec.Cmd, error) {
	self, err := ownExecutable()
	if err != nil {
		return nil, fmt.Errorf("find the executable for %s: %w", k.component, err)
	}
	log, err := os.OpenFile(k.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", k.component, err)
	}
	defer log.Close() // the child has its own descriptor
	command := exec.Command(self)
	command.Args = append([]string{"drover-kube", k.component}, k.args...)
	command.Stdout, command.Stderr = log, log
	command.Env = childEnvironment()

	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case <-k.stopping:
		return nil, fmt.Errorf("start %s: the cluster is being stopped", k.component)
	default:
	}
	if err := k.starter.start(command); err != nil {
		return nil, fmt.Errorf("start %s: %w", k.component, err)
	}
	k.process = command.Process
	return command, nil
}

// adopt makes the keeper restart its component from now on. It fails if the
// component has ended before.
func (k *keeper) adopt() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil {
		return k.err
	}
	k.adopted = true
	return nil
}

// stop ends the component and returns when its process is gone. The process is
// killed when it does not end by itself in time or when ctx is done.
func (k *keeper) stop(ctx context.Context) {
	k.mu.Lock()
	close(k.stopping)
	k.mu.Unlock()

	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, k.grace)
	defer cancel()
	k.signal(syscall.SIGTERM)
	select {
	case <-k.ended:
		return
	case <-ctx.Done():
	}
	k.notify("%s is still busy after %s, killed", k.component, since(began))
	k.signal(syscall.SIGKILL)
	<-k.ended
}

// signal has no effect on a process that has just ended, which is what every
// caller wants to achieve.
func (k *keeper) signal(sig os.Signal) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.process != nil {
		_ = k.process.Signal(sig)
	}
}

// status returns the pid of the component's process, or 0 while there is none,
// and how often it was restarted.
func (k *keeper) status() (pid, restarts int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.process != nil {
		pid = k.process.Pid
	}
	return pid, k.restarts
}

// failure returns why the component ended before its cluster was up.
func (k *keeper) failure() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

func waitReason(command *exec.Cmd) string {
	if err := command.Wait(); err != nil {
		return fmt.Sprintf("(pid %d) ended: %v", command.Process.Pid, err)
	}
	return fmt.Sprintf("(pid %d) ended by itself", command.Process.Pid)
}

// childEnvironment is what a component sees of the supervisor's environment:
// only what it needs and what tunes the Go runtime. etcd and kwok would take
// settings from variables that a developer has for other purposes.
func childEnvironment() []string {
	var env []string
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		switch name {
		case "PATH", "HOME", "TMPDIR", "TZ", "GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK":
			env = append(env, variable)
		}
	}
	return env
}
