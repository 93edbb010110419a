package combined_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/combine"
	"github.com/drover-io/drover/internal/combined"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/view"
)

// fleet is a group on many clusters that say something new from time to time.
type fleet struct {
	group      *combined.Group
	collectors map[string]combined.Collector
	clusters   []domain.ClusterName
	reports    map[domain.ClusterName]*view.Observation
	said       uint64
}

// followed are the collectors of a fleet: a select, two that aggregate, and one over all objects of the app.
var followed = map[string]*domain.StatusCollectorSpec{
	"list": {Select: []domain.NamedExpression{{Name: "wec", Def: "inventory.name"}, {Name: "n", Def: "returned.status.n"}}},
	"sums": {
		GroupBy:        []domain.NamedExpression{{Name: "ready", Def: "propagation.reported"}},
		CombinedFields: []domain.NamedAggregator{{Name: "count", Type: domain.AggregatorCount}, {Name: "sum", Type: domain.AggregatorSum, Subject: "returned.status.n"}},
	},
	"some": {Filter: "returned.status.n > 3", Select: []domain.NamedExpression{{Name: "wec", Def: "inventory.id"}}},
}

func newFleet(t *testing.T, clusters int, specs map[string]*domain.StatusCollectorSpec) *fleet {
	t.Helper()
	f := &fleet{
		group:      group(resource("apps", "Deployment", "web", `"spec":{}`), resource("apps", "Deployment", "db", `"spec":{}`)),
		collectors: map[string]combined.Collector{}, reports: map[domain.ClusterName]*view.Observation{},
	}
	a := &f.group.Plan.Apps[0]
	a.Targets = nil
	for i := range clusters {
		c := cluster(fmt.Sprintf("c%03d", i))
		f.clusters = append(f.clusters, c)
		a.Targets = append(a.Targets, plan.Target{ClusterName: c})
	}
	intent := &f.group.Intents[0].Spec
	intent.StatusCollectors, intent.Together = nil, true
	for name, spec := range specs {
		program, err := combine.Compile(name, spec)
		require.NoError(t, err)
		f.collectors[name] = combined.Collector{Name: name, Program: program}
		intent.StatusCollectors = append(intent.StatusCollectors, name)
	}
	return f
}

// says has a cluster report both Deployments; nil objects are those that it does not have.
func (f *fleet) says(c domain.ClusterName, numbers ...any) {
	o := &view.Observation{ClusterName: c, Seen: true, Connected: true, Kinds: []schema.GroupKind{{Group: "apps", Kind: "Deployment"}}}
	for i, name := range []string{"db", "web"}[:len(numbers)] {
		if numbers[i] == nil {
			continue
		}
		f.said++
		o.Resources = append(o.Resources, view.ObservedResource{
			ResourceID: plan.ResourceID{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "default", Name: name}, Stored: stored, Sum: f.said,
		})
	}
	o.Object = func(i int) (json.RawMessage, error) {
		number, err := json.Marshal(slices.DeleteFunc(slices.Clone(numbers), func(n any) bool { return n == nil })[i])
		return json.RawMessage(fmt.Sprintf(`{"metadata":{"name":%q},"status":{"n":%s}}`, o.Resources[i].Name, number)), err
	}
	f.reports[c] = o
}

func (f *fleet) source() *view.Source {
	s := source(f.group, "2A", nil)
	s.Observations = func(_ string, wanted []domain.ClusterName) iter.Seq2[*view.Observation, error] {
		return func(yield func(*view.Observation, error) bool) {
			for _, c := range f.clusters {
				if o := f.reports[c]; o != nil && (wanted == nil || slices.Contains(wanted, c)) && !yield(o, nil) {
					return
				}
			}
		}
	}
	return s
}

func (f *fleet) set(t *testing.T) *combined.Set {
	t.Helper()
	s, err := combined.NewSet(t.Context(), f.group, combined.Filter{}, f.collectors)
	require.NoError(t, err)
	return s
}

// dying is a context that ends after somebody has looked at it so often.
type dying struct {
	context.Context
	looks int
}

func (d *dying) Err() error {
	if d.looks--; d.looks < 0 {
		return context.Canceled
	}
	return nil
}

func shown(t *testing.T, s *combined.Set) string {
	t.Helper()
	data, err := json.MarshalIndent(s.CombinedStatuses(), "", " ")
	require.NoError(t, err)
	return string(data)
}

// TestFollowedIsWhole: whatever is reported, in whatever portions it is taken and whenever whoever takes it goes away, documents
// are byte for byte those that are evaluated as a whole. As long as a table has rows left it has an error and no number.
func TestFollowedIsWhole(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 33))
		combined.SetFirstSlice(t, []time.Duration{0, time.Nanosecond, time.Hour}[r.IntN(3)])
		f := newFleet(t, 12, followed)
		set := f.set(t)
		for range 12 {
			var changed []domain.ClusterName
			for range r.IntN(4) {
				c := f.clusters[r.IntN(len(f.clusters))]
				changed = append(changed, c)
				if r.IntN(5) == 0 {
					delete(f.reports, c)
				} else {
					f.says(c, []any{nil, r.IntN(9), "none"}[r.IntN(3)], r.IntN(9))
				}
			}
			if r.IntN(3) == 0 {
				changed = nil
			} else if changed == nil {
				continue
			}
			ctx := t.Context()
			if r.IntN(3) == 0 {
				ctx = &dying{t.Context(), r.IntN(30)}
			}
			if r.IntN(8) == 0 {
				set.Retry()
			}
			_, err := set.Follow(ctx, f.source(), changed)
			require.Equal(t, err == nil, set.Whole())
			counted, held := combined.Held(set)
			require.Equal(t, held, counted)
			if err == nil && r.IntN(2) == 0 {
				_, err = set.CatchUp(ctx, f.source())
				require.True(t, err != nil || !set.Behind())
			}
			for _, i := range set.CombinedStatuses().Items {
				for _, result := range i.Results {
					if slices.Contains(result.Errors, combined.Unfinished) {
						require.True(t, set.Behind())
						require.Empty(t, result.Rows)
					}
				}
			}
			if r.IntN(3) > 0 {
				continue
			}
			_, err = set.Follow(t.Context(), f.source(), []domain.ClusterName{})
			require.NoError(t, err)
			_, err = set.CatchUp(t.Context(), f.source())
			require.NoError(t, err)
			require.False(t, set.Behind())
			whole := f.set(t)
			require.NoError(t, whole.Evaluate(t.Context(), f.source()))
			require.Equal(t, shown(t, whole), shown(t, set), "seed %d", seed)
		}
	}
}

// TestSlowTablesKeepNoOthers: a look that ends early leaves the tables that take long without rows, and the others as they are; later
// looks go on with them.
func TestSlowTablesKeepNoOthers(t *testing.T) {
	combined.SetFirstSlice(t, time.Nanosecond) // all take longer, and leave what comes after the first row
	slow := "[1,2,3,4,5,6,7,8,9,10].map(a, [1,2,3,4,5,6,7,8,9,10].filter(b, a * b > 3).size()).size()"
	f := newFleet(t, 20, map[string]*domain.StatusCollectorSpec{
		"quick": {CombinedFields: []domain.NamedAggregator{{Name: "count", Type: domain.AggregatorCount}}},
		"slow1": {Select: []domain.NamedExpression{{Name: "a", Def: slow}}},
		"slow2": {Select: []domain.NamedExpression{{Name: "a", Def: slow}}},
	})
	for _, c := range f.clusters {
		f.says(c, 1, 1)
	}
	set := f.set(t)
	_, err := set.Follow(t.Context(), f.source(), nil)
	require.NoError(t, err)
	require.True(t, set.Behind())
	// Each look has time for two passes. What takes least is there first.
	results := func() []*combine.Result { return set.CombinedStatuses().Items[0].Results }
	looks, quickAlone := 0, false
	for ; set.Behind(); looks++ {
		if _, err = set.CatchUp(&dying{t.Context(), 100}, f.source()); err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
		if quick := results()[0]; quick.Errors == nil {
			require.Equal(t, "20", *quick.Rows[0].Columns[0].Float)
			quickAlone = quickAlone || results()[1].Errors != nil
		}
		for _, r := range results()[1:] {
			if r.Errors != nil {
				require.Equal(t, []string{combined.Unfinished}, r.Errors)
				require.Empty(t, r.Rows)
			}
		}
	}
	require.Greater(t, looks, 1)
	require.True(t, quickAlone, "who is quick waits for nobody")
	whole := f.set(t)
	require.NoError(t, whole.Evaluate(t.Context(), f.source()))
	require.Equal(t, shown(t, whole), shown(t, set))
}

// TestWhatIsAskedOnceSaysSo: who asks again would begin anew.
func TestWhatIsAskedOnceSaysSo(t *testing.T) {
	combined.SetFirstSlice(t, time.Nanosecond)
	f := newFleet(t, 5, followed)
	set := f.set(t)
	set.Once()
	_, err := set.Follow(t.Context(), f.source(), nil)
	require.NoError(t, err)
	require.Equal(t, []string{combined.UnfinishedOnce}, set.CombinedStatuses().Items[0].Results[0].Errors)
	_, err = set.CatchUp(t.Context(), f.source())
	require.NoError(t, err)
	require.Empty(t, set.CombinedStatuses().Items[0].Results[0].Errors)
}

// TestATableThatWasGivenUpIsTriedAgain: its errors stay until it has all rows.
func TestATableThatWasGivenUpIsTriedAgain(t *testing.T) {
	var spec domain.StatusCollectorSpec
	for i := range 50 {
		spec.Select = append(spec.Select, domain.NamedExpression{Name: fmt.Sprint("c", i), Def: "returned.status.n"})
	}
	f := newFleet(t, 12, map[string]*domain.StatusCollectorSpec{"wide": &spec})
	f.group.Intents[0].Spec.Together = false
	long := strings.Repeat("x", 60<<10)
	for _, c := range f.clusters { // 50 columns of 60 KiB on 24 rows are more than a table may have
		f.says(c, 1, long)
	}
	for i := range 12 {
		c := cluster(fmt.Sprintf("d%03d", i))
		f.clusters = append(f.clusters, c)
		f.group.Plan.Apps[0].Targets = append(f.group.Plan.Apps[0].Targets, plan.Target{ClusterName: c})
		f.says(c, 1, long)
	}
	set := f.set(t)
	require.NoError(t, set.Evaluate(t.Context(), f.source()))
	errorsOf := func() []string { return set.CombinedStatuses().Items[1].Results[0].Errors }
	require.True(t, set.GivenUp())
	before := errorsOf()
	require.Len(t, before, 1)
	require.Contains(t, before[0], "longer than 64 MiB")
	require.Empty(t, set.CombinedStatuses().Items[0].Results[0].Errors, "that of the other object is there")

	set.Retry()
	require.True(t, set.Behind())
	require.Equal(t, before, errorsOf())
	_, err := set.CatchUp(t.Context(), f.source())
	require.NoError(t, err)
	require.Equal(t, before, errorsOf())
	require.True(t, set.GivenUp())

	for _, c := range f.clusters {
		f.says(c, 1, 2)
	}
	_, err = set.Follow(t.Context(), f.source(), nil)
	require.NoError(t, err)
	require.Equal(t, before, errorsOf(), "nobody has tried again")
	set.Retry()
	_, err = set.CatchUp(t.Context(), f.source())
	require.NoError(t, err)
	require.Empty(t, errorsOf())
	require.False(t, set.GivenUp())
	whole := f.set(t)
	require.NoError(t, whole.Evaluate(t.Context(), f.source()))
	require.Equal(t, shown(t, whole), shown(t, set))
}
