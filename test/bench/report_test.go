// Package bench measures the product against what it stands on: real Temporal, real store, a real cluster,
// everything in one run, so that its ratios hold on a noisy machine. `make bench` runs it.
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
	for i := range a {
		rounds = append(rounds, a[i].Seconds()/b[i].Seconds())
	}
	f := values(key, what, "ratio", rounds)
	if met != nil {
		ok := met(f.Median)
		f.Goal, f.Met = goal, &ok
	}
	return f
}

// parts of the report. DROVER_BENCH_PARTS names those to measure, separated by commas; all when it is empty.
var parts = []struct {
	name     string
	measure  func(context.Context, *testing.T) []figure
	onDemand bool // measured only when it is named
}{
	{"apply", apply, false},
	{"latency", latencies, false},
	{"scale", scale, false},
	{"place", place, false},
	{"render", rendering, false},
	{"latency-to-clusters", latency, false},
	{"dead", dead, false},
	{"status", answers, false},
	{"noisy-project", noisyProject, false},
	{"audit-verify", auditVerify, false},
	{"auth", auth, false},
	{"stop", stopping, false},
	{"update", updates, false},
	{"vary", varying, false},
	{"diff", differing, false},
	{"restart", restart, false},
	{"cluster-status", clusterStatus, false},
	{"combined-row", onARow, false},
	{"combined", combinedStatus, false},
	{"workload-events", tried(workloadEvents), false},
	{"workload-matches", tried(workloadMatches), false},
	{"workload-latency", tried(workloadLatency), false},
	{"workload-pods", tried(workloadPods), false},
	{"tenant-agent", tried(tenantAgentMemory), false},
	{"workload-outage", tried(workloadOutage), false},
	{"workload-restart", tried(workloadRestart), false},
	{"page", pageEvents, false},
	{"ten-thousand", tenThousand, true},
	{"workers", workers, true},
	{"postgres", postgres, true},
	{"memory", remembering, true},
}

const partTimeout = 20 * time.Minute

// TestReport writes report.md and report.json into the folder that DROVER_BENCH names.
func TestReport(t *testing.T) {
	folder := os.Getenv("DROVER_BENCH")
	if folder == "" {
		t.Skip("DROVER_BENCH names no folder for the report; run make bench")
	}
	require.NoError(t, os.MkdirAll(folder, 0o755))
	var figures []figure
	var failed []string
	for _, part := range parts {
		only := os.Getenv("DROVER_BENCH_PARTS")
		if only == "" && part.onDemand || only != "" && !slices.Contains(strings.Split(only, ","), part.name) {
			continue
		}
		ended := t.Run(part.name, func(t *testing.T) { // its processes end before the next part's begin
			ctx, cancel := context.WithTimeout(t.Context(), partTimeout)
			defer cancel()
			figures = append(figures, part.measure(ctx, t)...)
		})
		figures = append(figures, unfinished.figures...)
		if !ended {
			why := "see the output of the benchmark"
			if len(unfinished.why) > 0 {
				why = strings.Join(strings.Fields(strings.Join(unfinished.why, "; ")), " ")
			}
			failed = append(failed, part.name+": "+why)
		}
		unfinished.figures, unfinished.why = nil, nil
		write(t, folder, figures, failed) // after each part: a run that is cut short leaves what it has measured
	}
	report, err := os.ReadFile(filepath.Join(folder, "report.md"))
	require.NoError(t, err)
	t.Logf("\n%s", report)
}

// write writes the report, with the parts that have failed and why.
func write(t *testing.T, folder string, figures []figure, failed []string) {
	t.Helper()
	host, modules := machine(), versions(t)
	report := map[string]any{
		"machine": host, "versions": modules, "date": time.Now().UTC().Format(time.RFC3339), "figures": figures, "failed": failed,
	}
	for _, f := range figures {
		report[f.Key] = f.Median
	}
	data, err := json.MarshalIndent(report, "", "  ")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "report.json"), append(data, '\n'), 0o600))
	var b strings.Builder
	fmt.Fprintf(&b, "# Figures\n\n%s\n\n", report["date"])
	for _, k := range []string{"cpu", "cores", "memory", "kernel"} {
		fmt.Fprintf(&b, "- %s: %s\n", k, host[k])
	}
	for _, module := range slices.Sorted(maps.Keys(modules)) {
		fmt.Fprintf(&b, "- %s %s\n", module, modules[module])
	}
	for _, why := range failed {
		fmt.Fprintf(&b, "\n**Failed**, with figures up to there: %s\n", why)
	}
	b.WriteString("\n| what | key | n | min | median | p95 | max | median, 95 % sure | goal | met |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, f := range figures {
		met, sure := "", ""
		if f.Low != nil {
			sure = fmt.Sprintf("%.2f to %.2f", *f.Low, *f.High)
		}
		if f.Met != nil {
			met = map[bool]string{true: "yes", false: "**no**"}[*f.Met]
		}
		fmt.Fprintf(&b, "| %s (%s) | %s | %d | %.2f | %.2f | %.2f | %.2f | %s | %s | %s |\n", f.What, f.Unit, f.Key, f.N, f.Min, f.Median, f.P95, f.Max, sure, f.Goal, met)
	}
	require.NoError(t, os.WriteFile(filepath.Join(folder, "report.md"), []byte(b.String()), 0o600))
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
func versions(t *testing.T) map[string]string {
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
