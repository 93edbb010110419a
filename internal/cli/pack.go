package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/drover-io/drover/internal/helmignore"
)

// pack makes a tgz of a folder. Charts have the folder's name before each path, and profiles have their files at the top (flat). The same
// files give the same bytes: neither times nor owners go in, and the order is by name.
func pack(folder string, flat bool) ([]byte, error) {
	whole, err := filepath.Abs(folder)
	if err != nil {
		return nil, errUsage{err}
	}
	prefix := filepath.Base(whole)
	if flat {
		prefix = ""
	}
	return packAs(whole, prefix)
}

// packAs is pack with what stands before each path. What a chart's .helmignore leaves out is none of it, and stays on this machine. A link may lead to
// another file of the folder, and not out of it: a chart is often somebody else's.
func packAs(folder, prefix string) ([]byte, error) {
	var data bytes.Buffer
	zipped := gzip.NewWriter(&data)
	archive := tar.NewWriter(zipped)
	files := 0
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, errUsage{err}
	}
	defer root.Close()
	out, err := leavesOut(root)
	if err != nil {
		return nil, usage("pack %s: %w", folder, err)
	}
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if entry.Name() == ".git" || out(name, true) {
				return fs.SkipDir
			}
			return nil
		}
		if out(name, false) {
			return nil
		}
		info, err := root.Stat(name) // of what a link leads to
		if err != nil || !info.Mode().IsRegular() {
			return errors.Join(err, notRegular(name, info))
		}
		content, err := root.ReadFile(name)
		if err != nil {
			return err
		}
		files++
		header := &tar.Header{Name: path.Join(prefix, name), Mode: 0o644, Size: int64(len(content)), Format: tar.FormatPAX}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err = archive.Write(content)
		return err
	})
	if err = errors.Join(err, archive.Close(), zipped.Close()); err != nil {
		return nil, usage("pack %s: %w", folder, err)
	}
	if files == 0 {
		return nil, usage("pack %s: there is no file in it", folder)
	}
	return data.Bytes(), nil
}

// leavesOut says of the paths in a folder whether they are none of the chart that it is, nothing where it is no chart. The rules themselves go
// with it: the server goes by them as well.
func leavesOut(root *os.Root) (func(name string, dir bool) bool, error) {
	if _, err := root.Stat("Chart.yaml"); err != nil {
		return func(string, bool) bool { return false }, nil //nolint:nilerr // it is no chart
	}
	text, err := root.ReadFile(helmignore.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	rules, err := helmignore.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", helmignore.File, err)
	}
	return func(name string, dir bool) bool { return name != helmignore.File && rules.Out(name, dir) }, nil
}

func notRegular(name string, info fs.FileInfo) error {
	if info == nil || info.Mode().IsRegular() {
		return nil
	}
	return fmt.Errorf("%s is no file", name)
}
