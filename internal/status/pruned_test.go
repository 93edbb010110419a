package status_test

import (
	"encoding/json"
	"iter"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/view"
)

// updated is a context in the middle of pruning: web has given up old, which is gone from a and is being deleted from b,
// and has left c; db has left its only cluster.
func updated() status.Source {
	cluster := func(name, marks string) view.Cluster {
		return view.Cluster{
			ClusterName: domain.ClusterName{Provider: "p", Name: name}, Marks: domain.DecodeMarks(marks),
			InProgress: true, Connectivity: domain.ConnectivityAvailable,
		}
	}
	resource := func(name string) plan.ResourceID {
		return plan.ResourceID{Version: "v1", Kind: "ConfigMap", Name: name}
	}
	return status.Source{CompositeApp: "ca", Source: view.Source{
		ContextID: "1", Status: domain.ContextInstantiating,
		Apps: []view.App{
			{Name: "web", Resources: []plan.ResourceID{resource("new"), resource("old")}, Clusters: []view.Cluster{
				cluster("a", "1A1G"), cluster("b", "1A1r"), cluster("c", "2G"),
			}},
			{Name: "db", Resources: []plan.ResourceID{resource("dep")}, Clusters: []view.Cluster{cluster("a", "1G")}},
		},
	}}
}

// TestWhatIsGoneIsNotShown in any form, list or count.
func TestWhatIsGoneIsNotShown(t *testing.T) {
	t.Parallel()
	for query, want := range map[string][]string{
		"":                          {"a", "b", "new", "old"},
		"output=detail":             {"a", "b", "new", "old"},
		"status=deployed":           {"a", "b", "new", "old"},
		"resource=old":              {"b", "old"},
		"cluster=p%2Ba":             {"a", "new"},
		"cluster=p%2Bc":             {},
		"clusters":                  {"a", "b"},
		"clusters&resource=old":     {"a", "b"}, // which is no filter of theirs
		"resources":                 {"new", "old"},
		"resources&cluster=p%2Ba":   {"new"},
		"resources&status=deployed": {"a", "b", "new", "old"},
		"resources&status=deployed&cluster=p%2Ba": {"a", "new"},
		"type=cluster":               {"a", "b", "new", "old"},
		"type=cluster&cluster=p%2Ba": {"a", "new"},
	} {
		t.Run(query, func(t *testing.T) {
			t.Parallel()
			v, err := url.ParseQuery(query)
			require.NoError(t, err)
			q, err := status.ParseQuery(v)
			require.NoError(t, err)
			s := updated()
			s.Observations = func(_ string, _ []domain.ClusterName) iter.Seq2[*view.Observation, error] {
				return func(func(*view.Observation, error) bool) {}
			}
			doc := write(t, q, s)
			var members map[string]any
			require.NoError(t, json.Unmarshal([]byte(doc), &members))
			for _, name := range []string{"a", "b", "c", "new", "old", "dep", "db"} {
				require.Equal(t, slices.Contains(want, name), strings.Contains(doc, `"`+name+`"`), "%s in %s", name, doc)
			}
		})
	}
	q, err := status.ParseQuery(nil)
	require.NoError(t, err)
	counts, err := status.Summary(q, updated())
	require.NoError(t, err)
	require.Equal(t, map[domain.ResourceState]int{domain.ResourceApplied: 2, domain.ResourcePending: 1}, counts)
	_, err = status.Summary(status.Query{Type: status.TypeRsync, Apps: []string{"db"}}, updated())
	require.Error(t, err, "the app is no more")
}
