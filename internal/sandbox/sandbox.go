// Package sandbox lets child processes of the running program work on what strangers have sent. A request that blows
// the stack, eats memory or never ends takes a child with it and nothing else; the caller learns of which limit it died.
//
// A child has nothing of its parent but the program: no environment, no files, and where the kernel allows no network.
// It dies with its parent, however that ends. Children are kept for the next request.
package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// Limits bound one request. All of them are required.
type Limits struct {
	Time    time.Duration `json:"time"`    // from the request to the answer
	CPU     time.Duration `json:"cpu"`     // processor time of all threads together; enforced in whole seconds
	Memory  int64         `json:"memory"`  // bytes of a child, from one request to the next
	Stack   int64         `json:"stack"`   // bytes of the stack of one goroutine
	Request int           `json:"request"` // bytes
	Answer  int           `json:"answer"`  // bytes
}

// Limit is one of the limits, or what else has ended a child.
type Limit string

// The limits that a child can die of.
const (
	Time   Limit = "time"
	CPU    Limit = "processor time"
	Memory Limit = "memory"
	Stack  Limit = "stack"
	Answer Limit = "answer"
	// Killed is a signal from outside: of an operator, or of a kernel that is short of memory.
	Killed Limit = "killed"
	// Crashed is any other end.
	Crashed Limit = "crashed"
)

// Death says that the request has ended its child, and would do so again.
type Death struct {
	Limit Limit
	Note  string // what the child did last, "" when it had not said anything
	Text  string // what it wrote when it ended, for logs; may be ""
}

// Error implements error.
func (d *Death) Error() string {
	return strings.TrimSpace(fmt.Sprintf("the child died in %q of %s: %s", d.Note, d.Limit, d.Text))
}

// Errors that have nothing to do with the request.
var (
	ErrClosed   = errors.New("the sandbox is closed")
	ErrTooLarge = errors.New("the request is too large")
)

// Config says what children are to do.
type Config struct {
	Purpose string // as the program's call to Main has it
	Size    int    // children at a time
	Limits  Limits
	Log     *slog.Logger
}

// Pool is a set of children, each of which works on one request at a time. It starts them when they are needed, and
// the first one, or another one for one that died, before that.
type Pool struct {
	config   Config
	program  string
	hello    []byte        // what a child is told first
	slots    chan struct{} // one for each child that works or starts; free ones have none
	start    chan starting
	done     chan struct{} // closed by Close
	closing  sync.Once
	children sync.WaitGroup
	started  sync.WaitGroup // the goroutine that starts children, and those that warm up

	mu     sync.Mutex
	closed bool
	idle   []*child
	all    map[*child]bool
}

// New makes a pool. Close ends its children.
func New(c Config) (*Pool, error) {
	if os.Getenv(variable) != "" {
		return nil, fmt.Errorf("a child must not make children: main of %s does not begin with sandbox.Main(%q)", os.Args[0], os.Getenv(variable))
	}
	if c.Size < 1 || c.Limits.Request > math.MaxInt32 || c.Limits.Answer > math.MaxInt32 {
		return nil, fmt.Errorf("sandbox %s: limits out of range", c.Purpose)
	}
	program, err := self()
	if err != nil {
		return nil, err
	}
	hello, err := settings(c.Limits)
	if err != nil {
		return nil, err
	}
	p := &Pool{
		config: c, program: program, hello: hello, slots: make(chan struct{}, c.Size), start: make(chan starting), done: make(chan struct{}),
		all: map[*child]bool{},
	}
	p.started.Add(1)
	go p.starter()
	p.warm()
	return p, nil
}

// Close ends all children, those at work too, and returns when they have gone.
func (p *Pool) Close() {
	p.closing.Do(func() {
		p.mu.Lock()
		p.closed = true
		for c := range p.all {
			c.kill(Killed)
		}
		p.mu.Unlock()
		close(p.done)
	})
	p.started.Wait()
	p.children.Wait()
}

// Do has a child answer the request, which is its parts one after the other: they are not copied, so that what waits is held once. It
// waits for a child that is free. When ctx ends, the child at work is killed. The error is a *Death when the request has ended its
// child; or ErrTooLarge, ErrClosed, that of ctx, or that of a child that could not be started.
func (p *Pool) Do(ctx context.Context, request ...[]byte) ([]byte, error) {
	if n := sizeOf(request); n > p.config.Limits.Request {
		return nil, fmt.Errorf("%w: %d bytes", ErrTooLarge, n)
	}
	select {
	case p.slots <- struct{}{}:
		defer p.leave()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-p.done:
		return nil, ErrClosed
	}
	answer, err := p.try(ctx, request)
	var death *Death
	if errors.As(err, &death) && death.Limit == Killed {
		// It need not be the request's fault, and one that it is the fault of does it again.
		answer, err = p.try(ctx, request)
	}
	return answer, err
}

func (p *Pool) try(ctx context.Context, request [][]byte) ([]byte, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	c, err := p.take(ctx)
	var answer []byte
	if err == nil {
		answer, err = c.do(ctx, request)
	}
	switch {
	case err == nil:
		p.put(c)
		return answer, nil
	case p.isClosed():
		return nil, ErrClosed
	default:
		return nil, err
	}
}

// leave gives a slot back. Whoever comes next finds a child, or one that starts.
func (p *Pool) leave() {
	<-p.slots
	p.warm()
}

// put keeps a child for the next request, if it is good for one.
func (p *Pool) put(c *child) {
	p.mu.Lock()
	keep := !p.closed && c.usable()
	if keep {
		p.idle = append(p.idle, c)
	}
	p.mu.Unlock()
	if !keep {
		c.discard(Killed)
	}
}

func (p *Pool) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// take gives a child that is free, or a new one.
func (p *Pool) take(ctx context.Context) (*child, error) {
	for c := p.pop(); c != nil; c = p.pop() {
		if c.usable() {
			return c, nil
		}
		c.discard(Killed)
	}
	return p.newChild(ctx)
}

func (p *Pool) pop() *child {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.idle) - 1
	if last < 0 {
		return nil
	}
	c := p.idle[last]
	p.idle = p.idle[:last]
	return c
}

// warm starts a child beside all else when none is free and there is a slot for one.
func (p *Pool) warm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) > 0 {
		return
	}
	select {
	case p.slots <- struct{}{}:
	default:
		return
	}
	p.started.Add(1)
	go func() {
		defer p.started.Done()
		defer func() { <-p.slots }()
		c, err := p.newChild(context.Background())
		switch {
		case err == nil:
			p.put(c)
		case !p.isClosed():
			p.config.Log.Warn("start a child process", "purpose", p.config.Purpose, "error", err)
		}
	}()
}

// startTimeout is how long a new child may take until it takes requests: a program has much to initialize, and the
// machine much to do.
const startTimeout = 30 * time.Second

// newChild starts one.
func (p *Pool) newChild(ctx context.Context) (*child, error) {
	c := &child{limits: p.config.Limits, gone: make(chan struct{})}
	s := starting{child: c, started: make(chan error, 1)}
	select {
	case p.start <- s:
	case <-p.done:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err := <-s.started; err != nil {
		return nil, fmt.Errorf("start a child process: %w", err)
	}
	if err := c.greet(ctx, p.hello); err != nil {
		return nil, fmt.Errorf("start a child process: %w", err)
	}
	return c, nil
}

// starting is a child that is to be started.
type starting struct {
	child   *child
	started chan error
}

// starter starts children, all of them on one thread: they are killed with the thread that has started them.
func (p *Pool) starter() {
	defer p.started.Done()
	runtime.LockOSThread() // and never unlocked, so that the thread ends with the goroutine
	ways := isolating{ways: isolations}
	for {
		select {
		case <-p.done:
			return
		case s := <-p.start:
			way, err := ways.start(func(way uintptr) error { return s.child.start(p.program, p.config.Purpose, way) })
			if err == nil && way == 0 && len(isolations) > 1 && !ways.told {
				ways.told = true
				p.config.Log.Info("children keep the network: the kernel does not allow to take it from them", "purpose", p.config.Purpose)
			}
			if err == nil {
				p.keep(s.child)
			}
			s.started <- err
		}
	}
}

// keep watches a child until it ends.
func (p *Pool) keep(c *child) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all[c] = true
	if p.closed {
		c.kill(Killed)
	}
	p.children.Add(1)
	go func() {
		defer p.children.Done()
		c.wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.all, c)
		if i := slices.Index(p.idle, c); i >= 0 { // nobody has it who would let go of it
			p.idle = slices.Delete(p.idle, i, i+1)
			c.letGo()
		}
	}()
}

// head keeps the beginning of what is written to it after the last mark. The beginning, as a runtime says what it dies of, and then where
// all its goroutines are.
type head struct {
	mu   sync.Mutex
	text bytes.Buffer
}

const maxHead = 4 << 10

// Write implements io.Writer.
func (h *head) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := b
	if i := bytes.LastIndexByte(b, mark); i >= 0 {
		h.text.Reset()
		last = b[i+1:]
	}
	h.text.Write(last[:min(len(last), maxHead-h.text.Len())])
	return len(b), nil
}

func (h *head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}
