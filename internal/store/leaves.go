package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/version"
)

// leafRecord is a leaf as it is stored. Each operation has a record of its own, so that nearly every write
// is an insert: the embedded database inserts hundreds of documents in the time that one replacement takes.
type leafRecord struct {
	ID          string `bson:"_id"`
	domain.Leaf `bson:",inline"`
	Sealed      []byte `bson:"sealed,omitempty"` // leafTexts
	Version     int64  `bson:"v,omitempty"`      // see extended; 0 stands for the first one, of which there are very many
}

// leaf is the record's leaf, with its ID.
func (r *leafRecord) leaf() domain.Leaf {
	leaf := r.Leaf
	leaf.ID = domain.LeafID(leaf.ContextID, leaf.App, leaf.Cluster)
	return leaf
}

// operations, the later ones first: what a terminate recorded is a leaf's last word, in whatever order the
// records arrive. Instantiate stands for every operation that makes a context, of which each has one. Sorted by _id a leaf's records
// are next to each other, its last word behind the other one.
var operations = []domain.Operation{domain.OpTerminate, domain.OpInstantiate}

// class is the member of operations that an operation belongs to.
func class(op domain.Operation) domain.Operation {
	if op.TakesOver() {
		return domain.OpInstantiate
	}
	return op
}

// recordID is a record's _id: no name has the '#' in it.
func recordID(leaf string, op domain.Operation) string { return leaf + "#" + string(class(op)) }

// leafOfRecord is the leaf of recordID.
func leafOfRecord(id string) string {
	leaf, _, _ := strings.Cut(id, "#")
	return leaf
}

// errTaken says that there is a record with the _id.
var errTaken = errors.New("taken")

// PutLeaf stores the record of a leaf, in place of an earlier one of the same operation. Conflict when the one that is
// there is of a later turn: who was frozen for a time must not undo what others have recorded meanwhile. Its ID is made
// from its other members. Calls that come together are written together: leaves end by the hundreds, and
// a call costs the database more than a document. When ctx ends first, the record may still be written.
func (s *Store) PutLeaf(ctx context.Context, leaf domain.Leaf) error {
	if !slices.Contains(operations, class(leaf.Operation)) {
		return fail.New(fail.Internal, "a leaf of the operation %q cannot be stored", leaf.Operation)
	}
	leaf.ID = domain.LeafID(leaf.ContextID, leaf.App, leaf.Cluster)
	record := leafRecord{ID: recordID(leaf.ID, leaf.Operation), Leaf: leaf}
	has, err := versionFor(leavesName, func() (bson.D, error) { return marshal(record) })
	if err != nil {
		return err
	}
	if has > firstVersion {
		record.Version = has
	}
	if err := s.sealLeaf(&record); err != nil {
		return err
	}
	err = s.leafWrites.do(ctx, record)
	if errors.Is(err, errTaken) {
		return s.replaceLeaf(ctx, record)
	}
	return err
}

// insertLeaves inserts records of any contexts; errTaken for those that are there already.
func (s *Store) insertLeaves(records []leafRecord) []error {
	outcomes := make([]error, len(records))
	places := map[string][]int{}
	for i, r := range records {
		places[r.ContextID] = append(places[r.ContextID], i)
	}
	for contextID, at := range places {
		part := make([]leafRecord, len(at))
		for i, place := range at {
			part[i] = records[place]
		}
		for i, err := range insertMany(context.Background(), s, s.leaves(contextID), part) { // many callers wait for it: none bounds it
			outcomes[at[i]] = err
		}
	}
	return outcomes
}

// replaceLeaf puts a record in place of one that is not of a later turn, and that this build can read: nobody has read it before.
func (s *Store) replaceLeaf(ctx context.Context, r leafRecord) error {
	readable := bson.E{Key: "$or", Value: bson.A{
		bson.D{{Key: versionMember, Value: nil}},
		bson.D{{Key: versionMember, Value: bson.D{{Key: "$lte", Value: knownVersion(leavesName)}}}},
	}}
	filter := append(byID(r.ID), bson.E{Key: "$or", Value: bson.A{
		bson.D{{Key: "turn.began", Value: bson.D{{Key: "$lt", Value: r.Turn.Began}}}, readable},
		bson.D{{Key: "turn.began", Value: r.Turn.Began}, {Key: "turn.rank", Value: bson.D{{Key: "$lte", Value: r.Turn.Rank}}}, readable},
	}})
	if replaced, err := s.replaceIf(ctx, s.leaves(r.ContextID), filter, r); replaced || err != nil {
		return err
	}
	err := s.findOne(ctx, s.leaves(r.ContextID), r.ID, &leafRecord{})
	if errors.Is(err, version.ErrNewer) {
		return err
	}
	return fail.New(fail.Conflict, "another attempt has recorded leaf %s meanwhile", r.Leaf.ID)
}

// leafRead is a wish for the last record of a leaf; found is nil when there is none.
type leafRead struct {
	id    string
	found *domain.Leaf
}

// Leaf reads the last record of one leaf. NotFound when it has none yet. Calls that come together are read
// together: a terminate begins with them.
func (s *Store) Leaf(ctx context.Context, id string) (*domain.Leaf, error) {
	read := &leafRead{id: id}
	if err := s.leafLookups.do(ctx, read); err != nil {
		return nil, err
	}
	if read.found == nil {
		return nil, fail.New(fail.NotFound, "leaf %s not found", id)
	}
	return read.found, nil
}

// fewLookups is up to how many leaves are looked up one by one. The embedded database finds one _id
// quicker than one of several.
const fewLookups = 4

// lookUp belongs to many callers, so that no caller's context bounds it.
func (s *Store) lookUp(reads []*leafRead) []error {
	ctx := context.Background()
	outcomes := make([]error, len(reads))
	if len(reads) <= fewLookups {
		for i, r := range reads {
			outcomes[i] = s.lookUpOne(ctx, r)
		}
		return outcomes
	}
	places := map[string][]int{}
	for i, r := range reads {
		contextID, _, _ := strings.Cut(r.id, "/")
		places[contextID] = append(places[contextID], i)
	}
	for contextID, at := range places {
		found, err := s.lookUpAll(ctx, contextID, reads, at)
		for _, i := range at {
			outcomes[i] = err
			if leaf, ok := found[reads[i].id]; ok {
				reads[i].found = &leaf
			}
		}
	}
	return outcomes
}

func (s *Store) lookUpOne(ctx context.Context, read *leafRead) error {
	contextID, _, _ := strings.Cut(read.id, "/")
	for _, op := range operations {
		var r leafRecord
		err := s.findOne(ctx, s.leaves(contextID), recordID(read.id, op), &r)
		if err == nil {
			leaf := r.leaf()
			read.found = &leaf
		}
		if !fail.Is(err, fail.NotFound) {
			return err
		}
	}
	return nil
}

func (s *Store) lookUpAll(ctx context.Context, contextID string, reads []*leafRead, at []int) (map[string]domain.Leaf, error) {
	ids := make(bson.A, 0, len(at)*len(operations))
	for _, i := range at {
		for _, op := range operations {
			ids = append(ids, recordID(reads[i].id, op))
		}
	}
	records, err := all[leafRecord](ctx, s, s.leaves(contextID), byID(bson.D{{Key: "$in", Value: ids}}))
	found := make(map[string]domain.Leaf, len(at))
	for _, leaf := range lastWords(records) {
		found[leaf.ID] = leaf
	}
	return found, err
}

// Leaves reads the last record of every leaf of an app context, sorted by ID. Notes must not be changed:
// they are shared with other callers. With a domain.Unreadable, which names records by LeafID, '#' and the operation, those leaves may be
// missing, or be as an earlier operation left them.
func (s *Store) Leaves(ctx context.Context, contextID string) ([]domain.Leaf, error) {
	leaves, err := s.leafReads.Get(ctx, contextID, func(ctx context.Context) ([]domain.Leaf, error) {
		records, err := all[leafRecord](ctx, s, s.leaves(contextID), below(contextID))
		return lastWords(records), err
	})
	return slices.Clone(leaves), err
}

// leafMarks is what is read of a leaf's record by who wants its marks alone.
type leafMarks struct {
	ID    string `bson:"_id"`
	Marks string `bson:"marks"`
}

// LeafMarks reads the marks of every leaf of an app context, by LeafID, as its last record has them (domain.Leaf.Marks): of what is said
// beside them, up to 260 KiB a leaf, nothing is read or opened. They must not be changed, and go with a domain.Unreadable, as those of Leaves.
func (s *Store) LeafMarks(ctx context.Context, contextID string) (map[string]string, error) {
	return s.markReads.Get(ctx, contextID, func(ctx context.Context) (map[string]string, error) {
		marks := map[string]string{}
		only := options.Find().SetProjection(bson.D{{Key: "marks", Value: 1}, {Key: versionMember, Value: 1}})
		err := each(ctx, s, s.leaves(contextID), below(contextID), func() *leafMarks { return &leafMarks{} }, func(r *leafMarks) {
			marks[leafOfRecord(r.ID)] = r.Marks // the last record comes last, see operations
		}, only)
		return marks, err
	})
}

// EachLeaf hands over what Leaves reads, one after the other in the order of _id, until take fails. A domain.Unreadable comes when all that can be
// read is handed over.
func (s *Store) EachLeaf(ctx context.Context, contextID string, take func(domain.Leaf) error) error {
	var last *leafRecord // of the leaf that is being read
	err := until(ctx, s, s.leaves(contextID), below(contextID), func() *leafRecord { return &leafRecord{} }, func(r *leafRecord, _ int) error {
		before := last
		last = r
		if before == nil || leafOfRecord(before.ID) == leafOfRecord(r.ID) {
			return nil
		}
		return take(before.leaf())
	}, options.Find().SetBatchSize(eachReply))
	if _, failed := domain.UnreadableOf(err); failed != nil || last == nil {
		return err
	}
	return cmp.Or(take(last.leaf()), err)
}

// lastWords picks the last record of each leaf and sorts by ID, which the records' own _id do not quite.
func lastWords(records []leafRecord) []domain.Leaf {
	last := make(map[string]int, len(records))
	leaves := make([]domain.Leaf, 0, len(records))
	for _, r := range records {
		leaf := r.leaf()
		i, ok := last[leaf.ID]
		switch {
		case !ok:
			last[leaf.ID] = len(leaves)
			leaves = append(leaves, leaf)
		case slices.Index(operations, class(leaf.Operation)) < slices.Index(operations, class(leaves[i].Operation)):
			leaves[i] = leaf
		}
	}
	slices.SortFunc(leaves, func(a, b domain.Leaf) int { return cmp.Compare(a.ID, b.ID) })
	return leaves
}
