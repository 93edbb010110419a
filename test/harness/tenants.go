package harness

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"github.com/drover-io/drover/internal/tenantcert"
)

// TenantAddress is the address of the API's gRPC services for tenants, which have TLS.
func (s *Stack) TenantAddress() string { return fmt.Sprintf("127.0.0.1:%d", s.ports[10]) }

// Certificates is the folder with those of the tenants' services: see tenantcert.Make.
func (s *Stack) Certificates() string { return filepath.Join(s.dir, "tenants") }

// TenantConnection connects to the tenants' services by the certificate of a tenant, "" for that of who speaks for all.
func (s *Stack) TenantConnection(tenant string) *grpc.ClientConn {
	s.t.Helper()
	return s.TenantConnectionAt(s.TenantAddress(), tenant)
}

// TenantConnectionAt is TenantConnection for another process of the API.
func (s *Stack) TenantConnectionAt(address, tenant string) *grpc.ClientConn {
	s.t.Helper()
	name := "admin"
	if tenant != "" {
		name = tenant
		require.NoError(s.t, tenantcert.Tenant(s.Certificates(), tenant))
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(s.Certificates(), name+".crt"), filepath.Join(s.Certificates(), name+".key"))
	require.NoError(s.t, err)
	pem, err := os.ReadFile(filepath.Join(s.Certificates(), "ca.crt"))
	require.NoError(s.t, err)
	pool := x509.NewCertPool()
	require.True(s.t, pool.AppendCertsFromPEM(pem))
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, RootCAs: pool, ServerName: tenantcert.ServerName,
	})))
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = connection.Close() })
	return connection
}

// ForTenant is the context of calls for a tenant.
func ForTenant(ctx context.Context, tenant string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "tenant-id", tenant)
}
