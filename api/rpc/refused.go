package rpc

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
)

// handled handles a call of a known caller, and records what is refused of it before it comes to the door: a message that is too large, that is none, or
// that asks for what there is not.
func handled(d *door.Door, of any, s *bounded, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	ctx, passed := door.Arriving(s.ctx)
	s.ctx = ctx
	err := handle(of, s)
	if kind, refused := refusal(ctx, err); refused && !passed() {
		d.Refused(ctx, door.Calling, info.FullMethod, kind)
	}
	return err
}

// refusal is the kind of what a call ends with. It is none when nothing was wrong with the call: its caller has left, or cannot be served at the moment.
func refusal(ctx context.Context, err error) (kind fail.Kind, refused bool) {
	if errors.As(err, new(*broken)) {
		return fail.Malformed, true
	}
	kind = fail.KindOf(err)
	return kind, err != nil && ctx.Err() == nil && kind != fail.Unavailable && kind != fail.Internal
}
