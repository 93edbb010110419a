// Package tenantagent is the Helm chart of the agent of tenants' clusters, and renders it for who has no Helm.
package tenantagent

import (
	"embed"
	"strings"

	"github.com/drover-io/drover/deploy/helm"
	"github.com/drover-io/drover/internal/plan"
)

//go:embed Chart.yaml values.yaml crds templates
var files embed.FS

// Options are what there is to say; what is left empty is as in values.yaml.
type Options struct {
	Namespace  string // the agent's own, which has to be there; required
	Tenant     string // required
	Server     string // address; required
	Token      bool   // the Secret has a token, not a certificate
	Namespaces []string
}

// Manifests are what installs the agent into a cluster, in the order in which it is applied. It is what `helm install` makes of
// the chart. Objects name their namespaces.
func Manifests(o Options) ([]plan.Resource, error) {
	values := map[string]string{"tenant": o.Tenant, "server": o.Server}
	if o.Token {
		values["credentials"] = "token"
	}
	if len(o.Namespaces) > 0 {
		values["namespaces"] = "{" + strings.Join(o.Namespaces, ",") + "}"
	}
	return helm.Render(files, "tenant-agent", "drover-tenant-agent", o.Namespace, values)
}
