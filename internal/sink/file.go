package sink

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"github.com/drover-io/drover/internal/audit"
)

// NewFile appends lines to a file. It is made again when it was moved away or deleted, so that others may rotate it. The error is
// that of opening it now.
func NewFile(path string, log *slog.Logger) (*Sink, error) {
	f := &file{path: path}
	if err := f.open(); err != nil {
		return nil, fmt.Errorf("open the file of audit records: %w", err)
	}
	return start("file", f, log), nil
}

type file struct {
	path string
	now  *os.File
	torn bool // the last line was not written to its end
}

func (f *file) open() (err error) {
	f.now, err = appending(f.path, os.O_CREATE)
	return err
}

// appending opens a file to append to it. It does not wait for a reader of a named pipe: the start would hang. (/dev/stderr is a pipe in a container,
// and has one.)
func appending(path string, more int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|syscall.O_NONBLOCK|more, 0o600) // #nosec G304 -- of a setting
	if errors.Is(err, syscall.ENXIO) {
		err = fmt.Errorf("%w: nobody reads from it", err)
	}
	return f, err
}

// CheckFile says why NewFile cannot append to a file, or make it. It makes none.
func CheckFile(path string) error {
	f, err := appending(path, 0)
	switch {
	case err == nil:
		return f.Close()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if in, err := os.Stat(filepath.Dir(path)); err != nil || !in.IsDir() {
		return fmt.Errorf("%s is no folder to make %s in", filepath.Dir(path), filepath.Base(path))
	}
	return nil
}

func (f *file) close() {
	if f.now != nil {
		_ = f.now.Close() // each line was written by itself
		f.now = nil
	}
}

// write implements target.
func (f *file) write(_ context.Context, lines []audit.Line) (taken int, err error) {
	if f.moved() {
		f.close()
	}
	if f.now == nil {
		if err := f.open(); err != nil {
			return 0, err
		}
		f.torn = false
	}
	var text []byte
	if f.torn {
		text = append(text, '\n')
	}
	ends := make([]int, len(lines))
	for i, l := range lines {
		text = append(append(text, l.Text...), '\n')
		ends[i] = len(text)
	}
	n, err := f.now.Write(text)
	for taken < len(lines) && ends[taken] <= n {
		taken++
	}
	whole := 0
	if taken > 0 {
		whole = ends[taken-1]
	}
	f.torn = n > whole || n == 0 && f.torn
	return taken, err
}

// moved says whether the file has another name now, or none.
func (f *file) moved() bool {
	if f.now == nil {
		return false
	}
	is, err := f.now.Stat()
	if err != nil {
		return true
	}
	named, err := os.Stat(f.path)
	return err != nil || !os.SameFile(is, named)
}
