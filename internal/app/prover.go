package app

import (
	"time"

	"github.com/drover-io/drover/internal/authn"
)

// prover says who calls the API, as is configured.
func (p *Parts) prover() authn.Prover {
	if p.config.Auth == "off" {
		p.log.Warn("nobody is asked who they are: whoever reaches the API on this machine may do everything", "setting", "--auth=off (DROVER_AUTH)")
		return authn.Off
	}
	return authn.Chain(
		authn.Tokens{Store: p.store, Now: time.Now}.Prove,
		authn.Unread,
		authn.Certificates(p.config.TrustedProxies, time.Now),
	)
}
