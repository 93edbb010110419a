// Package rpc is the gRPC edge: EMCO's StatusNotify, and on a listener of their own the services of tenants. Both have the
// health service. errors.go has the one table of kinds and codes.
package rpc

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/encoding/gzip" // clients may compress what they send
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/drover-io/drover/internal/authn"
	called "github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/connections"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/statusnotify"
)

// What connections may do. A peer that does not answer a ping is gone; one that asks too often is sent away.
const (
	windowBytes = 64 << 10 // of a stream that is not read; gRPC would let it grow to 16 MiB
	// transitBytes is how much of what is read may be on its way in a connection: with 64 KiB, gRPC's own, a message of 64 MiB would take
	// two minutes where a round takes 100 ms, and have its room for so long. What is not read is bounded by the windows of streams.
	transitBytes = 4 << 20
	writeBuffers = 32 << 10
	readBuffers  = 4 << 10 // there is one for each connection, and TLS has a record in memory anyway
)

// Options say how calls are answered.
type Options struct {
	TLS   *tls.Config // nil: without
	Door  *door.Door
	Log   *slog.Logger
	Drain time.Duration // that calls are given to end
}

// Serve answers calls on the listener until ctx ends; then it takes no more, and gives those that are being answered
// the drain time to end. Streams end with the hub behind the door, which must be closed by then. nil stands for a clean end.
// Without a prover everybody is anonymous.
func Serve(ctx context.Context, l net.Listener, prove authn.Prover, o Options) error {
	return serve(ctx, l, apiServer(prove, o, ctx.Done()), o)
}

// apiServer has the services of Serve but for health.
func apiServer(prove authn.Prover, o Options, stopping <-chan struct{}) asStreams {
	by := asStreams{newServer(o.Log, limits.GRPC, append(credentialsOf(&o), grpc.ChainStreamInterceptor(proving(prove, o.Door, stopping)))...)}
	statusnotify.RegisterStatusNotifyServer(by, newRegister(o.Door))
	return by
}

// credentialsOf are those of a server; none without TLS.
func credentialsOf(o *Options) []grpc.ServerOption {
	if o.TLS == nil {
		return nil
	}
	return []grpc.ServerOption{grpc.Creds(handshakes{credentials.NewTLS(o.TLS), o.Log})}
}

// handshakes are credentials that log, for who debugs, why a handshake has failed: gRPC says so to nobody, and clients say Unavailable.
type handshakes struct {
	credentials.TransportCredentials
	log *slog.Logger
}

// ServerHandshake is that of the credentials.
func (h handshakes) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured, info, err := h.TransportCredentials.ServerHandshake(c)
	if err != nil && !errors.Is(err, io.EOF) { // who only looks whether the port is open has left
		h.log.Debug("a handshake of TLS failed", "from", c.RemoteAddr().String(), "error", err)
	}
	return secured, info, err
}

// Clone is a copy.
func (h handshakes) Clone() credentials.TransportCredentials {
	return handshakes{h.TransportCredentials.Clone(), h.log}
}

// newServer makes a server that takes messages of a size. All methods of its services are to be streams, see asStreams.
func newServer(log *slog.Logger, size int, more ...grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append([]grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: policy.PingAfter, Timeout: policy.PingTime, MaxConnectionIdle: policy.CallsIdle}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: policy.PingLeast, PermitWithoutStream: true}),
		grpc.ConnectionTimeout(policy.Setup),
		grpc.MaxConcurrentStreams(limits.GRPCStreams),
		grpc.MaxRecvMsgSize(size),
		grpc.MaxHeaderListSize(limits.Headers),
		grpc.WriteBufferSize(writeBuffers),
		grpc.ReadBufferSize(readBuffers),
		grpc.StaticStreamWindowSize(windowBytes),
		grpc.StaticConnWindowSize(transitBytes),
		grpc.StreamInterceptor(streams(log, new(strangers))),
	}, more...)...)
}

// serve is Serve for a server that has its services but for health, which comes to them.
func serve(ctx context.Context, l net.Listener, by asStreams, o Options) error {
	l = connections.New(l, o.Log, limits.GRPCConnections, limits.GRPCAddressConnections)
	server, alive := by.Server, health.NewServer()
	grpc_health_v1.RegisterHealthServer(by, alive)
	for name := range server.GetServiceInfo() { // who probes asks for one by its name
		alive.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_SERVING)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve gRPC: %w", err)
	case <-ctx.Done():
	}
	alive.Shutdown()
	stop(server, o.Drain)
	return nil
}

// stoppable is a gRPC server.
type stoppable interface {
	GracefulStop()
	Stop()
}

// stop lets calls end for as long as drain, and then ends their connections. Who has something to write does so in spite of that, and is given
// policy.Handlers for it: the server itself would wait for as long as that takes.
func stop(server stoppable, drain time.Duration) {
	late := time.AfterFunc(drain, server.Stop)
	defer late.Stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		server.GracefulStop()
	}()
	over := time.NewTimer(drain + policy.Handlers)
	defer over.Stop()
	select {
	case <-ended:
	case <-over.C:
	}
}

// streams gives each call an id, which its trailer has, turns the errors of streams into codes, and counts and logs their ends: of strangers, who cost
// nobody anything, now and then.
func streams(log *slog.Logger, logged *strangers) grpc.StreamServerInterceptor {
	return func(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
		begun, ctx := time.Now(), requested(stream.Context())
		defer func() {
			to := log
			if p := recover(); p != nil {
				err = panics.Caught(ctx, p, debug.Stack())
			}
			if by := logged.of(info.FullMethod, err); by != nil {
				left, now := by.next(begun)
				if !now {
					to = silent
				} else if left > 0 {
					to = log.With(slog.Int("notLogged", left))
				}
			}
			err = ended(ctx, to, info, begun, err)
		}()
		stream.SetTrailer(metadata.Pairs(requestID, called.RequestID(ctx))) // a header would say that a client is registered
		return handle(service, &within{stream, ctx})
	}
}

// requestID is the member of metadata that has the id of a call: of a trailer our own, and of a call its client's, which the log has beside it.
const requestID = "x-request-id"

// requested is the context of a call with its id, and from where it came.
func requested(ctx context.Context) context.Context {
	r := &called.Request{ID: rand.Text()}
	if p, ok := peer.FromContext(ctx); ok {
		r.Remote = p.Addr.String()
	}
	return called.WithRequest(ctx, r)
}

// within is a stream with a context of its own, which has what was found out of the call.
type within struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (w *within) Context() context.Context { return w.ctx }

var silent = slog.New(slog.DiscardHandler)

// strangers are those of whose calls not each is logged: who is not known, and who calls what needs no credentials. Each sort of end has turns
// of its own: who asks for health every second leaves those of refusals, and who is refused those of defects.
type strangers struct{ answered, refused, defects sparse }

// of is what a call's line needs a turn of, nil when it needs none.
func (s *strangers) of(method string, err error) *sparse {
	var who *stranger
	switch {
	case !isNameless(method) && !errors.As(err, &who):
		return nil
	case err == nil:
		return &s.answered
	case defect(err):
		return &s.defects
	default:
		return &s.refused
	}
}

// defect says whether what a call ended with is ours to mend.
func defect(err error) bool {
	var by *broken
	return toStatus(err).Code() == internalCode && !errors.As(err, &by)
}

// sparse lets one through in each policy.RefusedLog.
type sparse struct {
	mu   sync.Mutex
	last time.Time
	left int
}

// next says whether one is let through, and how many before it were not.
func (s *sparse) next(now time.Time) (left int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.last) < policy.RefusedLog {
		s.left++
		return 0, false
	}
	left, s.last, s.left = s.left, now, 0
	return left, true
}

// ended counts and logs the end of a call and gives what its caller is told.
func ended(ctx context.Context, log *slog.Logger, info *grpc.StreamServerInfo, begun time.Time, err error) error {
	told, took := toStatus(err), time.Since(begun)
	method, code := strings.TrimPrefix(info.FullMethod, "/"), told.Code().String()
	if info.IsClientStream || info.IsServerStream { // how long it went on is no time to answer
		measure.StreamsEnded.Add(1, method, code)
	} else {
		measure.CallDuration.Record(took.Seconds(), method, code)
	}
	level, said := slog.LevelInfo, slog.Any("error", err)
	if err != nil {
		said = slog.String("error", cut(err.Error(), maxText))
	}
	if defect(err) {
		level = slog.LevelError
	}
	ids := door.IDs(ctx)
	if theirs := strings.Join(metadata.ValueFromIncomingContext(ctx, requestID), ", "); theirs != "" {
		ids = append(ids, slog.String("clientRequestId", cut(theirs, maxEcho)))
	}
	log.With(ids...).Log(ctx, level, "call", slog.String("method", info.FullMethod), slog.String("code", code), slog.Duration("took", took), said)
	return told.Err()
}
