package domain

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"github.com/drover-io/drover/internal/fail"
)

// Network is a network intent of a cluster: a virtual network of the cluster's network plugin.
type Network struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Spec     NetworkSpec `json:"spec" api:"required"`
}

// NetworkSpec has at least one list of subnets.
type NetworkSpec struct {
	CNIType     string   `json:"cniType" api:"required,enum=ovn4nfv"` // the network plugin
	IPv4Subnets []Subnet `json:"ipv4Subnets,omitempty"`               // ranges of IPv4 addresses
	IPv6Subnets []Subnet `json:"ipv6Subnets,omitempty"`               // ranges of IPv6 addresses
}

// Subnet is a range of addresses of a network.
type Subnet struct {
	Name       string `json:"name" api:"required"`   // the name of the range
	Subnet     string `json:"subnet" api:"required"` // the range in CIDR notation
	Gateway    string `json:"gateway,omitempty"`     // the gateway in CIDR notation
	ExcludeIPs string `json:"excludeIps,omitempty"`  // addresses and ranges (a..b) that are not given out, separated by blanks
}

// Networks is the noun.
var Networks = &Noun{
	Kind: "networks", Title: "network", Collection: "networks", Names: []string{"network"},
	Parent: ClustersNoun, New: func() Object { return &Network{} },
}

// Noun is Networks.
func (*Network) Noun() *Noun { return Networks }

// Validate checks the body (reference 1.3).
func (o *Network) Validate(p *fail.Problems) {
	o.Metadata.Validate(p)
	// The name is the value of a label, too.
	checkResourceName(p, o.Name, maxLabelValue)
	o.Spec.validate(p, 1024)
}

// validate checks what both kinds of networks have, of which EMCO bounds the lists of excluded addresses differently.
func (s NetworkSpec) validate(p *fail.Problems, maxExcluded int) {
	if s.CNIType != cniType {
		p.Add("spec.cniType", "Invalid cni type: %s; use %s", s.CNIType, cniType)
	}
	if len(s.IPv4Subnets)+len(s.IPv6Subnets) == 0 {
		p.Add("spec", "ipv4Subnets or ipv6Subnets is required")
	}
	for i := range s.IPv4Subnets {
		s.IPv4Subnets[i].validate(p, fmt.Sprintf("spec.ipv4Subnets[%d]", i), "ipv4", maxExcluded)
	}
	for i := range s.IPv6Subnets {
		s.IPv6Subnets[i].validate(p, fmt.Sprintf("spec.ipv6Subnets[%d]", i), "ipv6", maxExcluded)
	}
}

// cniType is the only network plugin that has network intents.
const cniType = "ovn4nfv"

func (s *Subnet) validate(p *fail.Problems, path, family string, maxExcluded int) {
	CheckName(p, path+".name", s.Name)
	if !isCIDR(s.Subnet, family) {
		p.Add(path+".subnet", "invalid subnet: could not parse %s cidr %q", family, s.Subnet)
	}
	if s.Gateway != "" && !isCIDR(s.Gateway, family) {
		p.Add(path+".gateway", "invalid gateway: could not parse %s cidr %q", family, s.Gateway)
	}
	CheckLength(p, path+".excludeIps", s.ExcludeIPs, maxExcluded)
	for _, excluded := range strings.Fields(s.ExcludeIPs) {
		first, last, isRange := strings.Cut(excluded, "..")
		if !isAddress(first, family) || isRange && !isAddress(last, family) {
			p.Add(path+".excludeIps", "invalid %s exclude list: %q is neither an address nor a range such as a..b", family, excluded)
		}
	}
}

func isCIDR(s, family string) bool {
	prefix, err := netip.ParsePrefix(s)
	return err == nil && familyOf(prefix.Addr()) == family
}

func isAddress(s, family string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Zone() == "" && familyOf(a) == family
}

func familyOf(a netip.Addr) string {
	if a.Is4() {
		return "ipv4"
	}
	return "ipv6"
}

// maxLabelValue is the longest value of a Kubernetes label.
const maxLabelValue = 63

// resourceNamePattern is Kubernetes' (RFC 1123 subdomain): EMCO takes more, and clusters refuse it later.
var resourceNamePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// checkResourceName adds a problem when a name cannot be that of a Kubernetes resource; what is no name at all
// Metadata has found.
func checkResourceName(p *fail.Problems, name string, limit int) {
	switch {
	case !namePattern.MatchString(name):
	case !resourceNamePattern.MatchString(name):
		p.Add("metadata.name", "must be the name of a Kubernetes resource: a-z, 0-9, - and ., each part beginning and ending with a letter or digit")
	case len(name) > limit:
		p.Add("metadata.name", "String length must be less than or equal to %d", limit)
	}
}
