package service

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/rights"
)

// Discard removes a document that cannot be read, or an owner of whose app contexts the records cannot, with what it may have in clusters left there
// when abandon says so. What depends on what it says is not known: left says what may stay. Errors: NotFound; Conflict for one that can be read, that something is below or refers to,
// whose key is not configured, or that may have something in clusters.
func (s *Service) Discard(ctx context.Context, noun *domain.Noun, key domain.Key, abandon bool) (left []string, err error) {
	// What keeps others from deleting it may be what it says itself: nobody but who may do all answers for that.
	if lacks := rights.Of(ctx).Lacks(domain.RoleAdmin, nil, ""); lacks != "" {
		return nil, fail.New(fail.Forbidden, "to delete what cannot be read takes the role %s of the fleet: you have not %s", domain.RoleAdmin, lacks)
	}
	w, err := s.discards(ctx, noun, key)
	if err != nil {
		return nil, err
	}
	if err := s.unused(ctx, noun, key, nil); err != nil {
		return nil, err
	}
	var stays []string
	if noun.Owner != nil {
		if stays, err = s.instances.Left(ctx, key); err != nil { // before a rule says that it goes with abandon
			return nil, err
		}
	}
	r, c, below := rules[noun], change{from: s.blank(noun, key), left: &left, abandon: abandon}, true
	if err := c.judged(r.runBefore(ctx, s, c)); err != nil {
		if below = !fail.Is(err, fail.NotFound) || !s.belowNothing(ctx, noun, key); below {
			return nil, err
		}
	}
	if len(stays) > 0 && !abandon {
		return nil, fail.New(fail.Conflict, "%s, so that nobody can terminate it: %s; delete it with unreadable=true&abandon=true all the same", w.unread, stays[0])
	}
	left = append(left, stays...)
	remove := func(ctx context.Context) error {
		err := w.remove(ctx)
		if err == nil {
			sum := sha256.Sum256(w.form)
			caller.RequestOf(ctx).Changed(sum[:], nil)
		}
		return err
	}
	if err := remove(ctx); err != nil {
		return nil, err
	}
	err = s.unused(ctx, noun, key, nil)
	if err == nil && below {
		err = c.judged(r.runAfter(ctx, s, c))
	}
	if err != nil {
		err = s.restore(ctx, c, err, w.put, remove)
	}
	if err != nil {
		return nil, err
	}
	if noun.Bounds {
		if _, err := s.unbind(ctx, key); err != nil {
			return nil, err
		}
	}
	if r.gone != nil {
		if err := r.gone(s, ctx, key); err != nil {
			return nil, err
		}
	}
	return append([]string{w.says}, left...), nil
}

// discarded is what goes unread.
type discarded struct {
	form        []byte // as it is stored
	remove, put func(ctx context.Context) error
	unread      string // why nobody can terminate it
	says        string // when it is gone
}

// discards finds what is to be discarded: a document that cannot be read or, of an owner that can, what is recorded of its app contexts. Nobody could ask
// anything of such an owner any more, nor delete it. Errors are those of Store.Unread.
func (s *Service) discards(ctx context.Context, noun *domain.Noun, key domain.Key) (*discarded, error) {
	raw, err := s.store.Unread(ctx, noun, key)
	if err == nil {
		return &discarded{
			form:   raw,
			remove: func(ctx context.Context) error { return s.discard(ctx, noun, key, raw) },
			put:    func(ctx context.Context) error { return s.putBack(ctx, noun, key, raw) },
			unread: fmt.Sprintf("%s cannot be read", describe(noun, key)),
			says:   fmt.Sprintf("%s could not be read, and is gone unread: what it said is lost", describe(noun, key)),
		}, nil
	}
	if !fail.Is(err, fail.Conflict) || noun.Owner == nil {
		return nil, err
	}
	o, readErr := s.store.Get(ctx, noun, key)
	if readErr != nil {
		return nil, err
	}
	if !errors.Is(s.instances.Awaits(ctx, o.(domain.Owner)), domain.ErrUnreadable) {
		return nil, err
	}
	form, err := s.store.Form(o)
	if err != nil {
		return nil, err
	}
	return &discarded{
		form:   form,
		remove: func(ctx context.Context) error { return s.erase(ctx, o) },
		put:    func(ctx context.Context) error { return s.create(ctx, o) },
		unread: fmt.Sprintf("what is recorded of %s cannot be read", describe(noun, key)),
		says:   fmt.Sprintf("what is recorded of %s could not be read, and is gone unread", describe(noun, key)),
	}, nil
}

// judged is what a rule says of what goes, which knows no more of it than its key. What the rule cannot judge, as it cannot read something
// else, goes by who says so: else two that are damaged would hold each other.
func (c change) judged(err error) error {
	if !errors.Is(err, domain.ErrUnreadable) {
		return err
	}
	if !c.abandon {
		return fail.Wrap(err, fail.Conflict, "what depends on %s cannot be judged: %s; delete it with unreadable=true&abandon=true all the same",
			describe(c.from.Noun(), domain.KeyOf(c.from)), fail.TextOf(err))
	}
	*c.left = append(*c.left, "what depends on it cannot be judged: "+fail.TextOf(err))
	return nil
}

// blank is a document that says nothing but its key, and has no history.
func (s *Service) blank(noun *domain.Noun, key domain.Key) domain.Object {
	o := domain.Blank(noun, key)
	if b, ok := o.(*domain.RoleBinding); ok && b.Parent == "" {
		b.Spec.Role = domain.RoleAdmin // it may be the last one that makes somebody that
	}
	if owner, ok := o.(domain.Owner); ok {
		*owner.Track() = domain.NewHistory(s.now())
	}
	return o
}

// orUnrecorded is the error of an owner that cannot be deleted as what is recorded of it cannot be read: it can be all the same, by who says so,
// unless some of it is whole.
func (s *Service) orUnrecorded(ctx context.Context, o domain.Object, err error) error {
	owner, ok := o.(domain.Owner)
	if !ok || !errors.Is(err, domain.ErrUnreadable) || !errors.Is(s.instances.Awaits(ctx, owner), domain.ErrUnreadable) {
		return err
	}
	if _, whole := s.instances.Left(ctx, domain.KeyOf(o)); fail.Is(whole, fail.Conflict) {
		return whole
	}
	return fail.Wrap(err, fail.Conflict, "what is recorded of %s cannot be read, so that nobody can terminate it: who changed it was not the product; "+
		"put it back from a backup, or delete it with unreadable=true&abandon=true, which leaves in clusters what it has there", describe(o.Noun(), domain.KeyOf(o)))
}

// orUnread is the error of what cannot be deleted as it cannot be read: it can be all the same, by who says so.
func (s *Service) orUnread(ctx context.Context, noun *domain.Noun, key domain.Key, err error) error {
	if !errors.Is(err, domain.ErrUnreadable) {
		return err
	}
	switch _, unread := s.store.Unread(ctx, noun, key); {
	case fail.Is(unread, fail.Conflict): // its key is missing
		return unread
	case unread != nil:
		return err
	}
	return fail.Wrap(err, fail.Conflict,
		"%s cannot be read: who changed it was not the product; put it back from a backup, or delete it with unreadable=true, which loses what it says",
		describe(noun, key))
}
