package domain

import (
	"slices"

	"github.com/drover-io/drover/internal/fail"
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

// Owners are the nouns whose documents are Owners.
var Owners = []*Noun{DeploymentIntentGroups, LogicalClouds, ClustersNoun}

// IsOwner says whether a key is that of an owner in all its segments: the collections are where they must be and the names
// are names.
func IsOwner(key Key) bool {
	noun := OwnerNoun(key)
	if noun == nil {
		return false
	}
	var collections []*Noun
	for n := noun; n != nil; n = n.Parent {
		collections = append(collections, n)
	}
	rest := key.Segments()
	for _, n := range slices.Backward(collections) {
		names := 1
		if n == CompositeApps {
			names = 2 // with its version
		}
		if len(rest) < 1+names || rest[0] != n.Collection {
			return false
		}
		for _, name := range rest[1 : 1+names] {
			var p fail.Problems
			if CheckName(&p, "name", name); p.Err() != nil {
				return false
			}
		}
		rest = rest[1+names:]
	}
	return len(rest) == 0
}

// OwnerNoun is the noun of an owner's key, nil when it is no owner's.
func OwnerNoun(key Key) *Noun {
	segments := key.Segments()
	if len(segments) < 2 {
		return nil
	}
	collection := segments[len(segments)-2] // an owner has one name
	for _, n := range Owners {
		if n.Collection == collection {
			return n
		}
	}
	return nil
}
