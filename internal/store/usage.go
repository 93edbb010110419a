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
// them. A file counts once for each document: that it is stored once is nobody's merit.
func (s *Store) Usage(ctx context.Context, project domain.Key) (documents int, bytes int64, err error) {
	for _, n := range domain.Nouns {
		if n == domain.Projects || n.Lineage()[0] != domain.Projects {
			continue
		}
		c := s.collection(n)
		var unsized []string // of before sizes were stored
		err := each(ctx, s, c, under(project), func() *extent { return &extent{} }, func(d *extent) {
			documents++
			bytes += d.Size + d.Uploaded
			if d.Size == 0 {
				unsized = append(unsized, d.ID)
			}
		}, options.Find().SetProjection(bson.D{{Key: sizeMember, Value: 1}, {Key: "uploaded", Value: 1}}))
		if err != nil {
			return 0, 0, err
		}
		more, err := s.bytesOf(ctx, c, unsized)
		if err != nil {
			return 0, 0, err
		}
		bytes += more
	}
	return documents, bytes, nil
}

// extent is what is asked for of a document: it may be large.
type extent struct {
	ID       string `bson:"_id"`
	Size     int64  `bson:"size"`
	Uploaded int64  `bson:"uploaded"`
}

// wholeReply is how many documents are read at a time whose size is not stored.
const wholeReply = 200

// bytesOf is how many bytes documents have, which are read for that.
func (s *Store) bytesOf(ctx context.Context, c *mongo.Collection, ids []string) (bytes int64, err error) {
	for some := range slices.Chunk(ids, wholeReply) {
		err := each(ctx, s, c, byID(bson.D{{Key: "$in", Value: some}}), func() *bson.Raw { return new(bson.Raw) }, func(d *bson.Raw) { bytes += int64(len(*d)) })
		if err != nil {
			return 0, err
		}
	}
	return bytes, nil
}
