package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/policy"
)

// Logins let people in at the page, by OpenID providers. oidc.Sessions has them.
type Logins interface {
	// Begin begins a login at an issuer: where the browser is to go, and what it is to keep meanwhile. to is where in the page it comes back to.
	Begin(ctx context.Context, issuer, to string) (address, sealed string, err error)
	// Answer completes one with what the provider has sent the browser back with.
	Answer(ctx context.Context, sealed string, said url.Values) (*authn.Login, error)
	// Keep stores the session that has come of it, and End ends one: left is what stays good at the provider, "" when nothing does.
	Keep(ctx context.Context, l *authn.Login) error
	End(ctx context.Context, secret string) (left string, err error)
}

// Login says how people log in.
type Login struct {
	Offers authn.Offers
	Logins Logins // nil where nobody logs in at the page
	// Secure says that browsers reach the page by https, so that they send cookies by nothing else.
	Secure bool
	// Address is where people come back to from a provider. Browsers send a host's cookies to all of its ports, so that another Drover of this host
	// would end a session that it does not know: each has cookies of its own, by this.
	Address string
}

// The routes of logins. They are beside the API: nobody is known there yet.
const (
	loginPath     = "/login"
	offersPath    = "/login/providers"
	callbackPath  = "/login/callback"
	logoutPath    = "/logout"
	sessionCookie = "drover-session"
	loginCookie   = "drover-login" // while a login goes on
)

// cookieName is that of a cookie of ours. By https it has a prefix by which browsers take it from this host alone.
func (l *Login) cookieName(name string) string {
	if l.Address != "" {
		sum := sha256.Sum256([]byte(l.Address))
		name += "-" + hex.EncodeToString(sum[:4])
	}
	if l.Secure {
		return "__Host-" + name
	}
	return name
}

// cookie is one of ours, "" takes it away.
func (l *Login) cookie(name, value string, lasts time.Duration, site http.SameSite) *http.Cookie {
	c := &http.Cookie{Name: l.cookieName(name), Value: value, Path: "/", HttpOnly: true, Secure: l.Secure, SameSite: site, MaxAge: int(lasts / time.Second)}
	if value == "" {
		c.MaxAge = -1
	}
	return c
}

// shown is the value of a cookie of ours, "" for none. One that is there twice is none of ours: another server of this host has set it.
func (l *Login) shown(r *http.Request, name string) string {
	if all := r.CookiesNamed(l.cookieName(name)); len(all) == 1 {
		return all[0].Value
	}
	return ""
}

// session is the secret of the session that a request shows. A browser sends it for pages of others, too, if they are of another port of
// this host: it counts for ours alone.
func (l *Login) session(r *http.Request) string {
	if l.Logins == nil {
		return ""
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return l.shown(r, sessionCookie)
	default:
		return ""
	}
}

// serveLogin adds the routes of logins.
func (e *edge) serveLogin(router *echo.Echo) {
	router.GET(offersPath, func(c echo.Context) error {
		c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
		return c.JSON(http.StatusOK, e.login.Offers)
	})
	if e.login.Logins == nil {
		return
	}
	router.GET(loginPath, e.shownToPeople(e.beginLogin))
	router.GET(callbackPath, e.shownToPeople(e.endLogin))
	router.POST(logoutPath, e.logout)
}

// beginLogin sends the browser to a provider.
func (e *edge) beginLogin(c echo.Context) error {
	address, sealed, err := e.login.Logins.Begin(c.Request().Context(), c.QueryParam("issuer"), c.QueryParam("to"))
	if err != nil {
		return err
	}
	// Lax: the way back is one from another site.
	c.SetCookie(e.login.cookie(loginCookie, sealed, policy.Login, http.SameSiteLaxMode))
	return c.Redirect(http.StatusSeeOther, address)
}

// endLogin takes in who comes back from a provider: a session is made for who that says it is. It is a command as others are, so that
// audit has it before it is answered, and what is refused too.
func (e *edge) endLogin(c echo.Context) error {
	r := c.Request()
	var login *authn.Login
	over := true // the login that was begun is good for one answer, whatever that is
	ctx := authn.Prover(func(ctx context.Context, _ *authn.Shown) (_ *authn.Proof, err error) {
		if login, err = e.login.Logins.Answer(ctx, e.login.shown(r, loginCookie), r.URL.Query()); err != nil {
			over = !errors.Is(err, authn.ErrOther) // as where two tabs have begun one: the one that was begun last can be completed
			return nil, err
		}
		return login.Proof, nil
	}).Into(r.Context(), &authn.Shown{})
	asked := &door.Request{Verb: door.Create, Noun: domain.Sessions}
	if login != nil {
		asked.Name = domain.SessionName(login.ID)
	}
	c.Set(contextPassed, true)
	err := e.door.Pass(ctx, asked, func(ctx context.Context, _ door.Service) error { return e.login.Logins.Keep(ctx, login) })
	if over {
		c.SetCookie(e.login.cookie(loginCookie, "", 0, http.SameSiteLaxMode))
	}
	if err != nil {
		return err
	}
	c.SetCookie(e.login.cookie(sessionCookie, login.Secret, time.Until(login.Expires), http.SameSiteStrictMode))
	// To the page, whatever was asked for: the rest of the address is the page's to read.
	to := url.URL{Path: "../"}
	if strings.HasPrefix(login.To, "/") {
		to.Fragment = login.To
		if words, err := url.PathUnescape(login.To); err == nil {
			to.Fragment, to.RawFragment = words, login.To // as the page has written it: a slash within a word of it is no other one
		}
	}
	return c.Redirect(http.StatusSeeOther, to.String())
}

// logout ends the session of who asks.
func (e *edge) logout(c echo.Context) error {
	r := c.Request()
	secret := e.login.session(r)
	if secret == "" {
		return fail.New(fail.Invalid, "there is no session to end: what is shown with this request is none")
	}
	asked := &door.Request{Verb: door.Delete, Noun: domain.Sessions, Name: domain.SessionName(authn.SessionID(secret))}
	c.Set(contextPassed, true)
	var left string
	err := e.door.Pass(r.Context(), asked, func(ctx context.Context, _ door.Service) (err error) {
		left, err = e.login.Logins.End(ctx, secret)
		return err
	})
	// A logout that is refused leaves the session as it was: it is tried again with the cookie.
	if err == nil || fail.Is(err, fail.Unauthorized) && r.Header.Get(echo.HeaderAuthorization) == "" {
		c.SetCookie(e.login.cookie(sessionCookie, "", 0, http.SameSiteStrictMode))
	}
	if err != nil {
		return err
	}
	if left != "" {
		warn(c, "%s", left)
	}
	return c.NoContent(http.StatusNoContent)
}

// forget takes a session from the browser that is over. What was sent in Authorization goes before the session: that it is refused
// says nothing of that.
func (e *edge) forget(c echo.Context) {
	if c.Request().Header.Get(echo.HeaderAuthorization) != "" {
		return
	}
	_, err := caller.IdentityOf(c.Request().Context())
	if fail.Is(err, fail.Unauthorized) && e.login.session(c.Request()) != "" {
		c.SetCookie(e.login.cookie(sessionCookie, "", 0, http.SameSiteStrictMode))
	}
}

// refusedPage tells people that they are not logged in. It needs nothing that its policy forbids.
const refusedPage = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>Drover</title></head>
<body><h1>You are not logged in</h1><p>%s</p><p><a href="%s">Back to the page</a></p></body></html>
`

// shownToPeople has answers of a browser's navigation be kept by nobody, and refusals be a page.
func (e *edge) shownToPeople(handle echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		h, ctx := c.Response().Header(), c.Request().Context()
		h.Set(echo.HeaderCacheControl, "no-store")
		h.Set("Referrer-Policy", "no-referrer") // the address has a code
		err := handle(c)
		offer, ok := negotiate(c.Request().Header.Values(echo.HeaderAccept), []string{fail.ProblemJSON, echo.MIMETextHTML})
		if err == nil || !ok || offer != echo.MIMETextHTML || errors.Is(err, context.Canceled) {
			return err
		}
		p := problemOf(err)
		if level, worth := worth(p, c.Request(), false); worth {
			e.log.With(door.IDs(ctx)...).Log(ctx, level, "login failed", slog.Int("status", p.Status), slog.Any("error", err))
		}
		h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set(echo.HeaderXContentTypeOptions, "nosniff")
		back := "./"
		if c.Path() == callbackPath {
			back = "../"
		}
		return c.HTML(p.Status, fmt.Sprintf(refusedPage, html.EscapeString(p.Detail), back))
	}
}
