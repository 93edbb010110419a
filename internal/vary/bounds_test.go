package vary_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/vary"
)

// TestSmallFilesDoNotBecomeLarge: a file of 110 KB with aliases stands for 200 MB.
func TestSmallFilesDoNotBecomeLarge(t *testing.T) {
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
	for name, file := range map[string]string{
		"aliases":    object + "x: &a " + strings.Repeat("x", 10_000) + "\ny: [" + strings.Repeat("*a, ", 20_000) + "]\n",
		"large text": object + "x: " + strings.Repeat("x", limits.Etcd) + "\n",
	} {
		_, err := vary.Object([]byte(file))
		require.Equal(t, fail.Invalid, fail.KindOf(err), "%s: %v", name, err)
	}
	_, err := vary.Object([]byte(object + "x: &a {b: c}\ny: *a\n"))
	require.NoError(t, err)
}

// TestWhatIsSaidOfChangesIsBounded: a thousand clusters with words of their own make a plan large, whatever the manifests.
func TestWhatIsSaidOfChangesIsBounded(t *testing.T) {
	app := &vary.App{Name: "web", Used: limits.Varied - 4<<10, Resources: []plan.Resource{resource(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`)}}
	for i := range 50 {
		app.Clusters = append(app.Clusters, cluster(fmt.Sprintf("c%d", i)))
	}
	said := func(bytes int) error {
		_, err := vary.Apply([]vary.Intent{does{vary: func(w *vary.Work) error {
			w.Effect(0, strings.Repeat("x", bytes), w.Cluster.Name)
			return nil
		}}}, app)
		return err
	}
	require.NoError(t, said(10))
	require.True(t, fail.Is(said(100), fail.Malformed))
}

// TestWhatIsToBeKeptIsKept: an intent says so as a chart does. On one cluster it counts for all.
func TestWhatIsToBeKeptIsKept(t *testing.T) {
	app := &vary.App{Name: "web", Namespace: "ns", Resources: []plan.Resource{
		resource(t, `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"there"}}`),
		resource(t, `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"other"}}`),
	}}
	for i := range 3 {
		app.Clusters = append(app.Clusters, cluster(fmt.Sprintf("c%d", i)))
	}
	kept := func(name string) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": map[string]any{
			"name": name, "annotations": map[string]any{"helm.sh/resource-policy": "Keep"}}}
	}
	v, err := vary.Apply([]vary.Intent{does{vary: func(w *vary.Work) error {
		if w.Cluster.Name != "c1" {
			return nil
		}
		for _, name := range []string{"there", "new"} {
			if _, err := w.Add(kept(name)); err != nil {
				return err
			}
		}
		return nil
	}}}, app)
	require.NoError(t, err)
	keeps := map[string]bool{}
	for _, r := range v.Bundle.Resources {
		keeps[r.Name] = r.Keep
	}
	require.Equal(t, map[string]bool{"there": true, "new": true, "other": false}, keeps)
	require.Len(t, v.Variants, 1)
	all := v.Bundle.Resources
	for _, o := range v.Variants[0].Overlay.Resources {
		require.True(t, o.Keep, o.Name)
		all = append(all, o.Resource)
	}
	// And it says so on each, for whoever looks there for what is left after a terminate.
	for _, r := range all {
		require.Equal(t, r.Keep, strings.Contains(strings.ToLower(string(r.Manifest)), `"helm.sh/resource-policy":"keep"`), "%s", r.Manifest)
	}
}
