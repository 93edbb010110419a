// Package domain holds the nouns of the product, one file each: fields, key, validation, state machine.
// It does no I/O and never asks for the time. Words are the user's; docs/concepts.md defines each once.
package domain

import (
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/drover-io/drover/internal/fail"
)

// Key names one resource for ever: its path below /v2 without a leading slash, such as
// "projects/p/composite-apps/ca/v1/apps/sink". It is the document's _id in the store.
type Key string

// Join makes a key of its segments.
func Join(segments ...string) Key { return Key(strings.Join(segments, "/")) }

// Child appends segments.
func (k Key) Child(segments ...string) Key {
	if k == "" {
		return Join(segments...)
	}
	return k + "/" + Join(segments...)
}

// Segments splits the key.
func (k Key) Segments() []string { return strings.Split(string(k), "/") }

// Name is the last segment.
func (k Key) Name() string { return string(k)[strings.LastIndexByte(string(k), '/')+1:] }

// Under says whether k is below parent.
func (k Key) Under(parent Key) bool { return strings.HasPrefix(string(k), string(parent)+"/") }

// Object is what the plain verbs need of a noun. Implementations are pointers to structs that embed
// Identity.
type Object interface {
	// Noun describes the type.
	Noun() *Noun
	// LocalName is the part of the key below parent and collection: the name, or for a composite app
	// name and version.
	LocalName() string
	// Base returns the identity embedded in the object.
	Base() *Identity
	// Validate adds every problem of the body to p. It checks the body alone, not what it refers to.
	Validate(p *fail.Problems)
}

// Identity is embedded in every noun and kept out of the JSON of the API.
type Identity struct {
	Parent   Key       `json:"-" bson:"parent"`   // key of the parent, "" at the top
	Revision int64     `json:"-" bson:"revision"` // grows with each write, from another beginning in each life; for compare-and-set
	Made     time.Time `json:"-" bson:"made"`     // when it was created
	Uploaded int64     `json:"-" bson:"uploaded"` // bytes of the files that came with it
}

// Base returns the identity itself.
func (i *Identity) Base() *Identity { return i }

// KeyOf is the key of o: parent, collection, local name.
func KeyOf(o Object) Key {
	return o.Base().Parent.Child(o.Noun().Collection, o.LocalName())
}

// Noun describes one kind of document.
type Noun struct {
	Kind       string // unique; the store's collection: "composite-apps"
	Title      string // for messages: "composite app"
	Collection string // URL segment below the parent: "composite-apps"
	// Names are the segments of the path after Collection, one for each part of a local name: "compositeApp",
	// "compositeAppVersion". They name the parameters of the API's paths.
	Names  []string
	Parent *Noun         // nil at the top
	New    func() Object // nil for what is no document, but made when it is asked for
	// Owner says, of a noun whose documents are Owners, how they are run and shown; nil for others.
	Owner *OwnerKind
	// Bounds says that one is a scope: it and what is below it may be given into somebody's hands as a whole (ScopeOf).
	Bounds bool
	// Abandons says that one may be deleted although a cluster that does not come back may keep something of it.
	Abandons bool
	// Fixed says that one is made and deleted, and not replaced: it has no PUT.
	Fixed bool
	// File says that a file is uploaded with a document.
	File bool
	// Files says that it is any number of files, each with a name.
	Files bool
	// Late says that what is not there yet may be referred to.
	Late bool
	// Longest is the longest name, in bytes; MaxName when it is 0.
	Longest int
	// Ahead says that its documents may refer to what is not there yet.
	Ahead bool
	// Ordered says that those of one parent act in the order in which they were made.
	Ordered bool
}

// Lineage are the noun and those above it, the topmost first.
func (n *Noun) Lineage() []*Noun {
	var all []*Noun
	for ; n != nil; n = n.Parent {
		all = append(all, n)
	}
	slices.Reverse(all)
	return all
}

// Split takes the key of a document of the noun apart: the names in it by what the noun and those above it call them, such
// as "project" and "compositeAppVersion". ok is false for a key of another noun, and when a name is no name.
func (n *Noun) Split(key Key) (names map[string]string, ok bool) {
	names, ok = n.split(key)
	for called, name := range names {
		var p fail.Problems
		if CheckCalled(&p, called, name); p.Err() != nil {
			return nil, false
		}
	}
	return names, ok
}

// split is Split without a look at the names.
func (n *Noun) split(key Key) (names map[string]string, ok bool) {
	names = map[string]string{}
	rest := key.Segments()
	for _, level := range n.Lineage() {
		if len(rest) < 1+len(level.Names) || rest[0] != level.Collection {
			return nil, false
		}
		for i, called := range level.Names {
			names[called] = rest[1+i]
		}
		rest = rest[1+len(level.Names):]
	}
	if len(rest) > 0 {
		return nil, false
	}
	return names, true
}

// Key is the opposite of Split; false when a name is missing.
func (n *Noun) Key(names map[string]string) (Key, bool) {
	var segments []string
	for _, level := range n.Lineage() {
		segments = append(segments, level.Collection)
		for _, called := range level.Names {
			name, ok := names[called]
			if !ok {
				return "", false
			}
			segments = append(segments, name)
		}
	}
	return Join(segments...), true
}

// Cut takes the key of a document of the noun apart: the parent's key, and the local name.
func Cut(n *Noun, key Key) (parent Key, local string) {
	segments := key.Segments()
	at := max(len(segments)-len(n.Names), 1)
	return Join(segments[:at-1]...), string(Join(segments[at:]...))
}

// Above cuts a key that is one of the noun's documents, or below one, to that document's: of a project, and anything in it,
// the project. ok is false for any other key.
func (n *Noun) Above(key Key) (one Key, ok bool) {
	depth := 0
	for _, level := range n.Lineage() {
		depth += 1 + len(level.Names)
	}
	segments := key.Segments()
	if len(segments) < depth {
		return "", false
	}
	one = Join(segments[:depth]...)
	_, ok = n.Split(one)
	return one, ok
}

// ScopeOf is the scope that a key belongs to, or is: a project or a cluster provider; "" for what is the fleet's.
func ScopeOf(key Key) Key {
	for _, n := range Nouns {
		if n.Bounds {
			if scope, ok := n.Above(key); ok {
				return scope
			}
		}
	}
	return ""
}

// Reference is a use of another resource by the body of an object; the target cannot be deleted while
// the reference stands.
type Reference struct {
	Field string // member that holds it: "spec.logicalCloud"
	Noun  *Noun
	Key   Key
}

// Referrer is an Object that refers to others.
type Referrer interface{ References() []Reference }

// Metadata is what nearly every resource has: its name, and what users say of it. The limits are EMCO's.
type Metadata struct {
	Name        string `json:"name" api:"required"` // how the resource is named, and found in paths; unique below its parent
	Description string `json:"description"`         // for people; at most 1024 characters
	UserData1   string `json:"userData1"`           // whatever the user wants to keep with it; at most 512 characters
	UserData2   string `json:"userData2"`           // more of the same kind; at most 512 characters
}

// LocalName is the name.
func (m *Metadata) LocalName() string { return m.Name }

// Validate checks metadata under the path "metadata".
func (m *Metadata) Validate(p *fail.Problems) {
	CheckName(p, "metadata.name", m.Name)
	m.checkRemarks(p)
}

// DescriptionLength is how many characters a description may have, as in EMCO.
const DescriptionLength = 1024

// checkRemarks checks what users say of a resource.
func (m *Metadata) checkRemarks(p *fail.Problems) {
	CheckLength(p, "metadata.description", m.Description, DescriptionLength)
	CheckLength(p, "metadata.userData1", m.UserData1, 512)
	CheckLength(p, "metadata.userData2", m.UserData2, 512)
}

// NamePattern is what every name must match (EMCO's schemas); it has no slash, so names are key segments.
const NamePattern = `^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`

// MaxName is the longest name, in bytes, unless a noun says otherwise (Noun.Longest).
const MaxName = 128

var namePattern = regexp.MustCompile(NamePattern)

// inWords is NamePattern as people read it.
const inWords = ": a name has letters and digits, and between them '-', '_' and '.'"

// CheckName adds a problem unless s is a name of at most MaxName.
func CheckName(p *fail.Problems, path, s string) { checkName(p, path, s, MaxName) }

// CheckCalled adds a problem unless s is a name of what nouns call by a word (Noun.Names), such as "workloadRule".
func CheckCalled(p *fail.Problems, called, s string) { checkName(p, called, s, LongestCalled(called)) }

// LongestCalled is the longest name, in bytes, of what nouns call by a word.
func LongestCalled(called string) int {
	for _, n := range Nouns {
		if n.Longest > 0 && slices.Contains(n.Names, called) {
			return n.Longest
		}
	}
	return MaxName
}

func checkName(p *fail.Problems, path, s string, longest int) {
	switch {
	case s == "":
		p.Add(path, "is required")
	case !namePattern.MatchString(s):
		p.Add(path, "Does not match pattern '%s'%s", NamePattern, inWords)
	case len(s) > longest:
		p.Add(path, "String length must be less than or equal to %d", longest)
	}
}

// CheckLength adds a problem when s has more than limit characters.
func CheckLength(p *fail.Problems, path, s string, limit int) {
	if utf8.RuneCountInString(s) > limit {
		p.Add(path, "String length must be less than or equal to %d", limit)
	}
}
