package status

import (
	"encoding/json"
	"slices"

	"github.com/drover-io/drover/internal/domain"
)

// Extent is how much must be known of an owner to answer a query. Queries of the same extent are answered from one Source,
// whatever their filters and forms: all apps or one, EMCO's first form or its second.
type Extent struct {
	Instance string // as Query.Instance
	Reported bool   // what clusters report; else what was done to the rsync resources
	Output   Output // OutputSummary where the counts suffice, OutputDetail where manifests are shown, else OutputAll
}

// Extent is how much must be known to answer q.
func (q Query) Extent() Extent {
	e := Extent{Instance: q.Instance, Reported: q.Reported(), Output: OutputAll}
	switch {
	case q.CountsSuffice():
		e.Output = OutputSummary
	case !e.Reported && q.List == ListNone && q.Output == OutputDetail:
		e.Output = OutputDetail
	}
	return e
}

// Query is the query of the extent that leaves nothing out.
func (e Extent) Query() Query {
	q := Query{Instance: e.Instance, Type: TypeRsync, Output: e.Output}
	if e.Reported {
		q.Type = TypeCluster
	}
	return q
}

// ID is the same for queries that ask for the same document, in whatever order their filters come.
func (q Query) ID() string {
	q.Apps = distinct(q.Apps)
	q.Resources = distinct(q.Resources)
	if q.Clusters != nil {
		q.Clusters = slices.Clone(q.Clusters)
		slices.SortFunc(q.Clusters, domain.ClusterName.Compare)
		q.Clusters = slices.Compact(q.Clusters)
	}
	id, err := json.Marshal(q)
	if err != nil {
		panic(err) // strings and lists of strings
	}
	return string(id)
}

func distinct(names []string) []string {
	if names == nil {
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(names)))
}
