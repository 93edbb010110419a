package store

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
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
		err := each(ctx, s, s.collection(n), under(project), func() *bson.Raw { return new(bson.Raw) }, func(d *bson.Raw) {
			documents++
			bytes += int64(len(*d))
			if uploaded, ok := d.Lookup("uploaded").AsInt64OK(); ok {
				bytes += uploaded
			}
		}, options.Find().SetBatchSize(usageReply))
		if err != nil {
			return 0, 0, err
		}
	}
	return documents, bytes, nil
}

// usageReply is how many documents are read at a time, which may be large.
const usageReply = 200
