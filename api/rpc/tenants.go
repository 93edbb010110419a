package rpc

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/reflection"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/universe"
)

// ServeTenants serves the two services of universe.workload.v1, health and reflection, and nothing else. Without TLS whoever
// reaches the listener may speak for all tenants. It ends as Serve does; streams end by themselves when ctx does.
func ServeTenants(ctx context.Context, l net.Listener, secured *tls.Config, d *door.Door, log *slog.Logger, drain time.Duration) error {
	var more []grpc.ServerOption
	if secured != nil {
		more = append(more, grpc.Creds(credentials.NewTLS(secured)))
	}
	server := newServer(log, limits.Tenants, more...)
	universe.RegisterWorkloadRuleServiceServer(server, &rules{door: d})
	universe.RegisterWorkloadServiceServer(server, &workloads{door: d, stopping: ctx.Done()})
	reflection.Register(server)
	return serve(ctx, l, server, drain)
}

// tenantHeader is the member of a call's metadata that says for which tenant it is.
const tenantHeader = "tenant-id"

// What the common name of a client certificate says, and who has it: a tenant, or one who may speak for all of them.
const (
	tenantDomain = ".tenant.local"
	cloudAdmin   = "cloud-admin.local"
)

// tenantOf is the tenant that a call is for. Invalid when the call does not say so in exactly one word; Forbidden when the
// client's certificate is another tenant's; Unauthorized when it is nobody's. Whether there is such a tenant is not asked.
func tenantOf(ctx context.Context) (domain.Key, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	values := md.Get(tenantHeader)
	switch {
	case len(values) == 0:
		return "", fail.New(fail.Invalid, "%s: is required in the metadata of the call", tenantHeader)
	case len(values) > 1:
		return "", fail.New(fail.Invalid, "%s: is there %d times in the metadata of the call, and may be there once", tenantHeader, len(values))
	case !domain.IsTenantName(values[0]):
		return "", fail.New(fail.Invalid, "%s: %q is not the name of a tenant: a DNS-1123 label of at most %d", tenantHeader, values[0], domain.MaxTenantName)
	}
	return domain.TenantKey(values[0]), allowed(ctx, values[0])
}

// allowed says whether the client may speak for a tenant: by its certificate, where the connection has TLS. The listener takes
// connections without TLS from this machine alone.
func allowed(ctx context.Context, tenant string) error {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return fail.New(fail.Unauthorized, "the connection is not known")
	}
	secured, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return nil
	}
	if len(secured.State.VerifiedChains) == 0 {
		return fail.New(fail.Unauthorized, "a client certificate is required")
	}
	name := secured.State.VerifiedChains[0][0].Subject.CommonName
	own, isTenant := strings.CutSuffix(name, tenantDomain)
	switch {
	case name == cloudAdmin, isTenant && own == tenant:
		return nil
	case isTenant:
		return fail.New(fail.Forbidden, "the certificate of %q does not speak for tenant %q", name, tenant)
	default:
		return fail.New(fail.Unauthorized, "the certificate of %q speaks for no tenant: its common name must be <tenant>%s or %s", name, tenantDomain, cloudAdmin)
	}
}

// known refuses a call for a tenant that there is not.
func known(ctx context.Context, s door.Service, tenant domain.Key) error {
	_, err := s.Get(ctx, domain.Tenants, tenant)
	if fail.Is(err, fail.NotFound) {
		return fail.New(fail.Precondition, "%s: tenant %q does not exist", tenantHeader, tenant.Name())
	}
	return err
}
