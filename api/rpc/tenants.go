package rpc

import (
	"context"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/reflection"

	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/universe"
)

// TenantOptions say how calls of tenants are answered.
type TenantOptions struct {
	Options
	Trust authn.Trust // a certificate counts as long as it says so
	Rate  int         // how many changes a second are read of each tenant, 0 for all
}

// ServeTenants serves the two services of universe.workload.v1, health and reflection, and nothing else. Without TLS whoever
// reaches the listener may speak for all tenants. It ends as Serve does; streams end by themselves when ctx does.
func ServeTenants(ctx context.Context, l net.Listener, o TenantOptions) error {
	return serve(ctx, l, tenantsServer(o, ctx.Done()), o.Options)
}

// tenantsServer has the services of ServeTenants but for health.
func tenantsServer(o TenantOptions, stopping <-chan struct{}) asStreams {
	p := newPaces(o.Rate, o.Log)
	b := newBounds(o.Door, p, stopping)
	b.trust = o.Trust
	more := []grpc.ServerOption{grpc.ChainStreamInterceptor(b.guard, traced), grpc.MaxConcurrentStreams(limits.TenantStreams)}
	by := asStreams{newServer(o.Log, limits.Tenants, append(more, credentialsOf(&o.Options)...)...)}
	universe.RegisterWorkloadRuleServiceServer(by, &rules{door: o.Door})
	universe.RegisterWorkloadServiceServer(by, &workloads{door: o.Door, paces: p, stopping: stopping})
	reflection.Register(by)
	return by
}

// tenantHeader is the member of a call's metadata that says for which tenant it is.
const tenantHeader = "tenant-id"

// What the common name of a client certificate says, and who has it: a tenant, or one who may speak for all of them.
const (
	tenantDomain = ".tenant.local"
	cloudAdmin   = "cloud-admin.local"
)

// authorization is the member of a call's metadata that has a bearer token.
const authorization = "authorization"

// call is for whom a call is, and by what.
type call struct {
	tenant  domain.Key
	bearer  string           // the token that came with it, "" for none
	speaker *service.Speaker // nil until the token is known
	memory  *memory
}

// callOf says for whom a call is. Invalid when the metadata do not say so in exactly one word; Forbidden when the client's
// certificate is another tenant's; Unauthorized when it is nobody's. Whether there is such a tenant is not asked.
func callOf(ctx context.Context, trust authn.Trust) (*call, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	values := md.Get(tenantHeader)
	switch {
	case len(values) == 0:
		return nil, fail.New(fail.Invalid, "%s: is required in the metadata of the call", tenantHeader)
	case len(values) > 1:
		return nil, fail.New(fail.Invalid, "%s: is there %d times in the metadata of the call, and may be there once", tenantHeader, len(values))
	case !domain.IsTenantName(values[0]):
		return nil, fail.New(fail.Invalid, "%s: %q is not the name of a tenant: a DNS-1123 label of at most %d", tenantHeader, cut(values[0], maxEcho), domain.MaxTenantName)
	}
	c := &call{tenant: domain.TenantKey(values[0])}
	var err error
	if sent := md.Get(authorization); len(sent) > 0 {
		c.bearer, err = bearerIn(sent)
		return c, err
	}
	c.speaker, err = allowed(ctx, values[0], trust)
	return c, err
}

// bearerIn is the token in the values of authorization. No error says what was sent.
func bearerIn(values []string) (string, error) {
	if len(values) > 1 {
		return "", fail.New(fail.Unauthorized, "%s: is there %d times in the metadata of the call, and may be there once", authorization, len(values))
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", fail.New(fail.Unauthorized, "%s: must be Bearer and a token", authorization)
	}
	return token, nil
}

// allowed says who speaks for a tenant by the client's certificate, where the connection has TLS. The listener takes connections
// without TLS from this machine alone.
func allowed(ctx context.Context, tenant string, trust authn.Trust) (*service.Speaker, error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil, fail.New(fail.Unauthorized, "the connection is not known")
	}
	secured, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return &service.Speaker{By: "this machine"}, nil
	}
	chain := authn.Lasting(secured.State.VerifiedChains)
	if len(chain) == 0 {
		return nil, fail.New(fail.Unauthorized, "credentials are required: a bearer token or a client certificate")
	}
	until := authn.Expires(chain)
	name := chain[0].Subject.CommonName
	own, isTenant := strings.CutSuffix(name, tenantDomain)
	switch {
	case !time.Now().Before(until): // it was good when the connection was made
		return nil, fail.New(fail.Unauthorized, "the client certificate of %q has expired", name)
	case name == cloudAdmin, isTenant && own == tenant:
		s := &service.Speaker{By: "certificate of " + name, Until: until, Stands: func() error { return trust.Holds(chain) }}
		return s, s.Stands()
	case isTenant:
		return nil, fail.New(fail.Forbidden, "the certificate of %q does not speak for tenant %q", name, tenant)
	default:
		return nil, fail.New(fail.Unauthorized, "the certificate of %q speaks for no tenant: its common name must be <tenant>%s or %s", name, tenantDomain, cloudAdmin)
	}
}

// known refuses a call for a tenant that there is not.
func known(ctx context.Context, s door.Service, tenant domain.Key) error {
	_, err := s.Get(ctx, domain.Tenants, tenant)
	if fail.Is(err, fail.NotFound) {
		return fail.New(fail.Precondition, "%s: tenant %q not found", tenantHeader, tenant.Name())
	}
	return err
}
