package store

import (
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/policy"
)

// Create stores a new document and sets its revision: to one that no document of the key had before, so that who has read one that was deleted
// since does not take the new one for it. Conflict when there is one with its key.
func (s *Store) Create(ctx context.Context, o domain.Object) error {
	o.Base().Revision = firstRevision(o.Base().Made)
	document, err := s.sealed(o)
	if err != nil {
		return err
	}
	inserted, err := s.insertOnce(ctx, s.collection(o.Noun()), document)
	if err == nil && !inserted {
		return fail.New(fail.Conflict, "%s already exists", describe(o.Noun(), domain.KeyOf(o)))
	}
	if err != nil {
		return err
	}
	s.wrote(ctx, o.Noun(), domain.KeyOf(o))
	return nil
}

// firstRevision is that of a document made at a time: no earlier one, so that LastMade finds it, unless the time is one that no clock is to be
// ahead by.
func firstRevision(made time.Time) int64 {
	now := time.Now()
	if ahead := made.Sub(now); ahead > 0 && ahead <= policy.ClockSkew {
		return made.UnixMicro()
	}
	return now.UnixMicro()
}

// LastMade is a time by which all direct children of parent were made that were made at a time, or up to policy.ClockSkew after it; zero where
// none was. It goes by their revisions, so that none is opened.
func (s *Store) LastMade(ctx context.Context, n *domain.Noun, parent domain.Key, from time.Time) (time.Time, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	var last struct {
		Revision int64 `bson:"revision"`
	}
	made := bson.D{{Key: "$gte", Value: from.UnixMicro()}, {Key: "$lte", Value: from.Add(policy.ClockSkew).UnixMicro()}}
	err := kindOf(s.collection(n).FindOne(ctx, bson.D{{Key: "parent", Value: parent}, {Key: "revision", Value: made}},
		options.FindOne().SetSort(bson.D{{Key: "revision", Value: -1}}).SetProjection(bson.D{{Key: "revision", Value: 1}})).Decode(&last))
	switch {
	case fail.Is(err, fail.NotFound):
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, err
	default:
		return time.UnixMicro(last.Revision), nil
	}
}

// Get reads a document. NotFound names it and its parent.
func (s *Store) Get(ctx context.Context, n *domain.Noun, key domain.Key) (domain.Object, error) {
	o := n.New()
	switch err := s.findOne(ctx, s.collection(n), key, o); {
	case fail.Is(err, fail.NotFound):
		return nil, notFound(n, key)
	case err != nil:
		return nil, err
	default:
		return o, nil
	}
}

// Exists says whether there is a document with the key.
func (s *Store) Exists(ctx context.Context, n *domain.Noun, key domain.Key) (bool, error) {
	_, found, err := s.first(ctx, n, byID(key))
	return found, err
}

// Existing are those of the keys of which there is a document.
func (s *Store) Existing(ctx context.Context, n *domain.Noun, keys []domain.Key) (map[domain.Key]bool, error) {
	type id struct {
		Key domain.Key `bson:"_id"`
	}
	existing := map[domain.Key]bool{}
	for some := range slices.Chunk(keys, maxReply) {
		err := each(ctx, s, s.collection(n), byID(bson.D{{Key: "$in", Value: some}}), func() *id { return &id{} }, func(i *id) { existing[i.Key] = true },
			options.Find().SetProjection(byID(1)))
		if err != nil {
			return nil, err
		}
	}
	return existing, nil
}

// List reads the direct children of parent, sorted by key; "" is the parent of what has none. What it
// returns is not nil.
func (s *Store) List(ctx context.Context, n *domain.Noun, parent domain.Key) ([]domain.Object, error) {
	return s.objects(ctx, n, bson.D{{Key: "parent", Value: parent}})
}

// ListUnder reads everything of the noun below prefix, however deep, sorted by key; prefix "" is above
// everything. What it returns is not nil.
func (s *Store) ListUnder(ctx context.Context, n *domain.Noun, prefix domain.Key) ([]domain.Object, error) {
	return s.objects(ctx, n, under(prefix))
}

// Each hands over what ListUnder would read, one document after the other: all of them together may not fit into memory. An error of take ends it,
// and is given back.
func (s *Store) Each(ctx context.Context, n *domain.Noun, prefix domain.Key, take func(domain.Object) error) error {
	return until(ctx, s, s.collection(n), under(prefix), n.New, func(o domain.Object, _ int) error { return take(o) }, options.Find().SetBatchSize(eachReply))
}

// eachReply is how many documents of any size are asked for at a time. MongoDB ends a reply at 16 MiB, the local database at this number.
const eachReply = 200

// Page reads documents of the noun below prefix whose keys come after a key, sorted by key, limit at the most. Prefix "" is
// above everything, and "" comes before every key. It ends with the document that takes more than room, in bytes as it is stored, together with those
// before it; left, what is left of the room, is negative then. What it returns is not nil.
func (s *Store) Page(ctx context.Context, n *domain.Noun, prefix, after domain.Key, limit, room int) (objects []domain.Object, left int, err error) {
	objects = []domain.Object{}
	filter := bson.D{}
	if prefix != "" {
		filter = append(filter, below(string(prefix))...)
	}
	if after != "" {
		filter = bson.D{{Key: "$and", Value: bson.A{filter, byID(bson.D{{Key: "$gt", Value: after}})}}}
	}
	err = until(ctx, s, s.collection(n), filter, n.New, func(o domain.Object, bytes int) error {
		objects = append(objects, o)
		if room -= bytes; room < 0 {
			return errEnough
		}
		return nil
	}, options.Find().SetLimit(int64(limit)))
	return objects, room, err
}

// Count is how many documents of the noun are directly below parent.
func (s *Store) Count(ctx context.Context, n *domain.Noun, parent domain.Key) (int, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	count, err := s.collection(n).CountDocuments(ctx, bson.D{{Key: "parent", Value: parent}})
	return int(count), kindOf(err)
}

func (s *Store) objects(ctx context.Context, n *domain.Noun, filter bson.D) ([]domain.Object, error) {
	objects := []domain.Object{}
	err := each(ctx, s, s.collection(n), filter, n.New, func(o domain.Object) { objects = append(objects, o) })
	return objects, err
}

// Replace writes o if the stored revision is o's, and counts o's revision up. Conflict when it was changed
// meanwhile, NotFound when it is gone; o keeps its revision then.
func (s *Store) Replace(ctx context.Context, o domain.Object) error {
	was, key := o.Base().Revision, domain.KeyOf(o)
	o.Base().Revision++
	replaced, err := s.replace(ctx, o, key, was)
	if replaced {
		s.wrote(ctx, o.Noun(), key)
		return nil
	}
	o.Base().Revision = was
	if err != nil {
		return err
	}
	return s.unmatched(ctx, o.Noun(), key)
}

func (s *Store) replace(ctx context.Context, o domain.Object, key domain.Key, was int64) (bool, error) {
	document, err := s.sealed(o)
	if err != nil {
		return false, err
	}
	return s.replaceIf(ctx, s.collection(o.Noun()), ofRevision(key, was), document)
}

// Delete removes a document of the revision; 0 means any. Errors are as for Replace.
func (s *Store) Delete(ctx context.Context, n *domain.Noun, key domain.Key, revision int64) error {
	filter := byID(key)
	if revision != 0 {
		filter = ofRevision(key, revision)
	}
	deleted, err := s.deleteOne(ctx, s.collection(n), filter)
	if err != nil {
		return err
	}
	if deleted {
		s.wrote(ctx, n, key)
		return nil
	}
	return s.unmatched(ctx, n, key)
}

// ofRevision selects a document as it was read.
func ofRevision(id any, revision int64) bson.D {
	return append(byID(id), bson.E{Key: "revision", Value: revision})
}

// unmatched says why a write met no document.
func (s *Store) unmatched(ctx context.Context, n *domain.Noun, key domain.Key) error {
	found, err := s.Exists(ctx, n, key)
	switch {
	case err != nil:
		return err
	case found:
		return fail.New(fail.Conflict, "%s was changed meanwhile; try again", describe(n, key))
	default:
		return notFound(n, key)
	}
}

// Referring finds a document of the noun that refers to key.
func (s *Store) Referring(ctx context.Context, n *domain.Noun, key domain.Key) (holder domain.Key, found bool, err error) {
	return s.first(ctx, n, bson.D{{Key: "refs", Value: key}})
}

// Holders are the keys of all documents of the noun that refer to key, sorted.
func (s *Store) Holders(ctx context.Context, n *domain.Noun, key domain.Key) ([]domain.Key, error) {
	type id struct {
		Key domain.Key `bson:"_id"`
	}
	var holders []domain.Key
	err := each(ctx, s, s.collection(n), bson.D{{Key: "refs", Value: key}}, func() *id { return &id{} }, func(h *id) { holders = append(holders, h.Key) },
		options.Find().SetProjection(byID(1)))
	return holders, err
}

// GetAll reads those of the documents that are there, sorted by key. What it returns is not nil.
func (s *Store) GetAll(ctx context.Context, n *domain.Noun, keys []domain.Key) ([]domain.Object, error) {
	objects := []domain.Object{}
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	for some := range slices.Chunk(keys, maxReply) {
		found, err := s.objects(ctx, n, byID(bson.D{{Key: "$in", Value: some}}))
		if err != nil {
			return nil, err
		}
		objects = append(objects, found...)
	}
	return objects, nil
}

// FirstUnder finds a document of the noun below prefix.
func (s *Store) FirstUnder(ctx context.Context, n *domain.Noun, prefix domain.Key) (key domain.Key, found bool, err error) {
	return s.first(ctx, n, under(prefix))
}

// first is the first document by key that the filter selects, so that messages are the same each time.
func (s *Store) first(ctx context.Context, n *domain.Noun, filter bson.D) (key domain.Key, found bool, err error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	var id struct {
		Key domain.Key `bson:"_id"`
	}
	err = kindOf(s.collection(n).FindOne(ctx, filter, options.FindOne().SetSort(sortedByID).SetProjection(byID(1))).Decode(&id))
	if fail.Is(err, fail.NotFound) {
		return "", false, nil
	}
	return id.Key, err == nil, err
}

func (s *Store) collection(n *domain.Noun) *mongo.Collection { return s.db.Collection(n.Kind) }

func under(prefix domain.Key) bson.D {
	if prefix == "" {
		return bson.D{}
	}
	return below(string(prefix))
}
