package plan_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
)

// sideOf reads lines such as "web on a b: svc=1 dep=2 crd=1!": app, clusters, and resources with what their manifests
// say; the mark ! keeps one, and ~ makes it a Job with a time to live.
func sideOf(contextID, text string) plan.Side {
	s := plan.Side{Plan: &plan.Plan{ContextID: contextID, Namespace: "default"}, Bundles: map[string]*plan.Bundle{}}
	for line := range strings.Lines(text) {
		head, resources, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			continue
		}
		words := strings.Fields(head)
		app := plan.App{Name: words[0], Bundle: domain.Digest("of " + words[0])}
		for _, cluster := range words[2:] {
			app.Targets = append(app.Targets, plan.Target{ClusterName: domain.ClusterName{Provider: "p", Name: cluster}})
		}
		bundle := &plan.Bundle{App: app.Name}
		for _, word := range strings.Fields(resources) {
			name, says, _ := strings.Cut(word, "=")
			says, keep := strings.CutSuffix(says, "!")
			r := plan.Resource{
				ResourceID: plan.ResourceID{Version: "v1", Kind: "ConfigMap", Name: name}, Keep: keep,
				Manifest: json.RawMessage(fmt.Sprintf(`{"data":{"says":%q}}`, says)),
			}
			if says, expires := strings.CutSuffix(says, "~"); expires {
				r.Group, r.Kind = "batch", "Job"
				r.Manifest = json.RawMessage(fmt.Sprintf(`{"spec":{"ttlSecondsAfterFinished":60},"data":{"says":%q}}`, says))
			}
			bundle.Resources = append(bundle.Resources, r)
			app.Resources = append(app.Resources, r.ResourceID)
		}
		s.Plan.Apps = append(s.Plan.Apps, app)
		s.Bundles[app.Name] = bundle
	}
	return s
}

// leavesOf reads words such as "web/a=2A".
func leavesOf(contextID, text string) map[string]domain.Leaf {
	leaves := map[string]domain.Leaf{}
	for _, word := range strings.Fields(text) {
		at, marks, _ := strings.Cut(word, "=")
		app, cluster, _ := strings.Cut(at, "/")
		id := domain.LeafID(contextID, app, domain.ClusterName{Provider: "p", Name: cluster})
		leaves[id] = domain.Leaf{Marks: marks, Connectivity: domain.ConnectivityAvailable, Report: "why"}
	}
	return leaves
}

// show writes a plan as lines: the app, its resources with a - before those to be pruned, and the marks by cluster, in
// brackets where the app leaves it.
func show(p *plan.Plan) string {
	var b strings.Builder
	for _, a := range p.Apps {
		b.WriteString(a.Name + ":")
		for i, r := range a.Resources {
			if i >= len(a.Resources)-a.Pruned {
				b.WriteString(" -" + r.Name)
			} else {
				b.WriteString(" " + r.Name)
			}
		}
		for _, t := range a.Targets {
			marks := t.Begin(len(a.Resources)).Encode()
			if t.Leaving {
				marks = "(" + marks + ")"
			}
			b.WriteString("; " + t.Name + " " + marks)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestDiff(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason     string
		old        string
		leaves     string
		incomplete bool
		reapplied  bool
		wanted     string
		want       string
		numbers    [4]int // added, changed, removed, unchanged
		moved      int    // where there are warnings
		warnings   []string
	}{
		"nothing": {
			old: "web on a b: svc=1 dep=1", leaves: "web/a=2A web/b=2A", wanted: "web on a b: svc=1 dep=1",
			want: "web: svc dep; a 2A; b 2A\n", numbers: [4]int{0, 0, 0, 4},
		},
		"what was spared is not ours": {
			old: "web on a b: ns=1 old=1 dep=1", leaves: "web/a=1K1K1A web/b=1K1K1A", wanted: "web on a: ns=1 dep=1",
			want: "web: ns dep; a 1K1A; b (1G1d)\n", numbers: [4]int{0, 0, 1, 2},
		},
		"what was spared is looked at again when it changes": {
			old: "web on a: ns=1", leaves: "web/a=1K", wanted: "web on a: ns=2",
			want: "web: ns; a 1p\n", numbers: [4]int{1, 0, 0, 0},
		},
		"another order is none": {
			old: "web on a: svc=1 dep=2", leaves: "web/a=2A", wanted: "web on a: dep=2 svc=1",
			want: "web: dep svc; a 2A\n", numbers: [4]int{0, 0, 0, 2},
		},
		"a resource more, one changed, one less": {
			old: "web on a: svc=1 dep=1 old=1", leaves: "web/a=3A", wanted: "web on a: svc=1 dep=2 new=1",
			want: "web: svc dep new -old; a 1A1o1p1d\n", numbers: [4]int{1, 1, 1, 1},
		},
		"a cluster more and one less": {
			old: "web on a b: svc=1 dep=1", leaves: "web/a=2A web/b=2A", wanted: "web on b c: svc=1 dep=1",
			want: "web: svc dep; a (2d); b 2A; c 2p\n", numbers: [4]int{2, 0, 2, 2},
		},
		"an app more and one less": {
			old: "web on a: svc=1\ndb on a: dep=1", leaves: "web/a=1A db/a=1A", wanted: "web on a: svc=1\nlog on a: job=1",
			want: "web: svc; a 1A\nlog: job; a 1p\ndb: -dep; a (1d)\n", numbers: [4]int{1, 0, 1, 1},
		},
		"what a cluster that comes never had is not pruned there": {
			old: "web on a: svc=1 old=1", leaves: "web/a=2A", wanted: "web on a b: svc=1",
			want: "web: svc -old; a 1A1d; b 1p1G\n", numbers: [4]int{1, 0, 1, 1},
		},
		"only what may be there is pruned": {
			reason: "never sent, refused, absent; and sent, refused although it may be there, being deleted, to be applied anew",
			old:    "web on a: p=1 F=1 D=1 G=1 s=1 X=1 r=1 d=1 o=1", leaves: "web/a=1p1F1D1G1s1X1r1d1o", wanted: "log on b: x=1",
			want: "log: x; b 1p\nweb: -s -X -r -d -o; a (3r2d)\n", numbers: [4]int{1, 0, 5, 0},
		},
		"what is not known to be applied is applied": {
			old: "web on a: p=1 F=1 s=1 X=1 d=1 o=1 G=1", leaves: "web/a=1p1F1s1X1d1o1G", wanted: "web on a: p=1 F=1 s=1 X=1 d=1 o=1 G=1",
			want: "web: p F s X d o G; a 2p2s2o1p\n", numbers: [4]int{3, 4, 0, 0},
		},
		"a leaf without a record has what it began with": {
			old: "web on a: svc=1 old=1", wanted: "web on a: svc=1",
			want: "web: svc; a 1p\n", numbers: [4]int{1, 0, 0, 0},
		},
		"what is kept stays, and is nobody's": {
			old: "web on a b: crd=1! svc=1", leaves: "web/a=2A web/b=2A", wanted: "web on a: svc=1",
			want: "web: svc; a 1A; b (1d)\n", numbers: [4]int{0, 0, 1, 1},
		},
		"a resource that another app takes over": {
			reason: "it is applied by that app, and its pruning finds another label",
			old:    "web on a: svc=1 x=1\nlog on a: job=1", leaves: "web/a=2A log/a=1A", wanted: "web on a: svc=1\nlog on a: job=1 x=1",
			want: "web: svc -x; a 1A1d\nlog: job x; a 1A1o\n", numbers: [4]int{0, 1, 1, 2},
		},
		"a resource that two apps had and one gives up": {
			reason: "whose label it has nobody knows",
			old:    "web on a: x=1 svc=1\nlog on a: x=1", leaves: "web/a=2A log/a=1A", wanted: "web on a: svc=1\nlog on a: x=1",
			want: "web: svc -x; a 1A1d\nlog: x; a 1o\n", numbers: [4]int{0, 1, 1, 1},
		},
		"a resource that two apps have, one of which leaves a cluster": {
			reason: "the pruning of the one that leaves would take it from the other, whichever of them comes last",
			old:    "log on a b: x=1\nweb on a b: x=1 svc=1", leaves: "log/a=1A log/b=1A web/a=2A web/b=2A", wanted: "log on a b: x=1\nweb on b: x=1 svc=1",
			want: "log: x; a 1o; b 1A\nweb: x svc; a (2d); b 2A\n", numbers: [4]int{0, 1, 2, 3},
		},
		"a resource that another app takes over, and that may be there": {
			old: "web on a: svc=1 x=1\nlog on a: job=1", leaves: "web/a=1A1s log/a=1A", wanted: "web on a: svc=1\nlog on a: job=1 x=1",
			want: "web: svc -x; a 1A1r\nlog: job x; a 1A1s\n", numbers: [4]int{0, 1, 1, 2},
		},
		"a resource that may be there of two apps, one of which knows": {
			old: "web on a: x=1 svc=1\nlog on a: x=1", leaves: "web/a=1s1A log/a=1A", wanted: "web on a: svc=1\nlog on a: x=1",
			want: "web: svc -x; a 1A1r\nlog: x; a 1o\n", numbers: [4]int{0, 1, 1, 1},
		},
		"a resource that moves with another app's cluster": {
			old: "web on a: x=1\nlog on b: job=1", leaves: "web/a=1A log/b=1A", wanted: "log on b: job=1 x=1",
			want: "log: job x; b 1A1p\nweb: -x; a (1d)\n", numbers: [4]int{1, 0, 1, 1},
		},
		"two of one name": {
			old: "web on a: x=1 x=2", leaves: "web/a=2A", wanted: "web on a: x=1 x=2",
			want: "web: x x; a 2A\n", numbers: [4]int{0, 0, 0, 2},
		},
		"after an end that was not in order everything may be there": {
			old: "web on a: svc=1 p=1 old=1", leaves: "web/a=1A2p", incomplete: true, wanted: "web on a: svc=1 p=1",
			want: "web: svc p -old; a 2s1r\n", numbers: [4]int{0, 2, 1, 0},
		},
		"applied again": {
			reason: "what is known to be there, what may be, and what was refused; a removal is as ever",
			old:    "web on a b: svc=1 o=1 F=1 old=1", leaves: "web/a=1A1o1F1A web/b=4A", reapplied: true, wanted: "web on a b: svc=1 o=1 F=1",
			want: "web: svc o F -old; a 2o1p1d; b 3o1d\n", numbers: [4]int{1, 5, 2, 0},
		},
		"applied again, and what was spared is not ours": {
			old: "web on a: ns=1 dep=1", leaves: "web/a=1K1A", reapplied: true, wanted: "web on a: ns=1 dep=1",
			want: "web: ns dep; a 1p1o\n", numbers: [4]int{1, 1, 0, 0},
		},
		"applied again, and a terminate is to look for what is to be kept": {
			old: "web on a: crd=1! svc=1", leaves: "web/a=2A", reapplied: true, wanted: "web on a: crd=1! svc=1",
			want: "web: crd svc; a 1s1o\n", numbers: [4]int{0, 2, 0, 0},
		},
		"applied again, but for Jobs that have gone by themselves": {
			reason: "one that says something else is another Job",
			old:    "web on a b: job=1~ more=1~ svc=1", leaves: "web/a=3A web/b=1A1s1A", reapplied: true, wanted: "web on a b: job=1~ more=2~ svc=1",
			want: "web: job more svc; a 1A2o; b 1A1s1o\n", numbers: [4]int{0, 4, 0, 2},
		},
		"a cluster that is left and has nothing": {
			old: "web on a b: svc=1", leaves: "web/a=1A web/b=1F", wanted: "web on a: svc=1",
			want: "web: svc; a 1A\n", numbers: [4]int{0, 0, 0, 1}, moved: 1,
			warnings: []string{`app "web" leaves cluster p+b, where nothing of it is to be deleted`},
		},
		"clusters that are left and have what is kept": {
			old: "web on a b c: crd=1!", leaves: "web/a=1A web/b=1A web/c=1A", wanted: "web on a: crd=1!",
			want: "web: crd; a 1A\n", numbers: [4]int{0, 0, 0, 1}, moved: 2,
			warnings: []string{`app "web" leaves cluster p+b and 1 more, where nothing of it is to be deleted`},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := plan.Installed{Side: sideOf("1", c.old), Leaves: leavesOf("1", c.leaves), Incomplete: c.incomplete, Reapplied: c.reapplied}
			got := plan.Diff(old, sideOf("2", c.wanted), domain.OpUpdate)
			require.Equal(t, c.want, show(got.Plan), c.reason)
			require.Equal(t, c.numbers, [4]int{got.Added, got.Changed, got.Removed, got.Unchanged})
			require.Equal(t, c.numbers[0]+c.numbers[1]+c.numbers[2]+got.Moved == 0, got.Empty())
			require.Equal(t, c.warnings, got.Warnings)
			if len(c.warnings) > 0 {
				require.Equal(t, c.moved, got.Moved)
			}
			require.Equal(t, "2", got.Plan.ContextID)
			for _, a := range got.Plan.Apps {
				require.Len(t, got.Bundles[a.Name].Resources, len(a.Resources))
				require.Equal(t, a.Pruned == 0, a.Bundle != "", "a bundle that was made has no digest yet")
			}
		})
	}
}

func TestDiffComparesWhatManifestsSay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		a, b string
		same bool
	}{
		"spaces and order":     {`{"a":1,"b":[1,2]}`, `{ "b":[1,2], "a":1 }`, true},
		"the order of a list":  {`{"b":[1,2]}`, `{"b":[2,1]}`, false},
		"large numbers":        {`{"a":9007199254740993}`, `{"a":9007199254740992}`, false},
		"a member more":        {`{"a":1}`, `{"a":1,"b":null}`, false},
		"what is not JSON":     {`{`, `{"a":1}`, false},
		"the same broken text": {`{`, `{`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old, wanted := sideOf("1", "web on a: x=1"), sideOf("2", "web on a: x=1")
			old.Bundles["web"].Resources[0].Manifest = json.RawMessage(c.a)
			wanted.Bundles["web"].Resources[0].Manifest = json.RawMessage(c.b)
			got := plan.Diff(plan.Installed{Side: old, Leaves: leavesOf("1", "web/a=1A")}, wanted, domain.OpUpdate)
			require.Equal(t, c.same, got.Empty())
		})
	}
}

// TestDiffTakesWhatItMade goes from one change to the next, the first of which was stopped in its middle.
func TestDiffTakesWhatItMade(t *testing.T) {
	t.Parallel()
	first := plan.Diff(plan.Installed{Side: sideOf("1", "web on a b: svc=1 old=1"), Leaves: leavesOf("1", "web/a=2A web/b=2A")},
		sideOf("2", "web on a c: svc=2"), domain.OpUpdate)
	require.Equal(t, "web: svc -old; a 1o1d; b (2d); c 1p1G\n", show(first.Plan))

	// On a it was applied; of c nothing is known; nothing was pruned.
	stopped := plan.Installed{Side: first.Side, Leaves: leavesOf("2", "web/a=1A1d")}
	again := plan.Diff(stopped, sideOf("3", "web on a c: svc=2"), domain.OpUpdate)
	require.Equal(t, "web: svc -old; a 1A1d; b (2d); c 1p1G\n", show(again.Plan), "the rest of it")
	back := plan.Diff(stopped, sideOf("3", "web on a b: svc=1 old=1"), domain.OpRollback)
	require.Equal(t, "web: svc old; a 2o; b 2o\n", show(back.Plan), "back to what was there")
	require.Equal(t, "why", again.Plan.Apps[0].Targets[0].Inherited.Report)

	third := plan.Diff(plan.Installed{Side: again.Side, Leaves: leavesOf("3", "web/a=1A1G web/b=2G web/c=1A1G")}, sideOf("4", "web on a c: svc=2"), domain.OpUpdate)
	require.Equal(t, "web: svc; a 1A; c 1A\n", show(third.Plan), "what has gone is not carried on")
	require.True(t, third.Empty())
}

func TestTrim(t *testing.T) {
	t.Parallel()
	made := func() *plan.Plan {
		return plan.Diff(plan.Installed{
			Side:   sideOf("1", "web on a b: svc=1 old=1\ndb on a: dep=1"),
			Leaves: leavesOf("1", "web/a=2A web/b=2A db/a=1A"),
		}, sideOf("2", "web on a: svc=1"), domain.OpUpdate).Plan
	}
	require.Equal(t, "web: svc -old; a 1A1d; b (2d)\ndb: -dep; a (1d)\n", show(made()))
	for name, c := range map[string]struct {
		left string // marks by app and cluster
		want string
	}{
		"all has gone":               {"web/a=1A1G web/b=2G db/a=1G", "web: svc; a 1A1d\n"},
		"nothing has":                {"web/a=1A1d web/b=2d db/a=1d", "web: svc -old; a 1A1d; b (2d)\ndb: -dep; a (1d)\n"},
		"the app that goes":          {"web/a=1A1d web/b=2d db/a=1G", "web: svc -old; a 1A1d; b (2d)\n"},
		"all but a refusal":          {"web/a=1A1X web/b=2G db/a=1G", "web: svc -old; a 1A1d\n"},
		"all but one on the cluster": {"web/a=1A1G web/b=1G1X db/a=1G", "web: svc -old; a 1A1d; b (2d)\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, leaves := made(), leavesOf("2", c.left)
			before := show(p)
			got := p.Trim(func(a *plan.App, target *plan.Target) domain.Marks {
				return domain.DecodeMarks(leaves[domain.LeafID("2", a.Name, target.ClusterName)].Marks)
			})
			require.Equal(t, c.want, show(got))
			require.Equal(t, before, show(p), "the plan itself stays")
			require.Equal(t, before == c.want, p == got)
		})
	}
}

func TestWanted(t *testing.T) {
	t.Parallel()
	change := plan.Diff(plan.Installed{
		Side:   sideOf("1", "web on a b: svc=1 old=1\ndb on a: dep=1"),
		Leaves: leavesOf("1", "web/a=2A web/b=2A db/a=1A"),
	}, sideOf("2", "web on a c: svc=2 new=1\nlog on a: job=1"), domain.OpMigrate)
	got := plan.Wanted(change.Side)
	require.Equal(t, "web: svc new; a 2p; c 2p\nlog: job; a 1p\n", show(got.Plan))
	require.Len(t, got.Bundles["web"].Resources, 2)
	require.Len(t, change.Bundles["web"].Resources, 3, "the other side stays")
	require.Empty(t, got.Plan.Apps[0].Bundle, "it is another bundle")
	require.Equal(t, domain.Digest("of log"), got.Plan.Apps[1].Bundle)
	require.ElementsMatch(t, []string{"web", "log"}, slices.Collect(func(yield func(string) bool) {
		for name := range got.Bundles {
			yield(name)
		}
	}))
}

// What users should know of a resource is still true when it stays as it is.
func TestWarningsStayWithWhatStays(t *testing.T) {
	t.Parallel()
	cluster := domain.ClusterName{Provider: "p", Name: "a"}
	old := plan.Installed{Side: sideOf("1", "web on a: svc=1 dep=1 job=1"), Leaves: leavesOf("1", "web/a=3A")}
	old.Plan.Apps[0].Targets[0].Inherited = &plan.Inherited{Marks: "2p1A", Warnings: []domain.Note{{Index: 2, Message: "of an earlier context"}}}
	leaf := old.Leaves[domain.LeafID("1", "web", cluster)]
	leaf.Unpatchable = []string{"services"}
	leaf.Warnings = []domain.Note{{Index: 0, Message: "one"}, {Index: 0, Message: "two"}, {Index: 1, Message: "of what changes"}}
	old.Leaves[domain.LeafID("1", "web", cluster)] = leaf
	change := plan.Diff(old, sideOf("2", "web on a: new=1 job=1 dep=2 svc=1"), domain.OpUpdate)
	inherited := change.Plan.Apps[0].Targets[0].Inherited
	require.Equal(t, "1p1A1o1A", inherited.Marks)
	require.ElementsMatch(t, []domain.Note{
		{Index: 3, Message: "one"}, {Index: 3, Message: "two"}, {Index: 1, Message: "of an earlier context"},
	}, inherited.Warnings)
	said := (&plan.Target{}).Warnings(&leaf)
	require.Equal(t, domain.WholeCluster, said[0].Index)
	require.Contains(t, said[0].Message, "may not patch services")
	require.Len(t, said, 4)
}
