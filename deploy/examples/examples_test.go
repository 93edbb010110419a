package examples_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/deploy/examples"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/render"
)

// The resources are those of the vFW example in the description of the resource lifecycle.
func TestVFWRendersWhatItsDocumentationShows(t *testing.T) {
	t.Parallel()
	want := map[string][]string{
		"packetgen": {"Service packetgen-service", "Deployment fw0-packetgen"},
		"firewall":  {"Deployment fw0-firewall"},
		"sink":      {"ConfigMap sink-configmap", "Service sink-service", "Deployment fw0-sink"},
	}
	require.Len(t, examples.Apps, len(want))
	for _, app := range examples.Apps {
		t.Run(app, func(t *testing.T) {
			t.Parallel()
			chart, err := examples.Chart(app)
			require.NoError(t, err)
			profile, err := examples.Profile(app)
			require.NoError(t, err)
			require.NoError(t, render.CheckChart(app, chart))
			warnings, err := render.CheckProfile(profile)
			require.NoError(t, err)
			require.Empty(t, warnings)
			bundle, err := render.Render(render.Input{
				App: app, Chart: chart, Profile: profile, Release: "fw0", Namespace: "default",
			})
			require.NoError(t, err)
			require.Empty(t, plan.EventsOf(bundle.Resources))
			var got []string
			for _, r := range bundle.Resources {
				got = append(got, r.Kind+" "+r.Name)
			}
			require.Equal(t, want[app], got)
		})
	}
}

func TestControlledTrafficRenders(t *testing.T) {
	t.Parallel()
	want := map[string][]string{
		"http-server": {"Service http-service", "Deployment r1-http-server"},
		"http-client": {"Deployment r1-http-client"},
	}
	for _, app := range examples.TrafficApps {
		chart, err := examples.TrafficChart(app)
		require.NoError(t, err)
		profile, err := examples.TrafficProfile(app)
		require.NoError(t, err)
		bundle, err := render.Render(render.Input{App: app, Chart: chart, Profile: profile, Release: "r1", Namespace: "default"})
		require.NoError(t, err)
		var got []string
		for _, r := range bundle.Resources {
			got = append(got, r.Kind+" "+r.Name)
		}
		require.Equal(t, want[app], got)
	}
}

func TestGenericAppRenders(t *testing.T) {
	t.Parallel()
	chart, err := examples.GenericChart()
	require.NoError(t, err)
	profile, err := examples.GenericProfile()
	require.NoError(t, err)
	bundle, err := render.Render(render.Input{App: examples.GenericApp, Chart: chart, Profile: profile, Release: "r1", Namespace: "default"})
	require.NoError(t, err)
	var got []string
	for _, r := range bundle.Resources {
		got = append(got, r.Kind+" "+r.Name)
	}
	require.Equal(t, []string{"Service etcd", "StatefulSet etcd"}, got)
}

func TestHardwareRenders(t *testing.T) {
	t.Parallel()
	chart, err := examples.HardwareChart()
	require.NoError(t, err)
	profile, err := examples.HardwareProfile()
	require.NoError(t, err)
	bundle, err := render.Render(render.Input{App: examples.HardwareApp, Chart: chart, Profile: profile, Release: "r1", Namespace: "default"})
	require.NoError(t, err)
	require.Len(t, bundle.Resources, 1)
	require.Equal(t, "Deployment r1-http-client", bundle.Resources[0].Kind+" "+bundle.Resources[0].Name)
	require.NotContains(t, string(bundle.Resources[0].Manifest), "tolerations")
}

func TestPackingIsDeterministic(t *testing.T) {
	t.Parallel()
	first, err := examples.Chart("sink")
	require.NoError(t, err)
	second, err := examples.Chart("sink")
	require.NoError(t, err)
	require.Equal(t, first, second)
}

func TestUnknownAppIsAnError(t *testing.T) {
	t.Parallel()
	_, err := examples.Chart("router")
	require.Error(t, err)
	_, err = examples.Profile("router")
	require.Error(t, err)
}
