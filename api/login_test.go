package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/api"
	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/service"
)

// people log in by the state good.
type people struct {
	kept, ended []string
	to          string
	left        string // at the provider, after a logout
	address     string // to which it sends people back
}

func (p *people) Begin(_ context.Context, issuer, to string) (address, sealed string, err error) {
	if issuer != "https://dex.example.org" {
		return "", "", fail.New(fail.NotFound, "nobody logs in here at the issuer %q", issuer)
	}
	p.to = to
	return "https://dex.example.org/auth?state=good", "sealed", nil
}

func (p *people) Answer(_ context.Context, sealed string, said url.Values) (*authn.Login, error) {
	if said.Get("state") == "others" {
		return nil, fail.Wrap(authn.ErrOther, fail.Unauthorized, "another one was begun")
	}
	if sealed != "sealed" || said.Get("state") != "good" {
		return nil, fail.New(fail.Unauthorized, "this login cannot be completed: <script>%s", said.Get("state"))
	}
	return &authn.Login{
		Proof:  &authn.Proof{Identity: caller.Identity{Kind: caller.User, Name: "alice", By: "oidc https://dex.example.org"}},
		Secret: "alices-secret", ID: authn.SessionID("alices-secret"), Expires: time.Now().Add(time.Hour), To: p.to,
	}, nil
}

func (p *people) Keep(_ context.Context, l *authn.Login) error {
	p.kept = append(p.kept, l.Secret)
	return nil
}

func (p *people) End(_ context.Context, secret string) (left string, err error) {
	p.ended = append(p.ended, secret)
	return p.left, nil
}

// prove knows the sessions that are kept and not ended.
func (p *people) prove(_ context.Context, s *authn.Shown) (*authn.Proof, error) {
	switch {
	case s.Session == "":
		return nil, nil
	case s.Session == "alices-secret" && len(p.kept) > len(p.ended):
		return &authn.Proof{Identity: caller.Identity{Kind: caller.User, Name: "alice"}}, nil
	default:
		return nil, authn.Ended()
	}
}

// withPeople is a world in which people log in; what passes the door is noted.
func withPeople(t *testing.T, p *people, secure bool, shut *error) (*world, *[]string) {
	t.Helper()
	var passed []string
	w := newWorldWith(t, func(_ *world, d *deps, _ *service.Instances) {
		d.Prove = p.prove
		d.Login = api.Login{Logins: p, Secure: secure, Address: p.address, Offers: authn.Offers{Asked: true, Providers: []authn.Offer{{Name: "Dex", Issuer: "https://dex.example.org", Browser: true}}}}
		d.steps = []door.Step{func(ctx context.Context, r *door.Request, next door.Next) error {
			who, err := door.Who(ctx)
			require.NoError(t, err)
			passed = append(passed, who.String()+" "+string(r.Verb)+" "+string(r.Key()))
			if *shut != nil {
				return *shut
			}
			return next(ctx)
		}}
	})
	return w, &passed
}

func browse(t *testing.T, w *world, method, path string, header map[string]string, cookies ...*http.Cookie) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:9015"+path, nil)
	r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	for _, c := range cookies {
		r.AddCookie(c)
	}
	answer := httptest.NewRecorder()
	w.router.ServeHTTP(answer, r)
	return answer.Result()
}

func cookieOf(t *testing.T, answer *http.Response, name string) *http.Cookie {
	t.Helper()
	for _, c := range answer.Cookies() {
		if c.Name == name {
			return c
		}
	}
	require.Failf(t, "no cookie", "%s in %v", name, answer.Header)
	return nil
}

// TestLoginAtThePage: the way to the provider and back, with cookies that no script and no other site gets, each step through the door,
// and always back to the page.
func TestLoginAtThePage(t *testing.T) {
	var none error
	for _, secure := range []bool{false, true} {
		prefix := map[bool]string{true: "__Host-"}[secure]
		p := &people{}
		w, passed := withPeople(t, p, secure, &none)
		answer := browse(t, w, "GET", "/login?issuer=https%3A%2F%2Fdex.example.org&to=%2Fgroups%2Fa%20b", nil)
		require.Equal(t, http.StatusSeeOther, answer.StatusCode)
		require.Equal(t, "https://dex.example.org/auth?state=good", answer.Header.Get("Location"))
		require.Equal(t, "no-store", answer.Header.Get("Cache-Control"))
		begun := cookieOf(t, answer, prefix+"drover-login")
		require.True(t, begun.HttpOnly)
		require.Equal(t, secure, begun.Secure)
		require.Equal(t, http.SameSiteLaxMode, begun.SameSite)
		require.Empty(t, *passed, "nobody is known yet")

		answer = browse(t, w, "GET", "/login/callback?state=good&code=c", nil, begun)
		require.Equal(t, http.StatusSeeOther, answer.StatusCode)
		require.Equal(t, "../#/groups/a%20b", answer.Header.Get("Location"))
		for to, want := range map[string]string{ // as the page has its address, and what nobody has from it
			"/groups/g?cell=a%2Fp%2Bc": "../#/groups/g?cell=a%2Fp%2Bc", "/groups/100%25": "../#/groups/100%25", "/a%zz": "../#/a%25zz", "/a\r\nb": "../#/a%0D%0Ab",
			"//evil.example": "../#//evil.example", "https://evil.example": "../", "%2Fgroups": "../",
		} {
			p.to = to
			require.Equal(t, want, browse(t, w, "GET", "/login/callback?state=good&code=c", nil, begun).Header.Get("Location"))
		}
		p.kept = p.kept[:1]
		require.Equal(t, "no-referrer", answer.Header.Get("Referrer-Policy"))
		session := cookieOf(t, answer, prefix+"drover-session")
		require.True(t, session.HttpOnly)
		require.Equal(t, secure, session.Secure)
		require.Equal(t, http.SameSiteStrictMode, session.SameSite)
		require.Equal(t, "/", session.Path)
		require.Empty(t, session.Domain)
		require.InDelta(t, 3600, session.MaxAge, 10)
		require.Negative(t, cookieOf(t, answer, prefix+"drover-login").MaxAge, "it was good for one answer")
		require.Equal(t, []string{"alices-secret"}, p.kept)

		whoami := func(header map[string]string, c ...*http.Cookie) int {
			return browse(t, w, "GET", "/v2/whoami", header, c...).StatusCode
		}
		require.Equal(t, http.StatusOK, whoami(nil, session))
		require.Equal(t, http.StatusOK, whoami(map[string]string{"Sec-Fetch-Site": "same-origin"}, session))
		for _, site := range []string{"cross-site", "same-site"} { // another port of this host is the same site
			require.Equal(t, http.StatusUnauthorized, whoami(map[string]string{"Sec-Fetch-Site": site}, session), site)
		}
		require.Equal(t, http.StatusUnauthorized, whoami(nil, session, session), "one of them is somebody else's")
		require.Equal(t, http.StatusUnauthorized, whoami(nil))
		require.Equal(t, http.StatusForbidden, browse(t, w, "POST", "/v2/projects", map[string]string{"Sec-Fetch-Site": "cross-site"}, session).StatusCode)

		require.Equal(t, http.StatusForbidden, browse(t, w, "POST", "/logout", map[string]string{"Origin": "https://evil.example"}, session).StatusCode)
		require.Equal(t, http.StatusMethodNotAllowed, browse(t, w, "GET", "/logout", nil, session).StatusCode)
		require.Equal(t, http.StatusBadRequest, browse(t, w, "POST", "/logout", nil).StatusCode)
		require.Empty(t, p.ended)
		p.left = "what the provider has given stays good there"
		answer = browse(t, w, "POST", "/logout", nil, session)
		require.Equal(t, http.StatusNoContent, answer.StatusCode)
		require.Equal(t, []string{`299 - "what the provider has given stays good there"`}, answer.Header.Values("Warning"))
		require.Negative(t, cookieOf(t, answer, prefix+"drover-session").MaxAge)
		require.Equal(t, []string{"alices-secret"}, p.ended)
		answer = browse(t, w, "GET", "/v2/whoami", nil, session)
		require.Equal(t, http.StatusUnauthorized, answer.StatusCode)
		require.Negative(t, cookieOf(t, answer, prefix+"drover-session").MaxAge, "it is taken away")
		id := authn.SessionID("alices-secret")[:16]
		require.Contains(t, *passed, "user alice create sessions/"+id+"")
		require.Contains(t, *passed, "user alice delete sessions/"+id+"")
		require.NotContains(t, strings.Join(*passed, "\n")+w.log.String(), "alices-secret")
	}
}

// TestTwoDroversOfOneHost: to a browser the ports of a host are one, and each of two Drovers there knows its own cookies.
func TestTwoDroversOfOneHost(t *testing.T) {
	var none error
	one, _ := withPeople(t, &people{address: "https://drover.example:9015/login/callback"}, true, &none)
	other, _ := withPeople(t, &people{address: "https://drover.example:9115/login/callback"}, true, &none)
	login := func(w *world) (session *http.Cookie) {
		begun := browse(t, w, "GET", "/login?issuer=https%3A%2F%2Fdex.example.org", nil).Cookies()
		require.Len(t, begun, 1)
		for _, c := range browse(t, w, "GET", "/login/callback?state=good&code=c", nil, begun...).Cookies() {
			if c.MaxAge > 0 {
				session = c
			}
		}
		require.NotNil(t, session)
		return session
	}
	first := login(one)
	require.Regexp(t, "^__Host-drover-session-[0-9a-f]{8}$", first.Name)
	answer := browse(t, other, "GET", "/v2/whoami", nil, first)
	require.Equal(t, http.StatusUnauthorized, answer.StatusCode)
	require.Empty(t, answer.Cookies(), "what it has not given it does not take away")
	second := login(other)
	for _, w := range []*world{one, other} {
		require.Equal(t, http.StatusOK, browse(t, w, "GET", "/v2/whoami", nil, first, second).StatusCode)
	}
}

// TestLoginsThatFail are told as a page that nothing can be put into, are stopped at the door, and leave no session.
func TestLoginsThatFail(t *testing.T) {
	var shut error
	p := &people{to: "//evil.example"}
	w, passed := withPeople(t, p, false, &shut)
	sealed := &http.Cookie{Name: "drover-login", Value: "sealed"}
	for _, path := range []string{"/login/callback?state=%3Cscript%3Ebad", "/login/callback"} {
		answer := browse(t, w, "GET", path, nil, sealed)
		require.Equal(t, http.StatusUnauthorized, answer.StatusCode)
		require.Equal(t, "text/html; charset=UTF-8", answer.Header.Get("Content-Type"))
		require.Contains(t, answer.Header.Get("Content-Security-Policy"), "default-src 'none'")
		var body strings.Builder
		require.NoError(t, answer.Write(&body))
		require.Contains(t, body.String(), "&lt;script&gt;")
		require.NotContains(t, body.String(), "<script")
		require.Negative(t, cookieOf(t, answer, "drover-login").MaxAge)
		for _, c := range answer.Cookies() {
			require.NotEqual(t, "drover-session", c.Name)
		}
	}
	require.Empty(t, *passed, "nobody is")
	others := browse(t, w, "GET", "/login/callback?state=others", nil, sealed)
	require.Equal(t, http.StatusUnauthorized, others.StatusCode)
	require.Empty(t, others.Cookies(), "the login that another tab has begun goes on")
	answer := browse(t, w, "GET", "/login?issuer=https://evil.example", nil)
	require.Equal(t, http.StatusNotFound, answer.StatusCode)
	require.Empty(t, answer.Header.Get("Location"))
	answer = browse(t, w, "GET", "/login/callback", map[string]string{"Accept": "application/json"}, sealed)
	require.Equal(t, "application/problem+json", answer.Header.Get("Content-Type"))

	answer = browse(t, w, "GET", "/login/callback?state=good", nil, sealed)
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	require.Equal(t, "../#//evil.example", answer.Header.Get("Location"), "the page's own address, whatever is behind #")
	to, err := url.Parse("https://drover.example.org/login/callback?code=c")
	require.NoError(t, err)
	to, err = to.Parse(answer.Header.Get("Location"))
	require.NoError(t, err)
	require.Equal(t, "drover.example.org/", to.Host+to.Path)
	p.to = "https://evil.example"
	require.Equal(t, "../", browse(t, w, "GET", "/login/callback?state=good", nil, sealed).Header.Get("Location"))

	kept := len(p.kept)
	shut = fail.New(fail.Unavailable, "the audit log cannot be written")
	answer = browse(t, w, "GET", "/login/callback?state=good", nil, sealed)
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	require.Len(t, p.kept, kept, "what cannot be recorded is not done")
}

// TestLoginsThatFailAreRecordedOnce: by the door, and not by the edge again; what does not come to the door by the edge.
func TestLoginsThatFailAreRecordedOnce(t *testing.T) {
	w, _ := newAuditedWorld(t, func(d *deps) {
		d.Login = api.Login{Logins: &people{}}
		d.steps = append([]door.Step{d.steps[0], func(ctx context.Context, r *door.Request, next door.Next) error {
			if r.Noun == domain.Sessions {
				return fail.New(fail.Forbidden, "may not")
			}
			return next(ctx)
		}}, d.steps[1:]...)
	})
	plain := map[string]string{"Accept": "application/json"}
	sealed, session := &http.Cookie{Name: "drover-login", Value: "sealed"}, &http.Cookie{Name: "drover-session", Value: "alices-secret"}
	require.Equal(t, http.StatusForbidden, browse(t, w, "GET", "/login/callback?state=good", plain, sealed).StatusCode)
	refused := browse(t, w, "POST", "/logout", plain, session)
	require.Equal(t, http.StatusForbidden, refused.StatusCode)
	require.Empty(t, refused.Cookies(), "the session is still there, and is ended with its cookie")
	require.Equal(t, http.StatusBadRequest, browse(t, w, "POST", "/logout", plain).StatusCode)
	name := domain.SessionName(authn.SessionID("alices-secret"))
	want := []string{
		"answered create sessions/" + name + " Forbidden", "answered delete sessions/" + name + " Forbidden", "answered POST /logout Invalid",
	}
	require.Eventually(t, func() bool { return len(audited(t, w, "/v2/audit?event=answered").Items) >= len(want) }, time.Minute, time.Millisecond)
	require.ElementsMatch(t, want, told(audited(t, w, "/v2/audit?event=answered")))
}

// TestOffers: everybody is told how to log in, and there are no routes for that where nobody does.
func TestOffers(t *testing.T) {
	var none error
	w, _ := withPeople(t, &people{}, false, &none)
	offers := func(w *world) (o authn.Offers) {
		answer := do(t, w.router, call{method: "GET", url: "/login/providers"})
		require.Equal(t, http.StatusOK, answer.Code)
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &o))
		return o
	}
	require.Equal(t, authn.Offers{Asked: true, Providers: []authn.Offer{{Name: "Dex", Issuer: "https://dex.example.org", Browser: true}}}, offers(w))
	w = newWorld(t)
	require.False(t, offers(w).Asked)
	require.Equal(t, http.StatusNotFound, do(t, w.router, call{method: "GET", url: "/login"}).Code)
	require.Equal(t, http.StatusNotFound, do(t, w.router, call{method: "POST", url: "/logout"}).Code)
}
