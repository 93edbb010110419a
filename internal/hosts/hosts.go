// Package hosts says for which names a listener answers, and so defends it against DNS rebinding: a web page points a name of
// its own at an address of ours, and the browser takes what is there for the page's own. But the browser says that name in the
// header Host, and a request by a name that is not ours is refused.
package hosts

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Any as a name lets every Host pass.
const Any = "*"

// Names are those of a listener beside loopback's and the addresses that it is reached by.
type Names []string

// New has the name in the address that is listened at, and more; both may have a port.
func New(listen string, more ...string) Names {
	names := Names{name(listen)}
	for _, h := range more {
		names = append(names, name(h))
	}
	return names
}

// Ours says whether the Host is a name of the listener: loopback's, one of the names, or the address that the request came
// to. A request without Host, which no browser sends, passes.
func (n Names) Ours(r *http.Request) bool {
	host := name(r.Host)
	if host == "" || host == "localhost" || slices.Contains(n, host) || slices.Contains(n, Any) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ip.IsLoopback() || local != nil && local.AddrPort().Addr().Unmap() == ip.Unmap()
}

// Loopback says whether a host without a port is this machine by what it says: nobody looks it up.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// name is that of host or host:port, in the one spelling in which names are compared.
func name(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}
