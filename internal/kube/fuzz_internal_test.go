package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/panics"
)

// FuzzKubeconfig: whatever is sent as a kubeconfig is taken, or refused as the sender's mistake; what is taken is still good when a user's
// is made of it.
func FuzzKubeconfig(f *testing.F) {
	for _, seed := range []string{
		"apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:6443'}}]\n" +
			"contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {token: t}}]\n",
		"users: [{name: u, user: {exec: {command: rm}, tokenFile: /etc/passwd}}]", "current-context: x\ncontexts: null", "[]", "a: &a [*a]",
		"clusters: [{name: c, cluster: {server: 'http://[::1]%23@x/', proxy-url: 'socks5://p', insecure-skip-tls-verify: true, tls-server-name: ../x}}]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		err := Config{}.CheckKubeconfig(data)
		if err != nil {
			require.True(t, fail.Is(err, fail.Malformed) || fail.Is(err, fail.Invalid), "%v", err)
			return
		}
		users, err := UserKubeconfig(data, Credentials{Cluster: "c", User: "u", Namespace: "n"})
		require.NoError(t, err)
		_, err = Config{}.load(users)
		require.NoError(t, err)
	})
}

// FuzzExpiry: whatever a credential is, it expires at a time that can be written down, or at none; what stands before a certificate does not hide it.
func FuzzExpiry(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"), "a.eyJleHAiOjF9.b")
	f.Add([]byte("-----BEGIN EC PARAMETERS-----\nBgUrgQQAIg==\n-----END EC PARAMETERS-----\n"), "a.eyJleHAiOjFlMzAwfQ.b")
	f.Add([]byte{}, "..")
	f.Fuzz(func(t *testing.T, certificate []byte, token string) {
		for _, at := range []time.Time{certificateExpiry(certificate), tokenExpiry(token)} {
			if !at.IsZero() {
				_, err := at.MarshalJSON()
				require.NoError(t, err)
				require.Equal(t, time.UTC, at.Location())
			}
		}
		key := pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS", Bytes: []byte{6}})
		require.Equal(t, certificateExpiry(certificate), certificateExpiry(append(key, certificate...)))
	})
}

// FuzzAnswers: whatever a cluster answers to a list or a watch, what comes of it are objects that are JSON, or an error.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		`{"kind":"PodList","metadata":{"resourceVersion":"1","continue":"x"},"items":[{"metadata":{"name":"a"}},null,7]}`, `{"items":null}`, `{"items":{}}`, `[]`, `{"items":[`,
		`{"type":"ADDED","object":{"metadata":{"resourceVersion":"1"}}} {"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"2"}}}`,
		`{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}`, `{"type":"DELETED","object":null}`, `{"type":"ADDED"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var of metav1.ListMeta
		_ = readList(bytes.NewReader(data), &of, func(item json.RawMessage) error {
			require.True(t, json.Valid(item))
			return nil
		})
		err := readEvents(t.Context(), bytes.NewReader(data), func(_ string, e *Event) error {
			if e != nil {
				require.True(t, json.Valid(e.Object))
			}
			return nil
		})
		if err != nil {
			require.False(t, errors.As(err, new(*panics.Error)), "%v", err)
			require.NotEmpty(t, fail.KindOf(classified(err)))
		}
		require.NotEmpty(t, fail.KindOf(classified(statusError(http.MethodGet, &http.Response{StatusCode: http.StatusBadGateway}, data))))
	})
}

// FuzzDiscovery: whatever a cluster says of its kinds, none is found, or one whose objects are asked for below its own group version; or the
// error says what is wrong, and does not take the cluster's word for it that a kind is nowhere when no API server answers.
func FuzzDiscovery(f *testing.F) {
	gvk := schema.GroupVersionKind{Group: "g.example", Version: "v1", Kind: "Thing"}
	groups := `{"kind":"APIGroupList","groups":[{"name":"g.example","versions":[{"version":"v1"},{"version":"v2"}],"preferredVersion":{"version":"v2"}}]}`
	for _, list := range []string{
		`{"kind":"APIResourceList","resources":[{"name":"things","kind":"Thing","namespaced":true},{"name":"things/status","kind":"Thing"}]}`,
		`{"kind":"APIResourceList","resources":[{"name":"?x=#y","kind":"Thing"}]}`, `{"kind":"APIResourceList","resources":[{"name":"..","kind":"Thing"},{"name":"","kind":"Thing"}]}`,
		`{"kind":"APIResourceList","resources":null}`, `{"kind":"Status","code":404}`, `{}`, `[]`, `{"kind":"APIResourceList","resources":{}}`, ``,
	} {
		f.Add([]byte(groups), []byte(list))
	}
	f.Add([]byte(`{"kind":"APIGroupList","groups":[{"name":"g.example","preferredVersion":{"version":"../.."}}]}`), []byte(`{"kind":"APIResourceList"}`))
	f.Add([]byte(`{"kind":"APIGroupList","groups":[{"name":"g.example","versions":[{"version":""},{"version":""}]}]}`), []byte(`{"kind":"APIResourceList"}`))
	f.Fuzz(func(t *testing.T, groups, list []byte) {
		k := newKinds(func(_ context.Context, path string) ([]byte, error) {
			if path == "/apis" {
				return groups, nil
			}
			return list, nil
		}, time.Minute)
		check := func(gv schema.GroupVersion, m mapped, err error) {
			if err != nil {
				require.False(t, errors.As(err, new(*panics.Error)), "%v", err)
				if !meta.IsNoMatchError(err) {
					require.True(t, fail.Is(kindOf(err), fail.Unavailable), "%v", err)
				}
				return
			}
			at, err := url.Parse(m.path(gv, "namespace", "name"))
			require.NoError(t, err)
			require.Empty(t, at.RawQuery+at.Fragment+at.Host)
			below, ok := strings.CutPrefix(at.EscapedPath(), groupVersionPath(gv)+"/")
			require.True(t, ok, "%s", at)
			require.Equal(t, map[bool]int{true: 3, false: 1}[m.namespaced], strings.Count(below, "/"), "%s", at)
		}
		m, err := k.locate(t.Context(), gvk)
		check(gvk.GroupVersion(), m, err)
		gv, m, err := k.elsewhere(t.Context(), gvk)
		check(gv, m, err)
		c := &Cluster{kinds: k}
		all, err := c.groups(t.Context())
		check(gvk.GroupVersion(), mapped{resource: "things"}, err)
		for _, of := range all {
			require.NotEmpty(t, of.versions)
		}
	})
}
