// Package pki makes the certificates and keys of one local cluster.
//
// Everything is made once and then kept: an Ensure function leaves files that
// exist alone, so that kubeconfigs handed out before a restart, and the service
// account tokens in the cluster's pods, stay valid after it.
package pki

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
	"time"

	"github.com/drover-io/drover/deploy/local/kube/internal/atomicfile"
)

const (
	// A local cluster is thrown away long before its certificates expire, so
	// nothing here has to rotate them.
	validity = 10 * 365 * 24 * time.Hour
	// Laptops and virtual machines resume with clocks that are a little behind.
	clockSkew = time.Hour

	certificateBlock = "CERTIFICATE"
	privateKeyBlock  = "EC PRIVATE KEY"

	mode = 0o600 // of every file
)

// Pair names the files of a certificate and of its private key.
type Pair struct {
	Cert string
	Key  string
}

func (p Pair) exists() (bool, error) {
	for _, path := range []string{p.Cert, p.Key} {
		if found, err := exists(path); err != nil || !found {
			return false, err
		}
	}
	return true, nil
}

// Authority is a certificate authority that signs the other certificates.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// EnsureAuthority loads the authority kept in files, or makes one.
func EnsureAuthority(files Pair, commonName string) (*Authority, error) {
	found, err := files.exists()
	if err != nil {
		return nil, err
	}
	if !found {
		template := &x509.Certificate{
			Subject:               pkix.Name{CommonName: commonName},
			KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
			BasicConstraintsValid: true,
			IsCA:                  true,
		}
		if err := issue(files, template, nil); err != nil {
			return nil, err
		}
	}
	return loadAuthority(files)
}

// EnsureServing makes the certificate of a server that is reached by the given
// host names and IP addresses, unless files exist.
func (a *Authority) EnsureServing(files Pair, commonName string, hosts []string) error {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: commonName},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return a.ensure(files, template)
}

// EnsureClient makes the certificate of a Kubernetes user that is a member of
// the given groups, unless files exist.
func (a *Authority) EnsureClient(files Pair, user string, groups ...string) error {
	return a.ensure(files, &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// EnsureKey makes a private key without a certificate, unless path exists.
func EnsureKey(path string) error {
	if found, err := exists(path); err != nil || found {
		return err
	}
	_, err := newKey(path)
	return err
}

func (a *Authority) ensure(files Pair, template *x509.Certificate) error {
	if found, err := files.exists(); err != nil || found {
		return err
	}
	return issue(files, template, a)
}

// issue makes a key and a certificate for it, signed by the authority or, if
// that is nil, by itself.
func issue(files Pair, template *x509.Certificate, by *Authority) error {
	key, err := newKey(files.Key)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return fmt.Errorf("make a serial number: %w", err)
	}
	now := time.Now()
	template.SerialNumber = serial
	template.NotBefore = now.Add(-clockSkew)
	template.NotAfter = now.Add(validity)
	if by == nil {
		by = &Authority{cert: template, key: key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
	if err != nil {
		return fmt.Errorf("sign %s: %w", files.Cert, err)
	}
	return writePEM(files.Cert, certificateBlock, der, mode)
}

func newKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", path, err)
	}
	return key, writePEM(path, privateKeyBlock, der, mode)
}

func loadAuthority(files Pair) (*Authority, error) {
	certDER, err := readPEM(files.Cert, certificateBlock)
	if err != nil {
		return nil, err
	}
	keyDER, err := readPEM(files.Key, privateKeyBlock)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(certDER)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", files.Cert, err)
	}
	key, err := x509.ParseECPrivateKey(keyDER)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", files.Key, err)
	}
	return &Authority{cert: cert, key: key}, nil
}

func writePEM(path, kind string, der []byte, perm os.FileMode) error {
	return atomicfile.Write(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), perm)
}

func readPEM(path, kind string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(content)
	if block == nil || block.Type != kind {
		return nil, fmt.Errorf("%s holds no %s", path, kind)
	}
	return block.Bytes, nil
}

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
