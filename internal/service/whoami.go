package service

import (
	"time"

	"github.com/drover-io/drover/internal/fail"
)

// Whoami is who asks, what that caller may do, and who answers.
type Whoami struct {
	// Installation is the id of the installation that answers: that of its store, whatever becomes of keys and machines.
	Installation string     `json:"installation,omitempty"`
	Kind         string     `json:"kind" api:"required"` // what sort of caller: user, service-account, or open while nobody is asked (--auth=off)
	Name         string     `json:"name,omitempty"`      // unique within the kind
	Groups       []string   `json:"groups,omitempty"`    // those that the provider or the certificate names
	By           string     `json:"by,omitempty"`        // how that was proven
	Expires      *time.Time `json:"expires,omitempty"`   // when the proof ends; never when missing
	// Scope is where the rights hold: the path of a project or a cluster provider; everywhere when missing.
	Scope  string  `json:"scope,omitempty"`
	Rights []Right `json:"rights,omitempty"` // of the nouns that were asked for
}

// Right is what may be done to documents of a noun. It is what the API asks before anything else: what a request names may still not
// be for the caller, such as a role with more rights than the caller has, or approving one's own change where there are four eyes.
type Right struct {
	Noun   string   `json:"noun"`             // the kind of the documents
	May    []string `json:"may"`              // the verbs that are allowed, of those that were asked for
	MayNot []Denied `json:"mayNot,omitempty"` // and those that are not, where both verbs and nouns were named
}

// Denied is what may not be done, and how a request for it would be answered.
type Denied struct {
	Verb string    `json:"verb"` // what may not be done
	Kind fail.Kind `json:"kind"` // Forbidden, or NotFound for what the caller may not know of either
	Why  string    `json:"why"`  // which right is missing, which roles have it, and who can give it
}
