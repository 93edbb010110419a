package activities

import (
	"context"
	"slices"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/outcome"
)

// Trail takes audit records. trail.Trail is one.
type Trail interface {
	// Write stores a record; Unavailable when that is not possible now.
	Write(ctx context.Context, r audit.Record) (number int64, err error)
}

// audited writes the audit record of an operation's end, before the end is recorded: what cannot be audited is tried again. An
// attempt that ends between the two leaves it to the next one, which writes the record once more.
func (l *Control) audited(ctx context.Context, s domain.Scope, end outcome.Record) error {
	if l.Audit == nil {
		return nil
	}
	i, err := l.Store.Instance(ctx, s.ContextID)
	if err != nil {
		return err
	}
	overtaken := i.Operation == s.Operation && i.Began > s.Began // by one of its kind
	if i.Status == domain.ContextUpdated || end.Write(i, s) == outcome.Said {
		return nil // an earlier attempt has come to its end, or another context has taken over, which is done after that
	}
	r := failed(s.Owner, s.Operation)
	switch {
	case end.Status.Succeeded():
		r.Result = audit.Done
	case end.Stopped:
		r.Result = audit.Stopped
	}
	for _, ran := range i.Runs { // the last one of its kind
		if ran.Operation == s.Operation && !overtaken {
			r.Workflow, r.Who = ran.RunID, audit.WhoOf(ran.RequestedBy)
		}
	}
	_, err = l.Audit.Write(ctx, r)
	return err
}

// auditedBroken writes the audit record of an operation on a context whose workflow has not come to its end: it was terminated, or has
// failed. Nobody else does, as the context's record tells of no end of it. Whoever looks at it once more may write it once more.
func (l *Control) auditedBroken(ctx context.Context, i *domain.Instance, op domain.Operation) error {
	if l.Audit == nil || l.dry {
		return nil
	}
	for _, ran := range slices.Backward(i.Runs) { // the last one of its kind
		if ran.Operation != op {
			continue
		}
		if !ran.Ended.IsZero() {
			return nil
		}
		r := failed(i.Owner, op)
		r.Workflow, r.Who = ran.RunID, audit.WhoOf(ran.RequestedBy)
		_, err := l.Audit.Write(ctx, r)
		return err
	}
	return nil
}

// failed is the audit record of an operation that has ended without success.
func failed(owner domain.Key, op domain.Operation) audit.Record {
	r := audit.Record{Event: audit.Ended, Verb: string(op), Key: string(owner), Result: audit.Failed}
	if n := domain.OwnerNoun(owner); n != nil {
		r.Noun = n.Kind
	}
	return r
}
