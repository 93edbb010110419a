package service

import (
	"context"

	"github.com/drover-io/drover/internal/cas"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// Put replaces a document, or creates it when it is not there, and says which. Errors are as of Create.
// A PUT has no precondition: when somebody else writes meanwhile, it is done again on top of that.
func (s *Service) Put(ctx context.Context, o domain.Object) (created bool, err error) {
	if err := validate(o); err != nil {
		return false, err
	}
	noun, key, uploaded := o.Noun(), domain.KeyOf(o), o.Base().Uploaded
	if err := rules[noun].runAccept(ctx, s, o); err != nil {
		return false, err
	}
	err = cas.Do(ctx, func() error {
		old, err := s.store.Get(ctx, noun, key)
		switch {
		case fail.Is(err, fail.NotFound):
			o.Base().Uploaded = uploaded
			err := s.Create(ctx, o)
			created = err == nil
			if fail.Is(err, fail.Conflict) {
				if exists, lookErr := s.store.Exists(ctx, noun, key); lookErr == nil && exists {
					return cas.ErrOvertaken
				}
			}
			return err
		case err != nil:
			return err
		}
		return s.replace(ctx, old, o, uploaded)
	})
	return created, err
}

// Replace is Put for a document that must be there: NotFound when it is not.
func (s *Service) Replace(ctx context.Context, o domain.Object) error {
	return s.ReplaceWith(ctx, o, func(domain.Object) {})
}

// ReplaceWith is Replace for who does not say all of a document: complete takes the rest from the one that is replaced.
func (s *Service) ReplaceWith(ctx context.Context, o domain.Object, complete func(old domain.Object)) error {
	if err := validate(o); err != nil {
		return err
	}
	noun, key, uploaded := o.Noun(), domain.KeyOf(o), o.Base().Uploaded
	if err := rules[noun].runAccept(ctx, s, o); err != nil {
		return err
	}
	return cas.Do(ctx, func() error {
		old, err := s.store.Get(ctx, noun, key)
		if err != nil {
			return err
		}
		complete(old)
		return s.replace(ctx, old, o, uploaded)
	})
}

// replace writes o over old, with files of so many bytes; those of old stay when it comes without. cas.ErrOvertaken when old is not what is stored
// any more.
func (s *Service) replace(ctx context.Context, old, o domain.Object, uploaded int64) error {
	if err := s.references(ctx, o); err != nil {
		return err
	}
	*o.Base() = *old.Base()
	if uploaded > 0 {
		o.Base().Uploaded = uploaded
	}
	r, c := rules[o.Noun()], change{from: old, to: o}
	if err := r.runBefore(ctx, s, c); err != nil {
		return err
	}
	err := s.overwrite(ctx, o)
	if err != nil {
		r.runRefused(ctx, s, c, err)
	}
	if fail.Is(err, fail.NotFound) {
		return cas.ErrOvertaken
	}
	if err != nil {
		return cas.Overtaken(err)
	}
	s.changed(ctx, old, o)
	if err := s.confirm(ctx, r, c); err != nil {
		return s.undo(ctx, c, err, func(ctx context.Context) error {
			old.Base().Revision = o.Base().Revision
			return s.overwrite(ctx, old)
		})
	}
	show(o)
	return nil
}
