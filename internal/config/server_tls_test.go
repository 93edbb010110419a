package config_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
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

// TestStreamsOutliveCertificates: a stream that is open while the files change, or are broken, goes on, whichever HTTP it is of. The next connection
// gets the new certificate.
func TestStreamsOutliveCertificates(t *testing.T) {
	for version := 1; version <= 2; version++ {
		t.Run(fmt.Sprintf("HTTP/%d", version), func(t *testing.T) {
			folder, other := t.TempDir(), t.TempDir()
			require.NoError(t, tenantcert.Make(folder))
			require.NoError(t, tenantcert.Make(other))
			in := func(name string) string { return filepath.Join(folder, name) }
			protocols := []string{"h2", "http/1.1"}[2-version:]
			c, err := config.ServerTLS{Cert: in("server.crt"), Key: in("server.key")}.Config(slog.New(slog.DiscardHandler), protocols...)
			require.NoError(t, err)
			says := make(chan string)
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/stream" {
					return
				}
				for word := range says {
					_, _ = io.WriteString(w, word)
					_ = http.NewResponseController(w).Flush()
				}
			}))
			server.EnableHTTP2 = version == 2
			server.TLS = c
			server.StartTLS()
			defer server.Close()
			ask := func(path string) *http.Response {
				t.Helper()
				transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: version == 2} // it is about which one there is
				t.Cleanup(transport.CloseIdleConnections)
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
				require.NoError(t, err)
				answer, err := (&http.Client{Transport: transport}).Do(r)
				require.NoError(t, err)
				t.Cleanup(func() { _ = answer.Body.Close() })
				require.Equal(t, version, answer.ProtoMajor)
				return answer
			}
			serial := func(answer *http.Response) string { return answer.TLS.PeerCertificates[0].SerialNumber.String() }
			go func() { says <- "one" }()
			stream := ask("/stream")
			hears := func(want string) {
				t.Helper()
				heard := make([]byte, len(want))
				_, err := io.ReadFull(stream.Body, heard)
				require.NoError(t, err)
				require.Equal(t, want, string(heard))
			}
			hears("one")
			later := time.Now().Add(time.Minute)
			replace := func(name string, data []byte) {
				require.NoError(t, os.WriteFile(in(name), data, 0o600))
				require.NoError(t, os.Chtimes(in(name), later, later))
			}
			replace("server.crt", []byte("broken"))
			require.Equal(t, serial(stream), serial(ask("/")))
			says <- "two"
			hears("two")
			for _, name := range []string{"server.crt", "server.key"} {
				data, err := os.ReadFile(filepath.Join(other, name))
				require.NoError(t, err)
				replace(name, data)
			}
			require.NotEqual(t, serial(stream), serial(ask("/")))
			says <- "three"
			hears("three")
			close(says)
			_, err = stream.Body.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF)
		})
	}
}

// TestCertificatesForTemporalAreReadAgain: a connection that is made after the files have changed shows the new certificate, and trusts the new CA and
// no other. The server has to have the name that is called.
func TestCertificatesForTemporalAreReadAgain(t *testing.T) {
	at := t.TempDir()
	in := func(folder, name string) string { return filepath.Join(at, folder, name) }
	for _, folder := range []string{"first", "second"} {
		require.NoError(t, tenantcert.Make(in(folder, "")))
	}
	require.NoError(t, os.Symlink("first", in("now", "")))
	serves := &tls.Config{MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool()}
	pairs := map[string]tls.Certificate{}
	for _, folder := range []string{"first", "second"} {
		pair, err := tls.LoadX509KeyPair(in(folder, "server.crt"), in(folder, "server.key"))
		require.NoError(t, err)
		pairs[folder] = pair
		ca, err := os.ReadFile(in(folder, "ca.crt"))
		require.NoError(t, err)
		require.True(t, serves.ClientCAs.AppendCertsFromPEM(ca))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	// shown connects as gRPC does, to the server with the certificate of a folder, and is the certificate that the server was shown.
	shown := func(c *tls.Config, name, folder string) (*x509.Certificate, error) {
		t.Helper()
		of := serves.Clone()
		of.Certificates = []tls.Certificate{pairs[folder]}
		saw := make(chan *x509.Certificate, 1)
		go func() {
			defer close(saw)
			connection, err := l.Accept()
			if err != nil {
				return
			}
			defer connection.Close()
			s := tls.Server(connection, of)
			if s.HandshakeContext(t.Context()) == nil {
				saw <- s.ConnectionState().PeerCertificates[0]
			}
		}()
		c = c.Clone()
		c.ServerName = name
		connection, err := (&tls.Dialer{Config: c}).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			<-saw
			return nil, err
		}
		defer connection.Close()
		return <-saw, nil
	}
	admin := func(folder string) []byte {
		t.Helper()
		pair, err := tls.LoadX509KeyPair(in(folder, "admin.crt"), in(folder, "admin.key"))
		require.NoError(t, err)
		return pair.Certificate[0]
	}
	files := config.Temporal{Address: "127.0.0.1:7233", TLSCert: in("now", "admin.crt"), TLSKey: in("now", "admin.key"), TLSCA: in("now", "ca.crt")}
	log := slog.New(slog.DiscardHandler)
	c, err := files.TLS(log)
	require.NoError(t, err)
	got, err := shown(c, "127.0.0.1", "first")
	require.NoError(t, err)
	require.Equal(t, admin("first"), got.Raw)
	_, err = shown(c, "127.0.0.1", "second")
	require.ErrorContains(t, err, "unknown authority")

	for address, ok := range map[string]bool{"127.0.0.2:7233": false, "temporal.example:7233": false, "localhost:7233": true} {
		other := files
		other.Address = address
		c, err := other.TLS(log)
		require.NoError(t, err)
		host, _, err := net.SplitHostPort(address)
		require.NoError(t, err)
		if _, err = shown(c, host, "first"); ok {
			require.NoError(t, err, address)
		} else {
			require.ErrorContains(t, err, "certificate is valid for", address)
		}
	}
	named := files
	named.Address, named.TLSServer = "temporal.example:7233", tenantcert.ServerName
	byName, err := named.TLS(log)
	require.NoError(t, err)
	_, err = shown(byName, named.TLSServer, "first")
	require.NoError(t, err)

	require.NoError(t, os.Symlink("second", in("next", "")))
	require.NoError(t, os.Rename(in("next", ""), in("now", "")))
	got, err = shown(c, "127.0.0.1", "second")
	require.NoError(t, err)
	require.Equal(t, admin("second"), got.Raw)
	_, err = shown(c, "127.0.0.1", "first")
	require.ErrorContains(t, err, "unknown authority", "the CA was replaced")
}

// TestFilesThatAreBeingReplaced: a certificate or a CA that is cut off, and a key of another certificate, change nothing; files that are as long and as old
// as those before, and a link that leads elsewhere, do.
func TestFilesThatAreBeingReplaced(t *testing.T) {
	at := t.TempDir()
	in := func(folder, name string) string { return filepath.Join(at, folder, name) }
	read := func(folder, name string) []byte {
		t.Helper()
		data, err := os.ReadFile(in(folder, name))
		require.NoError(t, err)
		return data
	}
	write := func(name string, data []byte) {
		t.Helper()
		require.NoError(t, os.WriteFile(in("now", name), data, 0o600))
	}
	for _, folder := range []string{"first", "second"} {
		require.NoError(t, tenantcert.Make(in(folder, "")))
		require.NoError(t, tenantcert.Tenant(in(folder, ""), "a"))
	}
	require.NoError(t, os.Symlink("first", in("now", "")))
	files := config.ServerTLS{Cert: in("now", "server.crt"), Key: in("now", "server.key"), CA: in("now", "ca.crt")}
	c, err := files.Config(slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	trust, err := files.Trust(slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	certificate := func(text []byte) *x509.Certificate {
		t.Helper()
		block, _ := pem.Decode(text)
		parsed, err := x509.ParseCertificate(block.Bytes)
		require.NoError(t, err)
		return parsed
	}
	serves := func(folder, why string) {
		t.Helper()
		now, err := c.GetConfigForClient(nil)
		require.NoError(t, err)
		require.Equal(t, certificate(read(folder, "server.crt")).Raw, now.Certificates[0].Certificate[0], why)
	}
	trusts := func(folder string) bool {
		return trust([]*x509.Certificate{certificate(read(folder, "a.crt")), certificate(read(folder, "ca.crt"))})
	}
	serves("first", "as it is")
	require.True(t, trusts("first"))
	require.False(t, trusts("second"))

	// As Kubernetes replaces what a volume shows: a link to another folder takes the place of the one before.
	require.NoError(t, os.Symlink("second", in("next", "")))
	require.NoError(t, os.Rename(in("next", ""), in("now", "")))
	serves("second", "the link leads elsewhere")
	require.True(t, trusts("second"))
	require.False(t, trusts("first"), "its connections are nobody's")

	first, firstCA := read("first", "server.crt"), read("first", "ca.crt")
	second, secondCA, secondKey := read("second", "server.crt"), read("second", "ca.crt"), read("second", "server.key")
	old := time.Now().Add(-time.Hour) // nothing is read again because it is young
	for name, data := range map[string][]byte{"server.crt": append(bytes.Clone(second), first[:len(first)/2]...), "ca.crt": append(bytes.Clone(firstCA), secondCA[:len(secondCA)/2]...)} {
		was := read("now", name)
		write(name, data)
		require.NoError(t, os.Chtimes(in("now", name), old, old))
		now, err := c.GetConfigForClient(nil)
		require.NoError(t, err)
		require.Len(t, now.Certificates[0].Certificate, 1)
		require.True(t, trusts("second"), "%s is cut off", name)
		require.False(t, trusts("first"), "%s is cut off", name)
		write(name, was)
	}
	write("server.key", read("first", "server.key"))
	require.NoError(t, os.WriteFile(in("now", "server.crt"), second, 0o600))
	now, err := c.GetConfigForClient(nil)
	require.NoError(t, err)
	require.Equal(t, certificate(second).Raw, now.Certificates[0].Certificate[0], "the key is another one's")
	write("server.key", secondKey)

	// Both CAs, then the second one alone, in a file that its times and its length do not tell from the one before.
	both := append(bytes.Clone(firstCA), secondCA...)
	alone := append(bytes.Repeat([]byte("\n"), len(firstCA)), secondCA...)
	write("ca.crt", both)
	require.True(t, trusts("first"))
	info, err := os.Stat(in("now", "ca.crt"))
	require.NoError(t, err)
	write("ca.crt", alone)
	require.NoError(t, os.Chtimes(in("now", "ca.crt"), info.ModTime(), info.ModTime()))
	require.False(t, trusts("first"), "it was written just now, so it may have been written again")
	require.True(t, trusts("second"))

	_, err = config.ServerTLS{Cert: files.Cert, Key: files.Key, CA: files.Key}.Config(slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, files.Key+": there is no certificate in it")
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
			_, err = read(c.process, set, c.flag, address, "--tls-cert", cert, "--tls-key", key, "--insecure")
			require.ErrorContains(t, err, "--insecure (DROVER_INSECURE) means nothing beside --tls-cert (DROVER_TLS_CERT)")
		}
	}
	_, err := read(config.API, keys, "--tls-cert", cert)
	require.ErrorContains(t, err, "belong together")
	_, err = read(config.API, keys, "--tenant-listen", "0.0.0.0:1", "--insecure")
	require.ErrorContains(t, err, "--tenant-tls-cert", "who reaches that without TLS speaks for all tenants")
}
