package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

const (
	tailLines = 15
	// tailBytes bounds what is read of a log that may be long.
	tailBytes = 16 << 10
)

// setAsideLog keeps the log of the previous run under another name, so that a
// log only tells about one run and old ones do not pile up.
func setAsideLog(path string) error {
	if err := os.Rename(path, path+".previous"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// quoteTail returns the last lines of a log for an error message.
func quoteTail(path string) string {
	lines, err := tail(path)
	if err != nil {
		return fmt.Sprintf("(its log cannot be read: %v)", err)
	}
	return fmt.Sprintf("the end of its log %s:\n  %s", path, strings.Join(lines, "\n  "))
}

// tail returns the last lines of a log. The stack trace of a crash is left out,
// for what comes before it tells the reason.
func tail(path string) ([]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.NewSectionReader(file, max(0, info.Size()-tailBytes), tailBytes))
	if err != nil {
		return nil, err
	}
	if message, _, crashed := bytes.Cut(content, []byte("\ngoroutine ")); crashed {
		content = message
	}
	lines := strings.Split(string(bytes.TrimSpace(content)), "\n")
	return lines[max(0, len(lines)-tailLines):], nil
}
