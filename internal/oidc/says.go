package oidc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	upstream "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
)

// says is what a provider says of itself, as it was last asked.
type says struct {
	issuer string
	client *http.Client
	lacks  func(*metadata) error // why that cannot be what is configured; nothing is asked by it then
	flight singleflight.Group

	mu     sync.Mutex
	known  *metadata // nil when the last question has failed
	failed error     // of that
	asked  time.Time // when that was over
}

// metadata is what a provider says (OpenID Connect Discovery 1.0, section 3), as far as logins need it.
type metadata struct {
	oauth2.Endpoint
	Scopes      []string `json:"scopes_supported"`
	Methods     []string `json:"token_endpoint_auth_methods_supported"`
	Algorithms  []string `json:"id_token_signing_alg_values_supported"`
	ResponseIss bool     `json:"authorization_response_iss_parameter_supported"`
	// Revoke is where tokens are given back (RFC 7009, RFC 8414), "" for nowhere.
	Revoke        string   `json:"revocation_endpoint"`
	RevokeMethods []string `json:"revocation_endpoint_auth_methods_supported"`
}

// now is what it says, not older than policy.KeysAge. Unavailable when it does not answer, Internal when what it says is wrong: who asks
// within policy.KeysLeast after that is told the same.
func (s *says) now(ctx context.Context) (*metadata, error) {
	s.mu.Lock()
	known, failed, since := s.known, s.failed, time.Since(s.asked)
	s.mu.Unlock()
	switch {
	case failed != nil && since < policy.KeysLeast:
		return nil, failed
	case known != nil && since < policy.KeysAge:
		return known, nil
	}
	select {
	case r := <-s.flight.DoChan("", func() (any, error) { return s.ask(context.WithoutCancel(ctx)) }):
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*metadata), nil
	case <-ctx.Done():
		return nil, fail.Wrap(ctx.Err(), fail.Unavailable, "the issuer %s does not answer; try again later", s.issuer)
	}
}

// ask asks it, and keeps what came of that.
func (s *says) ask(ctx context.Context) (*metadata, error) {
	m, err := panics.Value(ctx, func() (*metadata, error) { return s.fetch(ctx) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known, s.failed, s.asked = m, err, time.Now()
	return m, err
}

func (s *says) fetch(ctx context.Context) (*metadata, error) {
	ctx, cancel := context.WithTimeout(ctx, policy.Keys)
	defer cancel()
	answered := &answered{of: s.client.Transport}
	client := *s.client
	client.Transport = answered
	p, err := upstream.NewProvider(upstream.ClientContext(ctx, &client), s.issuer)
	if err != nil {
		if answered.wrong() {
			return nil, fail.Wrap(err, fail.Internal, "the issuer %s is none: %s", s.issuer, err)
		}
		return nil, &fail.Error{
			Kind: fail.Unavailable, RetryAfter: policy.KeysLeast, Cause: err, Message: fmt.Sprintf("the issuer %s does not answer; try again later", s.issuer),
		}
	}
	m := &metadata{}
	if err := p.Claims(m); err != nil {
		return nil, fail.Wrap(err, fail.Internal, "what the issuer %s says of itself cannot be read", s.issuer)
	}
	m.Endpoint = p.Endpoint()
	if err := s.lacks(m); err != nil {
		return nil, fail.New(fail.Internal, "the issuer %s %s", s.issuer, err)
	}
	return m, nil
}

// answered notes whether there was an answer, and whether it is one of a server that has no trouble.
type answered struct {
	of   http.RoundTripper
	code int
}

// RoundTrip implements http.RoundTripper.
func (a *answered) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := a.of.RoundTrip(r)
	if err == nil {
		a.code = answer.StatusCode
	}
	return answer, err
}

// wrong says whether asking again would not help.
func (a *answered) wrong() bool { return a.code != 0 && final(a.code) }

// final says whether an answer is one of a server that has no trouble.
func final(code int) bool { return code < 500 && code != http.StatusTooManyRequests }

// Check asks all providers what they say of themselves, and for their keys, and says what is wrong with that: one that is another issuer than it is
// configured as, cannot do what is configured, or has no keys. Of those that do not answer it tells, and they are no reason not to start.
func (p *Providers) Check(ctx context.Context, away func(issuer string, err error)) error {
	found := make([]error, len(p.all))
	var asking sync.WaitGroup
	for i, one := range p.all {
		asking.Go(func() {
			_, err := one.says.now(ctx)
			if err == nil {
				err = one.keys.check(ctx)
			}
			switch {
			case fail.Is(err, fail.Unavailable):
				away(one.URL, err)
			case err != nil:
				found[i] = fmt.Errorf("issuers[%d]: %w", i, err)
			}
		})
	}
	asking.Wait()
	if err := errors.Join(found...); err != nil {
		return fmt.Errorf("--auth-config: %w", err)
	}
	return nil
}

// lacks says what is configured that a provider cannot do. It is looked at each time that the provider has said anew what it is: secrets
// and codes go nowhere in plain, wherever it says that they are to go.
func (p *provider) lacks(m *metadata) error {
	var wrong []string
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if len(m.Algorithms) > 0 && !slices.ContainsFunc(m.Algorithms, func(a string) bool { return slices.Contains(p.Algorithms, a) }) {
		add("signs by %v, none of which is in algorithms", m.Algorithms)
	}
	if why := badEndpoint(m.Revoke); p.Browser != nil && m.Revoke != "" && why != "" {
		add("says the revocation_endpoint %q, which %s", m.Revoke, why)
	}
	if p.Browser != nil || p.Command != nil {
		for _, of := range [][2]string{{"authorization_endpoint", m.AuthURL}, {"token_endpoint", m.TokenURL}} {
			if why := badEndpoint(of[1]); why != "" {
				add("says the %s %q, which %s", of[0], of[1], why)
			}
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(wrong, ", and "))
}

// scopes are those to ask for.
func (m *metadata) scopes(configured []string) []string {
	if len(configured) > 0 {
		return configured
	}
	return ScopesOf(m.Scopes)
}

// ScopesOf are those to ask a provider for that knows some, where none are configured.
func ScopesOf(known []string) []string {
	scopes := []string{upstream.ScopeOpenID}
	for _, s := range authn.WantedScopes {
		if slices.Contains(known, s) {
			scopes = append(scopes, s)
		}
	}
	return scopes
}

// style is how a client with a secret shows it.
func (m *metadata) style(secret string) oauth2.AuthStyle {
	if secret == "" || len(m.Methods) > 0 && !slices.Contains(m.Methods, "client_secret_basic") {
		return oauth2.AuthStyleInParams
	}
	return oauth2.AuthStyleInHeader
}
