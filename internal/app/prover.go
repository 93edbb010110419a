package app

import (
	"time"

	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/oidc"
)

// prover says who calls the API, as is configured.
func (p *Parts) prover() authn.Prover {
	if p.config.Auth == "off" {
		p.log.Warn("nobody is asked who they are: whoever reaches the API on this machine may do everything", "setting", "--auth=off (DROVER_AUTH)")
		return authn.Off
	}
	chain := []authn.Prover{authn.Tokens{Store: p.store, Now: time.Now, Turns: authn.NewTurns()}.Prove}
	if p.issuers != nil {
		chain = append(chain, p.issuers.Prove)
	}
	return authn.Chain(append(chain, authn.Unread, authn.Certificates(p.config.TrustedProxies, time.Now))...)
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
	return oidc.New(read, time.Now)
}
