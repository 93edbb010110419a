// Package monitor is the Helm chart of the agent of member clusters, and renders it for a control plane that
// installs the agent itself.
package monitor

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/render"
)

//go:embed Chart.yaml values.yaml crds templates
var files embed.FS

// name is the chart's, and release what its instances are called; neither is seen in a cluster.
const (
	name    = "monitor"
	release = "drover-monitor"
)

// Options are what a control plane says; what it leaves empty is as in values.yaml.
type Options struct {
	Namespace string // the agent's own, which is made; required
	Image     string
	// NoDiscovery narrows what the agent may list, and lists, to the kinds that EMCO's clients know.
	NoDiscovery bool
}

// Manifests are what installs the agent into a cluster, in the order in which it is applied: the
// CustomResourceDefinition, which is kept when the rest goes, the namespace, the account and its rights, the
// agent. It is what `helm install` makes of the chart. Objects name their namespaces.
func Manifests(o Options) ([]plan.Resource, error) {
	tgz, err := pack()
	if err != nil {
		return nil, err
	}
	values := map[string]string{"createNamespace": "true", "discover": strconv.FormatBool(!o.NoDiscovery)}
	if o.Image != "" {
		values["image"] = o.Image
	}
	b, err := render.Render(render.Input{App: name, Chart: tgz, Release: release, Namespace: o.Namespace, OverrideValues: values})
	if err != nil {
		return nil, fmt.Errorf("render the agent's chart: %w", err)
	}
	return b.Resources, nil
}

// pack is the chart as Helm packs it.
func pack() ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	t := tar.NewWriter(z)
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := files.ReadFile(path)
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
