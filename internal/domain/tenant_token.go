package domain

import "github.com/drover-io/drover/internal/fail"

// TenantToken is a bearer token with which clients of the gRPC services speak for a tenant. The token itself is in the answer
// to the POST that makes it, and nowhere else: only a hash is kept. To delete the document revokes it.
type TenantToken struct {
	Identity   `bson:",inline"`
	Credential `json:"-" bson:",inline"`
	Metadata   `json:"metadata" api:"required"`
	Spec       TokenSpec   `json:"spec"`
	Status     TokenStatus `json:"status" bson:"-"` // what is known of it; what is sent of it is left alone
}

// TenantTokens is the noun.
var TenantTokens = &Noun{
	Kind: "tenant-tokens", Title: "token", Collection: "tokens", Names: []string{"token"},
	Parent: Tenants, New: func() Object { return &TenantToken{} }, Fixed: true,
}

// Noun is TenantTokens.
func (*TenantToken) Noun() *Noun { return TenantTokens }

// Validate checks the body.
func (t *TenantToken) Validate(p *fail.Problems) {
	t.Metadata.Validate(p)
	t.Spec.validate(p)
}

// Parts implements Bearer.
func (t *TenantToken) Parts() (*TokenSpec, *TokenStatus, *Credential) {
	return &t.Spec, &t.Status, &t.Credential
}
