package authn

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/drover-io/drover/internal/fail"
)

// Offers say how callers may prove who they are.
type Offers struct {
	// Asked says whether callers are asked at all; without, everybody may do everything (--auth=off).
	Asked     bool    `json:"asked"`
	Providers []Offer `json:"providers"`
}

// Offer is an OpenID provider at which people log in.
type Offer struct {
	Name    string         `json:"name"`              // for people
	Issuer  string         `json:"issuer"`            // its URL
	Browser bool           `json:"browser"`           // one may log in at the page
	Command *CommandClient `json:"command,omitempty"` // what drover login needs; nil where it has no client
}

// CommandClient is the public client that drover login is.
type CommandClient struct {
	ClientID    string   `json:"clientID"`
	RedirectURL string   `json:"redirectURL"`
	Scopes      []string `json:"scopes,omitempty"` // openid and what the provider knows of WantedScopes when missing
}

// WantedScopes are asked for where nothing is configured, and the provider knows them: what says who somebody is, and a token by which
// there is another one when the first has expired.
var WantedScopes = []string{"profile", "email", "groups", "offline_access"}

// Login is what came of somebody's login at the page: a session that is still to be kept.
type Login struct {
	*Proof
	// Secret is what the browser shows from then on, and ID what is stored of it.
	Secret, ID string
	// Expires is when the session ends.
	Expires time.Time
	// To is where in the page the user was.
	To string
	// Token and Refresh are what the provider has given.
	Token, Refresh string
}

// SessionID is what is stored of a session's secret: its SHA-256, in hex.
func SessionID(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// ErrOther is the cause where an answer is to another login than the one that the browser has begun last. That one goes on.
var ErrOther = errors.New("the answer is to another login")

// Ended is the error of a session that is over.
func Ended() error { return fail.New(fail.Unauthorized, "the session has ended: log in again") }
