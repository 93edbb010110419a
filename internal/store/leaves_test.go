package store_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

func leafOf(contextID, app string, n int) domain.Leaf {
	return leafOn(contextID, app, fmt.Sprintf("c%04d", n))
}

func leafOn(contextID, app, cluster string) domain.Leaf {
	c := domain.ClusterName{Provider: "p", Name: cluster}
	return domain.Leaf{
		ID: domain.LeafID(contextID, app, c), ContextID: contextID, Operation: domain.OpInstantiate, App: app, Cluster: c,
		Connectivity: domain.ConnectivityAvailable, Marks: "3A1F", Notes: []domain.Note{{Index: 3, Message: "žluť $.\u2028"}},
		LastError: "no", Open: true,
	}
}

// putAll puts leaves at the same time.
func putAll(t testing.TB, s *store.Store, leaves []domain.Leaf) {
	t.Helper()
	var wg sync.WaitGroup
	errs := make([]error, len(leaves))
	for i, leaf := range leaves {
		wg.Go(func() { errs[i] = s.PutLeaf(t.Context(), leaf) })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

func TestLeavesThatEndTogetherAreAllStored(t *testing.T) {
	s, ctx := open(t), t.Context()
	var leaves []domain.Leaf
	for n := range 250 {
		leaves = append(leaves, leafOf("1", "a", n), leafOf("1", "b", n))
	}
	putAll(t, s, leaves)
	slices.SortFunc(leaves, func(a, b domain.Leaf) int { return strings.Compare(a.ID, b.ID) })
	got, err := s.Leaves(ctx, "1")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(leaves, got))

	for i := range leaves {
		leaves[i].Operation, leaves[i].Marks, leaves[i].Notes = domain.OpTerminate, "4D", nil
	}
	putAll(t, s, leaves)
	got, err = s.Leaves(ctx, "1")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(leaves, got))
	one, err := s.Leaf(ctx, leaves[7].ID)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(&leaves[7], one))
}

func TestTheLastWordOfALeaf(t *testing.T) {
	s, ctx := open(t), t.Context()
	record := func(op domain.Operation, marks string) domain.Leaf {
		leaf := leafOf("1", "a", 1)
		leaf.Operation, leaf.Marks = op, marks
		return leaf
	}
	for _, step := range []struct {
		name string
		put  domain.Leaf
		want string
	}{
		{"the first", record(domain.OpInstantiate, "1F"), "1F"},
		{"another try of the operation", record(domain.OpInstantiate, "1A"), "1A"},
		{"a later operation", record(domain.OpTerminate, "1X"), "1X"},
		{"another try of the later one", record(domain.OpTerminate, "1D"), "1D"},
		{"a late one of the first", record(domain.OpInstantiate, "1s"), "1D"},
		{"a late one of an update", record(domain.OpUpdate, "1A"), "1D"},
	} {
		require.NoError(t, s.PutLeaf(ctx, step.put), step.name)
		got, err := s.Leaf(ctx, step.put.ID)
		require.NoError(t, err, step.name)
		require.Equal(t, step.want, got.Marks, step.name)
		all, err := s.Leaves(ctx, "1")
		require.NoError(t, err, step.name)
		require.Empty(t, cmp.Diff([]domain.Leaf{*got}, all), step.name)
		require.Equal(t, map[string]string{step.put.ID: step.want}, marksOf(t, s, "1"), step.name)
		require.Empty(t, cmp.Diff(all, oneAfterTheOther(t, s, "1")), step.name)
	}
}

func marksOf(t *testing.T, s *store.Store, contextID string) map[string]string {
	t.Helper()
	marks, err := s.LeafMarks(t.Context(), contextID)
	require.NoError(t, err)
	return marks
}

func oneAfterTheOther(t *testing.T, s *store.Store, contextID string) (leaves []domain.Leaf) {
	t.Helper()
	require.NoError(t, s.EachLeaf(t.Context(), contextID, func(leaf domain.Leaf) error { leaves = append(leaves, leaf); return nil }))
	return leaves
}

// TestLeavesOneAfterTheOther: they are those that are read together, each once, until who takes them has enough.
func TestLeavesOneAfterTheOther(t *testing.T) {
	s, ctx := open(t), t.Context()
	var leaves []domain.Leaf
	for n := range 250 { // more than one reply
		leaves = append(leaves, leafOf("1", "a", n), leafOf("1", "b", n))
	}
	leaves = append(leaves, leafOn("1", "a-b", "c"), leafOn("1", "a", "c0001-1"), leafOn("10", "a", "c"))
	putAll(t, s, leaves)
	for i := 0; i < len(leaves); i += 3 {
		leaves[i].Operation, leaves[i].Marks = domain.OpTerminate, "4D"
	}
	putAll(t, s, leaves)
	together, err := s.Leaves(ctx, "1")
	require.NoError(t, err)
	require.Len(t, together, 502)
	got, marks := oneAfterTheOther(t, s, "1"), marksOf(t, s, "1")
	require.ElementsMatch(t, together, got)
	require.Len(t, marks, len(together))
	for _, leaf := range together {
		require.Equal(t, leaf.Marks, marks[leaf.ID], leaf.ID)
	}
	require.Empty(t, oneAfterTheOther(t, s, "2"))
	require.Empty(t, marksOf(t, s, "2"))
	enough, taken := errors.New("enough"), 0
	require.ErrorIs(t, s.EachLeaf(ctx, "1", func(domain.Leaf) error { taken++; return enough }), enough)
	require.Equal(t, 1, taken)
}

// TestMarksAreReadWithoutTexts: what clusters say of a leaf may be a thousand times its marks, which is all that the end of an operation goes by.
func TestMarksAreReadWithoutTexts(t *testing.T) {
	const n = 100
	s := open(t)
	var leaves []domain.Leaf
	for i := range n {
		leaf := leafOf("1", "a", i)
		for at := range 200 {
			leaf.Notes = append(leaf.Notes, domain.Note{Index: at, Message: fmt.Sprint(i, at, strings.Repeat("x", 1000))})
		}
		leaves = append(leaves, leaf)
	}
	putAll(t, s, leaves)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	marks := marksOf(t, s, "1")
	runtime.ReadMemStats(&after)
	require.Len(t, marks, n)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(n*20<<10), "a leaf has 200 KiB of notes")
}

// TestLateRecordsOfALeaf take no effect.
func TestLateRecordsOfALeaf(t *testing.T) {
	s, ctx := open(t), t.Context()
	record := func(op domain.Operation, began, rank int64, marks string) domain.Leaf {
		leaf := leafOf("1", "a", 1)
		leaf.Operation, leaf.Marks, leaf.Turn = op, marks, domain.Turn{Began: began, Rank: rank}
		return leaf
	}
	for _, step := range []struct {
		name string
		put  domain.Leaf
		want string // what is there then; the record is refused when that is another
	}{
		{"the first", record(domain.OpInstantiate, 10, 5, "1F"), "1F"},
		{"the same again", record(domain.OpInstantiate, 10, 5, "1F"), "1F"},
		{"an earlier attempt", record(domain.OpInstantiate, 10, 4, "1s"), "1F"},
		{"a later one", record(domain.OpInstantiate, 10, 1<<62, "1A"), "1A"},
		{"an earlier one again", record(domain.OpInstantiate, 10, 5, "1F"), "1A"},
		{"a terminate", record(domain.OpTerminate, 20, 9, "1X"), "1X"},
		{"another one", record(domain.OpTerminate, 30, 1, "1D"), "1D"},
		{"a late attempt of the first", record(domain.OpTerminate, 20, 1<<62, "1X"), "1D"},
	} {
		err := s.PutLeaf(ctx, step.put)
		if step.want == step.put.Marks {
			require.NoError(t, err, step.name)
		} else {
			requireKind(t, err, fail.Conflict)
		}
		got, err := s.Leaf(ctx, step.put.ID)
		require.NoError(t, err, step.name)
		require.Equal(t, step.want, got.Marks, step.name)
	}
}

func TestLeavesOfOneContext(t *testing.T) {
	s, ctx := open(t), t.Context()
	// Neighbours in the order of keys; "c" before "c-1" is not the order of the records' own keys.
	putAll(t, s, []domain.Leaf{
		leafOn("1", "a", "c"), leafOn("1", "a", "c-1"), leafOn("1", "a", "c.1"), leafOn("1", "a-b", "c"), leafOn("1", "a0", "c"),
		leafOn("10", "a", "c"), leafOn("11", "a", "c"), leafOn("2", "a", "c"),
	})
	ids := func(leaves []domain.Leaf, err error) []string {
		require.NoError(t, err)
		require.NotNil(t, leaves)
		found := []string{}
		for _, l := range leaves {
			found = append(found, l.ID)
		}
		return found
	}
	for name, c := range map[string]struct {
		got  []string
		want []string
	}{
		"a context":        {ids(s.Leaves(ctx, "1")), []string{"1/a-b/p+c", "1/a/p+c", "1/a/p+c-1", "1/a/p+c.1", "1/a0/p+c"}},
		"a longer context": {ids(s.Leaves(ctx, "10")), []string{"10/a/p+c"}},
		"no context":       {ids(s.Leaves(ctx, "3")), []string{}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, c.got) })
	}
	_, err := s.Leaf(ctx, "1/a/p+none")
	requireKind(t, err, fail.NotFound)
}

func TestReadersThatMeetSeeWhatWasWritten(t *testing.T) {
	s := open(t)
	var wg sync.WaitGroup
	for reader := range 8 {
		wg.Go(func() {
			for n := range 10 {
				leaf := leafOf("1", fmt.Sprint("app", reader), n)
				if err := s.PutLeaf(t.Context(), leaf); err != nil {
					t.Errorf("put: %v", err)
				}
				leaves, err := s.Leaves(t.Context(), "1")
				if err != nil {
					t.Errorf("read: %v", err)
				}
				if !slices.ContainsFunc(leaves, func(l domain.Leaf) bool { return l.ID == leaf.ID }) {
					t.Errorf("%s was written before the read and is not there", leaf.ID)
				}
			}
		})
	}
	wg.Wait()
}

func TestLeavesThatAreLookedUpTogether(t *testing.T) {
	s := open(t)
	var leaves []domain.Leaf
	for n := range 100 {
		leaves = append(leaves, leafOf(fmt.Sprint(n%3), "a", n))
	}
	putAll(t, s, leaves)
	late := leaves[5]
	late.Operation, late.Marks = domain.OpTerminate, "4D"
	require.NoError(t, s.PutLeaf(t.Context(), late))
	leaves[5] = late

	got, errs := make([]*domain.Leaf, len(leaves)), make([]error, len(leaves))
	missing := make([]error, len(leaves))
	var wg sync.WaitGroup
	for i, leaf := range leaves {
		wg.Go(func() { got[i], errs[i] = s.Leaf(t.Context(), leaf.ID) })
		wg.Go(func() { _, missing[i] = s.Leaf(t.Context(), leaf.ID+"-none") })
	}
	wg.Wait()
	for i := range leaves {
		require.NoError(t, errs[i])
		require.Empty(t, cmp.Diff(&leaves[i], got[i]))
		requireKind(t, missing[i], fail.NotFound)
	}
}

func TestLeavesAreRefused(t *testing.T) {
	t.Run("of an operation that leaves no records", func(t *testing.T) {
		leaf := leafOf("1", "a", 1)
		leaf.Operation = domain.OpApprove
		requireKind(t, open(t).PutLeaf(t.Context(), leaf), fail.Internal)
	})
	t.Run("when the store is closed", func(t *testing.T) {
		s, err := store.Open(storetest.Config(t))
		require.NoError(t, err)
		require.NoError(t, s.PutLeaf(t.Context(), leafOf("1", "a", 1)))
		require.NoError(t, s.Close(t.Context()))
		requireKind(t, s.PutLeaf(t.Context(), leafOf("1", "a", 2)), fail.Unavailable)
	})
}

func BenchmarkPutLeaf(b *testing.B) {
	s := open(b)
	n := 0
	b.Run("alone", func(b *testing.B) {
		for b.Loop() {
			n++
			require.NoError(b, s.PutLeaf(b.Context(), leafOf("1", "a", n)))
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "leaves/s")
	})
	b.Run("64 together", func(b *testing.B) {
		batch := make([]domain.Leaf, 64)
		for b.Loop() {
			for i := range batch {
				n++
				batch[i] = leafOf("2", "a", n)
			}
			putAll(b, s, batch)
		}
		b.ReportMetric(float64(b.N*len(batch))/b.Elapsed().Seconds(), "leaves/s")
	})
	b.Run("64 together, again", func(b *testing.B) {
		batch := make([]domain.Leaf, 64)
		for i := range batch {
			batch[i] = leafOf("3", "a", i)
		}
		for b.Loop() {
			putAll(b, s, batch)
		}
		b.ReportMetric(float64(b.N*len(batch))/b.Elapsed().Seconds(), "leaves/s")
	})
}

func BenchmarkLeaves(b *testing.B) {
	for _, size := range []int{300, 3000} {
		s := open(b)
		for ctx := range 3 { // two contexts that are not asked for
			for n := range size / 300 {
				var leaves []domain.Leaf
				for i := range 300 {
					leaves = append(leaves, leafOf(fmt.Sprint(ctx), "a", n*300+i))
				}
				putAll(b, s, leaves)
			}
		}
		b.Run(fmt.Sprintf("all of %d", size), func(b *testing.B) {
			for b.Loop() {
				leaves, err := s.Leaves(b.Context(), "1")
				require.NoError(b, err)
				require.Len(b, leaves, size)
			}
		})
		b.Run(fmt.Sprintf("all of %d, 20 readers", size), func(b *testing.B) {
			b.SetParallelism(10) // for each of two processors
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := s.Leaves(b.Context(), "1"); err != nil {
						b.Error(err)
					}
				}
			})
		})
		b.Run(fmt.Sprintf("one of %d", size), func(b *testing.B) {
			for b.Loop() {
				_, err := s.Leaf(b.Context(), leafOf("1", "a", 3).ID)
				require.NoError(b, err)
			}
		})
		b.Run(fmt.Sprintf("one of %d, 100 readers", size), func(b *testing.B) {
			b.SetParallelism(50)
			b.RunParallel(func(pb *testing.PB) {
				for n := 0; pb.Next(); n++ {
					if _, err := s.Leaf(b.Context(), leafOf("1", "a", n%size).ID); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
