package rpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
)

// The members of a call's metadata by which a proxy says for whom it asks. From whom they count is authn's matter.
const (
	forwardedUser   = "x-forwarded-user"
	forwardedGroups = "x-forwarded-groups"
)

// proving finds out who calls before anything of a call is read, for the door; who proves nothing is refused then. What needs no proof is bounded
// by the address that it comes from.
func proving(by authn.Prover, d *door.Door, stopping <-chan struct{}) grpc.StreamServerInterceptor {
	waiting := newLobby(stopping)
	return func(of any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		s, err := boundedOf(stream, info, stopping)
		if err != nil {
			return err
		}
		if isNameless(info.FullMethod) {
			return waiting.serve(of, s, handle)
		}
		ctx := by.Into(stream.Context(), shownBy(stream.Context()))
		if _, err := door.Who(ctx); err != nil {
			d.Refused(ctx, door.Calling, info.FullMethod, fail.KindOf(err))
			return &stranger{err}
		}
		s.ctx, s.most = ctx, limits.GRPC
		return handled(d, of, s, info, handle)
	}
}

// shownBy is what a call shows of who it is from.
func shownBy(ctx context.Context) *authn.Shown {
	md, _ := metadata.FromIncomingContext(ctx)
	s := &authn.Shown{Authorization: md.Get(authorization), User: md.Get(forwardedUser), Groups: md.Get(forwardedGroups)}
	p, ok := peer.FromContext(ctx)
	if !ok {
		return s
	}
	if secured, ok := p.AuthInfo.(credentials.TLSInfo); ok {
		s.Chain = authn.Lasting(secured.State.VerifiedChains)
	}
	return s
}
