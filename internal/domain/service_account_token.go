package domain

import "github.com/drover-io/drover/internal/fail"

// ServiceAccountToken is a bearer token with which a program calls the API as a service account. The token itself is in the answer
// to the POST that makes it, and nowhere else: only a hash is kept. To delete the document revokes it.
type ServiceAccountToken struct {
	Identity   `bson:",inline"`
	Credential `json:"-" bson:",inline"`
	Metadata   `json:"metadata" api:"required"`
	Spec       TokenSpec   `json:"spec"`
	Status     TokenStatus `json:"status" bson:"-"` // what is known of it; what is sent of it is left alone
}

// ServiceAccountTokens is the noun.
var ServiceAccountTokens = &Noun{
	Kind: "service-account-tokens", Title: "token of a service account", Collection: "tokens", Names: []string{"token"},
	Parent: ServiceAccounts, New: func() Object { return &ServiceAccountToken{} }, Fixed: true,
}

// Noun is ServiceAccountTokens.
func (*ServiceAccountToken) Noun() *Noun { return ServiceAccountTokens }

// Validate checks the body.
func (t *ServiceAccountToken) Validate(p *fail.Problems) {
	t.Metadata.Validate(p)
	t.Spec.validate(p)
}

// Parts implements Bearer.
func (t *ServiceAccountToken) Parts() (*TokenSpec, *TokenStatus, *Credential) {
	return &t.Spec, &t.Status, &t.Credential
}
