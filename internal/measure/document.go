package measure

import (
	"fmt"
	"slices"
	"strings"
)

// head is what docs/metrics.md begins with.
const head = `# Metrics

*Made from internal/measure by ` + "`go test ./internal/measure -update`" + `; a test compares them.*

Each process serves its metrics in Prometheus' format: the API at ` + "`/metrics`" + ` of its address, the others at ` + "`--metrics-listen`" + `.
Where worker and API are one process, as in ` + "`make run`" + `, the API has all of them. What Temporal's SDK measures (` + "`temporal_*`" + `), the Go
runtime (` + "`go_*`" + `) and the process (` + "`process_*`" + `) is beside them. Alerts and dashboards are in deploy/telemetry.

- **Several processes**: *sum* says that each has its own part. *max* says that several may tell of the same things, as each tells of
  the whole installation, or of what it has come upon: a sum would count them as often as there are processes that know of them.
- **Labels are bounded** by the code: a label has the values that are listed, and "other" for anything else; or as many values as is
  said, beyond which a counter has "(others)" and a gauge leaves out what matters least. No label names an owner or an app.

`

// Document is docs/metrics.md.
func Document() string {
	var b strings.Builder
	b.WriteString(head)
	for _, process := range [][]string{ofAll, ofServers, ofAPI, ofWorker, ofMonitor, ofTenantAgent} {
		fmt.Fprintf(&b, "## %s\n\n", strings.Join(process, ", "))
		for _, i := range All() {
			if slices.Equal(i.From, process) {
				i.write(&b)
			}
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (i *Instrument) write(b *strings.Builder) {
	fmt.Fprintf(b, "### `%s`\n\n%s, %s. %s\n", i.Name, i.Kind, i.Across, i.Help)
	if len(i.Bounds) > 0 {
		var bounds []string
		for _, x := range i.Bounds {
			bounds = append(bounds, short(x))
		}
		fmt.Fprintf(b, "Buckets up to %s.\n", strings.Join(bounds, ", "))
	}
	if len(i.Labels) > 0 {
		b.WriteString("\n| label | what it is | values |\n|---|---|---|\n")
	}
	for _, l := range i.Labels {
		values := fmt.Sprintf("%d at most", l.Most)
		if l.Values != nil {
			values = "`" + strings.Join(l.Values, "`, `") + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", l.Name, l.About, values)
	}
	b.WriteString("\n")
}

// short writes seconds as people do.
func short(seconds float64) string {
	switch {
	case seconds >= 24*3600:
		return fmt.Sprintf("%g d", seconds/24/3600)
	case seconds >= 3600:
		return fmt.Sprintf("%g h", seconds/3600)
	case seconds >= 60:
		return fmt.Sprintf("%g min", seconds/60)
	case seconds < 1:
		return fmt.Sprintf("%g ms", seconds*1000)
	default:
		return fmt.Sprintf("%g s", seconds)
	}
}
