package domain

import (
	"fmt"

	"github.com/drover-io/drover/internal/fail"
)

// Host is a node of a tenant's cluster. What is made for a workload there with the policy SameNode goes to the host's nodes.
type Host struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"` // its name is that of the node in the tenant's cluster
	Spec     HostSpec                         `json:"spec" api:"required"`
}

// HostSpec names what belongs to the host.
type HostSpec struct {
	// the nodes of the infrastructure cluster that belong to the host, such as its DPUs; a node belongs to one host
	Nodes []string `json:"nodes" api:"required"`
}

// Hosts is the noun.
var Hosts = &Noun{
	Kind: "hosts", Title: "host", Collection: "hosts", Names: []string{"host"},
	Parent: Tenants, New: func() Object { return &Host{} }, Longest: MaxSubdomain,
}

// Noun is Hosts.
func (*Host) Noun() *Noun { return Hosts }

// Validate checks the body. That no other host has one of the nodes is a matter of the service.
func (h *Host) Validate(p *fail.Problems) {
	if h.Name == "" || IsSubdomain(h.Name) {
		checkName(p, "metadata.name", h.Name, Hosts.Longest)
	} else {
		p.Add("metadata.name", "must be the name of a node: at most %d of a-z, 0-9, - and ., no - or . first or last", MaxSubdomain)
	}
	h.checkRemarks(p)
	if h.Spec.Nodes == nil {
		p.Add("spec.nodes", "Invalid type. Expected: array, given: null")
	}
	there := make(map[string]bool, len(h.Spec.Nodes))
	for i, node := range h.Spec.Nodes {
		path := fmt.Sprintf("spec.nodes[%d]", i)
		switch {
		case !IsSubdomain(node):
			p.Add(path, "%q is not the name of a node: a-z, 0-9, - and ., no - or . first or last", node)
		case there[node]:
			p.Add(path, "%q is there twice", node)
		}
		there[node] = true
	}
}

// MaxSubdomain is the longest DNS-1123 subdomain, in bytes.
const MaxSubdomain = 253

// IsSubdomain says whether s is a DNS-1123 subdomain, which most objects of Kubernetes have as their name.
func IsSubdomain(s string) bool { return len(s) <= MaxSubdomain && subdomainPattern.MatchString(s) }
