// Command ci runs all tests once, and shows what a person wants to know of that: what failed and what it said, how long each
// part took, which tests took longest.
//
// A test that fails is run again, once, alone. When it passes then it is flaky: the run passes and prints it as its last
// lines, to be put into docs/flaky.md with its cause. The next time that it fails, the run fails. So does what fails twice,
// a data race, and what does not build.
//
// It is called in the repository's root, after `make build servers`. Arguments are the times of what was done before, such
// as build=90s; targets of make that are to run beside the tests, as +lint; and the names of parts, when only these are to run.
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// raced are the packages whose tests run with the race detector: those with goroutines that share memory. What takes longest
// begins first.
var raced = []string{"internal/service", "internal/store", "internal/observe", "internal/monitor", "activities", "internal/tenantagent", "workflows",
	"internal/notify"}

// calm are the end-to-end tests that measure what a machine does which has nothing else to do: beside others they wait until these are done.
var calm = []string{"TestLittleIsDoneAtOnce"}

// figures is the benchmark.
const figures = "TestReport"

// long are those of the others that take longest, and begin first.
var long = []string{"api", "internal/cli", "internal/app", "internal/access"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	passed, err := everything(ctx, os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "ci:", err)
	}
	if !passed {
		os.Exit(1)
	}
}

// everything runs the parts, and says whether they have passed.
func everything(ctx context.Context, arguments []string, show io.Writer) (bool, error) {
	list, err := known(filepath.Join("docs", "flaky.md"))
	if err != nil {
		return false, err
	}
	parts, err := allParts(ctx)
	if err != nil {
		return false, err
	}
	asked, err := choose(parts, arguments)
	if err != nil {
		return false, err
	}
	spent, err := takeIn(ctx)
	if err != nil {
		return false, err
	}
	r := &run{show: show, spent: spent, known: list, parts: asked.before}
	begun := time.Now()
	var beside []func()
	for _, target := range asked.beside {
		beside = append(beside, r.beside(ctx, target, "make", target))
	}
	for _, together := range groups(asked.parts) {
		if ctx.Err() == nil {
			r.all(ctx, together)
		}
	}
	for _, ended := range beside {
		ended()
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	r.time = time.Since(begun)
	for _, t := range asked.before {
		r.time += t.time
	}
	r.report(time.Now())
	return len(r.failures) == 0, nil
}

// choice is what is asked for.
type choice struct {
	parts  []part   // those that are to run
	before []took   // what was done before
	beside []string // targets of make
}

// choose reads arguments. All parts are to run unless some are named.
func choose(parts []part, arguments []string) (c choice, err error) {
	for _, word := range arguments {
		if target, is := strings.CutPrefix(word, "+"); is {
			c.beside = append(c.beside, target)
			continue
		}
		if name, text, is := strings.Cut(word, "="); is {
			spent, err := time.ParseDuration(text)
			if err != nil {
				return choice{}, fmt.Errorf("%s: want a name and a time, as in build=90s", word)
			}
			c.before = append(c.before, took{name: name, time: spent})
			continue
		}
		i := slices.IndexFunc(parts, func(p part) bool { return p.name == word })
		if i < 0 {
			return choice{}, fmt.Errorf("there is no part %s", word)
		}
		c.parts = append(c.parts, parts[i])
	}
	if len(c.parts) == 0 {
		c.parts = parts
	}
	return c, nil
}

// groups are the parts that run at the same time, group after group.
func groups(parts []part) (all [][]part) {
	for i, p := range parts {
		if i == 0 || !p.beside {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], p)
	}
	return all
}

// allParts are all tests. None is in two parts.
func allParts(ctx context.Context) ([]part, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages: %w", err)
	}
	root, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find the folder of the report: %w", err)
	}
	race, unit := split(strings.Fields(string(out)))
	// The sequences that a machine draws are the same in each run: one that nobody has seen yet may fail what it has nothing to do
	// with. make explore looks for those.
	require := []string{"DROVER_TEST_REQUIRE=1", "DROVER_EXPLORE_SEED=1"}
	// A heap that grows to five times what is in use is collected less often: a twentieth of the time that tests take with API servers of
	// clusters. End-to-end tests run servers that have settings of their own, and gain nothing.
	quick := append(slices.Clone(require), "GOGC=400")
	return []part{
		// The first four run together, and of the race detector's more packages at a time than there are processors: some wait
		// for clusters and databases most of the time, and left the processors idle for two fifths of it. End-to-end tests beside
		// them too were more than two processors do in the bounds of these tests (decision 94).
		{name: "race", dir: ".", args: []string{"-race", "-p=3", "-timeout=30m"}, packages: race, env: quick},
		{name: "unit", dir: ".", args: []string{"-p=2", "-timeout=30m"}, packages: unit, env: quick, beside: true},
		{name: "local", dir: "deploy/local", packages: []string{"./..."}, beside: true},
		{name: "kube", dir: "deploy/local/kube", packages: []string{"./..."}, beside: true},
		{name: "end-to-end", dir: "test", args: []string{"-timeout=60m", "-parallel=4", "-skip=" + only(append(calm, figures)...)}, packages: []string{"./..."}, env: require, each: true},
		{name: "calm", dir: "test", args: []string{"-timeout=30m", "-run=" + only(calm...)}, packages: []string{"."}, env: require, each: true},
		// The benchmark's parts with few clusters and one round, so that none is broken when its figure is wanted. They are ended after 40 minutes.
		// A third of them in a run, which has no time for all.
		{name: "bench", dir: "test", args: []string{"-timeout=45m", "-run=" + only(figures)}, packages: []string{"./bench"},
			env: append(slices.Clone(require), "DROVER_BENCH_QUICK=1", "DROVER_BENCH_THIRD="+third(ctx), "DROVER_BENCH="+filepath.Join(root, "build", "bench-quick")), each: true},
	}, nil
}

// third is which third of the benchmark's parts runs: the commit decides, so that a second run does the same, and a few commits have all.
func third(ctx context.Context) string {
	commit, err := exec.CommandContext(ctx, "git", "rev-parse", "HEAD").Output()
	if err != nil { // a tree without history
		return "0"
	}
	sum := 0
	for _, digit := range commit {
		sum += int(digit)
	}
	return strconv.Itoa(sum % 3)
}

// split parts packages into those that the race detector watches and the others, each with those first that take longest.
func split(packages []string) (race, unit []string) {
	place := func(p string, list []string) int {
		path := strings.TrimPrefix(p, module)
		return slices.IndexFunc(list, func(of string) bool { return path == of || strings.HasPrefix(path, of+"/") })
	}
	for _, p := range packages {
		if place(p, raced) >= 0 {
			race = append(race, p)
		} else {
			unit = append(unit, p)
		}
	}
	slices.SortStableFunc(race, func(a, b string) int { return cmp.Compare(place(a, raced), place(b, raced)) })
	slices.SortStableFunc(unit, func(a, b string) int {
		return cmp.Compare(uint(place(a, long)), uint(place(b, long))) // all others are last
	})
	return race, unit
}

// slowest is how many tests are shown with their time.
const slowest = 10

// report prints the times, what failed, and last what is flaky.
func (r *run) report(now time.Time) {
	fmt.Fprintf(r.show, "\n%-12s %8s %8s\n", "part", "time", "CPU")
	all := took{name: "all", time: r.time}
	for _, t := range r.parts {
		all.cpu += t.cpu
	}
	for _, t := range append(r.parts, all) {
		spent := "" // not known
		if t.cpu > 0 {
			spent = t.cpu.Round(time.Second).String()
		}
		fmt.Fprintf(r.show, "%-12s %8s %8s\n", t.name, t.time.Round(time.Second), spent)
	}
	slices.SortStableFunc(r.tests, func(a, b timed) int { return cmp.Compare(b.took, a.took) })
	fmt.Fprintf(r.show, "\nslowest tests\n")
	for _, t := range r.tests[:min(slowest, len(r.tests))] {
		fmt.Fprintf(r.show, "%8.1fs  %s\n", t.took.Seconds(), t.name)
	}
	if len(r.failures) > 0 {
		fmt.Fprintf(r.show, "\nfailed\n")
	}
	for _, f := range r.failures {
		fmt.Fprintf(r.show, "  %s\n", f)
	}
	if len(r.flaky) > 0 {
		fmt.Fprintf(r.show, "\nflaky: failed, then passed alone. Find the cause; until it is mended these stand in docs/flaky.md\n")
	}
	for _, name := range r.flaky {
		fmt.Fprintln(r.show, row(name, now.Format(time.DateOnly)))
	}
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
