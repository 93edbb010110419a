package domain

import (
	"time"

	"github.com/drover-io/drover/internal/fail"
)

// Bearer is a document of a bearer token. The token is in the answer to the POST that makes it, and nowhere else: only a hash is
// kept. To delete the document revokes it.
type Bearer interface {
	Object
	// Parts are what is asked of the token, what is known of it, and what is kept of it.
	Parts() (*TokenSpec, *TokenStatus, *Credential)
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

func (s *TokenSpec) validate(p *fail.Problems) {
	if d := s.Life(); d < LeastTokenLife || d > MaxTokenLife {
		p.Add("spec.expiresAfter", "%q is not a time of %s to %s, such as 720h", s.ExpiresAfter, LeastTokenLife, MaxTokenLife)
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

// ShowToken fills in the status, but for the token.
func ShowToken(b Bearer) {
	_, status, kept := b.Parts()
	status.Expires = kept.Expires.UTC().Truncate(time.Millisecond)
	if status.LastUsed = nil; !kept.LastUsed.IsZero() {
		used := kept.LastUsed.UTC().Truncate(time.Millisecond)
		status.LastUsed = &used
	}
}
