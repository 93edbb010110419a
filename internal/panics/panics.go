// Package panics has a panic end what it is about, and nothing else. In a goroutine of its own a panic ends the process, with all that others
// have asked of it: what works for a request, a stream or a cluster is begun in a Group, or called by Do.
package panics

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/measure"
)

// Error is a panic. It has no kind, so that nobody outside is told what it says. The panic's value is not wrapped, whatever it is: one that
// panics with the end of a context has not been left by its caller.
type Error struct{ Value any }

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

var logger atomic.Pointer[slog.Logger]

// LogTo says where the process logs panics; by slog.Default while nobody has said so.
func LogTo(log *slog.Logger) { logger.Store(log) }

// Caught logs and counts what somebody has recovered, with the request that it is of, and gives it as an error.
func Caught(ctx context.Context, value any, stack []byte) error {
	measure.Panics.Add(1)
	log := logger.Load()
	if log == nil {
		log = slog.Default()
	}
	err := &Error{value}
	log.ErrorContext(ctx, "panic", slog.String("requestId", caller.RequestID(ctx)), slog.Any("error", err), slog.String("stack", string(stack)))
	return err
}

// Do calls f, and gives a panic of it as an Error.
func Do(ctx context.Context, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = Caught(ctx, p, debug.Stack())
		}
	}()
	return f()
}

// Value is Do for what gives a value, the zero one with a panic. What singleflight.Group.DoChan calls needs it: that ends the process by itself.
func Value[T any](ctx context.Context, f func() (T, error)) (value T, err error) {
	err = Do(ctx, func() (err error) {
		value, err = f()
		return err
	})
	return value, err
}

// Group is an errgroup.Group in which a panic is the error of the function that it is in.
type Group struct {
	ctx context.Context
	of  *errgroup.Group
}

// New makes a group whose functions end by themselves, whatever becomes of the others.
func New(ctx context.Context) *Group { return &Group{ctx, new(errgroup.Group)} }

// WithContext makes a group with a context that ends with the first error.
func WithContext(ctx context.Context) (*Group, context.Context) {
	of, ctx := errgroup.WithContext(ctx)
	return &Group{ctx, of}, ctx
}

// SetLimit has no more than n functions at work at a time; it comes before Go.
func (g *Group) SetLimit(n int) { g.of.SetLimit(n) }

// Go calls f in a goroutine of its own, when there is room for it.
func (g *Group) Go(f func() error) { g.of.Go(func() error { return Do(g.ctx, f) }) }

// Wait waits for all functions, and gives the first error.
func (g *Group) Wait() error { return g.of.Wait() }
