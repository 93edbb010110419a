// Package crd holds the CustomResourceDefinition of the ResourceBundleState.
package crd

import (
	_ "embed"

	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/plan"
)

//go:embed resourcebundlestates.yaml
var resourceBundleStates []byte

// ResourceBundleStates is the definition as it is applied to a cluster. It is kept there when anything else goes.
func ResourceBundleStates() plan.Resource {
	manifest, err := yaml.YAMLToJSON(resourceBundleStates)
	if err != nil {
		panic("crd: the embedded definition is not YAML: " + err.Error()) // a test reads it
	}
	return plan.Resource{
		ResourceID: plan.ResourceID{
			Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: "resourcebundlestates.k8splugin.io",
		},
		Keep:     true,
		Manifest: manifest,
	}
}
