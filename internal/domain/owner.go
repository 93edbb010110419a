package domain

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
	_, ok := noun.Split(key)
	return ok
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
