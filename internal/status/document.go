// Package status makes the documents of the status API: it reads the query, and writes what is known of a
// resource with a lifecycle and one of its app contexts in the form that the query asks for. The examples
// in testdata/seed decide names, order of members and order of elements. It also rolls counts up to the
// status of an app context. It does no I/O but to the writer that it is given.
package status

import (
	"io"
	"slices"

	"github.com/drover-io/drover/internal/domain"
)

// Write writes the document that q asks for as one line of JSON. Beyond s it holds some 32 KiB and, for one
// app at a time, the identities (for OutputDetail the manifests) of its resources, whatever the number of
// clusters. Of what clusters report it holds the names and states of 50,000 resources at most, and one
// observation at a time.
//
// A query that cannot be answered is Invalid and nothing has been written then. An error of w is returned
// wrapped; a manifest that is not JSON is Internal; in both cases the document is cut off. So it is by an
// error of Source.Observations, which is returned as it is, unless it came before the first counts.
func Write(w io.Writer, q Query, s Source) error {
	s = s.visible()
	out, f := newStream(w), s.form(q.Type)
	if q.List == ListApps {
		writeApps(out, f, &s)
		return out.close()
	}
	secs, err := sections(q, &s)
	if err != nil {
		return err
	}
	if s.Subject == SubjectCloud && s.bare() && q.List == ListNone { // EMCO shows its clusters in lists alone
		secs = nil
	}
	switch {
	case q.List == ListClusters:
		writeClusters(out, f, &s, byName(secs))
	case q.List == ListResources && q.Reported() && !s.bare():
		writeReportedResources(out, f, q, &s, byName(secs))
	case q.List == ListResources:
		writeResources(out, f, &s, byName(secs))
	case q.Reported():
		writeReports(out, f, q, &s, secs)
	default:
		writeStatus(out, f, q, &s, secs)
	}
	return out.close()
}

// Summary counts the rsync resources that q leaves of s, by state as the document of q shows them; states
// without resources are absent. Errors are as for Write.
func Summary(q Query, s Source) (map[domain.ResourceState]int, error) {
	s = s.visible()
	secs, err := sections(q, &s)
	if err != nil {
		return nil, err
	}
	return counts(s.form(q.Type), q, &s, secs), nil
}

// visible is s without what does not count as long as there is no app context, and without the clusters that apps
// have left.
func (s Source) visible() Source {
	if s.ContextID == "" {
		s.Status, s.Counts, s.Apps = domain.ContextNone, nil, nil
	}
	departed := func(c Cluster) bool { return c.departed() }
	var apps []App
	for i, a := range s.Apps {
		if slices.ContainsFunc(a.Clusters, departed) {
			if apps == nil {
				apps = slices.Clone(s.Apps)
			}
			apps[i].Clusters = slices.DeleteFunc(slices.Clone(a.Clusters), departed)
		}
	}
	if apps != nil {
		s.Apps = slices.DeleteFunc(apps, func(a App) bool { return len(a.Clusters) == 0 })
	}
	return s
}

func writeStatus(out *stream, f *form, q Query, s *Source, secs []section) {
	out.open(f.overview(s, counts(f, q, s, secs)))
	if f.sorted {
		secs = byName(secs)
	}
	if q.Output == OutputSummary {
		secs = nil
	}
	f.body(&body{out: out, form: f, output: q.Output, manifest: s.Manifest}, occupied(secs))
	out.text("}\n")
}
