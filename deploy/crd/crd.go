// Package crd holds CustomResourceDefinitions: of the ResourceBundleState, of what network intents become, of the WorkloadRules
// of tenants, and of what KubeStellar has as objects and Drover as JSON of its API.
package crd

import (
	_ "embed"

	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/plan"
)

//go:embed resourcebundlestates.yaml
var resourceBundleStates []byte

//go:embed networks.yaml
var networks []byte

//go:embed providernetworks.yaml
var providerNetworks []byte

//go:embed networkattachmentdefinitions.yaml
var networkAttachmentDefinitions []byte

//go:embed statuscollectors.yaml
var statusCollectors []byte

//go:embed combinedstatuses.yaml
var combinedStatuses []byte

//go:embed workloadrules.yaml
var workloadRules []byte

// WorkloadRules is the definition of the rules that a tenant keeps in its own cluster.
func WorkloadRules() plan.Resource { return definition("workloadrules.drover.io", workloadRules) }

// KubeStellar are the definitions of status collectors and of what is combined by them, for those who keep such objects in an
// API server. Drover itself does not.
func KubeStellar() []plan.Resource {
	return []plan.Resource{
		definition("statuscollectors.control.kubestellar.io", statusCollectors),
		definition("combinedstatuses.control.kubestellar.io", combinedStatuses),
	}
}

// ResourceBundleStates is the definition as it is applied to a cluster.
func ResourceBundleStates() plan.Resource {
	return definition("resourcebundlestates.k8splugin.io", resourceBundleStates)
}

// Networks are the definitions of what network intents become. The network plugin and Multus have their own.
func Networks() []plan.Resource {
	return []plan.Resource{
		definition("networks.k8s.plugin.opnfv.org", networks),
		definition("providernetworks.k8s.plugin.opnfv.org", providerNetworks),
		definition("network-attachment-definitions.k8s.cni.cncf.io", networkAttachmentDefinitions),
	}
}

// definition is kept in a cluster when anything else goes.
func definition(name string, text []byte) plan.Resource {
	manifest, err := yaml.YAMLToJSON(text)
	if err != nil {
		panic("crd: the embedded definition is not YAML: " + err.Error()) // a test reads it
	}
	return plan.Resource{
		ResourceID: plan.ResourceID{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: name},
		Keep:       true,
		Manifest:   manifest,
	}
}
