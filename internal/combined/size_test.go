package combined_test

import (
	"encoding/json"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/combine"
	"github.com/drover-io/drover/internal/combined"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lru/lrutest"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/view"
)

// sized is a group whose sets are measured: some objects on some clusters, each of which reports the same of all.
type sized struct {
	clusters, objects int
	collectors        string                   // by name, in JSON; states of objects where it is empty
	reports           func(cluster int) string // the members of an object beside metadata; "" for nothing
	together          bool
	silent            bool
}

func (s sized) set(t testing.TB) (*combined.Set, *view.Source) {
	t.Helper()
	var resources []plan.Resource
	for i := range s.objects {
		resources = append(resources, resource("apps", "Deployment", fmt.Sprintf("web%04d", i), `"spec":{"replicas":3}`))
	}
	g := group(resources...)
	a := &g.Plan.Apps[0]
	a.Targets = nil
	for c := range s.clusters {
		a.Targets = append(a.Targets, plan.Target{ClusterName: cluster(fmt.Sprintf("c%05d", c))})
	}
	var collectors map[string]combined.Collector
	if intent := &g.Intents[0].Spec; s.collectors != "" {
		var specs map[string]*domain.StatusCollectorSpec
		require.NoError(t, json.Unmarshal([]byte(s.collectors), &specs))
		collectors = map[string]combined.Collector{}
		intent.StatusCollectors, intent.Together = nil, s.together
		for name, spec := range specs {
			program, err := combine.Compile(name, spec)
			require.NoError(t, err)
			collectors[name] = combined.Collector{Name: name, Program: program}
			intent.StatusCollectors = append(intent.StatusCollectors, name)
		}
	}
	set, err := combined.NewSet(t.Context(), g, combined.Filter{}, collectors)
	require.NoError(t, err)
	source := source(g, strings.Repeat("A", s.objects), nil)
	source.Observations = func(string, []domain.ClusterName) iter.Seq2[*view.Observation, error] {
		return func(yield func(*view.Observation, error) bool) {
			for c, target := range a.Targets {
				o := &view.Observation{ClusterName: target.ClusterName, Seen: true, Connected: !s.silent, Kinds: []schema.GroupKind{{Group: "apps", Kind: "Deployment"}}}
				members := s.reports(c)
				for i := range s.objects {
					if members != "" {
						o.Resources = append(o.Resources, view.ObservedResource{
							ResourceID: plan.ResourceID{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "default", Name: fmt.Sprintf("web%04d", i)},
							Stored:     stored, Sum: uint64(c + 1),
						})
					}
				}
				o.Object = func(i int) (json.RawMessage, error) {
					return json.RawMessage(fmt.Sprintf(`{"metadata":{"name":"web%04d","generation":1},%s}`, i, members)), nil
				}
				if !yield(o, nil) {
					return
				}
			}
		}
	}
	return set, source
}

// TestSizeIsWhatIsHeld: what a set says that it takes is between half and twice of what it does.
func TestSizeIsWhatIsHeld(t *testing.T) {
	number := func(c int) string { return fmt.Sprintf(`"status":{"n":%d}`, c) }
	text := func(bytes int) func(int) string {
		return func(c int) string {
			return fmt.Sprintf(`"status":{"n":%d,"t":%q}`, c, fmt.Sprint(c, strings.Repeat("x", bytes)))
		}
	}
	for name, s := range map[string]sized{
		"a count":             {clusters: 5000, objects: 1, reports: number, collectors: `{"a":{"combinedFields":[{"name":"n","type":"COUNT"}]}}`},
		"a select":            {clusters: 5000, objects: 1, reports: number, collectors: `{"a":{"select":[{"name":"w","def":"inventory.name"},{"name":"n","def":"returned.status.n"}]}}`},
		"long cells":          {clusters: 500, objects: 1, reports: text(8 << 10), collectors: `{"a":{"select":[{"name":"t","def":"returned.status.t"}]}}`},
		"objects":             {clusters: 2000, objects: 1, reports: text(500), collectors: `{"a":{"select":[{"name":"s","def":"returned.status"}]}}`},
		"parts of long texts": {clusters: 200, objects: 1, reports: func(c int) string { return fmt.Sprintf(`"status":{"t":"%d,%s"}`, c, strings.Repeat("x", 30<<10)) }, collectors: `{"a":{"select":[{"name":"t","def":"returned.status.t.split(',')[0]"}]},"b":{"filter":"false","select":[{"name":"t","def":"returned.status.t"}]}}`},
		"a group a cluster":   {clusters: 5000, objects: 1, reports: number, collectors: `{"a":{"groupBy":[{"name":"w","def":"inventory.name"}],"combinedFields":[{"name":"s","type":"SUM","subject":"returned.status.n"},{"name":"x","type":"MAX","subject":"returned.status.n"}]}}`},
		"aggregates":          {clusters: 5000, objects: 1, reports: number, collectors: `{"a":{"combinedFields":[{"name":"s","type":"SUM","subject":"returned.status.n"},{"name":"x","type":"MAX","subject":"returned.status.n"},{"name":"m","type":"MIN","subject":"returned.status.n"},{"name":"a","type":"AVG","subject":"returned.status.n"}]}}`},
		"what is left out":    {clusters: 3000, objects: 1, reports: text(200), collectors: `{"a":{"combinedFields":[{"name":"s","type":"SUM","subject":"returned.status.t"}]}}`},
		"large numbers":       {clusters: 3000, objects: 1, reports: func(c int) string { return fmt.Sprintf(`"status":{"n":%s%d}`, strings.Repeat("7", 300), c) }, collectors: `{"a":{"select":[{"name":"n","def":"returned.status.n"}]}}`},
		"errors":              {clusters: 3000, objects: 1, reports: number, collectors: `{"a":{"select":[{"name":"n","def":"returned.status.n + 'x'"}]}}`},
		"silent clusters":     {clusters: 5000, objects: 1, silent: true, reports: func(int) string { return "" }, collectors: `{"a":{"combinedFields":[{"name":"n","type":"COUNT"}]}}`},
		"a filter":            {clusters: 5000, objects: 1, reports: number, collectors: `{"a":{"filter":"returned.status.n < 0","select":[{"name":"w","def":"inventory.name"}]}}`},
		"ten collectors": {clusters: 1000, objects: 1, reports: number, collectors: func() string {
			var all []string
			for i := range 10 {
				all = append(all, fmt.Sprintf(`"c%d":{"select":[{"name":"w","def":"inventory.name"}]}`, i))
			}
			return "{" + strings.Join(all, ",") + "}"
		}()},
		"together": {clusters: 100, objects: 50, together: true, reports: number, collectors: `{"a":{"select":[{"name":"w","def":"inventory.name"},{"name":"n","def":"returned.status.n"}]}}`},
		"states": {clusters: 1000, objects: 1, reports: func(c int) string {
			return fmt.Sprintf(`"spec":{"replicas":3,"template":{"spec":{"containers":[{"name":"a","image":"b"}]}}},"status":{"replicas":%d,"conditions":[{"type":"Available","status":"True","message":"Deployment has minimum availability."}]}`, c)
		}},
		"large states":   {clusters: 100, objects: 1, reports: text(100 << 10)},
		"small states":   {clusters: 3000, objects: 1, reports: func(int) string { return `"spec":{}` }},
		"states of many": {clusters: 50, objects: 100, reports: number},
		"many members": {clusters: 100, objects: 1, reports: func(int) string {
			var all []string
			for i := range 1000 {
				all = append(all, fmt.Sprintf(`"m%d":{"a":[1,2,"x"]}`, i))
			}
			return `"status":{` + strings.Join(all, ",") + `}`
		}},
	} {
		t.Run(name, func(t *testing.T) {
			empty, source := s.set(t)
			base := empty.Size()
			set, held := lrutest.HeapOf(func() *combined.Set {
				require.NoError(t, empty.Evaluate(t.Context(), source))
				return empty
			})
			counted := set.Size() - base
			t.Logf("holds %d, counts %d: %.2f", held, counted, float64(counted)/float64(held))
			require.Greater(t, 2*counted, held)
			require.Less(t, counted, 2*held)
			runtime.KeepAlive(source)
		})
	}
}

// TestTablesOfAnAnswerShareABound: where each of them is small enough, and all together are not, the largest are given up, and the others stay.
func TestTablesOfAnAnswerShareABound(t *testing.T) {
	combined.SetMostHeld(t, 4<<20)
	s := sized{clusters: 200, objects: 1, collectors: `{
		"count":{"combinedFields":[{"name":"n","type":"COUNT"}]},
		"large":{"select":[{"name":"t","def":"returned.status.t"}],"limit":1},
		"larger":{"select":[{"name":"t","def":"returned.status.t"},{"name":"u","def":"returned.status.t + '.'"}],"limit":1}
	}`, reports: func(c int) string { return fmt.Sprintf(`"status":{"t":"%d%s"}`, c, strings.Repeat("x", 8<<10)) }}
	set, source := s.set(t)
	require.NoError(t, set.Evaluate(t.Context(), source))
	require.True(t, set.GivenUp())
	results := func() []*combine.Result { return set.CombinedStatuses().Items[0].Results }
	given := func() {
		t.Helper()
		require.Equal(t, "200", *results()[0].Rows[0].Columns[0].Float)
		require.Equal(t, 200, results()[1].TotalRows)
		require.Empty(t, results()[2].Rows)
		require.Len(t, results()[2].Errors, 1)
		require.Contains(t, results()[2].Errors[0], "with it the tables of the answer take more than 256 MiB")
		counted, held := combined.Held(set)
		require.Equal(t, held, counted)
		require.Less(t, held, int64(4<<20))
	}
	given()

	set.Retry() // one that there was room for does not go for one that there was none for
	_, err := set.CatchUp(t.Context(), source)
	require.NoError(t, err)
	given()

	s.collectors = `{"larger":{"select":[{"name":"t","def":"returned.status.t"},{"name":"u","def":"returned.status.t + '.'"}]}}`
	alone, source := s.set(t)
	require.NoError(t, alone.Evaluate(t.Context(), source))
	require.Empty(t, alone.CombinedStatuses().Items[0].Results[0].Errors)
}

// TestATableThatFitsComesBack: that another one is too large still does not keep one that was given up for something else, or that there is room for.
func TestATableThatFitsComesBack(t *testing.T) {
	long := func(c int) string { return fmt.Sprintf(`"status":{"t":"%d%s"}`, c, strings.Repeat("x", 8<<10)) }
	for name, c := range map[string]struct {
		held       int64
		collectors string
		slow       []string // given up for their time
		errors     map[string]string
	}{
		"beside one that never fits": {4 << 20, `{
			"huge":{"select":[{"name":"t","def":"returned.status.t"},{"name":"u","def":"returned.status.t + '.'"},{"name":"v","def":"returned.status.t + '!'"}],"limit":1},
			"small":{"combinedFields":[{"name":"n","type":"COUNT"}]}
		}`, []string{"small"}, map[string]string{"huge": "with it the tables"}},
		"of four that are as large": {6 << 20, `{
			"a":{"select":[{"name":"t","def":"returned.status.t"}],"limit":1},
			"b":{"select":[{"name":"t","def":"returned.status.t + '.'"}],"limit":1},
			"c":{"select":[{"name":"t","def":"returned.status.t + '..'"}],"limit":1},
			"d":{"select":[{"name":"t","def":"returned.status.t + '...'"}],"limit":1}
		}`, nil, map[string]string{"d": "with it the tables"}},
	} {
		t.Run(name, func(t *testing.T) {
			combined.SetMostHeld(t, c.held)
			set, source := sized{clusters: 200, objects: 1, collectors: c.collectors, reports: long}.set(t)
			require.NoError(t, set.Evaluate(t.Context(), source))
			combined.GiveUp(set, "its expressions have taken longer than 10s", c.slow...)
			for range 3 {
				set.Retry()
				_, err := set.CatchUp(t.Context(), source)
				require.NoError(t, err)
				require.False(t, set.Behind())
			}
			for _, r := range set.CombinedStatuses().Items[0].Results {
				if why := c.errors[r.Name]; why != "" {
					require.Len(t, r.Errors, 1, r.Name)
					require.Contains(t, r.Errors[0], why)
				} else {
					require.Empty(t, r.Errors, r.Name)
				}
			}
			counted, held := combined.Held(set)
			require.Equal(t, held, counted)
			require.LessOrEqual(t, held, c.held)
		})
	}
}

// TestATableIsTriedAgainWhenThereIsRoom: clusters may report less than when it was given up.
func TestATableIsTriedAgainWhenThereIsRoom(t *testing.T) {
	combined.SetMostHeld(t, 4<<20)
	bytes := 16 << 10
	set, source := sized{clusters: 200, objects: 1, collectors: `{
		"large":{"select":[{"name":"t","def":"returned.status.t"},{"name":"u","def":"returned.status.t + '.'"}],"limit":1}
	}`, reports: func(c int) string { return fmt.Sprintf(`"status":{"t":"%d%s"}`, c, strings.Repeat("x", bytes)) }}.set(t)
	require.NoError(t, set.Evaluate(t.Context(), source))
	require.True(t, set.GivenUp())
	bytes = 100
	for range 3 {
		set.Retry()
		_, err := set.CatchUp(t.Context(), source)
		require.NoError(t, err)
	}
	require.False(t, set.GivenUp())
}

// TestWhatIsLeftIsCounted: tables that are tried again have every row before them, and no more of them are than there is room for.
func TestWhatIsLeftIsCounted(t *testing.T) {
	var all, names []string
	for i := range 40 {
		names = append(names, fmt.Sprintf("c%d", i))
		all = append(all, fmt.Sprintf(`"c%d":{"select":[{"name":"w","def":"inventory.name"}]}`, i))
	}
	s := sized{clusters: 1000, objects: 5, collectors: "{" + strings.Join(all, ",") + "}", reports: func(c int) string { return fmt.Sprintf(`"status":{"n":%d}`, c) }}
	given := func() *combined.Set {
		set, source := s.set(t)
		require.NoError(t, set.Evaluate(t.Context(), source))
		combined.GiveUp(set, "its expressions have taken longer than 10s", names...)
		return set
	}
	set := given()
	before := set.Size()
	_, held := lrutest.HeapOf(func() *combined.Set { set.Retry(); return set })
	counted := set.Size() - before
	t.Logf("holds %d, counts %d", held, counted)
	require.Greater(t, 2*counted, held)
	require.Less(t, counted, 2*held)

	const most = 8 << 20
	set = given()
	combined.SetMostHeld(t, most)
	set.Retry()
	require.True(t, set.Behind())
	counted, _ = combined.Held(set)
	require.Less(t, counted, int64(most))
}

// TestManifestsAreCounted: they are in memory as long as the set is, with what intents have made of them, and are large in no table. Those of which nothing is
// wanted are not.
func TestManifestsAreCounted(t *testing.T) {
	large := fmt.Sprintf(`"spec":{"text":%q}`, strings.Repeat("x", 300<<10))
	g := group(resource("example.com", "Widget", "a", large), resource("example.com", "Widget", "b", large), resource("example.com", "Widget", "c", large), resource("apps", "Deployment", "web", `"spec":{}`))
	combined.SetMostHeld(t, 800<<10)
	for name, collectors := range map[string]map[string]combined.Collector{"tables": broken, "objects": nil} {
		_, err := combined.NewSet(t.Context(), g, combined.Filter{}, collectors)
		require.True(t, fail.Is(err, fail.Invalid), "%s: %v", name, err)
		require.ErrorContains(t, err, "ask for fewer objects", name)
		set, err := combined.NewSet(t.Context(), g, combined.Filter{Resources: []string{"a", "b"}}, collectors)
		require.NoError(t, err, name)
		counted, held := combined.Held(set)
		require.Equal(t, held, counted, name)
		require.Greater(t, held, int64(600<<10), name)
	}
	g.Intents[0].Spec.Kinds = []string{"Deployment"}
	set, err := combined.NewSet(t.Context(), g, combined.Filter{}, broken)
	require.NoError(t, err)
	_, held := combined.Held(set)
	require.Less(t, held, int64(10<<10))

	g = group(resource("example.com", "Widget", "a", `"spec":{}`))
	r := resource("example.com", "Widget", "a", large)
	g.Overlays = map[string][]*plan.Overlay{"web": {{Resources: []plan.Overlaid{{Index: 0, Resource: r}}}}}
	set, err = combined.NewSet(t.Context(), g, combined.Filter{}, broken)
	require.NoError(t, err)
	_, held = combined.Held(set)
	require.Greater(t, held, int64(300<<10))
}

// TestAnAnswerThatIsTooLargeIsRefused: that of many objects, whose statuses or inputs are too much without any table.
func TestAnAnswerThatIsTooLargeIsRefused(t *testing.T) {
	combined.SetMostHeld(t, 1<<20)
	for name, s := range map[string]sized{
		"statuses": {clusters: 100, objects: 3, reports: func(c int) string { return fmt.Sprintf(`"status":{"t":%q}`, fmt.Sprint(c, strings.Repeat("x", 8<<10))) }},
		"inputs":   {clusters: 1000, objects: 8, silent: true, reports: func(int) string { return "" }, collectors: `{"a":{"combinedFields":[{"name":"n","type":"COUNT"}]}}`},
	} {
		set, source := s.set(t)
		err := set.Evaluate(t.Context(), source)
		require.True(t, fail.Is(err, fail.Invalid), "%s: %v", name, err)
		require.ErrorContains(t, err, "ask for fewer objects")
		require.False(t, set.Whole())
		_, held := combined.Held(set)
		require.Less(t, held, int64(1<<20+1<<18), "it goes no further")
	}
	combined.SetMostHeld(t, 1<<10)
	_, err := combined.NewSet(t.Context(), group(resource("apps", "Deployment", "a", `"spec":{}`), resource("apps", "Deployment", "b", `"spec":{}`)), combined.Filter{}, broken)
	require.True(t, fail.Is(err, fail.Invalid), "it has as many tables: %v", err)
}

// BenchmarkEvaluate takes a thousand rows into five tables.
func BenchmarkEvaluate(b *testing.B) {
	var all []string
	for i := range 5 {
		all = append(all, fmt.Sprintf(`"c%d":{"select":[{"name":"w","def":"inventory.name"},{"name":"n","def":"returned.status.n"}]}`, i))
	}
	n := 0
	s := sized{clusters: 1000, objects: 1, reports: func(int) string { n++; return fmt.Sprintf(`"status":{"n":%d}`, n) }, collectors: "{" + strings.Join(all, ",") + "}"}
	for b.Loop() {
		set, source := s.set(b)
		require.NoError(b, set.Evaluate(b.Context(), source))
	}
}
