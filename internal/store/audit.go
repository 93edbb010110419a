package store

import (
	"context"
	"errors"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// Audit records are divided by day, of which each has a collection: what was kept long enough is dropped with it at once, and the
// embedded database reads no more than the days that are asked for. Lines are only ever inserted. auditWriters has what each
// process says of itself.
const (
	auditPrefix  = "audit-"
	auditWriters = "auditors"
)

// auditReply is how many lines are read at a time.
const auditReply = 500

// auditLine is the document of an audit.Line.
type auditLine struct {
	ID   string `bson:"_id"`
	Text string `bson:"text"`
}

func (s *Store) auditDay(day string) *mongo.Collection { return s.db.Collection(auditPrefix + day) }

// PutAudit stores lines in their order: those before one that is missing are there. A line that is there already, since the
// answer of an earlier attempt was lost, is as good as stored; Internal when another line has its place.
func (s *Store) PutAudit(ctx context.Context, lines []audit.Line) error {
	for len(lines) > 0 {
		day := lines[0].Day()
		n := slices.IndexFunc(lines, func(l audit.Line) bool { return l.Day() != day })
		if n < 0 {
			n = len(lines)
		}
		if err := s.putAuditDay(ctx, s.auditDay(day), lines[:n]); err != nil {
			return err
		}
		lines = lines[n:]
	}
	return nil
}

func (s *Store) putAuditDay(ctx context.Context, c *mongo.Collection, lines []audit.Line) error {
	for len(lines) > 0 {
		stored, err := s.insertInOrder(ctx, c, lines)
		if !errors.Is(err, errTaken) {
			return err
		}
		lines = lines[stored:]
		var have auditLine
		if err := s.findOne(ctx, c, lines[0].ID, &have); err != nil {
			return err
		}
		if have.Text != string(lines[0].Text) {
			return fail.New(fail.Internal, "another audit record has the place of %s", lines[0].ID)
		}
		lines = lines[1:]
	}
	return nil
}

// insertInOrder inserts lines until one cannot be; errTaken says that there is one with its id, and how many are before it.
func (s *Store) insertInOrder(ctx context.Context, c *mongo.Collection, lines []audit.Line) (before int, err error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	documents := make([]auditLine, len(lines))
	for i, l := range lines {
		documents[i] = auditLine{l.ID, string(l.Text)}
	}
	_, err = c.InsertMany(ctx, documents)
	var bulk mongo.BulkWriteException
	if errors.As(err, &bulk) && len(bulk.WriteErrors) > 0 && mongo.IsDuplicateKeyError(bulk.WriteErrors[0]) {
		return bulk.WriteErrors[0].Index, errTaken
	}
	return len(lines), kindOf(err)
}

// AuditLines gives take the lines with ids from one on up to before another, "" for no bound, in their order or backwards, until
// it wants no more.
func (s *Store) AuditLines(ctx context.Context, from, to string, backwards bool, take func(audit.Line) (more bool, err error)) error {
	days, err := s.AuditDays(ctx)
	if err != nil {
		return err
	}
	if backwards {
		slices.Reverse(days)
	}
	for _, day := range days {
		if day < audit.DayOf(from) || to != "" && day > audit.DayOf(to) {
			continue
		}
		if more, err := s.auditLines(ctx, s.auditDay(day), from, to, backwards, take); err != nil || !more {
			return err
		}
	}
	return nil
}

func (s *Store) auditLines(ctx context.Context, c *mongo.Collection, from, to string, backwards bool, take func(audit.Line) (bool, error)) (more bool, err error) {
	bounds, order := bson.D{{Key: "$gte", Value: from}}, 1
	if to != "" {
		bounds = append(bounds, bson.E{Key: "$lt", Value: to})
	}
	if backwards {
		order = -1
	}
	call, cancel := s.deadline(ctx)
	defer func() { cancel() }()
	cursor, err := c.Find(call, byID(bounds), options.Find().SetSort(bson.D{{Key: "_id", Value: order}}).SetBatchSize(auditReply))
	if err != nil {
		return false, kindOf(err)
	}
	defer s.closeCursor(ctx, cursor)
	for {
		if cursor.RemainingBatchLength() == 0 {
			cancel()
			call, cancel = s.deadline(ctx)
		}
		if !cursor.Next(call) {
			return true, kindOf(cursor.Err())
		}
		var l auditLine
		if err := cursor.Decode(&l); err != nil {
			return false, fail.Wrap(err, fail.Internal, "a document of %s cannot be read", c.Name())
		}
		if more, err := take(audit.Line{ID: l.ID, Text: []byte(l.Text)}); err != nil || !more {
			return false, err
		}
	}
}

// AuditDays are the days of which there are audit records, sorted.
func (s *Store) AuditDays(ctx context.Context) ([]string, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	names, err := s.db.ListCollectionNames(ctx, bson.D{})
	if err != nil {
		return nil, kindOf(err)
	}
	var days []string
	for _, name := range names {
		if day, is := strings.CutPrefix(name, auditPrefix); is {
			days = append(days, day)
		}
	}
	slices.Sort(days)
	return days, nil
}

// DropAuditDay removes all audit records of a day.
func (s *Store) DropAuditDay(ctx context.Context, day string) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	return kindOf(s.auditDay(day).Drop(ctx))
}

// PutAuditor stores what a writer of audit records says of itself.
func (s *Store) PutAuditor(ctx context.Context, p audit.Presence) error {
	_, err := s.put(ctx, s.db.Collection(auditWriters), p.Writer, p)
	return err
}

// Auditors are all writers of audit records, sorted by name.
func (s *Store) Auditors(ctx context.Context) ([]audit.Presence, error) {
	return all[audit.Presence](ctx, s, s.db.Collection(auditWriters), bson.D{})
}

// DeleteAuditor forgets one.
func (s *Store) DeleteAuditor(ctx context.Context, writer string) error {
	_, err := s.deleteOne(ctx, s.db.Collection(auditWriters), byID(writer))
	return err
}

// Form is a document as it is stored.
func (s *Store) Form(o domain.Object) ([]byte, error) {
	d, err := encode(o)
	if err != nil {
		return nil, err
	}
	form, err := bson.Marshal(d)
	if err != nil {
		return nil, fail.Wrap(err, fail.Internal, "the document cannot be encoded")
	}
	return form, nil
}
