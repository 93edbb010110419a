package connections_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/connections"
	"github.com/drover-io/drover/internal/freeport"
	"github.com/drover-io/drover/internal/limits"
)

func side(t *testing.T, more ...string) (address string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	address = freeport.Address()
	wait, err := connections.Side{
		Address: address, Purpose: "a test", Names: more, Log: slog.New(slog.DiscardHandler),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") }),
	}.Serve(ctx)
	require.NoError(t, err)
	t.Cleanup(func() {
		cancel()
		require.NoError(t, wait())
	})
	return address
}

// TestSidesAnswerByTheirNames: a page of somebody else, whose name leads to this address, reads nothing, and nobody changes anything.
func TestSidesAnswerByTheirNames(t *testing.T) {
	address := side(t, "metrics.example.com")
	for _, c := range []struct {
		method, host string
		want         int
	}{
		{http.MethodGet, "", http.StatusOK},
		{http.MethodHead, "localhost:1", http.StatusOK},
		{http.MethodGet, "Metrics.example.com:9465", http.StatusOK},
		{http.MethodGet, "evil.example.com", http.StatusForbidden},
		{http.MethodGet, "192.0.2.1", http.StatusForbidden},
		{http.MethodPost, "", http.StatusMethodNotAllowed},
		{http.MethodDelete, "localhost", http.StatusMethodNotAllowed},
	} {
		request, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+address+"/metrics", http.NoBody)
		require.NoError(t, err)
		request.Host = c.host
		answer, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, c.want, answer.StatusCode, "%+v: %s", c, body)
		if c.method != http.MethodHead {
			require.Equal(t, c.want == http.StatusOK, string(body) == "here")
		}
	}
}

// TestNobodyTakesAllOfASide: connections that ask nothing leave no more than their address may have, and those that are over are closed at once.
func TestNobodyTakesAllOfASide(t *testing.T) {
	address := side(t)
	dial := func() net.Conn {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
		return c
	}
	ask := func(c net.Conn) error {
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			return err
		}
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		return err
	}
	open := make([]net.Conn, limits.SideAddressConnections)
	for i := range open {
		open[i] = dial()
		require.NoError(t, ask(open[i]), "connection %d", i)
	}
	require.Error(t, ask(dial()), "one too many")
	open[0].Close()
	require.Eventually(t, func() bool { return ask(dial()) == nil }, time.Minute, 10*time.Millisecond, "there is room again")
}

// TestEveryServerHasBounds: of headers and of what is idle, whatever else is not bounded.
func TestEveryServerHasBounds(t *testing.T) {
	s := connections.Server(http.NotFoundHandler(), slog.New(slog.DiscardHandler), connections.Times{})
	require.NotZero(t, s.ReadHeaderTimeout)
	require.NotZero(t, s.IdleTimeout)
	require.Equal(t, limits.Headers, s.MaxHeaderBytes)
}
