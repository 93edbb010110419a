package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestManualPages: each command has a page that says what its help says, without what roff would take for a request; and whoever writes
// them twice has them once.
func TestManualPages(t *testing.T) {
	w := newWorld(t)
	folder := filepath.Join(t.TempDir(), "man", "man1")
	require.Contains(t, w.done("man", folder), "pages written to")
	require.Contains(t, w.done("man", folder), "pages written to")
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	pages := map[string]string{}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(folder, f.Name()))
		require.NoError(t, err)
		pages[f.Name()] = string(data)
	}
	add := pages["drover-cluster-add.1"]
	require.True(t, strings.HasPrefix(add, ".TH DROVER\\-CLUSTER\\-ADD 1 "), add[:60])
	require.Contains(t, add, ".SH NAME\ndrover\\-cluster\\-add \\- Register a cluster")
	require.Contains(t, add, "\\-\\-use\\-own\\-credentials")
	require.Contains(t, add, ".SH EXIT STATUS\n")
	require.Contains(t, pages["drover-cluster.1"], "drover\\-cluster\\-rotate(1)")
	require.Contains(t, pages, "drover.1")
	for name, text := range pages {
		for _, line := range strings.Split(text, "\n") {
			if strings.HasPrefix(line, ".") {
				require.Regexp(t, `^\.(TH|SH|nf|fi)\b`, line, name)
			}
			require.False(t, strings.HasPrefix(line, "'"), "%s: %s", name, line)
		}
	}
	require.Equal(t, 2, w.run("man").code)
	require.Equal(t, 2, w.run("man", w.file("a-file", "")).code)
	require.Zero(t, w.requests.Load(), "nobody is asked")
}
