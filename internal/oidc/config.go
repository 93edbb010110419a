package oidc

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/fail"
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
	UserClaim   string   `json:"userClaim"`   // which says who the user is; sub when missing, email only when it was verified
	GroupsClaim string   `json:"groupsClaim"` // which lists the user's groups; groups when missing
	Prefix      string   `json:"prefix"`      // before the names of users and groups; none begins that of another issuer
	ClockSkew   string   `json:"clockSkew"`   // by how much clocks may differ; 30s when missing, 5m at the most
	Algorithms  []string `json:"algorithms"`  // of signatures; RS256 when missing
}

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
	}
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
	case u.Scheme == "https", u.Scheme == "http" && loopback(u.Hostname()):
		return ""
	default:
		return "has to be https, but on this machine"
	}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
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
