package service

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/policy"
)

// TestWhatIsReadNowStays, however large it is: those who ask meanwhile share it. After that it goes by its size, or its time.
func TestWhatIsReadNowStays(t *testing.T) {
	now := time.Now()
	tables := &Tables{keeper: newKeeper(func() time.Time { return now })}
	const group = "projects/p/composite-apps/a/v1/deployment-intent-groups/g"
	extent := func(app string) keptKey { return keptKey{group, tablesExtent{apps: app}} }

	large := tables.kept(extent("large"))
	tables.keeper.put(large, keptBytes+1)
	require.Same(t, large, tables.kept(extent("large")))
	require.EqualValues(t, keptBytes+1, (&tablesLook{kept: large}).Size(), "it counts among what streams take")
	tables.keeper.release(large)
	require.Same(t, large, tables.keeper.kept[large.key], "one reads on")
	tables.keeper.release(large)
	require.NotContains(t, tables.keeper.kept, large.key)

	small := tables.kept(extent("small"))
	tables.keeper.release(small)
	require.Same(t, small, tables.kept(extent("small")))
	now = now.Add(policy.TablesKept + time.Second)
	tables.keeper.later()
	require.Same(t, small, tables.keeper.kept[small.key], "somebody reads it")
	tables.keeper.release(small)
	now = now.Add(policy.TablesKept + time.Second)
	tables.keeper.later()
	require.Empty(t, tables.keeper.kept)
}

// TestWhatIsTooMuchGoesOldestFirst: what nobody reads, and no more of it than is too much.
func TestWhatIsTooMuchGoesOldestFirst(t *testing.T) {
	now := time.Now()
	tables := &Tables{keeper: newKeeper(func() time.Time { return now })}
	names := func() (left []string) {
		for key := range tables.keeper.kept {
			left = append(left, key.extent.apps)
		}
		slices.Sort(left)
		return left
	}
	hold := func(name string, size int64) *kept {
		k := tables.kept(keptKey{"g", tablesExtent{apps: name}})
		tables.keeper.put(k, size)
		now = now.Add(time.Second)
		return k
	}
	a, b, c := hold("a", keptBytes/3), hold("b", keptBytes/3), hold("c", keptBytes/3)
	read := hold("read", 10*keptBytes)
	tables.keeper.release(b)
	now = now.Add(time.Second)
	tables.keeper.release(a)
	now = now.Add(time.Second)
	tables.keeper.release(c)
	require.Equal(t, []string{"a", "b", "c", "read"}, names(), "what somebody reads does not count")
	d := hold("d", keptBytes/3)
	require.Equal(t, []string{"a", "b", "c", "d", "read"}, names(), "nor does what somebody has just begun to read")
	tables.keeper.release(d)
	require.Equal(t, []string{"a", "c", "d", "read"}, names(), "b was asked for before the others")
	e := hold("e", 0)
	tables.keeper.release(e)
	require.Equal(t, []string{"c", "d", "e", "read"}, names(), "what is small counts something too")
	tables.keeper.put(c, keptBytes) // by a look that went on when its reader had gone
	require.Equal(t, []string{"read"}, slices.DeleteFunc(names(), func(name string) bool { return name == "d" || name == "e" }))
	tables.keeper.release(read)
	require.NotContains(t, names(), "read")
	require.NotNil(t, tables.keeper.timer, "else they stay when nobody asks any more")
	now = now.Add(policy.TablesKept + time.Second)
	tables.keeper.later()
	require.Empty(t, names())
	require.Nil(t, tables.keeper.timer)
}

// TestTheKeeperKeepsItsBounds whatever is asked for: what is read stays the same, and of all else no more stays than may.
func TestTheKeeperKeepsItsBounds(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 40))
		now := time.Now()
		tables := &Tables{keeper: newKeeper(func() time.Time { return now })}
		var read []*kept
		for range 500 {
			now = now.Add(time.Duration(r.IntN(5)) * time.Second)
			switch r.IntN(4) {
			case 0, 1:
				k := tables.kept(keptKey{"g", tablesExtent{apps: fmt.Sprint(r.IntN(30))}})
				for _, other := range read {
					require.True(t, other == k || other.key != k.key, "two of the same")
				}
				read = append(read, k)
			case 2:
				if len(read) > 0 {
					tables.keeper.put(read[r.IntN(len(read))], r.Int64N(keptBytes/4))
				}
			default:
				if len(read) > 0 {
					i := r.IntN(len(read))
					tables.keeper.release(read[i])
					read = slices.Delete(read, i, i+1)
				}
			}
			if r.IntN(20) == 0 {
				tables.keeper.later()
			}
			var bytes int64
			for key, k := range tables.keeper.kept {
				require.Equal(t, key, k.key)
				if slices.Contains(read, k) {
					continue
				}
				require.Zero(t, k.pins)
				bytes += k.size
			}
			for _, k := range read {
				require.Same(t, k, tables.keeper.kept[k.key])
			}
			require.LessOrEqual(t, bytes, int64(keptBytes))
		}
		for _, k := range read {
			tables.keeper.release(k)
		}
		now = now.Add(policy.TablesKept + time.Second)
		tables.keeper.later()
		require.Empty(t, tables.keeper.kept)
	}
}
