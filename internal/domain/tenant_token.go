package domain

import (
	"time"

	"github.com/drover-io/drover/internal/fail"
)

// TenantToken is a bearer token with which clients of the gRPC services speak for a tenant. The token itself is in the answer
// to the POST that makes it, and nowhere else: only a hash is kept. To delete the document revokes it.
type TenantToken struct {
	Identity   `bson:",inline"`
	Credential `json:"-" bson:",inline"`
	Metadata   `json:"metadata" api:"required"`
	Spec       TokenSpec   `json:"spec"`
	Status     TokenStatus `json:"status" bson:"-"` // what is known of it; what is sent of it is left alone
}

// TokenSpec says how long a token is good.
type TokenSpec struct {
	// for how long from now on, such as 720h; 2160h (90 days) when missing, 8784h (366 days) at the most
	ExpiresAfter string `json:"expiresAfter"`
}

// TokenStatus is what is known of a token.
type TokenStatus struct {
	Token    string     `json:"token,omitempty"`    // the token, in the answer to the POST alone: it cannot be shown again
	Expires  time.Time  `json:"expires"`            // until when it is good
	LastUsed *time.Time `json:"lastUsed,omitempty"` // when it was last used, to five minutes; missing when it never was
}

// Credential is what is kept of a bearer token.
type Credential struct {
	Hash     []byte    `json:"-" bson:"hash"`               // of the token's secret, see package token
	Expires  time.Time `json:"-" bson:"expires"`            // until when it is good
	LastUsed time.Time `json:"-" bson:"lastUsed,omitempty"` // written rarely, and beside the document's revision
}

// How long tokens are good: when nothing is said, and at the least and the most.
const (
	DefaultTokenLife = 90 * 24 * time.Hour
	LeastTokenLife   = time.Second
	MaxTokenLife     = 366 * 24 * time.Hour
)

// TenantTokens is the noun.
var TenantTokens = &Noun{
	Kind: "tenant-tokens", Title: "token", Collection: "tokens", Names: []string{"token"},
	Parent: Tenants, New: func() Object { return &TenantToken{} },
}

// Noun is TenantTokens.
func (*TenantToken) Noun() *Noun { return TenantTokens }

// Validate checks the body.
func (t *TenantToken) Validate(p *fail.Problems) {
	t.Metadata.Validate(p)
	if d := t.Spec.Life(); d < LeastTokenLife || d > MaxTokenLife {
		p.Add("spec.expiresAfter", "%q is not a time of %s to %s, such as 720h", t.Spec.ExpiresAfter, LeastTokenLife, MaxTokenLife)
	}
}

// Life is how long the token is good from when it is made; 0 when what is said is no time.
func (s *TokenSpec) Life() time.Duration {
	if s.ExpiresAfter == "" {
		return DefaultTokenLife
	}
	d, err := time.ParseDuration(s.ExpiresAfter)
	if err != nil {
		return 0
	}
	return d
}

// Show fills in Status, but for the token.
func (t *TenantToken) Show() {
	t.Status.Expires = t.Expires.UTC().Truncate(time.Millisecond)
	if t.Status.LastUsed = nil; !t.LastUsed.IsZero() {
		used := t.LastUsed.UTC().Truncate(time.Millisecond)
		t.Status.LastUsed = &used
	}
}
