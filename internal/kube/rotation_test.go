package kube_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/kubetest"
)

// clientCertificate makes one for the name, in PEM.
func clientCertificate(t *testing.T, name string) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	require.NoError(t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

// TestACertificateThatRotates: a cluster that takes the old one no more, on the connections that began with it, takes the new one.
func TestACertificateThatRotates(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]protocol{"HTTP/2": http2, "HTTP/1": http1} {
		for from, rotate := range map[string]func(t *testing.T, dir, name string) clientcmdapi.AuthInfo{"files": inFiles, "a program": byProgram} {
			t.Run("from "+from+", "+name, func(t *testing.T) {
				t.Parallel()
				taken := atomic.Value{}
				taken.Store("first")
				s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch {
					case r.URL.Query().Get("watch") != "": // one that goes on keeps the connection
						w.Header().Set("Content-Type", "application/json")
						_ = http.NewResponseController(w).Flush()
						<-r.Context().Done()
					case len(r.TLS.PeerCertificates) == 1 && r.TLS.PeerCertificates[0].Subject.CommonName == taken.Load():
						answer(w, http.StatusOK, map[string]string{"gitVersion": "v1.36.0"})
					default:
						answer(w, http.StatusUnauthorized, status(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized", nil))
					}
				}))
				s.EnableHTTP2 = bool(p)
				s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert} // #nosec G402 -- the handler judges it, as API servers do
				s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
				s.StartTLS()
				t.Cleanup(func() {
					s.CloseClientConnections()
					s.Close()
				})
				dir := t.TempDir()
				ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
				c := kubetest.Open(t, kube.Config{Allowed: kube.Allowed{Files: true, Exec: true}},
					kubeconfig(t, clientcmdapi.Cluster{Server: s.URL, CertificateAuthorityData: ca}, rotate(t, dir, "first")))
				require.NoError(t, c.Ping(t.Context()))
				go func() {
					_ = c.Watch(t.Context(), kube.Collection{Path: "/api/v1/pods", Page: 1}, "1", func(string, *kube.Event) error { return nil })
				}()
				rotate(t, dir, "second")
				require.NoError(t, c.Ping(t.Context()), "the old one is good as long as the cluster says so")
				taken.Store("second")
				require.Eventually(t, func() bool { return c.Ping(t.Context()) == nil }, kubetest.Deadline, kubetest.Tick)
			})
		}
	}
}

// inFiles writes a certificate for the name.
func inFiles(t *testing.T, dir, name string) clientcmdapi.AuthInfo {
	t.Helper()
	certificate, key := clientCertificate(t, name)
	user := clientcmdapi.AuthInfo{ClientCertificate: filepath.Join(dir, "tls.crt"), ClientKey: filepath.Join(dir, "tls.key")}
	require.NoError(t, os.WriteFile(user.ClientCertificate, certificate, 0o600))
	require.NoError(t, os.WriteFile(user.ClientKey, key, 0o600))
	return user
}

// byProgram has a program find a certificate for the name.
func byProgram(t *testing.T, dir, name string) clientcmdapi.AuthInfo {
	t.Helper()
	certificate, key := clientCertificate(t, name)
	said, err := json.Marshal(map[string]any{
		"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
		"status": map[string]string{"clientCertificateData": string(certificate), "clientKeyData": string(key)},
	})
	require.NoError(t, err)
	path := filepath.Join(dir, "credential.json")
	require.NoError(t, os.WriteFile(path, said, 0o600))
	return clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode, Command: "cat", Args: []string{path},
	}}
}
