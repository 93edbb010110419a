// Package fetch asks hosts that the operator has named for small values. Who asks is a server of ours, and what is asked for is
// said by users: so no other host is asked, nothing leads from one of them to another, and no address of a machine's own network
// segment, where clouds give out credentials, is connected to.
package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/address"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
)

// Deadline is how long an answer may take.
const Deadline = 5 * time.Second

// atOnce is how many connections to a host are kept for what is asked for next.
const atOnce = 16

// Hosts are those that may be asked, and how.
type Hosts struct {
	names  []string // host:port, in small letters
	client *http.Client
	within time.Duration
}

// New takes names of hosts, each with a port where that is not 443. Their certificates are
// verified by roots, those of the system when nil.
func New(names []string, roots *x509.CertPool) *Hosts {
	h := &Hosts{within: Deadline}
	for _, n := range names {
		h.names = append(h.names, withPort(n))
	}
	dialer := &net.Dialer{Control: address.Networks{}.Control}
	h.client = &http.Client{
		Transport: &http.Transport{
			DialContext:            dialer.DialContext,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
			MaxResponseHeaderBytes: limits.ExternalValue,
			MaxIdleConnsPerHost:    atOnce, // until Rest, or for a moment
			IdleConnTimeout:        Deadline,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return h
}

// withPort is a host with a port.
func withPort(host string) string {
	if u, err := url.Parse("https://" + host); err == nil && u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), "443")
	}
	return strings.ToLower(host)
}

// Listed says whether the host of a URL may be asked.
func (h *Hosts) Listed(u *url.URL) bool { return slices.Contains(h.names, withPort(u.Host)) }

// Get is what a host answers. Errors: Malformed for what cannot be asked for, and for an answer that is none; Unavailable and Timeout
// where it may answer later. None of them quotes the answer.
func (h *Hosts) Get(ctx context.Context, u *url.URL) ([]byte, error) {
	switch {
	case !h.Listed(u):
		return nil, fail.New(fail.Malformed, "host %s may not be asked", u.Host)
	case u.Scheme != "https":
		return nil, fail.New(fail.Malformed, "only https is spoken")
	case u.User != nil:
		return nil, fail.New(fail.Malformed, "it has a user name in it, and credentials do not belong into documents")
	}
	ctx, cancel := context.WithTimeout(ctx, h.within)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fail.New(fail.Malformed, "it is no URL")
	}
	request.Header.Set("Accept", "application/json")
	answer, err := h.client.Do(request)
	if err != nil {
		return nil, h.kindOf(u, err)
	}
	defer answer.Body.Close()
	switch code := answer.StatusCode; {
	case code == http.StatusOK:
	case code == http.StatusTooManyRequests || code >= 500:
		return nil, fail.New(fail.Unavailable, "host %s answers with %d", u.Host, code)
	case code >= 300 && code < 400:
		return nil, fail.New(fail.Malformed, "host %s answers with %d: nobody is led elsewhere", u.Host, code)
	default:
		return nil, fail.New(fail.Malformed, "host %s answers with %d", u.Host, code)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, limits.ExternalValue+1))
	if err != nil {
		return nil, h.kindOf(u, err)
	}
	if len(body) > limits.ExternalValue {
		return nil, fail.New(fail.Malformed, "host %s answers with more than %d bytes", u.Host, limits.ExternalValue)
	}
	return body, nil
}

// Rest closes connections that nobody uses. Who has asked for several values calls it then.
func (h *Hosts) Rest() { h.client.CloseIdleConnections() }

// kindOf turns an error of the client into one of ours. Its text names the host alone, and so does its cause, which is logged: the query of a URL
// may be a secret.
func (h *Hosts) kindOf(u *url.URL, err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	var timeout net.Error
	var certificate *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	switch {
	case fail.Is(err, fail.Forbidden): // package address
		return fail.Wrap(err, fail.Malformed, "host %s has an address that nobody may ask", u.Host)
	case errors.As(err, &certificate), errors.As(err, &plain):
		return fail.Wrap(err, fail.Malformed, "the certificate of host %s cannot be verified", u.Host)
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return fail.Wrap(err, fail.Timeout, "host %s does not answer within %s", u.Host, h.within)
	default:
		return fail.Wrap(err, fail.Unavailable, "host %s does not answer", u.Host)
	}
}
