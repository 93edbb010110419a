// Package explore lets a machine look for defects where two lifecycles meet: it draws sequences of what users ask for and of what
// goes wrong meanwhile, and runs them against the real product with simulated clusters (docs/decisions/0075).
package explore

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drover-io/drover/test/harness"
)

var (
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
	each := func(do func(l *lane)) {
		var wg sync.WaitGroup
		for _, l := range lanes {
			wg.Go(func() { do(l) })
		}
		wg.Wait()
	}
	for i, q := range all {
		lanes[i] = w.lane(i, q)
	}
	each(func(l *lane) { l.failed = l.describe(ctx) })
	for _, l := range lanes {
		require.NoError(w.t, l.failed)
	}
	each(func(l *lane) { l.perform(ctx) })
	w.heal(ctx)
	each(func(l *lane) {
		if l.settle(ctx) {
			l.judge(ctx, "at rest")
			l.end(ctx)
		}
	})
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
		fmt.Fprintf(&b, "# place %d, %s\n# %s\n# what happened:\n# %s\n%s\n\n", l.place, l.project,
			strings.ReplaceAll(strings.Join(l.problems, "\n"), "\n", "\n# "), strings.ReplaceAll(strings.Join(l.lines, "\n"), "\n", "\n# "), l.steps)
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

// TestExplore runs what rapid draws, in batches; DROVER_EXPLORE is the folder that gets each batch that fails. It goes on after
// one: a search that ends with what it finds first finds nothing else.
func TestExplore(t *testing.T) {
	folder := os.Getenv("DROVER_EXPLORE")
	if folder == "" {
		t.Skip("DROVER_EXPLORE is not set: make explore sets it")
	}
	w := newWorld(t, *atATime)
	w.strict = true
	if *replay != "" {
		all := read(t, *replay)
		bad := w.batch(t.Context(), all)
		if len(bad) > 0 {
			t.Errorf("%s", tell(bad, all))
			w.shrink(t, bad)
		}
		return
	}
	began, ran, found := time.Now(), 0, 0
	rapid.Check(t, func(r *rapid.T) {
		all := rapid.SliceOfN(sequences(), *atATime, *atATime).Draw(r, "sequences")
		bad := w.batch(t.Context(), all)
		ran += len(all)
		found += len(bad)
		took := time.Since(began)
		fmt.Printf("%d sequences in %s, %.1f a minute; %d of them failed\n", ran, took.Round(time.Second), float64(ran)/took.Minutes(), found)
		if len(bad) == 0 {
			return
		}
		text := tell(bad, all)
		file := filepath.Join(folder, time.Now().UTC().Format("150405.000")+".txt")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		t.Errorf("%s:\n%s", file, text)
		w.shrink(t, bad)
	})
}

// shrink looks for a shorter sequence that fails, as long as -explore.shrink says: it leaves steps out, one after the other, and
// runs what is left some times at once, as what fails may not do so every time.
func (w *world) shrink(t *testing.T, bad []*lane) {
	until := time.Now().Add(*shrink)
	for _, l := range bad {
		fails := func(q sequence) bool {
			all := make([]sequence, min(*atATime, 4))
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

// TestKept runs the sequences that have found something.
func TestKept(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	w := newWorld(t, *atATime)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			all := read(t, file)
			if bad := w.batch(t.Context(), all); len(bad) > 0 {
				t.Errorf("%s", tell(bad, all))
			}
		})
	}
}
