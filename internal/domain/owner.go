package domain

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Owner is a resource with a lifecycle: operations put what it describes into clusters and take it out
// again, each time in an app context of its own.
type Owner interface {
	Object
	// Track is its history.
	Track() *History
	// Decide says what an operation does in the owner's present state when its last context stands at c. A
	// refusal is a Conflict or Invalid that says the state and what to do.
	Decide(c ContextStatus, op Operation) (Transition, error)
}

// Owners are the nouns whose documents are Owners. OwnerOf takes the first one all of whose attributes a workflow has.
var Owners = []*Noun{DeploymentIntentGroups, LogicalClouds, ClustersNoun}

// OwnerKind says how the owners of a noun are run and shown. Most of the product knows nothing else of an owner but the
// methods of Owner (docs/checklists/new-owner.md). Its texts may have names of the owner's key in braces, in the words of
// Noun.Split: "{project}/{logicalCloud}".
type OwnerKind struct {
	// ID begins the ids of its workflows: no two owners have the same, and there is little beside names in it, so that the
	// list of the Web UI has room for what comes after it. It never changes.
	ID string
	// Label names it for people in the Web UI, after the operation.
	Label string
	// Name is what its status is headed with.
	Name string
	// Attributes find its workflows, and tell whose they are.
	Attributes []Attribute
	// Document is the form of its status, a status.Subject.
	Document string
	// Certifies says that its leaves wait for certificates of its user, which are renewed as long as it is instantiated.
	Certifies bool
	// Operations are those that users may ask of it, in the order in which they are shown.
	Operations []OwnerOperation
}

// Attribute is a search attribute of Temporal, which stays within 255 bytes.
type Attribute struct {
	Name  string // such as "DroverProject"
	Value string
}

// OwnerOperation is an operation as the API offers it.
type OwnerOperation struct {
	Operation      Operation
	Word           string // in the path and in lists; the operation's own when ""
	Summary, About string // for people
}

// Certifies says whether the owner is of a noun whose OwnerKind does.
func Certifies(owner Key) bool {
	n := OwnerNoun(owner)
	return n != nil && n.Owner.Certifies
}

// Called is the operation's word.
func (o OwnerOperation) Called() string { return cmp.Or(o.Word, string(o.Operation)) }

// Word is how an operation on an owner is called.
func (k *OwnerKind) Word(op Operation) string {
	for _, o := range k.Operations {
		if o.Operation == op {
			return o.Called()
		}
	}
	return string(op)
}

// NameOwner names an owner for people, as one among all of its noun: `deployment intent group "p/ca/v1/web"`.
func NameOwner(owner Key) string {
	n, names := OwnerNoun(owner), []string(nil)
	if n == nil {
		return strconv.Quote(string(owner))
	}
	rest := owner.Segments()
	for _, level := range n.Lineage() {
		if len(rest) < 1+len(level.Names) {
			return fmt.Sprintf("%s %q", n.Title, owner)
		}
		names, rest = append(names, rest[1:1+len(level.Names)]...), rest[1+len(level.Names):]
	}
	return fmt.Sprintf("%s %q", n.Title, strings.Join(names, "/"))
}

// Fill puts the names of a key of the noun into a text; false when it is no such key.
func (n *Noun) Fill(text string, key Key) (string, bool) {
	names, ok := n.split(key)
	if !ok {
		return "", false
	}
	var filled strings.Builder
	for { // and not over the names: workflows call this, and may not depend on the order of a map
		before, rest, open := strings.Cut(text, "{")
		called, after, closed := strings.Cut(rest, "}")
		filled.WriteString(before)
		if !open || !closed {
			filled.WriteString(text[len(before):])
			return filled.String(), true
		}
		filled.WriteString(names[called])
		text = after
	}
}

// OwnerOf is the owner whose attributes have the values, "" when they are no owner's.
func OwnerOf(value func(attribute string) string) Key {
	for _, n := range Owners {
		names := map[string]string{}
		ok := true
		for _, a := range n.Owner.Attributes {
			ok = ok && read(a.Value, value(a.Name), names)
		}
		if key, found := n.Key(names); ok && found {
			return key
		}
	}
	return ""
}

// read is the opposite of Fill: it takes the names out of a text that was filled in.
func read(text, filled string, into map[string]string) bool {
	for text != "" {
		before, rest, named := strings.Cut(text, "{")
		if !strings.HasPrefix(filled, before) {
			return false
		}
		if !named {
			return filled == before
		}
		filled = filled[len(before):]
		name, after, _ := strings.Cut(rest, "}")
		end := len(filled)
		if literal, _, _ := strings.Cut(after, "{"); literal != "" {
			if end = strings.Index(filled, literal); end < 0 {
				return false
			}
		}
		if end == 0 {
			return false
		}
		into[name], filled, text = filled[:end], filled[end:], after
	}
	return filled == ""
}

// IsOwner says whether a key is that of an owner in all its segments: the collections are where they must be and the names
// are names.
func IsOwner(key Key) bool {
	noun := OwnerNoun(key)
	if noun == nil {
		return false
	}
	_, ok := noun.Split(key)
	return ok
}

// OwnerNoun is the noun of an owner's key, nil when it is no owner's.
func OwnerNoun(key Key) *Noun {
	segments := key.Segments()
	for _, n := range Owners {
		if at := len(segments) - len(n.Names) - 1; at >= 0 && segments[at] == n.Collection {
			return n
		}
	}
	return nil
}
