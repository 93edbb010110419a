package kube

import (
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/internal/fail"
)

// A connection on which nothing arrives is asked for a sign of life after silence, and given up after
// another mute: a host that was switched off is noticed before a request's deadline, not by TCP's.
const (
	silence = 8 * time.Second
	mute    = 4 * time.Second
)

// resumed is the number of TLS sessions kept per cluster, so that a connection that idled out is made again
// without the cost of certificates.
const resumed = 2

// connect makes the HTTP client. client-go's own transports stay in a table of the process; these are the
// cluster's and go with it.
func (c *Cluster) connect(access *rest.Config) error {
	base, _, err := rest.DefaultServerUrlFor(access)
	if err != nil {
		return fail.Wrap(err, fail.Invalid, "the kubeconfig's server is not a URL")
	}
	secure, err := rest.TLSConfigFor(access)
	if err != nil {
		return fail.Wrap(err, fail.Invalid, "the kubeconfig's certificates cannot be used")
	}
	if secure != nil {
		secure.ClientSessionCache = tls.NewLRUClientSessionCache(resumed)
	}
	proxy := http.ProxyFromEnvironment
	if access.Proxy != nil {
		proxy = access.Proxy
	}
	build := func(connections int) *http.Transport {
		return &http.Transport{
			Proxy:               proxy,
			DialContext:         (&net.Dialer{Timeout: c.config.Dial}).DialContext,
			TLSClientConfig:     secure.Clone(),
			TLSHandshakeTimeout: c.config.Handshake,
			IdleConnTimeout:     c.config.Idle,
			MaxConnsPerHost:     connections,
			MaxIdleConnsPerHost: connections,
			DisableCompression:  true, // most answers are thrown away unread
			ForceAttemptHTTP2:   true,
			HTTP2:               &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: mute},
		}
	}
	c.transport = &transport{shared: build(1), many: build(c.config.Parallel)}
	authorized, err := rest.HTTPWrappersForConfig(access, c.transport)
	if err != nil {
		return fail.Wrap(err, fail.Invalid, "the kubeconfig's credentials cannot be used")
	}
	c.base = strings.TrimSuffix(base.String(), "/")
	c.client = &http.Client{
		Transport: authorized,
		// An API server does not redirect, and a redirected PATCH would become a GET.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return nil
}

// transport makes one connection and sends everything through it, as HTTP/2 can. Without this bound, the
// requests that find no connection make one each: at the start of a job that would be a TLS handshake per
// request instead of one. A server that turns out to speak HTTP/1 gets a connection per request.
type transport struct {
	shared, many *http.Transport
	plain        atomic.Bool // the server speaks HTTP/1
}

// RoundTrip sends the request.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.plain.Load() {
		return t.many.RoundTrip(r)
	}
	answer, err := t.shared.RoundTrip(r)
	if err == nil && answer.ProtoMajor < 2 {
		t.plain.Store(true)
	}
	return answer, err
}

func (t *transport) closeIdle() {
	t.shared.CloseIdleConnections()
	t.many.CloseIdleConnections()
}
