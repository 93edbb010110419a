package activities

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/plan"
)

func TestTooMany(t *testing.T) {
	targets := map[string][]plan.Target{"a": make([]plan.Target, 3), "b": make([]plan.Target, 2)}
	require.NoError(t, tooMany("g", targets, 0))
	require.NoError(t, tooMany("g", targets, 5))
	err := tooMany("g", targets, 4)
	require.True(t, fail.Is(err, fail.Malformed), "%v", err)
	require.ErrorContains(t, err, "the 2 apps of deployment intent group \"g\" would go to 5 clusters in all, and may go to 4 (--group-targets)")

	targets["b"] = make([]plan.Target, limits.AppClusters)
	require.NoError(t, tooMany("g", targets, 0))
	targets["b"] = make([]plan.Target, limits.AppClusters+1)
	err = tooMany("g", targets, 0)
	require.True(t, fail.Is(err, fail.Malformed), "%v", err)
	require.ErrorContains(t, err, `app "b" of deployment intent group "g" would go to 250001 clusters, and may go to 250000`)
}

// TestTooManyWithOld: an app's workflow goes over the clusters that the app leaves, too, and Temporal ends one of 51,200 events.
func TestTooManyWithOld(t *testing.T) {
	const half = limits.AppClusters / 2
	app := plan.App{Name: "b", Targets: make([]plan.Target, limits.AppClusters)}
	for i := range half {
		app.Targets[i].Leaving = true
	}
	p := &plan.Plan{Owner: "projects/p/composite-apps/c/v1/deployment-intent-groups/g", Apps: []plan.App{{Name: "a"}, app}}
	require.NoError(t, tooManyWithOld(p))
	p.Apps[1].Targets = append(app.Targets, plan.Target{})
	_, err := new(Control).planned(t.Context(), new(draft), p, "1")
	_, foreseen := (&Rehearsal{lifecycle: new(Control)}).warnings(t.Context(), new(draft), p, "1")
	for what, err := range map[string]error{"the operation": err, "diff": foreseen} {
		require.True(t, fail.Is(err, fail.Malformed), "%s: %v", what, err)
		require.ErrorContains(t, err, `app "b" of deployment intent group "g" would have work on 250001 clusters, 125000 of which it leaves, and may have it on 250000`, what)
	}
}

// TestWhatIsPreparedStaysSmall: Temporal takes payloads of 2 MiB, however many apps a group has.
func TestWhatIsPreparedStaysSmall(t *testing.T) {
	t.Parallel()
	p := &plan.Plan{}
	for i := range 1_000 {
		a := plan.App{Name: fmt.Sprint(i, strings.Repeat("a", 120)), Resources: make([]plan.ResourceID, 4)}
		for j := range fewTargets {
			a.Targets = append(a.Targets, plan.Target{ClusterName: domain.ClusterName{
				Provider: strings.Repeat("p", 128), Name: fmt.Sprint(j, strings.Repeat("c", 120)),
			}})
		}
		p.Apps = append(p.Apps, a)
	}
	out := sizes(p, "sha256:0", nil)
	require.NotNil(t, out.Apps[0].Targets)
	require.Nil(t, out.Apps[999].Targets)
	for i := range 5_000 {
		out.Warnings = append(out.Warnings, fmt.Sprint(i))
	}
	out.Warnings = toldOf(out.Warnings)
	require.Equal(t, []string{"14", "there are 4985 more warnings"}, out.Warnings[14:])
	data, err := json.Marshal(out)
	require.NoError(t, err)
	require.Less(t, len(data), 1<<20)
}

// TestTheMarksOfManyClustersStaySmall, also where each has others.
func TestTheMarksOfManyClustersStaySmall(t *testing.T) {
	t.Parallel()
	const resources, clusters = 20_000, 250 // workflows.batchSize
	random := rand.New(rand.NewPCG(1, 2))
	app := &plan.App{Name: "a"}
	for i := range clusters {
		marks := domain.NewMarks(resources, domain.MarkApplied)
		for n := range marks {
			if random.IntN(2) == 0 {
				marks[n] = domain.MarkPending
			}
		}
		app.Targets = append(app.Targets, plan.Target{
			ClusterName: domain.ClusterName{Provider: "p", Name: fmt.Sprint("c", i)}, Inherited: &plan.Inherited{Marks: marks.Encode()},
		})
	}
	was := targets(app, 0, clusters, nil)
	data, err := json.Marshal(was)
	require.NoError(t, err)
	require.Less(t, len(data), 3<<19)
	var is Targets
	require.NoError(t, json.Unmarshal(data, &is))
	require.Equal(t, *was, is)
	var before struct { // as v0.1.0 has them
		Marks []string `json:"marks"`
	}
	require.Error(t, json.Unmarshal(data, &before), "nothing were inherited, and what is there were lost")

	data, err = json.Marshal(targets(app, 0, 2, nil))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &before))
	require.Equal(t, []string{app.Targets[0].Inherited.Marks, app.Targets[1].Inherited.Marks}, before.Marks)
	data, err = json.Marshal(before)
	require.NoError(t, err)
	is = Targets{}
	require.NoError(t, json.Unmarshal(data, &is))
	require.Equal(t, before.Marks, []string(is.Marks))
}

// TestWhatIsGoingFitsAHeartbeat, however many clusters have something that is being deleted.
func TestWhatIsGoingFitsAHeartbeat(t *testing.T) {
	t.Parallel()
	w := remnantsWait{Going: map[string]string{}}
	for i := range 20_000 {
		c := fmt.Sprint(i, strings.Repeat("c", 250))
		w.remember(c, "ConfigMap x on "+c+": it waits for a finalizer")
		w.remember(c, "")
	}
	require.Contains(t, w.Going["7"+strings.Repeat("c", 250)], "finalizer")
	require.Contains(t, w.Going["2000"+strings.Repeat("c", 250)], "something on 2000c")
	data, err := json.Marshal(w)
	require.NoError(t, err)
	require.Greater(t, len(data), 1<<20)
	require.Less(t, len(data), 2<<20)
}

func TestNamesOfTenantsStaySmallInJSON(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(plain("a" + strings.Repeat("\x00<&>\u2028", 50) + "é"))
	require.NoError(t, err)
	require.Len(t, data, 1+250+2+2)
}
