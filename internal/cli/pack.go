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

// packAs is pack with what stands before each path. A link may lead to another file of the folder, and not out of it: a chart is often
// somebody else's.
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
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if entry.Name() == ".git" {
				return fs.SkipDir
			}
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

func notRegular(name string, info fs.FileInfo) error {
	if info == nil || info.Mode().IsRegular() {
		return nil
	}
	return fmt.Errorf("%s is no file", name)
}
