package door

import (
	"context"
	"errors"
	"time"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
)

// Who is who asks. Unauthorized when nobody has proven that, or what was shown proves nothing.
func Who(ctx context.Context) (caller.Identity, error) {
	who, err := caller.IdentityOf(ctx)
	if err == nil && who.Kind == caller.Anonymous {
		err = fail.New(fail.Unauthorized, "credentials are required: a bearer token or a client certificate")
	}
	return who, err
}

// Identified lets in who has proven who it is. When the proof ends, or is withdrawn, so does what goes on behind the step.
func Identified(ctx context.Context, _ *Request, next Next) error {
	who, err := Who(ctx)
	if err != nil {
		return err
	}
	until := who.Expires
	if who.Kind == caller.Tenant { // its listener ends what goes on when that is over, and stores what has arrived until then
		until = time.Time{}
	}
	standing, leave := While(ctx, until, caller.LookOf(ctx))
	defer leave()
	return Withdrawn(standing, next(standing))
}

// withdrawn is why a context was ended by While.
type withdrawn struct{ error }

// Unwrap is the reason.
func (w withdrawn) Unwrap() error { return w.error }

// While is ctx until a time, zero for none, or until a look says that what ctx stands on is withdrawn, by an error of kind
// Unauthorized, Forbidden or NotFound; that is looked for every policy.Standing, not at all without a look. A look that has
// another error ends nothing: nobody is sent away because the store does not answer. It may take policy.Standing, too, and the
// time ends whatever it takes. leave frees what this takes.
func While(ctx context.Context, until time.Time, look caller.Look) (standing context.Context, leave func()) {
	if until.IsZero() && look == nil {
		return ctx, func() {}
	}
	standing, end := context.WithCancelCause(ctx)
	// Most requests are over before anything is to be looked at: for those there is a timer, and no goroutine.
	var expires, looks *time.Timer
	if !until.IsZero() {
		expires = time.AfterFunc(beat(until), func() { expire(standing, until, end) })
	}
	if look != nil {
		looks = time.AfterFunc(policy.Standing, func() { keepLooking(standing, look, end) })
	}
	return standing, func() {
		for _, waits := range [...]*time.Timer{expires, looks} {
			if waits != nil {
				waits.Stop()
			}
		}
		end(nil)
	}
}

// beat is when it is to be looked at the clock again whether a time is over: now and then, since a clock that was set, or a machine that
// slept, is no reason to go on.
func beat(until time.Time) time.Duration { return min(policy.Standing, time.Until(until)) }

// expire ends what stands at a time.
func expire(standing context.Context, until time.Time, end context.CancelCauseFunc) {
	for time.Now().Before(until) {
		next := time.NewTimer(beat(until))
		select {
		case <-standing.Done():
			next.Stop()
			return
		case <-next.C:
		}
	}
	end(withdrawn{fail.New(fail.Unauthorized, "the credentials have expired")})
}

// keepLooking ends what stands when a look says so. Looks begin every policy.Standing, however long one takes; the first one is now.
func keepLooking(standing context.Context, look caller.Look, end context.CancelCauseFunc) {
	next := time.NewTicker(policy.Standing)
	defer next.Stop()
	for standing.Err() == nil {
		within, cancel := context.WithTimeout(standing, policy.Standing)
		err := panics.Do(within, func() error { return look(within) })
		cancel()
		if fail.Is(err, fail.Unauthorized) || fail.Is(err, fail.Forbidden) || fail.Is(err, fail.NotFound) {
			end(withdrawn{err})
			return
		}
		select {
		case <-standing.Done():
		case <-next.C:
		}
	}
}

// Withdrawn is the error of what was done in a context of While: why that has ended, if it has and that was in the way.
func Withdrawn(standing context.Context, err error) error {
	var why withdrawn
	if err != nil && errors.As(context.Cause(standing), &why) {
		return why.error
	}
	return err
}
