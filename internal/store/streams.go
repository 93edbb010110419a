package store

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/drover-io/drover/internal/cas"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/when"
)

// streamDoc is the last stream of a tenant.
type streamDoc struct {
	Tenant              string `bson:"_id"`
	Token               string `bson:"token"`   // of this stream
	Process             string `bson:"process"` // who reads it, by its pulse
	domain.TenantStream `bson:",inline"`
}

func (s *Store) streams() *mongo.Collection { return s.db.Collection(streams) }

// BeginStream begins a stream of a tenant. From then on nothing is stored of the one before, on whatever process: when that
// has not ended in order, the ledger of workloads gets an entry that its writer does not know. Of two that begin at the same
// time one is before the other. The process has to give pulses.
func (s *Store) BeginStream(ctx context.Context, tenant, process string) (*domain.Stream, error) {
	begun := &domain.Stream{Tenant: tenant, Token: bson.NewObjectIDFromTimestamp(s.now()).Hex()}
	err := cas.Do(ctx, func() error {
		var last streamDoc
		err := s.findOne(ctx, s.streams(), tenant, &last)
		first := fail.Is(err, fail.NotFound)
		if err != nil && !first {
			return err
		}
		// Read before the document is replaced: who begins after that has it changed after that.
		if err := s.workloads.read(ctx, tenant, func(b *book) { begun.Begun = b.begun }); err != nil {
			return err
		}
		next := streamDoc{Tenant: tenant, Token: begun.Token, Process: process, TenantStream: last.TenantStream}
		next.Since, next.Ended, next.Settled = s.now(), time.Time{}, false
		if first {
			err = s.insertStream(ctx, &next)
		} else {
			err = s.replaceStream(ctx, &next, last.Token)
		}
		if err != nil {
			return err
		}
		begun.LeftOut, begun.LeftOutCount, begun.Unsettled = last.LeftOut, last.LeftOutCount, !first && !last.Settled
		if !begun.Unsettled {
			return nil
		}
		return s.workloads.change(ctx, tenant, func(b *book) (edit, error) {
			// Who has begun since has an entry of its own, or will have one: ours after it would let the wrong one write.
			var now streamDoc
			if err := s.findOne(ctx, s.streams(), tenant, &now); err != nil && !fail.Is(err, fail.NotFound) {
				return edit{}, err
			}
			if now.Token != begun.Token {
				begun.Begun = displaced
				return edit{}, nil
			}
			begun.Begun = b.seq + 1
			return edit{begins: true}, nil
		})
	})
	return begun, err
}

// displaced is no entry's number: who begins with it may not write.
const displaced = -1

// insertStream stores the document of a tenant's first stream.
func (s *Store) insertStream(ctx context.Context, next *streamDoc) error {
	inserted, err := s.insertOnce(ctx, s.streams(), next)
	if err == nil && !inserted {
		return cas.ErrOvertaken
	}
	return err
}

// replaceStream puts a document in place of that of an earlier stream.
func (s *Store) replaceStream(ctx context.Context, next *streamDoc, before string) error {
	replaced, err := s.replaceIf(ctx, s.streams(), ofToken(next.Tenant, before), next)
	if err == nil && !replaced {
		return cas.ErrOvertaken
	}
	return err
}

func ofToken(tenant string, token string) bson.D {
	return append(byID(tenant), bson.E{Key: "token", Value: token})
}

// EndStream notes that a stream has ended. Settled says that all that was received of it is stored, and that what follows from
// that is. When another one has begun since, that is the one that counts.
func (s *Store) EndStream(ctx context.Context, stream *domain.Stream, settled bool) error {
	return s.setStream(ctx, stream, bson.D{{Key: "ended", Value: s.now()}, {Key: "settled", Value: settled}})
}

// NoteStream notes what was left out, and what is held, of what a stream has said.
func (s *Store) NoteStream(ctx context.Context, stream *domain.Stream, left []domain.LeftOut, count int) error {
	return s.setStream(ctx, stream, bson.D{{Key: "leftOut", Value: left}, {Key: "leftOutCount", Value: count}})
}

func (s *Store) setStream(ctx context.Context, stream *domain.Stream, members bson.D) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	_, err := s.streams().UpdateOne(ctx, ofToken(stream.Tenant, stream.Token), bson.D{{Key: "$set", Value: members}})
	return kindOf(err)
}

// StreamStands says whether a stream is the last one of its tenant, and whether it was cut. It is for those that say nothing: what
// one writes is refused when it does not stand. NotFound when nothing is known of a stream of the tenant.
func (s *Store) StreamStands(ctx context.Context, stream *domain.Stream) (last, cut bool, err error) {
	var d streamDoc
	if err := s.findOne(ctx, s.streams(), stream.Tenant, &d); err != nil {
		return false, false, err
	}
	return d.Token == stream.Token, !d.Ended.IsZero(), nil
}

// StandingStreams are the tokens of the last streams of tenants that have not ended, nor were cut, by tenant. It is StreamStands for
// many streams at once.
func (s *Store) StandingStreams(ctx context.Context) (map[string]string, error) {
	tokens := map[string]string{}
	members := options.Find().SetProjection(bson.D{{Key: "token", Value: 1}, {Key: "ended", Value: 1}})
	err := each(ctx, s, s.streams(), bson.D{}, func() *streamDoc { return &streamDoc{} }, func(d *streamDoc) {
		if d.Ended.IsZero() {
			tokens[d.Tenant] = d.Token
		}
	}, members)
	return tokens, err
}

// livesSeen is of how many processes and watchers it is kept which pulse was seen last.
const livesSeen = 1024

// lives says whether a process has had a pulse within domain.PulseLife, or may have. A pulse is a time of day of another host, whose clock
// may be some seconds off: what counts is that it changes, while this process looks. One that is further off than clocks may be is old
// for who has never looked before, too. The moment is from before the pulse was read: this process may be frozen after that.
func (s *Store) lives(process string, pulse time.Time, read lease.Instant) bool {
	if pulse.IsZero() || read.Day().Sub(pulse) > domain.PulseLife+policy.ClockSkew {
		return false
	}
	return read.Passed(s.firstSeen(process, pulse, read).moment) <= domain.PulseLife
}

// firstSeen is when this process saw first that another one, or a watcher, had its last pulse. The moment is from before the pulse was read.
func (s *Store) firstSeen(process string, pulse time.Time, read lease.Instant) noted {
	seen, known := s.livesSeen.Get(process)
	if !known || !seen.at.Equal(pulse) {
		seen = noted{pulse, read.Day(), read}
		s.livesSeen.Add(process, seen)
	}
	return seen
}

// counted is a pulse as it counts here: one of a clock that is ahead was given when this process saw it first. It stays so when its time has come:
// nobody gives it anew then. The moment is from before the pulse was read.
func (s *Store) counted(process string, pulse time.Time, read lease.Instant) time.Time {
	if !pulse.After(read.Day()) {
		if seen, known := s.livesSeen.Get(process); !known || !seen.at.Equal(pulse) {
			return pulse
		}
	}
	return when.Past(pulse, s.firstSeen(process, pulse, read).by(read))
}

// TenantStream is what is known of a tenant's last stream; the zero value when it never had one. One whose process has no
// pulse any more has been lost when that had its last one.
func (s *Store) TenantStream(ctx context.Context, tenant string) (domain.TenantStream, error) {
	read := s.moment()
	var d streamDoc
	err := s.findOne(ctx, s.streams(), tenant, &d)
	if err != nil {
		if fail.Is(err, fail.NotFound) {
			err = nil
		}
		return domain.TenantStream{}, err
	}
	var p pulseDoc
	if err := s.findOne(ctx, s.pulses(), d.Process, &p); err != nil && !fail.Is(err, fail.NotFound) {
		return domain.TenantStream{}, err
	}
	return s.streamOf(&d, p.At, read), nil
}

// streamOf is what a document says when its process had its last pulse at a time. The moment is from before both were read. A stream that a clock that is
// ahead has begun has begun when this process read it first, or when it ended.
func (s *Store) streamOf(d *streamDoc, at time.Time, read lease.Instant) domain.TenantStream {
	t, pulse := d.TenantStream, s.seen(pulseDoc{d.Process, at}, read)
	t.Token = d.Token
	t.Since = s.counts(d.Token, t.Since, 0)
	switch {
	case !t.Ended.IsZero():
		t.Ended = s.counts(d.Token+" ended", t.Ended, pulse.ahead())
		t.Since = when.Past(t.Since, t.Ended)
	case !s.lives(d.Process, at, read):
		t.Ended = pulse.counts
		if t.Since.After(pulse.counts) {
			t.Ended = t.Since
		}
	}
	t.Connected = t.Ended.IsZero()
	return t
}

// LostStreams are the streams that have ended, or whose process has, before what follows from what they said was stored. Who
// sees to that calls SettleStream.
func (s *Store) LostStreams(ctx context.Context) ([]*domain.Stream, error) {
	read := s.moment()
	found, err := all[streamDoc](ctx, s, s.streams(), bson.D{{Key: "settled", Value: false}})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	pulses, err := all[pulseDoc](ctx, s, s.pulses(), bson.D{})
	if err != nil {
		return nil, err
	}
	at := map[string]time.Time{}
	for _, p := range pulses {
		at[p.Watcher] = p.At
	}
	var lost []*domain.Stream
	for i := range found {
		if d := &found[i]; !s.streamOf(d, at[d.Process], read).Connected {
			lost = append(lost, &domain.Stream{Tenant: d.Tenant, Token: d.Token})
		}
	}
	return lost, nil
}

// StreamsOf are the streams that a process has begun and whose end nobody has noted. Those that it does not read any more are lost, though it
// lives: their end could not be noted, or the answer to their beginning was lost.
func (s *Store) StreamsOf(ctx context.Context, process string) ([]*domain.Stream, error) {
	found, err := all[streamDoc](ctx, s, s.streams(), bson.D{{Key: "settled", Value: false}, {Key: "process", Value: process}})
	var open []*domain.Stream
	for i := range found {
		if d := &found[i]; d.Ended.IsZero() {
			open = append(open, &domain.Stream{Tenant: d.Tenant, Token: d.Token})
		}
	}
	return open, err
}

// CutStream has nothing more be stored of a lost stream: its process may have been frozen, and go on. One that has begun since goes
// on.
func (s *Store) CutStream(ctx context.Context, lost *domain.Stream) error {
	cut := false
	err := s.workloads.change(ctx, lost.Tenant, func(*book) (edit, error) {
		var d streamDoc
		err := s.findOne(ctx, s.streams(), lost.Tenant, &d)
		// One that ends itself says nothing after that. Who begins meanwhile writes an entry after this look, and there is another.
		cut = err == nil && d.Token == lost.Token && d.Ended.IsZero()
		if fail.Is(err, fail.NotFound) {
			err = nil
		}
		return edit{begins: cut}, err
	})
	if err != nil || !cut {
		return err
	}
	return s.setStream(ctx, lost, bson.D{{Key: "ended", Value: s.now()}})
}

// SettleStream notes of a lost stream that all that follows from it is stored. CutStream comes first.
func (s *Store) SettleStream(ctx context.Context, lost *domain.Stream) error {
	d := streamDoc{}
	err := s.findOne(ctx, s.streams(), lost.Tenant, &d)
	if err != nil || d.Token != lost.Token {
		if fail.Is(err, fail.NotFound) {
			err = nil
		}
		return err
	}
	members := bson.D{{Key: "settled", Value: true}}
	if d.Ended.IsZero() {
		members = append(members, bson.E{Key: "ended", Value: s.now()})
	}
	return s.setStream(ctx, lost, members)
}
