package domain_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// FuzzKeys: whatever is asked for by a path, a key is one document's of one noun, and its names make the same key again.
func FuzzKeys(f *testing.F) {
	for _, seed := range []string{
		"", "/", "projects", "projects/p", "projects/p/composite-apps/ca/v1/apps/a", "projects//composite-apps", "projects/../projects/p",
		"cluster-providers/cp/clusters/c/labels/l", "projects/p/logical-clouds/lc", "projects/p\x00", "projects/%2e%2e", "tenants/t/workload-rules/r", "projects/é",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key := domain.Key(text)
		for _, n := range domain.Nouns {
			names, ok := n.Split(key)
			if !ok {
				continue
			}
			again, ok := n.Key(names)
			require.True(t, ok)
			require.Equal(t, key, again)
			parent, local := domain.Cut(n, key)
			require.Equal(t, key, parent.Child(n.Collection, local))
			for _, name := range names {
				require.NotContains(t, name, "/")
				require.NotContains(t, []string{"", ".", ".."}, name)
			}
		}
		if scope := domain.ScopeOf(key); scope != "" {
			require.True(t, key == scope || key.Under(scope), "%q of %q", scope, key)
		}
		_ = domain.OwnerNoun(key)
	})
}

// FuzzNames: a name that is taken is a segment of a path, and of a label.
func FuzzNames(f *testing.F) {
	for _, seed := range []string{"", "a", "A.b-c_d", "..", ".", "a/b", "a b", "-a", "a-", "é", "a\n", strings.Repeat("a", 200)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		var p fail.Problems
		domain.CheckName(&p, "metadata.name", name)
		if p.Err() != nil {
			return
		}
		require.NotEmpty(t, name)
		require.LessOrEqual(t, len(name), domain.MaxName)
		require.False(t, strings.ContainsAny(name, "/?#%\\ \t\r\n\x00"), "%q", name)
		require.NotContains(t, []string{".", ".."}, name)
	})
}
