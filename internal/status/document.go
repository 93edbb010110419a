// Package status makes the documents of the status API: it reads the query, and writes what is known of a
// deployment intent group and one of its app contexts in the form that the query asks for. The examples
// in testdata/seed decide names, order of members and order of elements. It also rolls counts up to the
// status of an app context. It does no I/O but to the writer that it is given.
package status

import (
	"io"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// Write writes the document that q asks for as one line of JSON. Beyond s it holds some 32 KiB and, for one
// app at a time, the identities (for OutputDetail the manifests) of its resources, whatever the number of
// clusters.
//
// A query that cannot be answered is Invalid and nothing has been written then. An error of w is returned
// wrapped; a manifest that is not JSON is Internal; in both cases the document is cut off.
func Write(w io.Writer, q Query, s Source) error {
	if err := q.answerable(); err != nil {
		return err
	}
	s = s.visible()
	out, f := newStream(w), q.Type.form()
	if q.List == ListApps {
		writeApps(out, f, &s)
		return out.close()
	}
	secs, err := sections(q, &s)
	if err != nil {
		return err
	}
	switch q.List {
	case ListClusters:
		writeClusters(out, f, &s, byName(secs))
	case ListResources:
		writeResources(out, f, &s, byName(secs))
	default:
		writeStatus(out, f, q, &s, secs)
	}
	return out.close()
}

// Summary counts the resources that q leaves of s, by state as the document of q shows them; states
// without resources are absent. Errors are as for Write.
func Summary(q Query, s Source) (map[domain.ResourceState]int, error) {
	if err := q.answerable(); err != nil {
		return nil, err
	}
	s = s.visible()
	secs, err := sections(q, &s)
	if err != nil {
		return nil, err
	}
	return counts(q.Type.form(), q, &s, secs), nil
}

// answerable refuses what needs the state of resources in the clusters, which nothing collects yet.
func (q Query) answerable() error {
	if (q.Type == TypeCluster || q.Type == TypeReady) && (q.List == ListNone || q.List == ListResources) {
		return fail.New(fail.Invalid, "cluster status is not available yet; use type=rsync or status=deployed")
	}
	return nil
}

// visible is s without what does not count as long as there is no app context.
func (s Source) visible() Source {
	if s.ContextID == "" {
		s.Status, s.Counts, s.Apps = domain.ContextNone, nil, nil
	}
	return s
}

func writeStatus(out *stream, f *form, q Query, s *Source, secs []section) {
	out.open(f.overview(s, counts(f, q, s, secs)))
	if f.sorted {
		secs = byName(secs)
	}
	if secs = occupied(secs); q.Output != OutputSummary && len(secs) > 0 {
		b := body{out: out, form: f, output: q.Output, manifest: s.Manifest}
		b.apps(secs)
	}
	out.text("}\n")
}
