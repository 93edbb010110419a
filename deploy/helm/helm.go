// Package helm renders the charts of the agents, which are in folders below it.
package helm

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"

	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/render"
)

// Render is what `helm install` makes of a chart, in the order in which it is applied.
func Render(files fs.FS, name, release, namespace string, values map[string]string) ([]plan.Resource, error) {
	tgz, err := pack(files, name)
	if err != nil {
		return nil, err
	}
	b, err := render.Render(render.Input{App: name, Chart: tgz, Release: release, Namespace: namespace, OverrideValues: values})
	if err != nil {
		return nil, fmt.Errorf("render the chart %s: %w", name, err)
	}
	return b.Resources, nil
}

// pack is the chart as Helm packs it.
func pack(files fs.FS, name string) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	t := tar.NewWriter(z)
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		if err := t.WriteHeader(&tar.Header{Name: name + "/" + path, Mode: 0o644, Size: int64(len(data))}); err != nil {
			return err
		}
		_, err = t.Write(data)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
