package kube_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/plan"
)

func signingRequest(change func(*certificatesv1.CertificateSigningRequest)) *certificatesv1.CertificateSigningRequest {
	r := &certificatesv1.CertificateSigningRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"},
		ObjectMeta: metav1.ObjectMeta{Name: "csr", ResourceVersion: "7"},
		Spec:       certificatesv1.CertificateSigningRequestSpec{Request: []byte("request"), SignerName: certificatesv1.KubeAPIServerClientSignerName},
	}
	if change != nil {
		change(r)
	}
	return r
}

func condition(kind certificatesv1.RequestConditionType) certificatesv1.CertificateSigningRequestCondition {
	return certificatesv1.CertificateSigningRequestCondition{Type: kind, Status: corev1.ConditionTrue, Reason: "because", Message: "of this"}
}

func TestApprove(t *testing.T) {
	wanted, err := json.Marshal(signingRequest(nil))
	require.NoError(t, err)
	manifest := plan.Resource{
		ResourceID: plan.ResourceID{Group: "certificates.k8s.io", Version: "v1", Kind: "CertificateSigningRequest", Name: "csr"}, Manifest: wanted,
	}
	for name, c := range map[string]struct {
		there    *certificatesv1.CertificateSigningRequest // nil for none
		answer   int                                       // to the approval; 0: there must be none
		want     kube.Signing
		kind     fail.Kind
		approved bool
	}{
		"that is not there":        {want: kube.Signing{}},
		"that nobody has answered": {there: signingRequest(nil), answer: 200, want: kube.Signing{Present: true}, approved: true},
		"that is another one": {
			there: signingRequest(func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Request = []byte("forged") }),
			want:  kube.Signing{Present: true, Refusal: "the certificate request in the cluster is another one; delete it there"},
		},
		"that is denied": {
			there: signingRequest(func(r *certificatesv1.CertificateSigningRequest) {
				r.Status.Conditions = append(r.Status.Conditions, condition(certificatesv1.CertificateDenied))
			}),
			want: kube.Signing{Present: true, Refusal: "Denied: because: of this"},
		},
		"that is approved": {
			there: signingRequest(func(r *certificatesv1.CertificateSigningRequest) {
				r.Status.Conditions = append(r.Status.Conditions, condition(certificatesv1.CertificateApproved))
			}),
			want: kube.Signing{Present: true},
		},
		"that is signed": {
			there: signingRequest(func(r *certificatesv1.CertificateSigningRequest) {
				r.Status.Conditions = append(r.Status.Conditions, condition(certificatesv1.CertificateApproved))
				r.Status.Certificate = []byte("certificate")
			}),
			want: kube.Signing{Present: true, Certificate: []byte("certificate")},
		},
		"that has gone meanwhile":        {there: signingRequest(nil), answer: 404},
		"that somebody writes meanwhile": {there: signingRequest(nil), answer: 409, kind: fail.Unavailable},
		"that we may not":                {there: signingRequest(nil), answer: 403, kind: fail.Forbidden},
	} {
		t.Run(name, func(t *testing.T) {
			var sent *certificatesv1.CertificateSigningRequest
			s := serveAll(t, http2, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/certificatesigningrequests/csr/approval"):
					body, err := io.ReadAll(r.Body)
					require.NoError(t, err)
					sent = &certificatesv1.CertificateSigningRequest{}
					require.NoError(t, json.Unmarshal(body, sent))
					if c.answer != 200 {
						answer(w, c.answer, status(int32(c.answer), "", "no", &metav1.StatusDetails{Name: "csr"})) // #nosec G115 -- a code
						return
					}
					answer(w, 200, sent)
				case r.Method != http.MethodGet:
					t.Errorf("%s %s", r.Method, r.URL.Path)
				case c.there == nil:
					answer(w, 404, status(404, metav1.StatusReasonNotFound, "none", &metav1.StatusDetails{Name: "csr"}))
				default:
					answer(w, 200, c.there)
				}
			})
			got, err := s.open(t, kube.Config{}).Approve(t.Context(), manifest, "LogicalCloud", "approved")
			require.Equal(t, c.answer != 0, sent != nil)
			if c.kind != "" {
				require.Equal(t, c.kind, fail.KindOf(err), "%v", err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got)
			if c.approved {
				require.Equal(t, "7", sent.ResourceVersion, "what was looked at is what is approved")
				require.Len(t, sent.Status.Conditions, 1)
				got := sent.Status.Conditions[0]
				require.Equal(t, certificatesv1.CertificateApproved, got.Type)
				require.Equal(t, corev1.ConditionTrue, got.Status)
				require.Equal(t, "LogicalCloud", got.Reason)
				require.Equal(t, "approved", got.Message)
			}
		})
	}
}

func TestUserKubeconfig(t *testing.T) {
	admin := kubeconfig(t, clientcmdapi.Cluster{Server: "https://cluster:6443", CertificateAuthorityData: []byte("ca")}, clientcmdapi.AuthInfo{Token: "secret"})
	data, err := kube.UserKubeconfig(admin, kube.Credentials{Cluster: "ref", User: "bob", Namespace: "ns", Certificate: []byte("cert"), Key: []byte("key")})
	require.NoError(t, err)
	require.NotContains(t, string(data), "secret")
	got, err := clientcmd.Load(data)
	require.NoError(t, err)
	require.Equal(t, "bob@ref", got.CurrentContext)
	require.Equal(t, "ref", got.Contexts["bob@ref"].Cluster)
	require.Equal(t, "bob", got.Contexts["bob@ref"].AuthInfo)
	require.Equal(t, "ns", got.Contexts["bob@ref"].Namespace)
	require.Equal(t, "https://cluster:6443", got.Clusters["ref"].Server)
	require.Equal(t, []byte("ca"), got.Clusters["ref"].CertificateAuthorityData)
	require.Equal(t, []byte("cert"), got.AuthInfos["bob"].ClientCertificateData)
	require.Equal(t, []byte("key"), got.AuthInfos["bob"].ClientKeyData)
	require.Len(t, got.AuthInfos, 1)

	// A proxy knows the administrator by his password. Drover goes on by it, and nobody else gets it.
	admin = kubeconfig(t, clientcmdapi.Cluster{
		Server: "https://cluster:6443", ProxyURL: "http://admin:xyzzy@proxy:3128/?token=xyzzy",
		Extensions: map[string]runtime.Object{"made-by": &runtime.Unknown{Raw: []byte(`{"with":"xyzzy"}`), ContentType: runtime.ContentTypeJSON}},
	}, clientcmdapi.AuthInfo{Token: "xyzzy"})
	for given, proxy := range map[bool]string{false: "http://admin:xyzzy@proxy:3128/?token=xyzzy", true: "http://proxy:3128"} {
		data, err := kube.UserKubeconfig(admin, kube.Credentials{Cluster: "ref", User: "bob", Certificate: []byte("cert"), Key: []byte("key"), GivenOut: given})
		require.NoError(t, err)
		got, err := clientcmd.Load(data)
		require.NoError(t, err)
		require.Equal(t, proxy, got.Clusters["ref"].ProxyURL)
		require.Equal(t, "https://cluster:6443", got.Clusters["ref"].Server)
		require.Equal(t, !given, strings.Contains(string(data), "xyzzy"), "%s", data)
	}
	_, err = kube.UserKubeconfig([]byte("{}"), kube.Credentials{})
	require.Equal(t, fail.Invalid, fail.KindOf(err))
}
