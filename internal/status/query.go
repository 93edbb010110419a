package status

import (
	"iter"
	"net/url"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/view"
)

// Type says what a status document is about and in which form it is written. It joins EMCO's parameters
// type (the seeds' kebab-case form) and status (the camelCase form of 22.x), of which status wins.
type Type string

// The types.
const (
	TypeRsync    Type = "rsync"    // what was done to the rsync resources, seeds' form; the default
	TypeCluster  Type = "cluster"  // what the clusters report, seeds' form
	TypeDeployed Type = "deployed" // what was done to the rsync resources, 22.x form
	TypeReady    Type = "ready"    // what the clusters report, 22.x form
)

// Output says how much a status document tells.
type Output string

// The outputs.
const (
	OutputSummary Output = "summary" // state, status and counts
	OutputAll     Output = "all"     // and every resource; the default
	OutputDetail  Output = "detail"  // and its manifest, and what the cluster said about what did not succeed
	// OutputCounts is Drover's own: as OutputAll, with how many resources of each cluster are in each state in place of the
	// resources, so that what stands on thousands of clusters is read at a glance. For the 22.x form.
	OutputCounts Output = "counts"
)

// List selects a list in place of the status document.
type List string

// The lists, the first wins when a query has several.
const (
	ListNone      List = ""
	ListApps      List = "apps"
	ListClusters  List = "clusters"
	ListResources List = "resources"
)

// Query is a status query as its parameters ask for it. Filters are nil when not given.
type Query struct {
	Instance  string // app context asked for, "" for the one shown by default
	Type      Type
	Output    Output
	List      List
	Apps      []string
	Clusters  []domain.ClusterName
	Resources []string
}

// ParseQuery reads the parameters of a status request; parameters it does not know are ignored, and of
// those that are not repeatable the first value counts, but of output the last one: seed 002 asks for output=all and output=detail, and gets the
// details. An error is Invalid and begins with EMCO's text;
// it names the first bad parameter in the order of the fields of Query.
func ParseQuery(v url.Values) (Query, error) {
	q := Query{Type: TypeRsync, Output: OutputAll, List: list(v)}
	for _, read := range []func(*Query, url.Values) error{
		readInstance, readType, readStatus, readOutput, readApps, readClusters, readResources,
	} {
		if err := read(&q, v); err != nil {
			return Query{}, err
		}
	}
	if q.Output == OutputCounts && !q.camel() {
		return Query{}, fail.Query("output", "%q; use it with status=deployed or status=ready", OutputCounts)
	}
	return q, nil
}

// ContextID is the app context that the query is about: the instance it names, else the last one of h, "" when
// there never was one. An instance that h does not know is Invalid, as in EMCO.
func (q Query) ContextID(h domain.History) (string, error) {
	switch {
	case q.Instance == "":
		return h.ContextID(), nil
	case h.Knows(q.Instance):
		return q.Instance, nil
	default:
		return "", fail.New(fail.Invalid, "No state information for %s; use an instance of the state history", q.Instance)
	}
}

// Reported says that the answer is about what clusters report: Source.Observations is read, and of what is
// known of the rsync resources only their identities and the connectivity of clusters are looked at. Lists
// of apps and clusters do not ask what clusters report.
func (q Query) Reported() bool {
	return (q.Type == TypeCluster || q.Type == TypeReady) && (q.List == ListNone || q.List == ListResources)
}

// camel says that the answer is in the form of EMCO 22.x.
func (q Query) camel() bool { return q.Type == TypeDeployed || q.Type == TypeReady }

// Ask is the query as one of rows: what it filters, whether clusters are asked, and the order of its documents.
func (q Query) Ask() view.Ask {
	camel := q.camel()
	a := view.Ask{Apps: q.Apps, Clusters: q.Clusters, Resources: q.Resources, Reported: q.Reported(), Sorted: camel || q.List != ListNone}
	if a.Reported && !camel {
		a.Order = view.ByKind
	}
	switch q.List {
	case ListNone:
		a.Judged, a.Detail = a.Reported && camel, q.Output == OutputDetail
	case ListClusters, ListResources:
		a.Resources = nil // as in EMCO
	default:
	}
	return a
}

// Rows are those that the documents of the query are made of. An app that an instantiated source does not have is Invalid.
func (q Query) Rows(source *Source) (iter.Seq2[*view.Row, error], error) {
	s := source.shown()
	if err := s.check(q); err != nil {
		return nil, err
	}
	return s.Rows(q.Ask()), nil
}

// CountsSuffice says that Source.Counts is enough to answer: neither apps nor clusters are looked at.
func (q Query) CountsSuffice() bool {
	return !q.Reported() && q.List == ListNone && q.Output == OutputSummary &&
		q.Apps == nil && q.Clusters == nil && q.Resources == nil
}

func list(v url.Values) List {
	for _, l := range []List{ListApps, ListClusters, ListResources} {
		if v.Has(string(l)) {
			return l
		}
	}
	return ListNone
}

func readInstance(q *Query, v url.Values) error {
	if !v.Has("instance") {
		return nil
	}
	if q.Instance = v.Get("instance"); q.Instance == "" {
		return fail.Query("instance", `""; use an instance of the state history`)
	}
	return nil
}

func readType(q *Query, v url.Values) error {
	return readWord(&q.Type, v, "type", "rsync or cluster", TypeRsync, TypeCluster)
}

func readStatus(q *Query, v url.Values) error {
	return readWord(&q.Type, v, "status", "deployed or ready", TypeDeployed, TypeReady)
}

func readOutput(q *Query, v url.Values) error {
	for _, one := range v["output"] { // the last one counts
		if err := readWord(&q.Output, url.Values{"output": {one}}, "output", "summary, all, detail or counts", OutputSummary, OutputAll, OutputDetail, OutputCounts); err != nil {
			return err
		}
	}
	return nil
}

// readWord reads a parameter that is one of some words, which use names to a user.
func readWord[T ~string](into *T, v url.Values, name, use string, words ...T) error {
	if !v.Has(name) {
		return nil
	}
	if *into = T(v.Get(name)); !slices.Contains(words, *into) {
		return fail.Query(name, "%q; use %s", *into, use)
	}
	return nil
}

func readApps(q *Query, v url.Values) error {
	for _, name := range v["app"] {
		if !isName(name) {
			return fail.New(fail.Invalid, "Invalid app query: %q; use the name of an app", name)
		}
		q.Apps = append(q.Apps, name)
	}
	return nil
}

// readClusters takes a blank for the plus sign too: that is what a "+" becomes that a client did not
// escape, and no name has either.
func readClusters(q *Query, v url.Values) error {
	for _, s := range v["cluster"] {
		provider, name, _ := strings.Cut(strings.Replace(s, " ", "+", 1), "+")
		if !isName(provider) || !isName(name) {
			return fail.New(fail.Invalid, "Invalid cluster query: %q; use provider+cluster, with the + sent as %%2B", s)
		}
		q.Clusters = append(q.Clusters, domain.ClusterName{Provider: provider, Name: name})
	}
	return nil
}

// readResources takes what Kubernetes takes in a path: names such as "system:node" are not names of ours.
func readResources(q *Query, v url.Values) error {
	for _, name := range v["resource"] {
		if name == "" || len(name) > maxResourceName || strings.ContainsAny(name, "/% \t\r\n") {
			return fail.New(fail.Invalid, "Invalid resources query: %q; use the name of a resource", name)
		}
		q.Resources = append(q.Resources, name)
	}
	return nil
}

// maxResourceName is the longest name of a Kubernetes object, in bytes.
const maxResourceName = 253

func isName(s string) bool {
	var p fail.Problems
	domain.CheckName(&p, "name", s)
	return p.Err() == nil
}
