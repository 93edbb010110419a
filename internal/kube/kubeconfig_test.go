package kube_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
)

func TestCheckKubeconfig(t *testing.T) {
	t.Parallel()
	good := clientcmdapi.Cluster{Server: "https://192.0.2.1:6443"}
	ca := serve(t, http2, func(http.ResponseWriter, *http.Request) {}).kubeconfig(t)
	cases := map[string]struct {
		reason     string
		kubeconfig []byte
		wantKind   fail.Kind
		wantFields []string
	}{
		"is accepted with a token and a CA": {kubeconfig: ca},
		"is accepted without credentials":   {kubeconfig: kubeconfig(t, good, clientcmdapi.AuthInfo{})},
		"is accepted with a password":       {kubeconfig: kubeconfig(t, good, clientcmdapi.AuthInfo{Username: "u", Password: "p"})},
		"is accepted without verification":  {kubeconfig: kubeconfig(t, clientcmdapi.Cluster{Server: good.Server, InsecureSkipTLSVerify: true}, clientcmdapi.AuthInfo{})},
		"is accepted through a proxy":       {kubeconfig: kubeconfig(t, clientcmdapi.Cluster{Server: good.Server, ProxyURL: "http://192.0.2.2:3128"}, clientcmdapi.AuthInfo{})},
		"is no YAML":                        {kubeconfig: []byte("a: b: c"), wantKind: fail.Malformed},
		"is another document":               {kubeconfig: []byte("kind: Pod\napiVersion: v1"), wantKind: fail.Malformed},
		"is nothing":                        {kubeconfig: nil, wantKind: fail.Invalid, wantFields: []string{"current-context"}},
		"names a context that is not there": {kubeconfig: []byte("current-context: x"), wantKind: fail.Invalid, wantFields: []string{"current-context"}},
		"names members that are not there": {
			kubeconfig: []byte("current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]"),
			wantKind:   fail.Invalid, wantFields: []string{"clusters[c]", "users[u]"},
		},
		"runs a program": {
			reason: "a server does not run what a user sends",
			kubeconfig: kubeconfig(t, good, clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
				Command: "sh", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
			}}),
			wantKind: fail.Invalid, wantFields: []string{"users[u].user.exec"},
		},
		"has an auth provider": {
			kubeconfig: kubeconfig(t, good, clientcmdapi.AuthInfo{AuthProvider: &clientcmdapi.AuthProviderConfig{Name: "gcp"}}),
			wantKind:   fail.Invalid, wantFields: []string{"users[u].user.auth-provider"},
		},
		"names files": {
			reason: "a server does not read its own files for a user",
			kubeconfig: kubeconfig(t, clientcmdapi.Cluster{Server: good.Server, CertificateAuthority: "/etc/passwd"}, clientcmdapi.AuthInfo{
				ClientCertificate: "/etc/passwd", ClientKey: "/etc/passwd", TokenFile: "/etc/passwd",
			}),
			wantKind: fail.Invalid, wantFields: []string{
				"clusters[c].cluster.certificate-authority", "users[u].user.client-certificate",
				"users[u].user.client-key", "users[u].user.tokenFile",
			},
		},
		"runs a program in another letter case": {
			reason: "client-go does not read Exec, others that get the file do",
			kubeconfig: []byte(strings.Replace(string(kubeconfig(t, good, clientcmdapi.AuthInfo{Token: "t"})), "token: t",
				"Exec: {command: sh}\n    TokenFile: /etc/passwd\n    Auth-Provider: {name: gcp}", 1)),
			wantKind: fail.Invalid, wantFields: []string{"users[u].user.Auth-Provider", "users[u].user.Exec", "users[u].user.TokenFile"},
		},
		"has other members in another letter case": {
			kubeconfig: []byte("Users: []\n" + string(kubeconfig(t, good, clientcmdapi.AuthInfo{}))),
			wantKind:   fail.Invalid, wantFields: []string{"Users"},
		},
		"is accepted with members that nobody knows": {
			kubeconfig: []byte("made-by: hand\n" + string(kubeconfig(t, good, clientcmdapi.AuthInfo{}))),
		},
		"has a server that is no URL": {
			kubeconfig: kubeconfig(t, clientcmdapi.Cluster{Server: "ftp://192.0.2.1"}, clientcmdapi.AuthInfo{}),
			wantKind:   fail.Invalid, wantFields: []string{"clusters[c].cluster.server"},
		},
		"has a CA that is none": {
			kubeconfig: kubeconfig(t, clientcmdapi.Cluster{Server: good.Server, CertificateAuthorityData: []byte("no")}, clientcmdapi.AuthInfo{}),
			wantKind:   fail.Invalid,
		},
		"has half a certificate": {
			kubeconfig: kubeconfig(t, good, clientcmdapi.AuthInfo{ClientCertificateData: []byte("no")}),
			wantKind:   fail.Invalid,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := kube.CheckKubeconfig(tc.kubeconfig)
			if tc.wantKind == "" {
				require.NoError(t, err)
				return
			}
			require.Error(t, err, tc.reason)
			require.Equal(t, tc.wantKind, fail.KindOf(err), "%v", err)
			var paths []string
			for _, f := range fail.FieldsOf(err) {
				paths = append(paths, f.Path)
			}
			require.Empty(t, cmp.Diff(tc.wantFields, paths))
			require.NotContains(t, fail.TextOf(err), "/etc/passwd", "what is shown repeats nothing of the credentials")
		})
	}
}
