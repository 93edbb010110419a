// Package measure has what Drover measures of itself: one list of instruments (instruments.go), each with its unit, its labels
// and what bounds their values. docs/metrics.md is made from it. What is recorded goes to OpenTelemetry's meter of the process,
// and nowhere in a process that has started none.
package measure

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/drover-io/drover/internal/fail"
)

// Scope is the name of the meter.
const Scope = "drover"

// Kind is what a metric is.
type Kind string

// The kinds. A counter only grows as long as its process lives.
const (
	CounterKind   Kind = "counter"
	GaugeKind     Kind = "gauge"
	HistogramKind Kind = "histogram"
)

// Across says what is to be done with the values of several processes.
type Across string

// Each process has its own part, or several may tell of the same things.
const (
	Sum Across = "sum" // of what processes did or have
	Max Across = "max" // of what each says of the whole installation, or of what it has come upon: a sum would count it as often as processes know of it
)

// Label is one label of a metric.
type Label struct {
	Name  string
	About string
	// Values are all that there are: anything else is Other. Without them it is Most that bounds their number in a process.
	Values []string
	Most   int
}

// What stands for values that a label does not have.
const (
	Other  = "other"    // of a list
	Others = "(others)" // beyond the bound of a number
)

// Instrument says what a metric is.
type Instrument struct {
	Name   string // as Prometheus shows it
	Kind   Kind
	Unit   string // s, By, or "" for a number
	Help   string
	From   []string // the processes that have it
	Across Across
	Labels []Label
	Bounds []float64 // of a histogram's buckets
	// Client says that Prometheus' own library records it, and not this package.
	Client bool
}

var (
	registered []*Instrument
	meter      = otel.Meter(Scope) // passes on to the process's provider, once there is one
)

// All are the instruments there are, by name.
func All() []Instrument {
	all := make([]Instrument, 0, len(registered))
	for _, i := range registered {
		all = append(all, *i)
	}
	slices.SortFunc(all, func(a, b Instrument) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Known says whether a metric is one of the list.
func Known(name string) bool {
	return slices.ContainsFunc(registered, func(i *Instrument) bool { return i.Name == name })
}

// maxLabels is how many labels an instrument may have.
const maxLabels = 3

type values [maxLabels]string

// series has the labels of an instrument, ready for use: to make a set of attributes costs more than to record.
type series struct {
	about *Instrument
	mu    sync.RWMutex
	known map[values]metric.MeasurementOption
	seen  [maxLabels]map[string]struct{} // of labels without a list
}

func newSeries(i Instrument) series {
	if len(i.Labels) > maxLabels {
		panic("too many labels: " + i.Name)
	}
	about := &i
	registered = append(registered, about)
	return series{about: about, known: map[values]metric.MeasurementOption{}}
}

// of is the option for some values of the labels, in their order.
func (s *series) of(given []string) metric.MeasurementOption {
	var v values
	copy(v[:], given)
	s.mu.RLock()
	o, ok := s.known[v]
	s.mu.RUnlock()
	if ok {
		return o
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	bounded := v
	for n, l := range s.about.Labels {
		bounded[n] = s.bound(n, &l, v[n])
	}
	if o, ok = s.known[bounded]; !ok {
		o = metric.WithAttributeSet(set(s.about.Labels, bounded))
		s.known[bounded] = o
	}
	return o // values beyond the bounds are not kept: whoever makes them up must not fill memory
}

func (s *series) bound(n int, l *Label, value string) string {
	if l.Values != nil {
		if slices.Contains(l.Values, value) {
			return value
		}
		return Other
	}
	if _, ok := s.seen[n][value]; ok {
		return value
	}
	if len(s.seen[n]) >= l.Most {
		return Others
	}
	if s.seen[n] == nil {
		s.seen[n] = map[string]struct{}{}
	}
	s.seen[n][value] = struct{}{}
	return value
}

func set(labels []Label, v values) attribute.Set {
	attributes := make([]attribute.KeyValue, 0, len(labels))
	for n, l := range labels {
		attributes = append(attributes, attribute.String(l.Name, v[n]))
	}
	return attribute.NewSet(attributes...)
}

// Counter counts.
type Counter struct {
	series
	counter metric.Int64Counter
}

func newCounter(i Instrument) *Counter {
	i.Kind = CounterKind
	c := &Counter{series: newSeries(i)}
	c.counter = must(meter.Int64Counter(i.Name, metric.WithUnit(i.Unit), metric.WithDescription(i.Help)))
	return c
}

// Add counts n more, with values for the labels in their order.
func (c *Counter) Add(n int64, values ...string) {
	c.counter.Add(context.Background(), n, c.of(values))
}

// Begin shows 0 for all that may be counted, which the labels have lists of: over a series that begins with its first count, rate() and
// increase() miss that one.
func (c *Counter) Begin() {
	all := [][]string{nil}
	for _, l := range c.about.Labels {
		var longer [][]string
		for _, before := range all {
			for _, value := range l.Values {
				longer = append(longer, append(slices.Clone(before), value))
			}
		}
		all = longer
	}
	for _, values := range all {
		c.Add(0, values...)
	}
}

// Histogram has how often something took how long.
type Histogram struct {
	series
	histogram metric.Float64Histogram
}

func newHistogram(i Instrument) *Histogram {
	i.Kind = HistogramKind
	h := &Histogram{series: newSeries(i)}
	h.histogram = must(meter.Float64Histogram(i.Name, metric.WithUnit(i.Unit), metric.WithDescription(i.Help),
		metric.WithExplicitBucketBoundaries(i.Bounds...)))
	return h
}

// Record adds one value, with values for the labels in their order.
func (h *Histogram) Record(value float64, values ...string) {
	h.histogram.Record(context.Background(), value, h.of(values))
}

// Gauge is read when somebody asks for metrics, see Read.
type Gauge struct {
	about *Instrument
	gauge metric.Float64ObservableGauge
}

func newGauge(i Instrument) *Gauge {
	i.Kind = GaugeKind
	s := newSeries(i)
	return &Gauge{about: s.about, gauge: must(meter.Float64ObservableGauge(i.Name, metric.WithUnit(i.Unit), metric.WithDescription(i.Help)))}
}

// Say says what a gauge is, with values for the labels in their order. Of a label with a bound the first values are shown:
// whoever has more says those first that matter most.
type Say func(g *Gauge, value float64, values ...string)

// Read has gauges read by a function, whenever somebody asks, until end is called. It must answer at once.
func Read(read func(Say), gauges ...*Gauge) (end func()) {
	var observed []metric.Observable
	for _, g := range gauges {
		observed = append(observed, g.gauge)
	}
	registration := must(meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		seen := map[*Gauge]*[maxLabels]map[string]struct{}{}
		read(func(g *Gauge, value float64, given ...string) {
			var v values
			copy(v[:], given)
			if seen[g] == nil {
				seen[g] = &[maxLabels]map[string]struct{}{}
			}
			for n, l := range g.about.Labels {
				one := series{about: g.about, seen: *seen[g]}
				if v[n] = one.bound(n, &l, v[n]); v[n] == Others {
					return
				}
				*seen[g] = one.seen
			}
			o.ObserveFloat64(g.gauge, value, metric.WithAttributeSet(set(g.about.Labels, v)))
		})
		return nil
	}, observed...))
	return func() { _ = registration.Unregister() }
}

// client has an instrument in the list that Prometheus' own library records.
func client(kind Kind, i Instrument) {
	i.Kind, i.Client = kind, true
	registered = append(registered, &i)
}

// must passes on an instrument: the only errors are of names, which are constants.
func must[T any](t T, err error) T {
	if err != nil {
		panic(err)
	}
	return t
}

// OutcomeOf is how something ended, as a label has it.
func OutcomeOf(err error) string {
	switch {
	case err == nil:
		return Done
	case errors.Is(err, context.Canceled):
		return Canceled
	default:
		return string(fail.KindOf(err))
	}
}

// SucceededOf is Done or Failed.
func SucceededOf(err error) string {
	if err != nil {
		return Failed
	}
	return Done
}
