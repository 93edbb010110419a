package connections

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/drover-io/drover/internal/hosts"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/policy"
)

// Listen takes an address; an error says what for. It is the one place where a process of ours begins to listen.
func Listen(ctx context.Context, address, purpose string) (net.Listener, error) {
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w", purpose, err)
	}
	return l, nil
}

// Secured is the listener with TLS, and the listener itself without a configuration.
func Secured(l net.Listener, c *tls.Config) net.Listener {
	if c == nil {
		return l
	}
	return tls.NewListener(l, c)
}

// Times bound a request, and its answer from the end of its header on; 0 is no bound. A handler may bound them otherwise.
type Times struct{ Read, Write time.Duration }

// Server makes an HTTP server. It is the one place where a process of ours does: no server is without bounds of headers and of connections
// that nobody uses. What connections do before there is a request, such as handshakes that fail, is logged for who debugs alone: anybody can
// cause it.
func Server(handler http.Handler, log *slog.Logger, times Times) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: policy.Header,
		ReadTimeout:       times.Read,
		WriteTimeout:      times.Write,
		IdleTimeout:       policy.Idle,
		MaxHeaderBytes:    limits.Headers,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// Side is a listener beside those of the API: for health, metrics and profiles, which anybody may ask for who reaches it. Nothing is changed by
// it. As nobody's name is known, all that bounds a peer is its address, and what keeps a web page out is the name by which it asks: see package hosts.
type Side struct {
	Address string
	Purpose string // such as "metrics (--metrics-listen)"
	TLS     *tls.Config
	Names   []string // by which it may be asked, beside loopback's and its addresses
	Handler http.Handler
	Write   time.Duration // bounds an answer; policy.SideWrite when 0
	Log     *slog.Logger
}

// Open takes the address. The caller serves by the server and the listener, or closes the listener.
func (s Side) Open(ctx context.Context) (*http.Server, net.Listener, error) {
	l, err := Listen(ctx, s.Address, s.Purpose)
	if err != nil {
		return nil, nil, err
	}
	times := Times{Read: policy.SideRead, Write: policy.SideWrite}
	if s.Write > 0 {
		times.Write = s.Write
	}
	server := Server(readOnly(hosts.New(s.Address, s.Names...), s.Handler), s.Log, times)
	return server, Secured(New(l, s.Log, limits.SideConnections, limits.SideAddressConnections), s.TLS), nil
}

// Serve answers until ctx ends, then lets requests end for policy.SideDrain. The address is taken when it returns, which is not waited for.
func (s Side) Serve(ctx context.Context) (wait func() error, err error) {
	server, l, err := s.Open(ctx)
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	drained := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(drained)
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), policy.SideDrain)
		defer cancel()
		if server.Shutdown(ending) != nil {
			_ = server.Close() // who has not taken the answer by now
		}
	})
	return func() error {
		err := <-ended
		if !stop() {
			<-drained
		}
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return fmt.Errorf("serve %s: %w", s.Purpose, err)
	}, nil
}

// readOnly refuses requests by names of others, and all that could change something.
func readOnly(names hosts.Names, next http.Handler) http.Handler {
	methods := []string{http.MethodGet, http.MethodHead}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		switch {
		case !names.Ours(r):
			http.Error(w, fmt.Sprintf("%q is not a name of this listener; --allowed-hosts adds names to it", r.Host), http.StatusForbidden)
		case !slices.Contains(methods, r.Method):
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "this listener takes GET and HEAD alone", http.StatusMethodNotAllowed)
		default:
			next.ServeHTTP(w, r)
		}
	})
}
