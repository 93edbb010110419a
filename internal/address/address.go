// Package address says which addresses may be connected to where somebody else says whereto: a name may lead anywhere, so it is the
// address that counts, looked at as the connection is made.
package address

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/drover-io/drover/internal/fail"
)

// Default are the networks that nobody is to be led to: those of a link, where clouds give out credentials of machines, other
// addresses at which they do, groups, and none at all. What is in it is denied unless others are named.
const Default = "169.254.0.0/16,fe80::/10,fd00:ec2::254/128,100.100.100.200/32,168.63.129.16/32,224.0.0.0/4,ff00::/8,0.0.0.0/32,::/128"

// Networks are those that may be connected to. The zero value lets everything through but Default.
type Networks struct {
	allow []netip.Prefix // empty for all
	deny  []netip.Prefix // nil for Default
}

var denied = mustParse(Default)

// Parse reads lists of networks such as 10.0.0.0/8, and of addresses, separated by commas. What is in deny is not connected to, and
// where allow is not empty nothing that is not in it; an empty deny denies nothing.
func Parse(allow, deny string) (n Networks, err error) {
	if n.allow, err = parse(allow); err != nil {
		return Networks{}, err
	}
	n.deny, err = parse(deny)
	return n, err
}

func parse(list string) ([]netip.Prefix, error) {
	networks := []netip.Prefix{}
	for _, word := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' }) {
		p, err := netip.ParsePrefix(word)
		if err != nil {
			ip, notIP := netip.ParseAddr(word)
			if notIP != nil || ip.Zone() != "" {
				return nil, fmt.Errorf("%q is not a network such as 10.0.0.0/8", word)
			}
			p = netip.PrefixFrom(ip, ip.BitLen())
		}
		if p.Addr().Is4In6() {
			return nil, fmt.Errorf("%q is a network of IPv4 in the form of IPv6; write it as one of IPv4", word)
		}
		networks = append(networks, p.Masked())
	}
	return networks, nil
}

func mustParse(list string) []netip.Prefix {
	networks, err := parse(list)
	if err != nil {
		panic(err)
	}
	return networks
}

// Networks of IPv6 whose addresses lead to one of IPv4.
var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")   // RFC 6052
	ownNAT64   = netip.MustParsePrefix("64:ff9b:1::/48") // RFC 8215
	sixToFour  = netip.MustParsePrefix("2002::/16")      // RFC 3056
	compatible = netip.MustParsePrefix("::/96")          // RFC 4291
)

// carried are the addresses of IPv4 that one of IPv6 leads to, or may lead to: with a prefix of its own a network may have it at the end, or
// right after the prefix, around byte 8 (RFC 6052).
func carried(ip netip.Addr) (to []netip.Addr) {
	if !ip.Is6() || ip == netip.IPv6Unspecified() || ip == netip.IPv6Loopback() {
		return nil
	}
	b := ip.As16()
	switch {
	case nat64.Contains(ip), compatible.Contains(ip):
		return []netip.Addr{netip.AddrFrom4([4]byte(b[12:]))}
	case sixToFour.Contains(ip):
		return []netip.Addr{netip.AddrFrom4([4]byte(b[2:6]))}
	case ownNAT64.Contains(ip):
		for _, at := range []netip.Addr{netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte{b[6], b[7], b[9], b[10]})} {
			if !at.IsUnspecified() {
				to = append(to, at)
			}
		}
	}
	return to
}

// Check says why an address must not be connected to. The error is Forbidden.
func (n Networks) Check(ip netip.Addr) error {
	ip = ip.Unmap().WithZone("")
	for _, to := range carried(ip) {
		if err := n.Check(to); err != nil {
			return err
		}
	}
	in := func(p netip.Prefix) bool { return p.Contains(ip) }
	deny := n.deny
	if deny == nil {
		deny = denied
	}
	switch {
	case slices.ContainsFunc(deny, in):
		return fail.New(fail.Forbidden, "the address %s is in a network that is denied", ip)
	case len(n.allow) > 0 && !slices.ContainsFunc(n.allow, in):
		return fail.New(fail.Forbidden, "the address %s is in no network that is allowed", ip)
	default:
		return nil
	}
}

// CheckHost is Check for a host that is written as an address. Names are looked at when they are connected to. What some take for an address
// and others for a name is refused: 2852039166, 0251.0376.0251.0376 and 0xa9.254.43518 are 169.254.169.254 to resolvers of C.
func (n Networks) CheckHost(host string) error {
	if ip, err := netip.ParseAddr(host); err == nil {
		return n.Check(ip)
	}
	if endsInNumber(host) {
		return fail.New(fail.Forbidden, "%q is neither a name nor an address such as 192.0.2.1", host)
	}
	return nil
}

// endsInNumber says whether the last label of a host is a number, decimal or hexadecimal: no name of DNS ends so (WHATWG URL, "ends in a number").
func endsInNumber(host string) bool {
	host = strings.TrimSuffix(host, ".")
	last := strings.ToLower(host[strings.LastIndexByte(host, '.')+1:])
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}

// Control looks at the address that a name has come to, before it is connected to (net.Dialer).
func (n Networks) Control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fail.New(fail.Forbidden, "%q is no address", address)
	}
	return n.Check(at.Addr())
}
