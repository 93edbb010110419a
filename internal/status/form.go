package status

import (
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/view"
)

// form is one way to write the documents: the names of members and their order, which clients rely on.
// The members are those of the values that the functions return, marshalled by encoding/json; what can be
// long (apps, clusters, resources) follows them and is named by the strings.
//
// Of its own Drover says of a cluster whose reports are not confirmed when it was last heard of and why, of a resource
// there what was last reported if that is not vouched for any more, and at the top how many such clusters there are. Of a
// kind that cannot be heard in a cluster that is, each resource says when and why. In detail a resource that is not ready
// has a message.
type form struct {
	head   func(*Source) any            // members that begin every document
	target func(domain.ClusterName) any // a cluster of a list
	layout layout                       // of the status documents
	seen   string                       // the member that says when something was last heard

	// Of what was done to the rsync resources.

	overview func(*Source, map[domain.ResourceState]int) any // head, then state, status and counts
	cluster  func(*view.Place, Output) any                   // a cluster of a status document
	states   map[domain.ResourceState]string                 // the member that says a resource's state, encoded
	shown    func(domain.ResourceState) domain.ResourceState // how a state is counted

	// Of what clusters report.

	reported func(*Source, *view.Tally) any          // as overview
	reporter func(*view.Place) any                   // as cluster
	report   func(*view.Row) string                  // the members that say a resource's state, encoded
	listed   func(app string, place *view.Place) any // an entry of the list of resources

	resourcesByApp string
	clustersByApp  string
	// places gives an entry of the list of resources to each app on each cluster, with these members; without it there
	// is one for each app.
	places func(*view.Place) any
}

// body begins the body of a document.
func (f *form) body(out *stream, q Query) *body {
	b := &body{out: out, layout: f.layout}
	b.counts, b.reported = q.Output == OutputCounts, q.Reported()
	switch {
	case !q.Reported():
		b.cluster = func(p *view.Place) any { return f.cluster(p, q.Output) }
		b.entry = f.doneEntry
		if q.Output == OutputDetail {
			b.manifest = (*view.Row).Manifest
		}
	case q.Output == OutputDetail:
		b.cluster, b.entry = f.reporter, f.objectEntry
	default:
		b.cluster, b.entry = f.reporter, f.reportedEntry
	}
	return b
}

// form is the one in which documents of type t are written.
func (s *Source) form(t Type) *form {
	f := subjects[s.Subject]
	if t == TypeDeployed || t == TypeReady {
		return f.camel
	}
	return f.kebab
}

// clusterState is EMCO's word for where a resource stands in its cluster. TypeCluster has the first three, TypeReady all
// but Present and Unknown.
type clusterState string

const (
	clusterPresent    clusterState = "Present"
	clusterNotPresent clusterState = "NotPresent"
	clusterUnknown    clusterState = "Unknown"
	clusterReady      clusterState = "Ready"
	clusterNotReady   clusterState = "NotReady"
)

// Readiness is EMCO's word for whether a resource is ready; "" of one that does not count.
func Readiness(r view.Readiness) string {
	return string([...]clusterState{view.Ready: clusterReady, view.NotReady: clusterNotReady, view.NotThere: clusterNotPresent}[r])
}

// counted leaves out states without resources.
func counted(counts map[clusterState]int) map[clusterState]int {
	for state, n := range counts {
		if n == 0 {
			delete(counts, state)
		}
	}
	return counts
}

// warned is a member of Drover's own in every form of a group's status, and in detail of clusters and resources; it is
// there only when it says something.
type warned struct {
	Warnings []string `json:"warnings,omitempty"`
}

// warnedOf are the warnings about a cluster as a whole.
func warnedOf(c *view.Cluster, o Output) (w warned) {
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

// stateMembers encodes a member of the given name for every state, as it is shown, to follow another member.
func stateMembers(name string, shown func(domain.ResourceState) domain.ResourceState) map[domain.ResourceState]string {
	m := make(map[domain.ResourceState]string, len(domain.ResourceStates))
	for _, s := range domain.ResourceStates {
		m[s] = `,"` + name + `":"` + string(shown(s)) + `"`
	}
	return m
}

// stamp is the time of an action as documents show it: UTC, milliseconds, trailing zeros dropped (by
// time.Time's own MarshalJSON).
func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// lastSeen is when a cluster was last heard of, nil for now and for never.
func lastSeen(d *view.Doubt) *time.Time {
	if d == nil || d.LastSeen.IsZero() {
		return nil
	}
	at := stamp(d.LastSeen)
	return &at
}

// doubted are the members of a cluster that is not confirmed.
func doubted(d *view.Doubt) (stale bool, seen *time.Time, reason string) {
	if d == nil {
		return false, nil, ""
	}
	return d.Reported, lastSeen(d), d.Reason
}

// why says whether a document says of clusters why they wait, and what they have said last: in detail, and with counts, a form of our own
// that is for people.
func (o Output) why() bool { return o == OutputDetail || o == OutputCounts }

// reason is shown where a document says why.
func reason(c *view.Cluster, o Output) string {
	if !o.why() {
		return ""
	}
	return c.Reason
}

// lastError is shown where a document says why.
func lastError(c *view.Cluster, o Output) string {
	if !o.why() {
		return ""
	}
	return c.LastError
}
