package supervisor

import (
	"os/exec"
	"runtime"
)

// starter starts processes from one OS thread that lives as long as the
// supervisor.
//
// The kernel sends a child its parent-death signal when the thread that started
// it ends, not when the process does. The Go runtime may end a thread at any
// time unless a goroutine is locked to it.
type starter struct {
	requests chan startRequest
}

type startRequest struct {
	command *exec.Cmd
	result  chan<- error
}

func newStarter() *starter {
	s := &starter{requests: make(chan startRequest)}
	go func() {
		runtime.LockOSThread()
		for request := range s.requests {
			request.result <- request.command.Start()
		}
	}()
	return s
}

// start starts a command. The child dies with the supervisor where the operating
// system can arrange that.
func (s *starter) start(command *exec.Cmd) error {
	command.SysProcAttr = childAttributes()
	result := make(chan error)
	s.requests <- startRequest{command, result}
	return <-result
}
