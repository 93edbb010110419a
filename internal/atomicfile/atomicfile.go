// Package atomicfile puts files into their places whole: a process that dies, and a machine that loses its power, leaves the file
// that was there, or the new one.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Read reads a regular file, see Regular.
func Read(path string) ([]byte, error) {
	if err := Regular(path); err != nil {
		return nil, err
	}
	return os.ReadFile(path) // #nosec G304 -- of whoever calls
}

// Regular refuses what is no regular file: reading a named pipe waits for who writes to it, for ever where nobody does.
func Regular(path string) error {
	is, err := os.Stat(path)
	if err == nil && !is.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: path, Err: errors.New("it is no regular file")}
	}
	return err
}

// How says what is done about what stands there, and for whom the file is.
type How struct {
	// New refuses to replace: the error is fs.ErrExist when there is such a file, also one that has just come to be.
	New bool
	// Like is the file whose mode and owner the new one gets; nil for one that its owner alone, who writes it, can read.
	Like fs.FileInfo
	// Before is asked right before the file takes its place; its error leaves all as it is.
	Before func() error
}

// Write puts a file into its place, in a folder that is there.
//
// It is written under another name first, beside its place, and gets mode and owner there, so that nobody reads it who may not.
// Whoever dies up to here leaves a file .new-…, which nobody reads and the next Write does not mind. Then its content is synced, and it takes its
// place in one step: a rename, or for New a link, which fails where a file is there. Dying after it has left the new file; the other name
// of a link may stay. Last the folder is synced: without that a loss of power could bring the file that was there back, never a part of one.
func Write(path string, text []byte, how How) error {
	folder := filepath.Dir(path)
	f, err := os.CreateTemp(folder, ".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // after a rename it is gone already
	_, err = f.Write(text)
	if how.Like != nil {
		if owner, ok := how.Like.Sys().(*syscall.Stat_t); ok {
			err = errors.Join(err, f.Chown(int(owner.Uid), int(owner.Gid)))
		}
		err = errors.Join(err, f.Chmod(how.Like.Mode().Perm()))
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if how.Before != nil {
		if err := how.Before(); err != nil {
			return err
		}
	}
	place := os.Rename
	if how.New {
		place = os.Link
	}
	if err := place(f.Name(), path); err != nil {
		return err
	}
	in, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(in.Sync(), in.Close())
}
