package service

import (
	"context"
	"net/url"
	"slices"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/operations"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/rights"
)

// Executions are the runs of operations as the engine knows them.
type Executions interface {
	// Executions reads one page of about limit runs after the one whose token is given, nil for the first: those that go
	// on first, then those that have ended, the last one first. next is the token of the next page, nil at the end.
	Executions(ctx context.Context, f operations.Filter, limit int, after []byte) (found []operations.Execution, next []byte, err error)
	// ExecutionsOf finds the runs of one operation on a context, the last one first. As Executions, it may be late.
	ExecutionsOf(ctx context.Context, s domain.Scope) ([]operations.Execution, error)
	// Execution is the last run of an operation of the owner as it is now. NotFound when the engine does not know it.
	Execution(ctx context.Context, s domain.Scope) (operations.Execution, error)
}

// Journal tells of operations: those that go on, and those that have ended as long as the engine keeps them.
type Journal struct {
	lifecycle  *Lifecycle
	executions Executions
	ui         explain.WebUI
}

// NewJournal makes the queries. ui is where runs can be looked at.
func NewJournal(l *Lifecycle, x Executions, ui explain.WebUI) *Journal {
	return &Journal{lifecycle: l, executions: x, ui: ui}
}

// maxPages bounds what one question reads when a filter lets little pass: the answer may be short then, and says how to go
// on.
const maxPages = 10

// Operations lists operations. Errors: Invalid for a parameter that says nothing; those of engine and store.
func (j *Journal) Operations(ctx context.Context, parameters url.Values) (*operations.List, error) {
	return j.list(ctx, parameters, false)
}

// list is Operations, of those alone that have ended where that is asked for.
func (j *Journal) list(ctx context.Context, parameters url.Values, ended bool) (*operations.List, error) {
	f, err := operations.ParseFilter(parameters, j.lifecycle.now())
	if err != nil {
		return nil, err
	}
	f.Ended = ended
	limit, after, err := pageAsked(parameters, func(string) bool { return true }) // the engine knows its own
	if err != nil {
		return nil, err
	}
	token := []byte(after)
	list := &operations.List{Items: []operations.Operation{}}
	granted, seen, made := rights.Of(ctx), map[string]bool{}, scopesMade{}
	if !narrow(&f, granted) {
		return list, nil
	}
	for range maxPages {
		found, next, err := j.executions.Executions(ctx, f, limit-len(list.Items), token)
		if err != nil {
			return nil, err
		}
		all, recorded, err := j.tell(ctx, found)
		if err != nil {
			return nil, err
		}
		for _, o := range all {
			run := o.Workflow.RunID
			if !f.Matches(&o) || seen[run] {
				continue
			}
			shown, err := j.shows(ctx, granted, &o, recorded[o.Instance] != nil, made)
			if err != nil {
				return nil, err
			}
			if shown {
				seen[run] = true
				list.Items = append(list.Items, o)
			}
		}
		token = next
		if len(token) == 0 || len(list.Items) >= limit {
			break
		}
	}
	list.Continue = goOn(string(token))
	return list, nil
}

// narrow has the engine look for nothing but what may be shown, and says whether anything may: that there is more tells as much as what there is.
func narrow(f *operations.Filter, granted *rights.Granted) bool {
	if f.Owner != "" {
		return granted.Shows(domain.OwnerNoun(f.Owner), f.Owner)
	}
	where := granted.Where(domain.Owners...)
	shown := func(scope domain.Key, every *domain.Noun) bool {
		return slices.Contains(where, scope) || slices.Contains(where, domain.Key(every.Collection))
	}
	switch everywhere := shown("", domain.Projects) && shown("", domain.ClusterProviders); {
	case f.Project != "":
		return shown(domain.Join(domain.Projects.Collection, f.Project), domain.Projects)
	case !everywhere:
		f.Within = where
	}
	return len(where) > 0
}

// shows says whether a caller may see an operation: who may see its owner, and of an owner that nobody knows any more, who may
// see everything there is in the fleet. Who has his right in a scope sees nothing of another one that had its name before.
func (j *Journal) shows(ctx context.Context, granted *rights.Granted, o *operations.Operation, recorded bool, made scopesMade) (bool, error) {
	noun := domain.OwnerNoun(o.Resource)
	switch {
	case noun == nil:
		return granted.Shows(domain.Operations, ""), nil
	case !granted.Shows(noun, o.Resource):
		return false, nil
	case granted.Always(noun, o.Resource):
		return true, nil
	}
	at, there, err := made.of(ctx, j.lifecycle.store, domain.ScopeOf(o.Resource))
	from := at.Truncate(time.Millisecond)
	if recorded { // then it is of this scope, whose records a deletion removes: the engine's clock is another one than that of who made the scope
		from = from.Add(-policy.ClockSkew)
	}
	return there && !o.Started.Before(from), err
}

// scopesMade is when scopes were made that are there, as far as somebody has asked.
type scopesMade map[domain.Key]*time.Time

// of is when a scope was made, and whether it is there.
func (m scopesMade) of(ctx context.Context, s Store, scope domain.Key) (at time.Time, there bool, err error) {
	kept, asked := m[scope]
	if !asked {
		noun := domain.Projects
		if _, ok := noun.Split(scope); !ok {
			noun = domain.ClusterProviders
		}
		o, err := s.Get(ctx, noun, scope)
		if err != nil && !fail.Is(err, fail.NotFound) {
			return at, false, err
		}
		if err == nil {
			kept = &o.Base().Made
		}
		m[scope] = kept
	}
	if kept == nil {
		return at, false, nil
	}
	return *kept, true, nil
}

// tell joins executions with the records of their contexts, which are read at once.
func (j *Journal) tell(ctx context.Context, found []operations.Execution) ([]operations.Operation, map[string]*domain.Instance, error) {
	ids := make([]string, 0, len(found))
	for _, x := range found {
		ids = append(ids, x.ContextID)
	}
	records, err := j.lifecycle.records.InstancesByID(ctx, ids)
	if _, err := domain.UnreadableOf(err); err != nil { // of those, what the engine knows is all
		return nil, nil, err
	}
	byID := make(map[string]*domain.Instance, len(records))
	for _, i := range records {
		byID[i.ContextID] = i
	}
	all := make([]operations.Operation, 0, len(found))
	for _, x := range found {
		all = append(all, operations.Of(x, byID[x.ContextID], j.ui))
	}
	return all, byID, nil
}

// Operation tells of the last run of one operation, also of one that the engine does not keep any more. NotFound when
// nobody knows it.
func (j *Journal) Operation(ctx context.Context, id string) (*operations.Operation, error) {
	s, err := operations.ParseID(id)
	if err != nil {
		return nil, err
	}
	record, err := j.record(ctx, s)
	if err != nil {
		return nil, err
	}
	x, known, err := j.last(ctx, s, record)
	if err != nil {
		return nil, err
	}
	missing := fail.New(fail.NotFound, "operation %q not found: it never was, its owner was deleted, or it was refused some time ago", id)
	if !known {
		return nil, missing
	}
	if !x.Closed.IsZero() && record != nil && !record.Finished(s.Operation) { // it may have recorded its end since
		if record, err = j.record(ctx, s); err != nil {
			return nil, err
		}
	}
	o := operations.Of(x, record, j.ui)
	switch shown, err := j.shows(ctx, rights.Of(ctx), &o, record != nil, scopesMade{}); {
	case err != nil:
		return nil, err
	case !shown:
		return nil, missing
	}
	switch {
	case o.State == operations.Running:
		o.Counts = j.lifecycle.countsNow(ctx, x.Scope)
	case record != nil && record.Operation == s.Operation:
		o.Counts = record.Counts
	}
	return &o, nil
}

// record is that of an operation's context, nil for none.
func (j *Journal) record(ctx context.Context, s domain.Scope) (*domain.Instance, error) {
	records, err := j.lifecycle.records.InstancesByID(ctx, []string{s.ContextID})
	if err != nil || len(records) == 0 {
		return nil, err
	}
	return records[0], nil
}

// last is the last run of an operation, and whether anybody knows it; a zero Run is one that the record alone knows. The engine's list may be late, or not
// answer: a run of a known context that is not in the list is asked for itself, unless it has recorded its end and no other one is listed.
func (j *Journal) last(ctx context.Context, s domain.Scope, record *domain.Instance) (x operations.Execution, known bool, err error) {
	x.Scope = s
	var ran *domain.Ran
	if record != nil {
		ran = record.Last(s.Operation)
	}
	listing, cancel := ctx, func() {}
	if record != nil { // much is known without the list
		listing, cancel = context.WithTimeout(ctx, policy.Describe)
	}
	runs, err := j.executions.ExecutionsOf(listing, s)
	cancel()
	listed := len(runs) > 0
	if ran != nil {
		listed = slices.ContainsFunc(runs, func(x operations.Execution) bool { return x.Run.RunID == ran.RunID }) || len(runs) == 0 && !ran.Ended.IsZero()
	}
	if err == nil && listed || record == nil {
		if len(runs) > 0 {
			x = runs[0]
		}
		return x, ran != nil || len(runs) > 0, err
	}
	of := s
	of.Owner = record.Owner
	now, failed := j.executions.Execution(ctx, of)
	switch unknown := fail.Is(failed, fail.NotFound); {
	case failed == nil:
		return now, true, nil
	case ran != nil && (unknown || !ran.Ended.IsZero()):
		return x, true, nil
	case ran == nil && unknown:
		return x, false, err
	default:
		return x, ran != nil, failed
	}
}
