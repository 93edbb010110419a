package status_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/status"
)

func TestParseQuery(t *testing.T) {
	with := func(change func(*status.Query)) status.Query {
		q := status.Query{Type: status.TypeRsync, Output: status.OutputAll}
		change(&q)
		return q
	}
	edge := domain.ClusterName{Provider: "vfw-cluster-provider", Name: "edge01"}
	for name, c := range map[string]struct {
		query string
		want  status.Query
	}{
		"nothing":          {"", with(func(*status.Query) {})},
		"instance":         {"instance=1", with(func(q *status.Query) { q.Instance = "1" })},
		"type cluster":     {"type=cluster", with(func(q *status.Query) { q.Type = status.TypeCluster })},
		"status deployed":  {"status=deployed", with(func(q *status.Query) { q.Type = status.TypeDeployed })},
		"status wins":      {"status=ready&type=rsync", with(func(q *status.Query) { q.Type = status.TypeReady })},
		"output":           {"output=detail", with(func(q *status.Query) { q.Output = status.OutputDetail })},
		"the last value":   {"output=summary&output=all", with(func(q *status.Query) { q.Output = status.OutputAll })},
		"several apps":     {"app=a&app=b", with(func(q *status.Query) { q.Apps = []string{"a", "b"} })},
		"cluster with %2B": {"cluster=vfw-cluster-provider%2Bedge01", with(func(q *status.Query) { q.Clusters = []domain.ClusterName{edge} })},
		"cluster with +":   {"cluster=vfw-cluster-provider+edge01", with(func(q *status.Query) { q.Clusters = []domain.ClusterName{edge} })},
		"cluster with %20": {"cluster=vfw-cluster-provider%20edge01", with(func(q *status.Query) { q.Clusters = []domain.ClusterName{edge} })},
		"several clusters": {"cluster=a%2Bb&cluster=a%2Bc", with(func(q *status.Query) {
			q.Clusters = []domain.ClusterName{{Provider: "a", Name: "b"}, {Provider: "a", Name: "c"}}
		})},
		"resources by name":  {"resource=sink-configmap&resource=system:node", with(func(q *status.Query) { q.Resources = []string{"sink-configmap", "system:node"} })},
		"apps":               {"apps", with(func(q *status.Query) { q.List = status.ListApps })},
		"apps over clusters": {"resources&clusters&apps", with(func(q *status.Query) { q.List = status.ListApps })},
		"clusters over resources, with a value": {
			"resources=false&clusters=0", with(func(q *status.Query) { q.List = status.ListClusters }),
		},
		"resources, with a type": {
			"resources&type=cluster",
			with(func(q *status.Query) { q.List, q.Type = status.ListResources, status.TypeCluster }),
		},
		"unknown parameters": {"limit=1&Type=x&OUTPUT=y", with(func(*status.Query) {})},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := url.ParseQuery(c.query)
			require.NoError(t, err)
			got, err := status.ParseQuery(v)
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(c.want, got))
		})
	}
}

func TestParseQueryRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		query string
		want  string // beginning of the text
	}{
		"an empty instance":         {"instance=", `Invalid query instance: ""`},
		"an unknown type":           {"type=x", `Invalid query type: "x"; use rsync or cluster`},
		"an empty type":             {"type", `Invalid query type: ""`},
		"a status as type":          {"type=deployed", `Invalid query type: "deployed"`},
		"an unknown status":         {"status=x", `Invalid query status: "x"; use deployed or ready`},
		"a type as status":          {"status=rsync", `Invalid query status: "rsync"`},
		"a bad type under a status": {"status=deployed&type=x", `Invalid query type: "x"`},
		"an unknown output":         {"output=x", `Invalid query output: "x"; use summary, all, detail or counts`},
		"counts of the other form":  {"output=counts", `Invalid query output: "counts"; use it with status=deployed or status=ready`},
		"an output in capitals":     {"output=ALL", `Invalid query output: "ALL"`},
		"an empty app":              {"app=", `Invalid app query: ""`},
		"an app that is no name":    {"app=a&app=b/c", `Invalid app query: "b/c"`},
		"a cluster alone":           {"cluster=edge01", `Invalid cluster query: "edge01"; use provider+cluster, with the + sent as %2B`},
		"a provider alone":          {"cluster=provider%2B", `Invalid cluster query: "provider+"`},
		"no provider":               {"cluster=%2Bedge01", `Invalid cluster query: "+edge01"`},
		"three parts":               {"cluster=a%2Bb%2Bc", `Invalid cluster query: "a+b+c"`},
		"three parts with blanks":   {"cluster=a+b+c", `Invalid cluster query: "a b c"`},
		"an empty resource":         {"resource=", `Invalid resources query: ""`},
		"a path as resource":        {"resource=a%2Fb", `Invalid resources query: "a/b"`},
		"a long resource":           {"resource=" + strings.Repeat("a", 254), `Invalid resources query: "aaaa`},
		"the first in their order":  {"output=x&type=y", `Invalid query type: "y"`},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := url.ParseQuery(c.query)
			require.NoError(t, err)
			_, err = status.ParseQuery(v)
			require.True(t, fail.Is(err, fail.Invalid), "%v", err)
			require.True(t, strings.HasPrefix(fail.TextOf(err), c.want), "%v", err)
		})
	}
}

func TestContextID(t *testing.T) {
	twice := history(t, vfwTwice)
	for name, c := range map[string]struct {
		history  domain.History
		instance string
		want     string
		refused  string
	}{
		"the last instance by default":      {history: twice, want: secondContext},
		"an earlier instance":               {history: twice, instance: firstContext, want: firstContext},
		"none before the first instantiate": {history: history(t, vfwTwice[:2])},
		"an instance of nothing":            {history: twice, instance: "7", refused: "No state information for 7"},
		"an instance before there is one":   {history: history(t, vfwTwice[:2]), instance: "7", refused: "No state information for 7"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := status.Query{Instance: c.instance}.ContextID(c.history)
			if c.refused != "" {
				require.True(t, fail.Is(err, fail.Invalid), "%v", err)
				require.True(t, strings.HasPrefix(fail.TextOf(err), c.refused), "%v", err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestCountsSuffice(t *testing.T) {
	for query, want := range map[string]bool{
		"?output=summary":                      true,
		"?output=summary&status=deployed":      true,
		"?output=summary&instance=1":           true,
		"?":                                    false,
		"?output=detail":                       false,
		"?output=summary&app=a":                false,
		"?output=summary&cluster=a%2Bb":        false,
		"?output=summary&resource=a":           false,
		"?output=summary&apps":                 false,
		"?output=summary&resources&type=rsync": false,
	} {
		t.Run(query, func(t *testing.T) {
			require.Equal(t, want, parseQuery(t, query).CountsSuffice())
		})
	}
}

// FuzzParseQuery: whatever is sent, the answer is a query that says the same when it is sent again, or an
// Invalid error.
func FuzzParseQuery(f *testing.F) {
	for _, seed := range []string{
		"", "apps", "type=rsync&status=deployed", "cluster=a%2Bb&cluster=a+b", "output=summary&app=a&app=b",
		"instance=1&resources&resource=a.b:c", "cluster=a++b", "app=%00", "type=%22",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		v, err := url.ParseQuery(raw)
		if err != nil {
			t.Skip("not a query string")
		}
		q, err := status.ParseQuery(v)
		if err != nil {
			require.True(t, fail.Is(err, fail.Invalid), "%v", err)
			return
		}
		again, err := status.ParseQuery(values(q))
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(q, again))
	})
}

// values are the parameters that ask for q.
func values(q status.Query) url.Values {
	v := url.Values{"output": {string(q.Output)}}
	if q.Type == status.TypeDeployed || q.Type == status.TypeReady {
		v.Set("status", string(q.Type))
	} else {
		v.Set("type", string(q.Type))
	}
	if q.Instance != "" {
		v.Set("instance", q.Instance)
	}
	if q.List != status.ListNone {
		v.Set(string(q.List), "")
	}
	for _, a := range q.Apps {
		v.Add("app", a)
	}
	for _, c := range q.Clusters {
		v.Add("cluster", c.String())
	}
	for _, r := range q.Resources {
		v.Add("resource", r)
	}
	return v
}
