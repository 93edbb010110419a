package cli_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/service"
)

// TestDiff: what an operation would do is said by clusters, resources and fields, for people and for programs, and asked for without it.
func TestDiff(t *testing.T) {
	w := newWorld(t)
	const group = "projects/default/composite-apps/web/v1/deployment-intent-groups/web"
	asked := []domain.Operation{}
	w.engine.does = func(s domain.Scope) (int, []string, error) {
		asked = append(asked, s.Operation)
		w.stand(s.Owner, domain.Instantiated, domain.ContextInstantiated, 1)
		return 2, nil, nil
	}
	deploy := []string{"deploy", w.chart(), "--name", "web", "--clusters", "edge01"}
	w.done(deploy...)
	asked = nil
	require.Equal(t, "update: nothing to do, 2 resources stay as they are\n", w.done("diff", "web"))
	require.Zero(t, w.run("diff", "web", "--exit-code").code)

	text := func(n int, line string) (all string) {
		for i := range n {
			all += fmt.Sprintf("line %d\n", i)
			if i == n/2 {
				all += line + "\n"
			}
		}
		return all
	}
	w.foresees = func(_ domain.Scope, goal domain.Goal) (string, string, error) {
		if goal.Revert != "" {
			return "later", "now", nil
		}
		return text(10, "before"), text(10, "after"), nil
	}
	const lines = `update: 2 to create, 2 to change, 2 to delete on 2 clusters; 0 resources stay as they are
web on p+a, p+b
  ~ ConfigMap/web
      data.text:
        …
          line 4
          line 5
        - before
        + after
          line 6
          line 7
        …
  + Secret/new
  - Secret/old
`
	require.Equal(t, lines, w.done("diff", "web"))
	require.Contains(t, w.done("diff", "web", "--objects"), "      + data:\n      +   text: masked\n")
	require.Contains(t, w.done("diff", "web", "--cluster", "p+b"), "\nweb on p+b\n")
	require.Contains(t, w.done("diff", "web", "--to", "1"), "      data.text: later -> now\n")
	r := w.run("diff", "web", "--exit-code", "-q")
	require.Equal(t, result{code: 7}, r)
	w.doubts = []string{"mind the gap"}
	require.Equal(t, result{code: 7, err: "Warning: mind the gap\n"}, w.run("diff", "web", "--exit-code", "-q"))
	w.doubts = nil
	var d service.GroupDiff
	require.NoError(t, json.Unmarshal([]byte(w.done("diff", "web", "-o", "json")), &d))
	require.Equal(t, domain.OpUpdate, d.Operation)
	require.Equal(t, 2, d.Changes.Change)
	require.Equal(t, "2 2\n", w.done("diff", "web", "-o", "jsonpath={.changes.create} {.clusters}"))
	require.Equal(t, lines, w.done("update", "web", "--dry-run"))
	require.Contains(t, w.done("rollback", "web", "--to", "1", "--dry-run"), "data.text: later -> now")
	require.Contains(t, w.done("terminate", "web", "--dry-run"), group+" is Instantiated; nothing is known to be in any cluster, and they would be asked all the same (dry run)")
	require.Equal(t, 1, w.run("instantiate", "web", "--dry-run").code)
	require.Empty(t, asked, "nothing was asked for")

	out := w.done(deploy...)
	require.Equal(t, lines+group+" update accepted, revision 2\n", out)
	w.stand(group, domain.Instantiated, domain.ContextInstantiated, 1)
	r = w.run("rollback", "web", "--to", "1")
	require.Zero(t, r.code, r.err)
	require.Contains(t, r.err, "says otherwise than revision 1: the next update has 2 to create, 2 to change, 2 to delete on 2 clusters")
	require.Empty(t, w.run("rollback", "web", "--to", "1", "-q").err)

	for says, args := range map[string][]string{
		"Filter app wbe not in list of apps": {"--app", "wbe"},
		"Filter cluster p+nowhere:":          {"--cluster", "p+nowhere"},
		"Invalid cluster query: \"b\"":       {"--cluster", "b"},
	} {
		r := w.run(append([]string{"diff", "web"}, args...)...)
		require.Equal(t, 1, r.code)
		require.Contains(t, r.err, says, "and not that nothing would be done")
	}
	// What the next update would do is asked for once, however many apps it changes: the API makes the plans anew for each answer.
	w.apps = []string{"db", "cache"}
	plans := 0
	w.foresees = func(s domain.Scope, goal domain.Goal) (string, string, error) {
		require.Equal(t, domain.OpUpdate, s.Operation)
		require.NotEmpty(t, goal.Revert, "from the revision to which it goes back")
		plans++
		return "then", "now", nil
	}
	w.stand(group, domain.Instantiated, domain.ContextInstantiated, 1)
	r = w.run("rollback", "web", "--to", "1")
	require.Zero(t, r.code, r.err)
	require.Contains(t, r.err, "the next update has 6 to create, 6 to change, 6 to delete on 2 clusters")
	require.Equal(t, 1, plans)

	w.foresees = func(domain.Scope, domain.Goal) (string, string, error) {
		return "", "", fail.New(fail.Invalid, "app web: a template cannot be rendered")
	}
	require.Equal(t, 1, w.run("diff", "web", "--exit-code", "-q").code, "what failed is no difference")
	r = w.run("diff", "web")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "a template cannot be rendered")
	for says, args := range map[string][]string{
		"use one of them":       {"--to", "1", "--version", "v2"},
		"--group needs":         {"--group", "x"},
		"--to -1 is no":         {"--to=-1"},
		"is of deployment inte": {"cloud/default"},
	} {
		r := w.run(append([]string{"diff", "web"}, args...)...)
		if args[0] == "cloud/default" {
			r = w.run("diff", "cloud/default")
		}
		require.Equal(t, 2, r.code, r.err)
		require.Contains(t, r.err, says)
	}
	r = w.run("diff", "web", "--to", "7")
	require.Equal(t, 3, r.code, r.err)
	require.Contains(t, r.err, "has no revision 7")
}
