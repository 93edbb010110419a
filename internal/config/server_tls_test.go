package config_test

import (
	"crypto/tls"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/tenantcert"
)

// TestCertificatesAreReadAgain: a connection that comes after the files have changed gets the new certificate, and one that
// comes while they are broken the last good one. TLS is 1.3.
func TestCertificatesAreReadAgain(t *testing.T) {
	folder, other := t.TempDir(), t.TempDir()
	require.NoError(t, tenantcert.Make(folder))
	require.NoError(t, tenantcert.Make(other))
	in := func(name string) string { return filepath.Join(folder, name) }
	c, err := config.ServerTLS{Cert: in("server.crt"), Key: in("server.key"), CA: in("ca.crt")}.Config(slog.New(slog.DiscardHandler), "h2")
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		for {
			connection, err := l.Accept()
			if err != nil {
				return
			}
			_ = tls.Server(connection, c).HandshakeContext(t.Context())
			_ = connection.Close()
		}
	}()
	serial := func() string {
		t.Helper()
		state, err := shake(t, l.Addr().String(), tls.VersionTLS13)
		require.NoError(t, err)
		require.Equal(t, uint16(tls.VersionTLS13), state.Version)
		return state.PeerCertificates[0].SerialNumber.String()
	}
	first := serial()
	require.Equal(t, first, serial())
	later := time.Now().Add(time.Minute) // file systems tell times apart by more or less
	replace := func(name string, data []byte) {
		t.Helper()
		require.NoError(t, os.WriteFile(in(name), data, 0o600))
		require.NoError(t, os.Chtimes(in(name), later, later))
	}
	replace("server.crt", []byte("broken"))
	require.Equal(t, first, serial(), "what was read before stays")
	for _, name := range []string{"server.crt", "server.key", "ca.crt"} {
		data, err := os.ReadFile(filepath.Join(other, name))
		require.NoError(t, err)
		replace(name, data)
	}
	require.NotEqual(t, first, serial())
	_, err = shake(t, l.Addr().String(), tls.VersionTLS12)
	require.Error(t, err)
}

// shake connects with a version at most, whatever the certificate is.
func shake(t *testing.T, address string, most uint16) (state tls.ConnectionState, err error) {
	t.Helper()
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MaxVersion: most}}
	connection, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil {
		return state, err
	}
	defer connection.Close()
	return connection.(*tls.Conn).ConnectionState(), nil
}

// TestNoTLSNoStrangers: without TLS the tenants' services are for this machine alone.
func TestNoTLSNoStrangers(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:1": true, "localhost:1": true, "[::1]:1": true, "": true, ":1": false, "0.0.0.0:1": false, "10.0.0.1:1": false, "tenants.example:1": false,
	} {
		_, err := read(config.API, keys, "--tenant-listen", address)
		if ok {
			require.NoError(t, err, address)
			continue
		}
		require.ErrorContains(t, err, "--tenant-tls-cert (DROVER_TENANT_TLS_CERT)", address)
	}
	_, err := read(config.API, keys, "--tenant-tls-cert", os.DevNull)
	require.ErrorContains(t, err, "belong together")
}

// TestNoTLSNoListenerForOthers: a listener that other machines reach has TLS, or somebody has said that it needs none.
func TestNoTLSNoListenerForOthers(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, tenantcert.Make(folder))
	cert, key := filepath.Join(folder, "server.crt"), filepath.Join(folder, "server.key")
	for _, c := range []struct {
		process config.Process
		flag    string
	}{
		{config.API, "--listen"}, {config.API, "--grpc-listen"}, {config.API, "--profile-listen"},
		{config.Worker, "--metrics-listen"}, {config.Worker, "--profile-listen"}, {config.Monitoring, "--metrics-listen"},
	} {
		set := keys
		if c.process == config.Monitoring {
			set = nil
		}
		for address, ok := range map[string]bool{
			"127.0.0.1:1": true, "localhost:1": true, "[::1]:1": true, ":1": false, "0.0.0.0:1": false, "10.0.0.1:1": false, "drover.example:1": false,
		} {
			_, err := read(c.process, set, c.flag, address)
			if ok {
				require.NoError(t, err, "%s %s", c.flag, address)
				continue
			}
			require.ErrorContains(t, err, c.flag+" (", address)
			require.ErrorContains(t, err, "--tls-cert (DROVER_TLS_CERT), or --insecure (DROVER_INSECURE)", address)
			_, err = read(c.process, set, c.flag, address, "--insecure")
			require.NoError(t, err)
			_, err = read(c.process, set, c.flag, address, "--tls-cert", cert, "--tls-key", key)
			require.NoError(t, err)
		}
	}
	_, err := read(config.API, keys, "--tls-cert", cert)
	require.ErrorContains(t, err, "belong together")
	_, err = read(config.API, keys, "--tenant-listen", "0.0.0.0:1", "--insecure")
	require.ErrorContains(t, err, "--tenant-tls-cert", "who reaches that without TLS speaks for all tenants")
}
