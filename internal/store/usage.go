package store

import (
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/drover-io/drover/internal/domain"
)

// Usage is how many documents there are below a project, of all nouns, and how many bytes they have with the files that came with
// them. A file counts once for each document: that it is stored once is nobody's merit. It is read from an index (Collection.Beside,
// decision 0091), so that it takes no longer when documents are long.
func (s *Store) Usage(ctx context.Context, project domain.Key) (documents int, bytes int64, err error) {
	give := mostGiven
	for _, n := range domain.Nouns {
		if !ofProjects(n) {
			continue
		}
		c := s.collection(n)
		var unsized []string // v0.1.0 wrote them
		err := each(ctx, s, c, under(project), func() *extent { return &extent{} }, func(d *extent) {
			documents++
			bytes += d.Size + d.Uploaded
			if d.Size == 0 {
				unsized = append(unsized, d.ID)
			}
		}, options.Find().SetProjection(bson.D{{Key: sizeMember, Value: 1}, {Key: uploadedMember, Value: 1}}))
		if err != nil {
			return 0, 0, err
		}
		more, err := s.bytesOf(ctx, c, unsized, &give)
		if err != nil {
			return 0, 0, err
		}
		bytes += more
	}
	return documents, bytes, nil
}

// ofProjects says whether documents of a noun are below projects.
func ofProjects(n *domain.Noun) bool {
	return n != domain.Projects && n.Lineage()[0] == domain.Projects
}

// extent is what is asked for of a document: it may be large.
type extent struct {
	ID       string `bson:"_id"`
	Size     int64  `bson:"size"`
	Uploaded int64  `bson:"uploaded"`
}

const (
	// wholeReply is how many documents are read at a time whose size is not stored.
	wholeReply = 200
	// mostGiven is how many documents are given a size by one look at the most: each is a write.
	mostGiven = 5_000
)

// bytesOf is how many bytes documents have that are stored without a size. They are read for that, and as many as give says are given one.
func (s *Store) bytesOf(ctx context.Context, c *mongo.Collection, ids []string, give *int) (bytes int64, err error) {
	for some := range slices.Chunk(ids, wholeReply) {
		err := each(ctx, s, c, byID(bson.D{{Key: "$in", Value: some}}), func() *bson.Raw { return new(bson.Raw) }, func(d *bson.Raw) {
			bytes += int64(len(*d))
			if *give > 0 {
				*give--
				s.giveSize(ctx, c, *d)
			}
		})
		if err != nil {
			return 0, err
		}
	}
	return bytes, nil
}

// giveSize stores the size of a document beside it, in one write that says as which it was read: what somebody else stores meanwhile stays.
// It is sealed, too, as all that is there openly. What cannot be given one now, because it is damaged or a newer build has written it, is
// read again at the next look.
func (s *Store) giveSize(ctx context.Context, c *mongo.Collection, document bson.Raw) {
	if refuseNewer(c.Name(), document) != nil {
		return
	}
	opened, err := s.openDocument(c.Name(), document)
	if err != nil {
		return
	}
	elements, err := opened.plain.Elements()
	if err != nil {
		return
	}
	size := int64(len(opened.plain))
	members := bson.D{{Key: sizeMember, Value: size}}
	for _, e := range elements {
		if e.Key() != sizeMember {
			members = append(members, bson.E{Key: e.Key(), Value: e.Value()})
		}
	}
	plain, err := bson.Marshal(members)
	if err != nil {
		return
	}
	sealed, err := s.keys.SealBytes(opened.place, plain)
	if err != nil {
		return
	}
	_, _ = s.setIf(ctx, c, asWasRead(document, sealedMember, opened.sealed), bson.D{{Key: sizeMember, Value: size}, {Key: sealedMember, Value: sealed}})
}
