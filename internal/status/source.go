package status

import (
	"slices"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/view"
)

// Source is what is known of a resource with a lifecycle and one of its app contexts (Query.ContextID).
type Source struct {
	Subject Subject
	Project string
	// Of a deployment intent group.
	CompositeApp     string
	Version          string // of the composite app
	CompositeProfile string

	// Warnings are what was asked for and nothing brings about; shown where there are any.
	Warnings []string

	Name    string // of the subject; of a cluster, with that of its provider: "provider+cluster"
	History domain.History

	// Source is of the app context. Without one a document has no status and lists are empty. Observations are looked at
	// where Query.Reported, manifests for OutputDetail only, once for each row, app by app.
	view.Source

	// Counts are those of the whole context, by state. They are used where Query.CountsSuffice; every
	// other answer counts what it shows.
	Counts map[domain.ResourceState]int
}

// shown is s without what does not count as long as there is no app context.
func (s Source) shown() *Source {
	if s.ContextID == "" {
		s.Status, s.Counts, s.Apps = domain.ContextNone, nil, nil
	}
	return &s
}

// Ready says whether everything together is, by a tally of rows that were made with view.Ask.Judged. What has nothing that is judged, such
// as a group of CRDs alone, or a logical cloud of level 0, is as soon as it is instantiated; in EMCO it is from the beginning (reference 4.3).
// What a filter leaves is not where it leaves nothing: it may name what nobody has.
func (s *Source) Ready(t *view.Tally) bool {
	if t.Judged() {
		return t.Ready()
	}
	return s.ContextID != "" && s.Status == domain.ContextInstantiated && (t.Rows() > 0 || s.Bare())
}

// check refuses a filter that names an app which the context does not have. An unknown cluster or resource leaves
// nothing, and so does an app where it is not known which ones there are: what was migrated is another group's, and what was accepted
// a moment ago is not planned yet.
func (s *Source) check(q Query) error {
	if q.Apps == nil || s.ContextID == "" || s.Apps == nil {
		return nil
	}
	names := s.Names()
	for _, name := range q.Apps {
		if !slices.Contains(names, name) {
			return fail.New(fail.Invalid, "Filter app %s not in list of apps for %s", name, subjects[s.Subject].holder(s))
		}
	}
	return nil
}
