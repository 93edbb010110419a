package harness

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"
)

// Prometheus is its query engine and its parsers, over samples in memory: its own storage brings 250 packages along.
type Prometheus struct {
	Parser parser.Parser
	engine *promql.Engine

	mu     sync.Mutex
	series map[uint64]*sampled
}

type sampled struct {
	labels  labels.Labels
	samples []sample
}

// sample implements chunks.Sample.
type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                    { return s.at }
func (sample) ST() int64                     { return 0 }
func (s sample) F() float64                  { return s.value }
func (sample) H() *histogram.Histogram       { return nil }
func (sample) FH() *histogram.FloatHistogram { return nil }
func (sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample         { return s }

// NewPrometheus has no samples.
func NewPrometheus() *Prometheus {
	p := parser.NewParser(parser.Options{})
	return &Prometheus{Parser: p, series: map[uint64]*sampled{}, engine: promql.NewEngine(promql.EngineOpts{
		MaxSamples: 10_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, EnableAtModifier: true, EnableNegativeOffset: true, Parser: p,
	})}
}

// Add adds a sample, which is later than those before it.
func (p *Prometheus) Add(l labels.Labels, at time.Time, v float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.series[l.Hash()]
	if s == nil {
		s = &sampled{labels: l}
		p.series[l.Hash()] = s
	}
	s.samples = append(s.samples, sample{at.UnixMilli(), v})
}

// End says that a series has no more samples.
func (p *Prometheus) End(l labels.Labels, at time.Time) {
	p.Add(l, at, math.Float64frombits(value.StaleNaN))
}

// Scrape reads the metrics of a process below a URL as they were at a time.
func (p *Prometheus) Scrape(ctx context.Context, t testing.TB, url, job string, at time.Time) {
	t.Helper()
	status, data := Exposition(ctx, t, url)
	require.Equal(t, http.StatusOK, status)
	text := textparse.NewPromParser(data, labels.NewSymbolTable(), false)
	for {
		entry, err := text.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if entry != textparse.EntrySeries {
			continue
		}
		var l labels.Labels
		text.Labels(&l)
		_, _, v := text.Series()
		p.Add(labels.NewBuilder(l).Set("job", job).Set("instance", url).Labels(), at, v)
	}
	p.Add(labels.FromStrings("__name__", "up", "job", job, "instance", url), at, 1)
}

// Query evaluates an expression at a time.
func (p *Prometheus) Query(ctx context.Context, t testing.TB, expression string, at time.Time) promql.Vector {
	t.Helper()
	q, err := p.engine.NewInstantQuery(ctx, p, nil, expression, at)
	require.NoError(t, err, expression)
	defer q.Close()
	r := q.Exec(ctx)
	require.NoError(t, r.Err, expression)
	if one, ok := r.Value.(promql.Scalar); ok {
		return promql.Vector{{T: one.T, F: one.V}}
	}
	v, err := r.Vector()
	require.NoError(t, err, expression)
	found := make(promql.Vector, len(v)) // the engine uses what it gave again
	copy(found, v)
	return found
}

// Rules are recording rules and alerts.
type Rules struct {
	Groups   []rulefmt.RuleGroup
	recorded map[string]map[uint64]labels.Labels // by the place of the rule
	active   map[string]map[uint64]time.Time
}

// NewRules reads rules.
func (p *Prometheus) NewRules(t testing.TB, file string) *Rules {
	t.Helper()
	groups, errs := rulefmt.ParseFile(file, false, model.UTF8Validation, p.Parser)
	require.Empty(t, errs)
	return &Rules{Groups: groups.Groups, recorded: map[string]map[uint64]labels.Labels{}, active: map[string]map[uint64]time.Time{}}
}

// Evaluate evaluates rules as Prometheus does once an interval, and returns the alerts that fire.
func (p *Prometheus) Evaluate(ctx context.Context, t testing.TB, rules *Rules, at time.Time) (firing []string) {
	t.Helper()
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			key := g.Name + "/" + r.Record + r.Alert
			found := p.Query(ctx, t, r.Expr, at)
			if r.Record != "" {
				now := map[uint64]labels.Labels{}
				for _, s := range found {
					l := labels.NewBuilder(s.Metric).Set("__name__", r.Record).Labels()
					now[l.Hash()] = l
					p.Add(l, at, s.F)
				}
				for hash, l := range rules.recorded[key] {
					if _, ok := now[hash]; !ok {
						p.End(l, at)
					}
				}
				rules.recorded[key] = now
				continue
			}
			since, fires := map[uint64]time.Time{}, false
			for _, s := range found {
				hash := labels.NewBuilder(s.Metric).Del("__name__").Labels().Hash()
				begun, ok := rules.active[key][hash]
				if !ok {
					begun = at
				}
				since[hash] = begun
				fires = fires || at.Sub(begun) >= time.Duration(r.For)
			}
			if rules.active[key] = since; fires {
				firing = append(firing, r.Alert)
			}
		}
	}
	return firing
}

// Querier implements storage.Queryable.
func (p *Prometheus) Querier(mint, maxt int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		return p.selected(mint, maxt, matchers)
	}}, nil
}

func (p *Prometheus) selected(mint, maxt int64, matchers []*labels.Matcher) storage.SeriesSet {
	p.mu.Lock()
	defer p.mu.Unlock()
	set := &found{at: -1}
next:
	for _, s := range p.series {
		for _, m := range matchers {
			if !m.Matches(s.labels.Get(m.Name)) {
				continue next
			}
		}
		var samples []chunks.Sample
		for _, x := range s.samples {
			if x.at >= mint && x.at <= maxt {
				samples = append(samples, x)
			}
		}
		set.series = append(set.series, storage.NewListSeries(s.labels, samples))
	}
	return set
}

// found implements storage.SeriesSet.
type found struct {
	series []storage.Series
	at     int
}

// Next implements storage.SeriesSet.
func (f *found) Next() bool { f.at++; return f.at < len(f.series) }

// At implements storage.SeriesSet.
func (f *found) At() storage.Series { return f.series[f.at] }

// Err implements storage.SeriesSet.
func (f *found) Err() error { return nil }

// Warnings implements storage.SeriesSet.
func (f *found) Warnings() annotations.Annotations { return nil }
