package service

import (
	"bytes"
	"context"

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
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), policy.StoreCall)
	err := do(whole)
	cancel()
	// A database may do a write twice whose answer it has lost: the second time is a Conflict with the first one.
	if err == nil || nothingWritten(err) && !fail.Is(err, fail.Conflict) {
		return err
	}
	whole, cancel = context.WithTimeout(context.WithoutCancel(ctx), policy.Undo)
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
	var answer error
	return write(ctx, func(ctx context.Context) error {
		answer = s.store.Delete(ctx, noun, key, o.Base().Revision)
		return answer
	}, func(ctx context.Context) (bool, error) {
		if fail.Is(answer, fail.Conflict) { // if it is gone since, somebody else has deleted another one
			return false, nil
		}
		there, err := s.store.Exists(ctx, noun, key)
		return err == nil && !there, err
	})
}
