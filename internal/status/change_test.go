package status_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/status"
)

// image is the document of a source, which must be as Write writes it.
func image(t testing.TB, q status.Query, s status.Source) *status.Image {
	t.Helper()
	i, err := s.Image(q)
	require.NoError(t, err)
	require.Equal(t, write(t, q, s), string(i.Document())+"\n")
	return i
}

// changed is the change from one document to another.
func changed(t testing.TB, before, after *status.Image) []byte {
	t.Helper()
	change, err := status.Change(before, after)
	require.NoError(t, err)
	return change
}

type tree = map[string]any

// apply does what a reader does with a change of a document, or of a list.
func apply(document, change tree, list bool) tree {
	for name, value := range change {
		switch {
		case name == "apps" && !list:
			for _, a := range value.([]any) {
				app := named(document, "apps", a.(tree), "name")
				for _, c := range a.(tree)["clusters"].([]any) {
					applyCluster(app, c.(tree))
				}
			}
		case name == "removed":
			for _, r := range value.([]any) {
				remove(document, r.(tree))
			}
		case value == nil:
			delete(document, name)
		default:
			document[name] = value
		}
	}
	return document
}

func applyCluster(app, change tree) {
	cluster := named(app, "clusters", change, "cluster", "cluster-provider", "clusterProvider")
	resources, _ := cluster["resources"].([]any)
	for name := range cluster {
		delete(cluster, name)
	}
	for name, value := range change {
		cluster[name] = value
	}
	for _, r := range change["resources"].([]any) {
		resources = slices.DeleteFunc(resources, func(have any) bool { return alike(have.(tree), r.(tree), "name", "GVK") })
	}
	cluster["resources"] = append(append([]any{}, resources...), change["resources"].([]any)...)
}

// named finds an tree of a list by its names, or adds it.
func named(in tree, list string, like tree, names ...string) tree {
	have, _ := in[list].([]any)
	for _, o := range have {
		if alike(o.(tree), like, names...) {
			return o.(tree)
		}
	}
	added := tree{}
	for _, n := range names {
		if v, ok := like[n]; ok {
			added[n] = v
		}
	}
	in[list] = append(have, added)
	return added
}

func alike(a, b tree, names ...string) bool {
	for _, n := range names {
		if fmt.Sprint(a[n]) != fmt.Sprint(b[n]) {
			return false
		}
	}
	return true
}

func remove(document, r tree) {
	apps := document["apps"].([]any)
	for _, a := range apps {
		app := a.(tree)
		if app["name"] != r["app"] {
			continue
		}
		for _, c := range app["clusters"].([]any) {
			cluster := c.(tree)
			if resource, ok := r["resource"]; ok && alike(cluster, r, "cluster", "cluster-provider", "clusterProvider") {
				cluster["resources"] = slices.DeleteFunc(cluster["resources"].([]any), func(have any) bool {
					return alike(have.(tree), resource.(tree), "name", "GVK")
				})
			}
		}
		if _, ok := r["resource"]; !ok {
			app["clusters"] = slices.DeleteFunc(app["clusters"].([]any), func(c any) bool {
				return alike(c.(tree), r, "cluster", "cluster-provider", "clusterProvider")
			})
		}
	}
	document["apps"] = slices.DeleteFunc(apps, func(a any) bool { return len(a.(tree)["clusters"].([]any)) == 0 })
	if len(document["apps"].([]any)) == 0 {
		delete(document, "apps")
	}
}

func treeOf(t testing.TB, document []byte) tree {
	t.Helper()
	var o tree
	require.NoError(t, json.Unmarshal(document, &o))
	return o
}

// unordered puts lists in an order of their own: a change does not tell where something new belongs.
func unordered(v any) any {
	switch v := v.(type) {
	case tree:
		for name := range v {
			v[name] = unordered(v[name])
		}
	case []any:
		for i := range v {
			v[i] = unordered(v[i])
		}
		texts := map[string][]any{}
		for _, x := range v {
			texts[fmt.Sprint(x)] = append(texts[fmt.Sprint(x)], x)
		}
		v = v[:0]
		for _, text := range slices.Sorted(maps.Keys(texts)) {
			v = append(v, texts[text]...)
		}
	}
	return v
}

// TestChangeLeadsFromOneDocumentToAnother goes round the documents that there are examples of, in steps of several
// lengths.
func TestChangeLeadsFromOneDocumentToAnother(t *testing.T) {
	for _, text := range []string{"", "output=summary", "output=detail", "status=deployed", "type=cluster", "status=ready", "status=deployed&output=counts", "status=ready&output=counts", "apps", "clusters", "resources"} {
		t.Run(text, func(t *testing.T) {
			q := parseQuery(t, "?"+text)
			names := slices.Sorted(maps.Keys(sources))
			for i, from := range names {
				for _, step := range []int{0, 1, 2, 5} {
					to := names[(i+step)%len(names)]
					before, after := image(t, q, newSource(t, from)), image(t, q, newSource(t, to))
					change := changed(t, before, after)
					if from == to {
						require.Nil(t, change)
						continue
					}
					got := treeOf(t, before.Document())
					if change != nil {
						got = apply(got, treeOf(t, change), q.List != status.ListNone)
					}
					require.Equal(t, unordered(treeOf(t, after.Document())), unordered(got), "from %s to %s by %s", from, to, change)
				}
			}
		})
	}
}

func TestChangeTellsNoMoreThanWhatChanged(t *testing.T) {
	deployment := `{"GVK":{"Group":"apps","Version":"v1","Kind":"Deployment"},"name":"release-component-`
	for name, c := range map[string]struct {
		query  string
		change func(*status.Source)
		want   string
	}{
		"nothing": {change: func(*status.Source) {}},
		"a resource": {
			change: func(s *status.Source) { s.Apps[1].Clusters[1].Marks[0] = domain.MarkRefused },
			want: `{"rsync-status":{"Applied":11,"Failed":1,"Retrying":4},"apps":[{"name":"app-1","clusters":[{"cluster-provider":"provider","cluster":"edge-0001",
				"resources":[` + deployment + `0","rsync-status":"Failed"}]}]}]}`,
		},
		"a cluster's counts": {
			query:  "status=deployed&output=counts",
			change: func(s *status.Source) { s.Apps[1].Clusters[1].Marks[0] = domain.MarkRefused },
			want: `{"deployedCounts":{"Applied":11,"Failed":1,"Pending":4},"apps":[{"name":"app-1","clusters":[{"clusterProvider":"provider","cluster":"edge-0001",
				"connectivity":"Available","deployedCounts":{"Applied":3,"Failed":1},"resources":[]}]}]}`,
		},
		"resources of a filter only": {
			query:  "app=app-0",
			change: func(s *status.Source) { s.Apps[1].Clusters[1].Marks[0] = domain.MarkRefused },
		},
		"a summary": {
			query:  "output=summary",
			change: func(s *status.Source) { s.Status = domain.ContextInstantiated },
			want:   `{"status":"Instantiated"}`,
		},
		"a cluster's own members": {
			query:  "output=detail&resource=release-component-0",
			change: func(s *status.Source) { s.Apps[0].Clusters[1].LastError = "refused" },
			want: `{"apps":[{"name":"app-0","clusters":[{"cluster-provider":"provider","cluster":"edge-0001","connectivity":"Available",
				"last-error":"refused","resources":[]}]}]}`,
		},
		"a cluster that is gone": {
			query:  "status=deployed",
			change: func(s *status.Source) { s.Apps[0].Clusters = s.Apps[0].Clusters[:1] },
			want:   `{"deployedCounts":{"Applied":8,"Pending":4},"removed":[{"app":"app-0","clusterProvider":"provider","cluster":"edge-0001"}]}`,
		},
		"a resource that is gone": {
			change: func(s *status.Source) { s.Apps[0].Resources = s.Apps[0].Resources[:3] },
			want: `{"rsync-status":{"Applied":11,"Retrying":3},"removed":[
				{"app":"app-0","cluster-provider":"provider","cluster":"edge-0000","resource":` + deployment + `3"}},
				{"app":"app-0","cluster-provider":"provider","cluster":"edge-0001","resource":` + deployment + `3"}}]}`,
		},
		"all": {
			change: func(s *status.Source) { s.Apps = nil },
			want: `{"rsync-status":null,"removed":[{"app":"app-0","cluster-provider":"provider","cluster":"edge-0000"},
				{"app":"app-0","cluster-provider":"provider","cluster":"edge-0001"},{"app":"app-1","cluster-provider":"provider","cluster":"edge-0000"},
				{"app":"app-1","cluster-provider":"provider","cluster":"edge-0001"}]}`,
		},
		"one of several of a name": {
			query: "app=app-0&cluster=provider%2Bedge-0001",
			change: func(s *status.Source) {
				twin := s.Apps[0].Resources[0]
				twin.Namespace = "other"
				s.Apps[0].Resources = append([]plan.ResourceID{twin}, s.Apps[0].Resources...)
				s.Apps[0].Clusters[1].Marks = append(domain.Marks{domain.MarkRefused}, s.Apps[0].Clusters[1].Marks...)
			},
			want: `{"rsync-status":{"Applied":4,"Failed":1},"apps":[{"name":"app-0","clusters":[{"cluster-provider":"provider","cluster":"edge-0001","resources":[
				` + deployment + `0","rsync-status":"Applied"},` + deployment + `0","rsync-status":"Failed"}]}]}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := parseQuery(t, "?"+c.query)
			s := fleet(2, 2, 4)
			s.Manifest = nil
			before := image(t, q, s)
			c.change(&s)
			got := changed(t, before, image(t, q, s))
			if c.want == "" {
				require.Nil(t, got)
				return
			}
			require.JSONEq(t, c.want, string(got))
		})
	}
}

func TestQueriesOfOneExtentHaveOneSource(t *testing.T) {
	same := func(a, b string) {
		require.Equal(t, parseQuery(t, "?"+a).Extent(), parseQuery(t, "?"+b).Extent(), "%s, %s", a, b)
	}
	other := func(a, b string) {
		require.NotEqual(t, parseQuery(t, "?"+a).Extent(), parseQuery(t, "?"+b).Extent(), "%s, %s", a, b)
	}
	same("", "app=a&cluster=p%2Bc&resource=r")
	same("", "status=deployed")
	same("", "clusters&output=detail")
	same("type=cluster", "status=ready&output=detail")
	same("type=cluster", "status=ready&output=summary&app=a")
	same("output=summary", "output=summary&status=deployed")
	same("output=summary&app=a", "")
	other("", "output=summary")
	other("", "output=detail")
	other("", "type=cluster")
	other("", "instance=7")
	for _, text := range []string{"", "output=summary", "output=detail", "type=cluster", "instance=7&output=detail"} {
		e := parseQuery(t, "?"+text).Extent()
		require.Equal(t, e, e.Query().Extent())
	}
	require.Equal(t, parseQuery(t, "?app=a&app=b&cluster=p%2Bd&cluster=p%2Bc").ID(), parseQuery(t, "?cluster=p%2Bc&cluster=p%2Bd&app=b&app=a&app=b").ID())
	require.NotEqual(t, parseQuery(t, "?").ID(), parseQuery(t, "?status=deployed").ID())
}

// BenchmarkChange makes a document and compares it with the one before, of 3 apps on 100 clusters with 4 resources each.
func BenchmarkChange(b *testing.B) {
	q := parseQuery(b, "?")
	s := fleet(3, 100, 4)
	old, err := s.Image(q)
	require.NoError(b, err)
	s.Apps[1].Clusters[50].Marks[2] = domain.MarkRefused
	b.ReportAllocs()
	b.SetBytes(int64(len(old.Document())))
	for b.Loop() {
		now, err := s.Image(q)
		require.NoError(b, err)
		_, err = status.Change(old, now)
		require.NoError(b, err)
	}
}
