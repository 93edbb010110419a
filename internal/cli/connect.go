package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/hosts"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/version"
)

// dialTime bounds how long a connection to the API may take; what it answers in is the client's matter.
const dialTime = 10 * time.Second

// defaultServer is where the API of this machine is.
const defaultServer = "http://127.0.0.1:9015"

// current is the context that the command is to use: that of the file, with the environment and then the flags over it.
func (s *session) current() (*Context, error) {
	found, err := s.load()
	if err != nil {
		return nil, err
	}
	c := &Context{}
	if name := or(s.flags.context, s.Getenv("DROVER_CONTEXT"), found.Current); name != "" {
		if c = found.find(name); c == nil {
			return nil, usage("there is no context %q; see '%s context list'", name, s.Program)
		}
	}
	server := or(s.flags.server, s.Getenv("DROVER_SERVER"))
	if server != "" && !sameServer(server, c.Server) {
		// What proves who asks belongs to the server that it was given for, and so does the name by which it is kept.
		c = &Context{Project: c.Project}
	}
	c.Server = or(server, c.Server, defaultServer)
	for into, values := range map[*string][]string{
		&c.CA:                {s.flags.ca, s.Getenv("DROVER_CA")},
		&c.ClientCertificate: {s.flags.certificate, s.Getenv("DROVER_CLIENT_CERTIFICATE")},
		&c.ClientKey:         {s.flags.key, s.Getenv("DROVER_CLIENT_KEY")},
		&c.Project:           {s.flags.project, s.Getenv("DROVER_PROJECT")},
	} {
		*into = or(append(values, *into)...)
	}
	// A token that is given has no file beside it, and the flags' is before the environment's.
	for _, given := range [][2]string{{s.flags.token, s.flags.tokenFile}, {s.Getenv("DROVER_TOKEN"), s.Getenv("DROVER_TOKEN_FILE")}} {
		if given[0] != "" || given[1] != "" {
			c.forget()
			c.Token, c.TokenFile = given[0], given[1]
			break
		}
	}
	if s.flags.changed("plaintext") { // also to false
		c.Plaintext = s.flags.plaintext
	}
	return c, nil
}

// above are warnings of the variables for which the commands that follow do not do as a context says, although it is the current one.
func (s *session) above(c *Context) (warnings []string) {
	warn := func(variable, instead string) {
		warnings = append(warnings, fmt.Sprintf("%s is set, and stands above context %s: commands %s until it is unset", variable, c.Name, instead))
	}
	if name := s.Getenv("DROVER_CONTEXT"); name != "" && name != c.Name {
		warn("DROVER_CONTEXT", "use "+name)
	}
	if server := s.Getenv("DROVER_SERVER"); server != "" && !sameServer(server, c.Server) {
		warn("DROVER_SERVER", "ask "+server)
	}
	if variable := s.tokenVariable(); variable != "" {
		warn(variable, "show its token")
	}
	return warnings
}

// tokenVariable is the variable that says which token commands show that have no flag for it, "" for none.
func (s *session) tokenVariable() string {
	for _, variable := range []string{"DROVER_TOKEN", "DROVER_TOKEN_FILE"} {
		if s.Getenv(variable) != "" {
			return variable
		}
	}
	return ""
}

func sameServer(a, b string) bool {
	x, errX := baseURL(a)
	y, errY := baseURL(b)
	return errX == nil && errY == nil && x.String() == y.String()
}

// baseURL is where the paths of the API begin: the server's URL with /v2.
func baseURL(server string) (*url.URL, error) {
	if !strings.Contains(server, "://") {
		server = "http://" + server
	}
	u, err := url.Parse(server)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || strings.ContainsAny(server, "?#") {
		return nil, usage("%q is not the URL of an API, such as %s", server, defaultServer)
	}
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/v2") + "/v2"
	return u, nil
}

// server is the URL as messages name it, "" when it is not known.
func (s *session) server() string {
	c, err := s.current()
	if err != nil {
		return ""
	}
	return c.Server
}

// api is the API of the current context.
func (s *session) api() (*client.API, error) {
	if s.client != nil {
		return s.client.API(), nil
	}
	c, err := s.current()
	if err != nil {
		return nil, err
	}
	if s.client, err = s.open(c); err != nil {
		return nil, err
	}
	return s.client.API(), nil
}

// open makes the client of a context. Nothing is asked yet.
func (s *session) open(c *Context) (*client.Client, error) {
	base, err := baseURL(c.Server)
	if err != nil {
		return nil, err
	}
	token, err := s.tokenOf(c)
	if err != nil {
		return nil, err
	}
	if token != "" {
		if err := plaintext(c); err != nil {
			return nil, err
		}
	}
	shown := []client.Option{client.WithToken(token)}
	switch {
	case c.Token == "" && readAgain(c.TokenFile): // another one may be put there meanwhile, as Kubernetes does each hour
		shown = []client.Option{client.WithTokens(func(context.Context) (string, error) { return s.tokenOf(c) })}
	case c.RefreshToken != "":
		kept := &tokens{session: s, context: *c}
		shown = []client.Option{client.WithTokens(kept.get), client.WithRenewal(kept.another)}
	}
	secured := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		var err error
		if secured.RootCAs, err = poolOf(c.CA); err != nil {
			return nil, err
		}
	}
	if (c.ClientCertificate == "") != (c.ClientKey == "") {
		return nil, usage("--client-certificate and --client-key belong together")
	}
	if c.ClientCertificate != "" {
		pair, err := tls.LoadX509KeyPair(c.ClientCertificate, c.ClientKey)
		if err != nil {
			return nil, errUsage{err}
		}
		secured.Certificates = []tls.Certificate{pair}
	}
	return client.New(base.String(), append(shown, client.WithAgent("drover/"+version.Of().Version), client.WithPatience(s.refusedForNow), client.WithTransport(connecting(secured)))...), nil
}

// connecting is how connections are made to the API. One that is dead is given up: HTTP/2 ends a request that takes too long, and keeps the connection
// for the next one, so that all would wait until TCP gives it up after a quarter of an hour.
func connecting(secured *tls.Config) *http.Transport {
	return &http.Transport{
		Proxy:       http.ProxyFromEnvironment,
		DialContext: (&net.Dialer{Timeout: dialTime}).DialContext, TLSHandshakeTimeout: dialTime, TLSClientConfig: secured,
		ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 64, IdleConnTimeout: 30 * time.Second,
		HTTP2: &http.HTTP2Config{SendPingTimeout: policy.StreamBeat, PingTimeout: policy.PingTime},
	}
}

// refusedForNow says once that the API has refused something for now: it may do so of each request of a command that has many.
// A shell that completes a line shows nothing of it.
func (s *session) refusedForNow(refusal error) {
	if len(s.Args) > 0 && strings.HasPrefix(s.Args[0], cobra.ShellCompRequestCmd) {
		return
	}
	s.busy.Do(func() { s.note("%s; it is asked again", s.text(refusal)) })
}

// plaintext refuses to show a token to another machine without TLS.
func plaintext(c *Context) error {
	base, err := baseURL(c.Server)
	if err != nil || base.Scheme != "http" || c.Plaintext || hosts.Loopback(base.Hostname()) {
		return err
	}
	return usage("%s is another machine, and everybody on the way could read the token: use https, or give --plaintext", base.Host)
}

// readAgain says whether a file with a token has it also the next time. What comes through a pipe, such as the shell's <(…), comes once.
func readAgain(file string) bool {
	info, err := os.Stat(file)
	return file != "-" && err == nil && info.Mode().IsRegular()
}

// maxToken bounds a token that is read, in bytes.
const maxToken = 64 << 10

// tokenOf is the token of a context, "" for none.
func (s *session) tokenOf(c *Context) (string, error) {
	switch {
	case c.Token != "":
		called := "context " + c.Name
		switch c.Token {
		case s.flags.token:
			called = "--token"
		case s.Getenv("DROVER_TOKEN"):
			called = "DROVER_TOKEN"
		}
		return oneToken(c.Token, called)
	case c.TokenFile != "":
		return s.readToken(c.TokenFile)
	}
	return "", nil
}

// byteOrderMark is what editors of Windows put before a text.
const byteOrderMark = "\ufeff"

// poolOf has the certificates of a file.
func poolOf(file string) (*x509.CertPool, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, errUsage{err}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bytes.TrimPrefix(data, []byte(byteOrderMark))) {
		return nil, usage("%s has no certificates (PEM)", file)
	}
	return pool, nil
}

// oneToken is a token without what stands around it where it was copied from. A text that has no word, or several lines, is said to be none: as a header of
// a request it would be refused in words of which nobody sees where it is from.
func oneToken(text, called string) (string, error) {
	token := strings.TrimSpace(strings.TrimPrefix(text, byteOrderMark))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return "", usage("%s has no token, or more than one word", called)
	}
	return token, nil
}

// readToken reads a token of a file, - for the standard input, where one line of a terminal is it.
func (s *session) readToken(file string) (string, error) {
	in, called := s.In, "the standard input"
	if file != "-" {
		called = file
		f, err := os.Open(file)
		if err != nil {
			return "", errUsage{err}
		}
		defer f.Close()
		in = f
	}
	read := func() ([]byte, error) { return readWhole(io.LimitReader(in, maxToken), "token") }
	if f := s.inTerminal(); file == "-" && f != nil {
		read = func() ([]byte, error) { return s.typedToken(f) }
	}
	data, err := read()
	if err != nil {
		return "", err
	}
	return oneToken(string(data), called)
}
