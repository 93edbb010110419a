package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// isolations are the ways to keep a child from the network, best first: a network namespace of its own, in a user
// namespace where that takes no privilege. The last one is none.
var isolations = []uintptr{syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET, syscall.CLONE_NEWNET, 0}

// attributes has the kernel kill the child with the thread that starts it. A group of its own keeps a Ctrl-C at the
// terminal, which is the parent's to act on, from it.
func attributes(isolation uintptr) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Cloneflags: isolation}
}

// self is the program that runs, also after its file was replaced.
func self() (string, error) {
	const program = "/proc/self/exe"
	if _, err := os.Stat(program); err != nil {
		return "", fmt.Errorf("children need /proc to be mounted: %w", err)
	}
	return program, nil
}

// headroom is what the process needs beside the memory of Limits, of which the collector knows: threads' stacks, spans
// that are mapped whole. The collector works at the limit; beyond it and this the kernel refuses.
const headroom = 128 << 20

// setLimits sets what the kernel enforces. Memory is limited as RLIMIT_DATA, private memory that can be written to:
// RLIMIT_AS would count the address space that Go reserves and never uses.
func setLimits(l Limits) error {
	closeInherited()
	endAtSIGXCPU()
	data, err := dataSize()
	if err != nil {
		return err
	}
	for _, r := range []struct {
		name     string
		resource int
		limit    uint64
	}{
		{"core", syscall.RLIMIT_CORE, 0},
		{"file size", syscall.RLIMIT_FSIZE, 0},
		{"open files", syscall.RLIMIT_NOFILE, 32},
		{"memory", syscall.RLIMIT_DATA, data + memoryFactor*uint64(l.Memory+headroom)}, // #nosec G115 -- positive
	} {
		if err := syscall.Setrlimit(r.resource, &syscall.Rlimit{Cur: r.limit, Max: r.limit}); err != nil {
			return fmt.Errorf("limit %s: %w", r.name, err)
		}
	}
	return nil
}

// closeInherited closes what the parent had open before it was a Go program: its own files are not inherited. What the
// runtime has opened for itself is no file.
func closeInherited() {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, entry := range open {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd <= syscall.Stderr {
			continue
		}
		if to, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil && !strings.HasPrefix(to, "anon_inode:") {
			_ = syscall.Close(fd)
		}
	}
}

// dataSize is what counts for RLIMIT_DATA already, in bytes.
func dataSize() (uint64, error) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if text, found := strings.CutPrefix(lines.Text(), "VmData:"); found {
			kib, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(text, "kB")), 10, 64)
			return kib << 10, err
		}
	}
	return 0, lines.Err()
}

// endAtSIGXCPU ends the process when the kernel says so: Go's runtime would ignore it.
func endAtSIGXCPU() {
	over := make(chan os.Signal, 1)
	signal.Notify(over, syscall.SIGXCPU)
	go func() {
		<-over
		fmt.Fprintln(os.Stderr, exceededCPU)
		os.Exit(1)
	}()
}

// untilParentGoes returns when nobody can write requests any more. It has a thread of its own and costs nothing else: if the
// reader of requests read on while one is worked on, each would be handed from one thread to another.
func untilParentGoes() {
	for {
		input := []unix.PollFd{{Fd: 0}}
		if n, err := unix.Poll(input, -1); n > 0 || !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

// allowCPU allows the process so much processor time from now on.
func allowCPU(limit time.Duration) error {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return err
	}
	seconds := time.Duration(used.Utime.Nano()+used.Stime.Nano()) + limit + time.Second - 1
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_CPU, &r); err != nil {
		return err
	}
	r.Cur = min(uint64(seconds/time.Second), r.Max) // #nosec G115 -- positive
	return syscall.Setrlimit(syscall.RLIMIT_CPU, &r)
}
