package plan_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
)

// vary gives clusters of the app web a variant of their own, of which the resource with an index says something else.
func vary(s plan.Side, clusters map[string]string, index int) plan.Side {
	app := s.Plan.App("web")
	s.Overlays = map[string][]*plan.Overlay{}
	for i := range app.Targets {
		says, ok := clusters[app.Targets[i].Name]
		if !ok {
			continue
		}
		r := s.Bundles["web"].Resources[index]
		r.Manifest = json.RawMessage(fmt.Sprintf(`{"data":{"says":%q}}`, says))
		s.Overlays["web"] = append(s.Overlays["web"], &plan.Overlay{Resources: []plan.Overlaid{{Index: index, Resource: r}}})
		app.Variants = append(app.Variants, plan.Variant{Overlay: domain.Part(says)})
		app.Targets[i].Variant = len(app.Variants)
	}
	return s
}

// A cluster is compared with what it has got itself.
func TestDiffOfVariants(t *testing.T) {
	t.Parallel()
	const three = "web on a b c: svc=1 dep=1"
	for name, c := range map[string]struct {
		old, wanted         string
		oldVaries, nextVary map[string]string
		want                string
	}{
		"nothing": {
			old: three, wanted: three, oldVaries: map[string]string{"b": "2", "c": "3"}, nextVary: map[string]string{"b": "2", "c": "3"},
			want: "web: svc dep; a 2A; b 2A; c 2A\n",
		},
		"a cluster that is varied now": {
			old: three, wanted: three, nextVary: map[string]string{"b": "2"},
			want: "web: svc dep; a 2A; b 1A1o; c 2A\n",
		},
		"one that is not any more": {
			old: three, wanted: three, oldVaries: map[string]string{"b": "2"},
			want: "web: svc dep; a 2A; b 1A1o; c 2A\n",
		},
		"one that is varied otherwise": {
			old: three, wanted: three, oldVaries: map[string]string{"b": "2", "c": "3"}, nextVary: map[string]string{"b": "3", "c": "3"},
			want: "web: svc dep; a 2A; b 1A1o; c 2A\n",
		},
		"the bundle is another one, and comes to the same where it is varied": {
			old: three, wanted: "web on a b c: svc=1 dep=5", oldVaries: map[string]string{"b": "5"}, nextVary: map[string]string{"c": "1"},
			want: "web: svc dep; a 1A1o; b 2A; c 2A\n",
		},
		"a resource less, and another place in the bundle": {
			old: three, wanted: "web on a b c: dep=1", oldVaries: map[string]string{"b": "2"},
			want: "web: dep -svc; a 1A1d; b 1o1d; c 1A1d\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := plan.Installed{Side: vary(sideOf("1", c.old), c.oldVaries, 1), Leaves: leavesOf("1", "web/a=2A web/b=2A web/c=2A")}
			wanted := vary(sideOf("2", c.wanted), c.nextVary, len(sideOf("2", c.wanted).Bundles["web"].Resources)-1)
			change := plan.Diff(old, wanted, domain.OpUpdate)
			require.Equal(t, c.want, show(change.Plan))
			require.Equal(t, wanted.Plan.App("web").Variants, change.Plan.App("web").Variants)
			for i, target := range change.Plan.App("web").Targets {
				require.Equal(t, wanted.Plan.App("web").Targets[i].Variant, target.Variant, "it goes on getting what it is to get")
			}
			// Another context can be made of it again.
			again := plan.Wanted(plan.Side{Plan: change.Plan, Bundles: change.Bundles, Overlays: wanted.Overlays})
			require.True(t, plan.Diff(plan.Installed{Side: wanted, Leaves: leavesOf("2", "web/a=9A web/b=9A web/c=9A")}, again, domain.OpRollback).Empty())
		})
	}
}

func TestOverlayOnABundle(t *testing.T) {
	t.Parallel()
	s := vary(sideOf("1", "web on a: svc=1 dep=1"), map[string]string{"a": "2"}, 1)
	b := s.Overlays["web"][0].On(s.Bundles["web"])
	require.Equal(t, s.Bundles["web"].Resources[0], b.Resources[0])
	require.JSONEq(t, `{"data":{"says":"2"}}`, string(b.Resources[1].Manifest))
	require.JSONEq(t, `{"data":{"says":"1"}}`, string(s.Bundles["web"].Resources[1].Manifest), "the bundle is shared and stays")
}

// What only some clusters get comes and goes there alone, and is nothing to do elsewhere.
func TestDiffOfWhatSomeClustersLack(t *testing.T) {
	t.Parallel()
	// lack has a side's clusters lack the last resource of web, by a variant of their own.
	lack := func(s plan.Side, clusters ...string) plan.Side {
		app := s.Plan.App("web")
		n := len(app.Resources)
		app.Variants = []plan.Variant{{Lacks: append(domain.NewMarks(n-1, domain.MarkPending), domain.MarkGone).Encode()}}
		s.Overlays = map[string][]*plan.Overlay{"web": {{}}}
		for i := range app.Targets {
			if slices.Contains(clusters, app.Targets[i].Name) {
				app.Targets[i].Variant = 1
			}
		}
		app.Begin()
		return s
	}
	const one, two = "web on a b c: svc=1", "web on a b c: svc=1 own=1"
	for name, c := range map[string]struct {
		old, wanted         string
		oldLacks, nextLacks []string
		leaves              string
		want                string
	}{
		"it comes": {
			old: one, wanted: two, nextLacks: []string{"c"}, leaves: "web/a=1A web/b=1A web/c=1A",
			want: "web: svc own; a 1A1p; b 1A1p; c 1A1G\n",
		},
		"it comes to one more": {
			old: two, wanted: two, oldLacks: []string{"b", "c"}, nextLacks: []string{"c"}, leaves: "web/a=2A web/b=1A1G web/c=1A1G",
			want: "web: svc own; a 2A; b 1A1p; c 1A1G\n",
		},
		"it leaves one": {
			old: two, wanted: two, oldLacks: []string{"c"}, nextLacks: []string{"b", "c"}, leaves: "web/a=2A web/b=2A web/c=1A1G",
			want: "web: svc own; a 2A; b 1A1d; c 1A1G\n",
		},
		"it is another one": {
			old: two, wanted: "web on a b c: svc=1 own=2", oldLacks: []string{"c"}, nextLacks: []string{"c"}, leaves: "web/a=2A web/b=2A web/c=1A1G",
			want: "web: svc own; a 1A1o; b 1A1o; c 1A1G\n",
		},
		"it goes": {
			old: two, wanted: one, oldLacks: []string{"c"}, leaves: "web/a=2A web/b=2A web/c=1A1G",
			want: "web: svc -own; a 1A1d; b 1A1d; c 1A1G\n",
		},
		"nothing": {
			old: two, wanted: two, oldLacks: []string{"c"}, nextLacks: []string{"c"}, leaves: "web/a=2A web/b=2A",
			want: "web: svc own; a 2A; b 2A; c 1p1G\n",
		},
		"a cluster that is new lacks it": {
			old: "web on a b: svc=1 own=1", wanted: two, nextLacks: []string{"c"}, leaves: "web/a=2A web/b=2A",
			want: "web: svc own; a 2A; b 2A; c 1p1G\n",
		},
		"another app has it on a cluster that lacks it now": {
			old: two, wanted: two + "\nnew on b: own=1", nextLacks: []string{"b"}, leaves: "web/a=2A web/b=2A web/c=2A",
			want: "web: svc own; a 2A; b 1A1d; c 2A\nnew: own; b 1o\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			side := func(id, text string, lacks []string) plan.Side {
				s := sideOf(id, text)
				if len(lacks) > 0 {
					s = lack(s, lacks...)
				}
				return s
			}
			old := plan.Installed{Side: side("1", c.old, c.oldLacks), Leaves: leavesOf("1", c.leaves)}
			wanted := side("2", c.wanted, c.nextLacks)
			change := plan.Diff(old, wanted, domain.OpUpdate)
			require.Equal(t, c.want, show(change.Plan))
			// A rollback to it wants the same again.
			again := plan.Wanted(plan.Side{Plan: change.Plan, Bundles: change.Bundles, Overlays: wanted.Overlays})
			require.Equal(t, show(wanted.Plan), show(again.Plan))
		})
	}
}

// Two plans do not collide where one of them lacks what the other one has.
func TestWhatIsLackedDoesNotCollide(t *testing.T) {
	t.Parallel()
	a, b := sideOf("1", "web on a b: own=1"), sideOf("2", "shop on a b: own=1")
	c, ok := plan.Collide(a.Plan, b.Plan)
	require.True(t, ok)
	require.Equal(t, "a", c.Cluster.Name)
	gone := domain.NewMarks(1, domain.MarkGone).Encode()
	a.Plan.Apps[0].Variants = []plan.Variant{{Lacks: gone}}
	a.Plan.Apps[0].Targets[0].Variant = 1
	c, ok = plan.Collide(a.Plan, b.Plan)
	require.True(t, ok)
	require.Equal(t, "b", c.Cluster.Name)
	b.Plan.Apps[0].Lacks = gone
	_, ok = plan.Collide(a.Plan, b.Plan)
	require.False(t, ok)

	// An update of b has it no more on b, where it is to be pruned: it is there until it is gone.
	on := &b.Plan.Apps[0].Targets[1]
	on.Inherited = &plan.Inherited{Marks: domain.NewMarks(1, domain.MarkDoomed).Encode()}
	c, ok = plan.Collide(a.Plan, b.Plan)
	require.True(t, ok)
	require.Equal(t, "b", c.Cluster.Name)
	for mark, collides := range map[domain.Mark]bool{domain.MarkDoomed: true, domain.MarkDeleting: true, domain.MarkUndeleted: true, domain.MarkDeleted: false} {
		_, ok = plan.CollideNow(a.Plan, b.Plan, nil, map[string]string{domain.LeafID("2", "shop", on.ClusterName): domain.NewMarks(1, mark).Encode()}, nil)
		require.Equal(t, collides, ok, "%c", mark)
	}
}

// widgetsOf is a plan of one app on the cluster a with a CRD of Widgets and a Widget, in a namespace of its own.
func widgetsOf(id, scope string, keep bool) *plan.Plan {
	bundle := []plan.Resource{
		{
			ResourceID: plan.ResourceID{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: "widgets.example.com"}, Keep: keep,
			Manifest: json.RawMessage(fmt.Sprintf(`{"spec":{"group":"example.com","scope":%q,"names":{"kind":"Widget"}}}`, scope)),
		},
		{ResourceID: plan.ResourceID{Group: "example.com", Version: "v1", Kind: "Widget", Name: "w"}, Manifest: json.RawMessage(`{}`)},
	}
	app := plan.App{
		Name: "web" + id, Targets: []plan.Target{{ClusterName: domain.ClusterName{Provider: "p", Name: "a"}}}, Definitions: plan.DefinitionsOf(bundle),
	}
	for _, r := range bundle {
		app.Resources = append(app.Resources, r.ResourceID)
	}
	return &plan.Plan{ContextID: id, Namespace: "ns" + id, Apps: []plan.App{app}}
}

// A CRD is shared only by those that keep it: the terminate of one that does not deletes the objects of all.
func TestDefinitionsCollideUnlessTheyAreKept(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ mine, theirs bool }{{true, true}, {true, false}, {false, true}, {false, false}} {
		a, b := widgetsOf("1", "Namespaced", c.mine), widgetsOf("2", "Namespaced", c.theirs)
		collision, ok := plan.Collide(a, b)
		require.Equal(t, !c.mine || !c.theirs, ok, c)
		if ok {
			require.Equal(t, "widgets.example.com", collision.Resource.Name)
		}
		require.Empty(t, plan.Undefined(a, b), "they are known")
		require.True(t, plan.FootprintOf(a).Meets(plan.FootprintOf(b)))
	}

	// Of an app that nobody has read it is asked.
	a, b := widgetsOf("1", "Namespaced", true), widgetsOf("2", "Namespaced", false)
	b.Apps[0].Definitions = nil
	require.Equal(t, []*plan.App{&b.Apps[0]}, plan.Undefined(a, b))
	b.Apps[0].Targets[0].Name = "b"
	require.Empty(t, plan.Undefined(a, b), "on other clusters")
	require.Empty(t, plan.Undefined(&plan.Plan{}, b))

	// What it has from before is no reason: an update may be what has it kept.
	a, b = widgetsOf("1", "Namespaced", true), widgetsOf("2", "Namespaced", false)
	for mark, collides := range map[domain.Mark]bool{domain.MarkOutdated: false, domain.MarkApplied: false, domain.MarkPending: true} {
		a.Apps[0].Targets[0].Inherited = &plan.Inherited{Marks: domain.NewMarks(2, mark).Encode()}
		_, ok := plan.Collide(a, b)
		require.Equal(t, collides, ok, "%c", mark)
	}

	// An update that has it deleted from now on mends nothing. One of what was never kept on this cluster has no worse an end.
	a, b = widgetsOf("1", "Namespaced", false), widgetsOf("2", "Namespaced", true)
	a.Apps[0].Targets[0].Inherited = &plan.Inherited{Marks: domain.NewMarks(2, domain.MarkApplied).Encode()}
	elsewhere, lacked := widgetsOf("0", "Namespaced", false), widgetsOf("0", "Namespaced", false)
	elsewhere.Apps[0].Targets[0].Name = "other"
	lacked.Apps[0].Targets[0].Inherited = &plan.Inherited{Marks: domain.NewMarks(2, domain.MarkGone).Encode()}
	for from, collides := range map[*plan.Plan]bool{
		widgetsOf("0", "Namespaced", true): true, nil: true, widgetsOf("0", "Namespaced", false): false, elsewhere: true, lacked: true,
	} {
		_, ok := plan.Collide(a, b)
		require.True(t, ok)
		_, ok = plan.CollideNow(a, b, from, nil, nil)
		require.Equal(t, collides, ok)
	}
}

// Objects of a kind that a CRD gives no namespace are one in a cluster, whatever the namespaces of the plans.
func TestCustomResourcesWithoutANamespaceCollide(t *testing.T) {
	t.Parallel()
	a, b := widgetsOf("1", "Namespaced", true), widgetsOf("2", "Namespaced", true)
	_, ok := plan.Collide(a, b)
	require.False(t, ok)
	require.Empty(t, plan.FootprintIn(a, b.Namespace))

	a, b = widgetsOf("1", "Cluster", true), widgetsOf("2", "Cluster", true)
	b.Apps[0].Definitions, b.Apps[0].Resources = nil, b.Apps[0].Resources[1:] // whose CRD is not in its own chart
	for _, pair := range [][2]*plan.Plan{{a, b}, {b, a}} {
		c, ok := plan.Collide(pair[0], pair[1])
		require.True(t, ok)
		require.Equal(t, "Widget", c.Resource.Kind)
	}
	inherits := a.Apps[0].Targets[0]
	inherits.Inherited = &plan.Inherited{Marks: domain.NewMarks(2, domain.MarkDoomed).Encode()}
	had := *a
	had.Apps = []plan.App{a.Apps[0]}
	had.Apps[0].Targets = []plan.Target{inherits}
	_, ok = plan.Collide(&had, b)
	require.False(t, ok, "an update may be what takes it away")
	require.False(t, plan.FootprintOf(a).Meets(plan.FootprintOf(b)))
	require.True(t, plan.FootprintIn(a, b.Namespace).Meets(plan.FootprintOf(b)))
	require.Empty(t, plan.FootprintIn(b, a.Namespace))
}
