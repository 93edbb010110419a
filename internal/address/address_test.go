package address_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/address"
	"github.com/drover-io/drover/internal/fail"
)

func networks(t *testing.T, allow, deny string) address.Networks {
	t.Helper()
	n, err := address.Parse(allow, deny)
	require.NoError(t, err)
	return n
}

func TestNetworks(t *testing.T) {
	for name, c := range map[string]struct {
		networks         address.Networks
		through, stopped []string
	}{
		"by default": {
			address.Networks{}, []string{"127.0.0.1", "::1", "10.1.2.3", "192.0.2.1", "2001:db8::1", "fd00::1", "64:ff9b::c000:201", "2002:c000:201::1"},
			[]string{
				"169.254.169.254", "fe80::1", "fe80::1%eth0", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "fd00:ec2::254", "100.100.100.200",
				"64:ff9b:1::a9fe:a9fe", "64:ff9b:1:a9fe:a9:fe00::", "2002:a9fe:a9fe::1", "::169.254.169.254", "64:ff9b::", "168.63.129.16", "224.0.0.1", "ff02::1", "0.0.0.0", "::",
			},
		},
		"with an allow-list": {
			networks(t, "10.0.0.0/8, 192.0.2.7", address.Default), []string{"10.1.2.3", "192.0.2.7"}, []string{"11.0.0.1", "192.0.2.8", "169.254.1.1", "127.0.0.1"},
		},
		"with a deny-list": {
			networks(t, "10.0.0.0/8", "10.1.0.0/16"), []string{"10.2.0.1"}, []string{"10.1.0.1", "::ffff:10.1.0.1", "64:ff9b::a01:1"},
		},
		"with none": {networks(t, "", ""), []string{"169.254.169.254", "10.0.0.1"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, a := range c.through {
				ip := netip.MustParseAddr(a)
				require.NoError(t, c.networks.Check(ip), a)
				require.NoError(t, c.networks.CheckHost(a), a)
				require.NoError(t, c.networks.Control("tcp", netip.AddrPortFrom(ip, 443).String(), nil), a)
			}
			for _, a := range c.stopped {
				ip := netip.MustParseAddr(a)
				require.True(t, fail.Is(c.networks.Check(ip), fail.Forbidden), a)
				require.Error(t, c.networks.CheckHost(a), a)
				require.Error(t, c.networks.Control("tcp", netip.AddrPortFrom(ip, 443).String(), nil), a)
			}
		})
	}
	require.NoError(t, address.Networks{}.CheckHost("metadata.internal"), "a name is looked at when it is connected to")
	require.Error(t, address.Networks{}.Control("tcp", "nowhere", nil))
	for _, host := range []string{"2852039166", "0251.0376.0251.0376", "0xa9fea9fe", "0xa9.0xfe.0xa9.0xfe", "0xa9.254.43518", "127.1", "169.254.169.254.", "cluster.0X7f", "1.2.3.4.5", "300.1.1.1", "0x"} {
		require.True(t, fail.Is(address.Networks{}.CheckHost(host), fail.Forbidden), host)
	}
	for _, host := range []string{"edge01", "edge.01a", "10.example", "0x7f.example", "1-2-3-4.sslip.io", "0xfeed.beef.fog", "xn--p1ai", "localhost."} {
		require.NoError(t, address.Networks{}.CheckHost(host), host)
	}
}

func TestWhatIsNoNetwork(t *testing.T) {
	for _, list := range []string{"x", "10.0.0.0/33", "fe80::1%eth0", "::ffff:10.0.0.0/104", "10.0.0.0/8,-"} {
		_, err := address.Parse(list, "")
		require.Error(t, err, list)
		_, err = address.Parse("", list)
		require.Error(t, err, list)
	}
}
