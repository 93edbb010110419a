package temporal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lockSuffix, appended to the name of the main database file, is that of an
// empty file which a running server holds locked.
const lockSuffix = ".lock"

// lockDatabase takes file for this server alone, until the returned lock is
// closed or the process ends: two servers on one database would break each
// other's workflows. A database in memory needs no lock and gets none.
//
// SQLite's own locks cannot say so. They belong to the process, and the
// driver's connection outlives the server.
func lockDatabase(file string) (*os.File, error) {
	if file == "" {
		return nil, nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, fmt.Errorf("temporal database: %w", err)
	}
	lock, err := os.OpenFile(file+lockSuffix, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("temporal database: %w", err)
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errors.New("another server is using it")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock temporal database %s: %w", file, err), lock.Close())
	}
	return lock, nil
}
