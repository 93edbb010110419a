// Package network renders the network intents of a cluster: the resources of its network plugin, ovn4nfv.
package network

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
)

const (
	// App is the app of the contexts in which network intents are applied (reference 1.3).
	App = "network-intents"
	// Namespace is where they are applied.
	Namespace = "default"

	pluginGroup = "k8s.plugin.opnfv.org"
)

// A cluster whose key-value pairs have this key with this value attaches pods to networks through Multus, which
// wants a NetworkAttachmentDefinition for each.
const (
	wrapperKey    = "CNI-Networking-Multi-VM-CNI-Wrapper"
	wrapperMultus = "multus"
)

// Intents are all that decides what networks a cluster has, each list sorted by name.
type Intents struct {
	Networks         []*domain.Network
	ProviderNetworks []*domain.ProviderNetwork
	Pairs            []*domain.ClusterKV
}

// Render gives the resources: one for each intent, and with Multus one more for each name.
func Render(in Intents) (*plan.Bundle, error) {
	var objects []object
	names := map[string]bool{}
	network := func(kind string, m metadata, spec any) {
		objects = append(objects, object{pluginGroup, "v1alpha1", kind, m, spec})
		if in.multus() && !names[m.Name] {
			objects = append(objects, attach(m.Name))
		}
		names[m.Name] = true
	}
	for _, n := range in.Networks {
		network("Network", metadata{Name: n.Name, Labels: map[string]string{"net": n.Name}}, specOf(n.Spec))
	}
	for _, n := range in.ProviderNetworks {
		network("ProviderNetwork", metadata{Name: n.Name}, providerSpecOf(n.Spec))
	}
	b := &plan.Bundle{App: App, Resources: make([]plan.Resource, 0, len(objects))}
	for _, o := range objects {
		r, err := o.resource()
		if err != nil {
			return nil, err
		}
		b.Resources = append(b.Resources, r)
	}
	return b, nil
}

func (in Intents) multus() bool {
	for _, p := range in.Pairs {
		if value, _ := p.Spec.Value(wrapperKey); value == wrapperMultus {
			return true
		}
	}
	return false
}

// Parts of manifests.
type (
	metadata struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels,omitempty"`
	}
	// spec is as the REST body has it; but the plugin's definition requires IPv4 subnets, if only an empty list.
	spec struct {
		CNIType     string          `json:"cniType"`
		IPv4Subnets []domain.Subnet `json:"ipv4Subnets"`
		IPv6Subnets []domain.Subnet `json:"ipv6Subnets,omitempty"`
	}
	providerSpec struct {
		spec
		ProviderNetType string `json:"providerNetType"`
		VLAN            vlan   `json:"vlan"`
	}
	// vlan spells its first member differently from the REST body.
	vlan struct {
		ID                    string   `json:"vlanId"`
		ProviderInterfaceName string   `json:"providerInterfaceName"`
		LogicalInterfaceName  string   `json:"logicalInterfaceName,omitempty"`
		NodeSelector          string   `json:"vlanNodeSelector"`
		NodeLabelList         []string `json:"nodeLabelList,omitempty"`
	}
	attachment struct {
		Config string `json:"config"` // JSON
	}
)

func specOf(s domain.NetworkSpec) spec {
	out := spec{CNIType: s.CNIType, IPv4Subnets: s.IPv4Subnets, IPv6Subnets: s.IPv6Subnets}
	if out.IPv4Subnets == nil {
		out.IPv4Subnets = []domain.Subnet{}
	}
	return out
}

func providerSpecOf(s domain.ProviderNetworkSpec) providerSpec {
	v := vlan(s.VLAN)
	v.NodeSelector = strings.ToLower(v.NodeSelector)
	return providerSpec{spec: specOf(s.NetworkSpec), ProviderNetType: strings.ToUpper(s.ProviderNetType), VLAN: v}
}

// attach is what Multus needs to attach pods to a network.
func attach(name string) object {
	config := fmt.Sprintf(`{"cniVersion":"0.3.1","type":"ovn4nfvk8s-cni","nfn-network":%q}`, name)
	return object{"k8s.cni.cncf.io", "v1", "NetworkAttachmentDefinition", metadata{Name: name}, attachment{config}}
}

// object is a resource in the making.
type object struct {
	group, version, kind string
	metadata             metadata
	spec                 any
}

func (o object) resource() (plan.Resource, error) {
	manifest, err := json.Marshal(struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Metadata   metadata `json:"metadata"`
		Spec       any      `json:"spec"`
	}{o.group + "/" + o.version, o.kind, o.metadata, o.spec})
	if err != nil {
		return plan.Resource{}, fmt.Errorf("encode %s %s: %w", o.kind, o.metadata.Name, err)
	}
	return plan.Resource{
		ResourceID: plan.ResourceID{Group: o.group, Version: o.version, Kind: o.kind, Name: o.metadata.Name}, Manifest: manifest,
	}, nil
}
