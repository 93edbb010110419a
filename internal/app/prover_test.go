package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/connections"
	"github.com/drover-io/drover/internal/freeport"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
	"github.com/drover-io/drover/internal/tenantcert"
	"github.com/drover-io/drover/internal/token"
)

// TestClientCertificatesSayWhoCalls: a user's, and that of a proxy that is named, which speaks for others; who shows none is asked
// for a token, and one of another CA is no certificate. The CA is read again when its file changes.
func TestClientCertificatesSayWhoCalls(t *testing.T) {
	folder, other := t.TempDir(), t.TempDir()
	for _, f := range []string{folder, other} {
		require.NoError(t, tenantcert.Make(f))
		require.NoError(t, tenantcert.Tenant(f, "alice"))
	}
	ca := filepath.Join(t.TempDir(), "clients.crt")
	trust := func(f string) {
		pem, err := os.ReadFile(filepath.Join(f, "ca.crt"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(ca, pem, 0o600))
		later := time.Now().Add(time.Hour) // file systems tell times apart by more or less
		if f == other {
			require.NoError(t, os.Chtimes(ca, later, later))
		}
	}
	trust(folder)
	p, log := partial(t), &said{}
	p.log = slog.New(slog.NewTextHandler(log, nil))
	p.config.TLS = config.ServerTLS{Cert: filepath.Join(folder, "server.crt"), Key: filepath.Join(folder, "server.key"), CA: ca}
	p.config.Auth, p.config.CertPrefix, p.config.TrustedProxies = "on", "cert:", []string{"cloud-admin.local"}
	p.config.Drain, p.config.Operations, p.config.Listen = time.Minute, 1, freeport.Address()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	front, err := OpenAPI(ctx, p.config, p.log)
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- p.ServeAPI(ctx, front, func() {}) }()

	pem, err := os.ReadFile(filepath.Join(folder, "ca.crt"))
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(pem))
	ask := func(f, certificate string, header map[string]string) (int, error) {
		c := &tls.Config{RootCAs: pool}
		if certificate != "" {
			pair, err := tls.LoadX509KeyPair(filepath.Join(f, certificate+".crt"), filepath.Join(f, certificate+".key"))
			require.NoError(t, err)
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodDelete, "https://"+p.config.Listen+"/v2/projects/none", nil)
		require.NoError(t, err)
		for name, value := range header {
			request.Header.Set(name, value)
		}
		transport := &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}
		answer, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Do(request)
		if err != nil {
			return 0, err
		}
		return answer.StatusCode, answer.Body.Close()
	}
	status := func(f, certificate string, header map[string]string) int {
		t.Helper()
		code, err := ask(f, certificate, header)
		require.NoError(t, err)
		return code
	}
	forwarded := map[string]string{"X-Forwarded-User": "bob", "X-Forwarded-Groups": "ops"}
	require.Equal(t, http.StatusUnauthorized, status(folder, "", nil))
	require.Equal(t, http.StatusUnauthorized, status(folder, "", forwarded))
	require.Equal(t, http.StatusNotFound, status(folder, "alice", nil))
	require.True(t, log.has(`requestedBy="user cert:alice.tenant.local"`))
	require.Equal(t, http.StatusNotFound, status(folder, "alice", forwarded), "alice is no proxy")
	require.False(t, log.has(`requestedBy="user bob"`))
	require.Equal(t, http.StatusUnauthorized, status(folder, "admin", nil), "a proxy that speaks for nobody")
	require.Equal(t, http.StatusNotFound, status(folder, "admin", forwarded))
	require.True(t, log.has(`requestedBy="user bob"`))
	require.Equal(t, http.StatusUnauthorized, status(folder, "alice", map[string]string{"Authorization": "Bearer drover.none"}), "a token that is sent decides alone")
	_, err = ask(other, "alice", nil)
	require.Error(t, err)
	require.False(t, log.has("drover.none"))

	trust(other)
	require.Equal(t, http.StatusNotFound, status(other, "alice", nil))
	_, err = ask(folder, "alice", nil)
	require.Error(t, err)
	cancel()
	require.NoError(t, <-served)
}

// TestAConfigOfIssuersIsReadAtTheStart: what is wrong with it is said before anything is waited for.
func TestAConfigOfIssuersIsReadAtTheStart(t *testing.T) {
	c := configured(t)
	c.Auth, c.AuthConfig = "on", filepath.Join(t.TempDir(), "auth.yaml")
	require.NoError(t, os.WriteFile(c.AuthConfig, []byte("issuers: [{url: dex}]"), 0o600))
	_, err := Connect(t.Context(), c, slog.New(slog.DiscardHandler), nil)
	require.ErrorContains(t, err, `issuers[0].url: "dex" is not a URL`)
	require.ErrorContains(t, err, "issuers[0].audiences")
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"issuer":"https://other.example","jwks_uri":"https://other.example/keys"}`)
	}))
	defer other.Close()
	require.NoError(t, os.WriteFile(c.AuthConfig, fmt.Appendf(nil, "issuers: [{url: %q, audiences: [drover]}]", other.URL), 0o600))
	_, err = Connect(t.Context(), c, slog.New(slog.DiscardHandler), nil)
	require.ErrorContains(t, err, "--auth-config: issuers[0]: the issuer "+other.URL+" is none")
	require.ErrorContains(t, err, "https://other.example")
	require.NoError(t, os.WriteFile(c.AuthConfig, []byte(`issuers: [{url: "https://127.0.0.1:1", audiences: [drover]}]`), 0o600))
	issuers, err := issuersOf(c)
	require.NoError(t, err, "nobody needs to be there")
	require.NotNil(t, issuers)
	c.TLS.CA = "clients.crt"
	_, err = issuersOf(c)
	require.ErrorContains(t, err, "issuers[0].prefix: is required of https://127.0.0.1:1 with --client-ca")
	require.NoError(t, os.WriteFile(c.AuthConfig, []byte(`issuers: [{url: "https://127.0.0.1:1", audiences: [drover], prefix: "x:"}]`), 0o600))
	for certificates, good := range map[string]bool{"": true, "cert:": true, "x": false, "x:": false, "x:y:": false} {
		c.CertPrefix = certificates
		_, err = issuersOf(c)
		require.Equal(t, good, err == nil, "%q: %v", certificates, err)
		if !good {
			require.ErrorContains(t, err, "--client-cert-prefix (DROVER_CLIENT_CERT_PREFIX): \""+certificates+"\" and issuers[0].prefix \"x:\" of https://127.0.0.1:1")
		}
	}
}

// TestTokensOfStrangersDoNotPileUp: while the store says nothing, more tokens of one address than may wait are refused at once.
func TestTokensOfStrangersDoNotPileUp(t *testing.T) {
	l, err := connections.Listen(t.Context(), freeport.Address(), "nobody")
	require.NoError(t, err)
	defer l.Close() // until then connections are made, and nobody takes them
	silent, err := store.Open(store.Config{URI: "mongodb://" + l.Addr().String(), Database: "d", Keys: storetest.Keys})
	require.NoError(t, err)
	defer func() { require.NoError(t, silent.Close(context.Background())) }()
	prove, err := (&Parts{config: &config.Config{Auth: "on"}, store: silent}).prover()
	require.NoError(t, err)
	text, _ := token.New(string(adminToken))
	ctx, cancel := context.WithCancel(caller.WithRequest(t.Context(), &caller.Request{Remote: "192.0.2.1:1"}))
	defer cancel()
	var refused atomic.Int64
	var asking sync.WaitGroup
	for range 600 {
		asking.Go(func() {
			_, err := caller.IdentityOf(prove.Into(ctx, &authn.Shown{Authorization: []string{"Bearer " + text}}))
			if err != nil && strings.Contains(err.Error(), "too many calls") && refused.Add(1) == 1 {
				cancel() // the others have waited long enough
			}
		})
	}
	asking.Wait()
	require.Positive(t, refused.Load())
}
