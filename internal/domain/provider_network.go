package domain

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-io/drover/internal/fail"
)

// ProviderNetwork is a network intent of a cluster: a network that nodes reach through interfaces of theirs.
type ProviderNetwork struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Spec     ProviderNetworkSpec `json:"spec" api:"required"`
}

// ProviderNetworkSpec is the network, and how nodes reach it. Its members have EMCO's order.
type ProviderNetworkSpec struct {
	NetworkSpec     `bson:",inline"`
	ProviderNetType string `json:"providerNetType" api:"required,enum=VLAN;DIRECT"` // a VLAN, or the interface itself; in any case of letters
	VLAN            VLAN   `json:"vlan" api:"required"`
}

// VLAN says which interfaces of which nodes the network is on.
type VLAN struct {
	ID string `json:"vlanID" api:"required"` // a number, 0 to 4095, as a string
	// the interface of the nodes; at most 128 characters
	ProviderInterfaceName string `json:"providerInterfaceName"`
	// the interface that is made on it; at most 128 characters
	LogicalInterfaceName string `json:"logicalInterfaceName"`
	// any node, or specific ones: those with the labels; in any case of letters
	NodeSelector  string   `json:"vlanNodeSelector" api:"required,enum=any;specific"`
	NodeLabelList []string `json:"nodeLabelList,omitempty"` // labels of nodes as key=value; required for specific ones
}

// MarshalJSON has a list of no labels as [], since EMCO's schema requires the member.
func (v VLAN) MarshalJSON() ([]byte, error) {
	type plain VLAN
	return json.Marshal(struct {
		plain
		NodeLabelList []string `json:"nodeLabelList"`
	}{plain(v), append([]string{}, v.NodeLabelList...)})
}

// ProviderNetworks is the noun.
var ProviderNetworks = &Noun{
	Kind: "provider-networks", Title: "provider network", Collection: "provider-networks", Names: []string{"providerNetwork"},
	Parent: ClustersNoun, New: func() Object { return &ProviderNetwork{} },
}

// Noun is ProviderNetworks.
func (*ProviderNetwork) Noun() *Noun { return ProviderNetworks }

// The words of provider networks; EMCO takes them in any case.
const (
	ProviderNetVLAN   = "VLAN"
	ProviderNetDirect = "DIRECT"
	NodesAny          = "any"
	NodesSpecific     = "specific"
)

// maxVLAN is the largest number of a VLAN that EMCO takes.
const maxVLAN = 4095

// Validate checks the body (reference 1.3).
func (o *ProviderNetwork) Validate(p *fail.Problems) {
	o.Metadata.Validate(p)
	checkResourceName(p, o.Name, MaxName)
	o.Spec.validate(p, 128)
	if t := strings.ToUpper(o.Spec.ProviderNetType); !slices.Contains([]string{ProviderNetVLAN, ProviderNetDirect}, t) {
		p.Add("spec.providerNetType", "Invalid provider network type: %s; use %s or %s", o.Spec.ProviderNetType, ProviderNetVLAN, ProviderNetDirect)
	}
	o.Spec.VLAN.validate(p)
}

func (v *VLAN) validate(p *fail.Problems) {
	if problem := vlanProblem(v.ID); problem != "" {
		p.Add("spec.vlan.vlanID", "Invalid VlAN ID %s - error: [%s]", v.ID, problem)
	}
	CheckLength(p, "spec.vlan.providerInterfaceName", v.ProviderInterfaceName, 128)
	CheckLength(p, "spec.vlan.logicalInterfaceName", v.LogicalInterfaceName, 128)
	switch strings.ToLower(v.NodeSelector) {
	case NodesAny:
	case NodesSpecific:
		if len(v.NodeLabelList) == 0 {
			p.Add("spec.vlan.nodeLabelList", "Node Labels required for VlAN node selector %q", NodesSpecific)
		}
	default:
		p.Add("spec.vlan.vlanNodeSelector", "Invalid VlAN Node Selector %s; use %s or %s", v.NodeSelector, NodesAny, NodesSpecific)
	}
	for i, label := range v.NodeLabelList {
		key, value, found := strings.Cut(label, "=")
		if !found || !isLabelKey(key) || !isLabelValue(value) {
			p.Add(fmt.Sprintf("spec.vlan.nodeLabelList[%d]", i), "Invalid Label=%s; use key=value", label)
		}
	}
}

func vlanProblem(id string) string {
	switch n, err := strconv.Atoi(id); {
	case err != nil:
		return "value is not a number"
	case n < 0:
		return "value less than minimum"
	case n > maxVLAN:
		return "value greater than maximum"
	default:
		return ""
	}
}

// maxLabelPrefix is the longest prefix of the key of a Kubernetes label.
const maxLabelPrefix = 253

// isLabelKey says whether s is the key of a Kubernetes label, with or without a prefix.
func isLabelKey(s string) bool {
	if prefix, name, prefixed := strings.Cut(s, "/"); prefixed {
		return len(prefix) <= maxLabelPrefix && resourceNamePattern.MatchString(prefix) && name != "" && isLabelValue(name)
	}
	return s != "" && isLabelValue(s)
}

// isLabelValue says whether s is the value of a Kubernetes label; names have the same pattern.
func isLabelValue(s string) bool {
	return s == "" || len(s) <= maxLabelValue && namePattern.MatchString(s)
}
