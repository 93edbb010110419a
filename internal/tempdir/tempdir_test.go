package tempdir_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/tempdir"
)

func TestWhatTheDeadLeftIsRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dead := exec.Command("true")
	require.NoError(t, dead.Run())
	at := func(name string) string { return filepath.Join(os.TempDir(), name) }
	left := at("drover-x-" + strconv.Itoa(dead.Process.Pid) + "-1")
	mine, err := tempdir.Make("drover-x")
	require.NoError(t, err)
	others := []string{mine, at("drover-x-not-ours"), at("drover-xy-" + strconv.Itoa(dead.Process.Pid) + "-1")}
	for _, dir := range append(others[1:], left) {
		require.NoError(t, os.Mkdir(dir, 0o700))
	}
	second, err := tempdir.Make("drover-x")
	require.NoError(t, err)
	require.NoDirExists(t, left)
	for _, dir := range append(others, second) {
		require.DirExists(t, dir)
	}
}
