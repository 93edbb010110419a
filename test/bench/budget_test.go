package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSlownessIsThatOfTheSlowerOne(t *testing.T) {
	require.InDelta(t, 1, reference.slowness(), 0.001)
	slow := reference
	slow.Child *= 3
	require.InDelta(t, 3, slow.slowness(), 0.001)
	slow.ClientGo *= 4
	require.InDelta(t, 4, slow.slowness(), 0.001)
	slow.Fsync *= 100
	require.InDelta(t, 4, slow.slowness(), 0.001, "nothing waits for the disk")
}

func TestRoundsFollowTheMachine(t *testing.T) {
	parts := []share{{all: 10 * time.Minute, least: 4 * time.Minute}, {all: 20 * time.Minute, least: 6 * time.Minute}}
	for name, c := range map[string]struct {
		slowness float64
		time     time.Duration
		want     float64
	}{
		"all fits":                     {1, 38 * time.Minute, 1},
		"it fits exactly":              {1, 30 * time.Minute, 1},
		"half of what may be left out": {1, 20 * time.Minute, 0.5},
		"a machine half as fast":       {2, 40 * time.Minute, 0.5},
		"only the fewest rounds":       {3.8, 38 * time.Minute, 0},
		"not even those":               {10, 38 * time.Minute, 0},
		"a faster machine":             {0.5, 15 * time.Minute, 1},
	} {
		t.Run(name, func(t *testing.T) { require.InDelta(t, c.want, roundsFor(parts, c.slowness, c.time), 0.001) })
	}
	require.InDelta(t, (8 * time.Minute).Seconds(), parts[0].takes(2, 0).Seconds(), 0.001)
	require.InDelta(t, (14 * time.Minute).Seconds(), parts[0].takes(2, 0.5).Seconds(), 0.001)
	require.Equal(t, 2, few(10, 2, 0))
	require.Equal(t, 6, few(10, 2, 0.5))
	require.Equal(t, 10, few(10, 2, 1))
	require.Equal(t, 3, few(2, 3, 1), "never fewer than the fewest")
}

func TestASlowMachineLeavesOutTheLastParts(t *testing.T) {
	all := []part{
		{name: "first", share: share{10 * time.Minute, 4 * time.Minute}}, {name: "long", share: share{20 * time.Minute, 20 * time.Minute}},
		{name: "short", share: share{3 * time.Minute, 2 * time.Minute}}, {name: "last", share: share{30 * time.Minute, 4 * time.Minute}},
	}
	for slowness, want := range map[float64]string{1: "", 2: "long", 4: "long last", 8: "long short last", 30: "first long short last"} {
		fit, without := fitting(all, slowness, 38*time.Minute)
		require.Equal(t, want, strings.Join(without, " "), "%g times slower", slowness)
		require.Len(t, fit, len(all)-len(without))
	}
}

func TestBoundsShareWhatThereIs(t *testing.T) {
	for name, c := range map[string]struct{ left, own, after, want time.Duration }{
		"there is time to spare": {20, 4, 10, 10},
		"there is much":          {100, 4, 10, 12},
		"as expected":            {14, 4, 10, 4},
		"all miss alike":         {7, 4, 10, 2},
		"the last one":           {7, 4, 0, 7},
		"nothing is left":        {-1, 4, 10, 0},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want*time.Minute, boundOf(c.left*time.Minute, c.own*time.Minute, c.after*time.Minute))
		})
	}
}

// TestARunNeverTakesLonger: each part takes all that it may, on machines of any speed.
func TestARunNeverTakesLonger(t *testing.T) {
	for _, slowness := range []float64{0.3, 1, 2, 5, 50} {
		var shares []share
		for _, p := range parts {
			if !p.onDemand {
				shares = append(shares, p.share)
			}
		}
		rounds, left := roundsFor(shares, slowness, whole-reserve), whole-reserve
		for i, s := range shares {
			var after time.Duration
			for _, next := range shares[i+1:] {
				after += next.takes(slowness, rounds)
			}
			bound := boundOf(left, s.takes(slowness, rounds), after)
			require.Positive(t, bound, "each part has a time")
			left -= bound
		}
		require.GreaterOrEqual(t, left, -time.Second)
	}
}

// TestEachPartHasItsTime: a part that has none would not be in the plan of a run.
func TestEachPartHasItsTime(t *testing.T) {
	names := map[string]bool{}
	for _, p := range parts {
		require.False(t, names[p.name], p.name)
		names[p.name] = true
		require.Positive(t, p.least, p.name)
		require.GreaterOrEqual(t, p.all, p.least, p.name)
		require.NotNil(t, p.measure, p.name)
	}
}

func TestPartsAreChosenByName(t *testing.T) {
	for _, c := range []struct {
		only, name string
		onDemand   bool
		want       bool
	}{
		{"", "scale", false, true},
		{"", "memory", true, false},
		{"memory", "memory", true, true},
		{"scale,stop", "stop", false, true},
		{"scale,stop", "place", false, false},
		{"cluster-status", "cluster-status/agent", false, true},
		{"cluster-status/agent", "cluster-status/agent", false, true},
		{"cluster-status/agent", "cluster-status/watching", false, false},
		{"cluster", "cluster-status/agent", false, false},
	} {
		require.Equal(t, c.want, chosen(c.only, c.name, c.onDemand), "%+v", c)
	}
}

// TestThirdsOfThePartsAreAll: each part is in one of three.
func TestThirdsOfThePartsAreAll(t *testing.T) {
	for i, p := range parts {
		n := 0
		for _, third := range []string{"0", "1", "2"} {
			if inThird(i, third) {
				n++
			}
		}
		require.Equal(t, 1, n, p.name)
		require.True(t, inThird(i, ""), p.name)
	}
}
