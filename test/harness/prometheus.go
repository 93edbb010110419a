package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	prometheus "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/built"
	"github.com/drover-io/drover/internal/freeport"
)

// Prometheus is a real one, which scrapes what processes show and evaluates rules.
type Prometheus struct {
	api  prometheus.API
	jobs int
}

const everySecond = "1s"

// NewPrometheus starts one that ends with the test. It scrapes what is below the URLs of jobs each second, and evaluates a file of rules
// as often.
func NewPrometheus(ctx context.Context, t testing.TB, rules string, jobs map[string]string) *Prometheus {
	t.Helper()
	rules, err := filepath.Abs(rules)
	require.NoError(t, err)
	folder, address := t.TempDir(), freeport.Address()
	config := fmt.Sprintf("global: {scrape_interval: %s, scrape_timeout: %s, evaluation_interval: %s}\nrule_files: [%q]\nscrape_configs:\n",
		everySecond, everySecond, everySecond, rules)
	for job, url := range jobs {
		config += fmt.Sprintf("- {job_name: %q, static_configs: [{targets: [%q]}]}\n", job, strings.TrimPrefix(url, "http://"))
	}
	file := filepath.Join(folder, "prometheus.yml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	client, err := api.NewClient(api.Config{Address: "http://" + address})
	require.NoError(t, err)
	p := &Prometheus{api: prometheus.NewAPI(client), jobs: len(jobs)}
	Start(t, "prometheus", "ready", nil, "/bin/sh", "-c", `echo ready; exec "$0" "$@"`, built.Binary(t, "prometheus"),
		"--config.file="+file, "--storage.tsdb.path="+filepath.Join(folder, "data"), "--web.listen-address="+address)
	Until(ctx, t, "Prometheus answers", func() bool {
		_, err := p.api.Config(ctx)
		return err == nil
	})
	return p
}

// Query evaluates an expression as of now.
func (p *Prometheus) Query(ctx context.Context, t testing.TB, expression string) model.Vector {
	t.Helper()
	found, warnings, _, err := p.api.Query(ctx, expression, time.Now())
	require.NoError(t, err, expression)
	require.Empty(t, warnings, expression)
	switch v := found.(type) {
	case model.Vector:
		return v
	case *model.Scalar:
		return model.Vector{{Value: v.Value, Timestamp: v.Timestamp}}
	}
	require.FailNow(t, "neither a vector nor a number", "%s: %v", expression, found)
	return nil
}

// Scraped waits until every process was scraped, and all rules were evaluated, after now.
func (p *Prometheus) Scraped(ctx context.Context, t testing.TB) {
	t.Helper()
	begun := time.Now()
	Until(ctx, t, "scraped", func() bool {
		up := p.Query(ctx, t, "timestamp(up == 1)")
		for _, s := range up {
			if float64(s.Value) < float64(begun.UnixMilli())/1000 {
				return false
			}
		}
		return len(up) == p.jobs
	})
	begun = time.Now()
	Until(ctx, t, "evaluated", func() bool {
		now := true
		for _, r := range p.Rules(ctx, t) {
			now = now && r.Last.After(begun)
		}
		return now
	})
}

// Rule is a rule as Prometheus has it.
type Rule struct {
	Name, Query string
	Alert       bool
	Last        time.Time // when it was evaluated
	Wrong       string    // with its last evaluation
}

// Rules are those of the file.
func (p *Prometheus) Rules(ctx context.Context, t testing.TB) (rules []Rule) {
	t.Helper()
	all, err := p.api.Rules(ctx, nil)
	require.NoError(t, err)
	for _, g := range all.Groups {
		for _, r := range g.Rules {
			switch r := r.(type) {
			case prometheus.AlertingRule:
				rules = append(rules, Rule{r.Name, r.Query, true, r.LastEvaluation, r.LastError})
			case prometheus.RecordingRule:
				rules = append(rules, Rule{r.Name, r.Query, false, r.LastEvaluation, r.LastError})
			}
		}
	}
	return rules
}
