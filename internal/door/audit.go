package door

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/span"
)

// Trail takes audit records. trail.Trail is one.
type Trail interface {
	// Write stores a record and says what number it has. With an error and a number it may be stored later.
	Write(ctx context.Context, r audit.Record) (number int64, err error)
	// Later stores a record as soon as that is possible.
	Later(r audit.Record)
	// Admits says whether the record of a refusal is to be stored: of too many at a time it counts the rest.
	Admits(r audit.Record) bool
	// Digest is how records tell a document, by its SHA-256.
	Digest(sum []byte) string
}

// Audited records every command, before it is carried out and with what came of it, every request that is refused, and whoever
// shows for the first time who they are (decision 0051). It is two steps. The outer one stands outside of those that find out who
// asks and what they may do, and so sees what they refuse. The inner one stands behind all others: what comes there is about to
// be carried out, which it records first. A command that cannot be recorded is refused with Unavailable, and nothing is changed.
func Audited(t Trail) (outer, inner Step) {
	a := &audited{trail: t, shown: map[shown]struct{}{}}
	return a.answered, a.begun
}

type audited struct {
	trail Trail

	mu    sync.Mutex
	shown map[shown]struct{} // those that were recorded
}

// shown is a proof of who somebody is.
type shown struct {
	who     string
	by      string
	expires time.Time
}

// mostShown bounds what is kept of who has shown who they are: then all are recorded again.
const mostShown = 10_000

// attempt is what the inner step tells the outer one.
type attempt struct {
	let   bool  // all steps have let it through
	begun int64 // the number of the record that says that it begins
}

type attemptKey struct{}

func (a *audited) answered(ctx context.Context, r *Request, next Next) error {
	at := &attempt{}
	ctx = context.WithValue(ctx, attemptKey{}, at)
	a.login(ctx)
	err := next(ctx)
	if !r.Verb.Recorded() && !refused(err, at.let) {
		return err
	}
	a.removed(ctx)
	record := recordOf(ctx, r, audit.Answered)
	record.Begun, record.Result = at.begun, outcomeOf(err)
	before, after := caller.RequestOf(ctx).Change() // also of what has failed behind it
	record.Before, record.After = a.trail.Digest(before), a.trail.Digest(after)
	if at.begun == 0 && err != nil { // nothing was done
		a.refusal(ctx, record, at.let && r.Verb.Recorded())
		return err
	}
	// Who does not wait for the answer has asked for it all the same.
	number, failed := a.trail.Write(context.WithoutCancel(ctx), record)
	if failed == nil {
		return err
	}
	if number == 0 {
		a.trail.Later(record)
	}
	if err != nil {
		return err // it was refused, or has failed: nobody is told that it went well
	}
	return fail.Wrap(failed, fail.Unavailable, "it was done, but %s, so that it is not recorded yet: look at what is there before you try again", unwritable(failed))
}

// unwritable says, by why a record was not written, while what none can be.
func unwritable(err error) string {
	if errors.Is(err, audit.ErrClock) {
		return "the audit log cannot be written while the API's clock is far behind the database's"
	}
	return "the audit log cannot be written at the moment"
}

// removed records what has gone with what was deleted, as the bindings of a project, or was to go, each by itself. It comes before the answer's own
// record, and is told to be of it by the id of the request.
func (a *audited) removed(ctx context.Context) {
	for _, gone := range caller.RequestOf(ctx).Removed() {
		record := audit.Record{
			Event: audit.Answered, Verb: string(Delete), Noun: gone.Noun, Key: gone.Key, Result: outcomeOf(gone.Err), Before: a.trail.Digest(gone.Before),
		}
		describe(ctx, &record)
		if number, err := a.trail.Write(context.WithoutCancel(ctx), record); err != nil && number == 0 {
			a.trail.Later(record)
		}
	}
}

// refusal records that a request was refused. Nobody waits for that who has not shown who they are, or whose command could not be
// recorded when it was to begin: the store is slow then.
func (a *audited) refusal(ctx context.Context, record audit.Record, unrecorded bool) {
	if !a.trail.Admits(record) {
		return
	}
	if who, err := caller.IdentityOf(ctx); err == nil && who.Kind != caller.Anonymous && !unrecorded {
		if number, err := a.trail.Write(context.WithoutCancel(ctx), record); err == nil || number != 0 {
			return
		}
	}
	a.trail.Later(record)
}

func (a *audited) begun(ctx context.Context, r *Request, next Next) error {
	at, _ := ctx.Value(attemptKey{}).(*attempt)
	if at == nil {
		return fail.New(fail.Internal, "a request is to be carried out that nobody records")
	}
	at.let = true
	if !r.Verb.Recorded() {
		return next(ctx)
	}
	var err error
	// What was recorded has a number, and is answered by it, even if nobody waits any more.
	record := recordOf(ctx, r, audit.Begun)
	if r.Name == "" && r.Called != "" {
		record.Key = string(r.Parent.Child(r.Noun.Collection, r.Called))
	}
	if at.begun, err = a.trail.Write(context.WithoutCancel(ctx), record); err != nil {
		again := "later"
		if errors.Is(err, audit.ErrClock) {
			again = "when the clocks are set right"
		}
		return &fail.Error{
			Kind: fail.Unavailable, Undone: true, RetryAfter: policy.AdmitLater, Cause: err, Message: unwritable(err) + ", so nothing was done; try again " + again,
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return next(ctx)
}

// Undone records, and has the log say, what has become of a refused write that was taken back after its answer (service.Deps): the record of that says that it
// may stay. Who was refused has it told as he would of what a deletion takes along, by the id of the request.
func Undone(t Trail, log *slog.Logger) func(context.Context, service.Undone) {
	return func(ctx context.Context, u service.Undone) {
		to := log.With(IDs(ctx)...)
		attributes := []any{slog.String("resource", string(u.Key)), slog.String("who", caller.Of(ctx)), slog.String("refusal", fail.TextOf(u.Refusal))}
		switch {
		case u.Err != nil && u.Taken:
			to.ErrorContext(ctx, "a refused write was taken back after its answer, and not to its end", append(attributes, slog.Any("error", u.Err))...)
		case u.Err != nil:
			to.ErrorContext(ctx, "a refused write is not taken back, and may stay", append(attributes, slog.Any("error", u.Err))...)
		case u.Taken:
			to.WarnContext(ctx, "a refused write was taken back after its answer", attributes...)
		default:
			to.WarnContext(ctx, "there is nothing to take back any more of a refused write", attributes...)
		}
		if !u.Taken {
			return
		}
		verb := Put
		switch {
		case u.After == nil:
			verb = Delete
		case u.Before == nil:
			verb = Create
		}
		record := audit.Record{
			Event: audit.Answered, Verb: string(verb), Noun: u.Noun.Kind, Key: string(u.Key), Result: audit.Done, Before: t.Digest(u.Before), After: t.Digest(u.After),
		}
		describe(ctx, &record)
		t.Later(record)
	}
}

// login records who shows for the first time who they are. Nobody waits for that: a query needs no record.
func (a *audited) login(ctx context.Context) {
	who, err := caller.IdentityOf(ctx)
	if err != nil || who.Kind == caller.Anonymous || who.Kind == caller.Open {
		return // what proves nothing is in the record of what it was to be for
	}
	proof := shown{who.String(), who.By, who.Expires}
	a.mu.Lock()
	_, known := a.shown[proof]
	if !known {
		if len(a.shown) >= mostShown {
			clear(a.shown)
		}
		a.shown[proof] = struct{}{}
	}
	a.mu.Unlock()
	if known {
		return
	}
	record := audit.Record{Event: audit.Login, Result: audit.Done}
	describe(ctx, &record)
	a.trail.Later(record)
}

// refused says whether a query was not allowed: by a step, or by what it asks for.
func refused(err error, let bool) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	switch fail.KindOf(err) {
	case fail.Unauthorized, fail.Forbidden:
		return true
	case fail.NotFound: // of a step it hides what is there
		return !let
	default:
		return false
	}
}

func outcomeOf(err error) string {
	switch {
	case err == nil:
		return audit.Done
	case errors.Is(err, context.Canceled):
		return audit.Canceled
	default:
		return string(fail.KindOf(err))
	}
}

// recordOf is what is known of a request.
func recordOf(ctx context.Context, r *Request, e audit.Event) audit.Record {
	record := audit.Record{Event: e, Verb: string(r.Verb), Noun: r.Noun.Kind, Key: string(r.Key())}
	describe(ctx, &record)
	return record
}

// describe says who asks, and by which request.
func describe(ctx context.Context, record *audit.Record) {
	who, _ := caller.IdentityOf(ctx)
	record.Who = &audit.Who{Kind: string(who.Kind), Name: who.Name, By: who.By}
	switch who.Kind {
	case caller.Anonymous:
		record.Who.Kind = "anonymous"
	case caller.Open:
		record.Who.Name = caller.Of(ctx) // as it was said
	default: // the name is its own
	}
	if request := caller.RequestOf(ctx); request != nil {
		record.Request, record.From, record.Workflow = request.ID, request.Remote, request.Operation()
	}
	record.Trace = span.TraceOf(ctx)
}
