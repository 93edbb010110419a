package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/rights"
)

// validate checks the body alone.
func validate(o domain.Object) error {
	r := rules[o.Noun()]
	if r.fill != nil {
		r.fill(o)
	}
	var p fail.Problems
	o.Validate(&p)
	if r.check != nil {
		r.check(o, &p)
	}
	return p.Err()
}

// references checks that what o refers to is there, if it must be, and that the caller may refer to it; NotFound with a field for
// each of which that is not so.
func (s *Service) references(ctx context.Context, o domain.Object) error {
	r, ok := o.(domain.Referrer)
	if !ok {
		return nil
	}
	seen, used := map[domain.Key]bool{}, s.usedBy(ctx, domain.ScopeOf(domain.KeyOf(o)))
	var refs []domain.Reference
	for _, ref := range r.References() {
		if !ref.Noun.Late && !seen[ref.Key] {
			seen[ref.Key] = true
			refs = append(refs, ref)
		}
	}
	var existing map[domain.Key]bool
	if !o.Noun().Ahead {
		var err error
		if existing, err = s.existing(ctx, refs); err != nil {
			return err
		}
	}
	var missing fail.Problems
	for _, ref := range refs {
		found := o.Noun().Ahead || existing[ref.Key]
		if found { // or need not be: whether it is does not show then
			var err error
			if found, err = s.mayName(ctx, o, ref, used); err != nil {
				return err
			}
		}
		if !found {
			missing.Add(ref.Field, "%s not found", describe(ref.Noun, ref.Key))
		}
	}
	unseen, err := s.unseenProviders(ctx, o, used)
	if err != nil {
		return err
	}
	for _, f := range unseen {
		missing.Add(f.Path, "%s", f.Message)
	}
	if fields := missing.Fields(); fields != nil {
		return &fail.Error{Kind: fail.NotFound, Fields: fields}
	}
	return nil
}

// existing are the keys of references to what is there. Those to one noun are looked for together: a placement may name a hundred thousand clusters.
func (s *Service) existing(ctx context.Context, refs []domain.Reference) (map[domain.Key]bool, error) {
	keys := map[*domain.Noun][]domain.Key{}
	for _, ref := range refs {
		keys[ref.Noun] = append(keys[ref.Noun], ref.Key)
	}
	existing := map[domain.Key]bool{}
	for noun, of := range keys {
		if len(of) == 1 {
			found, err := s.store.Exists(ctx, noun, of[0])
			if err != nil {
				return nil, fmt.Errorf("look for %s: %w", of[0], err)
			}
			existing[of[0]] = found
			continue
		}
		found, err := s.store.Existing(ctx, noun, of)
		if err != nil {
			return nil, fmt.Errorf("look for %d documents of %s: %w", len(of), noun.Kind, err)
		}
		maps.Copy(existing, found)
	}
	return existing, nil
}

// parent checks that what o belongs to is there.
func (s *Service) parent(ctx context.Context, o domain.Object) error {
	noun, key := o.Noun().Parent, o.Base().Parent
	if noun == nil {
		return nil
	}
	found, err := s.store.Exists(ctx, noun, key)
	if err != nil {
		return fmt.Errorf("look for %s: %w", key, err)
	}
	if found {
		return nil
	}
	if rules[o.Noun()].orphan == fail.NotFound {
		return fail.New(fail.NotFound, "%s not found", describe(noun, key))
	}
	if group, below := domain.DeploymentIntentGroups.Above(key); below && rules[o.Noun()].ofGroup {
		found, err := s.store.Exists(ctx, domain.DeploymentIntentGroups, group)
		if err != nil {
			return fmt.Errorf("look for %s: %w", group, err)
		}
		if !found {
			return fail.New(fail.NotFound, "%s not found", describe(domain.DeploymentIntentGroups, group))
		}
	}
	return fail.New(fail.Conflict, "Cannot perform requested operation. Parent resource not found: %s", describe(noun, key))
}

// unused checks that nothing is below the document and nothing refers to it, but bindings and documents of another noun, nil for none,
// which go with it.
func (s *Service) unused(ctx context.Context, noun *domain.Noun, key domain.Key, without *domain.Noun) error {
	granted := rights.Of(ctx)
	for _, n := range domain.Nouns {
		if n.Parent == noun && n != without && !slices.Contains(domain.BindingNouns, n) { // which go with their scope
			child, found, err := s.store.FirstUnder(ctx, n, key)
			if err != nil {
				return fmt.Errorf("look for children of %s: %w", key, err)
			}
			if found {
				return fail.New(fail.Conflict, "Cannot delete parent without deleting child references first: %s has %s",
					describe(noun, key), describe(n, child))
			}
		}
	}
	for _, n := range domain.Nouns {
		if _, refers := n.New().(domain.Referrer); !refers {
			continue
		}
		holder, found, err := s.store.Referring(ctx, n, key)
		if err != nil {
			return fmt.Errorf("look for holders of %s: %w", key, err)
		}
		if found && !granted.Shows(n, holder) {
			return fail.New(fail.Conflict, "Cannot delete without deleting or updating referencing resources first: %s is used by something that you may not see",
				describe(noun, key))
		}
		if found {
			return fail.New(fail.Conflict, "Cannot delete without deleting or updating referencing resources first: %s is used by %s (%s)",
				describe(noun, key), describe(n, holder), holder)
		}
	}
	return nil
}

// describe names a document for people: `composite app "ca/v1"`.
func describe(noun *domain.Noun, key domain.Key) string {
	_, name := domain.Cut(noun, key)
	return fmt.Sprintf("%s %q", noun.Title, name)
}

// undo takes a write back. The refusal is the answer; when the taking back fails too, that is part of it, and Unavailable where that has no answer.
// What take writes knows itself again when its answer is lost: a Conflict is somebody else's.
func (s *Service) undo(ctx context.Context, c change, refusal error, take func(ctx context.Context) error) error {
	return s.undone(ctx, c, refusal, func(ctx context.Context) (change, error) { return s.takenBack(ctx, c, refusal, take) })
}

// undone is the answer of what takes a refused write back, with what back has written for that. It goes on when the caller has left: a write that was refused
// must not stay. So it does where the database hangs for longer than the caller can wait (policy.Undo): he is told the refusal, and that the write is still
// there. What comes of it after that is for Deps.Undone.
func (s *Service) undone(ctx context.Context, c change, refusal error, back func(ctx context.Context) (took change, err error)) error {
	type outcome struct {
		took change
		err  error
	}
	whole, cancel := within(ctx, policy.UndoLong)
	answer := make(chan outcome, 1)
	go func() {
		defer cancel()
		took, err := panics.Value(whole, func() (change, error) { return back(whole) })
		answer <- outcome{took, err}
	}()
	wait := time.NewTimer(policy.Undo)
	defer wait.Stop()
	select {
	case o := <-answer:
		return o.err
	case <-wait.C:
		go func() {
			o, late := <-answer, context.WithoutCancel(ctx)
			_ = panics.Do(late, func() error { s.tell(late, s.lateOf(c, refusal, o.took, o.err)); return nil })
		}()
		return fail.New(fail.Unavailable, "%s; the write is not taken back yet, and may stay: look at it before you go on", fail.TextOf(refusal))
	}
}

// Undone is what has become of a refused write whose answer says that it is not taken back yet.
type Undone struct {
	Noun    *domain.Noun
	Key     domain.Key
	Refusal error // why it was refused
	// Taken says that it was there until now. Before and After are then the SHA-256 of the documents before it was taken back, and after that, as they are stored;
	// nil for none. Where neither that nor an error is, there was nothing to take back any more: others have written since, or what it was below has gone.
	Taken         bool
	Before, After []byte
	Err           error // why it is not taken back, and may stay, or is not to its end; nil otherwise
}

// lateOf is what to tell of a write when it was taken back, or was not.
func (s *Service) lateOf(c change, refusal error, took change, err error) Undone {
	u := Undone{Noun: c.object().Noun(), Key: domain.KeyOf(c.object()), Refusal: refusal, Taken: took.object() != nil, Before: s.sum(took.from), After: s.sum(took.to)}
	if !errors.Is(err, refusal) {
		u.Err = err
	}
	return u
}

// takenBack is undo within the time that there is, and says what it has written.
func (s *Service) takenBack(ctx context.Context, c change, refusal error, take func(ctx context.Context) error) (took change, err error) {
	err = untilAnswered(ctx, take)
	r := rules[c.object().Noun()]
	if err == nil {
		took = change{from: c.to, to: c.from}
	}
	if fail.Is(err, fail.NotFound) || fail.Is(err, fail.Conflict) { // changed or gone meanwhile
		took, err = s.takeBack(ctx, r, c)
	}
	if took.object() != nil {
		s.changed(ctx, nil, nil)
	}
	if err == nil {
		if r.dropped != nil {
			if err := r.dropped(s, ctx, c, true); err != nil {
				return took, fail.Wrap(err, kindOfUndo(err), "%s; the write was taken back, which could not be noted", fail.TextOf(refusal))
			}
		}
		return took, refusal
	}
	return took, fail.Wrap(err, kindOfUndo(err), "%s; the write could not be taken back", fail.TextOf(refusal))
}

// kindOfUndo is the kind of the answer when an undo fails: what was asked for has not taken too long, but was refused.
func kindOfUndo(err error) fail.Kind {
	if fail.IsUnanswered(err) {
		return fail.Unavailable
	}
	return fail.KindOf(err)
}

// takeBack takes a refused write back that somebody else has written on, as long as what it has brought is there: to write on top of it, or to count it
// on, is not to look at all of it. He may take his own write back, too, or his deletion, and what was refused would be there again: so it is looked for
// some time (policy.UndoneBack) after it was there last, and no longer than an undo may take. It is judged by the rights of who was refused. So it goes also
// where somebody who may have it has put the same meanwhile. What is put back later, by a process that was frozen between its write and its look, or had no
// answer for so long, stays.
func (s *Service) takeBack(ctx context.Context, r rule, c change) (took change, err error) {
	if r.remains == nil || c.to == nil {
		return change{}, nil // theirs was checked, too
	}
	if _, refused := r.remains(c, c.to); !refused {
		return change{}, nil
	}
	noun, key := c.to.Noun(), domain.KeyOf(c.to)
	wait := pause.Backoff{First: policy.FirstWritten, Most: policy.LongestWritten}
	last := time.Now() // that it was there, or may have been
	for {
		now, unknown := s.store.Get(ctx, noun, key)
		if err = unknown; fail.Is(err, fail.NotFound) {
			err = nil
		}
		if unknown == nil {
			if before, ours := r.remains(c, now); ours {
				took, err = s.takeOther(ctx, r, change{from: c.from, to: now}, before)
				if err == nil {
					return took, nil
				}
			}
		}
		if err != nil {
			last = time.Now()
		}
		if time.Since(last) > policy.UndoneBack || wait.Wait(ctx) != nil {
			return change{}, err
		}
	}
}

// takeOther takes back what somebody else has written, c.to, for what was there before, nil for nothing, when the second look refuses that, too. Where it has
// no answer nothing is written: an outage would take away what somebody was told is stored.
func (s *Service) takeOther(ctx context.Context, r rule, c change, before domain.Object) (took change, err error) {
	refusal := s.confirm(ctx, r, c)
	switch {
	case refusal == nil:
		return change{}, nil
	case fail.KindOf(refusal).Retryable():
		return change{}, refusal
	case before == nil:
		err = s.erase(ctx, c.to)
	default:
		before.Base().Revision = c.to.Base().Revision
		err = s.overwrite(ctx, before)
	}
	if err != nil {
		return change{}, err
	}
	return change{from: c.to, to: before}, nil
}
