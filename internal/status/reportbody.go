package status

import (
	"encoding/json"

	"github.com/drover-io/drover/internal/plan"
)

// maxKept is how many resources a document remembers from counting them, some 150 bytes each.
const maxKept = 50_000

// writeReports writes the status document of what clusters report. The counts come first in it, so every
// report is read before the first byte. A document of ordinary size is then written from what it has
// remembered; one that is larger, or that shows objects, reads the reports once more, and what changed in
// between is counted as it was and shown as it is.
func writeReports(out *stream, f *form, q Query, s *Source, secs []section) {
	if f.sorted {
		secs = byName(secs)
	}
	t := newTally()
	k := keeper{on: q.Output == OutputAll}
	reporters := make([]*reporter, 0, len(secs))
	for i := range secs {
		r := newReporter(q, s, f.report, &secs[i])
		reporters = append(reporters, r)
		err := r.reports(func(rep *report, _ *Observation) error {
			t.add(f.report, rep)
			k.keep(r, rep)
			return nil
		})
		if err != nil {
			out.end(err)
			return
		}
	}
	out.open(f.report.overview(s, t))
	b := reportBody{out: out, f: f.report}
	switch {
	case q.Output == OutputSummary:
	case k.on:
		for _, kept := range k.reports {
			b.report(kept.by, kept.report, nil)
		}
	default:
		b.again(reporters, q.Output)
	}
	b.end()
	out.text("}\n")
}

// keeper remembers reports for as long as there are not too many resources in them.
type keeper struct {
	on        bool
	resources int
	reports   []keptReport
}

type keptReport struct {
	by     *reporter
	report *report
}

func (k *keeper) keep(by *reporter, rep *report) {
	if !k.on {
		return
	}
	if k.resources += len(rep.planned) + len(rep.others); k.resources > maxKept {
		*k = keeper{}
		return
	}
	k.reports = append(k.reports, keptReport{by, rep})
}

// reportBody writes the apps of a document, its one cluster, or the clusters of its one app, report by report.
type reportBody struct {
	out      *stream
	f        *reportForm
	app      *reporter // the one that is being written, nil before the first
	names    [][]byte  // of its resources, encoded without the closing brace
	clusters int       // written of it
}

// again reads and writes all reports; with the objects for OutputDetail.
func (b *reportBody) again(reporters []*reporter, output Output) {
	for _, r := range reporters {
		err := r.reports(func(rep *report, o *Observation) error {
			if output != OutputDetail {
				o = nil
			}
			b.report(r, rep, o)
			return b.out.err // the reader may have gone
		})
		if err != nil {
			b.out.end(err)
			return
		}
	}
}

// report writes one cluster, after the beginning of its app when it is the first of it. It has objects
// when there is an observation to take them from.
func (b *reportBody) report(by *reporter, rep *report, o *Observation) {
	if b.app != by {
		b.begin(by)
	}
	b.out.comma(b.clusters)
	b.clusters++
	b.out.open(b.f.cluster(rep))
	b.out.text(`,"resources":[`)
	written := 0
	rep.entries(b.f, func(place int, e *entry) {
		b.out.comma(written)
		written++
		b.entry(rep, place, e, o)
	})
	b.out.text("]}")
}

func (b *reportBody) begin(by *reporter) {
	switch {
	case b.f.flat:
		b.out.text(`,"clusters":[`)
	case b.f.single:
		b.out.text(`,"cluster":`)
	case b.app == nil:
		b.out.text(`,"apps":[`)
	default:
		b.out.text("]},")
	}
	b.app, b.clusters, b.names = by, 0, make([][]byte, 0, len(by.sec.order))
	for _, i := range by.sec.order {
		b.names = append(b.names, b.name(&by.sec.app.Resources[i]))
	}
	if !b.f.flat && !b.f.single {
		b.out.open(bodyApp{by.sec.app.Name})
		b.out.text(`,"clusters":[`)
	}
}

func (b *reportBody) end() {
	switch {
	case b.f.single && b.app == nil:
		b.out.text(`,"cluster":{}`)
	case b.f.single, b.app == nil:
	case b.f.flat:
		b.out.text("]")
	default:
		b.out.text("]}]")
	}
}

func (b *reportBody) name(id *plan.ResourceID) []byte {
	name, err := opened(resource{GVK: gvkOf(id), Name: id.Name})
	if err != nil {
		b.out.fail(err)
	}
	return name
}

func (b *reportBody) entry(rep *report, place int, e *entry, o *Observation) {
	if place < 0 {
		b.out.bytes(b.name(e.id))
	} else {
		b.out.bytes(b.names[place])
	}
	if o != nil && e.observed {
		b.object(o, e.index)
	}
	state := rep.shown(b.f, e)
	b.out.text(b.f.states[state])
	if state != e.state {
		b.out.text(b.f.last[e.state])
	}
	b.unheard(e)
	if e.message != "" {
		b.out.text(`,"message":`)
		b.out.value(e.message)
	}
	b.out.text("}")
}

// unheard writes, of an entry whose kind cannot be heard, what a cluster says that cannot be.
func (b *reportBody) unheard(e *entry) {
	if e.unheard == nil {
		return
	}
	if e.observed {
		b.out.text(`,"stale":true`)
	}
	if !e.unheard.Since.IsZero() {
		b.out.text(`,"` + b.f.seen + `":`)
		b.out.value(stamp(e.unheard.Since))
	}
	b.out.text(`,"reason":`)
	b.out.value(e.unheard.reason())
}

// object writes the detail of an entry. What is not JSON is left out: one cluster must not spoil the
// document for the others.
func (b *reportBody) object(o *Observation, index int) {
	data, err := o.object(index)
	if err != nil {
		b.out.end(err)
		return
	}
	if encoded, err := json.Marshal(data); err == nil && len(data) > 0 {
		b.out.text(`,"detail":`)
		b.out.bytes(encoded)
	}
}

// writeReportedResources lists what each app has in each cluster, where it has anything. No filter by name
// applies.
func writeReportedResources(out *stream, f *form, q Query, s *Source, secs []section) {
	out.open(f.head(s))
	out.text(`,"` + f.resourcesByApp + `":[`)
	written := 0
	for i := range secs {
		r := newReporter(q, s, f.report, &secs[i])
		err := r.reports(func(rep *report, o *Observation) error {
			list := make([]listed, 0, len(o.Resources))
			rep.entries(f.report, func(_ int, e *entry) {
				if e.observed {
					list = append(list, listed{Name: e.id.Name, GVK: gvkOf(e.id)})
				}
			})
			if len(list) == 0 {
				return nil
			}
			out.comma(written)
			written++
			out.open(f.report.place(secs[i].app.Name, rep))
			out.text(`,"resources":`)
			out.value(list)
			out.text("}")
			return out.err
		})
		if err != nil {
			out.end(err)
			return
		}
	}
	out.text("]}\n")
}
