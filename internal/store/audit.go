package store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

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

// auditTogether is how many lines are inserted in a call: behind a document that cannot be inserted the embedded database leaves out
// no more than the rest of a hundred, and goes on with the next ones.
const auditTogether = 100

// auditLine is the document of an audit.Line.
type auditLine struct {
	ID   string `bson:"_id"`
	Text string `bson:"text"`
}

func (s *Store) auditDay(day string) *mongo.Collection { return s.db.Collection(auditPrefix + day) }

// PutAudit stores lines in their order, and says how many of them, from the first one on, are there for sure: with an error the
// others may be there, too. A line that is there already, since the answer of an earlier attempt was lost, is as good as stored;
// Internal when another line has its place.
func (s *Store) PutAudit(ctx context.Context, lines []audit.Line) (stored int, err error) {
	for stored < len(lines) {
		day := lines[stored].Day()
		n := slices.IndexFunc(lines[stored:], func(l audit.Line) bool { return l.Day() != day })
		if n < 0 {
			n = len(lines) - stored
		}
		n = min(n, auditTogether)
		there, err := s.putAuditDay(ctx, s.auditDay(day), lines[stored:stored+n])
		stored += there
		if err != nil {
			return stored, err
		}
	}
	return stored, nil
}

func (s *Store) putAuditDay(ctx context.Context, c *mongo.Collection, lines []audit.Line) (stored int, err error) {
	before, err := s.insertInOrder(ctx, c, lines)
	if !errors.Is(err, errTaken) {
		return before, err
	}
	// An earlier attempt has stored a beginning, and may be at it.
	if stored, err = s.auditThere(ctx, c, lines); err != nil || stored == len(lines) {
		return stored, err
	}
	before, err = s.insertInOrder(ctx, c, lines[stored:])
	if errors.Is(err, errTaken) {
		err = fail.New(fail.Unavailable, "another call stores the same audit records at the moment")
	}
	return stored + before, err
}

// auditThere is how many lines, from the first one on, are stored.
func (s *Store) auditThere(ctx context.Context, c *mongo.Collection, lines []audit.Line) (int, error) {
	have, ids := make(map[string]string, len(lines)), make([]string, len(lines))
	for i, l := range lines {
		ids[i] = l.ID
	}
	found, err := all[auditLine](ctx, s, c, byID(bson.D{{Key: "$in", Value: ids}}))
	if err != nil {
		return 0, err
	}
	for _, l := range found {
		have[l.ID] = l.Text
	}
	for i, l := range lines {
		switch text, ok := have[l.ID]; {
		case !ok:
			return i, nil
		case text != string(l.Text):
			return i, fail.New(fail.Internal, "another audit record has the place of %s", l.ID)
		}
	}
	return len(lines), nil
}

// insertInOrder inserts lines until one cannot be; errTaken says that there is one with its id. It says how many are stored.
func (s *Store) insertInOrder(ctx context.Context, c *mongo.Collection, lines []audit.Line) (stored int, err error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	documents := make([]auditLine, len(lines))
	for i, l := range lines {
		documents[i] = auditLine{l.ID, string(l.Text)}
	}
	_, err = c.InsertMany(ctx, documents)
	var bulk mongo.BulkWriteException
	switch {
	case err == nil:
		return len(lines), nil
	case duplicate(err) && errors.As(err, &bulk) && mongo.IsDuplicateKeyError(bulk.WriteErrors[0]):
		return bulk.WriteErrors[0].Index, errTaken
	default:
		return 0, kindOf(err)
	}
}

// AuditLines gives take the lines with ids from one on up to before another, "" for no bound, in their order or backwards, until
// it wants no more. One that is stored among those of another day than its own has an ID of that day, before all others or behind
// them, and so one that no record has.
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
		if more, err := s.auditLines(ctx, day, from, to, backwards, take); err != nil || !more {
			return err
		}
	}
	return nil
}

// The IDs of lines that are stored among those of a day, and are not of it, begin with the day and one of these: they sort before those of
// the day, or behind them, as what is stored does.
const (
	auditBefore = "/"
	auditBehind = "~/"
)

// auditPlace is the ID of a line that is stored by an id among those of a day.
func auditPlace(day, id string) string {
	const timeOfDay = "T" // follows the day in an ID
	switch {
	case strings.HasPrefix(id, day+timeOfDay):
		return id
	case id < day+timeOfDay:
		return day + auditBefore + id
	default:
		return day + auditBehind + id
	}
}

// auditID is the opposite of auditPlace.
func auditID(day, place string) string {
	for _, more := range []string{auditBefore, auditBehind} {
		if id, strayed := strings.CutPrefix(place, day+more); strayed {
			return id
		}
	}
	return place
}

func (s *Store) auditLines(ctx context.Context, day, from, to string, backwards bool, take func(audit.Line) (bool, error)) (more bool, err error) {
	bounds, order := bson.D{{Key: "$gte", Value: ""}}, 1
	if audit.DayOf(from) == day { // of a day that is asked for as a whole what does not belong there is given, too
		bounds[0].Value = auditID(day, from)
	}
	if audit.DayOf(to) == day {
		bounds = append(bounds, bson.E{Key: "$lt", Value: auditID(day, to)})
	}
	if backwards {
		order = -1
	}
	call, cancel := s.deadline(ctx)
	defer func() { cancel() }()
	c := s.auditDay(day)
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
		if more, err := take(audit.Line{ID: auditPlace(day, l.ID), Text: []byte(l.Text)}); err != nil || !more {
			return false, err
		}
	}
}

// AuditDays are the days of which there are audit records, sorted. A collection of another name is none of ours.
func (s *Store) AuditDays(ctx context.Context) ([]string, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	names, err := s.db.ListCollectionNames(ctx, bson.D{})
	if err != nil {
		return nil, kindOf(err)
	}
	var days []string
	for _, name := range names {
		if day, is := strings.CutPrefix(name, auditPrefix); is && audit.IsDay(day) {
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

// Auditors are all writers of audit records, sorted by name. Of one whose document cannot be read there is the name alone, and so
// nothing that is signed: one such document must not keep a process from starting.
func (s *Store) Auditors(ctx context.Context) ([]audit.Presence, error) {
	documents, err := all[bson.Raw](ctx, s, s.db.Collection(auditWriters), bson.D{})
	if err != nil {
		return nil, err
	}
	present := make([]audit.Presence, 0, len(documents))
	for _, d := range documents {
		var p audit.Presence
		if err := decode(d, &p); err != nil {
			p = audit.Presence{Writer: d.Lookup("_id").String()}
		}
		present = append(present, p)
	}
	return present, nil
}

// Clock is what time it is for the database, zero when it does not say.
func (s *Store) Clock(ctx context.Context) (time.Time, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	var answer struct {
		LocalTime time.Time `bson:"localTime"`
	}
	err := s.db.RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&answer)
	return answer.LocalTime, kindOf(err)
}

// DeleteAuditor forgets one.
func (s *Store) DeleteAuditor(ctx context.Context, writer string) error {
	_, err := s.deleteOne(ctx, s.db.Collection(auditWriters), byID(writer))
	return err
}

// Form is a document as it would be stored if it was not sealed: the same document has the same.
func (s *Store) Form(o domain.Object) ([]byte, error) {
	d, err := plain(o)
	if err != nil {
		return nil, err
	}
	form, err := bson.Marshal(d)
	if err != nil {
		return nil, fail.Wrap(err, fail.Internal, "the document cannot be encoded")
	}
	return form, nil
}
