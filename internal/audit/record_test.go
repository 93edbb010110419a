package audit_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/domain"
)

// TestKeysAreWhole: the longest key that a document can have is in its records as it is.
func TestKeysAreWhole(t *testing.T) {
	for _, n := range domain.Nouns {
		names := map[string]string{}
		for _, level := range n.Lineage() {
			for _, called := range level.Names {
				names[called] = strings.Repeat("n", domain.LongestCalled(called))
			}
		}
		key, ok := n.Key(names)
		require.True(t, ok, n.Kind)
		require.Equal(t, string(key), audit.Record{Key: string(key)}.Bounded().Key, "%s: %d bytes", n.Kind, len(key))
	}
}

// TestWhatIsCutIsNotTakenForAnother: of what is too long for a record, such as a name that no document can have, two have two keys, by which they are found.
func TestWhatIsCutIsNotTakenForAnother(t *testing.T) {
	long := "projects/" + strings.Repeat("n", 4096)
	one, two := audit.Record{Key: long + "1"}.Bounded(), audit.Record{Key: long + "2"}.Bounded()
	require.NotEqual(t, one.Key, two.Key)
	require.True(t, strings.HasPrefix(one.Key, "projects/nnn"), one.Key)
	require.Less(t, len(one.Key), 2048)
	require.Equal(t, one, one.Bounded(), "it is cut once")
	f, err := audit.ParseFilter(url.Values{"resource": {long + "1"}}, "", time.Now())
	require.NoError(t, err)
	require.True(t, f.Matches(&one))
	require.False(t, f.Matches(&two))
}
