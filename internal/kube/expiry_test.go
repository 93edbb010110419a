package kube_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/internal/kube"
)

func TestExpiry(t *testing.T) {
	t.Parallel()
	soon := time.Now().UTC().Add(time.Hour).Truncate(time.Second)
	later := soon.Add(time.Hour)
	jwt := func(claims string) string {
		part := base64.RawURLEncoding.EncodeToString
		return part([]byte(`{"alg":"none"}`)) + "." + part([]byte(claims)) + "." + part([]byte("signature"))
	}
	expiring := func(at time.Time) string { return jwt(fmt.Sprintf(`{"sub":"x","exp":%d}`, at.Unix())) }
	certificate := expiringCertificate(t, soon)
	for name, c := range map[string]struct {
		user clientcmdapi.AuthInfo
		want time.Time
	}{
		"a token":                      {clientcmdapi.AuthInfo{Token: expiring(later)}, later},
		"a certificate":                {clientcmdapi.AuthInfo{ClientCertificateData: certificate}, soon},
		"behind a key":                 {clientcmdapi.AuthInfo{ClientCertificateData: append(pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS", Bytes: []byte{6}}), certificate...)}, soon},
		"the first of both":            {clientcmdapi.AuthInfo{ClientCertificateData: certificate, Token: expiring(later)}, soon},
		"a token that does not expire": {clientcmdapi.AuthInfo{Token: jwt(`{"sub":"x"}`)}, time.Time{}},
		"a token of another kind":      {clientcmdapi.AuthInfo{Token: "opaque"}, time.Time{}},
		"what only looks like a token": {clientcmdapi.AuthInfo{Token: "a.b.c"}, time.Time{}},
		"a token of all times":         {clientcmdapi.AuthInfo{Token: jwt(`{"exp":1e300}`)}, time.Time{}},
		"no certificate":               {clientcmdapi.AuthInfo{ClientCertificateData: []byte("x")}, time.Time{}},
		"no credentials":               {clientcmdapi.AuthInfo{}, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, kube.Expiry(kubeconfig(t, clientcmdapi.Cluster{Server: "https://192.0.2.1"}, c.user)))
		})
	}
	require.Zero(t, kube.Expiry([]byte("no kubeconfig")))
}

func expiringCertificate(t *testing.T, at time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: at}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
