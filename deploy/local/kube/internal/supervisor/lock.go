package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// lockDataDir makes the caller the only supervisor of a data directory until the
// process ends or the returned file is closed. The kernel releases the lock of a
// killed process, so it is never stale.
func lockDataDir(dir string) (*os.File, error) {
	path := filepath.Join(dir, ".lock")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("data directory %s is in use by another drover-kube (pid %s)", dir, holder(path))
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := writeHolder(file); err != nil {
		file.Close()
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return file, nil
}

func writeHolder(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := fmt.Fprintln(file, os.Getpid())
	return err
}

// holder is a courtesy for error messages; the lock does not depend on it.
func holder(path string) string {
	content, err := os.ReadFile(path)
	if err != nil || len(content) == 0 {
		return "unknown"
	}
	return strings.TrimSpace(string(content))
}
