package cli

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/archive"
)

// TestWhatAChartLeavesOutStaysHere: what its .helmignore names may be a secret, and may be a link to what is no part of it. A folder that is no
// chart has no such rules.
func TestWhatAChartLeavesOutStaysHere(t *testing.T) {
	files := map[string]string{
		"Chart.yaml": "name: web\n", ".helmignore": "secret*\n/ci/\n.helmignore\n", "secret.yaml": "password: sesame\n", "ci/values.yaml": "a: b\n",
		"templates/a.yaml": "a: b\n", "templates/.a.yaml.swp": "x", "templates/ci/b.yaml": "a: b\n", "sub/secrets/key": "x",
	}
	packed := func(files map[string]string, flat bool) []string {
		t.Helper()
		folder := filepath.Join(t.TempDir(), "web")
		for name, text := range files {
			path := filepath.Join(folder, name)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		}
		if !flat {
			require.NoError(t, os.Symlink("/etc/hostname", filepath.Join(folder, "secret-link")))
		}
		tgz, err := pack(folder, flat)
		require.NoError(t, err)
		entries, err := archive.Read(tgz, archive.Limits{})
		require.NoError(t, err)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name)
		}
		return names
	}
	require.ElementsMatch(t, []string{"web/Chart.yaml", "web/.helmignore", "web/templates/a.yaml", "web/templates/ci/b.yaml"}, packed(files, false))
	delete(files, "Chart.yaml")
	require.ElementsMatch(t, slices.Collect(maps.Keys(files)), packed(files, true))

	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "Chart.yaml"), []byte("name: web\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, ".helmignore"), []byte("a[\n"), 0o600))
	_, err := pack(folder, false)
	require.ErrorContains(t, err, ".helmignore: syntax error in pattern")
}
