// Package oidc tells users by the bearer tokens of OpenID providers. A provider that does not answer keeps nobody out whose token is
// by a key that is known: its keys are kept until it says others. A start needs none of them.
package oidc

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	upstream "github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lru"
	"github.com/drover-io/drover/internal/nearest"
	"github.com/drover-io/drover/internal/token"
)

// Providers are all that tokens may be of, by the URL of the issuer.
type Providers struct {
	all    []*provider // in the order of the file
	by     map[string]*provider
	now    func() time.Time
	proven *lru.Weighed[[sha256.Size]byte, *proven] // by the hash of the token
}

// proven is a token that was looked at. What it says is good as long as its time, and as its issuer has the keys that it had then: a check
// of the signature takes longer than all else that is asked of a caller.
type proven struct {
	*authn.Proof
	by     *provider
	keys   int       // the turn of the issuer's keys
	begins time.Time // before which it is not good yet
}

// mostProven and provenBytes bound the tokens that are kept. Each takes heldOfProof bytes, about, and its groups.
const mostProven, provenBytes, heldOfProof = 10_000, 32 << 20, 500

// good says whether a token need not be looked at again.
func (p *proven) good(now time.Time) bool {
	p.by.keys.age()
	return p.keys == p.by.keys.turn() && now.Before(p.Expires) && !now.Add(p.by.skew).Before(p.begins)
}

type provider struct {
	Issuer
	skew     time.Duration
	keys     *keys
	says     *says
	accepted []jose.SignatureAlgorithm
}

// New makes the providers of a config that was read.
func New(c *Config, now func() time.Time) (*Providers, error) {
	p := &Providers{by: map[string]*provider{}, now: now, proven: lru.NewWeighed[[sha256.Size]byte, *proven](mostProven, provenBytes)}
	for _, issuer := range c.Issuers {
		skew, err := time.ParseDuration(issuer.ClockSkew)
		if err != nil {
			return nil, err
		}
		known, err := newKeys(issuer.URL, issuer.CA)
		if err != nil {
			return nil, fmt.Errorf("issuer %s: %w", issuer.URL, err)
		}
		one := &provider{Issuer: issuer, skew: skew, keys: known, says: &says{issuer: issuer.URL, client: known.client}}
		one.says.lacks = one.lacks
		for _, a := range issuer.Algorithms {
			one.accepted = append(one.accepted, jose.SignatureAlgorithm(a))
		}
		p.all, p.by[issuer.URL] = append(p.all, one), one
	}
	return p, nil
}

// Prove is an authn.Prover for tokens that are no token of ours.
func (p *Providers) Prove(ctx context.Context, s *authn.Shown) (*authn.Proof, error) {
	text, err := s.Bearer()
	if err != nil || text == "" || strings.HasPrefix(text, token.Prefix) {
		return nil, err
	}
	return p.proofOf(ctx, text)
}

// proofOf is who a token names. One that was good is not looked at again before its time is over, or its issuer says other keys.
func (p *Providers) proofOf(ctx context.Context, text string) (*authn.Proof, error) {
	name, now := sha256.Sum256([]byte(text)), p.now()
	if known, ok := p.proven.Get(name); ok {
		if known.good(now) {
			again := *known.Proof
			return &again, nil
		}
		p.proven.Remove(name)
	}
	issuer, ok := issuerOf(text)
	if !ok {
		return nil, authn.Unknown()
	}
	of := p.by[issuer]
	if of == nil {
		return nil, fail.New(fail.Unauthorized, "the bearer token is of the issuer %q, which is not known here (--auth-config)", spoken(issuer))
	}
	turn := of.keys.turn() // before they are looked at: others that come meanwhile have it looked at again
	proof, t, err := of.prove(ctx, text, now)
	if err != nil {
		return nil, err
	}
	kept := *proof
	p.proven.Add(name, &proven{Proof: &kept, by: of, keys: turn, begins: begins(t)}, heldOfProof+domain.WeightOfTexts(kept.Groups))
	return proof, nil
}

// begins is before when a token that was looked at is not good, zero when it says nothing of that.
func begins(t *upstream.IDToken) time.Time {
	var claims map[string]any
	if err := t.Claims(&claims); err != nil {
		return time.Time{}
	}
	at, _ := timeOf(claims, "nbf") // it was looked at
	return at
}

// said is what a token says; nothing is checked.
type said struct {
	Issuer  string  `json:"iss"`
	Subject string  `json:"sub"`
	Expires float64 `json:"exp"`
}

func saidBy(text string) (claims said, ok bool) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return claims, false
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return claims, false
	}
	return claims, json.Unmarshal(data, &claims) == nil
}

// issuerOf is who says to have made a token, and subjectOf whom it is about; expiryOf is when it expires.
func issuerOf(text string) (issuer string, ok bool) {
	claims, ok := saidBy(text)
	return claims.Issuer, ok
}

func subjectOf(text string) string {
	claims, _ := saidBy(text)
	return claims.Subject
}

func expiryOf(text string) (time.Time, bool) {
	claims, ok := saidBy(text)
	return time.Unix(int64(claims.Expires), 0), ok
}

func refused(format string, args ...any) error {
	return fail.New(fail.Unauthorized, "the bearer token is not accepted: "+format, args...)
}

// prove is also what the token says.
func (p *provider) prove(ctx context.Context, text string, now time.Time) (*authn.Proof, *upstream.IDToken, error) {
	signed, err := jose.ParseSigned(text, p.accepted)
	if err != nil || len(signed.Signatures) != 1 {
		return nil, nil, refused("it is no JSON web token with one signature by %s", strings.Join(p.Algorithms, " or "))
	}
	id := signed.Signatures[0].Header.KeyID
	found, err := p.keys.find(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	by := &signer{among: found}
	verifier := upstream.NewVerifier(p.URL, by, &upstream.Config{
		SupportedSigningAlgs: p.Algorithms, SkipClientIDCheck: true, SkipExpiryCheck: true, // of both there is more to say, below
	})
	t, err := verifier.Verify(ctx, text)
	if err != nil {
		return nil, nil, fail.Wrap(err, fail.Unauthorized, "the bearer token is not accepted: none of its issuer's keys has made it")
	}
	who, err := p.identity(t, now)
	if err != nil {
		return nil, nil, err
	}
	return &authn.Proof{Identity: who, Still: func(context.Context) error {
		if p.keys.age(); !p.keys.have(by.found) { // another one may have its id by now
			return refused("its issuer has taken back the key")
		}
		return nil
	}}, t, nil
}

// identity is whom a token names whose signature is good.
func (p *provider) identity(t *upstream.IDToken, now time.Time) (who caller.Identity, err error) {
	var claims map[string]any
	if err := t.Claims(&claims); err != nil {
		return who, refused("its claims cannot be read")
	}
	if err := plain(t, claims); err != nil {
		return who, err
	}
	if _, err := timeOf(claims, "exp"); err != nil {
		return who, err
	}
	until := t.Expiry.Add(p.skew)
	if until.After(lastSaid) {
		until = lastSaid
	}
	switch begins, err := timeOf(claims, "nbf"); {
	case t.Expiry.IsZero():
		return who, refused("it says no time at which it expires")
	case !now.Before(until):
		return who, refused("it has expired")
	case err != nil:
		return who, err
	case now.Add(p.skew).Before(begins):
		return who, refused("its time has not begun")
	}
	if !slices.ContainsFunc(t.Audience, func(a string) bool { return slices.Contains(p.Audiences, a) }) {
		return who, refused("it is for others: its audience is none of those that are configured")
	}
	name, _ := claims[p.UserClaim].(string)
	if name == "" {
		return who, refused("its claim %q names no user", p.UserClaim)
	}
	if verified, said := claims["email_verified"]; p.UserClaim == "email" && said && verified != true {
		return who, refused("its email was not verified")
	}
	who = caller.Identity{Kind: caller.User, Name: p.Prefix + name, By: "oidc " + p.URL, Expires: until}
	switch groups := claims[p.GroupsClaim].(type) {
	case nil:
	case string:
		who.Groups = []string{p.Prefix + groups}
	case []any:
		for _, g := range groups {
			group, ok := g.(string)
			if !ok {
				return who, refused("its claim %q lists what is no name", p.GroupsClaim)
			}
			who.Groups = append(who.Groups, p.Prefix+group)
		}
	default:
		return who, refused("its claim %q is no list of names", p.GroupsClaim)
	}
	return who, nil
}

// registered are the claims that a decoder finds whatever their case. Providers sign claims that users or clients have chosen, and let them choose
// no name that they write themselves; AUD is none of those, and would count as aud.
var registered = []string{"iss", "sub", "aud", "exp", "nbf", "iat", "nonce", "azp"}

// plain refuses claims of which another reader may have read others than this one does.
func plain(t *upstream.IDToken, claims map[string]any) error {
	var all json.RawMessage
	if err := t.Claims(&all); err != nil {
		return refused("its claims cannot be read")
	}
	if path, _, found := nearest.Twice(&claims, all); found {
		return refused("its claim %q is there twice", path)
	}
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		for _, known := range registered {
			if name != known && strings.EqualFold(name, known) {
				return refused("its claim %q is called as %q is", name, known)
			}
		}
	}
	return nil
}

// latest is the last second that a claim may name, beyond what a certificate may (9999). A greater number would be taken for one of long ago.
const latest = 1 << 38

// lastSaid is the last second that JSON can say (RFC 3339). Issuers name it, or one after it, of tokens that never expire.
var lastSaid = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)

// timeOf is a claim with a time, zero when it is missing.
func timeOf(claims map[string]any, name string) (time.Time, error) {
	switch n := claims[name].(type) {
	case nil:
		return time.Time{}, nil
	case float64:
		if n < -latest || n > latest {
			return time.Time{}, refused("its claim %q is no time", name)
		}
		return time.Unix(int64(n), 0), nil
	default:
		return time.Time{}, refused("its claim %q is no time", name)
	}
}
