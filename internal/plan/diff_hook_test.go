package plan_test

import (
	"cmp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
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
		"unchanged":                            {"web on a: svc=1 hook=1", "web/a=1A1h", "web on a: svc=1 hook=1", "web: svc hook; a 1A1h\n"},
		"changed alone":                        {"web on a: svc=1 hook=1", "web/a=2A", "web on a: svc=1 hook=2", "web: svc hook; a 2A\n"},
		"new alone":                            {"web on a: svc=1", "web/a=1A", "web on a: svc=1 hook=1", "web: svc hook; a 1A1h\n"},
		"done and deleted":                     {"web on a: svc=1 hook=1", "web/a=1A1D", "web on a: svc=2 hook=1", "web: svc hook; a 1o1h\n"},
		"gone from the chart":                  {"web on a: svc=1 hook=1", "web/a=2A", "web on a: svc=1", "web: svc -hook; a 1A1d\n"},
		"gone and never run":                   {"web on a: svc=1 hook=1", "web/a=1A1h", "web on a: svc=1", "web: svc; a 1A\n"},
		"one of two alone":                     {"web on a: svc=1 hook=1 hook=2", "web/a=3A", "web on a: svc=1 hook=1", "web: svc hook; a 2A\n"},
		"one that is there alone":              {"web on a: svc=1 hook=1 hook=2", "web/a=1A1D1A", "web on a: svc=1 hook=1", "web: svc hook; a 2A\n"},
		"one that failed alone":                {"web on a: svc=1 hook=1 hook=2", "web/a=1A1h1H", "web on a: svc=1 hook=1", "web: svc hook; a 1A1H\n"},
		"one to be run, and one that is there": {"web on a: svc=1 hook=1 hook=2", "web/a=1A1p1A", "web on a: svc=1 hook=1", "web: svc hook; a 1A1s\n"},
		"one of two where the app leaves":      {"web on a b: svc=1 hook=1 hook=2", "web/a=2A1h web/b=1A1D1A", "web on a: svc=1 hook=1", "web: svc hook; a 2A; b (2d)\n"},
		"of an app that leaves":                {"web on a b: svc=1 hook=1", "web/a=1A1h web/b=2A", "web on a: svc=1 hook=1", "web: svc hook; a 1A1h; b (2d)\n"},
		"of an app that arrives":               {"web on a: svc=1 hook=1", "web/a=1A1h", "web on a b: svc=1 hook=1", "web: svc hook; a 1A1h; b 1p1h\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := plan.Installed{Side: hooked(sideOf("1", c.old)), Leaves: leavesOf("1", c.marks)}
			change := plan.Diff(old, hooked(sideOf("2", c.wanted)), domain.OpUpdate)
			require.Equal(t, c.want, show(change.Plan))
			quiet := strings.HasSuffix(name, "alone") || name == "unchanged" || name == "gone and never run"
			require.Equal(t, quiet, change.Empty())
		})
	}
}

// TestDiffOfWhatAHookTakesThePlaceOf: a hook of the name of something else of the app overwrites or deletes it, so that it is applied again where the
// hook is run.
func TestDiffOfWhatAHookTakesThePlaceOf(t *testing.T) {
	t.Parallel()
	side := func(contextID, text, event string) plan.Side {
		s := sideOf(contextID, text)
		resources := s.Bundles["web"].Resources
		resources[len(resources)-1].Hook = &plan.Hook{Events: []string{event}}
		s.Plan.App("web").Events = plan.EventsOf(resources)
		return s
	}
	for name, c := range map[string]struct{ event, old, marks, wanted, want string }{
		"the hook is run":                 {"pre-upgrade", "web on a: svc=1 x=1 y=1 x=9", "3A1h", "web on a: svc=2 x=1 y=1 x=9", "2o1A1h"},
		"it was before":                   {"post-upgrade", "web on a: svc=1 x=1 y=1 x=9", "4A", "web on a: svc=2 x=1 y=1 x=9", "2o2A"},
		"it was, and is gone":             {"pre-upgrade", "web on a: svc=1 x=1 y=1 x=9", "3A1D", "web on a: svc=2 x=1 y=1 x=9", "2o1A1h"},
		"it alone is to be run":           {"pre-upgrade", "web on a: svc=1 x=1 y=1 x=9", "3A1X", "web on a: svc=1 x=1 y=1 x=9", "1A1o1A1s"},
		"what is to be kept":              {"pre-upgrade", "web on a: svc=1 x=1! y=1 x=9", "3A1h", "web on a: svc=2 x=1! y=1 x=9", "1o1s1A1h"},
		"what was there before":           {"pre-upgrade", "web on a: svc=1 x=1 y=1 x=9", "1A1K1A1h", "web on a: svc=2 x=1 y=1 x=9", "1o1K1A1h"},
		"nothing else is to be done":      {"pre-upgrade", "web on a: svc=1 x=1 y=1 x=9", "3A1h", "web on a: svc=1 x=1 y=1 x=9", "3A1h"},
		"another operation's hook":        {"pre-rollback", "web on a: svc=1 x=1 y=1 x=9", "3A1h", "web on a: svc=2 x=1 y=1 x=9", "1o2A1h"},
		"the install's, which is not run": {"pre-install", "web on a: svc=1 x=1 y=1 x=9", "4A", "web on a: svc=2 x=1 y=1 x=9", "1o3A"},
		"the install's, which came after": {"post-install", "web on a: svc=1 x=1 y=1 x=9", "4A", "web on a: svc=2 x=1 y=1 x=9", "2o2A"},
		"and is gone":                     {"post-install", "web on a: svc=1 x=1 y=1 x=9", "3A1D", "web on a: svc=2 x=1 y=1 x=9", "2o1A1h"},
		"and is forgotten":                {"post-install", "web on a: svc=1 x=1 y=1 x=9", "3A1h", "web on a: svc=2 x=1 y=1 x=9", "2o1A1h"},
		"and nothing else is to be done":  {"post-install", "web on a: svc=1 x=1 y=1 x=9", "3A1D", "web on a: svc=1 x=1 y=1 x=9", "3A1h"},
		"a rollback's, which came after":  {"post-rollback", "web on a: svc=1 x=1 y=1 x=9", "4A", "web on a: svc=2 x=1 y=1 x=9", "2o2A"},
		"what goes by itself":             {"post-rollback", "web on a: svc=1 x=1~ y=1 x=9~", "4A", "web on a: svc=2 x=1~ y=1 x=9~", "1o3A"},
		"the terminate's":                 {"post-delete", "web on a: svc=1 x=1 y=1 x=9", "3A1h", "web on a: svc=2 x=1 y=1 x=9", "1o2A1h"},
		"the install's, which goes on":    {"post-install", "web on a: svc=1 x=1 y=1 x=9", "3A1X", "web on a: svc=1 x=1 y=1 x=9", "1A1o1A1s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := plan.Installed{Side: side("1", c.old, c.event), Leaves: leavesOf("1", "web/a="+c.marks), Origin: domain.OpUpdate}
			if name == "the install's, which goes on" {
				old.Origin = domain.OpInstantiate
			}
			change := plan.Diff(old, side("2", c.wanted, c.event), domain.OpUpdate)
			require.Equal(t, c.want, change.Plan.Apps[0].Targets[0].Inherited.Marks)
		})
	}
}

// TestDiffOfWhatAHookHasTakenThatIsGone: what a post-hook has taken comes back also when the chart has that hook no more.
func TestDiffOfWhatAHookHasTakenThatIsGone(t *testing.T) {
	t.Parallel()
	old := plan.Installed{Side: sideOf("1", "web on a: svc=1 x=1 x=9"), Leaves: leavesOf("1", "web/a=2A1D"), Origin: domain.OpInstantiate}
	old.Bundles["web"].Resources[2].Hook = &plan.Hook{Events: []string{"post-install"}}
	change := plan.Diff(old, sideOf("2", "web on a: svc=2 x=1"), domain.OpUpdate)
	require.Equal(t, "web: svc x; a 2o\n", show(change.Plan))
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
	change := plan.Diff(old, install(sideOf("2", "web on a b: hook=1")), domain.OpUpdate)
	require.Equal(t, "web: hook; a 1h; b 1p\n", show(change.Plan))
	require.False(t, change.Empty())
	require.True(t, plan.Diff(old, install(sideOf("2", "web on a: hook=1")), domain.OpUpdate).Empty(), "what was run is not run again")
}

// TestDiffOfHooksThatHaveNotSucceeded: what an install has not come to the end of goes on as an install; of updates the
// hooks that are run again are those of the operation; what another one's has left is not said to be applied.
func TestDiffOfHooksThatHaveNotSucceeded(t *testing.T) {
	t.Parallel()
	events := map[string][]string{
		"pre": {"pre-install"}, "post": {"post-install"}, "up": {"pre-upgrade"}, "upped": {"post-upgrade"},
		"back": {"pre-rollback"}, "both": {"pre-install", "pre-upgrade"}, "twice": {"pre-install", "post-install"},
	}
	side := func(contextID, text string) plan.Side {
		s := sideOf(contextID, text)
		for i := range s.Plan.Apps {
			app := &s.Plan.Apps[i]
			resources, seen := s.Bundles[app.Name].Resources, map[string]int{}
			for n := range resources {
				if e := events[resources[n].Name]; e != nil {
					resources[n].Hook = (&plan.Hook{Events: e}).Runs()[seen[resources[n].Name]]
					seen[resources[n].Name]++
				}
			}
			app.Events = plan.EventsOf(resources)
		}
		return s
	}
	for name, c := range map[string]struct {
		origin, op domain.Operation
		installs   bool // what was there was being installed by the context before
		inherited  string
		incomplete bool
		old, marks string
		wanted     string // old's when empty
		want       string
		install    bool // what is wanted is
		empty      bool
	}{
		"the first hook of an install failed": {
			old: "web on a: svc=1 pre=1 post=1 up=1", marks: "1p1X1p1h", want: "1p1s1p1h", install: true,
		},
		"and was deleted": {
			old: "web on a: svc=1 pre=1 post=1 up=1", marks: "1p1F1p1h", want: "3p1h", install: true,
		},
		"the last hook of an install failed": {
			old: "web on a: svc=1 pre=1 post=1", marks: "2A1X", want: "2A1s", install: true,
		},
		"the last hook was not come to": {
			old: "web on a: svc=1 pre=1 post=1", marks: "1F1D1p", want: "1p1D1p", install: true,
		},
		"all hooks of an install have succeeded and gone, and all of the release was refused": {
			old: "web on a: svc=1 pre=1 post=1", marks: "1F2D", want: "1p2D", install: true,
		},
		"the same, and one says something else now": {
			old: "web on a: svc=1 pre=1 post=1", marks: "1F2D", wanted: "web on a: svc=1 pre=2 post=1", want: "2p1D", install: true,
		},
		"what has succeeded says something else now": {
			old: "web on a: svc=1 pre=1 post=1", marks: "2A1X", wanted: "web on a: svc=1 pre=2 post=1", want: "1A2s", install: true,
		},
		"a hook of both kinds that has succeeded": {
			old: "web on a: svc=1 both=1 post=1", marks: "2A1X", want: "2A1s", install: true,
		},
		"between the two runs of a hook": {
			old: "web on a: svc=1 twice=1 twice=1", marks: "1F1A1p", want: "1p1A1p", install: true,
		},
		"in the second run of a hook": {
			old: "web on a: svc=1 twice=1 twice=1", marks: "2A1X", want: "2A1s", install: true,
		},
		"in the first run of a hook": {
			old: "web on a: svc=1 twice=1 twice=1", marks: "1p1X1p", want: "1p1s1p", install: true,
		},
		"in a rollback": {
			op: domain.OpRollback, old: "web on a: svc=1 pre=1 back=1", marks: "1p1X1h", want: "1p1s1h", install: true,
		},
		"all hooks of an install have succeeded": {
			old: "web on a: svc=1 x=1 pre=1 up=1", marks: "1A1F1D1h", want: "1A1p2h",
		},
		"the object of a hook of an install was there before": {
			old: "web on a: svc=1 pre=1", marks: "1A1K", want: "1A1h", empty: true,
		},
		"and another hook of it failed": {
			old: "web on a: svc=1 pre=1 post=1", marks: "1A1K1X", want: "1A1K1s", install: true,
		},
		"there are none of an install": {
			old: "web on a: svc=1 x=1 up=1", marks: "1A1F1h", want: "1A1p1h",
		},
		"an app that an update has brought and whose hook failed": {
			origin: domain.OpUpdate, installs: true, old: "web on a: svc=1 pre=1 up=1", marks: "1p1X1h", want: "1p1s1h", install: true,
		},
		"an app that an update has brought": {
			origin: domain.OpUpdate, installs: true, old: "web on a: svc=1 pre=1 up=1", marks: "2A1h", want: "2A1h", empty: true,
		},
		"an app that an update has brought without a hook, of which something is not pruned yet": {
			origin: domain.OpUpdate, installs: true, inherited: "1p1h1d", old: "web on a: svc=1 up=1 pre=1", marks: "1A1h1r",
			wanted: "web on a: svc=2 up=1", want: "1o1h1r",
		},
		"the hook of an install that an update has nothing to do with": {
			origin: domain.OpUpdate, old: "web on a: svc=1 pre=1 up=1", marks: "1A2h", want: "1A2h", empty: true,
		},
		"the last hook of an update failed": {
			origin: domain.OpUpdate, old: "web on a: svc=1 up=1 upped=1", marks: "2A1X", want: "2A1s",
		},
		"the last hook of a migrate was not come to": {
			origin: domain.OpMigrate, old: "web on a: svc=1 up=1 upped=1", marks: "2A1p", want: "2A1p",
		},
		"and it is rolled back": {
			origin: domain.OpUpdate, op: domain.OpRollback, old: "web on a: svc=1 up=1 back=1", marks: "1A1X1h", want: "1A1H1h", empty: true,
		},
		"and rolled back after it was deleted": {
			origin: domain.OpUpdate, op: domain.OpRollback, old: "web on a: svc=1 up=1 back=1", marks: "1A1F1h", want: "1A2h", empty: true,
		},
		"what a rollback had left stays known": {
			origin: domain.OpRollback, old: "web on a: svc=1 up=1", marks: "1A1H", want: "1A1H", empty: true,
		},
		"what a rollback had left goes with its hook": {
			origin: domain.OpRollback, old: "web on a: svc=1 up=1", marks: "1A1H", wanted: "web on a: svc=1", want: "1A1r",
		},
		"an install of which nothing is certain": {
			incomplete: true, old: "web on a: svc=1 pre=1 post=1 up=1", marks: "1A1A1p1h", want: "1s1A1s1H", install: true,
		},
		"an update of which nothing is certain": {
			origin: domain.OpUpdate, incomplete: true, old: "web on a: svc=1 pre=1 up=1 back=1", marks: "1A1D1p1h", want: "1s1h1s1H",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := plan.Installed{Side: side("1", c.old), Leaves: leavesOf("1", "web/a="+c.marks), Incomplete: c.incomplete, Origin: c.origin}
			before := &old.Plan.Apps[0].Targets[0]
			if before.Installs = c.installs; c.inherited != "" {
				before.Inherited = &plan.Inherited{Marks: c.inherited}
			}
			change := plan.Diff(old, side("2", cmp.Or(c.wanted, c.old)), cmp.Or(c.op, domain.OpUpdate))
			target := change.Plan.Apps[0].Targets[0]
			require.Equal(t, c.want, target.Inherited.Marks)
			require.Equal(t, c.install, target.Installs)
			require.Equal(t, c.empty, change.Empty())
		})
	}
}

// TestDiffInstallsWhereItBringsAnAppTo also where a resource is there that another app had.
func TestDiffInstallsWhereItBringsAnAppTo(t *testing.T) {
	t.Parallel()
	old := plan.Installed{Side: sideOf("1", "log on a: x=1 job=1\nweb on b: svc=1"), Leaves: leavesOf("1", "log/a=2A web/b=1A")}
	change := plan.Diff(old, sideOf("2", "log on a: job=1\nweb on a b: svc=1 x=1"), domain.OpUpdate)
	web := change.Plan.App("web")
	require.Equal(t, "1p1o", web.Targets[0].Inherited.Marks)
	require.True(t, web.Targets[0].Installs)
	require.False(t, web.Targets[1].Installs)
	require.False(t, plan.Wanted(change.Side).Plan.App("web").Targets[0].Installs, "it was then")
}

// TestDiffOfAnAppThatComesBack: once its pruning has begun the release is not there any more, so that it is installed. Before that it is
// there, and is upgraded.
func TestDiffOfAnAppThatComesBack(t *testing.T) {
	t.Parallel()
	const all = "web on a b: svc=1 dep=1 pre=1 up=1"
	for name, c := range map[string]struct {
		begin, marks string // of the cluster that it has left; no marks where it has no record
		incomplete   bool
		installs     bool // an install had not come to its end when it left, or an earlier context has begun with its pruning
		want         string
		install      bool
	}{
		"before anything was done":              {begin: "4d", want: "2o2H"},
		"before anything was sent":              {begin: "4d", marks: "4d", want: "2o2H"},
		"before the end of its install":         {begin: "2d1r1G", marks: "2d1r1G", installs: true, want: "2o1s1h", install: true},
		"and nobody knew of a hook":             {begin: "2d1G1r", marks: "2d1G1r", want: "2o1h1H"},
		"when a deletion was sent":              {begin: "4d", marks: "3d1r", want: "2o1s1H", install: true},
		"when one waits for a finalizer":        {begin: "4d", marks: "1L3d", want: "2o1s1H", install: true},
		"when one was refused":                  {begin: "4d", marks: "1d1X2d", want: "1o2s1H", install: true},
		"when one has gone":                     {begin: "4d", marks: "1d1G2d", want: "1o1p1s1H", install: true},
		"when the hook of the install has gone": {begin: "4d", marks: "2d1G1d", want: "2o1p1H", install: true},
		"when only a hook is left":              {begin: "4d", marks: "3G1X", want: "3p1H", install: true},
		"when all has gone":                     {begin: "4d", marks: "4G", want: "3p1h", install: true},
		"when an earlier context had begun":     {begin: "1G1d1G1d", installs: true, want: "1p1o1p1H", install: true},
		"when nothing is certain":               {begin: "4d", marks: "4d", incomplete: true, want: "3s1H", install: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			left := func() plan.Installed {
				marks := "web/a=2A2h"
				if c.marks != "" {
					marks += " web/b=" + c.marks
				}
				old := plan.Installed{Side: eventful(sideOf("1", all)), Leaves: leavesOf("1", marks), Incomplete: c.incomplete, Origin: domain.OpUpdate}
				gone := &old.Plan.Apps[0].Targets[1]
				gone.Leaving, gone.Installs, gone.Inherited = true, c.installs, &plan.Inherited{Marks: c.begin}
				return old
			}
			back := plan.Diff(left(), eventful(sideOf("2", all)), domain.OpUpdate).Plan.Apps[0].Targets[1]
			require.False(t, back.Leaving)
			require.Equal(t, c.want, back.Inherited.Marks)
			require.Equal(t, c.install, back.Installs)

			still := plan.Diff(left(), eventful(sideOf("2", "web on a: svc=1 dep=1 pre=1 up=1")), domain.OpUpdate).Plan.Apps[0].Targets[1:]
			if c.marks == "4G" {
				require.Empty(t, still)
				return
			}
			require.True(t, still[0].Leaving)
			require.Equal(t, c.install, still[0].Installs, "the next context knows of it, too")
		})
	}
}

// TestDiffOfAReleaseOfAnotherName: nothing of it is there, so that it is installed, unless its objects do not have their names of it.
func TestDiffOfAReleaseOfAnotherName(t *testing.T) {
	t.Parallel()
	named := func(s plan.Side, release string) plan.Side {
		s = eventful(s)
		s.Plan.Release = release
		return s
	}
	for name, c := range map[string]struct {
		old, marks, wanted string
		release            string // of what is wanted
		want               string
		install            bool
	}{
		"by whose name its objects have theirs": {
			old: "web on a: r1svc=1 r1dep=1 pre=1 up=1", marks: "2A1D1h", wanted: "web on a: r2svc=1 r2dep=1 pre=1 up=1", release: "r2",
			want: "3p1h2d", install: true,
		},
		"and a hook is there that says the same": {
			old: "web on a: r1svc=1 pre=1 up=1", marks: "2A1h", wanted: "web on a: r2svc=1 pre=1 up=1", release: "r2",
			want: "1p1s1h1d", install: true,
		},
		"and a CRD that all have": {
			old: "web on a: crd=1! r1svc=1 pre=1", marks: "2A1D", wanted: "web on a: crd=1! r2svc=1 pre=1", release: "r2",
			want: "1A2p1d", install: true,
		},
		"the name is the same, and the objects have others": {
			old: "web on a: r1svc=1 pre=1 up=1", marks: "1A1D1h", wanted: "web on a: r2svc=1 pre=1 up=1", release: "r1",
			want: "1p2h1d",
		},
		"by which none of its objects has a name": {
			old: "web on a: svc=1 pre=1 up=1", marks: "1A1D1h", wanted: "web on a: svc=2 new=1 pre=1 up=1", release: "r2",
			want: "1o1p2h",
		},
		"and nothing differs": {
			old: "web on a: svc=1 pre=1 up=1", marks: "1A1D1h", wanted: "web on a: svc=1 pre=1 up=1", release: "r2",
			want: "1A2h",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := plan.Installed{Side: named(sideOf("1", c.old), "r1"), Leaves: leavesOf("1", "web/a="+c.marks), Origin: domain.OpUpdate}
			target := plan.Diff(old, named(sideOf("2", c.wanted), c.release), domain.OpMigrate).Plan.Apps[0].Targets[0]
			require.Equal(t, c.want, target.Inherited.Marks)
			require.Equal(t, c.install, target.Installs)
		})
	}

	migrated := plan.Diff(
		plan.Installed{Side: named(sideOf("1", "web on a: r1svc=1 r1dep=1 pre=1"), "r1"), Leaves: leavesOf("1", "web/a=2A1D")},
		named(sideOf("2", "web on a: r2svc=1 r2dep=1 pre=1"), "r2"), domain.OpMigrate)
	for marks, install := range map[string]bool{"2A1D2d": false, "2A1D1r1d": false, "2A1D1G1d": true, "2A1D2G": true} {
		stopped := plan.Installed{Side: migrated.Side, Leaves: leavesOf("2", "web/a="+marks), Origin: domain.OpMigrate}
		back := plan.Diff(stopped, named(sideOf("3", "web on a: r1svc=1 r1dep=1 pre=1"), "r1"), domain.OpRollback)
		require.Equal(t, install, back.Plan.Apps[0].Targets[0].Installs, "back to what was there, of which the pruning has left %s", marks)
	}
}

// TestDiffOfAnInstallThatHasAppliedNothing goes on with the install, also of a chart without install hooks: it was stopped, or refused as a whole.
func TestDiffOfAnInstallThatHasAppliedNothing(t *testing.T) {
	t.Parallel()
	named := func(s plan.Side, release string) plan.Side {
		s = eventful(s)
		s.Plan.Release = release
		return s
	}
	old := plan.Installed{Side: named(sideOf("1", "web on a: r1svc=1 up=1"), "r1"), Leaves: leavesOf("1", "web/a=1A1h"), Origin: domain.OpUpdate}
	first := plan.Diff(old, named(sideOf("2", "web on a: r2svc=1 up=1"), "r2"), domain.OpMigrate)
	require.Equal(t, "1p1h1d", first.Plan.Apps[0].Targets[0].Inherited.Marks)
	for marks, installs := range map[string]bool{"1p1h1d": true, "1F1h1d": true, "1A1h1d": false} {
		left := plan.Installed{Side: first.Side, Leaves: leavesOf("2", "web/a="+marks), Origin: domain.OpMigrate}
		next := plan.Diff(left, named(sideOf("3", "web on a: r2svc=2 up=1"), "r2"), domain.OpUpdate)
		require.Equal(t, installs, next.Plan.Apps[0].Targets[0].Installs, marks)
	}
}
