package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
)

// TestRest goes from what a terminate has left to what is wanted by an instantiate.
func TestRest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		old, leaves string
		incomplete  bool
		wanted      string
		want        string // "" when nothing is left
	}{
		"what was not come to is applied anew": {
			old: "web on a: svc=1 dep=1", leaves: "web/a=2A", wanted: "web on a: svc=1 dep=2", want: "web: svc dep; a 2o\n",
		},
		"what is gone is applied": {
			old: "web on a b: svc=1 dep=1", leaves: "web/a=2D web/b=1X1D", wanted: "web on a b: svc=1 dep=1", want: "web: svc dep; a 2p; b 1s1p\n",
		},
		"what is not wanted is pruned where it may be": {
			old: "web on a b: svc=1 dep=1", leaves: "web/a=1r1D web/b=2D", wanted: "web on a b: new=1", want: "web: new -svc; a 1p1r; b 1p1G\n",
		},
		"so is a cluster that is left": {
			old: "web on a b: svc=1 dep=1", leaves: "web/a=2D web/b=1d1D", wanted: "web on a: svc=1 dep=1", want: "web: svc dep; a 2p; b (1d1G)\n",
		},
		"and an app": {
			old: "web on a: svc=1\ndb on a: svc2=1", leaves: "web/a=1D db/a=1X", wanted: "web on a: svc=1", want: "web: svc; a 1p\ndb: -svc2; a (1r)\n",
		},
		"what is kept stays": {
			old: "web on a: crd=1! other=1! svc=1", leaves: "web/a=2K1X", wanted: "web on a: crd=1! svc=1", want: "web: crd svc; a 1o1s\n",
		},
		"what is kept may be there": {
			old: "web on a: crd=1! other=1! svc=1", leaves: "web/a=2k1X", wanted: "web on a: crd=1! svc=1", want: "web: crd svc; a 2s\n",
		},
		"nothing is left":  {old: "web on a b: svc=1 crd=1!", leaves: "web/a=2D web/b=1D1K", wanted: "web on a: svc=1"},
		"nothing was sent": {old: "web on a: svc=1", leaves: "web/a=1D", wanted: "web on a: svc=1"},
		"records that are not to be trusted": {
			old: "web on a: svc=1 dep=1", leaves: "web/a=2D", incomplete: true, wanted: "web on a: svc=1", want: "web: svc -dep; a 1s1r\n",
		},
		"hooks of an install are run again": {
			old: "web on a: svc=1 pre=1 up=1", leaves: "web/a=1X1D1h", wanted: "web on a: svc=1 pre=1 up=1", want: "web: svc pre up; a 1s1p1h\n",
		},
		"and may have left something": {
			old: "web on a: svc=1 pre=1 del=1", leaves: "web/a=1X1d1A", wanted: "web on a: svc=1 pre=1 del=1", want: "web: svc pre del; a 2s1H\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := plan.Installed{Side: eventful(sideOf("1", c.old)), Leaves: leavesOf("1", c.leaves), Incomplete: c.incomplete, Origin: domain.OpUpdate}
			rest := old.Rest()
			if c.want == "" {
				require.Nil(t, rest)
				return
			}
			require.NotNil(t, rest)
			change := plan.Diff(*rest, eventful(sideOf("2", c.wanted)), domain.OpInstantiate)
			require.Equal(t, c.want, show(change.Plan))
		})
	}
}

// eventful makes hooks of the resources of web with the names of its events.
func eventful(s plan.Side) plan.Side {
	events := map[string]string{"pre": "pre-install", "up": "pre-upgrade", "del": "pre-delete"}
	bundle := s.Bundles["web"]
	for i := range bundle.Resources {
		if e := events[bundle.Resources[i].Name]; e != "" {
			bundle.Resources[i].Hook = &plan.Hook{Events: []string{e}}
		}
	}
	return s
}
