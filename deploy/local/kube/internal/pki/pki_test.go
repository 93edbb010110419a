package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestServingCertificateIsValidForItsHosts(t *testing.T) {
	dir := t.TempDir()
	authority := newAuthority(t, dir)
	files := pair(dir, "server")
	if err := authority.EnsureServing(files, "server", []string{"127.0.0.1", "localhost"}); err != nil {
		t.Fatal(err)
	}
	cert := load(t, files)
	for _, host := range []string{"127.0.0.1", "localhost"} {
		_, err := cert.Verify(x509.VerifyOptions{Roots: roots(authority), DNSName: host})
		if err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots(authority), DNSName: "example.com"}); err == nil {
		t.Error("the certificate is valid for any host")
	}
}

func TestClientCertificateNamesUserAndGroups(t *testing.T) {
	dir := t.TempDir()
	authority := newAuthority(t, dir)
	files := pair(dir, "client")
	if err := authority.EnsureClient(files, "jane", "dev", "ops"); err != nil {
		t.Fatal(err)
	}
	cert := load(t, files)
	if cert.Subject.CommonName != "jane" || !slices.Equal(cert.Subject.Organization, []string{"dev", "ops"}) {
		t.Errorf("the subject is %s", cert.Subject)
	}
	_, err := cert.Verify(x509.VerifyOptions{
		Roots:     roots(authority),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		t.Error(err)
	}
}

func TestEnsureKeepsWhatExists(t *testing.T) {
	dir := t.TempDir()
	ensure := func() [][]byte {
		authority := newAuthority(t, dir)
		if err := authority.EnsureClient(pair(dir, "client"), "jane"); err != nil {
			t.Fatal(err)
		}
		if err := EnsureKey(filepath.Join(dir, "extra.key")); err != nil {
			t.Fatal(err)
		}
		var contents [][]byte
		for _, name := range []string{"ca.crt", "ca.key", "client.crt", "client.key", "extra.key"} {
			content, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			contents = append(contents, content)
		}
		return contents
	}
	if first, second := ensure(), ensure(); !slices.EqualFunc(first, second, bytes.Equal) {
		t.Error("files were made again")
	}
}

func TestKeysArePrivate(t *testing.T) {
	dir := t.TempDir()
	newAuthority(t, dir)
	info, err := os.Stat(pair(dir, "ca").Key)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("the key has mode %o", mode)
	}
}

func TestDamagedAuthorityIsAnError(t *testing.T) {
	dir := t.TempDir()
	newAuthority(t, dir)
	files := pair(dir, "ca")
	if err := os.WriteFile(files.Cert, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := EnsureAuthority(files, "test"); err == nil {
		t.Error("a damaged authority was loaded")
	}
}

func newAuthority(t *testing.T, dir string) *Authority {
	t.Helper()
	authority, err := EnsureAuthority(pair(dir, "ca"), "test")
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

func pair(dir, name string) Pair {
	return Pair{Cert: filepath.Join(dir, name+".crt"), Key: filepath.Join(dir, name+".key")}
}

// load reads a certificate and checks that its key belongs to it.
func load(t *testing.T, files Pair) *x509.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

func roots(authority *Authority) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(authority.cert)
	return pool
}
