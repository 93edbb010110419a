package service

import (
	"bytes"
	"context"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/policy"
)

// write does a write, whatever becomes of its caller meanwhile: one that is broken off may be stored all the same, and then nobody would look at it
// again, nor take it back. Of a write that has an answer which does not say what has become of it, stored says whether it is what is stored now:
// then it was done. What a database does that has not done it by then stays, as does what a process leaves that dies between its write and its look.
func write(ctx context.Context, do func(context.Context) error, stored func(context.Context) (bool, error)) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	whole, cancel := within(ctx, policy.StoreCall)
	err := do(whole)
	cancel()
	// A database may do a write twice whose answer it has lost: the second time is a Conflict with the first one.
	if err == nil || nothingWritten(err) && !fail.Is(err, fail.Conflict) {
		return err
	}
	whole, cancel = within(ctx, policy.Undo)
	defer cancel()
	wait := pause.Backoff{First: policy.FirstWritten, Most: policy.LongestWritten}
	for {
		done, unknown := stored(whole)
		switch {
		case unknown == nil && done:
			return nil
		case unknown == nil, !fail.KindOf(unknown).Retryable(), wait.Wait(whole) != nil:
			return err
		}
	}
}

// within is a context that goes on without its caller, for so long at most, and for no longer than the one of within that it is made of.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if ctx.Value(withinKey{}) == nil {
		ctx = context.WithValue(context.WithoutCancel(ctx), withinKey{}, true)
	}
	return context.WithTimeout(ctx, limit)
}

type withinKey struct{}

// untilAnswered does what the store is asked for again as long as it does not answer, until ctx ends.
func untilAnswered(ctx context.Context, do func(context.Context) error) error {
	wait := pause.Backoff{First: policy.FirstWritten, Most: policy.LongestWritten}
	err := do(ctx)
	for fail.IsUnanswered(err) && wait.Wait(ctx) == nil {
		err = do(ctx)
	}
	return err
}

// nothingWritten says whether the error of a write tells that nothing was written: what has timed out, or has failed in another way, may have been, or may
// be still.
func nothingWritten(err error) bool {
	switch fail.KindOf(err) {
	case fail.Conflict, fail.NotFound, fail.Precondition, fail.Invalid, fail.Malformed, fail.Exhausted:
		return true
	case fail.Unauthorized, fail.Forbidden, fail.Aborted, fail.Unavailable, fail.Timeout, fail.Internal:
	}
	return false
}

// create writes a new document.
func (s *Service) create(ctx context.Context, o domain.Object) error {
	return write(ctx, func(ctx context.Context) error { return s.store.Create(ctx, o) }, func(ctx context.Context) (bool, error) {
		now, err := s.store.Get(ctx, o.Noun(), domain.KeyOf(o))
		if fail.Is(err, fail.NotFound) {
			return false, nil
		}
		return err == nil && now.Base().Revision == o.Base().Revision, err // no other life of the name begins with that
	})
}

// overwrite writes a document over the one of its revision. Nobody else has written what has all of its bytes, or it is the same.
func (s *Service) overwrite(ctx context.Context, o domain.Object) error {
	was := o.Base().Revision
	return write(ctx, func(ctx context.Context) error { return s.store.Replace(ctx, o) }, func(ctx context.Context) (bool, error) {
		now, err := s.store.Get(ctx, o.Noun(), domain.KeyOf(o))
		if fail.Is(err, fail.NotFound) {
			return false, nil
		}
		if err != nil || now.Base().Revision != was+1 {
			return false, err
		}
		o.Base().Revision = was + 1
		if bytes.Equal(s.sum(now), s.sum(o)) {
			return true, nil
		}
		o.Base().Revision = was
		return false, nil
	})
}

// erase deletes a document of its revision.
func (s *Service) erase(ctx context.Context, o domain.Object) error {
	noun, key := o.Noun(), domain.KeyOf(o)
	return s.removal(ctx, noun, key, func(ctx context.Context) error { return s.store.Delete(ctx, noun, key, o.Base().Revision) })
}

// discard deletes a document that cannot be read, as it was found.
func (s *Service) discard(ctx context.Context, noun *domain.Noun, key domain.Key, raw []byte) error {
	return s.removal(ctx, noun, key, func(ctx context.Context) error { return s.store.Discard(ctx, noun, key, raw) })
}

// putBack stores again what was discarded.
func (s *Service) putBack(ctx context.Context, noun *domain.Noun, key domain.Key, raw []byte) error {
	return write(ctx, func(ctx context.Context) error { return s.store.PutBack(ctx, noun, key, raw) }, func(ctx context.Context) (bool, error) {
		now, err := s.store.Unread(ctx, noun, key)
		if fail.Is(err, fail.NotFound) || fail.Is(err, fail.Conflict) { // nothing is there, or what can be read
			return false, nil
		}
		return err == nil && bytes.Equal(now, raw), err
	})
}

// removal is the write of what deletes a document.
func (s *Service) removal(ctx context.Context, noun *domain.Noun, key domain.Key, do func(context.Context) error) error {
	var answer error
	return write(ctx, func(ctx context.Context) error {
		answer = do(ctx)
		return answer
	}, func(ctx context.Context) (bool, error) {
		if fail.Is(answer, fail.Conflict) { // if it is gone since, somebody else has deleted another one
			return false, nil
		}
		there, err := s.store.Exists(ctx, noun, key)
		return err == nil && !there, err
	})
}
