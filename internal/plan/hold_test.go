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
			warnings: []string{`Namespace "mon", which app "web" does not have any more, stays on cluster p+a: with it would go ConfigMap "in" of app "log"`},
		},
		"an app leaves a cluster": {
			old: "web on a b: mon=1\nlog on a: in=1", leaves: "web/a=1A web/b=1A log/a=1A", wanted: "web on b: mon=1\nlog on a: in=1",
			want:     "web: mon; b 1A\nlog: in; a 1A\n",
			warnings: []string{`Namespace "mon", which app "web" does not have any more, stays on cluster p+a: with it would go ConfigMap "in" of app "log"`},
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
			warnings: []string{`Namespace "mon", which app "web" does not have any more, stays on cluster p+a: with it would go ConfigMap "in" of app "log", which is to be kept`},
		},
		"what is kept of a kind": {
			old: "web on a b: crd=1 svc=1\nlog on a: widget=1!", leaves: "web/a=2A web/b=2A log/a=1A", wanted: "web on a b: svc=1",
			want:     "web: svc -crd; a 1A1G; b 1A1d\n",
			warnings: []string{`CustomResourceDefinition "crd", which app "web" does not have any more, stays on cluster p+a: with it would go Widget "widget" of app "log", which is to be kept`},
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
