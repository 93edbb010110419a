package fleet

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"
)

// validity is longer than a test runs.
const validity = 30 * 24 * time.Hour

// certify makes a certificate of the host that signs itself, and its PEM.
func certify(host string) (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "fleet"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(validity),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, // a signer's usages bound those of what it signs
		BasicConstraintsValid: true,
		IsCA:                  true,
		IPAddresses:           []net.IP{net.ParseIP(host)},
		DNSNames:              []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, ca, nil
}

// signer signs what is asked for by a CertificateSigningRequest, with the certificate of the fleet itself.
type signer struct {
	certificate *x509.Certificate
	key         any
}

func newSigner(c tls.Certificate) (*signer, error) {
	certificate, err := x509.ParseCertificate(c.Certificate[0])
	if err != nil {
		return nil, err
	}
	return &signer{certificate, c.PrivateKey}, nil
}

func (s *signer) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(s.certificate)
	return pool
}

// sign puts the certificate into the status of a request that it finds approved.
func (s *signer) sign(content map[string]any) error {
	status := member(content, "status")
	conditions, _ := status["conditions"].([]any)
	if !slices.ContainsFunc(conditions, func(c any) bool {
		is, _ := c.(map[string]any)
		return text(is, "type") == "Approved"
	}) {
		return nil
	}
	asked, err := base64.StdEncoding.DecodeString(text(member(content, "spec"), "request"))
	if err != nil {
		return fmt.Errorf("spec.request: %w", err)
	}
	block, _ := pem.Decode(asked)
	if block == nil {
		return errors.New("spec.request: is not PEM")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return fmt.Errorf("spec.request: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: request.Subject, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(validity),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true,
	}, s.certificate, request.PublicKey, s.key)
	if err != nil {
		return err
	}
	status["certificate"] = base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	content["status"] = status
	return nil
}
