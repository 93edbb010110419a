package activities_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
)

// TestHooksOfAnUpdate are those of its events where the app is, and those of an install where it brings the app to.
func TestHooksOfAnUpdate(t *testing.T) {
	for name, c := range map[string]struct {
		op     domain.Operation
		held   string
		want   string
		writes []string
	}{
		"an update":             {domain.OpUpdate, "1o1A2h", "2A1h1A", []string{"PATCH upgraded", "PATCH main"}},
		"a second update":       {domain.OpUpdate, "1o1A1h1A", "2A1h1A", []string{"PATCH upgraded", "PATCH main"}},
		"a rollback":            {domain.OpRollback, "1o1A2h", "2A2h", []string{"PATCH main"}},
		"where nothing is yet":  {domain.OpUpdate, "", "2A2h", []string{"PATCH install", "PATCH main"}},
		"where it was and left": {domain.OpMigrate, "1p1h1h1G", "2A1h1G", []string{"PATCH install", "PATCH main"}},
	} {
		t.Run(name, func(t *testing.T) {
			l, o := hooked(t, c.op, jobHook("install", on("pre-install")), jobHook("back", on("post-install-never")), jobHook("upgraded", on("pre-upgrade")))
			l.in.Held = c.held
			require.Equal(t, c.want, l.through()[len(c.writes)-1])
			require.Equal(t, c.writes, o.writes)
		})
	}
}

// TestPruningRunsNoHooks deletes what is not wanted any more, also a hook that was run once.
func TestPruningRunsNoHooks(t *testing.T) {
	l, o := hooked(t, domain.OpUpdate, jobHook("upgrade", on("pre-upgrade")), jobHook("old", on("pre-upgrade", "pre-delete")))
	o.put("old", map[string]any{"labels": map[string]any{"emco/deployment-id": "1-app"}})
	l.in.Held, l.in.Prune = "2A1d", true
	require.Equal(t, []string{"2A1G"}, l.through())
	require.Equal(t, []string{"DELETE old"}, o.writes)
}
