package service

import (
	"context"
	"fmt"

	"github.com/drover-io/drover/internal/cas"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/rights"
)

// Delete removes a document. Errors: NotFound; Conflict, naming it, when something is below the document
// or refers to it, or when its state forbids it. The bindings of a project or a cluster provider go with it.
func (s *Service) Delete(ctx context.Context, noun *domain.Noun, key domain.Key) error {
	_, err := s.Remove(ctx, noun, key)
	return err
}

// Remove is Delete, and says what stays in clusters of an owner whose terminate was stopped or has failed: nobody deletes it any more.
func (s *Service) Remove(ctx context.Context, noun *domain.Noun, key domain.Key) (left []string, err error) {
	left, err = s.removeAs(ctx, noun, key, change{})
	if noun.Bounds && fail.Is(err, fail.NotFound) { // somebody may have died before its bindings were gone
		found, unboundErr := s.unbind(ctx, key)
		if unboundErr != nil || found {
			return nil, unboundErr
		}
	}
	return left, err
}

// removeAs removes a document as a change says that is without it, and says what is left. Of an owner that is gone it does what whoever
// deleted it has not done.
func (s *Service) removeAs(ctx context.Context, noun *domain.Noun, key domain.Key, c change) (left []string, err error) {
	err = cas.Do(ctx, func() error {
		o, err := s.store.Get(ctx, noun, key)
		if err != nil {
			return s.orUnread(ctx, noun, key, err)
		}
		left = nil
		c.from, c.left = o, &left
		return s.orUnrecorded(ctx, o, s.remove(ctx, c))
	})
	if _, owns := noun.New().(domain.Owner); owns && fail.Is(err, fail.NotFound) {
		return s.forgetGone(ctx, key, err)
	}
	return left, err
}

// forgetGone removes what is recorded of the contexts of an owner that is not there, and says what is left in clusters: somebody has died
// before he had done that, or had no answer and deletes it again. Missing is what is said when nothing is recorded.
func (s *Service) forgetGone(ctx context.Context, key domain.Key, missing error) (left []string, err error) {
	left, err = s.instances.Left(ctx, key) // as long as it is recorded
	if err != nil {
		return nil, err
	}
	found, err := s.instances.Forget(ctx, key)
	if err == nil && !found {
		err = missing
	}
	if err != nil {
		return nil, err
	}
	return left, nil
}

// unbind deletes the bindings of a scope that is gone, and says whether there were any. It comes after the scope: who has his rights
// by one of them can delete the scope again until all are gone. What is left gives rights to nothing, and goes before another scope
// gets the name.
func (s *Service) unbind(ctx context.Context, scope domain.Key) (found bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), policy.Undo) // the caller's right may be among them
	defer cancel()
	for _, n := range domain.BindingNouns {
		if n.Parent == nil {
			continue
		}
		if _, ok := n.Parent.Split(scope); !ok {
			continue
		}
		bindings, err := s.store.ListUnder(ctx, n, scope)
		if err != nil {
			return found, err
		}
		if len(bindings) == 0 {
			continue
		}
		// Looked at after the list: what was listed is of one that is gone, then, and not of another one of its name.
		if exists, err := s.store.Exists(ctx, n.Parent, scope); err != nil || exists {
			return found, err
		}
		for _, o := range bindings {
			err := s.store.Delete(ctx, n, domain.KeyOf(o), o.Base().Revision)
			s.removes(ctx, o, err)
			if err != nil && !fail.Is(err, fail.NotFound) {
				return found, err
			}
			found = true
		}
	}
	return found, nil
}

// orphaned deletes what is below a document that is not there yet: it is left of another one of its name, by somebody who has died before
// all of that had gone. Else the new one would have it: a cluster would be selected by the labels of the one before.
func (s *Service) orphaned(ctx context.Context, noun *domain.Noun, key domain.Key) error {
	for _, n := range domain.Nouns {
		if n.Parent != noun {
			continue
		}
		children, err := s.store.List(ctx, n, key)
		if err != nil {
			return err
		}
		if len(children) == 0 {
			continue
		}
		// Looked at after the list: what was listed is of one that is gone, then.
		if exists, err := s.store.Exists(ctx, noun, key); err != nil || exists {
			return err
		}
		for _, o := range children {
			err := s.store.Delete(ctx, n, domain.KeyOf(o), o.Base().Revision)
			if fail.Is(err, fail.NotFound) || fail.Is(err, fail.Conflict) { // it was deleted, or written, for one that is there meanwhile
				continue
			}
			s.removes(ctx, o, err)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Abandon is Delete for what may have something in a cluster that does not come back, which Delete refuses: a tenant, or the cluster
// itself. It says what is left. As long as the cluster is registered that is deleted when it answers.
func (s *Service) Abandon(ctx context.Context, noun *domain.Noun, key domain.Key) (left []string, err error) {
	return s.removeAs(ctx, noun, key, change{abandon: true})
}

// RemoveCluster is Delete of a cluster with its labels, or Abandon. Forbidden when it has labels that the caller may not delete. They go when the
// cluster has gone, whatever becomes of the caller: a refusal leaves all of them. If this process dies in between, who asks again deletes
// what is left. The audit log has each of them.
func (s *Service) RemoveCluster(ctx context.Context, key domain.Key, abandon bool) (left []string, err error) {
	without := domain.ClusterLabels
	if lacks := rights.Of(ctx).Refusal(rights.Request{Verb: "delete", Noun: domain.ClusterLabels, Key: key}); lacks != nil {
		labels, err := s.store.List(ctx, domain.ClusterLabels, key)
		if err != nil {
			return nil, err
		}
		if len(labels) > 0 {
			why := fmt.Sprintf("you have no right to delete %s of %s", domain.ClusterLabels.Kind, domain.ScopeOf(key))
			if fail.Is(lacks, fail.Forbidden) {
				why = fail.TextOf(lacks)
			}
			return nil, fail.New(fail.Forbidden, "cluster %q has labels, which go with it: %s", key.Name(), why)
		}
		without = nil // those that it gets meanwhile keep it
	}
	left, err = s.removeAs(ctx, domain.ClustersNoun, key, change{without: without, abandon: abandon})
	if without == nil || err != nil && !fail.Is(err, fail.NotFound) {
		return left, err
	}
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), policy.Undo)
	defer cancel()
	labels, listErr := s.store.List(whole, domain.ClusterLabels, key)
	if listErr != nil {
		return left, listErr
	}
	if there, existsErr := s.store.Exists(whole, domain.ClustersNoun, key); existsErr != nil || there { // another one of its name, meanwhile
		return left, existsErr
	}
	for _, l := range labels {
		deleteErr := s.store.Delete(whole, domain.ClusterLabels, domain.KeyOf(l), l.Base().Revision)
		s.removes(ctx, l, deleteErr)
		if deleteErr != nil && !fail.Is(deleteErr, fail.NotFound) {
			return left, deleteErr
		}
	}
	if len(labels) > 0 {
		return left, nil
	}
	return left, err
}

// remove deletes c.from; cas.ErrOvertaken when that is not what is stored any more.
func (s *Service) remove(ctx context.Context, c change) error {
	o := c.from
	noun, key := o.Noun(), domain.KeyOf(o)
	r := rules[noun]
	if err := s.unused(ctx, noun, key, c.without); err != nil {
		return err
	}
	below := true // something that is there, as far as is known
	if err := r.runBefore(ctx, s, c); err != nil {
		if below = !fail.Is(err, fail.NotFound) || !s.belowNothing(ctx, noun, key); below {
			return err
		}
	}
	if _, ok := o.(domain.Owner); ok { // as long as it is recorded
		left, err := s.instances.Left(ctx, key)
		if err != nil {
			return err
		}
		*c.left = append(*c.left, left...)
	}
	if err := s.erase(ctx, o); err != nil {
		r.runRefused(ctx, s, c, err)
		return cas.Overtaken(err)
	}
	s.changed(ctx, o, nil)
	err := s.unused(ctx, noun, key, c.without)
	if err == nil && below {
		err = r.runAfter(ctx, s, c)
	}
	if err != nil {
		err = s.restore(ctx, c, err, func(ctx context.Context) error { return s.create(ctx, o) }, func(ctx context.Context) error {
			err := s.erase(ctx, o)
			if err == nil {
				s.changed(ctx, o, nil)
			}
			return err
		})
	}
	if err != nil {
		return err
	}
	if noun.Bounds {
		if _, err := s.unbind(ctx, key); err != nil {
			return err
		}
	}
	if r.gone != nil {
		return r.gone(s, ctx, key)
	}
	return nil
}

// restore answers for a deletion that the second look refuses: it is taken back. It stands, as restore returns no error, when what the document
// was below has gone meanwhile: whoever deleted that has seen nothing below it, and the document would belong to nothing. One that somebody uses
// comes back all the same, until he does not.
func (s *Service) restore(ctx context.Context, c change, refusal error, put, again func(ctx context.Context) error) error {
	noun, key, used := c.from.Noun(), domain.KeyOf(c.from), fail.Is(refusal, fail.Conflict)
	return s.undone(ctx, c, refusal, func(ctx context.Context) (took change, err error) {
		if !used && s.belowNothing(ctx, noun, key) {
			return change{}, nil
		}
		took, err = s.takenBack(ctx, c, refusal, put)
		if used || !s.belowNothing(ctx, noun, key) {
			return took, err
		}
		if err := again(ctx); err != nil && !fail.Is(err, fail.NotFound) && !fail.Is(err, fail.Conflict) { // Conflict: it is somebody else's, who looks, too
			return took, err
		}
		return change{}, nil
	})
}

// belowNothing says whether a document is, or was, below one that is not there: nobody is asked then whether it may go, and nobody has to know of it.
// It asks for who has left, too; where it gets no answer, all is there.
func (s *Service) belowNothing(ctx context.Context, noun *domain.Noun, key domain.Key) bool {
	ctx, cancel := within(ctx, policy.Undo)
	defer cancel()
	for n := noun.Parent; n != nil; n = n.Parent {
		above, ok := n.Above(key)
		if !ok {
			return false
		}
		if there, err := s.store.Exists(ctx, n, above); err != nil || !there {
			return err == nil
		}
	}
	return false
}
