package sandbox

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// child is the parent's side of a process. Whoever has taken it from the pool is the only one to talk to it.
type child struct {
	limits  Limits
	command *exec.Cmd
	in, out *os.File
	answers *bufio.Reader
	board   board
	asked   uint32 // requests so far
	said    head   // its standard error, since the last request

	mu     sync.Mutex
	why    Limit // that it was killed for, by us
	ended  error // of the process; set before gone is closed
	broken bool  // the process has ended
	gone   chan struct{}
}

// settings is the frame that tells a child its limits.
func settings(l Limits) ([]byte, error) {
	content, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	var frame strings.Builder
	err = writeFrame(&frame, settingsFrame, content)
	return []byte(frame.String()), err
}

// start starts the process. It may be called again when it has failed.
func (c *child) start(program, purpose string, isolation uintptr) error {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer theirIn.Close()
	out, theirOut, err := os.Pipe()
	if err != nil {
		return errors.Join(err, in.Close())
	}
	defer theirOut.Close()
	notes, err := newBoard()
	if err != nil {
		return errors.Join(err, in.Close(), out.Close())
	}
	command := exec.Command(program) //nolint:noctx // it outlives whoever has it started; Pool.Close ends it
	command.Args = []string{os.Args[0], purpose}
	// Nothing of ours: it has keys and passwords. Templates see one time zone, wherever they are rendered.
	command.Env = []string{variable + "=" + purpose, "GOTRACEBACK=none", "TZ=UTC"}
	command.Dir = "/"
	command.Stdin, command.Stdout, command.Stderr = theirIn, theirOut, &c.said
	command.ExtraFiles = notes.files()
	command.SysProcAttr = attributes(isolation)
	if err := command.Start(); err != nil {
		notes.close()
		return errors.Join(err, in.Close(), out.Close())
	}
	c.command, c.in, c.out, c.answers, c.board = command, in, out, bufio.NewReader(out), notes
	return nil
}

// wait returns when the process has ended, and is called once.
func (c *child) wait() {
	err := c.command.Wait()
	c.mu.Lock()
	c.ended, c.broken = err, true
	c.mu.Unlock()
	close(c.gone)
	_ = c.in.Close() // what it has written last is still to be read
}

// usable says whether the process can have another request.
func (c *child) usable() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.broken && c.why == ""
}

// kill ends the process for a reason; the first one counts. It may be called at any time after start.
func (c *child) kill(why Limit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken {
		return // the number may be another process's
	}
	if c.why == "" {
		c.why = why
	}
	_ = c.command.Process.Kill()
}

// discard ends the process, if it has not ended, and lets go of what is left. Whoever has the child calls it.
func (c *child) discard(why Limit) {
	c.kill(why)
	<-c.gone
	c.letGo()
}

// letGo closes what is left of a process that has ended.
func (c *child) letGo() {
	_ = c.out.Close()
	c.board.close()
}

// greet tells a new process its limits and waits until it takes requests. After an error the process has gone.
func (c *child) greet(ctx context.Context, hello []byte) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errors.New("it does not begin to work; does main begin with sandbox.Main?"))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { c.kill(Killed) })
	_, err := c.in.Write(hello)
	var k kind
	if err == nil {
		k, _, err = readFrame(c.answers, 0)
	}
	if stop() && err == nil && k == readyFrame {
		return nil
	}
	c.discard(Crashed)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return fmt.Errorf("%w: %s", errors.Join(err, c.ended), c.said.String())
}

// do has the process answer a request. After an error the process has gone.
func (c *child) do(ctx context.Context, request [][]byte) (answer []byte, err error) {
	timer := time.AfterFunc(c.limits.Time, func() { c.kill(Time) })
	stop := context.AfterFunc(ctx, func() { c.kill(Killed) })
	answer, note, err := c.ask(request)
	if expired, cancelled := !timer.Stop(), !stop(); expired || cancelled {
		c.kill(Killed) // it has been, or is about to be; whoever would have it next must not
	}
	if err == nil {
		return answer, nil
	}
	why := Crashed
	if errors.Is(err, errTooLong) {
		why = Answer
	}
	c.kill(why)
	<-c.gone
	note = cmp.Or(c.board.note(c.asked), note)
	c.letGo()
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	return nil, c.death(note)
}

// ask sends the request and reads notes until the answer comes.
func (c *child) ask(request [][]byte) (answer []byte, note string, err error) {
	c.asked++
	if err := writeFrame(c.in, requestFrame, request...); err != nil {
		return nil, "", err
	}
	for {
		k, content, err := readFrame(c.answers, c.limits.Answer)
		switch {
		case err != nil:
			return nil, note, err
		case k == answerFrame:
			return content, note, nil
		case k == noteFrame:
			note = string(content)
		default:
			return nil, note, fmt.Errorf("unexpected frame %q", k)
		}
	}
}

// death says what the process died of: what we killed it for, else what it said when it ended.
func (c *child) death(note string) *Death {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := &Death{Limit: c.why, Note: note, Text: c.said.String()}
	var exit *exec.ExitError
	errors.As(c.ended, &exit)
	switch {
	case d.Limit != "" && d.Limit != Crashed:
	case says(d.Text, "goroutine stack exceeds"):
		d.Limit = Stack
	case says(d.Text, "out of memory", "cannot allocate memory", "failed to create new OS thread", "pthread_create failed",
		"ThreadSanitizer failed to allocate"):
		d.Limit = Memory
	case says(d.Text, exceededCPU):
		d.Limit = CPU
	case exit != nil && exit.Sys().(syscall.WaitStatus).Signaled():
		d.Limit = Killed
	default:
		d.Limit = Crashed
	}
	return d
}

func says(text string, any ...string) bool {
	for _, a := range any {
		if strings.Contains(text, a) {
			return true
		}
	}
	return false
}
