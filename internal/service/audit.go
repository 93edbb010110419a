package service

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/rights"
)

// AuditStore reads audit records.
type AuditStore interface {
	// AuditLines gives take the lines with ids from one on up to before another, "" for no bound, in their order or backwards,
	// until it wants no more.
	AuditLines(ctx context.Context, from, to string, backwards bool, take func(audit.Line) (more bool, err error)) error
	// Get reads one document; NotFound when it is not there.
	Get(ctx context.Context, noun *domain.Noun, key domain.Key) (domain.Object, error)
}

// Audit tells of audit records.
type Audit struct {
	store AuditStore
	seal  func(context.Context) error
	keys  audit.Keys
	now   func() time.Time
}

// NewAudit makes the queries. seal makes a checkpoint of what this process has written; keys are those that sign.
func NewAudit(s AuditStore, seal func(context.Context) error, keys audit.Keys, now func() time.Time) *Audit {
	return &Audit{store: s, seal: seal, keys: keys, now: now}
}

// AuditList is a page of audit records, the newest first.
type AuditList struct {
	Items []audit.Record `json:"items"` // the records of this page
	// Continue asks for the page that follows, "" at the end.
	Continue string `json:"continue,omitempty"`
}

// mostRead bounds what one page reads of records that it leaves out: it may be short then, and says how to go on.
const mostRead = 50_000

// filter is what is asked for of the records below a project, or of all. Who has his right in the project gets those of this one, and none of
// another one that had its name before.
func (a *Audit) filter(ctx context.Context, project domain.Key, parameters url.Values) (audit.Filter, error) {
	f, err := audit.ParseFilter(parameters, string(project), a.now())
	if err != nil || rights.Of(ctx).Always(domain.AuditRecords, project) {
		return f, err
	}
	o, err := a.store.Get(ctx, domain.Projects, project)
	if err != nil {
		return f, err
	}
	f.Since(string(project), o.Base().Made.Add(-policy.ClocksApart), policy.Plain)
	return f, nil
}

// AuditRecords lists the records below a project, or all of them, as the parameters ask for, the newest first. Errors: Invalid for
// a parameter that says nothing; NotFound when there is no such project, for who has his right in it; those of the store.
func (a *Audit) AuditRecords(ctx context.Context, project domain.Key, parameters url.Values) (*AuditList, error) {
	f, err := a.filter(ctx, project, parameters)
	if err != nil {
		return nil, err
	}
	limit, before, err := pageAsked(parameters, func(place string) bool { // one of what is unanswered knows of answers: without these it would show what was answered
		return audit.IsPlace(place) && strings.Contains(place, answersBehind) == (f.Event == audit.Unanswered)
	})
	if err != nil {
		return nil, err
	}
	from, to := bounds(f)
	if f.Event == audit.Unanswered {
		return a.unanswered(ctx, f, limit, from, to, before)
	}
	if before != "" && (to == "" || before < to) {
		to = before
	}
	list, read, last := &AuditList{Items: []audit.Record{}}, 0, ""
	err = a.store.AuditLines(ctx, from, to, true, func(l audit.Line) (bool, error) {
		if len(list.Items) == limit || read == mostRead {
			list.Continue = goOn(last)
			return false, nil
		}
		read++
		last = l.ID
		if is, shown := l.Read(); f.Matches(is) || f.Matches(shown) {
			list.Items = append(list.Items, *shown)
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// mostAnswered is how many answers the next page of unanswered may be told of: those whose beginning is further back. A command takes
// a moment, so they are as many as go on at a time.
const mostAnswered = 200

// answersBehind stands in a place of what is unanswered before the answers that are known, also where there are none.
const answersBehind = " "

// unanswered lists what was begun and has no answer, the newest first: it goes on, or its process has died. It reads backwards from
// the newest record on, also from behind the time that is asked for, since answers come later. A page is short when much was read for
// it; the next one knows which answers were found whose beginnings were not.
func (a *Audit) unanswered(ctx context.Context, f audit.Filter, limit int, from, to, before string) (*AuditList, error) {
	before, known, _ := strings.Cut(before, answersBehind)
	answered := map[string]bool{} // writer and number of what was begun
	for _, place := range strings.Fields(known) {
		answered[place] = true
	}
	f.Event = ""
	list, read, last := &AuditList{Items: []audit.Record{}}, 0, before
	err := a.store.AuditLines(ctx, from, before, true, func(l audit.Line) (bool, error) {
		if (len(list.Items) >= limit || read >= mostRead) && len(answered) <= mostAnswered {
			list.Continue = goOn(last + answersBehind + strings.Join(slices.Sorted(maps.Keys(answered)), " "))
			return false, nil
		}
		read++
		last = l.ID
		switch r, shown := l.Read(); { // what was put into another time answers, and is answered, as what it is
		case r.Event == audit.Answered && r.Begun > 0:
			answered[begunAt(r.Writer, r.Begun)] = true
		case r.Event == audit.Begun && answered[begunAt(r.Writer, r.Number)]:
			delete(answered, begunAt(r.Writer, r.Number))
		case r.Event == audit.Begun && (to == "" || l.ID < to) && f.Matches(r):
			list.Items = append(list.Items, *shown)
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func begunAt(writer string, number int64) string { return fmt.Sprint(writer, "/", number) }

// AuditExport gives take the records as they were written, a line each, in the order in which they are stored, and before one that is not
// in its place a notice of that. Where all of a time are asked for, those of this process are sealed first: `drover audit verify` can check them. With
// nil for take it says whether it would be refused: it looks at one record, whatever is asked for, and writes no seal.
func (a *Audit) AuditExport(ctx context.Context, project domain.Key, parameters url.Values, take func(line []byte) error) error {
	f, err := a.filter(ctx, project, parameters)
	if err != nil {
		return err
	}
	for _, word := range []string{"limit", "continue"} {
		if parameters.Has(word) {
			return fail.Query(word, "an export has no pages; use from and to")
		}
	}
	from, to := bounds(f)
	if take == nil {
		return a.store.AuditLines(ctx, from, to, false, func(audit.Line) (bool, error) { return false, nil })
	}
	if f.All() {
		if err := a.seal(ctx); err != nil {
			return err
		}
	}
	return a.store.AuditLines(ctx, from, to, false, func(l audit.Line) (bool, error) {
		is, shown := l.Read()
		if !f.Matches(is) && !f.Matches(shown) {
			return true, nil
		}
		if is != shown {
			notice, err := shown.Notice()
			if err == nil {
				err = take(notice)
			}
			if err != nil {
				return false, err
			}
		}
		return true, take(l.Text)
	})
}

// AuditKeys are the keys that sign checkpoints.
func (a *Audit) AuditKeys(context.Context) (*audit.Keys, error) { return &a.keys, nil }

// bounds are the ids of the time of a filter.
func bounds(f audit.Filter) (from, to string) {
	if !f.From.IsZero() {
		from = audit.Place(f.From)
	}
	if !f.To.IsZero() {
		to = audit.Place(f.To)
	}
	return from, to
}

// changed notes for the audit log that the request has changed a document; nil stands for none.
func (s *Service) changed(ctx context.Context, from, to domain.Object) {
	if r := caller.RequestOf(ctx); r != nil {
		r.Changed(s.sum(from), s.sum(to))
	}
}

// removes notes for the audit log that a document has gone with what the request deletes, or may have: when that has failed in the middle
// nobody knows.
func (s *Service) removes(ctx context.Context, o domain.Object, err error) {
	if r := caller.RequestOf(ctx); r != nil && !fail.Is(err, fail.NotFound) {
		r.Removes(caller.Removed{Noun: o.Noun().Kind, Key: string(domain.KeyOf(o)), Before: s.sum(o), Err: err})
	}
}

// sum is the SHA-256 of a document as it is stored.
func (s *Service) sum(o domain.Object) []byte {
	if o == nil {
		return nil
	}
	form, err := s.store.Form(o)
	if err != nil { // it was stored in this form
		return nil
	}
	sum := sha256.Sum256(form)
	return sum[:]
}
