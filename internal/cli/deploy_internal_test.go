package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// All documents of a file of values count, the later ones over the earlier, as of Helm's -f.
func TestValuesOfSeveralDocuments(t *testing.T) {
	file := filepath.Join(t.TempDir(), "values.yaml")
	require.NoError(t, os.WriteFile(file, []byte("a: 1\nof: {first: 1, both: 1}\n---\n# nothing\n---\nb: 2\nof: {both: 2}\n"), 0o600))
	f := &deployFlags{values: []string{file}, set: []string{"c=3"}}
	tgz, err := f.profile()
	require.NoError(t, err)
	unzipped, err := gzip.NewReader(bytes.NewReader(tgz))
	require.NoError(t, err)
	archive := tar.NewReader(unzipped)
	_, err = archive.Next()
	require.NoError(t, err)
	header, err := archive.Next()
	require.NoError(t, err)
	require.Equal(t, "override_values.yaml", header.Name)
	text, err := io.ReadAll(archive)
	require.NoError(t, err)
	require.YAMLEq(t, "{a: 1, b: 2, c: 3, of: {first: 1, both: 2}}", string(text))

	require.NoError(t, os.WriteFile(file, []byte("a: 1\n---\n- b\n"), 0o600))
	_, err = f.profile()
	require.ErrorContains(t, err, "values of "+file)
}
