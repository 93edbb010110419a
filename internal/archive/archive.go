// Package archive reads the gzipped tar files that users send, within limits and without surprises: only
// folders and regular files, no path that leads out.
package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
)

// Limits bound what an archive may hold; a member that is 0 has its value of DefaultLimits.
type Limits struct {
	Files    int   // entries, folders included
	Expanded int64 // bytes of all files together
	Ratio    int64 // expanded bytes to compressed bytes
}

// DefaultLimits fit the largest public charts several times over.
var DefaultLimits = Limits{Files: limits.Files, Expanded: limits.Expanded, Ratio: limits.Ratio}

// File is one regular file. Name is a clean relative path with slashes.
type File struct {
	Name string
	Data []byte
}

// Read reads a tgz. Its errors are Malformed, begin as EMCO's do, and name the entry.
func Read(data []byte, l Limits) ([]File, error) {
	l = l.withDefaults()
	if len(data) == 0 {
		return nil, malformed(nil, "the file is empty")
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, malformed(err, "the file is not gzipped")
	}
	defer z.Close()
	room := max(min(l.Expanded, l.Ratio*int64(len(data))), min(limits.RatioFrom, l.Expanded))
	r := tar.NewReader(io.LimitReader(z, room+int64(l.Files)*1024+1024))
	var files []File
	seen := map[string]bool{}
	for n := 0; ; n++ {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			if n == 0 {
				return nil, malformed(nil, "the archive is empty")
			}
			return files, nil
		case err != nil:
			return nil, malformed(err, "the file is not a tar archive, or larger than %d bytes when expanded", room)
		case n >= l.Files:
			return nil, malformed(nil, "more than %d entries", l.Files)
		}
		name, err := clean(h.Name)
		if err != nil {
			return nil, err
		}
		switch h.Typeflag {
		case tar.TypeDir, tar.TypeXGlobalHeader:
			continue
		case tar.TypeReg:
		default:
			return nil, malformed(nil, "%q is neither a folder nor a regular file", h.Name)
		}
		if seen[name] {
			return nil, malformed(nil, "%q is there twice", name)
		}
		seen[name] = true
		if h.Size > room {
			return nil, malformed(nil, "%q makes the archive larger than %d bytes when expanded", name, l.Expanded)
		}
		room -= h.Size
		content := make([]byte, 0, min(h.Size, limits.RatioFrom)) // the header may lie
		buffer := bytes.NewBuffer(content)
		if _, err := io.CopyN(buffer, r, h.Size); err != nil {
			return nil, malformed(err, "%q is cut off", name)
		}
		files = append(files, File{Name: name, Data: buffer.Bytes()})
	}
}

func (l Limits) withDefaults() Limits {
	if l.Files == 0 {
		l.Files = DefaultLimits.Files
	}
	if l.Expanded == 0 {
		l.Expanded = DefaultLimits.Expanded
	}
	if l.Ratio == 0 {
		l.Ratio = DefaultLimits.Ratio
	}
	return l
}

// clean refuses what leads out of the archive, on any system.
func clean(name string) (string, error) {
	switch {
	case strings.ContainsAny(name, "\\\x00"):
		return "", malformed(nil, "the path %q has a character that is not allowed", name)
	case strings.HasPrefix(name, "/"):
		return "", malformed(nil, "the path %q is absolute", name)
	}
	for _, part := range strings.Split(name, "/") {
		if part == ".." {
			return "", malformed(nil, "the path %q leads out of the archive", name)
		}
	}
	return path.Clean(name), nil
}

func malformed(cause error, format string, args ...any) error {
	e := fail.New(fail.Malformed, "Error in file format: "+format, args...)
	e.Cause = cause
	return e
}
