package test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/idptest"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/test/harness"
)

// withLogins are two APIs of one installation at which people log in at a provider.
type withLogins struct {
	*idptest.IdP
	one, two *harness.Replica
	admin    *client.API
}

// newLogins starts them. lasts is how long the provider's tokens are good.
func newLogins(t *testing.T, lasts time.Duration) *withLogins {
	t.Helper()
	s, folder := harness.SharedStack(t), t.TempDir()
	token, config := filepath.Join(folder, "admin-token"), filepath.Join(folder, "auth.yaml")
	env := []string{"DROVER_AUTH=on", "DROVER_ADMIN_TOKEN_FILE=" + token, "DROVER_MONGO_DATABASE=login_" + strings.ToLower(rand.Text()[:8])}
	l := &withLogins{one: s.AddAPI(t, env...)}
	l.IdP = idptest.Start(t, "-callback", l.one.URL+"/login/callback", "-lasts", lasts.String())
	secret := filepath.Join(folder, "secret")
	require.NoError(t, os.WriteFile(secret, []byte(idptest.Secret), 0o600))
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `issuers:
- url: %s
  name: Test
  audiences: [%s, %s]
  prefix: "idp:"
  clockSkew: 0s
  browser: {clientID: %s, clientSecretFile: %s, redirectURL: "%s/login/callback"}
  command: {clientID: %s}
`, l.Issuer, idptest.Page, idptest.Command, idptest.Page, secret, l.one.URL, idptest.Command), 0o600))
	l.one.Kill() // now that its address is known
	env = append(env, "DROVER_AUTH_CONFIG="+config)
	l.one.Start(t, env...)
	l.two = s.AddAPI(t, env...)
	text, err := os.ReadFile(token)
	require.NoError(t, err)
	c := client.New(l.one.URL+"/v2", client.WithToken(strings.TrimSpace(string(text))))
	t.Cleanup(c.Close)
	l.admin = c.API()
	return l
}

// bind gives everybody of the provider's group a role in the fleet.
func (l *withLogins) bind(ctx context.Context, t *testing.T, role string) *domain.RoleBinding {
	t.Helper()
	b := domain.RoleBindings.New().(*domain.RoleBinding)
	b.Metadata = domain.Metadata{Name: "staff"}
	b.Spec = domain.RoleBindingSpec{Role: role, Subjects: []domain.RightSubject{{Kind: domain.SubjectGroup, Name: "idp:" + idptest.Group}}}
	_, err := l.admin.Create(ctx, b, nil)
	require.NoError(t, err)
	return b
}

// enter logs somebody in by a browser of its own.
func (l *withLogins) enter(t *testing.T) *http.Client {
	t.Helper()
	browser := idptest.NewBrowser(t)
	at, body := l.Enter(browser, l.one.URL+"/login?issuer="+url.QueryEscape(l.Issuer)+"&to=%2Ffleet")
	require.Equal(t, l.one.URL+"/#/fleet", at, body)
	return browser
}

// browse asks as a browser does for a page of its own.
func browse(ctx context.Context, t *testing.T, browser *http.Client, method, address string) (code int, body []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, address, nil)
	require.NoError(t, err)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	answer, err := browser.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err = io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, body
}

// opened is a stream that a browser reads.
func opened(ctx context.Context, t *testing.T, browser *http.Client, address string) io.Reader {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	require.NoError(t, err)
	answer, err := browser.Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = answer.Body.Close() })
	require.Equal(t, http.StatusOK, answer.StatusCode)
	return answer.Body
}

// ends waits for a stream to end.
func ends(ctx context.Context, t *testing.T, stream io.Reader, after string) {
	t.Helper()
	ended, from := make(chan struct{}), time.Now()
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, stream)
	}()
	select {
	case <-ended:
		t.Logf("the stream has ended %s after %s", time.Since(from), after)
	case <-ctx.Done():
		t.Fatalf("the stream goes on after %s", after)
	}
}

// TestLoginAtARealProvider: who logs in by code is known to each process; keys may rotate meanwhile; a logout, and a right that is withdrawn,
// end what goes on in another process; a code is good once; audit has it all.
func TestLoginAtARealProvider(t *testing.T) {
	t.Parallel()
	ctx, l := within(t), newLogins(t, time.Hour)
	binding := l.bind(ctx, t, domain.RoleViewer)
	login := func() *http.Client { return l.enter(t) }
	code := func(browser *http.Client, at *harness.Replica) int {
		got, _ := browse(ctx, t, browser, http.MethodGet, at.URL+"/v2/projects")
		return got
	}
	stream := func(browser *http.Client) io.Reader {
		return opened(ctx, t, browser, l.two.URL+"/v2/deployment-intent-groups?watch=true")
	}
	first, second := login(), login()
	require.Equal(t, 401, code(idptest.NewBrowser(t), l.two))

	t.Run("keys rotate while requests run", func(t *testing.T) {
		done, asking := make(chan struct{}), sync.WaitGroup{}
		var wrong sync.Map
		for _, browser := range []*http.Client{first, second} {
			for _, at := range []*harness.Replica{l.one, l.two} {
				asking.Go(func() {
					for {
						select {
						case <-done:
							return
						case <-time.After(harness.Poll):
						}
						if got := code(browser, at); got != http.StatusOK {
							wrong.Store(at.URL, got)
							return
						}
					}
				})
			}
		}
		for range 2 {
			l.Tell("rotate", nil)
			require.Equal(t, 200, code(login(), l.two))
		}
		close(done)
		asking.Wait()
		wrong.Range(func(at, got any) bool {
			t.Errorf("%s has answered %v", at, got)
			return true
		})
	})

	t.Run("a logout ends what goes on elsewhere", func(t *testing.T) {
		open := stream(first)
		got, _ := browse(ctx, t, first, http.MethodPost, l.one.URL+"/logout")
		require.Equal(t, http.StatusNoContent, got)
		ends(ctx, t, open, "the logout at another process")
		require.Equal(t, 401, code(first, l.two))
		require.Equal(t, 200, code(second, l.two))
	})

	t.Run("a logout gives back what the provider has given", func(t *testing.T) {
		require.Positive(t, l.Good())
		harness.Until(ctx, t, "given back", func() bool { // a provider that has no turn for policy.GiveBack, as on a busy machine, is told later
			before := l.Good()
			third := login()
			had := l.Good()
			got, warnings := l.logout(ctx, t, third, l.two)
			require.Equal(t, http.StatusNoContent, got)
			left := l.Good()
			t.Logf("good before: %d, with the login: %d, after the logout: %d; warnings: %q", before, had, left, warnings)
			return len(warnings) == 0 && had == before+1 && left == before
		})
	})

	t.Run("a provider that hangs holds up no logout", func(t *testing.T) {
		third := login()
		l.Freeze()
		defer l.Thaw()
		harness.Soon(ctx, t, 3*policy.GiveBack, func() bool {
			got, warnings := l.logout(ctx, t, third, l.two)
			require.Equal(t, http.StatusNoContent, got)
			require.Len(t, warnings, 1)
			require.Contains(t, warnings[0], "its provider has not been told")
			return true
		}, func() string { return "the logout is not answered" })
		require.Equal(t, 401, code(third, l.one))
	})

	t.Run("a code is good once", func(t *testing.T) {
		browser := idptest.NewBrowser(t)
		var back *http.Request
		browser.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
			if strings.HasPrefix(r.URL.String(), l.one.URL+"/login/callback") {
				back = r
				return http.ErrUseLastResponse
			}
			return nil
		}
		_, _ = l.Enter(browser, l.one.URL+"/login?issuer="+url.QueryEscape(l.Issuer))
		require.NotNil(t, back)
		stranger := idptest.NewBrowser(t)
		got, _ := browse(ctx, t, stranger, http.MethodGet, back.URL.String())
		require.Equal(t, 401, got, "the address alone is nothing")
		require.Equal(t, 401, code(stranger, l.one))
		kept := browser.Jar.Cookies(back.URL)
		got, _ = browse(ctx, t, &http.Client{Jar: browser.Jar, CheckRedirect: never}, http.MethodGet, back.URL.String())
		require.Equal(t, http.StatusSeeOther, got)
		again := idptest.NewBrowser(t)
		again.Jar.SetCookies(back.URL, kept)
		got, _ = browse(ctx, t, again, http.MethodGet, back.URL.String())
		require.Equal(t, 401, got)
	})

	t.Run("audit has it", func(t *testing.T) {
		for _, want := range []string{"create done", "create Unauthorized", "delete done"} {
			verb, outcome, _ := strings.Cut(want, " ")
			harness.Until(ctx, t, want, func() bool {
				for r, err := range l.admin.AuditRecords(ctx, "", url.Values{"noun": {"sessions"}, "verb": {verb}, "outcome": {outcome}}) {
					require.NoError(t, err)
					return outcome == "Unauthorized" || r.Who.Name == "idp:"+idptest.Name && strings.HasPrefix(r.Key, "sessions/")
				}
				return false
			})
		}
	})

	t.Run("a right that is withdrawn", func(t *testing.T) {
		open := stream(second)
		require.NoError(t, l.admin.Delete(ctx, domain.KeyOf(binding)))
		ends(ctx, t, open, "the right was withdrawn")
	})
}

// TestLoginsWhoseProviderIsAway: those who are known go on until their token expires, and are told to come again then; nobody else notices.
func TestLoginsWhoseProviderIsAway(t *testing.T) {
	t.Parallel()
	ctx, l := within(t), newLogins(t, 20*time.Second)
	known := l.enter(t)
	code := func() int {
		got, _ := browse(ctx, t, known, http.MethodGet, l.two.URL+"/v2/projects")
		return got
	}
	first := expiry(ctx, t, known, l.two)
	harness.Until(ctx, t, "another token", func() bool { return expiry(ctx, t, known, l.one).After(first) })
	l.Kill()
	require.Equal(t, 200, code())
	harness.Until(ctx, t, "told to come again", func() bool {
		got := code()
		require.Contains(t, []int{200, 503}, got)
		return got == 503
	})
	_, err := l.admin.List(ctx, domain.Projects, "")
	require.NoError(t, err, "others do not notice")
}

// logout ends the session of a browser, and says which warnings came with that.
func (l *withLogins) logout(ctx context.Context, t *testing.T, browser *http.Client, at *harness.Replica) (code int, warnings []string) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at.URL+"/logout", nil)
	require.NoError(t, err)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	answer, err := browser.Do(r)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer.StatusCode, answer.Header.Values("Warning")
}

// expiry is until when the proof of a session is good.
func expiry(ctx context.Context, t *testing.T, browser *http.Client, at *harness.Replica) time.Time {
	t.Helper()
	got, body := browse(ctx, t, browser, http.MethodGet, at.URL+"/v2/whoami")
	require.Equal(t, 200, got)
	var who service.Whoami
	require.NoError(t, json.Unmarshal(body, &who))
	require.NotNil(t, who.Expires)
	return *who.Expires
}

func never(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// TestLoginOnThePage in a real browser: to the provider and back to where one was, with a cookie that no script sees; a session that ends is
// said; a sign-out is one.
func TestLoginOnThePage(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	browser, l := harness.NewBrowser(ctx, t), newLogins(t, 15*time.Second)
	l.bind(ctx, t, domain.RoleViewer)
	checked := browser.Tab(l.one.URL+"/", harness.BypassPolicy())
	checked.Says(".providers a", "Log in with Test")
	require.Empty(t, checked.Violations())
	checked.Screenshot("page-login")

	p := browser.Tab(l.one.URL + "/#/fleet")
	enter := func() {
		p.Click(".providers a", "Log in with Test")
		p.Until("the provider's form", "document.querySelector('#username')")
		p.Ask(fmt.Sprintf("(document.querySelector('#username').value = %q, document.querySelector('#password').value = %q)", idptest.User, idptest.Password), nil)
		p.Click("#submit", "Log in")
		p.Says(".who", "idp:"+idptest.Name)
	}
	enter()
	p.Until("where one was", "location.hash === '#/fleet' && location.pathname === '/' && location.search === ''")
	p.Until("nothing that a script sees", "document.cookie === '' && sessionStorage.length === 0 && localStorage.length === 0")
	p.Ask("window.old = 1, setTimeout(() => location.reload())", nil)
	p.Until("loaded again", "!window.old")
	p.Says(".who", "idp:"+idptest.Name)

	l.Tell("withdraw", url.Values{"user": {idptest.Name}})
	p.Says(".wrong", "Your session has ended")
	p.Until("nothing of before", "!document.querySelector('.matrix, .rows, .tiles') && document.querySelector('.nav').hidden")
	l.Tell("restore", url.Values{"user": {idptest.Name}})
	enter()
	p.Click("button", "Sign out")
	p.Says(".providers a", "Log in with Test")
	p.Ask("window.old = 1, setTimeout(() => location.reload())", nil)
	p.Until("loaded again", "!window.old")
	p.Says(".providers a", "Log in with Test")
	require.Empty(t, p.Wrong())
}
