package rpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	called "github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/universe"
)

// What calls may have in memory before they are worked on.
const (
	// flightBytes bounds all large messages of a process from their first byte until what they say is stored. More have to wait,
	// each in its turn; their senders are held by the flow control of HTTP.
	flightBytes = 3 * limits.Tenants
	// smallBytes is up to what a message is not large. It is what a stream that is not read may have in memory anyway.
	smallBytes = windowBytes
	// Calls that need no credentials, at a time: of all, and of an address.
	maxNameless      = 1_024
	maxNamelessOfOne = 32
	// maxCallsOfOne are the calls of a tenant at a time, its streams apart.
	maxCallsOfOne = 64
)

// asStreams registers services so that their methods with one request are served as streams are: who calls is known before
// anything of the request is read. On the wire they are the same.
type asStreams struct{ *grpc.Server }

// RegisterService implements grpc.ServiceRegistrar.
func (s asStreams) RegisterService(d *grpc.ServiceDesc, of any) {
	own := *d
	own.Methods, own.Streams = nil, append([]grpc.StreamDesc(nil), d.Streams...)
	for _, m := range d.Methods {
		own.Streams = append(own.Streams, grpc.StreamDesc{StreamName: m.MethodName, Handler: func(service any, stream grpc.ServerStream) error {
			answer, err := m.Handler(service, stream.Context(), stream.RecvMsg, nil)
			if err != nil {
				return err
			}
			return stream.SendMsg(answer)
		}})
	}
	s.Server.RegisterService(&own, of)
}

// bounds keeps what callers have in memory small: of those that are not known yet, and of all together.
type bounds struct {
	door     *door.Door
	flight   *semaphore.Weighted
	paces    *paces
	stopping <-chan struct{} // closed when the server is to stop

	mu       sync.Mutex
	all      int
	nameless map[string]int // calls by address
	named    map[string]int // calls by who they are for
}

func newBounds(d *door.Door, p *paces, stopping <-chan struct{}) *bounds {
	return &bounds{door: d, flight: semaphore.NewWeighted(flightBytes), paces: p, stopping: stopping, nameless: map[string]int{}, named: map[string]int{}}
}

// guard lets nothing of a call be read before it is known who calls, and no more of it than its method takes.
func (b *bounds) guard(of any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	ctx := stream.Context()
	raw, ok := grpc.ServerTransportStreamFromContext(ctx).(rawStream)
	if !ok {
		return fmt.Errorf("messages of %s cannot be read one by one", info.FullMethod)
	}
	s := &bounded{ServerStream: stream, raw: raw, lease: &lease{of: b.flight}, single: !info.IsClientStream, stopping: b.stopping}
	defer s.lease.end()
	switch name := info.FullMethod; {
	case !strings.HasPrefix(name, "/universe."): // health and reflection
		leave, err := b.enter(ctx)
		if err != nil {
			return err
		}
		defer leave()
		s.ctx, s.most = ctx, limits.Nameless
		return handle(of, s)
	case name == universe.WorkloadService_WorkloadStream_FullMethodName:
		s.most = limits.Tenants
	default:
		s.most = limits.TenantCall
	}
	c, err := callOf(ctx)
	if err != nil {
		return err
	}
	if c.speaker = (&service.Speaker{Until: c.until}); c.bearer != "" {
		if c.speaker, err = b.door.SpeakerBy(ctx, c.tenant.Name(), c.bearer); err != nil {
			return err
		}
	}
	who := c.tenant.Name() // of calls and of the stream apart: each is as slow as itself
	if !info.IsClientStream {
		who = string(c.tenant)
	}
	leave, err := b.admit(who)
	if err != nil {
		return err
	}
	defer leave()
	if !pause(b.paces.spend(who, callCosts), ctx.Done(), b.stopping) {
		return fail.New(fail.Unavailable, "the server stops, or the call has ended, before the call was read")
	}
	ctx = called.WithIdentity(ctx, called.Identity{Kind: called.Tenant, Name: c.tenant.Name(), By: c.by()}, nil) // its end is seen to with the stream's
	c.lease, s.ctx = s.lease, context.WithValue(ctx, callKey{}, c)
	return handle(of, s)
}

type callKey struct{}

// caller is who calls, as guard has found it.
func caller(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// enter counts a call that needs no credentials. Unavailable when there are too many.
func (b *bounds) enter(ctx context.Context) (leave func(), err error) {
	address := ""
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		address = hostOf(p.Addr)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all >= maxNameless || b.nameless[address] >= maxNamelessOfOne {
		return nil, fail.New(fail.Unavailable, "too many calls without credentials at a time: try again later")
	}
	b.all++
	b.nameless[address]++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.all--
		if b.nameless[address]--; b.nameless[address] == 0 {
			delete(b.nameless, address)
		}
	}, nil
}

// admit counts a call of a tenant: those that wait to be read would else all be read at once. Unavailable when there are too many.
func (b *bounds) admit(who string) (leave func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.named[who] >= maxCallsOfOne {
		return nil, fail.New(fail.Unavailable, "the tenant has %d calls at a time: try again later", maxCallsOfOne)
	}
	b.named[who]++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.named[who]--; b.named[who] == 0 {
			delete(b.named, who)
		}
	}, nil
}

// hostOf is an address without the port; of IPv6 its network of 64 bits, of which one host has all addresses.
func hostOf(a net.Addr) string {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return a.String()
	}
	host := at.Addr().Unmap()
	if host.Is6() {
		return netip.PrefixFrom(host.WithZone(""), 64).Masked().String()
	}
	return host.String()
}

// lease is what the messages of a call have in memory, of what all may have. What is not given back is when the call ends.
type lease struct {
	of *semaphore.Weighted

	mu    sync.Mutex
	held  int64
	fresh int64 // of held, what the last message has that arrived did not ask for yet
	size  int   // see sized
	ended bool
}

// take waits until there is room for n bytes.
func (l *lease) take(ctx context.Context, n int64) error {
	if err := l.of.Acquire(ctx, n); err != nil {
		return context.Cause(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		l.of.Release(n)
		return fail.New(fail.Unavailable, "the call has ended")
	}
	l.held += n
	l.fresh += n
	return nil
}

// arrived is what has been taken since it was asked last.
func (l *lease) arrived() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.fresh
	l.fresh = 0
	return n
}

func (l *lease) give(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = min(n, l.held)
	l.held -= n
	l.of.Release(n)
}

// end gives all back; what is taken from then on is given back at once.
func (l *lease) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.of.Release(l.held)
	l.held, l.fresh = 0, 0
}

// sized is how many bytes the last message had on the wire, or expanded if those are more.
func (l *lease) sized() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size
}

func (l *lease) noteSize(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.size = n
}

// rawStream reads the messages of a stream as they are on the wire. gRPC's streams have it, though not by their interface: it has no
// other way to look at the length of a message first, by what its method takes.
type rawStream interface {
	ReadMessageHeader(header []byte) error
	Read(n int) (mem.BufferSlice, error)
	RecvCompress() string
}

// bounded is a stream of which no more is read than may be.
type bounded struct {
	grpc.ServerStream
	ctx    context.Context
	raw    rawStream
	most   int // bytes of a message
	single bool
	lease  *lease
	// stopping is closed when the server is to stop.
	stopping <-chan struct{}
}

// Context implements grpc.ServerStream.
func (s *bounded) Context() context.Context { return s.ctx }

// RecvMsg implements grpc.ServerStream. Exhausted when a message has more bytes, or more members, than may be; Timeout when that of
// a call with one message has not arrived whole in time: by then its caller may have lost the right to it.
func (s *bounded) RecvMsg(m any) error {
	if !s.single {
		return s.receive(m)
	}
	arrived := make(chan error, 1)
	go func() { arrived <- safely(func() error { return s.only(m) }) }() // ends with the stream, which does when the call does
	late := time.NewTimer(policy.Arrive + policy.ArriveMiB*time.Duration(s.most>>20))
	defer late.Stop()
	select {
	case err := <-arrived:
		return err
	case <-late.C:
		return fail.New(fail.Timeout, "the call has not arrived in time")
	case <-s.stopping:
		return fail.New(fail.Unavailable, "the server stops, and the call has not arrived")
	}
}

// safely turns a panic into an error: in a goroutine of its own nobody else would.
func safely(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return do()
}

// only receives the one message of a call, and that nothing comes after it.
func (s *bounded) only(m any) error {
	if err := s.receive(m); err != nil {
		return err
	}
	switch _, _, err := s.header(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	default:
		return fail.New(fail.Invalid, "the call has more than one message")
	}
}

// header is what comes before a message: its length, and whether it is compressed. io.EOF when nothing comes any more.
func (s *bounded) header() (length int, compressed bool, err error) {
	var header [5]byte
	if err := s.raw.ReadMessageHeader(header[:]); err != nil {
		return 0, false, lost(err)
	}
	n := int64(binary.BigEndian.Uint32(header[1:]))
	if n > int64(s.most) {
		return 0, false, fail.New(fail.Exhausted, "a message of this call may have %d bytes, and this one has %d", s.most, n)
	}
	return int(n), header[0] == 1, nil
}

func (s *bounded) receive(m any) error {
	into, ok := m.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no message", m)
	}
	length, compressed, err := s.header()
	if err != nil {
		if errors.Is(err, io.EOF) && s.single {
			return fail.New(fail.Invalid, "the call has no message")
		}
		return err
	}
	data, err := s.arrive(length, compressed)
	if err != nil {
		return err
	}
	s.lease.noteSize(max(length, len(data)))
	if len(data) > smallBytes {
		if err := countMembers(into.ProtoReflect().Descriptor(), data); err != nil {
			return err
		}
	}
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, into); err != nil {
		return fail.New(fail.Invalid, "the message cannot be read: it is not as the protocol has it")
	}
	return nil
}

// arrive reads a message, a large one as soon as there is room for it.
func (s *bounded) arrive(length int, compressed bool) ([]byte, error) {
	weight := weightOf(length)
	if compressed {
		weight = weightOf(s.most)
	}
	if weight == 0 {
		return s.read(length, compressed)
	}
	if err := s.lease.take(s.ctx, weight); err != nil {
		return nil, err
	}
	type read struct {
		data []byte
		err  error
	}
	arrived := make(chan read, 1)
	go func() {
		var r read
		r.err = safely(func() (err error) {
			r.data, err = s.read(length, compressed)
			return err
		})
		arrived <- r
	}()
	late := time.NewTimer(policy.Arrive + policy.ArriveMiB*time.Duration(length>>20))
	defer late.Stop()
	select {
	case r := <-arrived:
		return r.data, r.err
	case <-late.C:
		return nil, fail.New(fail.Timeout, "a message of %d bytes has not arrived in time", length)
	}
}

// weightOf is what a message of a length has of flightBytes.
func weightOf(length int) int64 {
	if length <= smallBytes {
		return 0
	}
	return int64(length)
}

func (s *bounded) read(length int, compressed bool) ([]byte, error) {
	parts, err := s.raw.Read(length)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, lost(err)
	}
	data := parts.Materialize()
	parts.Free()
	if !compressed {
		return data, nil
	}
	by := encoding.GetCompressor(s.raw.RecvCompress())
	if by == nil {
		return nil, fail.New(fail.Invalid, "the message is compressed by %q, which is not known", s.raw.RecvCompress())
	}
	plain, err := by.Decompress(bytes.NewReader(data))
	if err != nil {
		return nil, fail.New(fail.Invalid, "the message cannot be expanded")
	}
	if data, err = io.ReadAll(io.LimitReader(plain, int64(s.most)+1)); err != nil {
		return nil, fail.New(fail.Invalid, "the message cannot be expanded")
	}
	if len(data) > s.most {
		return nil, fail.New(fail.Exhausted, "a message of this call may have %d bytes, and this one has more when it is expanded", s.most)
	}
	return data, nil
}

// lost is the error of a connection that has been lost. What has a code keeps it.
func lost(err error) error {
	if _, known := status.FromError(err); known || errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return fail.Wrap(err, fail.Unavailable, "the connection is lost")
}
