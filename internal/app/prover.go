package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/drover-io/drover/api"
	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/oidc"
)

// prover says who calls the API, as is configured.
func (p *Parts) prover() (authn.Prover, error) {
	if p.config.Auth == "off" {
		p.log.Warn("nobody is asked who they are: whoever reaches the API on this machine may do everything", "setting", "--auth=off (DROVER_AUTH)")
		return authn.Off, nil
	}
	trust, err := p.config.TLS.Trust(p.log)
	if err != nil {
		return nil, err
	}
	chain := []authn.Prover{authn.Tokens{Store: p.store, Now: time.Now, Turns: authn.NewTurns(), Scrapes: authn.NewScrapes(lease.Now)}.Prove}
	if p.issuers != nil {
		chain = append(chain, p.issuers.Prove)
	}
	if p.sessions != nil {
		chain = append(chain, p.sessions.Prove)
	}
	return authn.Chain(append(chain, authn.Unread, authn.Certificates(subjects(p.config), p.config.TrustedProxies, time.Now, trust))...), nil
}

// subjects say who is who by a certificate.
func subjects(c *config.Config) authn.Subjects {
	return authn.Subjects{User: c.CertUser, Groups: c.CertGroups, Prefix: c.CertPrefix}
}

// apart refuses a prefix by which a user by a certificate could be called as one of an issuer, or the other way round. Without one the issuers' prefixes
// tell them apart, as far as no certificate names one.
func apart(certificates string, c *oidc.Config) error {
	for i, issuer := range c.Issuers {
		if certificates != "" && (strings.HasPrefix(issuer.Prefix, certificates) || strings.HasPrefix(certificates, issuer.Prefix)) {
			return fmt.Errorf("--client-cert-prefix (DROVER_CLIENT_CERT_PREFIX): %q and issuers[%d].prefix %q of %s (--auth-config) begin alike, so that users of one could be called as those of the other",
				certificates, i, issuer.Prefix, issuer.URL)
		}
	}
	return nil
}

// issuersOf are the OpenID issuers of a config, nil for none.
func issuersOf(c *config.Config) (*oidc.Providers, error) {
	if c.AuthConfig == "" {
		return nil, nil
	}
	read, err := oidc.Read(c.AuthConfig, c.TLS.CA != "" || len(c.TrustedProxies) > 0)
	if err != nil {
		return nil, err
	}
	if err := apart(c.CertPrefix, read); err != nil {
		return nil, err
	}
	return oidc.New(read, time.Now)
}

// login is how people log in.
func (p *Parts) login() api.Login {
	l := api.Login{Offers: authn.Offers{Asked: p.config.Auth != "off", Providers: []authn.Offer{}}}
	if p.issuers != nil {
		l.Offers.Providers = p.issuers.Offers()
	}
	if p.sessions != nil {
		l.Logins, l.Address = p.sessions, p.issuers.Callback()
		l.Secure = strings.HasPrefix(l.Address, "https:")
	}
	return l
}

// checkIssuers looks at what issuers say of themselves: a wrong one is an error, one that does not answer is none.
func (p *Parts) checkIssuers(ctx context.Context) error {
	if p.issuers == nil {
		return nil
	}
	return p.issuers.Check(ctx, func(issuer string, err error) {
		p.log.Warn("an OpenID issuer does not answer; its users cannot log in until it does", "issuer", issuer, "error", err, "cause", errors.Unwrap(err))
	})
}

// admit makes what people need to log in at the page, where a provider is configured for that.
func (p *Parts) admit(ctx context.Context) error {
	if p.issuers == nil || p.issuers.Callback() == "" {
		return nil
	}
	root, err := p.store.Root(ctx)
	if err != nil {
		return err
	}
	sealed, err := root.Sealer("logins that go on")
	if err != nil {
		return err
	}
	p.sessions = oidc.NewSessions(p.issuers, p.store, sealed, time.Now)
	return nil
}
