package activities_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
)

// TestATerminateLeavesWhatIsKeptIn: a namespace, or a CRD, in which something is to be kept on the cluster is kept, too, whoever of the context
// has it, or had it.
func TestATerminateLeavesWhatIsKeptIn(t *testing.T) {
	namespace := plan.Resource{ResourceID: plan.ResourceID{Version: "v1", Kind: "Namespace", Name: "mon"}, Manifest: json.RawMessage(`{}`)}
	crd := plan.Resource{
		ResourceID: plan.ResourceID{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: "widgets.example.com"},
		Manifest:   json.RawMessage(`{"spec":{"group":"example.com","names":{"kind":"Widget"}}}`),
	}
	volume := plan.Resource{ResourceID: plan.ResourceID{Version: "v1", Kind: "PersistentVolumeClaim", Namespace: "mon", Name: "data"}, Keep: true, Manifest: json.RawMessage(`{}`)}
	widget := plan.Resource{ResourceID: plan.ResourceID{Group: "example.com", Version: "v1", Kind: "Widget", Name: "one"}, Keep: true, Manifest: json.RawMessage(`{}`)}
	goes := volume
	goes.Keep = false
	elsewhere := volume
	elsewhere.Namespace = "default"
	away := domain.ClusterName{Provider: "p", Name: "away"}
	held := func(clusters ...domain.ClusterName) []plan.Held {
		return []plan.Held{{App: "gone", Resource: volume.ResourceID, Kept: true, Clusters: clusters}}
	}
	here := domain.ClusterName{Provider: "p", Name: "c"}
	for name, c := range map[string]struct {
		has, other []plan.Resource
		marks      string              // with which the app begins, "" for all applied
		record     string              // of the other app, "" for none
		on         *domain.ClusterName // where the other app is, nil for the leaf's
		held       []plan.Held
		change     func(l *leaf)
		want, note string
	}{
		"its own":                        {has: []plan.Resource{namespace, volume, elsewhere}, want: "3K", note: `it stays: with it would go PersistentVolumeClaim "data" of app "app", which is to be kept`},
		"its own, of a kind":             {has: []plan.Resource{crd, widget}, want: "2K", note: `it stays: with it would go Widget "one" of app "app", which is to be kept`},
		"its own, without plan":          {has: []plan.Resource{namespace, volume}, change: func(l *leaf) { l.in.Plan = "" }, want: "2K", note: `it stays: with it would go PersistentVolumeClaim "data" of app "app", which is to be kept`},
		"its own, which was never there": {has: []plan.Resource{namespace, volume}, marks: "1A1F", want: "2D"},
		"nothing in it":                  {has: []plan.Resource{namespace, goes, elsewhere}, want: "2D1K"},
		"another app's": {
			has: []plan.Resource{namespace}, other: []plan.Resource{volume}, record: "1A",
			want: "1K", note: `it stays: with it would go PersistentVolumeClaim "data" of app "other", which is to be kept`,
		},
		"another app's, which was never there": {has: []plan.Resource{namespace}, other: []plan.Resource{volume}, record: "1F", want: "1D"},
		"another app's, of which nothing is known": {
			has: []plan.Resource{namespace}, other: []plan.Resource{volume}, change: func(l *leaf) { l.in.Incomplete, l.in.Inherited = true, "1A" },
			want: "1D", note: `it stays: with it would go PersistentVolumeClaim "data" of app "other", which is to be kept`,
		},
		"another app's, on another cluster": {has: []plan.Resource{namespace}, other: []plan.Resource{volume}, record: "1A", on: &away, want: "1D"},
		"what an update has left": {
			has: []plan.Resource{namespace}, held: held(away, here), want: "1K", note: `it stays: with it would go PersistentVolumeClaim "data" of app "gone", which is to be kept`,
		},
		"what an update has left elsewhere": {has: []plan.Resource{namespace}, held: held(away), want: "1D"},
		"it is being deleted already":       {has: []plan.Resource{namespace, volume}, marks: "1L1A", want: "1D1K"},
		"a logical cloud's": {
			has: []plan.Resource{namespace, volume}, change: func(l *leaf) { l.in.Owner = domain.Join("projects", "p", "logical-clouds", "lc") }, want: "1D1K",
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLeaf(t, domain.OpTerminate)
			l.in.Bundle, l.in.Resources = l.store.put(t, plan.Bundle{App: "app", Resources: c.has}), len(c.has)
			l.in.Inherited = c.marks
			if c.marks == "" {
				l.in.Inherited = domain.NewMarks(len(c.has), domain.MarkApplied).Encode()
			}
			app := func(name string, digest domain.Digest, resources []plan.Resource, on domain.ClusterName) plan.App {
				a := plan.App{Name: name, Bundle: digest, Targets: []plan.Target{{ClusterName: on}}}
				for _, r := range resources {
					a.Resources = append(a.Resources, r.ResourceID)
				}
				return a
			}
			p := plan.Plan{ContextID: "1", Owner: l.in.Owner, Namespace: l.in.Namespace, Held: c.held, Apps: []plan.App{app("app", l.in.Bundle, c.has, here)}}
			if len(c.other) > 0 {
				on := here
				if c.on != nil {
					on = *c.on
				}
				p.Apps = append(p.Apps, app("other", l.store.put(t, plan.Bundle{App: "other", Resources: c.other}), c.other, on))
				if c.record != "" {
					require.NoError(t, l.store.PutLeaf(t.Context(), domain.Leaf{ID: domain.LeafID("1", "other", on), Operation: domain.OpInstantiate, Marks: c.record}))
				}
			}
			l.in.Plan = l.store.put(t, p)
			if c.change != nil {
				c.change(l)
			}
			out, err := l.run()
			require.NoError(t, err)
			require.Equal(t, c.want, out.Marks)
			if notes := l.recorded().Notes; c.note == "" {
				require.Empty(t, notes)
			} else {
				require.Equal(t, []domain.Note{{Index: 0, Message: c.note}}, notes)
			}
		})
	}
}
