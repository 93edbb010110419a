package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPaceIsBounded: what Temporal takes of a run, 10,000 signals, is enough for all apps that tell one parent something all day long.
func TestPaceIsBounded(t *testing.T) {
	told := func(p *pace, long time.Duration) (n int, longest time.Duration) {
		for at := time.Duration(0); at < long; n++ {
			wait, ok := p.wait(at, 0)
			if !ok {
				break
			}
			at, longest = at+wait, max(longest, wait)
		}
		return n, longest
	}
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
	n, longest := told(&pace{most: longestReport}, day)
	require.Equal(t, longestReport, longest)
	require.Less(t, n, 10_000)
	n, _ = told(&pace{due: -12 * time.Hour}, 12*time.Hour) // as a run of before has told
	require.Greater(t, n, mostReports, "a run of before goes on as it did")
	n, _ = told(&pace{}, time.Minute)
	require.Greater(t, n, 55, "in the first minute it is once a second")
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

func TestABatchIsNotStillWhileItWaits(t *testing.T) {
	for at := time.Duration(0); at < 24*time.Hour; at += time.Second {
		p := &pace{most: longestReport, due: at} // of a batch as old as its app that has told something all the time
		wait, _ := p.wait(at, 0)
		require.Less(t, wait, stillAfter(at), at)
		wait, _ = p.wait(at, 0)
		require.Less(t, wait, stillAfter(at), at)
	}
}
