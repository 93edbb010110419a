package store

import (
	"context"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/drover-io/drover/internal/cas"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// instance is a record with the revision that guards it.
type instance struct {
	domain.Instance `bson:",inline"`
	Revision        int64 `bson:"revision"`
}

func (s *Store) instances() *mongo.Collection { return s.db.Collection(instances) }

// PutInstance stores the record of a new app context. One of the same owner that is there already stays as
// it is: an activity may do it twice. Conflict when it is another owner's.
func (s *Store) PutInstance(ctx context.Context, in *domain.Instance) error {
	document, err := s.sealedInstance(&instance{Instance: *in, Revision: 1})
	if err != nil {
		return err
	}
	inserted, err := s.insertOnce(ctx, s.instances(), document)
	if err != nil || inserted {
		return err
	}
	have, err := s.Instance(ctx, in.ContextID)
	if err != nil {
		return err
	}
	if have.Owner != in.Owner {
		return fail.New(fail.Conflict, "app context %s belongs to %s already", in.ContextID, have.Owner)
	}
	return nil
}

// DeleteInstance removes the record of a context that did not come about; that there is none is no error.
func (s *Store) DeleteInstance(ctx context.Context, contextID string) error {
	_, err := s.deleteOne(ctx, s.instances(), byID(contextID))
	return err
}

// RetractInstance removes the record of a context that did not come about, as long as may says so of what it reads; false, and nothing is removed, when it
// does not. That there is none is no error. Who changes the record meanwhile has it looked at anew.
func (s *Store) RetractInstance(ctx context.Context, contextID string, may func(*domain.Instance) bool) (bool, error) {
	var done bool
	err := cas.Do(ctx, func() error {
		i, err := s.instance(ctx, contextID)
		if done = fail.Is(err, fail.NotFound); done {
			return nil
		}
		if err != nil || !may(&i.Instance) {
			return err
		}
		if done, err = s.deleteOne(ctx, s.instances(), ofRevision(contextID, i.Revision)); err == nil && !done {
			return cas.ErrOvertaken
		}
		return err
	})
	return done && err == nil, err
}

// Instance reads a record. NotFound names the context.
func (s *Store) Instance(ctx context.Context, contextID string) (*domain.Instance, error) {
	i, err := s.instance(ctx, contextID)
	if err != nil {
		return nil, err
	}
	return &i.Instance, nil
}

func (s *Store) instance(ctx context.Context, contextID string) (*instance, error) {
	i := &instance{}
	err := s.findOne(ctx, s.instances(), contextID, i)
	if fail.Is(err, fail.NotFound) {
		return nil, fail.New(fail.NotFound, "app context %s not found", contextID)
	}
	return i, err
}

// updateTries is how often UpdateInstance tries.
const updateTries = 30

// UpdateInstance changes a record by compare-and-set; change is called again on a newer record when
// somebody else was faster, or an earlier attempt whose answer was lost. Its error is returned as it is, and then
// nothing is written. Unavailable when somebody else always was faster.
func (s *Store) UpdateInstance(ctx context.Context, contextID string, change func(*domain.Instance) error) error {
	tries := 0
	return cas.Do(ctx, func() error {
		tries++
		if tries > updateTries {
			return fail.New(fail.Unavailable, "app context %s is being changed by others; try again", contextID)
		}
		i, err := s.instance(ctx, contextID)
		if err != nil {
			return err
		}
		if err := change(&i.Instance); err != nil {
			return err
		}
		return s.replaceInstance(ctx, i)
	})
}

// sealedInstance is the document of a record.
func (s *Store) sealedInstance(i *instance) (bson.D, error) {
	members, err := marshal(i)
	if err != nil {
		return nil, err
	}
	return s.sealDocument(instances, i.ContextID, i.Revision, members, openOfInstances)
}

func (s *Store) replaceInstance(ctx context.Context, i *instance) error {
	filter := ofRevision(i.ContextID, i.Revision)
	i.Revision++
	document, err := s.sealedInstance(i)
	if err != nil {
		return err
	}
	replaced, err := s.replaceIf(ctx, s.instances(), filter, document)
	if err == nil && !replaced {
		return cas.ErrOvertaken
	}
	return err
}

// ActiveInstances are the records of contexts that may have something in clusters: all but those that are
// terminated, and those that others have taken over from.
func (s *Store) ActiveInstances(ctx context.Context) ([]*domain.Instance, error) {
	found := []*domain.Instance{}
	err := eachActive(ctx, s, func() *domain.Instance { return &domain.Instance{} }, func(i *domain.Instance) { found = append(found, i) })
	return found, err
}

// active selects the records of ActiveInstances. That it says something of _id has MongoDB look at the status in activeIndex, and read no
// other record.
func active() bson.D {
	over := bson.A{domain.ContextTerminated, domain.ContextUpdated}
	return append(byID(bson.D{{Key: "$gte", Value: ""}}), bson.E{Key: "status", Value: bson.D{{Key: "$nin", Value: over}}})
}

// activeIndex has all that is asked for by active.
var activeIndex = []string{"_id", "status", "revision"}

// eachActive is each of the records of ActiveInstances. It has MongoDB go through them in the order of _id, which does not change. By itself MongoDB may take the
// index of status, and sort what it has found: in that order a record that goes back in it meanwhile, as from Instantiating to Instantiated, is missed.
// MongoDB refuses that, before it gives any record, where the index is not there, as when somebody has dropped it since EnsureIndexes: then it is made again.
func eachActive[T any](ctx context.Context, s *Store, make func() T, take func(T), opts ...options.Lister[options.FindOptions]) error {
	find := func() error {
		return each(ctx, s, s.instances(), active(), make, take, append(opts, options.Find().SetHint(indexKeys(activeIndex)))...)
	}
	err := find()
	if !hasWord(err, badValue, "hint") {
		return err
	}
	if err := s.ensureIndex(ctx, instances, activeIndex...); err != nil {
		return fmt.Errorf("make index %v of %s: %w", activeIndex, instances, err)
	}
	return find()
}

// Standing is ActiveInstances for who compares something with all of them: a record is read when it has changed since this Store read it. The
// rest of a record, and whether it is there and active still, is to be read where that counts. Those who ask at the same time share the slice, which
// is not to be changed: each operation asks twice, and what they ask for grows with the instances that there are.
func (s *Store) Standing(ctx context.Context) ([]domain.Standing, error) {
	stand, err := s.standingReads.Get(ctx, "", s.readStanding)
	return stand, kindOf(err)
}

// readStanding goes through them in the order of _id, see eachActive.
func (s *Store) readStanding(ctx context.Context) ([]domain.Standing, error) {
	var stand []domain.Standing
	var changed []string
	err := eachActive(ctx, s, func() *head { return &head{} }, func(h *head) {
		if known, ok := s.standing.Get(h.id); ok && known.revision == h.revision {
			stand = append(stand, known.Standing)
		} else {
			changed = append(changed, h.id)
		}
	}, options.Find().SetProjection(bson.D{{Key: "revision", Value: 1}}))
	if err != nil {
		return nil, err
	}
	for ids := range slices.Chunk(changed, maxDelete) {
		err := each(ctx, s, s.instances(), byID(bson.D{{Key: "$in", Value: ids}}), func() *instance { return &instance{} }, func(i *instance) {
			is := standing{domain.Standing{ContextID: i.ContextID, Owner: i.Owner, Namespace: i.Namespace, Plan: i.Plan}, i.Revision}
			s.standing.Add(i.ContextID, is)
			stand = append(stand, is.Standing)
		})
		if err != nil {
			return nil, err
		}
	}
	return stand, nil
}

// head is what tells whether a record has changed. It is read as it lies there: a decoder takes ten times as long for so little.
type head struct {
	id       string
	revision int64
}

func (h *head) read(document bson.Raw) error {
	id, ok := document.Lookup("_id").StringValueOK()
	if !ok {
		return fail.New(fail.Internal, "a record has no id")
	}
	h.id = id
	h.revision, _ = document.Lookup("revision").AsInt64OK()
	return nil
}

// standing is what was read of a record, as of its revision. A record that was taken back, and made again by the same operation, has the same of each.
type standing struct {
	domain.Standing
	revision int64
}

// standingKept is of how many records it is kept.
const standingKept = 1 << 16

// Instances are the records of all contexts.
func (s *Store) Instances(ctx context.Context) ([]*domain.Instance, error) {
	return s.findInstances(ctx, bson.D{})
}

// InstancesByID are the records of contexts, sorted by id; those that are not there are left out.
func (s *Store) InstancesByID(ctx context.Context, contextIDs []string) ([]*domain.Instance, error) {
	found := []*domain.Instance{}
	var unreadable error
	for ids := range slices.Chunk(contextIDs, maxDelete) {
		some, err := s.findInstances(ctx, byID(bson.D{{Key: "$in", Value: ids}}))
		if _, bad := domain.UnreadableOf(err); bad != nil {
			return nil, bad
		}
		found, unreadable = append(found, some...), domain.And(unreadable, err)
	}
	return found, unreadable
}

// InstancesOf are the records of an owner's contexts, sorted by id.
func (s *Store) InstancesOf(ctx context.Context, owner domain.Key) ([]*domain.Instance, error) {
	return s.findInstances(ctx, bson.D{{Key: "owner", Value: owner}})
}

func (s *Store) findInstances(ctx context.Context, filter bson.D) ([]*domain.Instance, error) {
	found := []*domain.Instance{}
	err := each(ctx, s, s.instances(), filter, func() *domain.Instance { return &domain.Instance{} },
		func(i *domain.Instance) { found = append(found, i) })
	return found, err
}

// DeleteInstances removes the records of contexts, each after its leaves and what clusters said of it: what a crash leaves is found by the
// next call.
func (s *Store) DeleteInstances(ctx context.Context, contextIDs []string) error {
	if err := s.deleteObservations(ctx, contextIDs); err != nil {
		return fmt.Errorf("delete what clusters said: %w", err)
	}
	for _, id := range contextIDs {
		if err := s.deleteRange(ctx, s.leaves(id), below(id)); err != nil {
			return fmt.Errorf("delete leaves of %s: %w", id, err)
		}
		if _, err := s.deleteOne(ctx, s.instances(), byID(id)); err != nil {
			return fmt.Errorf("delete app context %s: %w", id, err)
		}
		s.unread.forget(instances, id)
	}
	// Who watches may have found the record a moment ago. What comes later still is swept.
	if err := s.deleteObservations(ctx, contextIDs); err != nil {
		return fmt.Errorf("delete what clusters said: %w", err)
	}
	return nil
}
