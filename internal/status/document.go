// Package status makes the documents of the status API: it reads the query, and spells the rows of internal/view in
// the form that the query asks for, which is one of EMCO's two. The examples in testdata/seed decide names, order of
// members and order of elements. It also rolls counts up to the status of an app context. It does no I/O but to the
// writer that it is given.
package status

import (
	"bytes"
	"io"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/view"
)

// Write writes the document that q asks for as one line of JSON, if the manifests that it shows are such. Beyond what rows take it holds
// some 32 KiB and, for one app at a time, the names of its resources, whatever the number of clusters; of what
// clusters report up to maxKept more, for OutputAll. Manifests are written as Source.Manifest gives them, and none is kept.
//
// A query that cannot be answered is Invalid and nothing has been written then. An error of w is returned
// wrapped; a manifest that is not JSON is Internal; in both cases the document is cut off. So it is by an
// error of Source.Manifest, or of Source.Observations, which is returned as it is, unless the latter came before the first counts.
func Write(w io.Writer, q Query, source Source) error { return write(newStream(w), q, source) }

func write(out *stream, q Query, source Source) error {
	s := source.shown()
	f := s.form(q.Type)
	if q.List == ListApps {
		writeApps(out, f, s)
		return out.close()
	}
	if err := s.check(q); err != nil {
		return err
	}
	switch {
	case q.List == ListClusters:
		writeClusters(out, f, s, q.Ask())
	case q.List == ListResources && q.Reported() && !s.Bare():
		writeReportedResources(out, f, s, q.Ask())
	case q.List == ListResources:
		writeResources(out, f, s, q.Ask())
	case q.Reported():
		writeReports(out, f, q, s)
	default:
		writeStatus(out, f, q, s)
	}
	return out.close()
}

// Summary counts the rsync resources that q leaves of s, by state as the document of q shows them; states
// without resources are absent. Errors are as for Write.
func Summary(q Query, source Source) (map[domain.ResourceState]int, error) {
	s := source.shown()
	if err := s.check(q); err != nil {
		return nil, err
	}
	return counts(s.form(q.Type), q, s), nil
}

// counts is what a document counts, by state as the form shows it: what the filters leave, or the whole context where
// the source has counted that already.
func counts(f *form, q Query, s *Source) map[domain.ResourceState]int {
	states := s.Counts
	if states == nil || !q.CountsSuffice() {
		states = s.States(q.Ask())
	}
	total := make(map[domain.ResourceState]int, len(states))
	for _, state := range domain.ResourceStates {
		if n := states[state]; n > 0 {
			total[f.shown(state)] += n
		}
	}
	return total
}

func writeStatus(out *stream, f *form, q Query, s *Source) {
	out.head(f.overview(s, counts(f, q, s)))
	if q.Output == OutputSummary {
		f.body(out, q).end()
	} else {
		writeRows(out, f, q, s)
	}
	out.text("}\n")
}

// writeReports writes the status document of what clusters report. The counts come first in it, so every
// report is read before the first byte. The body of a document of ordinary size is made meanwhile, and kept; one that
// is larger, or that shows objects, reads the reports once more, and what changed in between is counted as it was and
// shown as it is.
func writeReports(out *stream, f *form, q Query, s *Source) {
	ask := q.Ask()
	var t view.Tally
	kept := &kept{}
	early, twice := f.body(newStream(kept), q), q.Output == OutputDetail
	if out.parts != nil { // the document is kept in any case
		early.out.parts, kept.unbounded = &parts{}, true
	}
	counting := ask
	counting.Detail = false
	for r, err := range s.Rows(counting) {
		if err != nil {
			out.end(err)
			return
		}
		t.Add(r)
		if q.Output != OutputSummary && !twice && !kept.full {
			early.row(r)
		}
	}
	if q.Output != OutputSummary && !twice {
		early.end()
		if err := early.out.close(); err != nil {
			out.end(err)
			return
		}
	}
	out.head(f.reported(s, &t))
	switch {
	case q.Output == OutputSummary:
		f.body(out, q).end()
	case !twice && !kept.full:
		if out.parts != nil {
			out.parts.insert(early.out.parts, out.written)
		}
		kept.give(out)
	default:
		writeRows(out, f, q, s)
	}
	out.text("}\n")
}

func writeRows(out *stream, f *form, q Query, s *Source) {
	b := f.body(out, q)
	for r, err := range s.Rows(q.Ask()) {
		if err != nil {
			out.end(err)
			return
		}
		if !b.row(r) {
			return
		}
	}
	b.end()
}

// maxKept is how much of a document is kept while its counts are made, in bytes.
const maxKept = 4 << 20

// kept keeps what is written, unless it is too much. The pieces are as small as those of a stream.
type kept struct {
	pieces    [][]byte
	size      int
	unbounded bool
	full      bool // there was too much, and nothing is kept
}

// Write implements io.Writer.
func (h *kept) Write(piece []byte) (int, error) {
	if h.size += len(piece); h.size > maxKept && !h.unbounded {
		h.pieces, h.full = nil, true
	}
	if !h.full {
		h.pieces = append(h.pieces, bytes.Clone(piece))
	}
	return len(piece), nil
}

func (h *kept) give(out *stream) {
	for _, piece := range h.pieces {
		out.bytes(piece)
	}
}
