package rpc

import (
	"context"
	"crypto/rand"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/drover-io/drover/internal/authn"
	called "github.com/drover-io/drover/internal/caller"
)

// The members of a call's metadata by which a proxy says for whom it asks. From whom they count is authn's matter.
const (
	forwardedUser   = "x-forwarded-user"
	forwardedGroups = "x-forwarded-groups"
)

// proving finds out who calls, for the door.
func proving(by authn.Prover) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainStreamInterceptor(func(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			if nameless(info.FullMethod) {
				return handle(service, stream)
			}
			return handle(service, &proven{stream, by.Into(requested(stream.Context()), shownBy(stream.Context()))})
		}),
		grpc.ChainUnaryInterceptor(func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			if nameless(info.FullMethod) {
				return handle(ctx, request)
			}
			return handle(by.Into(requested(ctx), shownBy(ctx)), request)
		}),
	}
}

// requested is the context of a call with its id, and from where it came.
func requested(ctx context.Context) context.Context {
	r := &called.Request{ID: rand.Text()}
	if p, ok := peer.FromContext(ctx); ok {
		r.Remote = p.Addr.String()
	}
	return called.WithRequest(ctx, r)
}

// nameless says whether a method asks nothing of the product.
func nameless(method string) bool { return strings.HasPrefix(method, "/grpc.health.") }

// proven is a stream in whose context it is who calls.
type proven struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (p *proven) Context() context.Context { return p.ctx }

// shownBy is what a call shows of who it is from.
func shownBy(ctx context.Context) *authn.Shown {
	md, _ := metadata.FromIncomingContext(ctx)
	s := &authn.Shown{Authorization: md.Get(authorization), User: md.Get(forwardedUser), Groups: md.Get(forwardedGroups)}
	p, ok := peer.FromContext(ctx)
	if !ok {
		return s
	}
	if secured, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(secured.State.VerifiedChains) > 0 {
		s.Chain = secured.State.VerifiedChains[0]
	}
	return s
}
