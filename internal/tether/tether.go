// Package tether starts the processes of tests, which end with the test's process, however that ends.
package tether

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// start is what is asked of the thread.
type start struct {
	cmd     *exec.Cmd
	started chan error
}

// Start starts cmd, which gets the signal when the test's process has ended. Where the system offers no such signal, it is
// only started. Who starts it waits for it, as after cmd.Start.
//
// Linux sends that signal when the thread ends that has started the process, not when its process ends. A thread of Go ends
// with a goroutine that has locked it and not unlocked it. So all are started by one thread, which never ends.
func Start(cmd *exec.Cmd, signal syscall.Signal) error {
	tie(cmd, signal)
	s := start{cmd: cmd, started: make(chan error, 1)}
	thread() <- s
	return <-s.started
}

var thread = sync.OnceValue(func() chan<- start {
	starts := make(chan start)
	go func() {
		runtime.LockOSThread()
		for s := range starts {
			s.started <- s.cmd.Start()
		}
	}()
	return starts
})
