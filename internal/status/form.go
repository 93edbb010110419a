package status

import (
	"time"

	"github.com/drover-io/drover/internal/domain"
)

// form is one way to write the documents: the names of members and their order, which clients rely on.
// The members are those of the values that the functions return, marshalled by encoding/json; what can be
// long (apps, clusters, resources) follows them and is named by the strings.
type form struct {
	head     func(*Source) any                               // members that begin every document
	overview func(*Source, map[domain.ResourceState]int) any // head, then state, status and counts
	cluster  func(*Cluster, Output) any                      // a cluster of a status document
	target   func(domain.ClusterName) any                    // a cluster of a list
	places   func(*section) []listing                        // entries of the list of resources for one app

	clustersByApp  string
	resourcesByApp string
	states         map[domain.ResourceState]string // the member that says a resource's state, encoded

	// body writes what the document has of the sections, of which it gets only those with resources and none for
	// OutputSummary.
	body func(*body, []section)

	// report is how what clusters report is written in this form.
	report *reportForm

	// shown is how a resource's state appears.
	shown func(domain.ResourceState) domain.ResourceState
	// sorted puts the apps of a status document in lexical order; else they are as in the composite app.
	sorted bool
}

// warned is a member of Drover's own in every form of a group's status, and in detail of clusters and resources; it is
// there only when it says something.
type warned struct {
	Warnings []string `json:"warnings,omitempty"`
}

// warnedOf are the warnings about a cluster as a whole.
func warnedOf(c *Cluster, o Output) (w warned) {
	if o != OutputDetail {
		return w
	}
	for _, n := range c.Warnings {
		if n.Index == domain.WholeCluster {
			w.Warnings = append(w.Warnings, n.Message)
		}
	}
	return w
}

// listing is one entry of the list of resources: the members that begin it, and the clusters whose resources it lists.
type listing struct {
	head any
	of   []*Cluster
}

// form is the one in which documents of type t are written.
func (s *Source) form(t Type) *form {
	f := forms[s.Subject]
	if t == TypeDeployed || t == TypeReady {
		return f.camel
	}
	return f.kebab
}

// forms are those of EMCO up to 21.03 and of 22.x.
var forms = map[Subject]struct{ kebab, camel *form }{
	SubjectGroup:    {&kebab, &camel},
	SubjectNetworks: {&kebabNetworks, &camelNetworks},
	SubjectCloud:    {&camelCloud, &camelCloud}, // EMCO up to 21.03 has none
}

// stateMembers encodes a member of the given name for every state, to follow another member.
func stateMembers(name string) map[domain.ResourceState]string {
	m := make(map[domain.ResourceState]string, len(domain.ResourceStates))
	for _, s := range domain.ResourceStates {
		m[s] = `,"` + name + `":"` + string(s) + `"`
	}
	return m
}

// stamp is the time of an action as documents show it: UTC, milliseconds, trailing zeros dropped (by
// time.Time's own MarshalJSON).
func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// reason is shown in detail only.
func reason(c *Cluster, o Output) string {
	if o != OutputDetail {
		return ""
	}
	return c.Reason
}

// lastError is shown in detail only.
func lastError(c *Cluster, o Output) string {
	if o != OutputDetail {
		return ""
	}
	return c.LastError
}
