package activities

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/fetch"
	"github.com/drover-io/drover/internal/limits"
)

// newHost is a host that may be asked for values, and what it answers with.
func newHost(t *testing.T, handle http.HandlerFunc) (l *Control, at string) {
	t.Helper()
	server := httptest.NewTLSServer(handle)
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return &Control{Elsewhere: fetch.New([]string{strings.TrimPrefix(server.URL, "https://")}, roots)}, server.URL
}

// TestValuesAreAskedForSideBySide: the host answers when two ask at the same time.
func TestValuesAreAskedForSideBySide(t *testing.T) {
	var now, most atomic.Int32
	var once sync.Once
	both := make(chan struct{})
	l, at := newHost(t, func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		if n > 1 {
			once.Do(func() { close(both) })
		}
		select {
		case <-both:
		case <-r.Context().Done():
		}
		_, _ = w.Write([]byte(`{"value":"` + r.URL.Path[1:] + `"}`))
	})
	missing := map[string]string{}
	for n := range 3 * valuesAtOnce {
		missing[fmt.Sprint(at, "/", n)] = "intent"
	}
	w := &wanted{}
	require.NoError(t, l.readValues(t.Context(), w, missing))
	require.Len(t, w.values, len(missing))
	require.JSONEq(t, `"7"`, string(w.values[at+"/7"].JSON))
	require.LessOrEqual(t, most.Load(), int32(valuesAtOnce))
}

// TestValuesAreBounded, in number before anybody is asked, and in bytes.
func TestValuesAreBounded(t *testing.T) {
	var asked atomic.Int32
	l, at := newHost(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte(`{"value":"12345678"}`))
	})
	missing := map[string]string{at + "/a": "mine", at + "/b": "mine"}
	err := l.readValues(t.Context(), &wanted{outside: limits.ExternalValues - 1}, missing)
	require.True(t, fail.Is(err, fail.Malformed), "%v", err)
	require.EqualError(t, err, `gac intent "mine": the patches of the group have more than 5000 values from other hosts`)
	require.Zero(t, asked.Load())
	err = l.readValues(t.Context(), &wanted{valueBytes: limits.Varied - 15}, missing)
	require.True(t, fail.Is(err, fail.Malformed), "%v", err)
	require.EqualError(t, err, `gac intent "mine": the values that patches of the group have from elsewhere have more than 67108864 bytes together`)
}

// oneDocument is a store that has one document.
type oneDocument struct {
	Store
	domain.Object
}

func (s oneDocument) Get(_ context.Context, noun *domain.Noun, key domain.Key) (domain.Object, error) {
	if s.Noun() != noun || domain.KeyOf(s.Object) != key {
		return nil, fail.New(fail.NotFound, "%s %q not found", noun.Title, key.Name())
	}
	return s.Object, nil
}

// TestValuesOfSyncObjects are given out as EMCO's cluster manager does, to groups of clouds with a cluster of the provider.
func TestValuesOfSyncObjects(t *testing.T) {
	object := &domain.ClusterSyncObject{Metadata: domain.Metadata{Name: "o"}, Spec: domain.KVSpec{KV: []map[string]string{{"k": "v"}}}}
	object.Parent = "cluster-providers/p"
	l := &Control{Store: oneDocument{Object: object}}
	of := func(provider string) *wanted {
		return &wanted{cloud: &domain.LogicalCloud{Metadata: domain.Metadata{Name: "lc"}}, members: map[domain.ClusterName]bool{{Provider: provider, Name: "c"}: true}}
	}
	const at = "http://clm:9061/v2/cluster-providers/p/cluster-sync-objects/o"
	v, err := l.value(t.Context(), of("p"), at+"?key=k")
	require.NoError(t, err)
	require.NoError(t, v.Err)
	require.JSONEq(t, `"v"`, string(v.JSON))
	for url, says := range map[string]string{
		at + "?key=x":         `there is no key "x"`,
		at:                    "it does not say which key is meant: …/cluster-sync-objects/o?key=k",
		at + "-other?key=k":   `cluster sync object "o-other" not found`,
		at + "/further?key=k": "host clm:9061 is not asked",
	} {
		v, err := l.value(t.Context(), of("p"), url)
		require.NoError(t, err, url)
		require.ErrorContains(t, v.Err, says, url)
	}
	v, err = l.value(t.Context(), of("q"), at+"?key=k")
	require.NoError(t, err)
	require.EqualError(t, v.Err, `no cluster of provider p is in logical cloud "lc"`)
}
