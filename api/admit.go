package api

import (
	"context"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/fail"
)

// How many requests are at work at a time. What is taken beyond what the machine can do is answered too late for
// everybody: 500 operations at once on two cores, none refused, were 129 answers after 30 to 60 s. So what finds no place
// soon is refused, and nothing of it is done.
const (
	// DefaultOperations is for those that begin an operation, of which two cores take some ten a second.
	DefaultOperations = 32
	// requestsAtOnce is for all others but streams.
	requestsAtOnce = 256
	// admitWait is how long a request waits for a place, and retryLater when it may be sent again.
	admitWait  = 1500 * time.Millisecond
	retryLater = 2 * time.Second
)

// places are those of requests that are at work.
type places chan struct{}

// enter takes a place, which leave gives back.
func (p places) enter(ctx context.Context) (leave func(), err error) {
	leave = func() { <-p }
	select {
	case p <- struct{}{}:
		return leave, nil
	default:
	}
	full := time.NewTimer(admitWait)
	defer full.Stop()
	select {
	case p <- struct{}{}:
		return leave, nil
	case <-full.C:
		return nil, &fail.Error{
			Kind: fail.Unavailable, RetryAfter: retryLater,
			Message: "too many requests are at work at the moment; nothing was done, try again later",
		}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// admit has requests wait for a place.
func admit(p places, next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		leave, err := p.enter(c.Request().Context())
		if err != nil {
			return err
		}
		defer leave()
		return next(c)
	}
}
