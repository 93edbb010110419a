package logicalcloud_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/logicalcloud"
)

// issue signs a request as a cluster does.
func issue(t *testing.T, request []byte, from time.Time, life time.Duration) []byte {
	t.Helper()
	block, _ := pem.Decode(request)
	asked, err := x509.ParseCertificateRequest(block.Bytes)
	require.NoError(t, err)
	require.NoError(t, asked.CheckSignature())
	authority, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: asked.Subject, NotBefore: from, NotAfter: from.Add(life),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	parent := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "ca"}}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, asked.PublicKey, authority)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestKeyAndRequestBelongTogether(t *testing.T) {
	key, request, err := logicalcloud.NewKey("bob")
	require.NoError(t, err)
	require.True(t, logicalcloud.MadeFor(request, "bob"))
	require.False(t, logicalcloud.MadeFor(request, "eve"))
	require.False(t, logicalcloud.MadeFor(nil, "bob"))

	from := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	certificate := issue(t, request, from, 90*24*time.Hour)
	_, err = tls.X509KeyPair(certificate, key)
	require.NoError(t, err)
	c, err := logicalcloud.Read(certificate, request)
	require.NoError(t, err)
	require.Equal(t, from.Add(60*24*time.Hour), c.Renewal())
}

func TestReadRefuses(t *testing.T) {
	_, request, err := logicalcloud.NewKey("bob")
	require.NoError(t, err)
	_, another, err := logicalcloud.NewKey("bob")
	require.NoError(t, err)
	for name, certificate := range map[string][]byte{
		"another key's": issue(t, another, time.Now(), time.Hour),
		"no PEM":        []byte("certificate"),
		"a request":     request,
		"no DER":        pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := logicalcloud.Read(certificate, request)
			require.Equal(t, fail.Conflict, fail.KindOf(err), "%v", err)
		})
	}
}
