// Package explore lets a machine look for defects where two lifecycles meet: it draws sequences of what users ask for and of what
// goes wrong meanwhile, and runs them against the real product with simulated clusters (docs/decisions/0075).
package explore

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/test/harness"
)

var (
	number  = flag.Int("explore.n", 16, "how many sequences are drawn")
	seeded  = flag.Int("explore.seed", 0, "which ones; 0 is any")
	atATime = flag.Int("explore.places", 16, "how many sequences run at a time")
	every   = flag.Bool("explore.all", false, "tell what happened in every sequence")
	replay  = flag.String("explore.replay", "", "a file of sequences, run in place of what is drawn")
	shrink  = flag.Duration("explore.shrink", 0, "how long steps are left out of a sequence that fails, to find a shorter one that does")
)

func TestMain(m *testing.M) {
	code := m.Run()
	harness.Stop()
	os.Exit(code)
}

// batch runs sequences side by side, heals everything, and gives those in which something was wrong.
func (w *world) batch(ctx context.Context, all []sequence) (bad []*lane) {
	lanes := make([]*lane, len(all))
	phase := func(name string, do func(l *lane)) {
		began := time.Now()
		var wg sync.WaitGroup
		for _, l := range lanes {
			wg.Go(func() { do(l) })
		}
		wg.Wait()
		w.mu.Lock()
		w.phases[name] += time.Since(began)
		w.mu.Unlock()
	}
	var at *ground
	for i, q := range all {
		switch {
		case at == nil:
			at = &ground{}
		case !q.shares():
			at = &ground{place: at.place + 1}
		}
		at.sequences = append(at.sequences, q)
		lanes[i] = w.lane(at, q)
	}
	looking, stop := context.WithCancel(ctx)
	looked := make(chan bool, 1)
	go func() { looked <- w.alone(looking, lanes) }()
	defer stop()
	w.register(ctx, func(c *credential) bool { return c.gone }) // of a batch before
	phase("describe", func(l *lane) { l.failed = l.describe(ctx) })
	for _, l := range lanes {
		require.NoError(w.t, l.failed)
	}
	phase("perform", func(l *lane) { l.perform(ctx) })
	w.heal(ctx)
	phase("settle and end", func(l *lane) {
		if l.settle(ctx) {
			l.judge(ctx, "at rest")
			l.end(ctx)
		}
	})
	stop()
	require.True(w.t, <-looked, "nobody could look whether owners have one operation at a time")
	for _, l := range lanes {
		if *every {
			w.t.Logf("%s:\n%s", l.project, strings.Join(l.lines, "\n"))
		}
		if len(l.problems) > 0 {
			bad = append(bad, l)
		}
	}
	return bad
}

// tell says what was wrong.
func tell(bad []*lane, all []sequence) string {
	var b strings.Builder
	for _, l := range bad {
		fmt.Fprintf(&b, "# place %d, %s\n# %s\n# what happened:\n# %s\n", l.place, l.project,
			strings.ReplaceAll(strings.Join(l.problems, "\n"), "\n", "\n# "), strings.ReplaceAll(strings.Join(l.lines, "\n"), "\n", "\n# "))
		for _, q := range l.sequences {
			fmt.Fprintf(&b, "%s\n\n", q)
		}
	}
	b.WriteString("# Faults of processes in the others:\n")
	for _, q := range all {
		for _, s := range q {
			if slices.Contains([]string{"worker", "worker2", "api", "api2", "store", "temporal"}, s.Who) {
				fmt.Fprintf(&b, "#\t%s\n", s)
			}
		}
	}
	return b.String()
}

// drawn are the sequences of a seed from one number to another. The same seed and numbers give the same ones.
func drawn(seed, from, to int) (all []sequence) {
	draw := sequences()
	for i := from; i < to; i++ {
		all = append(all, draw.Example(seed*mostOfSeed+i))
	}
	return all
}

// mostOfSeed is how many sequences a seed has.
const mostOfSeed = 1_000_000

// search runs n sequences of a seed in batches, as long as there is time for another one; 0 is as long as it takes. It goes on
// after one that fails: a search that ends with what it finds first finds nothing else. A folder gets each batch that fails.
func (w *world) search(t *testing.T, n, seed int, most time.Duration, folder string) {
	began, found, longest := time.Now(), 0, time.Duration(0)
	for ran := 0; ran < n && (most == 0 || time.Since(began)+longest < most); {
		started := time.Now()
		all := drawn(seed, ran, min(ran+w.places, n))
		bad := w.batch(t.Context(), all)
		ran += len(all)
		found += len(bad)
		took := time.Since(began)
		longest = max(longest, time.Since(started))
		fmt.Printf("%d sequences of seed %d in %s, explore_sequences_per_min %.1f; %d of them failed. %s\n", ran, seed, took.Round(time.Second),
			float64(ran)/took.Minutes(), found, w.costs(ran))
		if len(bad) == 0 {
			continue
		}
		text := fmt.Sprintf("# of seed %d, up to the %dth\n%s", seed, ran, tell(bad, all))
		if folder != "" {
			file := filepath.Join(folder, time.Now().UTC().Format("150405.000")+".txt")
			require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			t.Logf("it is %s", file)
		}
		t.Errorf("%s", text)
		w.shrink(t, bad)
	}
}

// TestExplore runs as many sequences as one likes; DROVER_EXPLORE is the folder that gets each batch that fails.
func TestExplore(t *testing.T) {
	folder := os.Getenv("DROVER_EXPLORE")
	if folder == "" {
		t.Skip("DROVER_EXPLORE is not set: make explore sets it")
	}
	var all []sequence
	if *replay != "" {
		all = read(t, *replay)
	}
	w := newWorld(t, max(*atATime, len(all)))
	w.strict = true
	if *replay != "" {
		bad := w.batch(t.Context(), all)
		if len(bad) > 0 {
			t.Errorf("%s", tell(bad, all))
			w.shrink(t, bad)
		}
		return
	}
	w.search(t, *number, chosen(t), 0, folder)
}

// chosen is the seed: what is asked for, or any.
func chosen(t *testing.T) int {
	t.Helper()
	if *seeded != 0 {
		return *seeded
	}
	if said := os.Getenv(seedVariable); said != "" {
		seed, err := strconv.Atoi(said)
		require.NoError(t, err, seedVariable)
		return seed
	}
	return 1 + rand.IntN(seeds)
}

// seedVariable is the seed of CI, which draws the same sequences in each run, and again when one fails.
const (
	seedVariable = "DROVER_EXPLORE_SEED"
	seeds        = 1_000_000
)

// Bounds of what CI draws. A machine that is slower runs fewer sequences, and fails for that no more than one that is fast.
const (
	drawnMost    = 200
	drawnTime    = 10 * time.Minute
	drawnAtATime = 16
)

// TestDrawn runs sequences that are not kept, as many as there is time for. In CI they are the first ones of one seed (test/cmd/ci); else
// nobody may have seen them yet. Its output has the seed.
func TestDrawn(t *testing.T) {
	newWorld(t, drawnAtATime).search(t, drawnMost, chosen(t), drawnTime, os.Getenv("DROVER_EXPLORE"))
}

// shrink looks for a shorter sequence that fails, as long as -explore.shrink says: it leaves steps out, one after the other, and
// runs what is left some times at once, as what fails may not do so every time.
func (w *world) shrink(t *testing.T, bad []*lane) {
	until := time.Now().Add(*shrink)
	for _, l := range bad {
		fails := func(q sequence) bool {
			all := make([]sequence, min(w.places, 4))
			for i := range all {
				all[i] = q
			}
			return time.Now().Before(until) && len(w.batch(t.Context(), all)) > 0
		}
		q := l.steps
		if *shrink == 0 || !fails(q) {
			continue
		}
		for i := 0; i < len(q); {
			if shorter := slices.Delete(slices.Clone(q), i, i+1); fails(shorter) {
				q = shorter
			} else {
				i++
			}
		}
		t.Logf("shorter:\n%s", q)
	}
}

// TestKept runs the sequences that have found something, all of them side by side.
func TestKept(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var all []sequence
	for _, file := range files {
		all = append(all, read(t, file)...)
	}
	w := newWorld(t, len(all))
	if bad := w.batch(t.Context(), all); len(bad) > 0 {
		t.Errorf("%s", tell(bad, all))
	}
	t.Logf("%d sequences. %s", len(all), w.costs(len(all)))
}
