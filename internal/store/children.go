package store

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// childrenRead asks for the documents of a noun directly below a parent.
type childrenRead struct {
	noun   *domain.Noun
	parent domain.Key
	found  []domain.Object
}

// Children is List for what many ask for at the same time, each of another parent: they share a read, which began after they
// asked. The embedded database goes over a whole collection for each.
func (s *Store) Children(ctx context.Context, n *domain.Noun, parent domain.Key) ([]domain.Object, error) {
	read := &childrenRead{noun: n, parent: parent, found: []domain.Object{}}
	if err := s.childReads.do(ctx, read); err != nil {
		return nil, err
	}
	return read.found, nil
}

// readChildren belongs to many callers, so that no caller's context bounds it. Nothing that it finds is shared.
func (s *Store) readChildren(reads []*childrenRead) []error {
	outcomes := make([]error, len(reads))
	nouns := map[*domain.Noun]map[domain.Key][]int{}
	for i, r := range reads {
		if nouns[r.noun] == nil {
			nouns[r.noun] = map[domain.Key][]int{}
		}
		nouns[r.noun][r.parent] = append(nouns[r.noun][r.parent], i)
	}
	for noun, parents := range nouns {
		problems, err := s.readChildrenOf(noun, parents, reads)
		for parent, at := range parents {
			for _, i := range at {
				if outcomes[i] = err; err == nil {
					outcomes[i] = problems[parent]
				}
			}
		}
	}
	return outcomes
}

// readChildrenOf reads the documents below some parents. What cannot be read is a problem of its parent.
func (s *Store) readChildrenOf(noun *domain.Noun, parents map[domain.Key][]int, reads []*childrenRead) (problems map[domain.Key]error, err error) {
	keys := make(bson.A, 0, len(parents))
	for parent := range parents {
		keys = append(keys, parent)
	}
	filter := bson.D{{Key: "parent", Value: keys[0]}}
	if len(keys) > 1 {
		filter = bson.D{{Key: "parent", Value: bson.D{{Key: "$in", Value: keys}}}}
	}
	problems = map[domain.Key]error{}
	err = each(context.Background(), s, s.collection(noun), filter, func() *bson.Raw { return &bson.Raw{} }, func(document *bson.Raw) {
		parent, _ := document.Lookup("parent").StringValueOK() // the filter has found it by that
		of := domain.Key(parent)
		for _, i := range parents[of] {
			o := noun.New()
			if err := s.decode(noun.Kind, *document, o); err != nil {
				problems[of] = fail.Wrap(err, fail.KindOf(err), "a document of %s cannot be read", noun.Kind)
				return
			}
			reads[i].found = append(reads[i].found, o)
		}
	})
	return problems, err
}
