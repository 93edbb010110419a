package domain

import "github.com/drover-io/drover/internal/fail"

// ServiceAccount is a program that calls the API, by one of the account's tokens. What it may do is bound to it by its key, such
// as service-accounts/ci.
type ServiceAccount struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
}

// ServiceAccounts is the noun.
var ServiceAccounts = &Noun{
	Kind: "service-accounts", Title: "service account", Collection: "service-accounts", Names: []string{"serviceAccount"},
	New: func() Object { return &ServiceAccount{} },
}

// Noun is ServiceAccounts.
func (*ServiceAccount) Noun() *Noun { return ServiceAccounts }

// Validate checks the body.
func (a *ServiceAccount) Validate(p *fail.Problems) { a.Metadata.Validate(p) }
