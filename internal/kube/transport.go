package kube

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	k8stransport "k8s.io/client-go/transport"
	"k8s.io/client-go/util/connrotation"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/span"
)

// probes is how often a connection on which nothing arrives is asked for a sign of life.
const probes = 2

// sharedStreams is how many watches go through the connection of the requests, which is one for each of the kinds of a
// common cluster. API servers take some 100 requests at a time on a connection; the rest is for work.
const sharedStreams = 80

// resumed is the number of TLS sessions kept per cluster, so that a connection that idled out is made again
// without the cost of certificates.
const resumed = 2

// connect makes the HTTP client. client-go's own transports stay in a table of the process; these are the
// cluster's and go with it.
func (c *Cluster) connect(access *rest.Config) error {
	base, _, err := rest.DefaultServerUrlFor(access)
	if err != nil {
		return fail.Wrap(err, fail.Invalid, "the kubeconfig cannot be used: clusters[].cluster.server is not a URL")
	}
	// The probes are for HTTP/1, which has no pings.
	access.Dial = (&net.Dialer{Timeout: c.config.Dial, Control: c.config.Networks.Control, KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: policy.Silence, Interval: policy.Mute / probes, Count: probes,
	}}).DialContext
	dial, secure, err := dialing(access)
	if err != nil {
		return fail.Wrap(err, fail.Invalid, "the kubeconfig cannot be used: certificate-authority-data of its cluster, or client-certificate-data and client-key-data of its user, is no PEM in base64, or the key is not the certificate's")
	}
	var certificate *rotating
	switch { // a session that is resumed has the certificate with which it began
	case secure == nil:
	case access.CertFile != "" && len(access.CertData) == 0 && secure.GetClientCertificate != nil:
		certificate = &rotating{load: secure.GetClientCertificate, ConnectionTracker: connrotation.NewConnectionTracker()}
		secure.GetClientCertificate, dial = certificate.get, connrotation.NewDialerWithTracker(dial, certificate.ConnectionTracker).DialContext
	case access.ExecProvider == nil:
		secure.ClientSessionCache = tls.NewLRUClientSessionCache(resumed)
	}
	proxy := http.ProxyFromEnvironment
	if access.Proxy != nil {
		proxy = access.Proxy
	}
	build := func(connections int) *http.Transport {
		return &http.Transport{
			Proxy:               proxy,
			DialContext:         dial,
			TLSClientConfig:     secure.Clone(),
			TLSHandshakeTimeout: c.config.Handshake,
			IdleConnTimeout:     c.config.Idle,
			MaxConnsPerHost:     connections,
			MaxIdleConnsPerHost: connections,
			DisableCompression:  true, // most answers are thrown away unread
			ForceAttemptHTTP2:   true,
			HTTP2:               &http.HTTP2Config{SendPingTimeout: policy.Silence, PingTimeout: policy.Mute},
		}
	}
	c.base = strings.TrimSuffix(base.String(), "/")
	c.transport = &transport{
		shared: build(1), many: build(c.config.Parallel), streams: build(0),
		seats: make(chan struct{}, sharedStreams), opening: make(chan struct{}, 1), certificate: certificate,
	}
	if c.client, err = authorized(access, c.transport); err != nil {
		return err
	}
	c.streams, err = authorized(access, c.transport.streams)
	return err
}

// dialing says how to connect, and how with TLS, nil for a URL without. A program that finds certificates has connections closed when it has found
// another one: API servers go by the certificate with which a connection began.
func dialing(access *rest.Config) (dial connrotation.DialFunc, secure *tls.Config, err error) {
	found, err := access.TransportConfig()
	if err != nil {
		return nil, nil, err
	}
	secure, err = k8stransport.TLSConfigFor(found)
	return found.DialHolder.Dial, secure, err
}

// rotating is a client certificate in files that somebody writes anew before it expires.
type rotating struct {
	*connrotation.ConnectionTracker
	load func(*tls.CertificateRequestInfo) (*tls.Certificate, error)

	mu   sync.Mutex
	used *tls.Certificate // the oldest one with which a connection may have begun
}

// get gives the certificate for a connection that begins.
func (r *rotating) get(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	now, err := r.load(asked)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used == nil {
		r.used = now
	}
	return now, nil
}

// refused closes the connections when the files have another certificate than they began with: API servers judge that one at each request, so that
// they would refuse it for ever.
func (r *rotating) refused() {
	if r == nil {
		return
	}
	now, err := r.load(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil || r.used == nil || slices.EqualFunc(now.Certificate, r.used.Certificate, bytes.Equal) {
		return
	}
	r.used = now
	r.CloseAll()
}

// authorized is a client with the kubeconfig's credentials.
func authorized(access *rest.Config, t http.RoundTripper) (*http.Client, error) {
	wrapped, err := rest.HTTPWrappersForConfig(access, t)
	if err != nil {
		return nil, fail.Wrap(err, fail.Invalid, "the kubeconfig cannot be used: the credentials in users[].user cannot be made use of; use a token or a certificate")
	}
	if access.ExecProvider != nil || access.AuthProvider != nil || access.BearerTokenFile != "" {
		wrapped = &impatient{next: wrapped, going: make(chan struct{}, sharedStreams)}
	}
	return &http.Client{
		Transport: wrapped,
		// An API server does not redirect, and a redirected PATCH would become a GET.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// impatient gives up when a request's context ends. What finds credentials by a program or a file minds no context, and does so under a lock.
type impatient struct {
	next  http.RoundTripper
	going chan struct{} // has one in it for each that has not come back, given up or not
}

// RoundTrip implements http.RoundTripper.
func (i *impatient) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	select {
	case i.going <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	type outcome struct {
		answer *http.Response
		err    error
	}
	came, left := make(chan outcome), make(chan struct{})
	go func() {
		defer func() { <-i.going }()
		answer, err := panics.Value(ctx, func() (*http.Response, error) { return i.next.RoundTrip(r) })
		select {
		case came <- outcome{answer, err}:
		case <-left:
			if err == nil {
				_ = answer.Body.Close()
			}
		}
	}()
	select {
	case o := <-came:
		return o.answer, o.err
	case <-ctx.Done():
		close(left)
		return nil, context.Cause(ctx)
	}
}

// transport makes one connection and sends everything through it, as HTTP/2 can. Without this bound, the
// requests that find no connection make one each: at the start of a job that would be a TLS handshake per
// request instead of one. A server that turns out to speak HTTP/1 gets a connection per request.
type transport struct {
	shared, many *http.Transport
	plain        atomic.Bool // the server speaks HTTP/1

	streams *http.Transport // for the watches that are too many for shared; it makes what connections it needs
	seats   chan struct{}   // holds one for each watch that goes through shared
	opening chan struct{}   // holds one while a watch begins on streams

	certificate *rotating // nil where the client's does not come from files
}

// seat is where a watch goes through.
type seat struct {
	client *http.Client
	opened func() // to be called when the watch has begun, or has not
	leave  func() // to be called at its end
}

// seat finds a watch's place. Those on streams begin one after the other: each finds the connection that one before it
// made, where all would make one otherwise.
func (c *Cluster) seat(ctx context.Context) (seat, error) {
	t := c.transport
	if t.plain.Load() {
		return seat{c.streams, func() {}, func() {}}, nil
	}
	select {
	case t.seats <- struct{}{}:
		return seat{c.client, func() {}, func() { <-t.seats }}, nil
	default:
	}
	select {
	case <-ctx.Done():
		return seat{}, context.Cause(ctx)
	case t.opening <- struct{}{}:
		return seat{c.streams, func() { <-t.opening }, func() {}}, nil
	}
}

// RoundTrip sends the request, unless it is a write of who has lost the lease to write.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	r, err := guarded(r)
	if err != nil {
		return nil, err
	}
	return span.Request(r, t.measured)
}

func (t *transport) measured(r *http.Request) (*http.Response, error) {
	begun := time.Now()
	answer, err := t.send(r)
	measure.ClusterDuration.Record(time.Since(begun).Seconds(), r.Method, class(answer))
	return answer, err
}

func (t *transport) send(r *http.Request) (*http.Response, error) {
	if t.plain.Load() {
		return t.many.RoundTrip(r)
	}
	answer, err := t.shared.RoundTrip(r)
	if err == nil && answer.ProtoMajor < 2 {
		t.plain.Store(true)
	}
	return answer, err
}

// class is that of an answer's status code, nil for no answer.
func class(answer *http.Response) string {
	if answer == nil {
		return measure.Failed
	}
	classes := [...]string{"", "1xx", "2xx", "3xx", "4xx", "5xx"}
	return classes[min(max(answer.StatusCode/100, 0), len(classes)-1)]
}

func (t *transport) closeIdle() {
	t.shared.CloseIdleConnections()
	t.many.CloseIdleConnections()
	t.streams.CloseIdleConnections()
}
