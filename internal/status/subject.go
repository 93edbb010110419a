package status

import "github.com/drover-io/drover/internal/domain"

// Subject is what a document is about.
type Subject string

// The subjects.
const (
	SubjectGroup    Subject = ""         // a deployment intent group
	SubjectNetworks Subject = "networks" // the network intents of a cluster
	SubjectCloud    Subject = "cloud"    // a logical cloud
)

// SubjectOf is what the documents of an owner are about.
func SubjectOf(owner domain.Key) Subject {
	if n := domain.OwnerNoun(owner); n != nil {
		return Subject(n.Owner.Document)
	}
	return SubjectGroup // where many of them stand
}

// subject is what documents about one subject have of their own.
type subject struct {
	kebab, camel *form                  // of EMCO up to 21.03, and of 22.x
	holder       func(s *Source) string // what the apps of a context belong to
	narrow       func(q *Query)         // takes away what such documents do not have; nil for nothing
}

// subjects are all there are.
var subjects = map[Subject]subject{
	SubjectGroup: {
		kebab: &kebab, camel: &camel,
		holder: func(s *Source) string { return "composite app " + s.CompositeApp },
	},
	SubjectNetworks: {
		kebab: &kebabNetworks, camel: &camelNetworks,
		holder: func(s *Source) string { return "cluster " + s.Name },
		narrow: func(q *Query) { q.List = ListNone }, // EMCO ignores it
	},
	SubjectCloud: { // EMCO up to 21.03 has none, and it has neither the old types nor apps
		kebab: &camelCloud, camel: &camelCloud,
		holder: func(s *Source) string { return "logical cloud " + s.Name },
		narrow: func(q *Query) {
			if q.Type != TypeDeployed {
				q.Type = TypeReady
			}
			if q.List == ListApps {
				q.List = ListNone
			}
			q.Apps = nil
		},
	},
}

// For is the query as it asks for a document of the subject: what such documents do not have it does not ask for.
func (q Query) For(s Subject) Query {
	if narrow := subjects[s].narrow; narrow != nil {
		narrow(&q)
	}
	return q
}
