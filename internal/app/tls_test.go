package app

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/freeport"
	"github.com/drover-io/drover/internal/tenantcert"
)

// TestListenersHaveTLS: REST by HTTP/2 and HTTP/1.1, gRPC, and the worker's metrics, all by TLS 1.3 and nothing else.
func TestListenersHaveTLS(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, tenantcert.Make(folder))
	p := partial(t)
	p.config.TLS = config.ServerTLS{Cert: filepath.Join(folder, "server.crt"), Key: filepath.Join(folder, "server.key")}
	p.config.Drain, p.config.Operations = time.Minute, 1 // HTTP/2 gives its clients a second to hear of the end
	p.config.Listen, p.config.GRPCListen, p.config.MetricsListen = freeport.Address(), freeport.Address(), freeport.Address()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	front, err := OpenAPI(ctx, p.config, p.log)
	require.NoError(t, err)
	health, err := OpenHealth(ctx, p.config, p.log)
	require.NoError(t, err)
	served, measured := make(chan error, 1), make(chan error, 1)
	go func() { served <- p.ServeAPI(ctx, front, func() {}) }()
	go func() { measured <- p.WorkerHealth(ctx, health) }()

	pem, err := os.ReadFile(filepath.Join(folder, "ca.crt"))
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(pem))
	get := func(url string, version int, most uint16) (*http.Response, error) {
		transport := &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: pool, MaxVersion: most}, DisableKeepAlives: true,
			Protocols: new(http.Protocols),
		}
		transport.Protocols.SetHTTP1(version == 1)
		transport.Protocols.SetHTTP2(version == 2)
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		require.NoError(t, err)
		answer, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Do(request)
		if err == nil {
			require.NoError(t, answer.Body.Close())
		}
		return answer, err
	}
	for url, versions := range map[string][]int{
		"https://" + p.config.Listen + "/v2/projects": {1, 2}, "https://" + p.config.MetricsListen + "/metrics": {1},
	} {
		for _, version := range versions {
			require.Eventually(t, func() bool {
				answer, err := get(url, version, tls.VersionTLS13)
				return err == nil && answer.StatusCode == http.StatusOK && answer.ProtoMajor == version
			}, time.Minute, 10*time.Millisecond, "%s by HTTP/%d", url, version)
		}
		_, err := get(url, 1, tls.VersionTLS12)
		require.ErrorContains(t, err, "protocol version")
		answer, err := get("http"+url[len("https"):], 1, 0)
		require.True(t, err != nil || answer.StatusCode == http.StatusBadRequest, "without TLS: %v", answer)
	}
	// A body and a stream by HTTP/2, whose deadlines are those of a stream of the connection.
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, Protocols: protocols}
	defer transport.CloseIdleConnections()
	call := func(method, path, body string) *http.Response {
		request, err := http.NewRequestWithContext(ctx, method, "https://"+p.config.Listen+path, strings.NewReader(body))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/json")
		answer, err := (&http.Client{Transport: transport}).Do(request)
		require.NoError(t, err)
		return answer
	}
	answer := call(http.MethodPost, "/v2/projects", `{"metadata": {"name": "p"}}`)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusCreated, answer.StatusCode)
	answer = call(http.MethodGet, "/v2/projects/p/deployment-intent-groups?watch=true", "")
	defer answer.Body.Close()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Equal(t, 2, answer.ProtoMajor)
	line, err := bufio.NewReader(answer.Body).ReadString('\n')
	require.NoError(t, err)
	require.NotEmpty(t, line)

	connection, err := grpc.NewClient(p.config.GRPCListen, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: pool})))
	require.NoError(t, err)
	defer connection.Close()
	_, err = grpc_health_v1.NewHealthClient(connection).Check(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
	require.NoError(t, err)

	cancel()
	require.NoError(t, <-served)
	require.NoError(t, <-measured)
}
