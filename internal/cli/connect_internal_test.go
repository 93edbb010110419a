package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// pipes is a listener of connections within the process.
type pipes struct {
	come   chan net.Conn
	ended  chan struct{}
	ending sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.come:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.ending.Do(func() { close(p.ended) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// lossy is a connection on whose way everything may be lost, without a word.
type lossy struct {
	net.Conn
	lost *atomic.Bool
}

func (l lossy) Write(data []byte) (int, error) {
	if l.lost.Load() {
		return len(data), nil
	}
	return l.Conn.Write(data)
}

// TestADeadConnectionIsGivenUp: what was between the command and the API, such as a firewall or the machine of the API that it had, has gone without
// a word. The next one that answers is asked long before TCP gives up.
func TestADeadConnectionIsGivenUp(t *testing.T) {
	borrowed := httptest.NewTLSServer(nil)
	borrowed.Close()
	roots := x509.NewCertPool()
	roots.AddCert(borrowed.Certificate())
	synctest.Test(t, func(t *testing.T) {
		listener := &pipes{come: make(chan net.Conn), ended: make(chan struct{})}
		server := &http.Server{
			ReadHeaderTimeout: time.Minute,
			TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS13, Certificates: borrowed.TLS.Certificates},
			Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Over", r.Proto) }),
		}
		served := make(chan error, 1)
		go func() { served <- server.ServeTLS(listener, "", "") }()
		transport := connecting(&tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots})
		var made []*atomic.Bool
		transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			listener.come <- there
			made = append(made, &atomic.Bool{})
			return lossy{here, made[len(made)-1]}, nil
		}
		ask := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://example.com", http.NoBody)
			require.NoError(t, err)
			answer, err := transport.RoundTrip(r)
			if err != nil {
				return err
			}
			require.Equal(t, "HTTP/2.0", answer.Header.Get("Over"))
			return answer.Body.Close()
		}
		require.NoError(t, ask())
		require.NoError(t, ask())
		require.Len(t, made, 1)
		made[0].Store(true)
		begun := time.Now()
		for ask() != nil {
			require.Less(t, time.Since(begun), time.Minute, "all requests go over the connection that is dead")
		}
		require.Len(t, made, 2)
		transport.CloseIdleConnections()
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	})
}
