package status_test

import (
	"cmp"
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/view"
)

// trouble is something that is not ready.
type trouble struct {
	App, Cluster, Resource, Message string
	State                           status.ClusterState
}

// TestRowsAreThoseOfTheDocument compares what is not ready by the rows of every source with status=ready: of a cluster
// that is not confirmed, the reason alone.
func TestRowsAreThoseOfTheDocument(t *testing.T) {
	for source := range sources {
		t.Run(source, func(t *testing.T) {
			type cluster struct {
				Cluster, Reason string
				Resources       []struct {
					Name, Message, Reason string
					State                 status.ClusterState `json:"readyStatus"`
				}
			}
			type app struct {
				Name     string
				Clusters []cluster
			}
			var doc struct {
				Apps    []app
				Cluster cluster // of networks
			}
			require.NoError(t, json.Unmarshal([]byte(write(t, parseQuery(t, "?status=ready&output=detail"), newSource(t, source))), &doc))
			var want, got []trouble
			if doc.Cluster.Cluster != "" {
				doc.Apps = []app{{"network-intents", []cluster{doc.Cluster}}}
			}
			for _, a := range doc.Apps {
				for _, c := range a.Clusters {
					if c.Reason != "" {
						want = append(want, trouble{App: a.Name, Cluster: c.Cluster, Message: c.Reason})
						continue
					}
					for _, r := range c.Resources {
						if r.State == status.ClusterNotReady || r.State == status.ClusterNotPresent {
							want = append(want, trouble{a.Name, c.Cluster, r.Name, cmp.Or(r.Reason, r.Message), r.State})
						}
					}
				}
			}
			source := newSource(t, source)
			var silent *view.Place
			for r, err := range source.Rows(view.Ask{Reported: true, Judged: true, Detail: true}) {
				require.NoError(t, err)
				x := trouble{App: r.Place.App.Name, Cluster: r.Place.Cluster.Name}
				switch {
				case r.Place.Doubt != nil && r.Place == silent:
					continue
				case r.Place.Doubt != nil:
					silent, x.Message = r.Place, r.Place.Doubt.Reason
				case r.Readiness != view.NotReady && r.Readiness != view.NotThere:
					continue
				default:
					x.Resource, x.Message = r.Resource.Name, r.Unready
					x.State = map[view.Readiness]status.ClusterState{view.NotReady: status.ClusterNotReady, view.NotThere: status.ClusterNotPresent}[r.Readiness]
					if r.Doubt != nil {
						x.Message = r.Doubt.Reason
					}
				}
				got = append(got, x)
			}
			byApp := func(a, b trouble) int { return cmp.Compare(a.App, b.App) } // the document has them in its own order
			slices.SortStableFunc(want, byApp)
			slices.SortStableFunc(got, byApp)
			require.Equal(t, want, got)
		})
	}
}
