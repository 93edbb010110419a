// Package audit makes the records of who did what, and checks them (decision 0051). The records of one process are a chain: each
// has a number, and the hash of the one before it. Some are checkpoints, which are signed. So who can write to the store, but has
// no key, can neither change, remove nor reorder a record that a later checkpoint seals without that Verify says where.
//
// A record is a line of JSON, and is never made anew from its members: what is hashed are the bytes that were written.
package audit

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Event is what a record tells of.
type Event string

// The events.
const (
	// Begun is a command that is about to be carried out. It is written before anything is changed.
	Begun Event = "begun"
	// Answered is a command with what came of it, or a query that was refused.
	Answered Event = "answered"
	// Login is that somebody has shown who they are, for the first time by this proof to the process.
	Login Event = "login"
	// Ended is the end of an operation that a command has begun.
	Ended Event = "ended"
	// Sealed is a checkpoint.
	Sealed Event = "checkpoint"
	// Unreadable is no event: what is stored is no record any more, or one that is not in its place, and its id is in Key.
	Unreadable Event = "unreadable"
	// Unanswered is no event: it asks for what was begun, and has no answer.
	Unanswered Event = "unanswered"
)

// Events lists what may be asked for.
var Events = []Event{Begun, Answered, Login, Ended, Sealed, Unreadable, Unanswered}

// Done is the outcome of what was carried out. Those of commands beside it are kinds of failure, such as Forbidden, and Canceled,
// which is that of a caller who did not wait; those of operations that have ended are Failed and Stopped.
const (
	Done     = "done"
	Canceled = "Canceled"
	Failed   = "Failed"
	Stopped  = "Stopped"
)

// ErrClock is why nothing can be recorded while the clock of a writer is far behind the database's.
var ErrClock = errors.New("records would be in days that are dropped early")

// Record is one line of the audit log. What it is about is named, and its content is not in it.
type Record struct {
	Writer string    `json:"writer"`            // the process that wrote it
	Number int64     `json:"number"`            // its number among those of the writer, from 1 on without gaps
	Time   time.Time `json:"time"`              // when it was written, in UTC; of one writer it never goes back
	Event  Event     `json:"event"`             // what it tells of: begun, answered, login, ended or checkpoint; unreadable for what is no record any more, or was put into another time
	Who    *Who      `json:"who,omitempty"`     // who asked for it
	From   string    `json:"from,omitempty"`    // the address from which it was asked for
	Verb   string    `json:"verb,omitempty"`    // what was to be done, such as create or instantiate
	Noun   string    `json:"noun,omitempty"`    // what it was to be done to, such as apps
	Key    string    `json:"key,omitempty"`     // the path below /v2 of what it is about; of a list, and of what has no name yet, that of what is above
	Begun  int64     `json:"begun,omitempty"`   // the number of the writer's record that says that it was begun
	Result string    `json:"outcome,omitempty"` // done, or what it has failed with; missing of what has only begun
	Before string    `json:"before,omitempty"`  // a keyed digest of the document before, missing when there was none
	After  string    `json:"after,omitempty"`   // a keyed digest of the document after, missing when there is none
	More   int64     `json:"more,omitempty"`    // so many more were refused with the outcome, too many at a time to have a record each
	// Request is the X-Request-Id, Trace the id of the trace, and Workflow the id of the run of the operation.
	Request  string `json:"request,omitempty"`
	Trace    string `json:"trace,omitempty"`    // the id of the trace
	Workflow string `json:"workflow,omitempty"` // the id of the run of the operation that was begun, or has ended
	// Checkpoint is what a checkpoint says beside that what is before it is so.
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`
	Prev       string      `json:"prev,omitempty"` // the hash of the writer's record before, missing in the first one
	// Hash is the SHA-256 of the line up to it, and Signature that of a checkpoint's hash; nothing but Mark is between or behind them.
	Hash      string `json:"hash,omitempty"`
	Mark      string `json:"mark,omitempty"`      // by it processes know each other's records: HMAC-SHA256 of the hash by a secret key
	Signature string `json:"signature,omitempty"` // Ed25519, in base64
}

// Who is who asked.
type Who struct {
	Kind string `json:"kind"`           // user, service-account, open while nobody is asked, or anonymous
	Name string `json:"name,omitempty"` // unique among those of the kind
	By   string `json:"by,omitempty"`   // how it was proven
}

// Text is who it is for people.
func (w *Who) Text() string {
	switch {
	case w == nil:
		return "nobody"
	case w.Name == "":
		return w.Kind
	default:
		return w.Kind + " " + w.Name
	}
}

// Proven says whether somebody has shown to have the name. While nobody is asked who they are (--auth=off) it was said.
func (w *Who) Proven() bool { return w != nil && w.Name != "" && w.Kind != said }

// Speaker is who has spoken: of what was asked for a tenant the token, or the certificate, since one may speak for all tenants, by names of its choice.
func (w *Who) Speaker() string {
	if w != nil && w.Kind == "tenant" && w.By != "" {
		return "tenant by " + w.By
	}
	return w.Text()
}

// said is the kind of names that anybody may say.
const said = "open"

// WhoOf is who was named by a text of Text, nil for none. A name of another form was said while nobody was asked who they are.
func WhoOf(text string) *Who {
	kind, name, ok := strings.Cut(text, " ")
	switch {
	case text == "":
		return nil
	case ok && (kind == "user" || kind == "service-account" || kind == "tenant"):
		return &Who{Kind: kind, Name: name}
	default:
		return &Who{Kind: "open", Name: text}
	}
}

// Checkpoint is what the writer states by its signature.
type Checkpoint struct {
	Key    string `json:"key"`    // the fingerprint of the key
	Public string `json:"public"` // the key to check it with, in base64
	// Told is the number of the writer's last record that is no checkpoint.
	Told int64 `json:"told,omitempty"`
	// Heads are records of other writers as they were in the store: none of them, and none before them, may be missing.
	Heads []Head `json:"heads,omitempty"`
	// Dropped says that the records up to these were dropped, since they were kept for as long as they are to be.
	Dropped []Head `json:"dropped,omitempty"`
	Closes  bool   `json:"closes,omitempty"` // the writer has ended in order: nothing comes after it
}

// Head is the last record of a writer.
type Head struct {
	Writer string `json:"writer"`           // the process
	Number int64  `json:"number"`           // of the record
	Hash   string `json:"hash"`             // of the record
	Closed bool   `json:"closed,omitempty"` // the writer has ended, or is taken for dead
}

// Line is a record as it is stored and exported.
type Line struct {
	// ID sorts lines by time, and those of one writer by number.
	ID string
	// Text is the line without its end.
	Text []byte
}

// Day is the day of a line by its ID, such as "20261123".
func (l Line) Day() string { return DayOf(l.ID) }

// DayOf is the day of an ID.
func DayOf(id string) string { return id[:min(len(id), len(dayLayout))] }

// IsDay says whether a text is a day, as in IDs.
func IsDay(text string) bool {
	_, err := time.Parse(dayLayout, text)
	return err == nil
}

// Read reads a line as it is stored: the record that it is, and the one as which it is shown. They are two where who can write to the store
// has put a record into another time, and one that is unreadable where the line is no record.
func (l Line) Read() (is, shown *Record) {
	r, _, err := Parse(l.Text)
	switch {
	case err != nil:
		r = &Record{Event: Unreadable, Key: l.ID}
	case l.ID != PlaceOf(r):
		return r, &Record{Writer: r.Writer, Number: r.Number, Time: r.Time, Event: Unreadable, Key: l.ID}
	}
	return r, r
}

// Notice is the line that an export has before a record that is not in its place: the record as it is shown.
func (r *Record) Notice() ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode the notice of an audit record: %w", err)
	}
	return text, nil
}

// noticeIn is the record of which a line is the notice, nil where it is none.
func noticeIn(text []byte) *Record {
	r := &Record{}
	if json.Unmarshal(text, r) != nil || r.Event != Unreadable || r.Key == "" {
		return nil
	}
	return r
}

// What IDs begin with. The layouts sort as the times do.
const (
	dayLayout  = "20060102"
	timeLayout = "20060102T150405.000"
)

// Place is what the IDs of records from a time on are not less than, and those of earlier ones are.
func Place(t time.Time) string { return t.UTC().Format(timeLayout) }

// IsPlace says whether a text begins as the ID of a record does, or as that of a line which is not in its place.
func IsPlace(text string) bool { return IsDay(DayOf(text)) }

// Day is the day of a time, as in IDs.
func Day(t time.Time) string { return t.UTC().Format(dayLayout) }

// PlaceOf is the ID of a record.
func PlaceOf(r *Record) string { return fmt.Sprintf("%s/%s/%012d", Place(r.Time), r.Writer, r.Number) }

// Chain makes the records of one writer. It is not for several callers at a time.
type Chain struct {
	writer string
	number int64
	told   int64 // the number of the last one that is no checkpoint
	hash   string
	time   time.Time
}

// NewChain begins one. No other one has the writer's name.
func NewChain(writer string) *Chain { return &Chain{writer: writer} }

// Head is the last record.
func (c *Chain) Head() Head { return Head{Writer: c.writer, Number: c.number, Hash: c.hash} }

// Time is that of the last record.
func (c *Chain) Time() time.Time { return c.time }

// longest bounds the texts of a record, in bytes: what callers send is among them. No key of a document is longer.
const longest = 1024

// Add gives a record its place in the chain. A checkpoint is signed by the key, which it names; the others are marked by it.
func (c *Chain) Add(r Record, now time.Time, key *Key) (Line, Record, error) {
	now = now.UTC().Truncate(time.Millisecond)
	if now.Before(c.time) {
		now = c.time
	}
	r.Writer, r.Number, r.Time, r.Prev, r.Hash, r.Mark, r.Signature = c.writer, c.number+1, now, c.hash, "", "", ""
	r = r.Bounded()
	if r.Checkpoint != nil {
		stated := *r.Checkpoint
		stated.Key, stated.Public, stated.Told = key.id, encode(key.Public()), c.told
		r.Checkpoint = &stated
	}
	head, err := json.Marshal(&r)
	if err != nil {
		return Line{}, r, fmt.Errorf("encode an audit record: %w", err)
	}
	head = head[:len(head)-1] // its brace
	sum := sha256.Sum256(head)
	r.Hash = hex.EncodeToString(sum[:])
	text := append(head, hashMember+r.Hash+`"`...)
	if r.Checkpoint == nil && key != nil {
		r.Mark = key.mark(r.Hash)
		text = append(text, markMember+r.Mark+`"`...)
	}
	if r.Checkpoint != nil {
		r.Signature = encode(ed25519.Sign(key.private, signed(r.Hash)))
		text = append(text, signatureMember+r.Signature+`"`...)
	}
	c.number, c.hash, c.time = r.Number, r.Hash, now
	if r.Checkpoint == nil {
		c.told = r.Number
	}
	return Line{ID: PlaceOf(&r), Text: append(text, '}')}, r, nil
}

const hashMember, markMember, signatureMember = `,"hash":"`, `,"mark":"`, `,"signature":"`

// Parse reads a line: the record, and the part of it that is hashed.
func Parse(text []byte) (r *Record, hashed []byte, err error) {
	at := bytes.LastIndex(text, []byte(hashMember))
	if at < 0 {
		return nil, nil, errors.New("is no record: it has no hash")
	}
	r = &Record{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, nil, fmt.Errorf("is no record: %w", err)
	}
	end := hashMember + r.Hash + `"`
	if r.Mark != "" {
		end += markMember + r.Mark + `"`
	}
	if r.Signature != "" {
		end += signatureMember + r.Signature + `"`
	}
	if string(text[at:]) != end+"}" {
		return nil, nil, errors.New("is no record in the form in which it was exported: its hash is not its end")
	}
	return r, text[:at], nil
}

// whole says whether the hash of a record is that of its line.
func whole(r *Record, hashed []byte) bool {
	sum := sha256.Sum256(hashed)
	return r.Hash == hex.EncodeToString(sum[:])
}

// Bounded is the record with texts of a bounded length that JSON gives back as they were. It holds on to nothing of the request.
func (r Record) Bounded() Record {
	for _, text := range []*string{&r.From, &r.Verb, &r.Noun, &r.Key, &r.Result, &r.Request, &r.Trace, &r.Workflow} {
		*text = plain(*text)
	}
	if r.Who != nil {
		r.Who = &Who{Kind: plain(r.Who.Kind), Name: plain(r.Who.Name), By: plain(r.Who.By)}
	}
	return r
}

// plain ends what is too long by a digest of the whole, so that no two become one.
func plain(text string) string {
	if len(text) > longest {
		sum := sha256.Sum256([]byte(text))
		end := "...sha256:" + hex.EncodeToString(sum[:])
		text = text[:longest-len(end)] + end
	}
	return strings.Clone(strings.ToValidUTF8(text, "?"))
}

// encoding takes one form of each value alone.
var encoding = base64.StdEncoding.Strict()

func encode(data []byte) string { return encoding.EncodeToString(data) }
