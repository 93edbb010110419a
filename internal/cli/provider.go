package cli

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/connections"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/hosts"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/policy"
)

// How long a login may take, each question to a provider, and the one to the API how one logs in there. A token is replaced when it is good for
// less than tokenLeast.
const (
	loginTime    = 10 * time.Minute
	providerTime = 10 * time.Second
	hintTime     = 2 * time.Second
	tokenLeast   = 30 * time.Second
)

// provider is an OpenID provider, as its client for this command sees it.
type provider struct {
	*oauth2.Config
	of     *oidc.Provider
	http   *http.Client
	scopes []string // that it knows
	revoke string   // where a token is given back, "" for nowhere
}

// provider reads what a provider says of itself. A token, and what proves who the user is, goes to it: so it has to be https, or this machine.
func (s *session) provider(ctx context.Context, issuer, clientID, ca string) (*provider, error) {
	if why := unsafe(issuer); why != "" {
		return nil, fail.New(fail.Invalid, "the issuer %q %s", issuer, why)
	}
	secured := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		var err error
		if secured.RootCAs, err = poolOf(ca); err != nil {
			return nil, err
		}
	}
	p := &provider{http: &http.Client{
		Timeout: providerTime, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: secured, ForceAttemptHTTP2: true, DisableKeepAlives: true},
	}}
	var err error
	if p.of, err = oidc.NewProvider(p.in(ctx), issuer); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fail.New(fail.Unavailable, "the issuer %s does not answer as one: %s", issuer, printable(root(err).Error()))
	}
	var says struct {
		Scopes []string `json:"scopes_supported"`
		Revoke string   `json:"revocation_endpoint"`
	}
	if err := p.of.Claims(&says); err != nil {
		return nil, fail.New(fail.Unavailable, "what the issuer %s says of itself cannot be read: %s", issuer, printable(root(err).Error()))
	}
	p.Config, p.scopes = &oauth2.Config{ClientID: clientID, Endpoint: p.of.Endpoint()}, says.Scopes
	p.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	for _, of := range []string{p.Endpoint.AuthURL, p.Endpoint.TokenURL, p.Endpoint.DeviceAuthURL} {
		if why := unsafe(of); of != "" && why != "" {
			return nil, fail.New(fail.Invalid, "the issuer %s names %q, which %s", issuer, of, why)
		}
	}
	if unsafe(says.Revoke) == "" {
		p.revoke = says.Revoke
	}
	return p, nil
}

// in is ctx for a package that finds its client there.
func (p *provider) in(ctx context.Context) context.Context { return oidc.ClientContext(ctx, p.http) }

// unsafe says why nothing may be sent to an address that may prove who somebody is; "" when it may.
func unsafe(address string) string {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.User != nil:
		return "is no address"
	case u.Scheme == "https", u.Scheme == "http" && hosts.Loopback(u.Hostname()):
		return ""
	default:
		return "has to be https"
	}
}

// ask sets what is asked for: what is configured, else what says who somebody is, as far as the provider knows that.
func (p *provider) ask(configured []string) {
	p.Scopes = configured
	if len(configured) > 0 {
		return
	}
	p.Scopes = []string{oidc.ScopeOpenID}
	for _, scope := range authn.WantedScopes {
		if slices.Contains(p.scopes, scope) {
			p.Scopes = append(p.Scopes, scope)
		}
	}
}

// idToken is the ID token of what a provider has given.
func (p *provider) idToken(ctx context.Context, given *oauth2.Token, nonce string) (string, error) {
	text, _ := given.Extra("id_token").(string)
	if text == "" {
		return "", fail.New(fail.Forbidden, "the issuer has given no ID token: does it know the scope openid?")
	}
	token, err := p.of.Verifier(&oidc.Config{ClientID: p.ClientID}).Verify(p.in(ctx), text)
	if err != nil {
		return "", fail.New(fail.Forbidden, "the ID token of the issuer is not good: %s", err)
	}
	if nonce != "" && subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(nonce)) == 0 {
		return "", fail.New(fail.Forbidden, "the ID token is of another login")
	}
	return text, nil
}

// byBrowser has the user log in at the provider, by a browser that comes back to this machine (RFC 8252, RFC 7636).
func (s *session) byBrowser(ctx context.Context, p *provider, redirect string, open bool) (*oauth2.Token, string, error) {
	u, err := url.Parse(redirect)
	if err != nil || u.Scheme != "http" || !hosts.Loopback(u.Hostname()) {
		return nil, "", fail.New(fail.Invalid, "the API says that browsers come back to %q, which is not this machine", redirect)
	}
	host := u.Hostname()
	if host == "localhost" {
		host = "127.0.0.1"
	}
	l, err := connections.Listen(ctx, net.JoinHostPort(host, or(u.Port(), "0")), "the browser")
	if err != nil {
		return nil, "", fail.New(fail.Unavailable, "this machine cannot wait for the browser: %s", err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	u.Host = net.JoinHostPort(u.Hostname(), port)
	p.RedirectURL = u.String()
	state, nonce, verifier := oauth2.GenerateVerifier(), oauth2.GenerateVerifier(), oauth2.GenerateVerifier()
	back := make(chan url.Values, 1)
	server := connections.Server(comeBack(u, state, back), slog.New(slog.DiscardHandler), connections.Times{Read: policy.SideRead, Write: policy.SideWrite})
	go func() {
		_ = server.Serve(connections.New(l, slog.New(slog.DiscardHandler), limits.SideConnections, limits.SideAddressConnections))
	}()
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = server.Shutdown(ending) // the browser has its answer
	}()
	address := p.AuthCodeURL(state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier))
	fmt.Fprintf(s.Err, "To log in, open this in a browser on this machine:\n\n  %s\n\n", address)
	if open {
		s.browse(ctx, address)
	}
	var said url.Values
	select {
	case said = <-back:
	case <-ctx.Done():
		return nil, "", context.Cause(ctx)
	}
	if why := refusalIn(said); why != "" {
		return nil, "", fail.New(fail.Forbidden, "the issuer has refused the login: %s", why)
	}
	given, err := p.Exchange(p.in(ctx), said.Get("code"), oauth2.VerifierOption(verifier))
	return given, nonce, refusedBy(err)
}

// refusalIn is why a provider has sent a browser back without a code, "" when it has not.
func refusalIn(said url.Values) string {
	if said.Get("error") == "" {
		return ""
	}
	return printable(strings.TrimSpace(said.Get("error") + " " + said.Get("error_description")))
}

// comeBack answers the browser that comes back from the provider, once, and tells what it says. What is not of this login is refused, and
// waited on: another page may have sent it.
func comeBack(to *url.URL, state string, back chan<- url.Values) http.Handler {
	path := or(to.Path, "/")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, said := w.Header(), r.URL.Query()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Cache-Control", "no-store")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		ours := subtle.ConstantTimeCompare([]byte(said.Get("state")), []byte(state)) == 1
		text := "Drover has what it needs. You may close this tab."
		switch {
		case r.Method != http.MethodGet || r.URL.Path != path:
			w.WriteHeader(http.StatusNotFound)
			text = "There is nothing here."
		case r.Host != to.Host || !ours:
			w.WriteHeader(http.StatusBadRequest)
			text = "This is no answer to the login that goes on."
		default:
			select {
			case back <- said:
				if why := refusalIn(said); why != "" {
					text = "The provider has refused the login: " + why
				}
			default:
				text = "The login has been answered before."
			}
		}
		_, _ = fmt.Fprintf(w, "<!doctype html><title>Drover</title><p>%s</p>\n", html.EscapeString(text))
	})
}

// browse opens an address in a browser, where there is one. It may fail: the address is printed.
func (s *session) browse(ctx context.Context, address string) {
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	} else if s.Getenv("DISPLAY") == "" && s.Getenv("WAYLAND_DISPLAY") == "" {
		return
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return
	}
	command := exec.CommandContext(context.WithoutCancel(ctx), path, address) // #nosec G204 -- an address of http or https
	if command.Start() == nil {
		go func() { _ = command.Wait() }()
	}
}

// byDevice has the user log in on another machine (RFC 8628).
func (s *session) byDevice(ctx context.Context, p *provider) (*oauth2.Token, error) {
	if p.Endpoint.DeviceAuthURL == "" {
		return nil, fail.New(fail.Invalid, "the issuer has no device flow: log in without --device")
	}
	code, err := p.DeviceAuth(p.in(ctx))
	if err != nil {
		return nil, refusedBy(err)
	}
	if why := unsafe(code.VerificationURI); why != "" {
		return nil, fail.New(fail.Invalid, "the issuer names %q, which %s", code.VerificationURI, why)
	}
	fmt.Fprintf(s.Err, "To log in, open this in a browser on any machine, and enter the code:\n\n  %s\n  %s\n\n", code.VerificationURI, code.UserCode)
	given, err := p.DeviceAccessToken(p.in(ctx), code)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil { // of the code, and not of this login
		return nil, fail.New(fail.Timeout, "nobody has entered the code before it expired: log in again")
	}
	return given, refusedBy(err)
}

// refusedBy is an error of a token endpoint. What it answers may have a token in it, and is not repeated. Only a refusal that says why is one (RFC 6749,
// 5.2): a proxy's page, such as of a provider that is started anew, ends no login.
func refusedBy(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	var answered *oauth2.RetrieveError
	switch {
	case !errors.As(err, &answered) || answered.Response == nil:
		return fail.New(fail.Unavailable, "the issuer does not answer: %s", printable(root(err).Error()))
	case answered.ErrorCode == "" || answered.Response.StatusCode >= http.StatusInternalServerError || answered.Response.StatusCode == http.StatusTooManyRequests:
		return fail.New(fail.Unavailable, "the issuer does not answer: what is in its place sends %s. If that stays so, log in again", printable(answered.Response.Status))
	default:
		return fail.New(fail.Unauthorized, "the issuer has refused: %s", printable(strings.TrimSpace(answered.ErrorCode+" "+answered.ErrorDescription)))
	}
}

// refresh asks for another token.
func (p *provider) refresh(ctx context.Context, token string) (*oauth2.Token, error) {
	given, err := p.TokenSource(p.in(ctx), &oauth2.Token{RefreshToken: token}).Token()
	return given, refusedBy(err)
}

// giveBack has a refresh token be good no more.
func (p *provider) giveBack(ctx context.Context, token string) error {
	if p.revoke == "" {
		return errors.New("it names no revocation_endpoint that is https")
	}
	form := url.Values{"token": {token}, "token_type_hint": {"refresh_token"}, "client_id": {p.ClientID}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.revoke, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := p.http.Do(r)
	if err != nil {
		return err
	}
	if err := answer.Body.Close(); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the issuer answers %s", answer.Status)
	}
	return nil
}

// expiryOf is when a token says that it expires; false for one that does not.
func expiryOf(token string) (time.Time, bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}, false
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}, false
	}
	var claims struct {
		Expires float64 `json:"exp"`
	}
	if json.Unmarshal(data, &claims) != nil || claims.Expires == 0 {
		return time.Time{}, false
	}
	return time.Unix(int64(claims.Expires), 0), true
}
