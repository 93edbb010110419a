// Package monitor is the Helm chart of the agent of member clusters, and renders it for a control plane that
// installs the agent itself.
package monitor

import (
	"embed"
	"strconv"

	"github.com/drover-io/drover/deploy/helm"
	"github.com/drover-io/drover/internal/plan"
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
	values := map[string]string{"createNamespace": "true", "discover": strconv.FormatBool(!o.NoDiscovery)}
	if o.Image != "" {
		values["image"] = o.Image
	}
	return helm.Render(files, name, release, o.Namespace, values)
}
