package workflows

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/plan"
)

// told is how often somebody tells its parent something who always has something to tell for so long, and the longest wait before.
func told(p *pace, long time.Duration) (n int, longest time.Duration) {
	for at := time.Duration(0); at < long; n++ {
		wait, ok := p.wait(at, 0)
		if !ok {
			break
		}
		at, longest = at+wait, max(longest, wait)
	}
	return n, longest
}

// TestPaceIsBounded: what Temporal takes of a run, 10,000 signals, is enough for all apps that tell one parent something all day long.
func TestPaceIsBounded(t *testing.T) {
	const day = 24 * time.Hour
	for _, apps := range []int{1, 10, 50, 200, 1000} {
		n, _ := told(&pace{beside: apps}, 7*day)
		require.LessOrEqual(t, 2*n*apps, 10_000, "%d apps, in two rounds", apps)
		require.GreaterOrEqual(t, n, 5, "%d apps", apps)
		if apps <= 50 {
			n, _ = told(&pace{beside: apps}, day)
			require.Less(t, n*apps, mostReports, "%d apps have something to tell at the end of a day", apps)
		}
	}
	n, longest := told(&pace{batch: true}, day) // of before
	require.Equal(t, longestReport, longest)
	require.Less(t, n, 10_000)
	n, _ = told(&pace{due: -12 * time.Hour}, 12*time.Hour) // as a run of before has told
	require.Greater(t, n, mostReports, "a run of before goes on as it did")
	n, _ = told(&pace{}, time.Minute)
	require.Greater(t, n, 55, "in the first minute it is once a second")
}

// TestAllSignalsOfAnOperationAreBounded: what Temporal takes of a run is enough for all apps that tell it something all week long in each of its rounds,
// and for what is told of apps that others need to be Ready.
func TestAllSignalsOfAnOperationAreBounded(t *testing.T) {
	const week = 7 * 24 * time.Hour
	prepared := func(apps, leaving, clusters int, label string, ready bool) activities.Prepared {
		p := activities.Prepared{Label: label}
		for i := range apps + leaving {
			app := activities.PreparedApp{Name: strconv.Itoa(i), Clusters: clusters}
			if ready {
				app.Needs = []plan.Dependency{{App: strconv.Itoa((i + 1) % (apps + leaving)), Ready: true}}
			}
			if label != "" {
				app.Work = &activities.Work{Apply: clusters, Prune: clusters}
			}
			if i >= apps {
				app.Work.Apply = 0
			}
			p.Apps = append(p.Apps, app)
		}
		return p
	}
	signals := func(p activities.Prepared) (all, each int) {
		o := &operation{}
		o.expect(p)
		rounds := []round{applying(p)}
		if p.Label != "" {
			rounds = append(rounds, pruning(p))
		}
		for _, r := range rounds {
			each, _ = told(&pace{beside: o.appInput(p.Apps[0], r).Beside}, week)
			all += r.children() * each
		}
		return all + activities.MostWords(o.questions()), each
	}
	some := []int{400, limits.Apps}
	for apps := 1; apps < limits.Apps; apps += 1 + apps/20 {
		some = append(some, apps)
	}
	for _, apps := range some {
		for _, ready := range []bool{false, true} {
			for what, p := range map[string]activities.Prepared{
				"an instantiate":                    prepared(apps, 0, 1, "", ready),
				"an update":                         prepared(apps, 0, 1, "1", ready),
				"an update of many clusters":        prepared(apps, 0, 200_000/apps, "1", ready),
				"an update with as many that leave": prepared(apps, apps, 1, "1", ready),
			} {
				all, each := signals(p)
				require.LessOrEqual(t, all, mostSignals, "%s of %d apps, Ready %t", what, apps, ready)
				require.GreaterOrEqual(t, each, 3, "%s of %d apps, Ready %t", what, apps, ready)
				if apps <= 200 && !ready {
					o := &operation{}
					o.expect(p)
					require.Equal(t, len(p.Apps), o.reporting, "%s of %d apps: nothing is other than it was", what, apps)
				}
			}
		}
	}
	o := &operation{in: OperationInput{Scope: domain.Scope{Operation: domain.OpTerminate}}}
	o.expect(prepared(limits.Apps, 0, 400, "1", true))
	require.Equal(t, limits.Apps, o.reporting, "a terminate has one round, also of what was updated")
	_, each := signals(prepared(limits.Apps, 0, 100_000, "1", true)) // more than a group has by default
	require.Equal(t, 1, each)
}

func TestPaceTellsAtOnceWhatComesAfterAWhile(t *testing.T) {
	p := &pace{}
	var at time.Duration
	for at < time.Hour {
		wait, _ := p.wait(at, 0)
		at += wait
	}
	wait, _ := p.wait(at, 0)
	require.Greater(t, wait, 30*time.Second)
	at += 2 * time.Hour
	wait, _ = p.wait(at, 2*time.Hour)
	require.Equal(t, reports.First, wait)
	for range 10 {
		at += wait
		wait, _ = p.wait(at, 0)
		require.Equal(t, reports.Most, wait)
	}
}

// TestWhatBatchesTellIsBounded: an app hears all that its batches tell, however many there are and however long they go on.
func TestWhatBatchesTellIsBounded(t *testing.T) {
	const day, quarter = 24 * time.Hour, 15 * time.Minute
	for _, batches := range []int{2, 10, 25, 44, 80, 400, 800, batchesOf(limits.AppClusters)} {
		n, _ := told(&pace{batch: true, beside: batches}, 7*day)
		require.LessOrEqual(t, (n+1)*batches, 9_000, "%d batches, with the last word of each", batches)
		p := &pace{batch: true, beside: batches}
		n, longest := told(p, quarter)
		require.LessOrEqual(t, longest, rarer(longestReport, batches), "%d batches", batches)
		require.GreaterOrEqual(t, n, 4, "%d batches", batches)
		if batches <= reportingBatches {
			old, _ := told(&pace{batch: true}, quarter)
			require.Equal(t, old, n, "%d batches tell all that few do", batches)
			require.False(t, p.spent(), "%d batches have more to tell after a quarter of an hour", batches)
		}
	}
}

// TestTheHistoryOfAnAppIsBounded: Temporal ends a run at 51,200 events. An app has, each with the three of a task: one for each report of a batch, three
// for each batch that begins and ends, one for each look at batches, and for its own reports a timer's and a signal's.
func TestTheHistoryOfAnAppIsBounded(t *testing.T) {
	const week = 7 * 24 * time.Hour
	for _, batches := range []int{2, 25, 44, 80, 400, 800, batchesOf(limits.AppClusters)} {
		looks := 0
		for at := time.Duration(0); at < week; at += stillAfter(at, batches) {
			looks++
		}
		own, _ := told(&pace{beside: 1}, week)
		require.Less(t, 4*mostOfBatches+12*batches+5*looks+10*own, 51_200, "%d batches, of which one waits for a week", batches)
	}
}

func TestABatchIsNotStillWhileItWaits(t *testing.T) {
	for _, batches := range []int{1, 25, 44, 800} {
		for at := time.Duration(0); at < 24*time.Hour; at += time.Second {
			p := &pace{batch: true, beside: batches, due: at} // of a batch as old as its app that has told something all the time
			wait, _ := p.wait(at, 0)
			require.Less(t, wait, stillAfter(at, batches), "%d batches, %s", batches, at)
			if wait, ok := p.wait(at, 0); ok {
				require.Less(t, wait, stillAfter(at, batches), "%d batches, %s", batches, at)
			}
		}
	}
}
