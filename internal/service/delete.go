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
		return s.remove(ctx, change{from: o})
	})
}

// Abandon is Delete for what may have something in a cluster that does not come back, which Delete refuses: a tenant, or the cluster
// itself. It says what is left. As long as the cluster is registered that is deleted when it answers.
func (s *Service) Abandon(ctx context.Context, noun *domain.Noun, key domain.Key) (left []string, err error) {
	err = cas.Do(ctx, func() error {
		o, err := s.store.Get(ctx, noun, key)
		if err != nil {
			return err
		}
		left = nil
		return s.remove(ctx, change{from: o, left: &left})
	})
	return left, err
}

// remove deletes c.from; cas.ErrOvertaken when that is not what is stored any more.
func (s *Service) remove(ctx context.Context, c change) error {
	o := c.from
	noun, key := o.Noun(), domain.KeyOf(o)
	r := rules[noun]
	if err := s.unused(ctx, noun, key); err != nil {
		return err
	}
	if err := r.runBefore(ctx, s, c); err != nil {
		return err
	}
	if err := s.store.Delete(ctx, noun, key, o.Base().Revision); err != nil {
		return cas.Overtaken(err)
	}
	s.changed(ctx, o, nil)
	err := s.unused(ctx, noun, key)
	if err == nil {
		err = r.runAfter(ctx, s, c)
	}
	if err != nil {
		return s.undo(ctx, err, func(ctx context.Context) error { return s.store.Create(ctx, o) })
	}
	if r.gone != nil {
		return r.gone(s, ctx, key)
	}
	return nil
}
