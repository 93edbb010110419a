package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/drover-io/drover/internal/convey"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/universe"
)

// workloads is WorkloadService.
type workloads struct {
	universe.UnimplementedWorkloadServiceServer
	door     *door.Door
	paces    *paces
	stopping <-chan struct{} // closed when the server is to stop, and streams are to end
}

// errStops ends a stream when the server does.
var errStops = fail.New(fail.Unavailable, "the server stops: all that it received is stored; connect again")

// WorkloadStream implements universe.WorkloadServiceServer. However a stream ends, all that was received before is stored, but
// for that of one that was displaced.
func (w *workloads) WorkloadStream(stream grpc.ClientStreamingServer[universe.WorkloadStreamRequest, universe.WorkloadStreamResponse]) error {
	call := caller(stream.Context())
	asked := &door.Request{Verb: door.Report, Noun: domain.Workloads, Parent: call.tenant}
	return w.door.Pass(stream.Context(), asked, func(ctx context.Context, s door.Service) (err error) {
		in, err := s.Begin(ctx, call.tenant.Name())
		if err != nil {
			return ours(ctx, err)
		}
		in.SpokenBy(call.speaker)
		defer func() { err = errors.Join(err, ours(ctx, in.End(ctx))) }()
		// It tells the client that the stream was accepted. Without it a library with a policy to retry would begin the next stream by itself after an
		// outage, and say again all that it has kept of this one, from its first sync on.
		if err := stream.SendHeader(nil); err != nil {
			return err
		}
		box := newInbox(call.memory)
		defer box.close()
		call.memory.enter()
		go func() {
			defer call.memory.leave()
			err := panics.Do(ctx, func() error {
				box.fill(stream, func(said *service.Said, bytes int) time.Duration {
					return w.paces.spend(call.tenant.Name(), costs(said.Sync, len(said.Put)+len(said.Delete), bytes))
				})
				return nil
			})
			if err != nil {
				box.put(nil, 0, err)
			}
		}()
		if err := w.take(ctx, box, in); err != nil {
			return err
		}
		return stream.SendAndClose(&universe.WorkloadStreamResponse{})
	})
}

// take takes what arrives until the client has said all, which is nil, or something ends the stream.
func (w *workloads) take(ctx context.Context, box *inbox, in *service.Intake) error {
	for {
		var end error
		select {
		case <-box.arrived:
		case <-in.Context().Done():
			return context.Cause(in.Context())
		case <-w.stopping:
			end = errStops
		case <-ctx.Done():
			end = context.Cause(ctx)
		}
		said, taken, err := box.empty()
		if len(said) > 0 {
			if err := in.Take(ctx, said); err != nil {
				return err
			}
			clear(said) // they are not in memory any more
			box.memory.read.give(taken)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case end != nil:
			return end
		}
	}
}

// waitingBytes is how much of what has arrived waits to be taken, by what it has in memory. Who sends more has to wait, by the flow
// control of HTTP. A message counts for besideBytes more: what says next to nothing takes memory, too.
const (
	waitingBytes = 3 << 20
	besideBytes  = 512
)

// inbox has what has arrived of a stream and was not taken yet.
type inbox struct {
	arrived chan struct{} // something has, or the stream has ended
	room    chan struct{} // there is some again
	closed  chan struct{}

	memory *memory

	mu    sync.Mutex
	said  []*service.Said
	bytes int
	taken int64 // what they have of the memory that calls share
	err   error // with which it has ended
}

func newInbox(m *memory) *inbox {
	return &inbox{arrived: make(chan struct{}, 1), room: make(chan struct{}, 1), closed: make(chan struct{}), memory: m}
}

func (b *inbox) close() { close(b.closed) }

// fill reads the stream until it ends, and after each message waits as long as that says.
func (b *inbox) fill(stream grpc.ClientStreamingServer[universe.WorkloadStreamRequest, universe.WorkloadStreamResponse], wait func(*service.Said, int) time.Duration) {
	for {
		var said *service.Said
		err := panics.Do(stream.Context(), func() error {
			message, err := stream.Recv()
			if err == nil {
				said, err = saidBy(message)
			}
			return err
		})
		size := b.memory.noted()
		if !b.put(said, size.read, err) || err != nil {
			return
		}
		if !pause(wait(said, size.wire), b.closed, nil) {
			return
		}
	}
}

// put adds a message, and waits while there are too many; false when nobody takes them any more.
func (b *inbox) put(said *service.Said, size int, err error) bool {
	b.mu.Lock()
	if b.err = err; err == nil {
		b.said, b.bytes, b.taken = append(b.said, said), b.bytes+size+besideBytes, b.taken+b.memory.read.arrived()
	}
	full := b.bytes > waitingBytes
	b.mu.Unlock()
	signal(b.arrived)
	for full {
		select {
		case <-b.room:
		case <-b.closed:
			return false
		}
		b.mu.Lock()
		full = b.bytes > waitingBytes
		b.mu.Unlock()
	}
	return true
}

// empty takes out what has arrived, with what that has of the lease, and what has ended the stream behind that.
func (b *inbox) empty() (said []*service.Said, taken int64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	said, taken = b.said, b.taken
	b.said, b.bytes, b.taken = nil, 0, 0
	signal(b.room)
	return said, taken, b.err
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// saidBy is what a message says. Invalid when it says nothing, or of no workload.
func saidBy(in *universe.WorkloadStreamRequest) (*service.Said, error) {
	said := &service.Said{TooLarge: map[*domain.Workload]bool{}}
	switch m := in.GetMessage().(type) {
	case *universe.WorkloadStreamRequest_WorkloadUpdate:
		return said, update(said, "workload_update", m.WorkloadUpdate)
	case *universe.WorkloadStreamRequest_WorkloadDelete:
		id, err := idIn("workload_delete", m.WorkloadDelete.GetWorkloadMetadata())
		said.Delete = []string{id}
		return said, err
	case *universe.WorkloadStreamRequest_WorkloadSync:
		said.Sync = true
		for i, one := range m.WorkloadSync.GetWorkloadUpdates() {
			if err := update(said, fmt.Sprintf("workload_sync.workload_updates[%d]", i), one); err != nil {
				return nil, err
			}
		}
		return said, nil
	default:
		return nil, fail.New(fail.Invalid, "message: one of workload_update, workload_delete, workload_sync is required")
	}
}

// update adds a workload to what is said.
func update(said *service.Said, path string, in *universe.WorkloadUpdate) error {
	if _, err := idIn(path, in.GetWorkloadMetadata()); err != nil {
		return err
	}
	one := convey.WorkloadOf(in)
	said.Put = append(said.Put, one)
	said.TooLarge[one] = proto.Size(in) > limits.Workload
	return nil
}

func idIn(path string, metadata *universe.WorkloadMetadata) (string, error) {
	switch {
	case metadata == nil:
		return "", fail.New(fail.Invalid, "%s.workload_metadata: is required", path)
	case metadata.GetId() == "":
		return "", fail.New(fail.Invalid, "%s.workload_metadata.id: is required", path)
	default:
		return metadata.GetId(), nil
	}
}
