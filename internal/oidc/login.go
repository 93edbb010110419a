package oidc

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	upstream "github.com/coreos/go-oidc/v3/oidc"

	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/policy"
)

// Sealer seals what a browser keeps while its user is at the provider: any process can open it.
type Sealer interface {
	SealBytes(bound string, plain []byte) ([]byte, error)
	OpenBytes(bound string, sealed []byte) ([]byte, error)
}

// sealedLogin is what that is bound to.
const sealedLogin = "login of a browser"

// pending is a login that goes on at a provider. The browser has it, sealed.
type pending struct {
	Issuer   string    `json:"issuer"`
	State    string    `json:"state"`    // comes back with the answer
	Nonce    string    `json:"nonce"`    // comes back in the token
	Verifier string    `json:"verifier"` // of PKCE (RFC 7636)
	Secret   string    `json:"secret"`   // of the session to be: two answers to one login are one session
	To       string    `json:"to"`       // where in the page the user was
	Until    time.Time `json:"until"`
}

// Offers are the providers at which people log in.
func (p *Providers) Offers() []authn.Offer {
	offers := []authn.Offer{}
	for _, one := range p.all {
		o := authn.Offer{Name: one.Name, Issuer: one.URL, Browser: one.Browser != nil}
		if c := one.Command; c != nil {
			o.Command = &authn.CommandClient{ClientID: c.ClientID, RedirectURL: c.RedirectURL, Scopes: c.Scopes}
		}
		offers = append(offers, o)
	}
	return offers
}

// Callback is the URL to which providers send browsers back, "" where nobody logs in at the page.
func (p *Providers) Callback() string {
	for _, one := range p.all {
		if one.Browser != nil {
			return one.Browser.RedirectURL
		}
	}
	return ""
}

// maxTo bounds where in the page somebody comes back to, in bytes.
const maxTo = 1024

// Begin begins a login at a provider: the browser goes to address, and keeps what is sealed. to is where in the page it comes back to.
// NotFound for an issuer at which nobody logs in here, Unavailable while too many strangers begin.
func (s *Sessions) Begin(ctx context.Context, issuer, to string) (address, sealed string, err error) {
	p := s.Providers.by[issuer]
	if p == nil || p.Browser == nil {
		return "", "", fail.New(fail.NotFound, "nobody logs in here at the issuer %q", issuer)
	}
	if len(to) > maxTo {
		to = ""
	}
	ctx, cancel := context.WithTimeoutCause(ctx, policy.Keys, fail.New(fail.Unavailable, "too many logins are begun at a time; try again later"))
	defer cancel()
	leave, err := s.begins.Take(ctx, caller.RemoteOf(ctx))
	if err != nil {
		return "", "", err
	}
	defer leave()
	client, m, err := p.client(ctx)
	if err != nil {
		return "", "", err
	}
	login := pending{
		Issuer: issuer, State: random(), Nonce: random(), Verifier: oauth2.GenerateVerifier(), Secret: random(), To: to, Until: s.Now().Add(policy.Login),
	}
	plain, err := json.Marshal(login)
	if err != nil {
		return "", "", err
	}
	data, err := s.Sealer.SealBytes(sealedLogin, plain)
	if err != nil {
		return "", "", err
	}
	client.Scopes = m.scopes(p.Browser.Scopes)
	address = client.AuthCodeURL(login.State, upstream.Nonce(login.Nonce), oauth2.S256ChallengeOption(login.Verifier))
	return address, base64.RawURLEncoding.EncodeToString(data), nil
}

// random is a text that nobody guesses: 256 bits.
func random() string {
	b := make([]byte, sha256.Size)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// client is that of the page.
func (p *provider) client(ctx context.Context) (*oauth2.Config, *metadata, error) {
	m, err := p.says.now(ctx)
	if err != nil {
		return nil, nil, err
	}
	secret, err := p.Browser.secret()
	if err != nil {
		return nil, nil, fail.Wrap(err, fail.Internal, "the secret of the client cannot be read")
	}
	c := &oauth2.Config{ClientID: p.Browser.ClientID, ClientSecret: secret, Endpoint: m.Endpoint, RedirectURL: p.Browser.RedirectURL}
	c.Endpoint.AuthStyle = m.style(secret)
	return c, m, nil
}

func lost(why string) error {
	return fail.New(fail.Unauthorized, "this login cannot be completed: %s; log in again", why)
}

// Answer completes a login with what the provider has sent the browser back with, and what the browser has kept. Unauthorized for an
// answer to another login, or to none, and when the provider has refused it.
func (s *Sessions) Answer(ctx context.Context, sealed string, said url.Values) (*authn.Login, error) {
	login, err := s.pending(sealed, said)
	if err != nil {
		return nil, err
	}
	p := s.Providers.by[login.Issuer]
	if p == nil || p.Browser == nil {
		return nil, lost("its issuer is not configured any more")
	}
	if iss := said.Get("iss"); iss != "" && iss != p.URL { // RFC 9207
		return nil, lost("it was another issuer that has answered")
	}
	if why := said.Get("error"); why != "" {
		return nil, fail.New(fail.Unauthorized, "%s has refused the login: %s", p.Name, spoken(why, said.Get("error_description")))
	}
	if said.Get("code") == "" {
		return nil, lost("the answer of the issuer has no code")
	}
	leave, err := s.answers.Take(ctx, caller.RemoteOf(ctx))
	if err != nil {
		return nil, err
	}
	defer leave()
	client, says, err := p.client(ctx)
	if err != nil {
		return nil, err
	}
	if says.ResponseIss && said.Get("iss") == "" { // so that its code goes to no other one, who has sent the browser there (RFC 9207, 2.4)
		return nil, lost("the issuer says who it is in each answer, and did not in this one")
	}
	given, err := client.Exchange(upstream.ClientContext(ctx, p.keys.client), said.Get("code"), oauth2.VerifierOption(login.Verifier))
	if err != nil {
		return nil, p.refusal(err, "the issuer does not know the code, or it was used before")
	}
	text, _ := given.Extra("id_token").(string)
	proof, token, err := p.prove(ctx, text, s.Now())
	switch {
	case err != nil:
		return nil, err
	case subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(login.Nonce)) == 0:
		return nil, lost("the token is of another login")
	case !slices.Contains(token.Audience, p.Browser.ClientID):
		return nil, lost("the token is for another client")
	}
	id := authn.SessionID(login.Secret)
	proof.By = byOf(proof.By, id)
	return &authn.Login{
		Proof: proof, Secret: login.Secret, ID: id, Expires: s.Now().Add(policy.SessionLife), To: login.To, Token: text, Refresh: given.RefreshToken,
	}, nil
}

// pending is the login that an answer is to.
func (s *Sessions) pending(sealed string, said url.Values) (*pending, error) {
	data, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil || sealed == "" {
		return nil, lost("it was not begun in this browser, or too long ago")
	}
	plain, err := s.Sealer.OpenBytes(sealedLogin, data)
	login := &pending{}
	if err != nil || json.Unmarshal(plain, login) != nil {
		return nil, lost("it was not begun here")
	}
	if subtle.ConstantTimeCompare([]byte(said.Get("state")), []byte(login.State)) == 0 {
		return nil, fail.Wrap(authn.ErrOther, fail.Unauthorized, "this login cannot be completed: another one was begun in this browser; complete that one, or log in again")
	}
	if !s.Now().Before(login.Until) {
		return nil, lost("it was begun too long ago")
	}
	return login, nil
}

// maxSaid bounds what is repeated of what somebody has put into an address, in bytes.
const maxSaid = 200

// spoken is an error of a provider for people.
func spoken(words ...string) string {
	text := strings.TrimSpace(strings.Join(words, " "))
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text[:min(len(text), maxSaid)], ""))
}

// refusal is what becomes of an answer of the token endpoint that is none.
func (p *provider) refusal(err error, why string) error {
	var answered *oauth2.RetrieveError
	if errors.As(err, &answered) && answered.Response != nil {
		switch code := answered.Response.StatusCode; {
		case answered.ErrorCode == "invalid_client" || answered.ErrorCode == "unauthorized_client":
			return fail.Wrap(errors.New(answered.ErrorCode), fail.Internal, "the issuer %s does not know the client %q, or its secret", p.URL, p.Browser.ClientID)
		case answered.ErrorCode != "" && code < http.StatusInternalServerError && code != http.StatusTooManyRequests: // a refusal says why (RFC 6749, 5.2); a page of a proxy does not
			return lost(why)
		}
	}
	// The error may quote the answer, and so a token.
	return &fail.Error{Kind: fail.Unavailable, RetryAfter: policy.KeysLeast, Message: "the issuer " + p.URL + " does not answer; try again later"}
}

// byOf says that a session stands for a proof.
func byOf(by, id string) string { return by + " " + string(domain.SessionKey(id)) }
