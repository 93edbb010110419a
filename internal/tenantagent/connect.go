package tenantagent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/policy"
)

// Server says where the tenants' services are, and by what they know the agent.
type Server struct {
	Address string
	// Plaintext is without TLS; everything below is not looked at then.
	Plaintext bool
	CA        string // file; "" for the system's
	Name      string // in the server's certificate; "" for that of the address
	Cert, Key string // files of the client's certificate; "" for none
	Token     string // file with a bearer token; "" for none
}

// connect makes a connection, which is begun when it is first used.
func (s Server) connect() (*grpc.ClientConn, error) {
	options := []grpc.DialOption{
		// The agent itself says how long to wait between tries.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: retryFirst, Multiplier: 1, Jitter: 0.2, MaxDelay: retryFirst}, MinConnectTimeout: policy.Setup,
		}),
		// A server that is away without a word, as one that is frozen, is given up.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 2 * policy.PingLeast, Timeout: policy.PingTime}),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(newCodec()), grpc.MaxCallRecvMsgSize(mostRules)),
		grpc.WithUserAgent(userAgent),
		grpc.WithDisableServiceConfig(),
	}
	if s.Plaintext {
		options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	} else {
		options = append(options, grpc.WithTransportCredentials(&files{server: s}))
		if s.Token != "" {
			options = append(options, grpc.WithPerRPCCredentials(token(s.Token)))
		}
	}
	return grpc.NewClient(s.Address, options...)
}

// files are TLS credentials whose files are read for each connection, so that certificates may be renewed.
type files struct{ server Server }

func (f *files) config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: f.server.Name}
	if f.server.CA != "" {
		pem, err := os.ReadFile(f.server.CA)
		if err != nil {
			return nil, fmt.Errorf("read the CA of the server: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("no certificate in %s", f.server.CA)
		}
	}
	if f.server.Cert != "" {
		pair, err := tls.LoadX509KeyPair(f.server.Cert, f.server.Key)
		if err != nil {
			return nil, fmt.Errorf("read the client's certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// ClientHandshake implements credentials.TransportCredentials.
func (f *files) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, err := f.config()
	if err != nil {
		return nil, nil, err
	}
	return credentials.NewTLS(c).ClientHandshake(ctx, authority, conn)
}

// ServerHandshake implements credentials.TransportCredentials.
func (f *files) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("the agent serves nothing")
}

// Info implements credentials.TransportCredentials.
func (f *files) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls", ServerName: f.server.Name} //nolint:staticcheck // what names the server in the authority
}

// Clone implements credentials.TransportCredentials.
func (f *files) Clone() credentials.TransportCredentials { return &files{server: f.server} }

// OverrideServerName implements credentials.TransportCredentials.
func (f *files) OverrideServerName(name string) error {
	f.server.Name = name
	return nil
}

// token is the file of a bearer token, which is read for each call, so that it may be renewed.
type token string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (t token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	data, err := os.ReadFile(string(t))
	if err != nil {
		return nil, fmt.Errorf("read the token: %w", err)
	}
	return map[string]string{"authorization": "Bearer " + strings.TrimSpace(string(data))}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (t token) RequireTransportSecurity() bool { return true }

// mostRules bounds a list of rules, in bytes, and with it the agent's memory. A control plane whose rules are more together is asked
// for each of them.
const mostRules = limits.TenantRuleBytes

// callTime bounds one call, and listTime one that asks for all rules, which may be mostRules: over a thin line they are long on their way. A control plane
// that does not answer any more is known by its pings.
const (
	callTime = 20 * time.Second
	listTime = policy.ArriveWhole
)
