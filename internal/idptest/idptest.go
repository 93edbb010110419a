// Package idptest starts an OpenID provider for tests, and logs in there as a person with a browser does. It is the one of deploy/tools/idp.
package idptest

import (
	"bufio"
	"context"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/built"
	"github.com/drover-io/drover/internal/tether"
)

// The client of the page, and that of the command.
const (
	Page    = "page"
	Secret  = "the-page's-own-secret"
	Command = "drover-cli"
)

// User is who logs in, and Name its subject in tokens. Everybody is in the group Group.
const (
	User     = "test-user2"
	Password = "verysecure"
	Name     = "id2"
	Group    = "staff"
)

// patience bounds each question to the provider.
const patience = time.Minute

// IdP is a provider that runs.
type IdP struct {
	Issuer  string
	t       testing.TB
	process *os.Process
	end     func()
}

// Start starts one, which ends with the test.
func Start(t testing.TB, args ...string) *IdP {
	t.Helper()
	command := exec.CommandContext(context.WithoutCancel(t.Context()), built.Binary(t, "idp"), args...)
	said, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, tether.Start(command, syscall.SIGKILL))
	p := &IdP{t: t, process: command.Process}
	ended := false
	p.end = func() {
		if !ended {
			ended = true
			_ = command.Process.Kill()
			_ = command.Wait() // it was killed
		}
	}
	t.Cleanup(p.end)
	line, err := bufio.NewReader(said).ReadString('\n')
	require.NoError(t, err)
	issuer, ok := strings.CutPrefix(strings.TrimSpace(line), "ready idp issuer=")
	require.True(t, ok, line)
	p.Issuer = issuer
	return p
}

// Kill ends it.
func (p *IdP) Kill() { p.end() }

// Freeze has it answer nobody, and Thaw go on.
func (p *IdP) Freeze() { p.signal(syscall.SIGSTOP) }

// Thaw is the opposite of Freeze.
func (p *IdP) Thaw() { p.signal(syscall.SIGCONT) }

func (p *IdP) signal(s syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.process.Signal(s))
}

// Good is how many refresh tokens are good of those that it has given.
func (p *IdP) Good() int {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.Issuer+"/control/good", nil)
	require.NoError(p.t, err)
	_, body := p.do(http.DefaultClient, r)
	n, err := strconv.Atoi(body)
	require.NoError(p.t, err)
	return n
}

// Tell has its operator do something: rotate (alone=1 for the new key alone), withdraw and restore (user).
func (p *IdP) Tell(what string, form url.Values) {
	p.t.Helper()
	_, body := p.post(http.DefaultClient, p.Issuer+"/control/"+what, form)
	require.Empty(p.t, body, what)
}

// Allow is what a person does with the code of a device.
func (p *IdP) Allow(code string) {
	p.t.Helper()
	_, body := p.post(http.DefaultClient, p.Issuer+"/device", url.Values{"user_code": {code}, "username": {User}, "password": {Password}})
	require.Empty(p.t, body)
}

// NewBrowser is one without anything in it.
func NewBrowser(t testing.TB) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return &http.Client{Jar: jar, Timeout: patience}
}

// field is what the form of the provider has for itself.
var field = regexp.MustCompile(`name="id" value="([^"]*)"`)

// Enter goes to an address that leads to the provider, logs in there, and follows it back: to where, and what is said there.
func (p *IdP) Enter(browser *http.Client, address string) (at, body string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, address, nil)
	require.NoError(p.t, err)
	at, body = p.do(browser, r)
	id := field.FindStringSubmatch(body)
	require.NotNil(p.t, id, "%s has no form: %s", at, body)
	return p.post(browser, p.Issuer+"/login/username", url.Values{"id": {html.UnescapeString(id[1])}, "username": {User}, "password": {Password}})
}

func (p *IdP) post(browser *http.Client, address string, form url.Values) (at, body string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, address, strings.NewReader(form.Encode()))
	require.NoError(p.t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return p.do(browser, r)
}

// do asks, and says where the answer came from at last.
func (p *IdP) do(browser *http.Client, r *http.Request) (at, body string) {
	p.t.Helper()
	answer, err := browser.Do(r)
	require.NoError(p.t, err)
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	require.NoError(p.t, err)
	return answer.Request.URL.String(), string(data)
}
