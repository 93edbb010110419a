package service

import (
	"context"
	"fmt"
	"slices"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/rights"
)

// Get reads one document; NotFound when it is not there.
func (s *Service) Get(ctx context.Context, noun *domain.Noun, key domain.Key) (domain.Object, error) {
	o, err := s.store.Get(ctx, noun, key)
	if err != nil {
		return nil, err
	}
	show(o)
	return o, nil
}

// List reads the documents directly below parent that the caller may see, sorted by key; an empty list is not nil. Where EMCO
// does so, a parent that is not there is NotFound. What cannot be read is passed over, and a domain.Unreadable then names it.
func (s *Service) List(ctx context.Context, noun *domain.Noun, parent domain.Key) ([]domain.Object, error) {
	if err := s.listed(ctx, noun, parent); err != nil {
		return nil, err
	}
	granted := rights.Of(ctx)
	if granted.Nothing() { // who has no right may ask often
		return []domain.Object{}, nil
	}
	list, err := s.store.List(ctx, noun, parent)
	list, err = shownTo(granted, noun, list, err)
	for _, o := range list {
		show(o)
	}
	return list, err
}

// Each hands over what List reads, one document after the other: together they may take many times the memory that they take as they are stored. An error of
// take ends it. A parent is one of the noun's, "" where it has none.
func (s *Service) Each(ctx context.Context, noun *domain.Noun, parent domain.Key, take func(domain.Object) error) error {
	if err := s.listed(ctx, noun, parent); err != nil {
		return err
	}
	granted := rights.Of(ctx)
	if granted.Nothing() {
		return nil
	}
	err := s.store.Each(ctx, noun, parent, func(o domain.Object) error {
		if !granted.Everything() && !granted.Shows(noun, domain.KeyOf(o)) {
			return nil
		}
		show(o)
		return take(o)
	})
	_, err = shownTo(granted, noun, nil, err)
	return err
}

// listed refuses a list below a parent that is not there, where EMCO does, or has no such list.
func (s *Service) listed(ctx context.Context, noun *domain.Noun, parent domain.Key) error {
	if !rules[noun].listOrphan {
		return nil
	}
	found, err := s.store.Exists(ctx, noun.Parent, parent)
	if err != nil {
		return fmt.Errorf("look for %s: %w", parent, err)
	}
	if !found {
		return fail.New(fail.NotFound, "%s not found", describe(noun.Parent, parent))
	}
	return nil
}

// shownTo are those of the documents that a read of many has come to which are in the lists that somebody gets, and what of them cannot be
// read, as a domain.Unreadable.
func shownTo(granted *rights.Granted, noun *domain.Noun, list []domain.Object, err error) ([]domain.Object, error) {
	unreadable, bad := domain.UnreadableOf(err)
	if bad != nil {
		return nil, bad
	}
	if list == nil {
		list = []domain.Object{}
	}
	if !granted.Everything() {
		list = slices.DeleteFunc(list, func(o domain.Object) bool { return !granted.Shows(noun, domain.KeyOf(o)) })
		unreadable = slices.DeleteFunc(slices.Clone(unreadable), func(id string) bool { return !granted.Shows(noun, domain.Key(id)) })
	}
	if len(unreadable) > 0 {
		return list, &domain.Unreadable{IDs: unreadable, Cause: err}
	}
	return list, nil
}
