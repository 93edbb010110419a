package service

import (
	"context"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/policy"
)

// Create stores a new document. Errors: Invalid for a bad body; NotFound for a thing that it refers to;
// NotFound or Conflict (EMCO has both) when its parent is not there; Conflict when it exists, or when the
// state of what it belongs to forbids it.
func (s *Service) Create(ctx context.Context, o domain.Object) error {
	if err := validate(o); err != nil {
		return err
	}
	if err := s.parent(ctx, o); err != nil {
		return err
	}
	if err := s.references(ctx, o); err != nil {
		return err
	}
	r, c := rules[o.Noun()], change{to: o}
	if err := r.runAccept(ctx, s, o); err != nil {
		return err
	}
	if err := askBeforeCreate(ctx); err != nil {
		return err
	}
	if err := r.runBefore(ctx, s, c); err != nil {
		return err
	}
	if o.Noun().Bounds { // what one of its name has left
		if _, err := s.unbind(ctx, domain.KeyOf(o)); err != nil {
			return err
		}
	}
	var err error
	if o.Base().Made, err = s.makes(ctx, o); err != nil {
		return err
	}
	if err := s.create(ctx, o); err != nil {
		r.runRefused(ctx, s, c, err)
		return err
	}
	s.changed(ctx, nil, o)
	if err := s.confirm(ctx, r, c); err != nil {
		return s.undo(ctx, c, err, func(ctx context.Context) error { return s.erase(ctx, o) })
	}
	show(o)
	return nil
}

// makes is when o is made: now, or where those of one parent act in their order, after all that are there, whoever has made these. The clock of
// another process may be ahead, and that of this one may have been set back.
func (s *Service) makes(ctx context.Context, o domain.Object) (time.Time, error) {
	now := s.now().UTC()
	if !o.Noun().Ordered {
		return now, nil
	}
	last, err := s.store.LastMade(ctx, o.Noun(), o.Base().Parent, now.Truncate(policy.StoredTime))
	if err != nil || last.IsZero() {
		return now, err
	}
	return last.UTC().Truncate(policy.StoredTime).Add(policy.StoredTime), nil
}

type beforeCreateKey struct{}

// BeforeCreate has whoever is about to create a document ask first, also when a put finds that it is not there. The error of may is the
// answer then. It asks again when it begins anew.
func BeforeCreate(ctx context.Context, may func() error) context.Context {
	return context.WithValue(ctx, beforeCreateKey{}, may)
}

func askBeforeCreate(ctx context.Context) error {
	if may, ok := ctx.Value(beforeCreateKey{}).(func() error); ok {
		return may()
	}
	return nil
}

// Remarks are what the user should know of a document that was just stored as it was sent.
func (s *Service) Remarks(ctx context.Context, o domain.Object) (warnings []string) {
	remark := rules[o.Noun()].remark
	if remark == nil {
		return nil
	}
	warnings, err := remark(s, ctx, o)
	if err != nil { // the write stands
		return append(warnings, "it is stored, but could not be looked at: "+fail.TextOf(err))
	}
	return warnings
}

// confirm looks again, after a write, at what was checked before it.
func (s *Service) confirm(ctx context.Context, r rule, c change) error {
	if err := s.parent(ctx, c.to); err != nil {
		return err
	}
	if err := s.references(ctx, c.to); err != nil {
		return err
	}
	return r.runAfter(ctx, s, c)
}
