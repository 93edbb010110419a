package activities_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
)

// TestHooksOfAnUpdate are those of its events where the app is, and those of an install where it brings the app to.
func TestHooksOfAnUpdate(t *testing.T) {
	for name, c := range map[string]struct {
		op        domain.Operation
		inherited string
		first     bool // it is installed there
		want      string
		writes    []string
	}{
		"an update":       {op: domain.OpUpdate, inherited: "1o1A2h", want: "2A1h1A", writes: []string{"PATCH upgraded", "PATCH main"}},
		"a second update": {op: domain.OpUpdate, inherited: "1o1A1h1A", want: "2A1h1A", writes: []string{"PATCH upgraded", "PATCH main"}},
		"an update after one that failed and was rolled back": {op: domain.OpUpdate, inherited: "1o1A1h1H", want: "2A1h1A", writes: []string{"PATCH upgraded", "PATCH main"}},
		"a rollback":               {op: domain.OpRollback, inherited: "1o1A2h", want: "2A2h", writes: []string{"PATCH main"}},
		"a rollback after it":      {op: domain.OpRollback, inherited: "1o1A1h1H", want: "2A1h1H", writes: []string{"PATCH main"}},
		"where nothing is yet":     {op: domain.OpUpdate, inherited: "2p2h", first: true, want: "2A2h", writes: []string{"PATCH install", "PATCH main"}},
		"where it was and left":    {op: domain.OpMigrate, inherited: "2p1h1G", first: true, want: "2A1h1G", writes: []string{"PATCH install", "PATCH main"}},
		"where its hook failed":    {op: domain.OpUpdate, inherited: "1p1s2h", first: true, want: "2A2h", writes: []string{"PATCH install", "PATCH main"}},
		"where its hook succeeded": {op: domain.OpUpdate, inherited: "1p1A2h", first: true, want: "2A2h", writes: []string{"PATCH main"}},
	} {
		t.Run(name, func(t *testing.T) {
			l, o := hooked(t, c.op, jobHook("install", on("pre-install")), jobHook("back", on("post-install-never")), jobHook("upgraded", on("pre-upgrade")))
			l.in.Inherited, l.in.Installs = c.inherited, c.first
			marks := l.through()
			require.Equal(t, c.want, marks[len(marks)-1])
			require.Equal(t, c.writes, o.writes)
		})
	}
}

// TestPruningLeavesWhatIsAnnotated: what somebody wants to keep stays in the cluster, and is not the context's any more.
func TestPruningLeavesWhatIsAnnotated(t *testing.T) {
	l, o := hooked(t, domain.OpUpdate, jobHook("old", on("pre-upgrade")))
	o.put("old", map[string]any{
		"labels":      map[string]any{"emco/deployment-id": "1-app"},
		"annotations": map[string]any{"helm.sh/resource-policy": "keep"},
	})
	l.in.Inherited, l.in.Prune = "1A1d", true
	require.Equal(t, []string{"1A1G"}, l.through())
	require.Empty(t, o.writes)
	require.Len(t, l.recorded().Notes, 1)
	require.Contains(t, l.recorded().Notes[0].Message, "annotated there")
}

// TestPruningRunsNoHooks deletes what is not wanted any more, also a hook that was run once.
func TestPruningRunsNoHooks(t *testing.T) {
	l, o := hooked(t, domain.OpUpdate, jobHook("upgrade", on("pre-upgrade")), jobHook("old", on("pre-upgrade", "pre-delete")))
	o.put("old", map[string]any{"labels": map[string]any{"emco/deployment-id": "1-app"}})
	l.in.Inherited, l.in.Prune = "2A1d", true
	require.Equal(t, []string{"2A1G"}, l.through())
	require.Equal(t, []string{"DELETE old"}, o.writes)
}
