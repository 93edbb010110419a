package service

import (
	"context"

	"github.com/drover-io/drover/internal/cas"
	"github.com/drover-io/drover/internal/domain"
)

// Delete removes a document. Errors: NotFound; Conflict, naming it, when something is below the document
// or refers to it, or when its state forbids it.
func (s *Service) Delete(ctx context.Context, noun *domain.Noun, key domain.Key) error {
	return cas.Do(ctx, func() error {
		o, err := s.store.Get(ctx, noun, key)
		if err != nil {
			return err
		}
		return s.remove(ctx, o)
	})
}

// remove deletes o; cas.ErrOvertaken when o is not what is stored any more.
func (s *Service) remove(ctx context.Context, o domain.Object) error {
	noun, key := o.Noun(), domain.KeyOf(o)
	r, c := rules[noun], change{from: o}
	if err := s.unused(ctx, noun, key); err != nil {
		return err
	}
	if err := r.runBefore(ctx, s, c); err != nil {
		return err
	}
	if err := s.store.Delete(ctx, noun, key, o.Base().Revision); err != nil {
		return cas.Overtaken(err)
	}
	err := s.unused(ctx, noun, key)
	if err == nil {
		err = r.runAfter(ctx, s, c)
	}
	if err != nil {
		return undo(ctx, err, func(ctx context.Context) error { return s.store.Create(ctx, o) })
	}
	s.changed(ctx, o, nil)
	if r.gone != nil {
		return r.gone(s, ctx, key)
	}
	return nil
}
