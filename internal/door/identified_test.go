package door_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
)

var watched = &door.Request{Verb: door.Watch, Noun: domain.Projects}

// TestNobodyPassesUnnamed: who has shown nothing is refused, and so is who has shown something that proves nothing.
func TestNobodyPassesUnnamed(t *testing.T) {
	d := door.New(door.Parts{}, door.Identified)
	pass := func(ctx context.Context) (passed bool, err error) {
		err = d.Pass(ctx, watched, func(context.Context, door.Service) error {
			passed = true
			return nil
		})
		return passed, err
	}
	refused := fail.New(fail.Unavailable, "the issuer does not answer")
	for name, c := range map[string]struct {
		ctx  context.Context
		want fail.Kind // "" for who passes
	}{
		"no edge has asked":       {t.Context(), fail.Unauthorized},
		"nothing was shown":       {caller.WithIdentity(t.Context(), caller.Identity{}, nil), fail.Unauthorized},
		"it proves nothing":       {caller.WithIdentity(t.Context(), caller.Identity{}, refused), fail.Unavailable},
		"a user":                  {caller.WithIdentity(t.Context(), caller.Identity{Kind: caller.User, Name: "alice"}, nil), ""},
		"nobody is asked":         {caller.WithIdentity(t.Context(), caller.Identity{Kind: caller.Open}, nil), ""},
		"a name that is no proof": {caller.With(t.Context(), "alice"), fail.Unauthorized},
	} {
		passed, err := pass(c.ctx)
		if require.Equal(t, c.want == "", passed, name); passed {
			require.NoError(t, err, name)
			continue
		}
		require.Equal(t, c.want, fail.KindOf(err), name)
	}
}

// TestWhatIsWithdrawnEnds: a stream ends 5 s after the look that finds its proof withdrawn is due, and when the proof's time is
// over; a look that cannot be answered ends nothing.
func TestWhatIsWithdrawnEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := door.New(door.Parts{}, door.Identified)
		stream := func(ctx context.Context) error {
			return d.Pass(ctx, watched, func(ctx context.Context, _ door.Service) error {
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}
		begun := time.Now()
		var answer atomic.Pointer[fail.Error]
		look := func(context.Context) error {
			if err := answer.Load(); err != nil {
				return err
			}
			return nil
		}
		alice := caller.Identity{Kind: caller.User, Name: "alice"}
		time.AfterFunc(11*time.Second, func() { answer.Store(fail.New(fail.Unavailable, "the store does not answer")) })
		time.AfterFunc(21*time.Second, func() { answer.Store(fail.New(fail.Unauthorized, "revoked")) })
		err := stream(caller.WithLook(t.Context(), alice, look))
		require.ErrorContains(t, err, "revoked")
		require.True(t, fail.Is(err, fail.Unauthorized))
		require.Equal(t, 25*time.Second, time.Since(begun))

		begun, alice.Expires = time.Now(), time.Now().Add(7*time.Second)
		err = stream(caller.WithIdentity(t.Context(), alice, nil))
		require.ErrorContains(t, err, "expired")
		require.Equal(t, 7*time.Second, time.Since(begun))

		tenant, waits := caller.Identity{Kind: caller.Tenant, Name: "t", Expires: time.Now().Add(time.Second)}, errors.New("it waits still")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, waits)
		defer cancel()
		require.ErrorIs(t, stream(caller.WithIdentity(ctx, tenant, nil)), waits, "its listener ends it")
	})
}

// TestLooksHaveTheirTime: a look that hangs is given up, and keeps nobody whose proof's time is over.
func TestLooksHaveTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := door.New(door.Parts{}, door.Identified)
		stream := func(ctx context.Context) error {
			return d.Pass(ctx, watched, func(ctx context.Context, _ door.Service) error {
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}
		hangs := func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		alice, begun := caller.Identity{Kind: caller.User, Name: "alice", Expires: time.Now().Add(7 * time.Second)}, time.Now()
		err := stream(caller.WithLook(t.Context(), alice, hangs))
		require.ErrorContains(t, err, "expired")
		require.Equal(t, 7*time.Second, time.Since(begun))

		begun, alice.Expires = time.Now(), time.Time{}
		var looks atomic.Int64
		err = stream(caller.WithLook(t.Context(), alice, func(ctx context.Context) error {
			if looks.Add(1) == 1 {
				return hangs(ctx)
			}
			return fail.New(fail.Unauthorized, "revoked")
		}))
		require.ErrorContains(t, err, "revoked")
		require.Equal(t, 10*time.Second, time.Since(begun))
	})
}

// TestWhatIsDoneStays: what has ended well before its proof was withdrawn has, and the end by the caller is the caller's.
func TestWhatIsDoneStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := door.New(door.Parts{}, door.Identified)
		ctx, leave := context.WithCancel(t.Context())
		ctx = caller.WithIdentity(ctx, caller.Identity{Kind: caller.User, Name: "alice", Expires: time.Now().Add(time.Second)}, nil)
		require.NoError(t, d.Pass(ctx, watched, func(ctx context.Context, _ door.Service) error {
			<-ctx.Done()
			return nil
		}))
		ctx = caller.WithIdentity(ctx, caller.Identity{Kind: caller.User, Name: "alice", Expires: time.Now().Add(time.Minute)}, nil)
		time.AfterFunc(time.Second, leave)
		require.ErrorIs(t, d.Pass(ctx, watched, func(ctx context.Context, _ door.Service) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}), context.Canceled)
	})
}
