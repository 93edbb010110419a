package logicalcloud

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// The types of PEM blocks.
const (
	keyBlock         = "EC PRIVATE KEY"
	requestBlock     = "CERTIFICATE REQUEST"
	certificateBlock = "CERTIFICATE"
)

// NewKey makes the private key of a user and a certificate request with it, both as PEM. The key is one of
// ECDSA on P-256, which costs a fraction of a millisecond.
func NewKey(user string) (key, request []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fail.Wrap(err, fail.Internal, "make a key")
	}
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, nil, fail.Wrap(err, fail.Internal, "encode a key")
	}
	subject := x509.CertificateRequest{Subject: pkix.Name{CommonName: user}, SignatureAlgorithm: x509.ECDSAWithSHA256}
	signed, err := x509.CreateCertificateRequest(rand.Reader, &subject, private)
	if err != nil {
		return nil, nil, fail.Wrap(err, fail.Internal, "make a certificate request")
	}
	return encode(keyBlock, der), encode(requestBlock, signed), nil
}

func encode(block string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: block, Bytes: der})
}

// Holder is the user that a certificate is for, and until when it is good; Invalid for what is none.
func Holder(certificate []byte) (user string, expires time.Time, err error) {
	block, _ := pem.Decode(certificate)
	if block == nil || block.Type != certificateBlock {
		return "", time.Time{}, fail.New(fail.Invalid, "it is not a certificate")
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", time.Time{}, fail.Wrap(err, fail.Invalid, "it is not a certificate")
	}
	return c.Subject.CommonName, c.NotAfter, nil
}

// CertifiedBy is the certificate that a reference has; false for none, and for what is no certificate: nobody can make use of that.
func CertifiedBy(r *domain.ClusterReference) (is domain.Certified, ok bool) {
	certificate, err := base64.StdEncoding.DecodeString(r.Spec.Certificate)
	if err != nil {
		return domain.Certified{}, false
	}
	user, expires, err := Holder(certificate)
	return domain.Certified{Cluster: r.ClusterName(), User: user, Scope: domain.ScopeOf(domain.KeyOf(r)), Expires: expires}, err == nil
}

// MadeFor says whether the request is one for the user.
func MadeFor(request []byte, user string) bool {
	r, err := parseRequest(request)
	return err == nil && r.Subject.CommonName == user
}

func parseRequest(request []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(request)
	if block == nil || block.Type != requestBlock {
		return nil, fail.New(fail.Internal, "the certificate request cannot be read")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}

// Certificate is when a certificate is good.
type Certificate struct{ NotBefore, NotAfter time.Time }

// Renewal is when the certificate is to be replaced: after two thirds of its life.
func (c Certificate) Renewal() time.Time {
	return c.NotBefore.Add(c.NotAfter.Sub(c.NotBefore) / 3 * 2)
}

// Read reads a certificate that was issued for the request; Conflict when it is another's.
func Read(certificate, request []byte) (Certificate, error) {
	block, _ := pem.Decode(certificate)
	if block == nil || block.Type != certificateBlock {
		return Certificate{}, fail.New(fail.Conflict, "what the cluster has issued is not a certificate")
	}
	issued, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return Certificate{}, fail.Wrap(err, fail.Conflict, "what the cluster has issued is not a certificate")
	}
	asked, err := parseRequest(request)
	if err != nil {
		return Certificate{}, fail.Wrap(err, fail.Internal, "the certificate request cannot be read")
	}
	public, ok := asked.PublicKey.(*ecdsa.PublicKey)
	if !ok || !public.Equal(issued.PublicKey) {
		return Certificate{}, fail.New(fail.Conflict, "the certificate that the cluster has issued belongs to another key")
	}
	return Certificate{issued.NotBefore, issued.NotAfter}, nil
}
