// Package tempdir makes folders for what tests start and keep for as long as their process lives.
package tempdir

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Make makes a folder, which the caller removes at the end. What earlier processes have made with the prefix is removed
// first: they were killed, and could not do it.
func Make(prefix string) (string, error) {
	prefix += "-"
	sweep(prefix)
	return os.MkdirTemp("", prefix+strconv.Itoa(os.Getpid())+"-")
}

func sweep(prefix string) {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*")) // the pattern is well formed
	for _, dir := range dirs {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix), "-")
		pid, err := strconv.Atoi(owner)
		if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.RemoveAll(dir) // another process may be at it too
		}
	}
}
