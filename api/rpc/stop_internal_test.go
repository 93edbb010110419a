package rpc

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/policy"
)

// stubborn is a server with a handler that ends some time after it began.
type stubborn struct {
	handler time.Duration
	stopped chan time.Time
	ended   chan struct{}
}

func (s *stubborn) GracefulStop() {
	<-time.After(s.handler)
	close(s.ended)
}

// Stop waits for GracefulStop, as that of gRPC does.
func (s *stubborn) Stop() {
	s.stopped <- time.Now()
	<-s.ended
}

// TestAProcessEndsThoughAHandlerDoesNot: a database that hangs holds up who writes the end of a stream.
func TestAProcessEndsThoughAHandlerDoesNot(t *testing.T) {
	const drain = 25 * time.Second
	for name, c := range map[string]struct {
		handler, takes time.Duration
		forced         bool
	}{
		"it ends in order":      {time.Second, time.Second, false},
		"it ends a little late": {drain + time.Second, drain + time.Second, true},
		"it goes on":            {time.Hour, drain + policy.Handlers, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &stubborn{handler: c.handler, stopped: make(chan time.Time, 1), ended: make(chan struct{})}
				begun := time.Now()
				stop(s, drain)
				require.Equal(t, c.takes, time.Since(begun))
				<-s.ended
				synctest.Wait()
				require.Equal(t, c.forced, len(s.stopped) > 0)
				if c.forced {
					require.Equal(t, drain, (<-s.stopped).Sub(begun))
				}
			})
		})
	}
}
