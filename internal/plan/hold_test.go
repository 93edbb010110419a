package plan_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
)

// holding is sideOf with a Namespace mon, what is in it, a CRD and a resource of its kind for the names mon, in, crd and widget.
func holding(contextID, text string) plan.Side {
	s := sideOf(contextID, text)
	for i := range s.Plan.Apps {
		app := &s.Plan.Apps[i]
		resources := s.Bundles[app.Name].Resources
		for n := range resources {
			switch r := &resources[n]; r.Name {
			case "mon":
				r.Kind = "Namespace"
			case "in":
				r.Namespace = "mon"
			case "crd":
				r.Group, r.Kind = "apiextensions.k8s.io", "CustomResourceDefinition"
				r.Manifest = json.RawMessage(`{"spec":{"group":"example.com","names":{"kind":"Widget"}}}`)
			case "widget":
				r.Group, r.Kind = "example.com", "Widget"
			}
			app.Resources[n] = resources[n].ResourceID
		}
	}
	return s
}

// A namespace and a CRD are not deleted under what is wanted in a cluster.
func TestWhatIsWantedHoldsWhatItIsIn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason, old, leaves, wanted string
		want                        string
		warnings                    []string
	}{
		"the same app": {
			old: "web on a b: mon=1 in=1", leaves: "web/a=2A web/b=2A", wanted: "web on a b: in=1",
			want:     "web: in; a 1A; b 1A\n",
			warnings: []string{`Namespace "mon", which app "web" does not have any more, stays on cluster p+a and 1 more: with it would go ConfigMap "in" of app "web"`},
		},
		"another app": {
			old: "web on a: mon=1 svc=1\nlog on a: in=1", leaves: "web/a=2A log/a=1A", wanted: "log on a: in=1",
			want:     "log: in; a 1A\nweb: -svc; a (1d)\n",
			warnings: []string{`Namespace "mon", which app "web" does not have any more, stays on cluster p+a: with it would go ConfigMap "in" of app "log"`},
		},
		"where the other one is": {
			old: "web on a b: mon=1\nlog on a b: in=1", leaves: "web/a=1A web/b=1A log/a=1A log/b=1A", wanted: "log on a: in=1",
			want:     "log: in; a 1A; b (1d)\nweb: -mon; b (1d)\n",
			warnings: []string{`Namespace "mon", which app "web" does not have any more, stays on cluster p+a: with it would go ConfigMap "in" of app "log"`, `app "web" leaves cluster p+a, where nothing of it is to be deleted`},
		},
		"an app leaves a cluster": {
			old: "web on a b: mon=1\nlog on a: in=1", leaves: "web/a=1A web/b=1A log/a=1A", wanted: "web on b: mon=1\nlog on a: in=1",
			want:     "web: mon; b 1A\nlog: in; a 1A\n",
			warnings: []string{`Namespace "mon", which app "web" does not have any more, stays on cluster p+a: with it would go ConfigMap "in" of app "log"`, `app "web" leaves cluster p+a, where nothing of it is to be deleted`},
		},
		"another app has the namespace, too": {
			reason: "its label saves it",
			old:    "web on a: mon=1\nlog on a: mon=1 in=1", leaves: "web/a=1A log/a=2A", wanted: "log on a: mon=1 in=1",
			want: "log: mon in; a 1o1A\nweb: -mon; a (1d)\n",
		},
		"it is being deleted already": {
			reason: "nothing holds that up any more",
			old:    "web on a: mon=1 svc=1", leaves: "web/a=1L1A", wanted: "web on a: in=1 svc=1",
			want: "web: in svc -mon; a 1p1A1L\n",
		},
		"nothing is in it any more": {
			old: "web on a: mon=1 in=1 svc=1", leaves: "web/a=3A", wanted: "web on a: svc=1",
			want: "web: svc -mon -in; a 1A2d\n",
		},
		"a CRD": {
			old: "web on a: crd=1 svc=1\nlog on a: widget=1", leaves: "web/a=2A log/a=1A", wanted: "web on a: svc=1\nlog on a: widget=1",
			want:     "web: svc; a 1A\nlog: widget; a 1A\n",
			warnings: []string{`CustomResourceDefinition "crd", which app "web" does not have any more, stays on cluster p+a: with it would go Widget "widget" of app "log"`},
		},
		"what is kept": {
			reason: "and is not wanted any more, either",
			old:    "web on a b: mon=1 in=1! svc=1", leaves: "web/a=3A web/b=1A1F1A", wanted: "web on a b: svc=1",
			want:     "web: svc -mon; a 1A1G; b 1A1d\n",
			warnings: []string{`Namespace "mon", which app "web" does not have any more, stays on cluster p+a: with it would go ConfigMap "in" of app "web", which is to be kept`},
		},
		"what is kept of an app that goes": {
			old: "web on a: mon=1\nlog on a: in=1!", leaves: "web/a=1A log/a=1s", wanted: "db on a: svc=1",
			want:     "db: svc; a 1p\n",
			warnings: []string{`Namespace "mon", which app "web" does not have any more, stays on cluster p+a: with it would go ConfigMap "in" of app "log", which is to be kept`, `app "web" leaves cluster p+a, where nothing of it is to be deleted`, `app "log" leaves cluster p+a, where nothing of it is to be deleted`},
		},
		"what is kept of a kind": {
			old: "web on a b: crd=1 svc=1\nlog on a: widget=1!", leaves: "web/a=2A web/b=2A log/a=1A", wanted: "web on a b: svc=1",
			want:     "web: svc -crd; a 1A1G; b 1A1d\n",
			warnings: []string{`CustomResourceDefinition "crd", which app "web" does not have any more, stays on cluster p+a: with it would go Widget "widget" of app "log", which is to be kept`, `app "log" leaves cluster p+a, where nothing of it is to be deleted`},
		},
		"a CRD whose resources go, too": {
			old: "web on a: crd=1 svc=1 widget=1", leaves: "web/a=3A", wanted: "web on a: svc=1",
			want: "web: svc -crd -widget; a 1A2d\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := plan.Diff(plan.Installed{Side: holding("1", c.old), Leaves: leavesOf("1", c.leaves)}, holding("2", c.wanted), domain.OpUpdate)
			require.Equal(t, c.want, show(got.Plan), c.reason)
			require.Equal(t, c.warnings, got.Warnings)
		})
	}
}

// What is held is so as long as there is something in it, and nobody wants it again, however many updates there are.
func TestWhatIsHeldIsSaidByThePlan(t *testing.T) {
	t.Parallel()
	cluster := func(names ...string) (all []domain.ClusterName) {
		for _, name := range names {
			all = append(all, domain.ClusterName{Provider: "p", Name: name})
		}
		return all
	}
	mon := plan.Held{App: "web", Resource: plan.ResourceID{Version: "v1", Kind: "Namespace", Name: "mon"}}
	crd := plan.Held{App: "web", Resource: plan.ResourceID{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: "crd"}, Group: "example.com", Kind: "Widget"}
	held := func(h plan.Held, kept bool, clusters ...string) plan.Held {
		h.Kept, h.Clusters = kept, cluster(clusters...)
		return h
	}
	in := plan.Held{App: "web", Resource: plan.ResourceID{Version: "v1", Kind: "ConfigMap", Namespace: "mon", Name: "in"}}
	widget := plan.Held{App: "web", Resource: plan.ResourceID{Group: "example.com", Version: "v1", Kind: "Widget", Name: "widget"}}
	of := func(app string, h plan.Held) plan.Held {
		h.App = app
		return h
	}
	const first = "web on a b: mon=1 crd=1 svc=1\nlog on a b: in=1 widget=1 db=1"
	for name, c := range map[string]struct {
		first   string // first, when it is missing
		updates []string
		want    []plan.Held
		warning string // of the last update
	}{
		"what is wanted": {updates: []string{"web on a b: svc=1\nlog on a b: in=1 widget=1"}, want: []plan.Held{held(mon, false, "a", "b"), held(crd, false, "a", "b")}},
		"after another update": {
			updates: []string{"web on a b: svc=1\nlog on a b: in=1 widget=1", "web on a b: svc=2\nlog on a b: in=2 widget=1"},
			want:    []plan.Held{held(mon, false, "a", "b"), held(crd, false, "a", "b")},
		},
		"where it still is": {
			updates: []string{"web on a b: svc=1\nlog on a b: in=1 widget=1", "web on a b: svc=1\nlog on b: in=1 widget=1"},
			want:    []plan.Held{held(mon, false, "b"), held(crd, false, "b")},
		},
		"nothing any more": {updates: []string{"web on a b: svc=1\nlog on a b: in=1 widget=1", "web on a b: svc=1\nlog on a b: db=1"}},
		"wanted again, by another app": {
			updates: []string{"web on a b: svc=1\nlog on a b: in=1 widget=1", "web on a b: svc=1\nlog on a b: in=1 widget=1\ndb on a: mon=1 crd=1"},
			want:    []plan.Held{held(mon, false, "b"), held(crd, false, "b")},
		},
		"what is kept, for good": {
			first: "web on a: mon=1 in=1! svc=1", updates: []string{"web on a: svc=1", "web on a: svc=2"},
			want: []plan.Held{held(mon, true, "a"), held(in, true, "a")},
		},
		"what is kept when it goes later": {
			first: "web on a: mon=1 in=1! svc=1", updates: []string{"web on a: in=1! svc=1", "web on a: svc=2", "web on a: svc=3"},
			want: []plan.Held{held(mon, true, "a"), held(in, true, "a")},
		},
		"what is kept, and went before": {
			first: "web on a: mon=1 in=1! svc=1", updates: []string{"web on a: mon=1 svc=1", "web on a: mon=1 svc=2", "web on a: svc=2"},
			want:    []plan.Held{held(in, true, "a"), held(mon, true, "a")},
			warning: `Namespace "mon", which app "web" does not have any more, stays on cluster p+a: with it would go ConfigMap "in" of app "web", which is to be kept`,
		},
		"what is kept of a kind, and went before": {
			first: "web on a: crd=1 widget=1! svc=1", updates: []string{"web on a: crd=1 svc=1", "web on a: svc=1"},
			want:    []plan.Held{held(widget, true, "a"), held(crd, true, "a")},
			warning: `CustomResourceDefinition "crd", which app "web" does not have any more, stays on cluster p+a: with it would go Widget "widget" of app "web", which is to be kept`,
		},
		"what is kept where its app was": {
			first:   "web on a b: in=1! svc=1\nlog on a b: mon=1",
			updates: []string{"web on b: in=1! svc=1\nlog on a b: mon=1", "web on b: in=1! svc=1"},
			want:    []plan.Held{held(in, true, "a"), held(of("log", mon), true, "a"), held(of("log", mon), false, "b")},
		},
		"what is kept, while its namespace comes back and goes": {
			first: "web on a: mon=1 in=1! svc=1", updates: []string{"web on a: svc=1", "web on a: mon=1 svc=1", "web on a: svc=1"},
			want: []plan.Held{held(in, true, "a"), held(mon, true, "a")},
		},
		"what is kept, and wanted again": {
			first: "web on a: mon=1 in=1! svc=1", updates: []string{"web on a: mon=1 svc=1", "web on a: mon=1 svc=1\nlog on a: in=1"},
		},
		"what is kept, and another app has": {
			first: "web on a: mon=1 in=1! svc=1\nlog on a: in=1", updates: []string{"web on a: mon=1 svc=1\nlog on a: in=1"},
		},
		"what is kept in no namespace of theirs": {first: "web on a: mon=1 db=1! svc=1", updates: []string{"web on a: mon=1 svc=1", "web on a: svc=1"}},
		"a namespace that is kept, with something in it": {
			first: "web on a b: mon=1! svc=1\nlog on a: in=1", updates: []string{"web on a b: svc=1\nlog on a: in=1"},
			want: []plan.Held{held(mon, true, "a")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.first == "" {
				c.first = first
			}
			side, warnings := holding("1", c.first), []string(nil)
			for _, update := range c.updates {
				change := plan.Diff(*side.Done(), holding("2", update), domain.OpUpdate)
				side, warnings = change.Side, change.Warnings
			}
			require.Equal(t, c.want, side.Plan.Held)
			if c.warning != "" {
				require.Equal(t, []string{c.warning}, warnings)
			}
		})
	}
}

// What is held is not another group's to have: its terminate would delete it.
func TestNobodyTakesWhatIsHeld(t *testing.T) {
	t.Parallel()
	mon := plan.ResourceID{Version: "v1", Kind: "Namespace", Name: "mon"}
	crd := plan.ResourceID{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: "widgets.example.com"}
	volume := plan.ResourceID{Version: "v1", Kind: "PersistentVolumeClaim", Namespace: "mon", Name: "data"}
	everything := &domain.UserPermission{Spec: domain.UserPermissionSpec{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}
	for name, c := range map[string]struct {
		resource  plan.ResourceID
		keep      bool
		change    func(a, b *plan.Plan)
		permitted bool // both users, to do all
		collides  bool
	}{
		"a namespace":               {resource: mon, permitted: true, collides: true},
		"of one project":            {resource: mon, change: func(a, b *plan.Plan) { a.Owner, b.Owner = "projects/p/a", "projects/p/b" }, collides: true},
		"which nobody there has":    {resource: mon},
		"on another cluster":        {resource: mon, permitted: true, change: func(_, b *plan.Plan) { b.Held[0].Clusters[0].Name = "other" }},
		"which it has already":      {resource: mon, permitted: true, change: func(a, _ *plan.Plan) { inherit(a, domain.MarkApplied) }},
		"which it does not get":     {resource: mon, permitted: true, change: func(a, _ *plan.Plan) { inherit(a, domain.MarkGone) }},
		"a CRD":                     {resource: crd, permitted: true, collides: true},
		"a CRD of which both agree": {resource: crd, keep: true, permitted: true},
		"what is kept":              {resource: volume, permitted: true, collides: true},
		"what is kept where nothing names its namespace": {resource: volume, permitted: true, collides: true, change: func(_, b *plan.Plan) {
			b.Namespace, b.Held[0].Resource.Namespace = "mon", ""
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := planIn("p", c.resource), planIn("q", plan.ResourceID{Version: "v1", Kind: "ConfigMap", Namespace: "mon", Name: "in"})
			a.Apps[0].Definitions = plan.DefinitionsOf([]plan.Resource{{ResourceID: c.resource, Keep: c.keep}})
			b.Held = []plan.Held{{App: "web", Resource: c.resource, Clusters: []domain.ClusterName{b.Apps[0].Targets[0].ClusterName}}}
			if c.change != nil {
				c.change(a, b)
			}
			permissions := map[domain.Key][]*domain.UserPermission{}
			if c.permitted {
				permissions[a.User], permissions[b.User] = []*domain.UserPermission{everything}, []*domain.UserPermission{everything}
			}
			require.True(t, plan.FootprintOf(a).Meets(plan.FootprintOf(b)))
			found, ok := plan.CollideNow(a, b, nil, nil, permissions)
			require.Equal(t, c.collides, ok)
			if ok {
				require.Equal(t, plan.Collision{App: "app", OtherApp: "web", Resource: c.resource, Cluster: a.Apps[0].Targets[0].ClusterName, Held: true}, found)
				_, ok = plan.Collide(a, b)
				require.True(t, ok, "by what they say")
				_, ok = plan.CollideNow(b, a, nil, nil, permissions)
				require.False(t, ok, "to hold it is no reason to refuse an update")
			}
		})
	}
}
