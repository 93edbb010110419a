package network_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/network"
)

var update = flag.Bool("update", false, "rewrite what is wanted")

// TestRender holds the resources of intents, given as the REST bodies. -update rewrites the files.
func TestRender(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			require.NoError(t, err)
			bundle, err := network.Render(intents(t, a))
			require.NoError(t, err)
			require.Equal(t, "network-intents", bundle.App)
			var got strings.Builder
			for _, r := range bundle.Resources {
				require.Zero(t, r.Stage, "all side by side")
				require.False(t, r.Keep)
				text, err := yaml.JSONToYAML(r.Manifest)
				require.NoError(t, err)
				got.WriteString("--- # " + r.Name + "+" + r.Kind + "\n" + string(text))
			}
			if *update {
				a.Files = append(a.Files[:len(a.Files)-1], txtar.File{Name: "want.yaml", Data: []byte(got.String())})
				require.NoError(t, os.WriteFile(path, txtar.Format(a), 0o644))
			}
			last := a.Files[len(a.Files)-1]
			require.Equal(t, "want.yaml", last.Name)
			require.Empty(t, cmp.Diff(string(last.Data), got.String()))
		})
	}
}

// intents reads all files but the last; their names say what they are.
func intents(t *testing.T, a *txtar.Archive) network.Intents {
	t.Helper()
	var in network.Intents
	for _, f := range a.Files[:len(a.Files)-1] {
		switch {
		case strings.HasPrefix(f.Name, "network"):
			in.Networks = append(in.Networks, read(t, f.Data, &domain.Network{}))
		case strings.HasPrefix(f.Name, "provider-network"):
			in.ProviderNetworks = append(in.ProviderNetworks, read(t, f.Data, &domain.ProviderNetwork{}))
		case strings.HasPrefix(f.Name, "kv-pairs"):
			in.Pairs = append(in.Pairs, read(t, f.Data, &domain.ClusterKV{}))
		default:
			t.Fatalf("%s is none of network, provider-network and kv-pairs", f.Name)
		}
	}
	return in
}

func read[T domain.Object](t *testing.T, data []byte, o T) T {
	t.Helper()
	require.NoError(t, json.Unmarshal(data, o))
	var p fail.Problems
	o.Validate(&p)
	require.NoError(t, p.Err(), "only what is accepted is rendered")
	return o
}
