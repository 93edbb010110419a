package crd_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/deploy/crd"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/network"
	"github.com/drover-io/drover/internal/plan"
)

// definition is what a test looks at; clusters check the rest.
type definition struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Group    string
		Names    struct{ Kind, Plural string }
		Versions []struct{ Name string }
	}
}

func read(t *testing.T, manifest []byte) definition {
	t.Helper()
	var d definition
	require.NoError(t, json.Unmarshal(manifest, &d))
	require.Equal(t, "CustomResourceDefinition", d.Kind)
	require.Equal(t, d.Spec.Names.Plural+"."+d.Spec.Group, d.Metadata.Name)
	require.Len(t, d.Spec.Versions, 1)
	return d
}

// Every kind that network intents become has its definition.
func TestNetworksAreDefined(t *testing.T) {
	defined := map[string]bool{}
	for _, r := range crd.Networks() {
		d := read(t, r.Manifest)
		require.Equal(t, r.Name, d.Metadata.Name)
		require.True(t, r.Keep)
		defined[d.Spec.Group+"/"+d.Spec.Versions[0].Name+" "+d.Spec.Names.Kind] = true
	}
	bundle, err := network.Render(network.Intents{
		Networks:         []*domain.Network{{}},
		ProviderNetworks: []*domain.ProviderNetwork{{}},
		Pairs:            []*domain.ClusterKV{{Spec: domain.KVSpec{KV: []map[string]string{{"CNI-Networking-Multi-VM-CNI-Wrapper": "multus"}}}}},
	})
	require.NoError(t, err)
	require.Len(t, bundle.Resources, 3)
	for _, r := range bundle.Resources {
		require.True(t, defined[r.Group+"/"+r.Version+" "+r.Kind], r.Kind)
	}
}

func TestReportsAndRulesAreDefined(t *testing.T) {
	for _, r := range []plan.Resource{crd.ResourceBundleStates(), crd.WorkloadRules()} {
		require.Equal(t, r.Name, read(t, r.Manifest).Metadata.Name)
	}
}
