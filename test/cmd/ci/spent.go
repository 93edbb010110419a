package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-io/drover/internal/pause"
)

// A process that its parent has not waited for is in nobody's account: the kernel adds the time of a child to that of its
// parent when the parent asks how the child ended. Servers and clusters that die with the tests which have started them are
// such processes, and they are most of what is spent. So this program takes in the orphans of everything below it, as an
// init does, and asks how they ended.
//
// Each call of go test is a session, by which its orphans are known.

// orphans are those that were taken in.
type orphans struct {
	session int // this program's
	mu      sync.Mutex
	own     map[int]bool          // processes that are waited for elsewhere
	cpu     map[int]time.Duration // what orphans have spent, by session
}

// lookEach is how often orphans are looked for, and goneTime how long those of a call that has ended are waited for.
const (
	lookEach = 10 * time.Second
	goneTime = 15 * time.Second
)

// takeIn takes in orphans from now on, until ctx ends.
func takeIn(ctx context.Context) (*orphans, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, os.NewSyscallError("prctl", err)
	}
	session, err := unix.Getsid(0)
	if err != nil {
		return nil, os.NewSyscallError("getsid", err)
	}
	o := &orphans{session: session, own: map[int]bool{}, cpu: map[int]time.Duration{}}
	go func() {
		for pause.For(ctx, lookEach) == nil {
			o.look(0)
		}
	}()
	return o, nil
}

// start starts a command in a session of its own. An interrupt from the keyboard does not reach it there: it gets one, with
// all that it has started in its process group, when its context ends.
func (o *orphans) start(cmd *exec.Cmd) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	if err := cmd.Start(); err != nil {
		return err
	}
	o.own[cmd.Process.Pid] = true
	return nil
}

// wait waits for a command that was started, and for what it leaves behind, and gives the CPU time of all of it.
func (o *orphans) wait(ctx context.Context, cmd *exec.Cmd) (time.Duration, error) {
	err := cmd.Wait()
	session := cmd.Process.Pid
	o.mu.Lock()
	delete(o.own, session)
	o.mu.Unlock()
	for until := time.Now().Add(goneTime); o.look(session) > 0 && time.Now().Before(until); {
		if pause.For(ctx, lookEach/50) != nil {
			break
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	spent := o.cpu[session]
	delete(o.cpu, session)
	if s := cmd.ProcessState; s != nil {
		spent += s.UserTime() + s.SystemTime()
	}
	return spent, err
}

// look asks orphans that have ended how they did, and says how many processes of a session there are.
func (o *orphans) look(session int) (left int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is a good one
	for _, file := range files {
		p, ok := readProcess(file)
		if !ok {
			continue
		}
		if p.parent == os.Getpid() && p.ended && p.session != o.session && !o.own[p.id] {
			var spent syscall.Rusage
			if _, err := syscall.Wait4(p.id, nil, syscall.WNOHANG, &spent); err == nil {
				o.cpu[p.session] += time.Duration(spent.Utime.Nano() + spent.Stime.Nano())
				continue
			}
		}
		if p.session == session {
			left++
		}
	}
	return left
}

// process is what the kernel says of one.
type process struct {
	id, parent, session int
	ended               bool // nobody has asked how yet
}

// readProcess reads /proc/<id>/stat: id (name) state parent group session, and more. A name may have spaces and parentheses.
func readProcess(file string) (p process, ok bool) {
	data, err := os.ReadFile(file)
	if err != nil {
		return p, false
	}
	text := string(data)
	words := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(words) < 4 {
		return p, false
	}
	var wrong [3]error
	p.id, wrong[0] = strconv.Atoi(filepath.Base(filepath.Dir(file)))
	p.parent, wrong[1] = strconv.Atoi(words[1])
	p.session, wrong[2] = strconv.Atoi(words[3])
	p.ended = words[0] == "Z"
	return p, wrong == [3]error{}
}
