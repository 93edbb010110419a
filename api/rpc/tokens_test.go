package rpc_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/drover-io/drover/api/rpc"
	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
	"github.com/drover-io/drover/internal/tenantcert"
	"github.com/drover-io/drover/internal/universe"
)

// secured are two processes with one store, which has tenants a and b: each serves with TLS, and one without as well.
type secured struct {
	*testing.T
	folder    string
	documents *service.Service // of the second process
	second    *store.Store     // its
	addresses [2]string
	plain     string // of the first process, without TLS
	log       *lines
}

// lines are what is logged.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newSecured(t *testing.T, steps ...door.Step) *secured {
	t.Helper()
	w := &secured{T: t, folder: t.TempDir(), log: &lines{}}
	require.NoError(t, tenantcert.Make(w.folder))
	log := slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	files := config.ServerTLS{Cert: w.file("server.crt"), Key: w.file("server.key"), CA: w.file("ca.crt")}
	shared := storetest.Config(t)
	trust, err := files.Trust(log)
	require.NoError(t, err)
	serve := func(d *door.Door, s *tls.Config) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() {
			ended <- rpc.ServeTenants(ctx, l, rpc.TenantOptions{Options: rpc.Options{TLS: s, Door: d, Log: log, Drain: time.Second}, Trust: trust})
		}()
		t.Cleanup(func() {
			cancel()
			require.NoError(t, <-ended)
		})
		return l.Addr().String()
	}
	for i := range w.addresses {
		s := storetest.Open(t, shared)
		m := service.NewMatcher(s, nil, time.Now, "process"+string(rune('0'+i)))
		t.Cleanup(m.Close)
		w.second = s
		w.documents = service.New(service.Deps{Store: s, Now: time.Now, Matching: m})
		if i == 0 {
			for _, name := range []string{"a", "b"} {
				one := &domain.Tenant{Metadata: domain.Metadata{Name: name}, ContextID: "1234567890123456789"}
				one.Spec.Cluster = "provider+edge"
				one.Default()
				require.NoError(t, s.Create(t.Context(), one))
			}
		}
		d := door.New(door.Parts{Tenancy: m, Documents: w.documents, Commands: commands{w.documents}}, append([]door.Step{door.Traced(log)}, steps...)...)
		secured, err := files.Config(log, "h2")
		require.NoError(t, err)
		w.addresses[i] = serve(d, secured)
		if i == 0 {
			w.plain = serve(d, nil)
		}
	}
	return w
}

// TestAHandshakeThatFailsIsLogged: the client hears that nobody is there, whatever is wrong.
func TestAHandshakeThatFailsIsLogged(t *testing.T) {
	w := newSecured(t)
	for name, c := range map[string]*tls.Config{
		"tls: client offered only unsupported versions": {MaxVersion: tls.VersionTLS12},
		"missing selected ALPN property":                {},
	} {
		c.InsecureSkipVerify = true // whose the certificate is does not matter here
		d := &tls.Dialer{Config: c}
		if connection, err := d.DialContext(t.Context(), "tcp", w.addresses[0]); err == nil {
			_, _ = connection.Read(make([]byte, 1)) // until the server has ended it
			require.NoError(t, connection.Close())
		}
		require.Eventually(t, func() bool { return strings.Contains(w.log.String(), name) }, 30*time.Second, 10*time.Millisecond, "%s in %s", name, w.log)
	}
	require.Contains(t, w.log.String(), "a handshake of TLS failed")
}

// commands are those of documents.
type commands struct{ *service.Service }

func (commands) Approve(context.Context, domain.Key) ([]string, error)     { return nil, nil }
func (commands) Instantiate(context.Context, domain.Key) ([]string, error) { return nil, nil }
func (commands) Terminate(context.Context, domain.Key) error               { return nil }
func (commands) Stop(context.Context, domain.Key) error                    { return nil }
func (commands) Update(context.Context, domain.Key, service.UpdateOptions) (int, []string, error) {
	return 0, nil, nil
}
func (commands) Rollback(context.Context, domain.Key, int) ([]string, error) { return nil, nil }
func (commands) Migrate(context.Context, domain.Key, string, string) ([]string, error) {
	return nil, nil
}

func (w *secured) file(name string) string { return filepath.Join(w.folder, name) }

// token makes one by the second process.
func (w *secured) token(tenant, name, life string) string {
	w.Helper()
	t := &domain.TenantToken{Identity: domain.Identity{Parent: domain.TenantKey(tenant)}, Metadata: domain.Metadata{Name: name}, Spec: domain.TokenSpec{ExpiresAfter: life}}
	require.NoError(w, w.documents.Create(w.Context(), t))
	require.NotEmpty(w, t.Status.Token)
	return t.Status.Token
}

// dial connects to an address: with TLS unless it is the plain one, with the certificate of a name, "" for none.
func (w *secured) dial(address, certificate string) *grpc.ClientConn {
	w.Helper()
	transport := insecure.NewCredentials()
	if address != w.plain {
		pool := x509.NewCertPool()
		ca, err := os.ReadFile(w.file("ca.crt"))
		require.NoError(w, err)
		require.True(w, pool.AppendCertsFromPEM(ca))
		c := &tls.Config{RootCAs: pool, ServerName: tenantcert.ServerName, MinVersion: tls.VersionTLS13}
		if certificate != "" {
			pair, err := tls.LoadX509KeyPair(w.file(certificate+".crt"), w.file(certificate+".key"))
			require.NoError(w, err)
			c.Certificates = []tls.Certificate{pair}
		}
		transport = credentials.NewTLS(c)
	}
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(transport))
	require.NoError(w, err)
	w.Cleanup(func() { connection.Close() })
	return connection
}

// TestBearerTokens: who speaks for whom, by token and certificate, with TLS and without.
func TestBearerTokens(t *testing.T) {
	w := newSecured(t)
	require.NoError(t, tenantcert.Tenant(w.folder, "b"))
	good := w.token("a", "agent", "")
	revoked := w.token("a", "revoked", "1h")
	require.NoError(t, w.documents.Delete(t.Context(), domain.TenantTokens, "tenants/a/tokens/revoked"))
	again := w.token("a", "revoked", "1h") // another one has its name now
	expired := w.token("a", "short", "1s")
	forged := good[:len(good)-43] + strings.Repeat("A", 43)
	require.Eventually(t, func() bool {
		_, err := universe.NewWorkloadRuleServiceClient(w.dial(w.addresses[0], "")).List(
			metadata.AppendToOutgoingContext(t.Context(), "tenant-id", "a", "authorization", "Bearer "+expired), &universe.ListRequest{})
		return grpcstatus.Code(err) == codes.Unauthenticated && strings.Contains(err.Error(), "expired")
	}, 20*time.Second, 50*time.Millisecond)
	tls := w.dial(w.addresses[0], "")
	for name, c := range map[string]struct {
		to   *grpc.ClientConn
		md   []string
		want codes.Code
	}{
		"a token":                               {tls, []string{"tenant-id", "a", "authorization", "Bearer " + good}, codes.OK},
		"the scheme in small letters":           {tls, []string{"tenant-id", "a", "authorization", "bearer " + good}, codes.OK},
		"by the other process":                  {w.dial(w.addresses[1], ""), []string{"tenant-id", "a", "authorization", "Bearer " + good}, codes.OK},
		"one that took a revoked one's name":    {tls, []string{"tenant-id", "a", "authorization", "Bearer " + again}, codes.OK},
		"another tenant":                        {tls, []string{"tenant-id", "b", "authorization", "Bearer " + good}, codes.PermissionDenied},
		"a tenant that is not there":            {tls, []string{"tenant-id", "c", "authorization", "Bearer " + good}, codes.PermissionDenied},
		"no tenant":                             {tls, []string{"authorization", "Bearer " + good}, codes.InvalidArgument},
		"revoked":                               {tls, []string{"tenant-id", "a", "authorization", "Bearer " + revoked}, codes.Unauthenticated},
		"forged":                                {tls, []string{"tenant-id", "a", "authorization", "Bearer " + forged}, codes.Unauthenticated},
		"another scheme":                        {tls, []string{"tenant-id", "a", "authorization", "Basic " + good}, codes.Unauthenticated},
		"no scheme":                             {tls, []string{"tenant-id", "a", "authorization", good}, codes.Unauthenticated},
		"no token":                              {tls, []string{"tenant-id", "a", "authorization", "Bearer "}, codes.Unauthenticated},
		"nonsense":                              {tls, []string{"tenant-id", "a", "authorization", "Bearer x.y.z"}, codes.Unauthenticated},
		"twice":                                 {tls, []string{"tenant-id", "a", "authorization", "Bearer " + good, "authorization", "Bearer " + good}, codes.Unauthenticated},
		"nothing":                               {tls, []string{"tenant-id", "a"}, codes.Unauthenticated},
		"a token beside another's certificate":  {w.dial(w.addresses[0], "b"), []string{"tenant-id", "a", "authorization", "Bearer " + good}, codes.OK},
		"a certificate":                         {w.dial(w.addresses[0], "b"), []string{"tenant-id", "b"}, codes.OK},
		"another tenant's certificate":          {w.dial(w.addresses[0], "b"), []string{"tenant-id", "a"}, codes.PermissionDenied},
		"a bad token beside a good certificate": {w.dial(w.addresses[0], "b"), []string{"tenant-id", "b", "authorization", "Bearer " + revoked}, codes.Unauthenticated},
		"another tenant's token beside the certificate":  {w.dial(w.addresses[0], "b"), []string{"tenant-id", "b", "authorization", "Bearer " + good}, codes.PermissionDenied},
		"without TLS, on this machine":                   {w.dial(w.plain, ""), []string{"tenant-id", "a", "authorization", "Bearer " + good}, codes.OK},
		"without TLS a token is looked at all the same":  {w.dial(w.plain, ""), []string{"tenant-id", "b", "authorization", "Bearer " + good}, codes.PermissionDenied},
		"without TLS a revoked one is as good as nobody": {w.dial(w.plain, ""), []string{"tenant-id", "a", "authorization", "Bearer " + revoked}, codes.Unauthenticated},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := metadata.AppendToOutgoingContext(t.Context(), c.md...)
			_, err := universe.NewWorkloadRuleServiceClient(c.to).List(ctx, &universe.ListRequest{})
			require.Equal(t, c.want, grpcstatus.Code(err), "%v", err)
			if err != nil {
				require.NotContains(t, err.Error(), "drover.", "no token is in an error")
			}
			s, err := universe.NewWorkloadServiceClient(c.to).WorkloadStream(ctx)
			require.NoError(t, err)
			_, err = s.CloseAndRecv()
			require.Equal(t, c.want, grpcstatus.Code(err), "%v", err)
		})
	}
	for _, text := range []string{good, revoked, forged, "drover.", good[len(good)-43:]} {
		require.NotContains(t, w.log.String(), text, "no token is in the log")
	}
	list, err := w.documents.List(t.Context(), domain.TenantTokens, domain.TenantKey("a"))
	require.NoError(t, err)
	require.Len(t, list, 3)
	for _, o := range list {
		one := o.(*domain.TenantToken)
		require.Empty(t, one.Status.Token)
		require.Equal(t, one.Name != "short" || one.Status.LastUsed != nil, one.Status.LastUsed != nil, "%s", one.Name)
		require.NotContains(t, string(one.Hash), good)
	}
}

// TestRecordsSayWhoSpoke for a tenant: by which token, or whose certificate, and a login for each, also for another one of the name.
func TestRecordsSayWhoSpoke(t *testing.T) {
	log := &notes{}
	outer, inner := door.Audited(log)
	w := newSecured(t, outer, inner)
	first, second := w.token("a", "first", "1h"), w.token("a", "second", "")
	var want []string
	create := func(connection *grpc.ClientConn, token, by string) {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "tenant-id", "a")
		if token != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
		}
		_, err := universe.NewWorkloadRuleServiceClient(connection).Create(ctx, &universe.CreateRequest{Rule: &universe.Rule{Id: "r"}})
		require.Equal(t, codes.InvalidArgument, grpcstatus.Code(err), "%v", err)
		want = append(want, "begun by "+by, "answered by "+by)
	}
	connection, plain, admin := w.dial(w.addresses[0], ""), w.dial(w.plain, ""), w.dial(w.addresses[0], "admin")
	for range 2 {
		create(connection, first, "token tenants/a/tokens/first")
		create(connection, second, "token tenants/a/tokens/second")
		create(admin, "", "certificate of cloud-admin.local")
		create(plain, "", "this machine")
	}
	require.NoError(t, w.documents.Delete(t.Context(), domain.TenantTokens, "tenants/a/tokens/first"))
	create(connection, w.token("a", "first", "2h"), "token tenants/a/tokens/first")

	var told, logins []string
	for _, r := range log.all() {
		require.Equal(t, "tenant a", r.Who.Kind+" "+r.Who.Name)
		if r.Event == audit.Login {
			logins = append(logins, r.Who.By)
			continue
		}
		told = append(told, string(r.Event)+" by "+r.Who.By)
	}
	require.Equal(t, want, told)
	require.Equal(t, []string{
		"token tenants/a/tokens/first", "token tenants/a/tokens/second", "certificate of cloud-admin.local", "this machine", "token tenants/a/tokens/first",
	}, logins)
}

// TestStreamsEndWithWhoSpeaks: open streams end when a token is revoked or expires, when a tenant is deleted or a certificate
// expires, on whatever process that was done.
func TestStreamsEndWithWhoSpeaks(t *testing.T) {
	w := newSecured(t)
	require.NoError(t, tenantcert.Tenant(w.folder, "gone"))
	for _, name := range []string{"revoked", "expires", "gone", "stays", "renamed"} {
		one := &domain.Tenant{Metadata: domain.Metadata{Name: name}, Spec: domain.TenantSpec{Cluster: "provider+edge"}, ContextID: "1"}
		one.Default()
		require.NoError(t, w.second.Create(t.Context(), one))
	}
	patient, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const life = 12 * time.Second // within which they begin, and not much longer
	require.NoError(t, tenantcert.TenantUntil(w.folder, "b", time.Now().Add(life)))
	expires := w.dial(w.addresses[0], "b")
	begin := func(certificate, tenant, token string) workloadStream {
		ctx, connection := metadata.AppendToOutgoingContext(patient, "tenant-id", tenant), expires
		if certificate != "b" {
			connection = w.dial(w.addresses[0], certificate)
		}
		if token != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
		}
		s, err := universe.NewWorkloadServiceClient(connection).WorkloadStream(ctx)
		require.NoError(t, err)
		require.NoError(t, s.Send(syncOf(podOf("w-"+tenant))))
		require.Eventually(t, func() bool {
			all, err := w.second.Workloads(t.Context(), tenant)
			require.NoError(t, err)
			return len(all) == 1
		}, 20*time.Second, 10*time.Millisecond, "%s", tenant)
		return s
	}
	streams := map[string]workloadStream{
		"b": begin("b", "b", ""), "gone": begin("gone", "gone", ""),
		"expires": begin("", "expires", w.token("expires", "t", life.String())), "revoked": begin("", "revoked", w.token("revoked", "t", "1h")),
		"renamed": begin("", "renamed", w.token("renamed", "t", "1h")),
	}
	stays := begin("", "stays", w.token("stays", "t", "1h"))
	for _, tenant := range []string{"revoked", "renamed"} {
		require.NoError(t, w.documents.Delete(t.Context(), domain.TenantTokens, domain.TenantKey(tenant)+"/tokens/t"))
	}
	w.token("renamed", "t", "1h") // another one of the name
	require.NoError(t, w.documents.Delete(t.Context(), domain.Tenants, "tenants/gone"))
	for tenant, s := range streams {
		err := s.RecvMsg(&universe.WorkloadStreamResponse{})
		want := codes.Unauthenticated
		if tenant == "gone" {
			want = codes.FailedPrecondition
		}
		require.Equal(t, want, grpcstatus.Code(err), "%s: %v", tenant, err)
		require.NotContains(t, err.Error(), "drover.")
	}
	_, err := universe.NewWorkloadRuleServiceClient(expires).List(metadata.AppendToOutgoingContext(patient, "tenant-id", "b"), &universe.ListRequest{})
	require.Equal(t, codes.Unauthenticated, grpcstatus.Code(err), "the connection is open still")
	require.ErrorContains(t, err, "expired")
	require.NoError(t, stays.Send(updateOf(podOf("more"))))
	_, err = stays.CloseAndRecv()
	require.NoError(t, err)
}

// TestACAThatIsTakenAway: who has a certificate of it is nobody any more, on the connection that he has, and his stream ends.
func TestACAThatIsTakenAway(t *testing.T) {
	w := newSecured(t)
	require.NoError(t, tenantcert.Tenant(w.folder, "a"))
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "tenant-id", "a"), time.Minute)
	defer cancel()
	connection := w.dial(w.addresses[0], "a")
	s, err := universe.NewWorkloadServiceClient(connection).WorkloadStream(ctx)
	require.NoError(t, err)
	require.NoError(t, s.Send(syncOf(podOf("w"))))
	rules := universe.NewWorkloadRuleServiceClient(connection)
	_, err = rules.List(ctx, &universe.ListRequest{})
	require.NoError(t, err)

	other := t.TempDir()
	require.NoError(t, tenantcert.Make(other))
	ca, err := os.ReadFile(filepath.Join(other, "ca.crt"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(w.file("ca.crt"), ca, 0o600))
	_, err = rules.List(ctx, &universe.ListRequest{})
	require.Equal(t, codes.Unauthenticated, grpcstatus.Code(err), "%v", err)
	require.ErrorContains(t, err, "not of a CA that is trusted any more")
	err = s.RecvMsg(&universe.WorkloadStreamResponse{}) // within policy.StreamStands
	require.Equal(t, codes.Unauthenticated, grpcstatus.Code(err), "%v", err)
}
