package domain

import "time"

// Sessions is the noun of logins at the page, which begin and end by their own routes.
var Sessions = &Noun{Kind: "sessions", Title: "session", Collection: "sessions", Names: []string{"session"}}

// Session is a login at the page: what an OpenID provider has given for it. The browser has its secret and nothing else.
type Session struct {
	ID       string    `bson:"_id"`             // SHA-256 of the secret, in hex
	Revision int64     `bson:"revision"`        // counts writes
	Expires  time.Time `bson:"expires"`         // when it ends, whatever the provider says
	Token    string    `bson:"token"`           // the provider's ID token, which proves who it is
	Refresh  string    `bson:"refresh"`         // by which the provider gives another one, "" when it gives none
	Renewed  time.Time `bson:"renewed"`         // when Token was given
	Renewing time.Time `bson:"renewing"`        // until when a process is at asking for another one, or at giving Refresh back
	Ended    time.Time `bson:"ended,omitempty"` // when it was ended, zero as long as it goes on: Refresh is still to be given back
}

// SessionKey is the key by which a session is spoken of. It tells nobody its secret, nor the whole of its id.
func SessionKey(id string) Key { return Join(Sessions.Collection, SessionName(id)) }

// SessionName is the name in that key.
func SessionName(id string) string { return id[:min(len(id), sessionName)] }

// sessionName is how many digits name a session.
const sessionName = 16
