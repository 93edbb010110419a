package service

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/policy"
)

// hanging is a store with a project, which goes when something is stored below it. What is asked of it after that has no answer for a time.
type hanging struct {
	Store
	until  time.Time
	hangs  time.Duration
	stored domain.Object
}

func (h *hanging) answer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, policy.StoreCall)
	defer cancel()
	select {
	case <-ctx.Done():
		return fail.Wrap(ctx.Err(), fail.Timeout, "the database does not answer in time")
	case <-time.After(time.Until(h.until)):
		return nil
	}
}

func (h *hanging) Create(_ context.Context, o domain.Object) error {
	h.stored = o
	return nil
}

func (h *hanging) Delete(ctx context.Context, _ *domain.Noun, _ domain.Key, _ int64) error {
	if err := h.answer(ctx); err != nil {
		return err
	}
	h.stored = nil
	return nil
}

func (h *hanging) Exists(ctx context.Context, n *domain.Noun, _ domain.Key) (bool, error) {
	switch {
	case n != domain.Projects:
		return h.stored != nil, h.answer(ctx)
	case h.stored == nil:
		return true, nil
	}
	h.until = time.Now().Add(h.hangs) // from the second look on
	return false, nil
}

func (*hanging) Form(domain.Object) ([]byte, error) { return nil, nil }

// without is a store without a document: it has no answer for some time, and somebody may put the document back.
type without struct {
	Store
	answers, back time.Time // zero for at once, and for never
	deleted       bool
}

func (w *without) Get(context.Context, *domain.Noun, domain.Key) (domain.Object, error) {
	switch now := time.Now(); {
	case now.Before(w.answers):
		return nil, fail.New(fail.Unavailable, "no primary")
	case w.back.IsZero() || now.Before(w.back) || w.deleted:
		return nil, fail.New(fail.NotFound, "it is gone")
	}
	return brought(), nil
}

func (w *without) Delete(context.Context, *domain.Noun, domain.Key, int64) error {
	w.deleted = true
	return nil
}

func (*without) Exists(context.Context, *domain.Noun, domain.Key) (bool, error) { return false, nil }

// brought is what a refused write has brought.
func brought() domain.Object {
	return &domain.CompositeApp{
		Identity: domain.Identity{Parent: "projects/p"}, Metadata: domain.Metadata{Name: "new"}, Spec: domain.CompositeAppSpec{Version: "v1"},
	}
}

// TestARefusedWriteThatIsGoneIsLookedFor as long as another one's undo may put it back, and no longer: its caller waits for that.
func TestARefusedWriteThatIsGoneIsLookedFor(t *testing.T) {
	for name, c := range map[string]struct {
		answers, back time.Duration // from when it is looked for
		least         time.Duration
		taken         bool
	}{
		"for good":                        {least: policy.UndoneBack},
		"until it is put back":            {back: policy.UndoneBack / 2, least: policy.UndoneBack / 2, taken: true},
		"anew when the database is back":  {answers: policy.UndoneBack, least: 2*policy.UndoneBack - policy.LongestWritten},
		"and put back during that outage": {answers: policy.UndoneBack, back: policy.UndoneBack / 2, least: policy.UndoneBack, taken: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				store := &without{answers: began.Add(c.answers)}
				if c.back > 0 {
					store.back = began.Add(c.back)
				}
				s := New(Deps{Store: store, Now: time.Now})
				all := rule{remains: func(_ change, now domain.Object) (domain.Object, bool) { return nil, now != nil }}
				taken, err := s.takeBack(t.Context(), all, change{to: brought()})
				require.NoError(t, err)
				require.Equal(t, c.taken, taken.object() != nil)
				require.Equal(t, c.taken, store.deleted)
				took := time.Since(began)
				require.GreaterOrEqual(t, took, c.least)
				require.Less(t, took, c.least+3*policy.LongestWritten)
				require.Less(t, took, policy.Undo)
			})
		})
	}
}

// TestARefusalComesThoughTheDatabaseHangs: who is refused is told so in time, and what he has written goes when the database is back.
func TestARefusalComesThoughTheDatabaseHangs(t *testing.T) {
	for name, c := range map[string]struct {
		hangs, takes time.Duration
		kind         fail.Kind
		text         string
		late, stays  bool // it is told after the answer what comes of it, and that it stays
	}{
		"for a moment":      {5 * time.Second, 5 * time.Second, fail.NotFound, `project "p" not found`, false, false},
		"for half a minute": {35 * time.Second, policy.Undo, fail.Unavailable, `project "p" not found; the write is not taken back yet`, true, false},
		"for an hour":       {time.Hour, policy.Undo, fail.Unavailable, `project "p" not found; the write is not taken back yet`, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &hanging{hangs: c.hangs}
				var told []Undone
				s := New(Deps{Store: h, Now: time.Now, Undone: func(ctx context.Context, u Undone) {
					require.NoError(t, ctx.Err())
					require.Equal(t, "r1", caller.RequestID(ctx))
					told = append(told, u)
				}})
				began := time.Now()
				asks, leave := context.WithCancel(caller.WithRequest(t.Context(), &caller.Request{ID: "r1"}))
				err := s.Create(asks, brought())
				require.True(t, fail.Is(err, c.kind), "%v", err)
				require.Contains(t, fail.TextOf(err), c.text)
				require.Equal(t, c.takes, time.Since(began))
				leave()
				require.Empty(t, told)
				time.Sleep(2 * policy.UndoLong) //nolint:forbidigo // of the bubble's time
				synctest.Wait()
				require.Equal(t, c.stays, h.stored != nil, "it is taken back")
				if !c.late {
					require.Empty(t, told, "the answer has said it")
					return
				}
				require.Len(t, told, 1)
				require.Equal(t, domain.Key("projects/p/composite-apps/new/v1"), told[0].Key)
				require.Equal(t, domain.CompositeApps, told[0].Noun)
				require.Equal(t, `project "p" not found`, fail.TextOf(told[0].Refusal))
				require.Equal(t, !c.stays, told[0].Taken)
				require.Equal(t, !c.stays, told[0].Before != nil)
				require.Nil(t, told[0].After)
				require.Equal(t, c.stays, told[0].Err != nil)
			})
		})
	}
}
