package oidc

import (
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	upstream "github.com/coreos/go-oidc/v3/oidc"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/hosts"
)

// Config is the file of --auth-config.
type Config struct {
	Issuers []Issuer `json:"issuers"`
}

// Issuer is an OpenID provider whose tokens are taken.
type Issuer struct {
	URL         string   `json:"url"`         // as tokens have it; https, or http on this machine
	Audiences   []string `json:"audiences"`   // a token is for one of them
	CA          string   `json:"ca"`          // PEM file of those who vouch for the provider; the system's when missing
	UserClaim   string   `json:"userClaim"`   // which says who the user is; sub when missing; an email that the provider calls unverified is refused
	GroupsClaim string   `json:"groupsClaim"` // which lists the user's groups; groups when missing
	Prefix      string   `json:"prefix"`      // before the names of users and groups; none begins that of another issuer
	ClockSkew   string   `json:"clockSkew"`   // by how much clocks may differ; 30s when missing, 5m at the most
	Algorithms  []string `json:"algorithms"`  // of signatures; RS256 when missing
	Name        string   `json:"name"`        // for people who log in; the host of url when missing
	Browser     *Browser `json:"browser"`     // how people log in at the page; not at all when missing
	Command     *Command `json:"command"`     // how they do with drover login; not at all when missing
}

// Browser is the client that the page is for a provider.
type Browser struct {
	ClientID         string   `json:"clientID"`         // one of the audiences
	ClientSecretFile string   `json:"clientSecretFile"` // a file with its secret; none for a public client
	RedirectURL      string   `json:"redirectURL"`      // where the provider sends browsers back to: the API's URL with CallbackPath
	Scopes           []string `json:"scopes"`           // what is asked for; openid and what the provider knows of mostScopes when missing
}

// Command is the client that drover login is for a provider. It is a public one: it has no secret.
type Command struct {
	ClientID    string   `json:"clientID"`    // one of the audiences
	RedirectURL string   `json:"redirectURL"` // on the user's machine; at a free port where it has none. http://127.0.0.1/callback when missing
	Scopes      []string `json:"scopes"`      // as those of Browser
}

// CallbackPath is that to which providers send browsers back.
const CallbackPath = "/login/callback"

// defaultCallback is where drover login waits for a browser.
const defaultCallback = "http://127.0.0.1/callback"

// algorithms are those of signatures that may be taken: none is no signature, and with HS256 whoever checks could sign.
var algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

const (
	defaultSkew = 30 * time.Second
	mostSkew    = 5 * time.Minute
)

// Read reads a file. The error has all that is wrong with it, each by its name. Whether issuers answer is not asked. With certificates
// users and groups are named by client certificates, too, so that those of issuers all need a prefix.
func Read(file string, certificates bool) (*Config, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--auth-config: %w", err)
	}
	c := &Config{}
	if err := yaml.UnmarshalStrict(data, c); err != nil {
		return nil, fmt.Errorf("--auth-config: %s cannot be read: %w", file, err)
	}
	var p fail.Problems
	c.complete(&p)
	c.apart(&p, certificates)
	if err := p.Err(); err != nil {
		return nil, fmt.Errorf("--auth-config: %s: %s", file, fail.TextOf(err))
	}
	return c, nil
}

// complete fills in what is missing, and says what is wrong.
func (c *Config) complete(p *fail.Problems) {
	if len(c.Issuers) == 0 {
		p.Add("issuers", "one or more are required")
	}
	for i := range c.Issuers {
		issuer, at := &c.Issuers[i], func(member string) string { return fmt.Sprintf("issuers[%d].%s", i, member) }
		if why := badURL(issuer.URL); why != "" {
			p.Add(at("url"), "%q %s", issuer.URL, why)
		}
		for j, other := range c.Issuers[:i] {
			if other.URL == issuer.URL {
				p.Add(at("url"), "is that of issuers[%d]", j)
			}
		}
		if len(issuer.Audiences) == 0 || slices.Contains(issuer.Audiences, "") {
			p.Add(at("audiences"), "one or more are required, none of them empty")
		}
		if issuer.CA != "" {
			if _, err := poolOf(issuer.CA); err != nil {
				p.Add(at("ca"), "%s", err)
			}
		}
		if issuer.UserClaim == "" {
			issuer.UserClaim = "sub"
		}
		if issuer.GroupsClaim == "" {
			issuer.GroupsClaim = "groups"
		}
		if issuer.ClockSkew == "" {
			issuer.ClockSkew = defaultSkew.String()
		}
		if d, err := time.ParseDuration(issuer.ClockSkew); err != nil || d < 0 || d > mostSkew {
			p.Add(at("clockSkew"), "%q is not a time of at most %s, such as 30s", issuer.ClockSkew, mostSkew)
		}
		if len(issuer.Algorithms) == 0 {
			issuer.Algorithms = []string{"RS256"}
		}
		for j, a := range issuer.Algorithms {
			if !slices.Contains(algorithms, a) {
				p.Add(at(fmt.Sprintf("algorithms[%d]", j)), "%q is none of %s", a, strings.Join(algorithms, ", "))
			}
		}
		issuer.clients(p, at)
		issuer.sameOrigin(p, at, c.Issuers[:i])
	}
}

// clients says what is wrong with those who log in.
func (issuer *Issuer) clients(p *fail.Problems, at func(string) string) {
	if u, err := url.Parse(issuer.URL); err == nil && issuer.Name == "" {
		issuer.Name = u.Host
	}
	client := func(of, id string, scopes []string) {
		if id == "" {
			p.Add(at(of+".clientID"), "is required")
		} else if !slices.Contains(issuer.Audiences, id) {
			p.Add(at(of+".clientID"), "%q is not in audiences, so that nobody who logs in would be let in", id)
		}
		if len(scopes) > 0 && !slices.Contains(scopes, upstream.ScopeOpenID) {
			p.Add(at(of+".scopes"), "openid is missing, without which there is no ID token")
		}
	}
	if b := issuer.Browser; b != nil {
		client("browser", b.ClientID, b.Scopes)
		if why := badURL(b.RedirectURL); why != "" {
			p.Add(at("browser.redirectURL"), "%q %s", b.RedirectURL, why)
		} else if !strings.HasSuffix(b.RedirectURL, CallbackPath) {
			p.Add(at("browser.redirectURL"), "%q does not end with %s", b.RedirectURL, CallbackPath)
		}
		if _, err := b.secret(); err != nil {
			p.Add(at("browser.clientSecretFile"), "%s", err)
		}
	}
	if c := issuer.Command; c != nil {
		client("command", c.ClientID, c.Scopes)
		if c.RedirectURL == "" {
			c.RedirectURL = defaultCallback
		}
		if u, err := url.Parse(c.RedirectURL); err != nil || u.Scheme != "http" || !hosts.Loopback(u.Hostname()) || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			p.Add(at("command.redirectURL"), "%q is not on the user's own machine, such as %s", c.RedirectURL, defaultCallback)
		}
	}
}

// sameOrigin says whether browsers would come back to another place than from other issuers: a session is of one.
func (issuer *Issuer) sameOrigin(p *fail.Problems, at func(string) string, others []Issuer) {
	if issuer.Browser == nil {
		return
	}
	for j, other := range others {
		if other.Browser != nil && other.Browser.RedirectURL != issuer.Browser.RedirectURL {
			p.Add(at("browser.redirectURL"), "%q is not %q, that of issuers[%d]: all come back to the same page", issuer.Browser.RedirectURL, other.Browser.RedirectURL, j)
		}
	}
}

// secret is that of the client, "" for none. The file is read each time, so that it may change.
func (b *Browser) secret() (string, error) {
	if b.ClientSecretFile == "" {
		return "", nil
	}
	data, err := os.ReadFile(b.ClientSecretFile)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(data))
	if text == "" {
		return "", fmt.Errorf("%s is empty", b.ClientSecretFile)
	}
	return text, nil
}

// apart says which issuers could make names of others': by a prefix that begins another one's, as none begins all of them. Names by
// certificates have no prefix.
func (c *Config) apart(p *fail.Problems, certificates bool) {
	for i, issuer := range c.Issuers {
		at := fmt.Sprintf("issuers[%d].prefix", i)
		if certificates && issuer.Prefix == "" {
			p.Add(at, "is required of %s with --client-ca, since users and groups of certificates have none", issuer.URL)
		}
		for j, other := range c.Issuers[:i] {
			if strings.HasPrefix(issuer.Prefix, other.Prefix) || strings.HasPrefix(other.Prefix, issuer.Prefix) {
				p.Add(at, "%q of %s and %q of issuers[%d] (%s) begin alike, so that users of one could be called as those of the other: neither may begin the other",
					issuer.Prefix, issuer.URL, other.Prefix, j, other.URL)
			}
		}
	}
}

// badURL says why a URL cannot be that of an issuer, or of its keys; "" when it can.
func badURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "is not a URL such as https://dex.example.com"
	case u.Scheme == "https", u.Scheme == "http" && hosts.Loopback(u.Hostname()):
		return ""
	default:
		return "has to be https, but on this machine"
	}
}

// badEndpoint is badURL for what may have a query.
func badEndpoint(text string) string {
	address, _, _ := strings.Cut(text, "?")
	return badURL(address)
}

func poolOf(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("no certificate in %s", file)
	}
	return pool, nil
}
