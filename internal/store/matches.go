package store

import (
	"context"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// Matches are the records of a tenant, sorted by id.
func (s *Store) Matches(ctx context.Context, tenant string) ([]domain.Match, error) {
	var values [][]byte
	err := s.matches.read(ctx, tenant, func(b *book) {
		for _, id := range slices.Sorted(maps.Keys(b.values)) {
			values = append(values, b.values[id])
		}
	})
	if err != nil {
		return nil, err
	}
	return decodeMatches(values)
}

// MatchesByID are those of a tenant's records that are there with the ids (domain.MatchID), in that order.
func (s *Store) MatchesByID(ctx context.Context, tenant string, ids []string) ([]domain.Match, error) {
	var values [][]byte
	if err := s.matches.read(ctx, tenant, func(b *book) { values = b.some(ids) }); err != nil {
		return nil, err
	}
	return decodeMatches(values)
}

// KnownMatches is Matches as this process knows them: with all that it has read and written, but perhaps not with what others
// have written since. It asks the database for nothing, unless this process knows nothing of the tenant yet.
func (s *Store) KnownMatches(ctx context.Context, tenant string) ([]domain.Match, error) {
	var values [][]byte
	if err := s.matches.known(ctx, tenant, func(b *book) { values = slices.Collect(maps.Values(b.values)) }); err != nil {
		return nil, err
	}
	return decodeMatches(values)
}

// WriteMatches writes records and removes others, all of one tenant and all or none: Conflict when one of them has another
// revision than the one with which it was read (0: none). Those that are written have the next revision then. A record that is
// new begins with one that none before it had: a workload that goes and comes back within moments has another record of the
// same id, and who has read the one before does not write over it.
func (s *Store) WriteMatches(ctx context.Context, tenant string, write, remove []domain.Match) error {
	written := slices.Clone(write)
	puts := make([]put, len(write), len(write)+len(remove))
	encode := func(i int, revision int64) (err error) {
		written[i].Revision = revision
		puts[i].id = written[i].ID()
		puts[i].value, err = encodeValue(&written[i])
		return err
	}
	before := make([]int64, 0, cap(puts))
	for i := range write {
		if err := encode(i, write[i].Revision+1); err != nil {
			return err
		}
		before = append(before, write[i].Revision)
	}
	for i := range remove {
		puts, before = append(puts, put{remove[i].ID(), nil}), append(before, remove[i].Revision)
	}
	err := s.matches.change(ctx, tenant, func(b *book) (edit, error) {
		for i, p := range puts {
			if have := revisionOf(b.values[p.id]); have != before[i] {
				return edit{}, fail.New(fail.Conflict, "match %s was changed meanwhile; try again", p.id)
			}
		}
		for i := range write { // each write is an entry, so that no record has come as far as the number of the next one
			if before[i] == 0 {
				if err := encode(i, b.seq+1); err != nil {
					return edit{}, err
				}
			}
		}
		return edit{puts: puts}, nil
	})
	if err == nil {
		copy(write, written)
	}
	return err
}

// revisionOf is that of an encoded record, 0 of none.
func revisionOf(value []byte) int64 {
	if value == nil {
		return 0
	}
	revision, _ := bson.Raw(value).Lookup("revision").AsInt64OK()
	return revision
}

func decodeMatches(values [][]byte) ([]domain.Match, error) {
	found, err := decodeAll[domain.Match](values)
	if err != nil {
		return nil, err
	}
	matches := make([]domain.Match, len(found))
	for i, m := range found {
		matches[i] = *m
	}
	return matches, nil
}

// some are the values with the ids, in that order; those that are not there are left out.
func (b *book) some(ids []string) [][]byte {
	var values [][]byte
	for _, id := range ids {
		if value, ok := b.values[id]; ok {
			values = append(values, value)
		}
	}
	return values
}

// behindDoc says that something may be due for a tenant.
type behindDoc struct {
	Tenant string        `bson:"_id"`
	Token  bson.ObjectID `bson:"token"` // another one each time
}

func (s *Store) behind() *mongo.Collection { return s.db.Collection(behind) }

// PutBehind notes that something is about to be due for a tenant. It comes before the records that say what, so that who dies
// in between has left a tenant for which nothing is due, and never a record that nobody looks for.
func (s *Store) PutBehind(ctx context.Context, tenant string) error {
	_, err := s.put(ctx, s.behind(), tenant, behindDoc{tenant, bson.NewObjectIDFromTimestamp(s.now())})
	return err
}

// Behind are the tenants for which something may be due, each with a token for EndBehind.
func (s *Store) Behind(ctx context.Context) (map[string]string, error) {
	found, err := all[behindDoc](ctx, s, s.behind(), bson.D{})
	if err != nil {
		return nil, err
	}
	tokens := make(map[string]string, len(found))
	for _, d := range found {
		tokens[d.Tenant] = d.Token.Hex()
	}
	return tokens, nil
}

// BehindToken is the token of one tenant, "" when nothing is due for it. Who is to find out that nothing is due any more reads
// it first.
func (s *Store) BehindToken(ctx context.Context, tenant string) (string, error) {
	var d behindDoc
	err := s.findOne(ctx, s.behind(), tenant, &d)
	if fail.Is(err, fail.NotFound) {
		return "", nil
	}
	return d.Token.Hex(), err
}

// EndBehind notes that nothing is due for a tenant any more, unless something else has become due since the token was read.
func (s *Store) EndBehind(ctx context.Context, tenant, token string) error {
	id, err := bson.ObjectIDFromHex(token)
	if err != nil {
		return nil //nolint:nilerr // "" is the token of one for which nothing is due
	}
	_, err = s.deleteOne(ctx, s.behind(), append(byID(tenant), bson.E{Key: "token", Value: id}))
	return err
}
