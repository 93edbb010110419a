package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/idptest"
	"github.com/drover-io/drover/internal/oidc"
)

// withProvider is a world whose API knows a real provider.
func withProvider(t *testing.T, args ...string) (*world, *idptest.IdP) {
	t.Helper()
	return withProviderBy(t, time.Now, args...)
}

// withProviderBy is withProvider with the API's clock.
func withProviderBy(t *testing.T, now func() time.Time, args ...string) (*world, *idptest.IdP) {
	t.Helper()
	idp := idptest.Start(t, args...)
	file := filepath.Join(t.TempDir(), "auth.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "issuers: [{url: %q, name: Test, audiences: [%s], clockSkew: 0s, prefix: 'idp:', command: {clientID: %s}}]", idp.Issuer, idptest.Command, idptest.Command), 0o600))
	c, err := oidc.Read(file, false)
	require.NoError(t, err)
	p, err := oidc.New(c, now)
	require.NoError(t, err)
	w := newWorldWhere(t, p.Prove, authn.Offers{Asked: true, Providers: p.Offers()})
	delete(w.env, "DROVER_SERVER")
	return w, idp
}

// begin runs a command that waits for a person; what it says on standard error comes line by line.
func (w *world) begin(args ...string) (lines *bufio.Scanner, end func() result) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	read, write := io.Pipe()
	var out bytes.Buffer
	codes := make(chan int, 1)
	go func() {
		codes <- w.start(ctx, strings.NewReader(""), &out, write, args...)
		_ = write.Close()
	}()
	lines = bufio.NewScanner(read)
	return lines, func() result {
		defer cancel()
		var rest strings.Builder
		for lines.Scan() {
			rest.WriteString(lines.Text() + "\n")
		}
		return result{w.neutral(out.String()), w.neutral(rest.String()), <-codes}
	}
}

// said waits for a line that a pattern finds.
func said(t *testing.T, lines *bufio.Scanner, pattern string) string {
	t.Helper()
	for lines.Scan() {
		if found := regexp.MustCompile(pattern).FindString(lines.Text()); found != "" {
			return found
		}
	}
	t.Fatalf("nothing says %s", pattern)
	return ""
}

func (w *world) settings() string {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.env["XDG_CONFIG_HOME"], "drover", "config.yaml"))
	require.NoError(w.t, err)
	return string(data)
}

// TestLoginAtAProvider: the person logs in with a browser, which comes back to this machine with a code; only the answer to this login
// counts. The token is kept, shown, and given back.
func TestLoginAtAProvider(t *testing.T) {
	w, idp := withProvider(t)
	lines, end := w.begin("login", w.url, "--no-browser")
	address := said(t, lines, `http://\S+\?\S+`)
	asked, err := url.Parse(address)
	require.NoError(t, err)
	require.Equal(t, "S256", asked.Query().Get("code_challenge_method"))
	back := asked.Query().Get("redirect_uri")
	require.Regexp(t, `^http://127\.0\.0\.1:\d+/callback$`, back)
	for query, code := range map[string]int{"?state=guess&code=x": 400, "?code=x": 400, "": 400} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, back+query, nil)
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, code, answer.StatusCode, query)
	}
	_, page := idp.Enter(idptest.NewBrowser(t), address)
	require.Contains(t, page, "You may close this tab")
	r := end()
	require.Zero(t, r.code, r.err)
	require.Equal(t, "logged in at http://API as user idp:"+idptest.Name+", as context 127.0.0.1\n", r.out)

	info, err := os.Stat(filepath.Join(w.env["XDG_CONFIG_HOME"], "drover", "config.yaml"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.Equal(t, "idp:"+idptest.Name+"\n", w.done("auth", "whoami", "-o", "jsonpath={.name}"))
	require.Contains(t, w.done("auth", "whoami"), "idp:"+idptest.Group)
	require.Contains(t, w.done("context", "list"), idp.Issuer)

	w.done("logout")
	require.NotContains(t, w.settings(), "oken")
	require.Equal(t, 4, w.run("auth", "whoami").code)
	require.Contains(t, w.run("login", w.url, "--issuer", "https://evil.example").err, "does not know the issuer")
	for _, args := range [][]string{{"--device"}, {"--issuer", "x"}, {"--issuer-ca", "ca.pem"}, {"--no-browser"}} {
		r := w.run(append([]string{"login", w.url, "--token", "x"}, args...)...)
		require.Equal(t, 2, r.code, r.err)
		require.Contains(t, r.err, args[0]+" is for logging in at a provider")
	}
}

// TestALoginThatTheProviderRefuses: browser and command say so, and why, and the context has nothing of it.
func TestALoginThatTheProviderRefuses(t *testing.T) {
	w, _ := withProvider(t)
	lines, end := w.begin("login", w.url, "--no-browser")
	address, err := url.Parse(said(t, lines, `http://\S+\?\S+`))
	require.NoError(t, err)
	query := url.Values{"state": {address.Query().Get("state")}, "error": {"access_denied"}, "error_description": {"not <b>you"}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address.Query().Get("redirect_uri")+"?"+query.Encode(), nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	page, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Contains(t, string(page), "refused the login: access_denied not &lt;b&gt;you")
	require.NotContains(t, string(page), "has what it needs")
	ended := end()
	require.Equal(t, 4, ended.code, ended.err)
	require.Contains(t, ended.err, "refused the login: access_denied not <b>you")
	require.NotContains(t, w.done("context", "list"), "127.0.0.1")
}

// TestLoginWithADevice: the person enters a code elsewhere.
func TestLoginWithADevice(t *testing.T) {
	w, idp := withProvider(t)
	lines, end := w.begin("login", w.url, "--device")
	said(t, lines, `http://\S+/device`)
	idp.Allow(said(t, lines, `[A-Z]{4}-?[A-Z]{4}`))
	r := end()
	require.Zero(t, r.code, r.err)
	require.Equal(t, "idp:"+idptest.Name+"\n", w.done("auth", "whoami", "-o", "jsonpath={.name}"))
}

// TestADeviceThatNobodyUses: a code that expires is said to have.
func TestADeviceThatNobodyUses(t *testing.T) {
	w, _ := withProvider(t, "-code", "2s")
	r := w.run("login", w.url, "--device")
	require.Equal(t, 6, r.code, r.err)
	require.Contains(t, r.err, "nobody has entered the code before it expired")
}

// TestTokensAreReplaced when they are about to expire, by one of all commands that run, as long as the provider lets it.
func TestTokensAreReplaced(t *testing.T) {
	w, idp := withProvider(t, "-lasts", "31s") // it is replaced when it is good for less than 30 s
	lines, end := w.begin("login", w.url, "--no-browser")
	_, _ = idp.Enter(idptest.NewBrowser(t), said(t, lines, `http://\S+\?\S+`))
	r := end()
	require.Zero(t, r.code, r.err)
	first := w.settings()
	require.Contains(t, first, "refreshToken")
	require.Eventually(t, func() bool {
		w.done("auth", "whoami")
		return w.settings() != first
	}, time.Minute, 100*time.Millisecond, "another token")
	var asking sync.WaitGroup
	codes := make([]int, 8)
	for n := range codes {
		asking.Go(func() { codes[n] = w.run("auth", "whoami").code })
	}
	asking.Wait()
	require.Equal(t, make([]int, len(codes)), codes, "a provider takes a token that comes twice for a thief's")

	idp.Tell("withdraw", url.Values{"user": {idptest.Name}})
	require.Eventually(t, func() bool {
		r = w.run("auth", "whoami")
		return r.code != 0
	}, time.Minute, 100*time.Millisecond)
	require.Equal(t, 4, r.code, r.err)
	require.Contains(t, r.err, "has ended")
	require.Contains(t, r.err, "Log in with: drover login http://API\n")
	w.done("logout")
	require.Contains(t, w.run("auth", "whoami").err, "Log in with: drover login http://API\n", "the API names a provider")
}

// TestATokenThatTheAPIRefuses is replaced also when it is good by the clock of this machine, which may be behind.
func TestATokenThatTheAPIRefuses(t *testing.T) {
	const lasts = 10 * time.Minute
	var ahead atomic.Int64
	w, idp := withProviderBy(t, func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }, "-lasts", lasts.String())
	lines, end := w.begin("login", w.url, "--no-browser")
	_, _ = idp.Enter(idptest.NewBrowser(t), said(t, lines, `http://\S+\?\S+`))
	r := end()
	require.Zero(t, r.code, r.err)
	first := w.settings()
	ahead.Store(int64(lasts - 2*time.Second)) // by which another token is good for as long
	require.Eventually(t, func() bool {
		w.run("auth", "whoami") // it may take more than the two seconds
		return w.settings() != first
	}, time.Minute, 100*time.Millisecond)
	ahead.Store(int64(lasts / 2))
	w.done("auth", "whoami")
}

// TestARefreshTokenIsKeptThoughTheCommandFails: the provider has given it in the place of the one before, which is good no more.
func TestARefreshTokenIsKeptThoughTheCommandFails(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var issuer string
	given, whileItGives := 0, func() {}
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		out.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/token" { // with no ID token, at which the command fails
			given++
			whileItGives()
			fmt.Fprintf(out, `{"access_token": "a", "token_type": "bearer", "refresh_token": "given-%d"}`, given)
			return
		}
		fmt.Fprintf(out, `{"issuer": %q, "authorization_endpoint": %q, "token_endpoint": %q, "jwks_uri": %q}`, issuer, issuer+"/auth", issuer+"/token", issuer+"/keys")
	}))
	t.Cleanup(server.Close)
	issuer = server.URL
	w := newWorld(t)
	expired := "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"exp": 1}`)) + ".x"
	w.env["DROVER_CONFIG"] = w.file("drover/config.yaml", fmt.Sprintf(
		"currentContext: c\ncontexts: [{name: c, server: %q, issuer: %q, clientID: me, token: %s, refreshToken: old}]", w.url, issuer, expired))
	delete(w.env, "DROVER_SERVER")
	r := w.run("get", "projects")
	require.Equal(t, 4, r.code, r.err)
	require.Contains(t, r.err, "the issuer has given no ID token")
	require.Contains(t, w.settings(), "refreshToken: given-1\n")

	whileItGives = interrupt
	var said bytes.Buffer
	require.NotZero(t, w.start(ctx, strings.NewReader(""), &said, &said, "get", "projects"))
	require.Contains(t, w.settings(), "refreshToken: given-2\n")
}

// TestProvidersThatDoNotAnswer: a login says so; the token that is kept is good until it expires.
func TestProvidersThatDoNotAnswer(t *testing.T) {
	w, idp := withProvider(t)
	lines, end := w.begin("login", w.url, "--no-browser")
	_, _ = idp.Enter(idptest.NewBrowser(t), said(t, lines, `http://\S+\?\S+`))
	require.Zero(t, end().code)
	idp.Kill()
	require.Equal(t, "idp:"+idptest.Name+"\n", w.done("auth", "whoami", "-o", "jsonpath={.name}"))
	r := w.run("login", w.url)
	require.Equal(t, 5, r.code, r.err)
	require.Contains(t, r.err, "the issuer "+idp.Issuer+" does not answer as one: connection refused\n", "and not the API")
	r = w.run("logout")
	require.Zero(t, r.code)
	require.Contains(t, r.err, "could not be told")
	require.Equal(t, 2, w.run("login", "http://drover.example", "--token", "x").code)
}

// TestALoginIsForOneServer: a server that has people log in as the client of another one could show their tokens there. It is refused until the
// user names the provider.
func TestALoginIsForOneServer(t *testing.T) {
	w, idp := withProvider(t)
	lines, end := w.begin("login", w.url, "--no-browser", "--name", "prod")
	_, _ = idp.Enter(idptest.NewBrowser(t), said(t, lines, `http://\S+\?\S+`))
	require.Zero(t, end().code)
	before := w.settings()
	api, err := url.Parse(w.url)
	require.NoError(t, err)
	evil := httptest.NewServer(httputil.NewSingleHostReverseProxy(api))
	t.Cleanup(evil.Close)
	r := w.run("login", evil.URL, "--no-browser", "--name", "evil")
	require.Equal(t, 2, r.code, r.err)
	require.Contains(t, r.err, "context prod")
	require.Equal(t, 2, w.run("login", evil.URL, "--no-browser", "--name", "evil", "--issuer", "Test").code, "a name is what the server says")
	require.Equal(t, before, w.settings())
	lines, end = w.begin("login", evil.URL, "--no-browser", "--name", "evil", "--issuer", idp.Issuer)
	_, _ = idp.Enter(idptest.NewBrowser(t), said(t, lines, `http://\S+\?\S+`))
	require.Zero(t, end().code)
}

// TestContextsAreWrittenOneAfterTheOther: while another command renews a login none writes the file of contexts, which it has read before.
func TestContextsAreWrittenOneAfterTheOther(t *testing.T) {
	w := newWorld(t)
	w.done("context", "set", "one", "--server", w.url)
	w.done("context", "set", "two", "--server", w.url)
	before := w.settings()
	f, err := os.OpenFile(filepath.Join(w.env["XDG_CONFIG_HOME"], "drover", ".login.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	require.NoError(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX)) // #nosec G115 -- a descriptor
	for _, args := range [][]string{{"use", "two"}, {"set", "three", "--server", w.url}, {"delete", "one"}} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		require.NotZero(t, w.start(ctx, nil, io.Discard, io.Discard, append([]string{"context"}, args...)...), args)
		cancel()
		require.Equal(t, before, w.settings(), args)
		ctx, cancel = context.WithCancel(t.Context())
		cancel() // by the user
		require.Equal(t, 130, w.start(ctx, nil, io.Discard, io.Discard, append([]string{"context"}, args...)...), args)
	}
	require.NoError(t, syscall.Flock(int(f.Fd()), syscall.LOCK_UN)) // #nosec G115 -- a descriptor
	w.done("context", "use", "two")
}
