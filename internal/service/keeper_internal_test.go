package service

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWhatIsReadNowStays, however large it is: those who ask meanwhile share it. After that it goes by its size, or its time.
func TestWhatIsReadNowStays(t *testing.T) {
	now := time.Now()
	tables := &Tables{keeper: newKeeper(func() time.Time { return now })}
	const group = "projects/p/composite-apps/a/v1/deployment-intent-groups/g"
	extent := func(app string) tablesExtent { return tablesExtent{apps: app} }

	large := tables.kept(group, extent("large"))
	tables.keeper.put(large, keptBytes+1)
	require.Same(t, large, tables.kept(group, extent("large")))
	tables.keeper.release(large)
	require.Same(t, large, tables.keeper.kept[large.key], "one reads on")
	tables.keeper.release(large)
	require.NotContains(t, tables.keeper.kept, large.key)

	small := tables.kept(group, extent("small"))
	tables.keeper.release(small)
	require.Same(t, small, tables.kept(group, extent("small")))
	now = now.Add(keptTime + time.Second)
	tables.keeper.later()
	require.Same(t, small, tables.keeper.kept[small.key], "somebody reads it")
	tables.keeper.release(small)
	now = now.Add(keptTime + time.Second)
	tables.keeper.later()
	require.Empty(t, tables.keeper.kept)
}
