package atomicfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/atomicfile"
)

// TestWrite: a file is there whole, for whom it is meant, and nothing else is left in its folder, also by what is refused.
func TestWrite(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "file")
	holds := func(text string, mode fs.FileMode) {
		t.Helper()
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, string(data))
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm())
		all, err := os.ReadDir(folder)
		require.NoError(t, err)
		require.Len(t, all, 1)
	}
	require.NoError(t, atomicfile.Write(path, []byte("one"), atomicfile.How{New: true}))
	holds("one", 0o600)
	require.ErrorIs(t, atomicfile.Write(path, []byte("two"), atomicfile.How{New: true}), fs.ErrExist)
	holds("one", 0o600)
	require.NoError(t, os.Chmod(path, 0o640))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.NoError(t, atomicfile.Write(path, []byte("three"), atomicfile.How{Like: info}))
	holds("three", 0o640)
	refusal := errors.New("no")
	require.ErrorIs(t, atomicfile.Write(path, []byte("four"), atomicfile.How{Before: func() error { return refusal }}), refusal)
	holds("three", 0o640)
	require.NoError(t, atomicfile.Write(path, []byte("five"), atomicfile.How{}))
	holds("five", 0o600)
	require.ErrorIs(t, atomicfile.Write(filepath.Join(folder, "none", "file"), nil, atomicfile.How{}), fs.ErrNotExist)
}
