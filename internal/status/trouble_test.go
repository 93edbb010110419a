package status_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/status"
)

// trouble is what tells one from the other, in documents and in sequences.
type trouble struct {
	App, Cluster, Resource, Message string
	State                           status.ClusterState
}

// TestTroublesAreThoseOfTheDocument compares them, for every source, with what is not ready in status=ready: of a
// cluster that is not confirmed, the reason alone.
func TestTroublesAreThoseOfTheDocument(t *testing.T) {
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
			for x, err := range status.Troubles(newSource(t, source)) {
				require.NoError(t, err)
				got = append(got, trouble{x.App, x.Name, x.Resource.Name, x.Message, x.State})
			}
			byApp := func(a, b trouble) int { return cmp.Compare(a.App, b.App) } // the document has them in its own order
			slices.SortStableFunc(want, byApp)
			slices.SortStableFunc(got, byApp)
			require.Equal(t, want, got)
		})
	}
}

func TestTroublesEnd(t *testing.T) {
	for source := range sources {
		for range status.Troubles(newSource(t, source)) {
			break // must not go on, nor panic
		}
	}
	broken := newSource(t, "vfw-reported")
	broken.Observations = func(string, []domain.ClusterName) iter.Seq2[*status.Observation, error] {
		return func(yield func(*status.Observation, error) bool) { yield(nil, errors.New("the store is away")) }
	}
	var last error
	for _, err := range status.Troubles(broken) {
		last = err
	}
	require.ErrorContains(t, last, "the store is away")
}
