// Package tenantcert makes the certificates of a local stack and of tests: a CA, the certificate of the tenants' services, and
// those of who calls them. A real fleet has them from elsewhere.
package tenantcert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// The names in certificates: the server's, that of who speaks for all tenants, and what follows a tenant's name.
const (
	ServerName   = "api-gateway.local"
	CloudAdmin   = "cloud-admin.local"
	TenantDomain = ".tenant.local"
)

// lifetime is that of all certificates.
const lifetime = 10 * 365 * 24 * time.Hour

// Make writes ca.crt, ca.key, server.crt, server.key, admin.crt and admin.key into a folder. If the CA is there already,
// all stays as it is.
func Make(folder string) error {
	if _, err := os.Stat(filepath.Join(folder, "ca.crt")); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	ca := template("drover local tenants' CA")
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	if err != nil {
		return err
	}
	// The CA's certificate comes last: what is there when it is there is whole.
	if err := writeKey(folder, "ca", key); err != nil {
		return err
	}
	server := template(ServerName)
	server.DNSNames, server.IPAddresses = []string{ServerName, "localhost"}, []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	if err := issue(folder, "server", server, ca, key); err != nil {
		return err
	}
	if err := issue(folder, "admin", client(CloudAdmin), ca, key); err != nil {
		return err
	}
	return write(folder, "ca.crt", "CERTIFICATE", der)
}

// Tenant writes <tenant>.crt and <tenant>.key, with which a client speaks for that tenant, into a folder that Make has filled.
func Tenant(folder, tenant string) error {
	return TenantUntil(folder, tenant, time.Now().Add(lifetime))
}

// TenantUntil is Tenant for a certificate that expires at a time.
func TenantUntil(folder, tenant string, until time.Time) error {
	ca, key, err := read(folder)
	if err != nil {
		return err
	}
	c := client(tenant + TenantDomain)
	c.NotAfter = until
	return issue(folder, tenant, c, ca, key)
}

func client(name string) *x509.Certificate {
	c := template(name)
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return c
}

func template(name string) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil { // crypto/rand does not fail
		panic(err)
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(lifetime),
	}
}

func issue(folder, file string, c, ca *x509.Certificate, caKey *ecdsa.PrivateKey) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, c, ca, &key.PublicKey, caKey)
	if err != nil {
		return err
	}
	if err := writeKey(folder, file, key); err != nil {
		return err
	}
	return write(folder, file+".crt", "CERTIFICATE", der)
}

func writeKey(folder, file string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return write(folder, file+".key", "PRIVATE KEY", der)
}

func write(folder, file, kind string, der []byte) error {
	return os.WriteFile(filepath.Join(folder, file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

func read(folder string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	der := func(file string) ([]byte, error) {
		data, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			return nil, err
		}
		block, _ := pem.Decode(data)
		if block == nil {
			return nil, fmt.Errorf("no PEM in %s", file)
		}
		return block.Bytes, nil
	}
	certificate, err := der("ca.crt")
	if err != nil {
		return nil, nil, err
	}
	ca, err := x509.ParseCertificate(certificate)
	if err != nil {
		return nil, nil, err
	}
	secret, err := der("ca.key")
	if err != nil {
		return nil, nil, err
	}
	key, err := x509.ParsePKCS8PrivateKey(secret)
	if err != nil {
		return nil, nil, err
	}
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, nil, errors.New("ca.key is no EC key")
	}
	return ca, ec, nil
}
