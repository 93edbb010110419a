package caller

import (
	"context"
	"time"
)

// Kind is what sort of caller somebody is. Rights are bound to a kind and a name, so that a user who calls himself as a service
// account does gains nothing.
type Kind string

// The kinds.
const (
	// Anonymous is who has shown nothing.
	Anonymous Kind = ""
	// Open is everybody while the API asks nobody who they are (--auth=off). It may do everything.
	Open Kind = "open"
	// User is a person, by an OpenID provider, a client's certificate or a proxy that is trusted.
	User Kind = "user"
	// ServiceAccount is a program, by a token of a service account; its name is the account's key.
	ServiceAccount Kind = "service-account"
	// Tenant is who speaks for a tenant on the listener of the tenants' services, which has found that it may (decision 0036); its
	// name is the tenant's. It asks for what is its tenant's and nothing else: that listener has no other calls.
	Tenant Kind = "tenant"
)

// Identity is who asks for something, as far as it was proven.
type Identity struct {
	Kind Kind
	// Name is unique within the kind: "alice@example.org", or the key of a service account.
	Name string
	// Groups are those that the provider or the certificate names. Service accounts have none.
	Groups []string
	// By is how it was proven, in words for people: "oidc https://dex.example.org", "token projects/p/service-accounts/ci/tokens/t".
	By string
	// Expires is when the proof ends, zero for never.
	Expires time.Time
}

// String is the kind and the name: "user alice@example.org". It is the form in which operations, audit and messages show callers.
func (i Identity) String() string {
	switch i.Kind {
	case Anonymous:
		return "anonymous"
	case Open:
		return "anybody (--auth=off)"
	case User, ServiceAccount, Tenant:
	}
	return string(i.Kind) + " " + i.Name
}

type identityKey struct{}

type proven struct {
	identity Identity
	err      error
	look     Look
}

// Look says whether what has proven an identity still does: an error of kind Unauthorized when it was withdrawn. Any other error
// says that this cannot be told now.
type Look func(ctx context.Context) error

// WithIdentity is ctx with who asks. An edge sets it before it reads anything else of a request. With err, which is a fail error,
// the caller showed something that proves nothing; the door answers with it (decision 0049), so that audit sees it, too.
func WithIdentity(ctx context.Context, i Identity, err error) context.Context {
	return context.WithValue(ctx, identityKey{}, proven{identity: i, err: err})
}

// WithLook is WithIdentity for one whose proof can be withdrawn before it ends.
func WithLook(ctx context.Context, i Identity, look Look) context.Context {
	return context.WithValue(ctx, identityKey{}, proven{identity: i, look: look})
}

// LookOf is the look of who asks, nil where nothing can be withdrawn.
func LookOf(ctx context.Context) Look {
	p, _ := ctx.Value(identityKey{}).(proven)
	return p.look
}

// IdentityOf is who asks, or why that is not known. What no edge has set is Anonymous.
func IdentityOf(ctx context.Context) (Identity, error) {
	p, _ := ctx.Value(identityKey{}).(proven)
	return p.identity, p.err
}
