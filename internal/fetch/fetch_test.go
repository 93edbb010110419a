package fetch_test

import (
	"context"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/fetch"
	"github.com/drover-io/drover/internal/limits"
)

// serve is a host with a certificate that hosts trust, and the URL of it.
func serve(t *testing.T, handle http.HandlerFunc) (hosts *fetch.Hosts, at string) {
	t.Helper()
	server := httptest.NewTLSServer(handle)
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return fetch.New([]string{strings.TrimPrefix(server.URL, "https://")}, roots), server.URL
}

func get(t *testing.T, hosts *fetch.Hosts, at string) ([]byte, error) {
	t.Helper()
	u, err := url.Parse(at)
	require.NoError(t, err)
	return hosts.Get(t.Context(), u)
}

func TestAnswers(t *testing.T) {
	hosts, at := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/value":
			_, _ = w.Write([]byte(`{"value":"` + r.URL.Query().Get("key") + `"}`))
		case "/moved":
			http.Redirect(w, r, "/value", http.StatusFound)
		case "/large":
			_, _ = w.Write(make([]byte, limits.ExternalValue+1))
		case "/busy":
			http.Error(w, "secret", http.StatusServiceUnavailable)
		case "/cut":
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("{"))
		default:
			http.Error(w, "secret", http.StatusNotFound)
		}
	})
	body, err := get(t, hosts, at+"/value?key=a")
	require.NoError(t, err)
	require.JSONEq(t, `{"value":"a"}`, string(body))
	host := strings.TrimPrefix(at, "https://")
	for name, c := range map[string]struct {
		at   string
		kind fail.Kind
		says string
	}{
		"not there":           {at + "/none", fail.Malformed, "answers with 404"},
		"elsewhere":           {at + "/moved", fail.Malformed, "answers with 302: nobody is led elsewhere"},
		"too much":            {at + "/large", fail.Malformed, "more than 65536 bytes"},
		"later":               {at + "/busy", fail.Unavailable, "answers with 503"},
		"half":                {at + "/cut", fail.Unavailable, "does not answer"},
		"without encryption":  {"http://" + host + "/value", fail.Malformed, "only https"},
		"with a password":     {"https://me:hidden@" + host + "/value", fail.Malformed, "credentials"},
		"another port":        {"https://127.0.0.1:1/value", fail.Malformed, "may not be asked"},
		"a host that is none": {"https://example.com/value", fail.Malformed, "may not be asked"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := get(t, hosts, c.at)
			require.True(t, fail.Is(err, c.kind), "%v", err)
			require.Contains(t, fail.TextOf(err), c.says)
			require.NotContains(t, fail.TextOf(err), "secret")
			require.NotContains(t, fail.TextOf(err), "hidden")
		})
	}
}

// A certificate of somebody else, and one that nobody has signed, are refused.
func TestCertificatesAreVerified(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // of the handshake
	server.StartTLS()
	t.Cleanup(server.Close)
	_, err := get(t, fetch.New([]string{strings.TrimPrefix(server.URL, "https://")}, x509.NewCertPool()), server.URL+"?token=sesame")
	require.True(t, fail.Is(err, fail.Malformed), "%v", err)
	require.NotContains(t, err.Error(), "sesame", "the log has the cause")
	require.Contains(t, fail.TextOf(err), "certificate")
}

// A name may lead to any address: what is of the machine's own network segment is not connected to.
func TestAddressesOfCloudsAreNotAsked(t *testing.T) {
	for _, host := range []string{"169.254.169.254", "[fe80::1]", "[fd00:ec2::254]", "100.100.100.200", "0.0.0.0", "[::ffff:169.254.169.254]"} {
		hosts := fetch.New([]string{host}, nil)
		_, err := get(t, hosts, "https://"+host+"/latest/meta-data")
		require.True(t, fail.Is(err, fail.Malformed), "%s: %v", host, err)
		require.Contains(t, fail.TextOf(err), "an address that nobody may ask")
	}
}

// Who does not answer is not waited for.
func TestNobodyIsWaitedFor(t *testing.T) {
	// Whoever leaves may still hear the end of an answer, so that there must be none.
	wait := func(r *http.Request) { <-r.Context().Done(); panic(http.ErrAbortHandler) }
	hosts, at := serve(t, func(_ http.ResponseWriter, r *http.Request) { wait(r) })
	u, err := url.Parse(at + "?token=sesame")
	require.NoError(t, err)
	hosts.Within(100 * time.Millisecond)
	_, err = hosts.Get(t.Context(), u)
	require.True(t, fail.Is(err, fail.Timeout), "%v", err)
	require.NotContains(t, err.Error(), "sesame", "the log has the cause")

	asked := make(chan struct{}, 1)
	hosts, at = serve(t, func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		wait(r)
	})
	u, err = url.Parse(at)
	require.NoError(t, err)
	hosts.Within(time.Hour)
	stopped, stop := context.WithCancel(t.Context())
	go func() { <-asked; stop() }()
	_, err = hosts.Get(stopped, u)
	require.ErrorIs(t, err, context.Canceled)
}

// Who asks for many values shakes hands few times, and nothing is left of it.
func TestConnectionsAreKept(t *testing.T) {
	var made, open atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"value":1}`)) }))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			made.Add(1)
			open.Add(1)
		}
		if s == http.StateClosed {
			open.Add(-1)
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	hosts := fetch.New([]string{strings.TrimPrefix(server.URL, "https://")}, roots)
	const asked = 50
	for range asked {
		_, err := get(t, hosts, server.URL)
		require.NoError(t, err)
	}
	require.Less(t, made.Load(), int32(asked))
	hosts.Rest()
	require.Eventually(t, func() bool { return open.Load() == 0 }, time.Minute, time.Millisecond)
}

func TestNamesOfHosts(t *testing.T) {
	hosts := fetch.New([]string{"Values.example.com", "other.example.com:8443", "[2001:db8::1]"}, nil)
	for at, listed := range map[string]bool{
		"https://values.example.com/x": true, "https://VALUES.example.com:443/x": true, "https://values.example.com:8443/": false,
		"https://other.example.com:8443/": true, "https://other.example.com/": false, "https://[2001:db8::1]/": true,
		"https://values.example.com.evil.example/": false, "https://evil@values.example.com/": true,
	} {
		u, err := url.Parse(at)
		require.NoError(t, err)
		require.Equal(t, listed, hosts.Listed(u), at)
	}
}
