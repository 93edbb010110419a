package store

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/drover-io/drover/internal/domain"
)

// Collection is one that a Store may write to.
type Collection struct {
	Name string
	// Indexes are the members of documents that queries use beside _id. Leaves and blobs, for example, are only asked for by _id and
	// ranges of it.
	Indexes []string
	// Covering are indexes of several members each, which have all that some query asks for, so that no document is read for it, however long it is:
	// _id and numbers of Beside.
	Covering [][]string
}

// Collections are all that a Store may ever write to, but for those of audit records, of which each day has one. Databases make a
// collection when something is first put into it; who runs one that has everybody wait for that makes them in advance.
func Collections() []Collection {
	all := []Collection{
		{Name: instances, Indexes: []string{"owner", "status"}, Covering: [][]string{activeIndex}}, {Name: homes, Indexes: []string{"tenant"}}, {Name: sessions, Indexes: []string{"expires"}}, {Name: certificates, Indexes: []string{"expires"}},
	}
	for _, n := range domain.Nouns {
		c := Collection{Name: n.Kind, Indexes: []string{"parent"}}
		if _, refers := n.New().(domain.Referrer); refers {
			c.Indexes = append(c.Indexes, "refs")
		}
		if ofProjects(n) {
			c.Covering = [][]string{{"_id", sizeMember, uploadedMember}}
		}
		all = append(all, c)
	}
	for _, name := range []string{contacts, watches, pulses, versions, probes, renewals, streams, settings, behind, sealsName, auditWriters, layouts} {
		all = append(all, Collection{Name: name})
	}
	for _, name := range slices.Sorted(maps.Keys(divided)) {
		for n := range divided[name] {
			all = append(all, Collection{Name: partName(name, n)})
		}
	}
	return all
}

// Beside are the members that a Collection may have beside _id in an index: whole numbers of 64 bits wherever there are such members.
func Beside() []string { return []string{sizeMember, uploadedMember, "revision"} }

// Texts are the indexed members that are texts wherever there are such members, and by each of which alone queries ask. (Those of
// references are lists, those of expiry times.)
func Texts() []string { return []string{"parent", "owner", "status", "tenant"} }

// Plain are what names of collections begin with of which all ids have nothing but letters, digits and .-/_.
func Plain() []string { return []string{auditPrefix} }

// Lists are the members of documents that are lists of texts, wherever there are such members.
func Lists() []string { return []string{"refs"} }

// EnsureIndexes makes the indexes of Collections. Doing it again changes nothing.
func (s *Store) EnsureIndexes(ctx context.Context) error {
	for _, c := range Collections() {
		if err := s.ensureIndexes(ctx, c.Name, c.Indexes...); err != nil {
			return err
		}
		for _, members := range c.Covering {
			if err := s.ensureIndex(ctx, c.Name, members...); err != nil {
				return fmt.Errorf("make index %v of %s: %w", members, c.Name, err)
			}
		}
	}
	return nil
}

// ensureIndexes asks for one index at a time: the embedded database breaks off when it has two of those
// that one command asks for.
func (s *Store) ensureIndexes(ctx context.Context, collection string, fields ...string) error {
	for _, f := range fields {
		if err := s.ensureIndex(ctx, collection, f); err != nil {
			return fmt.Errorf("make index %s of %s: %w", f, collection, err)
		}
	}
	return nil
}

// ensureIndex has no deadline but the caller's: the driver sends one with the command, and MongoDB breaks off the index of a large
// collection that takes longer, and begins anew when it is asked for once more. It is made once a majority of a set has it, as is all that is
// written: by itself MongoDB waits for every member with a vote, and so for one that is down.
func (s *Store) ensureIndex(ctx context.Context, collection string, fields ...string) error {
	indexes, index := s.db.Collection(collection).Indexes(), mongo.IndexModel{Keys: indexKeys(fields)}
	_, err := indexes.CreateOne(ctx, index, options.CreateIndexes().SetCommitQuorumMajority())
	if hasCode(err, []int{badValue}) { // as a server that is in no set says
		_, err = indexes.CreateOne(ctx, index)
	}
	return kindOf(err)
}

// indexKeys are what an index of members is made by, and named by in a find.
func indexKeys(fields []string) bson.D {
	keys := make(bson.D, len(fields))
	for i, f := range fields {
		keys[i] = bson.E{Key: f, Value: 1}
	}
	return keys
}
