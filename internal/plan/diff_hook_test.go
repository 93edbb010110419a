package plan_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/plan"
)

// hooked makes hooks of the resources of web whose names begin with hook.
func hooked(s plan.Side) plan.Side {
	bundle := s.Bundles["web"]
	for i := range bundle.Resources {
		if strings.HasPrefix(bundle.Resources[i].Name, "hook") {
			bundle.Resources[i].Hook = &plan.Hook{Events: []string{"pre-upgrade"}}
		}
	}
	s.Plan.App("web").Events = plan.EventsOf(bundle.Resources)
	return s
}

// TestDiffOfHooks: they are no reason for work. What is there of one stays until it is run, or pruned.
func TestDiffOfHooks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ old, marks, wanted, want string }{
		"unchanged":              {"web on a: svc=1 hook=1", "web/a=1A1h", "web on a: svc=1 hook=1", "web: svc hook; a 1A1h\n"},
		"changed alone":          {"web on a: svc=1 hook=1", "web/a=2A", "web on a: svc=1 hook=2", "web: svc hook; a 2A\n"},
		"new alone":              {"web on a: svc=1", "web/a=1A", "web on a: svc=1 hook=1", "web: svc hook; a 1A1h\n"},
		"done and deleted":       {"web on a: svc=1 hook=1", "web/a=1A1D", "web on a: svc=2 hook=1", "web: svc hook; a 1o1h\n"},
		"gone from the chart":    {"web on a: svc=1 hook=1", "web/a=2A", "web on a: svc=1", "web: svc -hook; a 1A1d\n"},
		"gone and never run":     {"web on a: svc=1 hook=1", "web/a=1A1h", "web on a: svc=1", "web: svc; a 1A\n"},
		"of an app that leaves":  {"web on a b: svc=1 hook=1", "web/a=1A1h web/b=2A", "web on a: svc=1 hook=1", "web: svc hook; a 1A1h; b (2d)\n"},
		"of an app that arrives": {"web on a: svc=1 hook=1", "web/a=1A1h", "web on a b: svc=1 hook=1", "web: svc hook; a 1A1h; b 1p1h\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := plan.Installed{Side: hooked(sideOf("1", c.old)), Leaves: leavesOf("1", c.marks)}
			change := plan.Diff(old, hooked(sideOf("2", c.wanted)))
			require.Equal(t, c.want, show(change.Plan))
			quiet := strings.HasSuffix(name, "alone") || name == "unchanged" || name == "gone and never run"
			require.Equal(t, quiet, change.Empty())
		})
	}
}

// TestDiffOfNothingButHooks: an app that comes to a cluster runs those of an install, which are all that it has.
func TestDiffOfNothingButHooks(t *testing.T) {
	t.Parallel()
	install := func(s plan.Side) plan.Side {
		for i := range s.Bundles["web"].Resources {
			s.Bundles["web"].Resources[i].Hook = &plan.Hook{Events: []string{"post-install"}}
		}
		return s
	}
	old := plan.Installed{Side: install(sideOf("1", "web on a: hook=1")), Leaves: leavesOf("1", "web/a=1D")}
	change := plan.Diff(old, install(sideOf("2", "web on a b: hook=1")))
	require.Equal(t, "web: hook; a 1h; b 1p\n", show(change.Plan))
	require.False(t, change.Empty())
	require.True(t, plan.Diff(old, install(sideOf("2", "web on a: hook=1"))).Empty(), "what was run is not run again")
}
