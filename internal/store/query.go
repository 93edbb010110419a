package store

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/version"
)

// maxReply is how many documents are asked for at a time; the default is 101, and every reply costs a
// round trip.
const maxReply = 5000

func byID(id any) bson.D { return bson.D{{Key: "_id", Value: id}} }

// below selects the _id of everything below a key: "/" sorts right before "0".
func below(key string) bson.D {
	return byID(bson.D{{Key: "$gt", Value: key + "/"}, {Key: "$lt", Value: key + "0"}})
}

var sortedByID = bson.D{{Key: "_id", Value: 1}}

// each decodes every document that the filter selects into a T, in the order of _id, one after another.
// The deadline is for each reply, not for all. What cannot be opened, or a newer build has written, is passed over: the error is a domain.Unreadable that names it, so
// that who shows the others can, and who decides by them fails.
func each[T any](ctx context.Context, s *Store, c *mongo.Collection, filter bson.D, make func() T, take func(T), opts ...options.Lister[options.FindOptions]) error {
	return until(ctx, s, c, filter, make, func(v T, _ int) error { take(v); return nil }, opts...)
}

// errEnough of take says that no more is wanted, and that all is well.
var errEnough = errors.New("enough")

// until is each that ends with the first error of take, which is given back as it is. take gets the bytes of a document as it is stored, too.
func until[T any](ctx context.Context, s *Store, c *mongo.Collection, filter bson.D, make func() T, take func(v T, bytes int) error, opts ...options.Lister[options.FindOptions]) error {
	call, cancel := s.deadline(ctx)
	defer func() { cancel() }()
	opts = append([]options.Lister[options.FindOptions]{options.Find().SetSort(sortedByID).SetBatchSize(maxReply)}, opts...)
	cursor, err := c.Find(call, filter, opts...)
	if err != nil {
		return kindOf(err)
	}
	defer s.closeCursor(ctx, cursor)
	var unreadable *domain.Unreadable
	for {
		if cursor.RemainingBatchLength() == 0 {
			cancel()
			call, cancel = s.deadline(ctx)
		}
		if !cursor.Next(call) {
			if err := cursor.Err(); err != nil {
				return kindOf(err)
			}
			return passedOver(unreadable)
		}
		v := make()
		err := s.decode(c.Name(), cursor.Current, v)
		switch {
		case err == nil:
			switch err := take(v, len(cursor.Current)); {
			case errors.Is(err, errEnough):
				return passedOver(unreadable)
			case err != nil:
				return err
			}
		case !errors.Is(err, domain.ErrUnreadable) && !errors.Is(err, version.ErrNewer): // it may be opened later
			return err
		case unreadable == nil:
			unreadable = &domain.Unreadable{Cause: fail.Wrap(err, fail.KindOf(err), "a document of %s cannot be read", c.Name())}
			fallthrough
		default:
			if len(unreadable.IDs) == mostUnreadable {
				return fail.Wrap(err, fail.KindOf(err), "documents of %s cannot be read", c.Name())
			}
			if unreadable.Whole == nil && (errors.Is(err, domain.ErrNoKey) || errors.Is(err, version.ErrNewer)) {
				unreadable.Whole = err
			}
			id, _ := cursor.Current.Lookup("_id").StringValueOK()
			unreadable.IDs = append(unreadable.IDs, id)
		}
	}
}

func passedOver(u *domain.Unreadable) error {
	if u == nil {
		return nil
	}
	return u
}

// mostUnreadable is how many are passed over: where a key is missing that is nearly all.
const mostUnreadable = 1_000

// closeCursor tells the server, if it has more, even when ctx has ended.
func (s *Store) closeCursor(ctx context.Context, c *mongo.Cursor) {
	ctx, cancel := s.deadline(context.WithoutCancel(ctx))
	defer cancel()
	_ = c.Close(ctx) // the server forgets it by itself
}

// all is each, into a slice that is not nil.
func all[T any](ctx context.Context, s *Store, c *mongo.Collection, filter bson.D) ([]T, error) {
	found := []T{}
	err := each(ctx, s, c, filter, func() *T { return new(T) }, func(v *T) { found = append(found, *v) })
	return found, err
}

// findOne decodes the document with the id; NotFound when there is none. Those who ask for the same one at the
// same time, as all who wait for one operation do, share what is read, but not what it is decoded into.
func (s *Store) findOne(ctx context.Context, c *mongo.Collection, id, into any) error {
	raw, err := s.documentReads.Get(ctx, fmt.Sprint(c.Name(), "/", id), func(ctx context.Context) (bson.Raw, error) {
		ctx, cancel := s.deadline(ctx)
		defer cancel()
		return c.FindOne(ctx, byID(id)).Raw()
	})
	if err == nil {
		err = s.decode(c.Name(), raw, into)
	}
	return kindOf(err)
}

// put stores a document in place of what has its _id; first when there was none.
func (s *Store) put(ctx context.Context, c *mongo.Collection, id, document any) (first bool, err error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	r, err := c.ReplaceOne(ctx, byID(id), document, options.Replace().SetUpsert(true))
	if err != nil {
		return false, kindOf(err)
	}
	return r.MatchedCount == 0, nil
}

// replaceIf stores a document in place of what the filter selects; false when that is nothing.
func (s *Store) replaceIf(ctx context.Context, c *mongo.Collection, filter bson.D, document any) (bool, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	r, err := c.ReplaceOne(ctx, filter, document)
	if err != nil {
		return false, kindOf(err)
	}
	return r.MatchedCount == 1, nil
}

// insertOnce inserts a document; false when there is one with its _id for sure.
func (s *Store) insertOnce(ctx context.Context, c *mongo.Collection, document any) (bool, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	_, err := c.InsertOne(ctx, document)
	if duplicate(err) {
		return false, nil
	}
	return err == nil, kindOf(err)
}

// insertMany inserts documents; errTaken for those whose _id is there already, and Timeout for all when that, or that they are inserted, is not confirmed.
func insertMany[T any](ctx context.Context, s *Store, c *mongo.Collection, documents []T) []error {
	outcomes := make([]error, len(documents))
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	_, err := c.InsertMany(ctx, documents, options.InsertMany().SetOrdered(false))
	var bulk mongo.BulkWriteException
	if !errors.As(err, &bulk) || bulk.WriteConcernError != nil {
		for i := range outcomes {
			outcomes[i] = kindOf(err)
		}
		return outcomes
	}
	for _, e := range bulk.WriteErrors {
		if outcomes[e.Index] = kindOf(e.WriteError); mongo.IsDuplicateKeyError(e.WriteError) {
			outcomes[e.Index] = errTaken
		}
	}
	return outcomes
}

// deleteOne removes a document; false when the filter selects none.
func (s *Store) deleteOne(ctx context.Context, c *mongo.Collection, filter bson.D) (bool, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	r, err := c.DeleteOne(ctx, filter)
	if err != nil {
		return false, kindOf(err)
	}
	return r.DeletedCount == 1, nil
}

// maxDelete is how many documents one call names or deletes: the embedded database puts every _id into one
// statement, which takes 32,766 at most.
const maxDelete = 10_000

// deleteRange removes everything that the filter of _id selects.
func (s *Store) deleteRange(ctx context.Context, c *mongo.Collection, filter bson.D) error {
	ids, err := s.ids(ctx, c, filter)
	if err != nil {
		return err
	}
	for len(ids) > 0 {
		n := min(len(ids), maxDelete)
		part := byID(bson.D{{Key: "$gte", Value: ids[0]}, {Key: "$lte", Value: ids[n-1]}})
		if err := s.deleteMany(ctx, c, part); err != nil {
			return err
		}
		ids = ids[n:]
	}
	return nil
}

func (s *Store) deleteMany(ctx context.Context, c *mongo.Collection, filter bson.D) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	_, err := c.DeleteMany(ctx, filter)
	return kindOf(err)
}

// ids are the _id of what the filter selects, sorted.
func (s *Store) ids(ctx context.Context, c *mongo.Collection, filter bson.D) ([]string, error) {
	type key struct {
		ID string `bson:"_id"`
	}
	var ids []string
	err := each(ctx, s, c, filter, func() *key { return &key{} }, func(k *key) { ids = append(ids, k.ID) },
		options.Find().SetProjection(byID(1)))
	return ids, err
}
