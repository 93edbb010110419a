package monitor_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/deploy/crd"
	chart "github.com/drover-io/drover/deploy/helm/monitor"
	"github.com/drover-io/drover/internal/plan"
)

func TestInstallsAllInOrder(t *testing.T) {
	manifests, err := chart.Manifests(chart.Options{Namespace: "agents", Image: "example.com/drover:1.2"})
	require.NoError(t, err)
	var got []string
	for i, r := range manifests {
		got = append(got, fmt.Sprintf("%s %s/%s", r.Kind, r.Namespace, r.Name))
		require.Equal(t, i == 0, r.Keep, "%s: nothing but the definition is kept", r.Kind)
	}
	require.Equal(t, []string{
		"CustomResourceDefinition /resourcebundlestates.k8splugin.io",
		"Namespace /agents",
		"ServiceAccount agents/drover-monitor",
		"ClusterRole /drover-monitor",
		"Role agents/drover-monitor",
		"ConfigMap agents/drover-monitor",
		"ClusterRoleBinding /drover-monitor",
		"RoleBinding agents/drover-monitor",
		"Deployment agents/drover-monitor",
	}, got)
	require.JSONEq(t, string(crd.ResourceBundleStates().Manifest), string(manifests[0].Manifest))
	require.Contains(t, string(manifests[8].Manifest), `"image":"example.com/drover:1.2"`)
}

func TestMayNotDoMoreThanItHasTo(t *testing.T) {
	for name, c := range map[string]struct {
		options chart.Options
		all     bool
	}{
		"with discovery it lists everything": {chart.Options{Namespace: "agents"}, true},
		"without it lists what it knows":     {chart.Options{Namespace: "agents", NoDiscovery: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			manifests, err := chart.Manifests(c.options)
			require.NoError(t, err)
			all := false
			for _, rule := range rules(t, manifests, "ClusterRole") {
				own := rule.APIGroups[0] == "k8splugin.io"
				for _, resource := range rule.Resources {
					all = all || resource == "*"
				}
				if !own {
					require.Equal(t, []string{"list", "watch"}, rule.Verbs, "%v", rule.Resources)
				}
			}
			require.Equal(t, c.all, all)
			for _, rule := range rules(t, manifests, "Role") {
				require.Equal(t, []string{"leases"}, rule.Resources)
			}
		})
	}
}

type rule struct{ APIGroups, Resources, Verbs []string }

func rules(t *testing.T, manifests []plan.Resource, kind string) []rule {
	t.Helper()
	for _, r := range manifests {
		if r.Kind == kind {
			var role struct{ Rules []rule }
			require.NoError(t, json.Unmarshal(r.Manifest, &role))
			require.NotEmpty(t, role.Rules)
			return role.Rules
		}
	}
	t.Fatalf("there is no %s", kind)
	return nil
}

func TestDefinitionIsTheOriginal(t *testing.T) {
	copied, err := os.ReadFile("crds/resourcebundlestates.yaml")
	require.NoError(t, err)
	original, err := os.ReadFile("../../crd/resourcebundlestates.yaml")
	require.NoError(t, err)
	require.Equal(t, string(original), string(copied))
}
