package api_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/api"
	"github.com/drover-io/drover/internal/policy"
)

// TestSlowHeadersAreCutOff: who sends a header byte by byte holds a connection no longer than one may take, and another one is answered
// meanwhile.
func TestSlowHeadersAreCutOff(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() {
		ended <- api.Serve(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }), slog.New(slog.DiscardHandler), time.Second)
	}()
	begun, closed := time.Now(), make(chan struct{}) // the server counts from when it has accepted
	slow, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
	require.NoError(t, err)
	defer slow.Close()
	go func() {
		defer close(closed)
		_, _ = io.Copy(io.Discard, slow)
	}()
	dripping := time.NewTicker(100 * time.Millisecond)
	defer dripping.Stop()
	_, err = io.WriteString(slow, "GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ")
	require.NoError(t, err)
	answered := false
	for open := true; open; {
		select {
		case <-closed:
			open = false
		case <-dripping.C:
			_, _ = io.WriteString(slow, "x") // until it is closed
			if !answered {
				answer, err := http.Get("http://" + l.Addr().String())
				require.NoError(t, err)
				require.NoError(t, answer.Body.Close())
				answered = answer.StatusCode == http.StatusNoContent
			}
		}
	}
	require.True(t, answered)
	require.GreaterOrEqual(t, time.Since(begun), policy.Header)
	require.Less(t, time.Since(begun), 6*policy.Header)
	stop()
	require.NoError(t, <-ended)
}
