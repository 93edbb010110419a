package domain_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

func ipv4(subnets ...domain.Subnet) domain.NetworkSpec {
	return domain.NetworkSpec{CNIType: "ovn4nfv", IPv4Subnets: subnets}
}

var aSubnet = domain.Subnet{Name: "s1", Subnet: "10.1.0.0/24"}

func vlan(change func(*domain.ProviderNetworkSpec)) *domain.ProviderNetwork {
	o := &domain.ProviderNetwork{Metadata: meta("n"), Spec: domain.ProviderNetworkSpec{
		NetworkSpec: ipv4(aSubnet), ProviderNetType: "VLAN",
		VLAN: domain.VLAN{ID: "100", ProviderInterfaceName: "eth1", NodeSelector: "any"},
	}}
	change(&o.Spec)
	return o
}

func TestValidateNetworks(t *testing.T) {
	for name, c := range map[string]struct {
		o    domain.Object
		want []fail.Field
	}{
		"a network": {o: &domain.Network{Metadata: meta("n"), Spec: ipv4(domain.Subnet{
			Name: "s1", Subnet: "10.1.0.0/24", Gateway: "10.1.0.1/24", ExcludeIPs: " 10.1.0.2  10.1.0.5..10.1.0.9 ",
		})}},
		"of IPv6 alone": {o: &domain.Network{Metadata: meta("n"), Spec: domain.NetworkSpec{
			CNIType: "ovn4nfv", IPv6Subnets: []domain.Subnet{{Name: "s", Subnet: "fd00::/64", Gateway: "fd00::1/64", ExcludeIPs: "fd00::2..fd00::9"}},
		}}},
		"an empty network": {o: &domain.Network{Metadata: meta("n")}, want: []fail.Field{
			{Path: "spec.cniType", Message: "Invalid cni type: ; use ovn4nfv"},
			{Path: "spec", Message: "ipv4Subnets or ipv6Subnets is required"},
		}},
		"every part of a subnet": {
			o: &domain.Network{Metadata: meta("n"), Spec: domain.NetworkSpec{
				CNIType:     "ovn4nfv",
				IPv4Subnets: []domain.Subnet{{}, {Name: "a b", Subnet: "10.1.0.0", Gateway: "10.1.0.1", ExcludeIPs: "10.1.0.2 10.1.0.3.. ten"}},
				IPv6Subnets: []domain.Subnet{{Name: "s", Subnet: "10.1.0.0/24", Gateway: "10.1.0.1/24", ExcludeIPs: "10.1.0.2"}},
			}},
			want: []fail.Field{
				{Path: "spec.ipv4Subnets[0].name", Message: "is required"},
				{Path: "spec.ipv4Subnets[0].subnet", Message: `invalid subnet: could not parse ipv4 cidr ""`},
				{Path: "spec.ipv4Subnets[1].name", Message: "Does not match pattern '" + domain.NamePattern + "': a name has letters and digits, and between them '-', '_' and '.'"},
				{Path: "spec.ipv4Subnets[1].subnet", Message: `invalid subnet: could not parse ipv4 cidr "10.1.0.0"`},
				{Path: "spec.ipv4Subnets[1].gateway", Message: `invalid gateway: could not parse ipv4 cidr "10.1.0.1"`},
				{Path: "spec.ipv4Subnets[1].excludeIps", Message: `invalid ipv4 exclude list: "10.1.0.3.." is neither an address nor a range such as a..b`},
				{Path: "spec.ipv4Subnets[1].excludeIps", Message: `invalid ipv4 exclude list: "ten" is neither an address nor a range such as a..b`},
				{Path: "spec.ipv6Subnets[0].subnet", Message: `invalid subnet: could not parse ipv6 cidr "10.1.0.0/24"`},
				{Path: "spec.ipv6Subnets[0].gateway", Message: `invalid gateway: could not parse ipv6 cidr "10.1.0.1/24"`},
				{Path: "spec.ipv6Subnets[0].excludeIps", Message: `invalid ipv6 exclude list: "10.1.0.2" is neither an address nor a range such as a..b`},
			},
		},
		"a long list of exclusions": {o: &domain.Network{Metadata: meta("n"), Spec: ipv4(domain.Subnet{Name: "s", Subnet: "10.1.0.0/24", ExcludeIPs: strings.Repeat("10.1.0.2 ", 113)})}},
		"a longer one": {
			o:    &domain.Network{Metadata: meta("n"), Spec: ipv4(domain.Subnet{Name: "s", Subnet: "10.1.0.0/24", ExcludeIPs: strings.Repeat("10.1.0.2 ", 114)})},
			want: []fail.Field{{Path: "spec.ipv4Subnets[0].excludeIps", Message: "String length must be less than or equal to 1024"}},
		},
		"that of a provider network is shorter": {
			o: vlan(func(s *domain.ProviderNetworkSpec) {
				s.IPv4Subnets = []domain.Subnet{{Name: "s", Subnet: "10.1.0.0/24", ExcludeIPs: strings.Repeat("10.1.0.2 ", 15)}}
			}),
			want: []fail.Field{{Path: "spec.ipv4Subnets[0].excludeIps", Message: "String length must be less than or equal to 128"}},
		},
		"a name that Kubernetes does not take": {
			o:    &domain.Network{Metadata: meta("Net_1"), Spec: ipv4(aSubnet)},
			want: []fail.Field{{Path: "metadata.name", Message: "must be the name of a Kubernetes resource: a-z, 0-9, - and ., each part beginning and ending with a letter or digit"}},
		},
		"a name of parts":  {o: &domain.Network{Metadata: meta("net-1.a"), Spec: ipv4(aSubnet)}},
		"the longest name": {o: &domain.Network{Metadata: meta(strings.Repeat("n", 63)), Spec: ipv4(aSubnet)}},
		"a name that no label can have": {
			o:    &domain.Network{Metadata: meta(strings.Repeat("n", 64)), Spec: ipv4(aSubnet)},
			want: []fail.Field{{Path: "metadata.name", Message: "String length must be less than or equal to 63"}},
		},
		"no name": {o: &domain.Network{Spec: ipv4(aSubnet)}, want: []fail.Field{{Path: "metadata.name", Message: "is required"}}},

		"the words in any case": {o: vlan(func(s *domain.ProviderNetworkSpec) { s.ProviderNetType, s.VLAN.NodeSelector = "Direct", "ANY" })},
		"the ends of the numbers": {o: vlan(func(s *domain.ProviderNetworkSpec) {
			s.VLAN.ID, s.VLAN.NodeSelector = "4095", "specific"
			s.VLAN.NodeLabelList = []string{"kubernetes.io/hostname=localhost", "a=", "A.b_c=D-e"}
		})},
		"an empty provider network": {o: &domain.ProviderNetwork{Metadata: meta("n")}, want: []fail.Field{
			{Path: "spec.cniType", Message: "Invalid cni type: ; use ovn4nfv"},
			{Path: "spec", Message: "ipv4Subnets or ipv6Subnets is required"},
			{Path: "spec.providerNetType", Message: "Invalid provider network type: ; use VLAN or DIRECT"},
			{Path: "spec.vlan.vlanID", Message: "Invalid VlAN ID  - error: [value is not a number]"},
			{Path: "spec.vlan.vlanNodeSelector", Message: "Invalid VlAN Node Selector ; use any or specific"},
		}},
		"a number too large": {
			o:    vlan(func(s *domain.ProviderNetworkSpec) { s.VLAN.ID = "5000" }),
			want: []fail.Field{{Path: "spec.vlan.vlanID", Message: "Invalid VlAN ID 5000 - error: [value greater than maximum]"}},
		},
		"a number too small": {
			o:    vlan(func(s *domain.ProviderNetworkSpec) { s.VLAN.ID = "-1" }),
			want: []fail.Field{{Path: "spec.vlan.vlanID", Message: "Invalid VlAN ID -1 - error: [value less than minimum]"}},
		},
		"specific nodes, but which": {
			o:    vlan(func(s *domain.ProviderNetworkSpec) { s.VLAN.NodeSelector = "specific" }),
			want: []fail.Field{{Path: "spec.vlan.nodeLabelList", Message: `Node Labels required for VlAN node selector "specific"`}},
		},
		"what is no label": {
			o: vlan(func(s *domain.ProviderNetworkSpec) {
				s.VLAN.NodeLabelList = []string{"a", "=b", "a=b c", "/a=b", "A/a=b", "a/=b", "a/b/c=d", strings.Repeat("a", 64) + "=b"}
			}),
			want: []fail.Field{
				{Path: "spec.vlan.nodeLabelList[0]", Message: "Invalid Label=a; use key=value"},
				{Path: "spec.vlan.nodeLabelList[1]", Message: "Invalid Label==b; use key=value"},
				{Path: "spec.vlan.nodeLabelList[2]", Message: "Invalid Label=a=b c; use key=value"},
				{Path: "spec.vlan.nodeLabelList[3]", Message: "Invalid Label=/a=b; use key=value"},
				{Path: "spec.vlan.nodeLabelList[4]", Message: "Invalid Label=A/a=b; use key=value"},
				{Path: "spec.vlan.nodeLabelList[5]", Message: "Invalid Label=a/=b; use key=value"},
				{Path: "spec.vlan.nodeLabelList[6]", Message: "Invalid Label=a/b/c=d; use key=value"},
				{Path: "spec.vlan.nodeLabelList[7]", Message: "Invalid Label=" + strings.Repeat("a", 64) + "=b; use key=value"},
			},
		},

		"a sync object":           {o: &domain.ClusterSyncObject{Metadata: meta("a"), Spec: domain.KVSpec{KV: []map[string]string{{"a": "b"}}}}},
		"a sync object, no pairs": {o: &domain.ClusterSyncObject{Metadata: meta("a")}, want: []fail.Field{{Path: "spec.kv", Message: "Invalid type. Expected: array, given: null"}}},
	} {
		t.Run(name, func(t *testing.T) {
			var p fail.Problems
			c.o.Validate(&p)
			require.Empty(t, cmp.Diff(c.want, fail.FieldsOf(p.Err())))
		})
	}
}
