package kube_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/internal/address"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/limits"
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
		wantText   string // where no field is named by its path
	}{
		"is accepted with a token and a CA": {kubeconfig: ca},
		"is accepted without credentials":   {kubeconfig: kubeconfig(t, good, clientcmdapi.AuthInfo{})},
		"is accepted with a password":       {kubeconfig: kubeconfig(t, good, clientcmdapi.AuthInfo{Username: "u", Password: "p"})},
		"is accepted on this machine":       {kubeconfig: kubeconfig(t, clientcmdapi.Cluster{Server: "https://127.0.0.1:6443"}, clientcmdapi.AuthInfo{})},
		"is accepted without TLS on this machine": {
			kubeconfig: kubeconfig(t, clientcmdapi.Cluster{Server: "http://127.0.0.1:8080"}, clientcmdapi.AuthInfo{}),
		},
		"sends credentials in plain": {
			kubeconfig: kubeconfig(t, clientcmdapi.Cluster{Server: "http://192.0.2.1:8080"}, clientcmdapi.AuthInfo{Token: "t"}),
			wantKind:   fail.Invalid, wantFields: []string{"clusters[c].cluster.server"},
		},
		"sends them to a name that may lead anywhere": {
			kubeconfig: kubeconfig(t, clientcmdapi.Cluster{Server: "http://localhost:8080"}, clientcmdapi.AuthInfo{Token: "t"}),
			wantKind:   fail.Invalid, wantFields: []string{"clusters[c].cluster.server"},
		},
		"takes anybody for the cluster": {
			kubeconfig: kubeconfig(t, clientcmdapi.Cluster{Server: good.Server, InsecureSkipTLSVerify: true}, clientcmdapi.AuthInfo{}),
			wantKind:   fail.Invalid, wantFields: []string{"clusters[c].cluster.insecure-skip-tls-verify"},
		},
		"has a proxy": {
			kubeconfig: kubeconfig(t, clientcmdapi.Cluster{Server: good.Server, ProxyURL: "http://192.0.2.2:3128"}, clientcmdapi.AuthInfo{}),
			wantKind:   fail.Invalid, wantFields: []string{"clusters[c].cluster.proxy-url"},
		},
		"leads to a machine's metadata": {
			kubeconfig: kubeconfig(t, clientcmdapi.Cluster{Server: "http://169.254.169.254"}, clientcmdapi.AuthInfo{}),
			wantKind:   fail.Invalid, wantFields: []string{"clusters[c].cluster.server"},
		},
		"leads there by another way to write it": {
			kubeconfig: kubeconfig(t, clientcmdapi.Cluster{Server: "http://[::ffff:a9fe:a9fe]:80"}, clientcmdapi.AuthInfo{}),
			wantKind:   fail.Invalid, wantFields: []string{"clusters[c].cluster.server"},
		},
		"leads there by a number": {
			kubeconfig: kubeconfig(t, clientcmdapi.Cluster{Server: "https://2852039166:6443"}, clientcmdapi.AuthInfo{}),
			wantKind:   fail.Invalid, wantFields: []string{"clusters[c].cluster.server"},
		},
		"leads there by octal numbers": {
			kubeconfig: kubeconfig(t, clientcmdapi.Cluster{Server: "https://0251.0376.0251.0376"}, clientcmdapi.AuthInfo{}),
			wantKind:   fail.Invalid, wantFields: []string{"clusters[c].cluster.server"},
		},
		"chooses the path that is asked for": {
			reason:     "what is behind the ? or # would not be part of the path: a server would ask for /admin/x",
			kubeconfig: kubeconfig(t, clientcmdapi.Cluster{Server: "http://10.0.0.5:8080/admin/x?"}, clientcmdapi.AuthInfo{}),
			wantKind:   fail.Invalid, wantFields: []string{"clusters[c].cluster.server"},
		},
		"has a query":                       {kubeconfig: kubeconfig(t, clientcmdapi.Cluster{Server: good.Server + "/?a=b"}, clientcmdapi.AuthInfo{}), wantKind: fail.Invalid, wantFields: []string{"clusters[c].cluster.server"}},
		"has a fragment":                    {kubeconfig: kubeconfig(t, clientcmdapi.Cluster{Server: good.Server + "/x#"}, clientcmdapi.AuthInfo{}), wantKind: fail.Invalid, wantFields: []string{"clusters[c].cluster.server"}},
		"has a user":                        {kubeconfig: kubeconfig(t, clientcmdapi.Cluster{Server: "https://u:p@192.0.2.1"}, clientcmdapi.AuthInfo{}), wantKind: fail.Invalid, wantFields: []string{"clusters[c].cluster.server"}},
		"has a path":                        {kubeconfig: kubeconfig(t, clientcmdapi.Cluster{Server: "https://192.0.2.1/k8s/clusters/c-1"}, clientcmdapi.AuthInfo{})},
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
		"has a user without a name, and a context without a user": {
			reason: "client-go takes the one for the other",
			kubeconfig: []byte(strings.NewReplacer("name: u\n", "name: \"\"\n", "    user: u\n", "").Replace(string(kubeconfig(t, good, clientcmdapi.AuthInfo{
				ClientCertificate: "/etc/passwd", ClientKey: "/etc/passwd", TokenFile: "/etc/passwd",
				Exec:         &clientcmdapi.ExecConfig{Command: "sh", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode},
				AuthProvider: &clientcmdapi.AuthProviderConfig{Name: "gcp"},
			})))),
			wantKind: fail.Invalid, wantFields: []string{
				"users[].user.client-certificate", "users[].user.client-key", "users[].user.tokenFile", "users[].user.exec", "users[].user.auth-provider",
			},
		},
		"is larger than any": {
			reason:     "what parsers make of it is a hundred times as much",
			kubeconfig: append(kubeconfig(t, good, clientcmdapi.AuthInfo{}), bytes.Repeat([]byte("#\n"), limits.Kubeconfig/2)...),
			wantKind:   fail.Invalid, wantText: "of which it may have 1048576",
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
			wantKind:   fail.Invalid, wantText: "certificate-authority-data of its cluster",
		},
		"has half a certificate": {
			kubeconfig: kubeconfig(t, good, clientcmdapi.AuthInfo{ClientCertificateData: []byte("no")}),
			wantKind:   fail.Invalid, wantText: "client-key",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := kube.Config{}.CheckKubeconfig(tc.kubeconfig)
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
			require.Contains(t, fail.TextOf(err), tc.wantText)
			require.NotContains(t, fail.TextOf(err), "/etc/passwd", "what is shown repeats nothing of the credentials")
		})
	}
}

// TestWhatTheOperatorAllows: each word allows what it says, and nothing else.
func TestWhatTheOperatorAllows(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("t"), 0o600))
	server := clientcmdapi.Cluster{Server: "https://192.0.2.1:6443"}
	with := map[string][]byte{
		"exec": kubeconfig(t, server, clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
			Command: "sh", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
		}}),
		"files":                    kubeconfig(t, server, clientcmdapi.AuthInfo{TokenFile: file}),
		"insecure-skip-tls-verify": kubeconfig(t, clientcmdapi.Cluster{Server: server.Server, InsecureSkipTLSVerify: true}, clientcmdapi.AuthInfo{}),
		"proxy-url":                kubeconfig(t, clientcmdapi.Cluster{Server: server.Server, ProxyURL: "http://192.0.2.2:3128"}, clientcmdapi.AuthInfo{}),
		"http":                     kubeconfig(t, clientcmdapi.Cluster{Server: "http://192.0.2.1:8080"}, clientcmdapi.AuthInfo{}),
	}
	for _, word := range kube.AllowedWords {
		allowed, ok := kube.Allow([]string{word})
		require.True(t, ok, word)
		for has, data := range with {
			err := kube.Config{Allowed: allowed}.CheckKubeconfig(data)
			require.Equal(t, has == word, err == nil, "%s, where %s is allowed: %v", has, word, err)
		}
	}
	_, ok := kube.Allow([]string{"exec", "everything"})
	require.False(t, ok)
}

// TestAddressesAreLookedAtAsTheyAreConnectedTo: a name passes the check of the kubeconfig, and may lead anywhere.
func TestAddressesAreLookedAtAsTheyAreConnectedTo(t *testing.T) {
	t.Parallel()
	s := serve(t, http2, func(http.ResponseWriter, *http.Request) {})
	named := bytes.Replace(s.kubeconfig(t), []byte("127.0.0.1"), []byte("localhost"), 1)
	denied, err := address.Parse("", "127.0.0.0/8,::1")
	require.NoError(t, err)
	c := kube.Config{Networks: denied}
	require.NoError(t, c.CheckKubeconfig(named))
	require.Error(t, c.CheckKubeconfig(s.kubeconfig(t)))
	_, err = c.Reach(t.Context(), named)
	require.True(t, fail.Is(err, fail.Unavailable), "a name may lead elsewhere later: %v", err)
	require.Contains(t, fail.TextOf(err), "in a network that is denied")
	require.Zero(t, s.conns.Load())
}
