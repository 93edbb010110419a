package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/built"
	"github.com/drover-io/drover/internal/render"
	"github.com/drover-io/drover/test/harness"
)

func TestMain(m *testing.M) {
	render.Main()
	code := m.Run()
	harness.Stop()
	os.Exit(code)
}

// figure is one measurement: the samples in milliseconds, or a ratio of medians.
type figure struct {
	Key    string  `json:"key"`
	What   string  `json:"what"`
	N      int     `json:"n"`
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
	Max    float64 `json:"max"`
	Unit   string  `json:"unit"`
	// Low and High are between what the true median is with 95 % confidence; nil where nobody asked, or samples are few.
	Low    *float64 `json:"low,omitempty"`
	High   *float64 `json:"high,omitempty"`
	Goal   string   `json:"goal,omitempty"`
	Met    *bool    `json:"met,omitempty"`
	sorted []float64
}

func measured(key, what string, samples []time.Duration) figure {
	ms := make([]float64, 0, len(samples))
	for _, d := range samples {
		ms = append(ms, float64(d.Microseconds())/1000)
	}
	return values(key, what, "ms", ms)
}

// ratio compares two measurements round by round; met, when there is a goal, says whether the median meets it.
func ratio(key, what string, a, b []time.Duration, goal string, met func(float64) bool) figure {
	rounds := make([]float64, 0, len(a))
	for i := range min(len(a), len(b)) { // a round may have been cut off between the two
		rounds = append(rounds, a[i].Seconds()/b[i].Seconds())
	}
	f := values(key, what, "ratio", rounds)
	if met != nil {
		ok := met(f.Median)
		f.Goal, f.Met = goal, &ok
	}
	return f
}

// part is one of the report.
type part struct {
	name string
	share
	measure  func(context.Context, *trial)
	onDemand bool // measured only when it is named
}

// sized is how long a part takes on the machine of reference, with all of its rounds and with the fewest, in seconds.
func sized(all, least int) share {
	return share{time.Duration(all) * time.Second, time.Duration(least) * time.Second}
}

// parts of the report, those first whose figures are worth most: a machine that has no time for all leaves out from the end.
// DROVER_BENCH_PARTS names those to measure, separated by commas; all when it is empty.
var parts = []part{
	{"apply", sized(120, 80), apply, false},
	{"scale", sized(330, 150), scale, false},
	{"releases", sized(230, 75), releases, false},
	{"stop", sized(170, 75), stopping, false},
	{"restart", sized(190, 120), restart, false},
	{"dead", sized(240, 100), dead, false},
	{"noisy-project", sized(130, 50), noisyProject, false},
	{"auth", sized(70, 70), auth, false},
	{"audit-verify", sized(10, 10), auditVerify, false},
	{"folder", sized(60, 25), folders, false},
	{"latency", sized(60, 15), latencies, false},
	{"latency-to-clusters", sized(90, 50), latency, false},
	{"render", sized(15, 5), rendering, false},
	{"status", sized(120, 120), answers, false},
	{"combined-row", sized(15, 15), onARow, false},
	{"combined", sized(90, 90), combinedStatus, false},
	{"page", sized(20, 20), pageEvents, false},
	{"page-fleet", sized(30, 30), pageFleet, false},
	{"workload-events", sized(90, 90), workloadEvents, false},
	{"workload-matches", sized(80, 80), workloadMatches, false},
	{"workload-latency", sized(60, 60), workloadLatency, false},
	{"update", sized(90, 45), updates, false},
	{"cluster-status", sized(180, 180), clusterStatus, false},
	{"traced", sized(150, 150), traced, false},
	{"place", sized(200, 150), place, false},
	{"vary", sized(160, 80), varying, false},
	{"workload-pods", sized(60, 60), workloadPods, false},
	{"tenant-agent", sized(60, 60), tenantAgentMemory, false},
	{"workload-outage", sized(60, 60), workloadOutage, false},
	{"workload-restart", sized(60, 60), workloadRestart, false},
	{"diff", sized(600, 600), differing, true},
	{"ten-thousand", sized(960, 960), tenThousand, true},
	{"workers", sized(200, 200), workers, true},
	{"postgres", sized(200, 200), postgres, true},
	{"memory", sized(600, 600), remembering, true},
}

// chosen says whether a part is measured, when only some are named.
func chosen(only, name string, onDemand bool) bool {
	if only == "" {
		return !onDemand
	}
	return slices.ContainsFunc(strings.Split(only, ","), func(wanted string) bool {
		return name == wanted || strings.HasPrefix(name, wanted+"/")
	})
}

// inThird says whether the part with a number is of the third that is asked for: "0", "1" or "2", "" for all.
func inThird(part int, third string) bool { return third == "" || third == strconv.Itoa(part%3) }

// report is what a run has come to.
type report struct {
	Date        string             `json:"date"`
	Machine     map[string]string  `json:"machine"`
	Versions    map[string]string  `json:"versions"`
	Calibration map[string]float64 `json:"calibration"`
	Took        map[string]float64 `json:"tookSeconds"` // by part
	Figures     []figure           `json:"figures"`
	Failed      []string           `json:"failed"`  // parts, and why
	Shorter     []string           `json:"shorter"` // parts with fewer rounds than planned
	Without     []string           `json:"without"` // parts for which there was no time
	Doubts      []string           `json:"doubts"`  // why the figures say little about the product
}

// TestReport writes report.md and report.json into the folder that DROVER_BENCH names. It takes whole at the most, however slow the
// machine is, unless parts on demand are named. When it is quick no part is left out, and each may take mostQuick.
func TestReport(t *testing.T) {
	folder := os.Getenv("DROVER_BENCH")
	if folder == "" {
		t.Skip("DROVER_BENCH names no folder for the report; run make bench")
	}
	require.NoError(t, os.MkdirAll(folder, 0o755))
	end := time.Now().Add(whole - reserve)
	only := os.Getenv("DROVER_BENCH_PARTS")
	var left []part
	for i, p := range parts {
		if !chosen(only, p.name, p.onDemand) || !inThird(i, os.Getenv("DROVER_BENCH_THIRD")) {
			continue
		}
		left = append(left, p)
		if p.onDemand { // it is not a part of the run that has to end in time
			end = end.Add(indulgence * p.all)
		}
	}
	require.NotEmpty(t, left, "DROVER_BENCH_PARTS names no part; those that there are are in test/bench/report_test.go")
	r := &report{Machine: machine(), Versions: versions(t), Took: map[string]float64{}}
	const look = 3 * time.Second
	busy := othersBusy(look)
	var c calibration
	calibrated := try(t, "calibration", 1, 5*time.Minute, func(ctx context.Context, p *trial) { c = calibrate(ctx, p) })
	r.take("calibration", calibrated)
	require.NotZero(t, c, "without a calibration no part knows how much it may measure")
	slowness := c.slowness()
	if only == "" && !quick() { // who names a part wants it, and each takes little when it is quick
		left, r.Without = fitting(left, slowness, time.Until(end))
	}
	var shares []share
	for _, p := range left {
		shares = append(shares, p.share)
	}
	rounds := roundsFor(shares, slowness, time.Until(end))
	r.Calibration = map[string]float64{
		"clientgo_ms": millis(c.ClientGo), "child_ms": millis(c.Child), "fsync_ms": millis(c.Fsync), "slowness": slowness, "busy": busy, "rounds": rounds,
	}
	t.Logf("calibration: an apply of a bare client-go loop %s, a bare child workflow %s, an fsync %s: %.2f times slower than the machine of reference, so that %.0f %% "+
		"of the rounds that may be left out are done", c.ClientGo, c.Child, c.Fsync, slowness, 100*rounds)
	r.Doubts = doubts(slowness, busy)
	for _, why := range r.Doubts {
		t.Logf("doubtful: %s", why)
	}
	for i, p := range left {
		var after time.Duration
		for _, next := range shares[i+1:] {
			after += next.takes(slowness, rounds)
		}
		own := p.takes(slowness, rounds)
		bound := boundOf(time.Until(end), own, after)
		if quick() {
			bound = min(mostQuick, time.Until(end))
		}
		t.Logf("part %s: some %s expected, %s at the most; %s are left of the whole", p.name, own.Round(time.Second), bound.Round(time.Second), time.Until(end).Round(time.Second))
		began := time.Now()
		measured := try(t, p.name, rounds, bound, p.measure)
		r.Took[p.name] = time.Since(began).Seconds()
		r.take(p.name, measured)
		r.write(t, folder) // after each part: a run that is cut short leaves what it has measured
	}
	text, err := os.ReadFile(filepath.Join(folder, "report.md"))
	require.NoError(t, err)
	t.Logf("\n%s", text)
}

func millis(d time.Duration) float64 { return d.Seconds() * 1000 }

// take takes what a part has measured.
func (r *report) take(name string, m *measures) {
	for i := range m.figures {
		if quick() { // sizes and rounds are not those that the goals are for
			m.figures[i].Goal, m.figures[i].Met = "", nil
		}
	}
	r.Figures, r.Shorter = append(r.Figures, m.figures...), append(r.Shorter, m.left...)
	if len(m.why) > 0 {
		r.Failed = append(r.Failed, name+": "+strings.Join(m.why, "; "))
	}
}

// write writes the report.
func (r *report) write(t testing.TB, folder string) {
	t.Helper()
	r.Date = time.Now().UTC().Format(time.RFC3339)
	members := map[string]any{}
	data, err := json.Marshal(r)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &members))
	for _, f := range r.Figures {
		members[f.Key] = f.Median
	}
	data, err = json.MarshalIndent(members, "", "  ")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "report.json"), append(data, '\n'), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "report.md"), []byte(r.text()), 0o600))
}

// text is the report for people: the goals first.
func (r *report) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Figures\n\n%s\n\n", r.Date)
	for _, k := range []string{"cpu", "cores", "memory", "kernel"} {
		fmt.Fprintf(&b, "- %s: %s\n", k, r.Machine[k])
	}
	for _, module := range slices.Sorted(maps.Keys(r.Versions)) {
		fmt.Fprintf(&b, "- %s %s\n", module, r.Versions[module])
	}
	fmt.Fprintf(&b, "- calibration: an apply of a bare client-go loop %.2f ms, a bare child workflow %.2f ms, an fsync %.2f ms; %.2f times slower than the machine of reference. "+
		"Figures of two machines are never compared without it.\n", r.Calibration["clientgo_ms"], r.Calibration["child_ms"], r.Calibration["fsync_ms"], r.Calibration["slowness"])
	if quick() {
		b.WriteString("\n**Quick**, by DROVER_BENCH_QUICK: does each part run? No figures to keep, and no goals.\n")
	}
	for _, why := range r.Doubts {
		fmt.Fprintf(&b, "\n**Doubtful**: %s\n", why)
	}
	for _, why := range r.Failed {
		fmt.Fprintf(&b, "\n**Failed**, with figures up to there: %s\n", why)
	}
	for _, what := range r.Shorter {
		fmt.Fprintf(&b, "\n**Shorter**: %s\n", what)
	}
	if len(r.Without) > 0 {
		fmt.Fprintf(&b, "\n**Without**, as this machine has no time for them in %s: DROVER_BENCH_PARTS=%s make bench\n", whole, strings.Join(r.Without, ","))
	}
	b.WriteString("\n## Goals\n\n| key | is | goal | met |\n|---|---|---|---|\n")
	for _, f := range r.Figures {
		if f.Met != nil {
			fmt.Fprintf(&b, "| %s | %.3g %s | %s | %s |\n", f.Key, f.Median, f.Unit, f.Goal, f.met())
		}
	}
	b.WriteString("\n## All\n\n| what | key | n | min | median | p95 | max | median, 95 % sure | goal | met |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, f := range r.Figures {
		sure := ""
		if f.Low != nil {
			sure = fmt.Sprintf("%.2f to %.2f", *f.Low, *f.High)
		}
		fmt.Fprintf(&b, "| %s (%s) | %s | %d | %.2f | %.2f | %.2f | %.2f | %s | %s | %s |\n", f.What, f.Unit, f.Key, f.N, f.Min, f.Median, f.P95, f.Max, sure, f.Goal, f.met())
	}
	return b.String()
}

// met says whether the figure meets its goal, "" where it has none.
func (f *figure) met() string {
	if f.Met == nil {
		return ""
	}
	return map[bool]string{true: "yes", false: "**no**"}[*f.Met]
}

func machine() map[string]string {
	line := func(path, prefix string) string {
		data, _ := os.ReadFile(path)
		for l := range strings.Lines(string(data)) {
			if strings.HasPrefix(l, prefix) {
				return strings.TrimSpace(strings.TrimLeft(strings.TrimPrefix(l, prefix), " \t:"))
			}
		}
		return "unknown"
	}
	return map[string]string{
		"cpu": line("/proc/cpuinfo", "model name"), "cores": fmt.Sprint(runtime.NumCPU()),
		"memory": line("/proc/meminfo", "MemTotal"), "kernel": line("/proc/version", "Linux version"), "go": runtime.Version(),
	}
}

// versions of what is measured, from the modules that build it.
func versions(t testing.TB) map[string]string {
	t.Helper()
	found := map[string]string{"go": runtime.Version()}
	for _, file := range []string{"deploy/local/go.mod", "deploy/local/kube/go.mod"} {
		data, err := os.ReadFile(filepath.Join(built.Root(t), file))
		require.NoError(t, err)
		for l := range strings.Lines(string(data)) {
			f := strings.Fields(l)
			if len(f) > 1 && slices.Contains([]string{"go.temporal.io/server", "go.temporal.io/sdk", "github.com/FerretDB/FerretDB", "k8s.io/kubernetes", "go.etcd.io/etcd/server/v3"}, f[0]) {
				found[f[0]] = f[1]
			}
		}
	}
	return found
}
