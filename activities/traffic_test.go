package activities_test

import (
	"encoding/json"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/secret"
)

// TestPrivateKeysAreOpenedInTheWorker: what is stored of a plan has them sealed, in the bundle and in what a variant has otherwise;
// the cluster gets them open.
func TestPrivateKeysAreOpenedInTheWorker(t *testing.T) {
	const document = domain.Key("projects/p/composite-apps/c/v1/deployment-intent-groups/g/traffic-group-intents/t/inbound-intents/in")
	sealer, err := secret.Parse("test:" + strings.Repeat("A", 43) + "=")
	require.NoError(t, err)
	of := func(name, key string) plan.Resource {
		sealed, err := sealer.Seal(string(document), []byte(key))
		require.NoError(t, err)
		return plan.Resource{
			ResourceID: plan.ResourceID{Version: "v1", Kind: "Secret", Name: name},
			Manifest:   json.RawMessage(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"` + name + `"},"data":{"tls.key":"` + plan.SealedValue(document, sealed) + `"}}`),
		}
	}
	for name, c := range map[string]struct {
		overlaid bool
		project  string
	}{"in the bundle": {false, "p"}, "in a variant": {true, "p"}, "for another project": {false, "q"}} {
		t.Run(name, func(t *testing.T) {
			l := newLeaf(t, domain.OpInstantiate, 0)
			l.kube.Secrets = sealer
			l.in.Owner = domain.Join("projects", c.project, "composite-apps", "c", "v1", "deployment-intent-groups", "g")
			l.in.Bundle, l.in.Resources = l.store.put(t, plan.Bundle{App: "app", Resources: []plan.Resource{of("a0", "Zmlyc3Q="), of("a1", "YQ==")}}), 2
			want := map[string]string{"a0": "Zmlyc3Q=", "a1": "YQ=="}
			if c.overlaid {
				l.in.Overlay = domain.PartOf(l.store.put(t, []plan.Overlay{{Resources: []plan.Overlaid{{Index: 1, Resource: of("a1", "Yg==")}}}}), 0)
				want["a1"] = "Yg=="
			}
			var mu sync.Mutex
			got := map[string]string{}
			l.body = func(w http.ResponseWriter, r *http.Request, body []byte) {
				var o struct{ Data map[string]string }
				if json.Unmarshal(body, &o) == nil {
					mu.Lock()
					got[path.Base(r.URL.Path)] = o.Data["tls.key"]
					mu.Unlock()
				}
				answer(w, http.StatusCreated, map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": path.Base(r.URL.Path), "uid": "1"}})
			}
			out, err := l.run()
			require.NoError(t, err)
			require.Equal(t, "2A", out.Marks)
			mu.Lock()
			defer mu.Unlock()
			if c.project == "p" {
				require.Equal(t, want, got)
				return
			}
			for name, value := range got {
				require.True(t, strings.HasPrefix(value, "drover.sealed:"), "%s: what nobody may open stays as it is", name)
			}
		})
	}
}
