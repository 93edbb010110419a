package tenantagent

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/span"
	"github.com/drover-io/drover/internal/universe"
)

// tenantHeader is the member of a call's metadata that says for which tenant it is.
const tenantHeader = "tenant-id"

// closeTime bounds the end of a stream in order: by then the server has stored what it has received, or it is cut.
const closeTime = 10 * time.Second

// teller tells the server what runs, one stream after the other.
type teller struct {
	agent  *agent
	client universe.WorkloadServiceClient
}

// run tells until ctx ends, which closes the stream in order, or until leading does, which cuts it off: another agent speaks for
// the tenant then.
func (t *teller) run(ctx, leading context.Context) {
	both, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(leading, stop)()
	waits := newWaits()
	for {
		begun := time.Now()
		err := t.stream(both, leading)
		t.agent.state.ended(err)
		if ctx.Err() != nil || leading.Err() != nil {
			return
		}
		if time.Since(begun) > retryMost { // this one was no part of a row of failures
			waits.reset()
		}
		pausing := waits.next(err, func() bool { return t.agent.config.Namespace != "" && t.agent.stillLeads(both) == nil })
		t.agent.config.Log.WarnContext(ctx, "the stream has ended", slog.String("code", status.Code(err).String()), slog.Any("error", err),
			slog.Duration("againAfter", pausing))
		if pause.For(both, pausing) != nil {
			return
		}
	}
}

// stream is one stream: all that runs, then what changes. It returns when the stream has ended; nil after an end in order.
func (t *teller) stream(ctx, leading context.Context) error {
	s, err := t.agent.scopes.complete(ctx)
	if err != nil {
		return err
	}
	if err := t.agent.stillLeads(ctx); err != nil {
		return err
	}
	// The end of ctx must not cut the stream off: what was sent is to be stored, and the server is to know that it was all.
	whole, cut := context.WithCancel(metadata.AppendToOutgoingContext(leading, tenantHeader, t.agent.config.Tenant))
	defer cut()
	late := context.AfterFunc(ctx, func() { _ = pause.For(whole, closeTime); cut() })
	defer late()
	stream, err := t.client.WorkloadStream(whole)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- stream.RecvMsg(&universe.WorkloadStreamResponse{}) }() // there is one answer, at the end
	err = t.tell(ctx, s, stream, ended)
	switch {
	case errors.Is(err, io.EOF): // the answer says why
		return <-ended
	case err != nil:
		cut()
		return cmp.Or(err, <-ended) // both have ended
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	return <-ended
}

// tell sends until ctx ends, which is nil, or the stream has, which is io.EOF.
func (t *teller) tell(ctx context.Context, s *scope, stream grpc.ClientStream, ended chan error) error {
	defer func() { s.forget() }()
	if err := t.sync(s, stream); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			if err == nil {
				err = status.Error(codes.Unavailable, "the server has ended the stream")
			}
			ended <- err
			return io.EOF
		case <-t.agent.scopes.changed:
			now, err := t.agent.scopes.complete(ctx)
			if err != nil {
				return nil
			}
			if now == s {
				continue
			}
			s.forget()
			s = now
			if err := t.sync(s, stream); err != nil {
				return err
			}
		case <-s.changed:
			if err := t.changes(s, stream); err != nil {
				return err
			}
		}
	}
}

// sync sends all that runs.
func (t *teller) sync(s *scope, stream grpc.ClientStream) error {
	pods := s.all()
	_, end := span.First(stream.Context(), "sync", span.Int("drover.pods", len(pods)))
	err := stream.SendMsg(syncOf(pods))
	if end(measure.SucceededOf(err), err != nil); err != nil {
		return err
	}
	debug.FreeOSMemory() // lists are several times what is kept of them, and do not come again soon
	t.agent.state.synced(len(pods))
	signal(t.agent.spoken)
	return nil
}

// changes sends what has changed. What goes comes first, so that a Pod and the one that takes its place are not both there.
func (t *teller) changes(s *scope, stream grpc.ClientStream) (err error) {
	gone, update := s.changes()
	_, end := span.First(stream.Context(), "changes", span.Int("drover.gone", len(gone)), span.Int("drover.updated", len(update)))
	defer func() { end(measure.SucceededOf(err), err != nil) }()
	for _, p := range gone {
		if err := stream.SendMsg(deleteOf(p)); err != nil {
			return err
		}
	}
	for _, p := range update {
		if err := stream.SendMsg(updateOf(p)); err != nil {
			return err
		}
	}
	t.agent.state.told(len(gone), len(update), s.len())
	return nil
}
