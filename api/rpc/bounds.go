package rpc

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/drover-io/drover/internal/authn"
	called "github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/universe"
)

// What calls may have in memory before they are worked on.
const (
	// flightBytes bounds all large messages of a process while they arrive, and once more what has been read of them until that is
	// stored. More have to wait, each in its turn; their senders are held by the flow control of HTTP.
	flightBytes = 3 * limits.Tenants
	// memberBytes is what a member of a message takes in memory when it is read, beside its bytes.
	memberBytes = 128
	// smallBytes is up to what a message is not large. It is what a stream that is not read may have in memory anyway.
	smallBytes = windowBytes
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
	door       *door.Door
	wire, read *pool
	paces      *paces
	lookups    *authn.Turns    // of bearer tokens in the store
	stopping   <-chan struct{} // closed when the server is to stop

	waiting *lobby
	trust   authn.Trust // in clients' certificates

	mu    sync.Mutex
	named map[string]int // calls by who they are for
}

func newBounds(d *door.Door, p *paces, stopping <-chan struct{}) *bounds {
	return &bounds{
		door: d, wire: newPool(flightBytes), read: newPool(flightBytes), paces: p, lookups: authn.NewTurns(), stopping: stopping,
		waiting: newLobby(stopping), named: map[string]int{},
	}
}

// guard lets nothing of a call be read before it is known who calls, and no more of it than its method takes.
func (b *bounds) guard(of any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	ctx := stream.Context()
	s, err := boundedOf(stream, info, b.stopping)
	if err != nil {
		return err
	}
	if isNameless(info.FullMethod) {
		return b.waiting.serve(of, s, handle)
	}
	c, err := b.known(ctx)
	if err != nil {
		b.door.Refused(ctx, door.Calling, info.FullMethod, fail.KindOf(err))
		return &stranger{err}
	}
	who := string(c.tenant) // of calls and of the stream apart: each is as slow as itself
	s.most = limits.TenantCall
	if info.FullMethod == universe.WorkloadService_WorkloadStream_FullMethodName {
		who, s.most = c.tenant.Name(), limits.Tenants
	}
	ctx = called.WithIdentity(ctx, called.Identity{Kind: called.Tenant, Name: c.tenant.Name(), By: c.speaker.By, Expires: c.speaker.Until}, nil)
	leave, err := b.admit(who, c.tenant.Name())
	if err != nil { // it has too many, which is its own doing
		b.door.Refused(ctx, door.Calling, info.FullMethod, fail.KindOf(err))
		return err
	}
	defer leave()
	if !pause(b.paces.spend(who, callCosts), ctx.Done(), b.stopping) {
		return fail.New(fail.Unavailable, "the server stops, or the call has ended, before the message of %s was read; connect again", s.method)
	}
	c.memory = newMemory(b.wire.lease(c.tenant.Name()), b.read.lease(c.tenant.Name()))
	defer c.memory.leave()
	s.memory, s.ctx = c.memory, context.WithValue(ctx, callKey{}, c)
	return handled(b.door, of, s, info, handle)
}

// isNameless says whether a call needs no credentials: health and reflection do not.
func isNameless(method string) bool { return strings.HasPrefix(method, "/grpc.") }

// stranger is the error of a call of which it is not known who calls.
type stranger struct{ error }

// Unwrap gives the error itself.
func (s *stranger) Unwrap() error { return s.error }

// known says who calls. Bearer tokens are looked for a few at a time, and of an address half of those: who sends what is none keeps
// nobody else waiting.
func (b *bounds) known(ctx context.Context) (*call, error) {
	c, err := callOf(ctx, b.trust)
	if err != nil {
		return nil, err
	}
	if c.bearer == "" {
		return c, nil
	}
	leave, err := b.lookups.Take(ctx, hostOf(ctx))
	if err != nil {
		return nil, err
	}
	defer leave()
	c.speaker, err = b.door.SpeakerBy(ctx, c.tenant.Name(), c.bearer)
	return c, ours(ctx, err)
}

type callKey struct{}

// caller is who calls, as guard has found it.
func caller(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// hostOf is where a call comes from.
func hostOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return authn.Host(p.Addr.String())
	}
	return ""
}

// lobby has the calls that need no credentials. Each keeps something in memory for as long as its caller likes.
type lobby struct {
	stopping <-chan struct{} // closed when the server is to stop, which ends them

	mu  sync.Mutex
	all int
	of  map[string]int // by address
}

func newLobby(stopping <-chan struct{}) *lobby {
	return &lobby{stopping: stopping, of: map[string]int{}}
}

// serve serves one of them until the server is to stop.
func (l *lobby) serve(of any, s *bounded, handle grpc.StreamHandler) error {
	leave, err := l.enter(hostOf(s.ServerStream.Context()))
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithCancel(s.ServerStream.Context())
	defer cancel()
	go func() {
		select {
		case <-l.stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	s.ctx, s.most, s.ends = ctx, limits.Nameless, l.stopping
	return handle(of, s)
}

// enter counts a call by its address. Unavailable when there are too many.
func (l *lobby) enter(address string) (leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= limits.NamelessCalls || l.of[address] >= limits.NamelessAddressCalls {
		return nil, fail.New(fail.Unavailable, "too many calls without credentials, from %s or in all; try again later", cmp.Or(address, "an address that is not known"))
	}
	l.all++
	l.of[address]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all--
		if l.of[address]--; l.of[address] == 0 {
			delete(l.of, address)
		}
	}, nil
}

// admit counts a call of a tenant: those that wait to be read would else all be read at once. Unavailable when there are too many.
func (b *bounds) admit(who, tenant string) (leave func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.named[who] >= limits.TenantCalls {
		return nil, fail.New(fail.Unavailable, "tenant %q has %d calls at a time, which is as many as may be; try again later", tenant, limits.TenantCalls)
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
	method string // what is called, for people
	raw    rawStream
	most   int // bytes of a message
	single bool
	memory *memory // nil where messages are small
	// stopping is closed when the server is to stop, and ends when nothing is to be read then: nil where who reads sees to that.
	stopping, ends <-chan struct{}
}

// boundedOf is a stream of which nothing was read yet.
func boundedOf(stream grpc.ServerStream, info *grpc.StreamServerInfo, stopping <-chan struct{}) (*bounded, error) {
	raw, ok := grpc.ServerTransportStreamFromContext(stream.Context()).(rawStream)
	if !ok {
		return nil, fmt.Errorf("messages of %s cannot be read one by one", info.FullMethod)
	}
	return &bounded{ServerStream: stream, method: strings.TrimPrefix(info.FullMethod, "/"), raw: raw, single: !info.IsClientStream, stopping: stopping}, nil
}

// Context implements grpc.ServerStream.
func (s *bounded) Context() context.Context { return s.ctx }

// RecvMsg implements grpc.ServerStream. Exhausted when a message has more bytes, or more members, than may be; Timeout when that of
// a call with one message has not arrived whole in time: by then its caller may have lost the right to it.
func (s *bounded) RecvMsg(m any) error {
	receive, ends := s.receive, s.ends
	var late <-chan time.Time
	if s.single {
		timer := time.NewTimer(policy.Arrive + policy.ArriveMiB*time.Duration(s.most>>20))
		defer timer.Stop()
		receive, ends, late = s.only, s.stopping, timer.C
	}
	if ends == nil {
		return receive(m)
	}
	arrived := make(chan error, 1)
	s.run(func() { arrived <- panics.Do(s.ctx, func() error { return receive(m) }) })
	select {
	case err := <-arrived:
		return err
	case <-late:
		return fail.New(fail.Timeout, "the message of %s has not arrived in time; try again", s.method)
	case <-ends:
		return fail.New(fail.Unavailable, "the server stops, and the message of %s has not arrived; connect again", s.method)
	}
}

// run does something beside the call, which ends with the stream, and that with the call. What it has in memory stays the call's.
func (s *bounded) run(do func()) {
	if s.memory == nil {
		go do()
		return
	}
	s.memory.enter()
	go func() {
		defer s.memory.leave()
		do()
	}()
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
		return &broken{"the call has more than one message"}
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
		return 0, false, fail.New(fail.Exhausted, "a message of %s may have %d bytes, and this one has %d", s.method, s.most, n)
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
			return &broken{"the call has no message"}
		}
		return err
	}
	data, err := s.arrive(length)
	if err != nil {
		return err
	}
	if compressed {
		if data, err = s.expand(data); err != nil {
			return err
		}
	}
	members, err := countMembers(into.ProtoReflect().Descriptor(), data)
	if err != nil {
		return err
	}
	now := size{wire: max(length, len(data)), read: len(data) + members*memberBytes}
	if err := s.becomes(now, compressed); err != nil {
		return err
	}
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, into); err != nil {
		return fail.New(fail.Invalid, "the message of %s cannot be read: it is no %s", s.method, into.ProtoReflect().Descriptor().FullName())
	}
	if s.memory != nil {
		s.memory.wire.give(weightOf(length)) // what has been read has texts of its own
	}
	return nil
}

// arrive reads a message, a large one as soon as there is room for it, and as long as it goes on.
func (s *bounded) arrive(length int) ([]byte, error) {
	weight := weightOf(length)
	if weight == 0 || s.memory == nil {
		return s.read(length, func() {})
	}
	if err := s.memory.wire.take(s.ctx, weight); err != nil {
		return nil, err
	}
	type read struct {
		data []byte
		err  error
	}
	arrived, goesOn := make(chan read, 1), make(chan struct{}, 1)
	s.run(func() {
		var r read
		r.err = panics.Do(s.ctx, func() (err error) {
			r.data, err = s.read(length, func() { tell(goesOn) })
			return err
		})
		arrived <- r
	})
	r, ok := steadily(arrived, goesOn, nil)
	if !ok {
		return nil, fail.New(fail.Timeout, "a message of %s, with %d bytes, has not arrived in time; try again", s.method, length)
	}
	return r.data, r.err
}

// becomes takes room for what a message that has arrived is when it is read. Who has that never waits for room for what arrives, so
// that nobody waits for one who waits. Of a compressed message all was taken that a call may have, and what it does not need goes back.
func (s *bounded) becomes(now size, compressed bool) error {
	if s.memory == nil {
		return nil
	}
	s.memory.note(now)
	weight := weightOf(now.read)
	switch {
	case compressed:
		s.memory.read.keep(weight)
		return nil
	case weight == 0:
		return nil
	default:
		return s.memory.read.take(s.ctx, weight)
	}
}

// weightOf is what so many bytes have of flightBytes.
func weightOf(length int) int64 {
	if length <= smallBytes {
		return 0
	}
	return int64(length)
}

// pieceBytes is how much of a message is read at a time, and what is to come in time. With less, whoever is far away would wait for a round too often.
const pieceBytes = 1 << 20

// read reads a message, and says of each piece that it has come.
func (s *bounded) read(length int, came func()) ([]byte, error) {
	data := make([]byte, length)
	for rest := data; len(rest) > 0; came() {
		parts, err := s.raw.Read(min(len(rest), pieceBytes))
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, lost(err)
		}
		rest = rest[parts.CopyTo(rest):]
		parts.Free()
	}
	return data, nil
}

// expand expands a message. What it becomes is not known before, so that there has to be room for as much as a call may have.
func (s *bounded) expand(data []byte) ([]byte, error) {
	by := encoding.GetCompressor(s.raw.RecvCompress())
	if by == nil {
		return nil, fail.New(fail.Invalid, "the message of %s is compressed by %q, which is not known here; use gzip, or send it as it is", s.method, cut(s.raw.RecvCompress(), maxEcho))
	}
	if s.memory != nil {
		if err := s.memory.read.take(s.ctx, flightBytes); err != nil {
			return nil, err
		}
	}
	plain, err := by.Decompress(bytes.NewReader(data))
	if err != nil {
		return nil, fail.New(fail.Invalid, "the message of %s cannot be expanded: it is not %s, as its header has it", s.method, by.Name())
	}
	if data, err = io.ReadAll(io.LimitReader(plain, int64(s.most)+1)); err != nil {
		return nil, fail.New(fail.Invalid, "the message of %s cannot be expanded: it is not %s, as its header has it", s.method, by.Name())
	}
	if len(data) > s.most {
		return nil, fail.New(fail.Exhausted, "a message of %s may have %d bytes, and this one has more when it is expanded", s.method, s.most)
	}
	return data, nil
}

// lost is the error of a connection that has been lost, or of a message of which the client has said that there is no more. What has a
// code keeps it.
func lost(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return &broken{"the message was cut off"}
	}
	if _, known := status.FromError(err); known || errors.Is(err, io.EOF) {
		return err
	}
	return fail.Wrap(err, fail.Unavailable, "the connection is lost")
}
