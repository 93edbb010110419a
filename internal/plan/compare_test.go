package plan_test

import (
	gocmp "cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
)

func awaited() error { return nil }

func everywhere(string, domain.ClusterName) bool { return true }

// spelled writes differences as lines: the app, its clusters, and each resource with what is done and with what it says.
func spelled(differences []plan.Difference) string {
	var b strings.Builder
	for _, d := range differences {
		b.WriteString(d.App)
		for _, c := range d.Clusters {
			b.WriteString(" " + c.Name)
		}
		if d.Arrives {
			b.WriteString(" arrives")
		}
		if d.Leaves {
			b.WriteString(" leaves")
		}
		for _, c := range d.Changes() {
			fmt.Fprintf(&b, "; %s %s", c.Action, c.Name)
			fields, _, err := plan.Fields(awaited, c.Before, c.After, 100)
			if err != nil {
				fmt.Fprintf(&b, " %v", err)
			}
			for _, f := range fields {
				if c.Action == plan.ActionChange {
					fmt.Fprintf(&b, " %s:%v>%v", f.Path, f.Before, f.After)
				}
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// Where there is anything to be applied, the operation's hooks are run, whatever came of them the last time.
func TestDifferencesHaveHooksThatAreRun(t *testing.T) {
	t.Parallel()
	hooked := func(contextID, text string) plan.Side {
		s := sideOf(contextID, text)
		app := &s.Plan.Apps[0]
		app.Hooks = 2
		for i, events := range [][]string{{"pre-install"}, {"post-install", "pre-upgrade"}} {
			s.Bundles[app.Name].Resources[1+i].Hook = &plan.Hook{Events: events}
		}
		return s
	}
	for name, c := range map[string]struct {
		wanted, leaves string
		again          bool
		op             domain.Operation
		want           string
	}{
		"nothing":                {wanted: "web on a b: svc=1 first=1 each=1", leaves: "web/a=3A web/b=3A", want: ""},
		"one that changes":       {wanted: "web on a b: svc=2 first=1 each=1", leaves: "web/a=3A web/b=2A1D", want: "web a b; change svc data.says:1>2; run each\n"},
		"one cluster":            {wanted: "web on a b: svc=1 first=1 each=1", leaves: "web/a=3A web/b=1F2A", want: "web b; create svc; run each\n"},
		"one that differs":       {wanted: "web on a b: svc=1 first=2 each=2", leaves: "web/a=3A web/b=3A", want: ""},
		"applied again":          {wanted: "web on a b: svc=1 first=1 each=1", leaves: "web/a=3A web/b=3A", again: true, want: "web a b; again svc; run each\n"},
		"a rollback that prunes": {wanted: "web on a: svc=1 first=1 each=1", leaves: "web/a=3A web/b=3A", op: domain.OpRollback, want: "web b leaves; delete svc; delete first; delete each\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := plan.Installed{Side: hooked("1", "web on a b: svc=1 first=1 each=1"), Leaves: leavesOf("1", c.leaves), Reapplied: c.again}
			way := plan.Way{From: old, Change: plan.Diff(old, hooked("2", c.wanted), gocmp.Or(c.op, domain.OpUpdate))}
			all, err := way.Differences(awaited, everywhere)
			require.NoError(t, err)
			require.Equal(t, c.want, spelled(all))
		})
	}
}

// What is done is told by clusters on which it is the same, from the marks that the operation itself begins with.
func TestDifferences(t *testing.T) {
	t.Parallel()
	const three = "web on a b c: svc=1 dep=1"
	for name, c := range map[string]struct {
		old, wanted, leaves string
		oldVary, nextVary   map[string]string
		incomplete          bool
		want                string
	}{
		"nothing":           {old: three, wanted: three},
		"the first":         {wanted: three, want: "web a b c arrives; create svc; create dep\n"},
		"one that changes":  {old: three, wanted: "web on a b c: svc=1 dep=2", want: "web a b c; change dep data.says:1>2\n"},
		"another cluster":   {old: three, wanted: "web on a b c d: svc=1 dep=1", want: "web d arrives; create svc; create dep\n"},
		"a cluster less":    {old: three, wanted: "web on a c: svc=1 dep=1", want: "web b leaves; delete svc; delete dep\n"},
		"a resource less":   {old: three, wanted: "web on a b c: svc=2", want: "web a b c; change svc data.says:1>2; delete dep\n"},
		"one that is kept":  {old: "web on a: svc=1 dep=1!", wanted: "web on a: svc=1"},
		"nothing to delete": {old: "web on a b: dep=1!", wanted: "web on a: dep=1!"},
		"an app less":       {old: "web on a: svc=1\nsink on a b: s=1", wanted: "web on a: svc=1", want: "sink a b leaves; delete s\n"},
		"an app takes over": {old: "web on a: svc=1\nsink on a: s=1", wanted: "web on a: svc=1 s=1\nsink on a: t=1", want: "web a; again s\nsink a; create t; delete s\n"},
		"one was refused":   {old: three, wanted: three, leaves: "web/b=1A1F", want: "web b; create dep\n"},
		"one got no answer": {old: three, wanted: three, leaves: "web/b=1A1s", want: "web b; again dep\n"},
		"nobody knows":      {old: "web on a: svc=1 dep=1", wanted: "web on a: svc=1 dep=2", incomplete: true, want: "web a; again svc; change dep data.says:1>2\n"},
		"clusters are varied now": {
			old: three, wanted: three, nextVary: map[string]string{"a": "7", "b": "8"},
			want: "web a; change dep data.says:1>7\nweb b; change dep data.says:1>8\n",
		},
		"variants that come to the same change are together": {
			old: three, wanted: "web on a b c: svc=2 dep=1", oldVary: map[string]string{"a": "7", "b": "8"}, nextVary: map[string]string{"a": "7", "b": "8"},
			want: "web a b c; change svc data.says:1>2\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := sideOf("1", c.old)
			if c.oldVary != nil {
				before = vary(before, c.oldVary, 1)
			}
			old := plan.Installed{Side: before, Incomplete: c.incomplete, Leaves: map[string]domain.Leaf{}}
			for _, app := range old.Plan.Apps {
				for _, target := range app.Targets {
					old.Leaves[domain.LeafID("1", app.Name, target.ClusterName)] = domain.Leaf{Marks: fmt.Sprintf("%dA", len(app.Resources))}
				}
			}
			for id, leaf := range leavesOf("1", c.leaves) {
				old.Leaves[id] = leaf
			}
			way := plan.Way{From: old}
			way.Change = plan.Diff(old, vary(sideOf("2", c.wanted), c.nextVary, 1), domain.OpUpdate)
			all, err := way.Differences(awaited, everywhere)
			require.NoError(t, err)
			require.Equal(t, c.want, spelled(all))
			counts := plan.Counts{}
			for _, d := range all {
				for action, n := range d.Counts {
					counts[action] += n
				}
			}
			require.Equal(t, way.Change.Added, counts[plan.ActionCreate], "the operation counts the same")
			require.Equal(t, way.Change.Changed, counts[plan.ActionChange]+counts[plan.ActionAgain])
			require.Equal(t, way.Change.Removed, counts[plan.ActionDelete])
			require.Equal(t, way.Change.Empty(), len(all) == 0 && way.Change.Moved == 0)
			one, err := way.Differences(awaited, func(_ string, c domain.ClusterName) bool { return c.Name == "b" })
			require.NoError(t, err)
			require.Equal(t, strings.Contains(c.want, " b"), len(one) > 0)
		})
	}
}

func TestFields(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ before, after, want string }{
		"the same otherwise written": {`{b: 1, a: {c: 2}}`, `{a: {c: 2}, b: 1}`, ``},
		"a member":                   {`{spec: {replicas: 1, x: y}}`, `{spec: {replicas: 3, x: y}}`, "spec.replicas 1>3\n"},
		"members that come and go":   {`{spec: {a: 1}}`, `{spec: {b: {c: 2}}}`, "spec.a 1>\nspec.b >map[c:2]\n"},
		"an element by its name": {
			`{c: [{name: a, image: "x:1"}, {name: b, image: y}]}`, `{c: [{name: b, image: y}, {name: a, image: "x:2"}, {name: d}]}`,
			"c (order) [a b]>[b a]\nc[name=\"a\"].image x:1>x:2\nc[name=\"d\"] >map[name:d]\n",
		},
		"elements without a name, by place": {`{rules: [{verbs: [get]}, {verbs: [list]}]}`, `{rules: [{verbs: [get, put]}]}`, "rules[0].verbs [get]>[get put]\nrules[1] map[verbs:[list]]>\n"},
		"two of one name, by place":         {`{e: [{name: a, v: 1}, {name: a, v: 2}]}`, `{e: [{name: a, v: 1}, {name: a, v: 3}]}`, "e[1].v 2>3\n"},
		"a list of texts, as a whole":       {`{args: [a, b]}`, `{args: [a, x, b]}`, "args [a b]>[a x b]\n"},
		"a name with dots":                  {`{metadata: {annotations: {"a.b/c": x}}}`, `{metadata: {annotations: {"a.b/c": z}}}`, "metadata.annotations[\"a.b/c\"] x>z\n"},
		"another type":                      {`{a: {b: 1}}`, `{a: [1]}`, "a map[b:1]>[1]\n"},
		"numbers to the digit":              {`{n: 12345678901234567890}`, `{n: 12345678901234567891}`, "n 12345678901234567890>12345678901234567891\n"},
		"what clusters write": {
			`{metadata: {name: a, uid: x, generation: 1}, status: {ready: 1}, spec: {template: {metadata: {creationTimestamp: null}}}}`,
			`{metadata: {name: a, resourceVersion: "7", creationTimestamp: now}, spec: {replicas: 2, template: {metadata: {}}}}`, "spec.replicas >2\n",
		},
		"what clusters write alone": {
			`{metadata: {name: a, uid: x}, spec: {template: {metadata: {creationTimestamp: null}}}}`, `{metadata: {name: a}, spec: {template: {metadata: {}}}}`,
			"metadata.uid x>\nspec.template.metadata.creationTimestamp null>\n",
		},
		"status alone":    {`{a: 1}`, `{a: 1, status: {b: 1}}`, "status >map[b:1]\n"},
		"null and absent": {`{spec: {a: null}}`, `{spec: {b: null}}`, "spec.a null>\nspec.b >null\n"},
		"the order alone": {
			`{initContainers: [{name: a}, {name: b}, {name: c}]}`, `{initContainers: [{name: new}, {name: b}, {name: a}]}`,
			"initContainers (order) [a b]>[b a]\ninitContainers[name=\"c\"] map[name:c]>\ninitContainers[name=\"new\"] >map[name:new]\n",
		},
		"more elements in the same order": {`{e: [{name: a}, {name: b}]}`, `{e: [{name: x}, {name: a}, {name: b}]}`, "e[name=\"x\"] >map[name:x]\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := func(text string) json.RawMessage {
				data, err := yaml.YAMLToJSON([]byte(text))
				require.NoError(t, err)
				return data
			}
			before, after := of(c.before), of(c.after)
			if name == "numbers to the digit" { // which YAML does not keep
				before, after = json.RawMessage(strings.Replace(c.before, "n", `"n"`, 1)), json.RawMessage(strings.Replace(c.after, "n", `"n"`, 1))
			}
			var b strings.Builder
			fields, more, err := plan.Fields(awaited, before, after, 100)
			require.NoError(t, err)
			require.Zero(t, more)
			for _, f := range fields {
				fmt.Fprintf(&b, "%s %v>%v\n", f.Path, shownOr(f.Before), shownOr(f.After))
			}
			require.Empty(t, cmp.Diff(c.want, b.String()))
		})
	}
}

func shownOr(v any) any {
	if v == nil {
		return ""
	}
	return v
}

// TestFieldsOfLargeManifests: each element is looked at a few times whatever the number of others, so many fields are told and the
// others counted, and nobody goes on who is not waited for any more.
func TestFieldsOfLargeManifests(t *testing.T) {
	t.Parallel()
	const elements = 50_000
	list := func(name string) json.RawMessage {
		var b strings.Builder
		b.WriteString(`{"` + strings.Repeat("long", 10_000) + `": [{"name": "kept"}`)
		for i := range elements {
			fmt.Fprintf(&b, `,{"name":"%s%d"}`, name, i)
		}
		b.WriteString("]}")
		return json.RawMessage(b.String())
	}
	before, after := list("a"), list("b")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // which the square of the number would go beyond
	defer cancel()
	fields, more, err := plan.Fields(ctx.Err, before, after, 3)
	require.NoError(t, err)
	require.Len(t, fields, 3)
	require.Equal(t, 2*elements-3, more)
	require.True(t, strings.HasSuffix(fields[2].Path, `long[name="a2"]`))
	require.Nil(t, fields[2].After)

	looks := 0
	left := func() error {
		if looks++; looks > 10 {
			return context.Canceled
		}
		return nil
	}
	_, _, err = plan.Fields(left, before, after, 3)
	require.ErrorIs(t, err, context.Canceled)
	way := plan.Way{From: plan.Installed{Side: sideOf("1", "")}}
	way.Change = plan.Diff(way.From, sideOf("2", "web on a b: svc=1"), domain.OpInstantiate)
	_, err = way.Differences(left, everywhere)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 12, looks, "it ends then")
}
