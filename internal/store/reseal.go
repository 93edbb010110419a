package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/drover-io/drover/internal/cas"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/secret"
)

// What is sealed is sealed anew, one thing after the other, each in one write that says as which it was read: whatever the product
// does meanwhile stays, and whoever dies in between has left things of which some are sealed anew. Nothing else of them changes, not
// their revisions either.

// Resealing says where the work on one kind of things stands.
type Resealing struct {
	What string // "clusters", "blobs", …
	// Found are the things that are sealed, by the name of the key that opens them.
	Found map[string]int
	// Sealed are those that have been sealed anew.
	Sealed int
}

// sealedKind is one kind of things: it goes over all of them, and seals one anew.
type sealedKind struct {
	what string
	each func(ctx context.Context, see func(id, key string)) error
	anew func(ctx context.Context, id string) (done bool, err error) // false when it was changed meanwhile, or is gone
}

// SealedBy counts what is sealed, by the name of the key that opens it. Say is called with each kind of things, those of which there are
// none apart.
func (s *Store) SealedBy(ctx context.Context, say func(Resealing)) (map[string]int, error) {
	all := map[string]int{}
	there, err := s.collections(ctx)
	if err != nil {
		return nil, err
	}
	for _, kind := range s.sealedKinds(there) {
		of := Resealing{What: kind.what, Found: map[string]int{}}
		if err := kind.each(ctx, func(_, key string) { of.Found[key]++; all[key]++ }); err != nil {
			return nil, fmt.Errorf("count %s: %w", kind.what, err)
		}
		if len(of.Found) > 0 {
			say(of)
		}
	}
	return all, nil
}

// Reseal seals with the key that seals now whatever others have sealed. It may be called again after it was broken off, and by many at a
// time. What is damaged, and nobody can open, is left, and said why. What somebody writes meanwhile with another key it does not see:
// SealedBy does.
func (s *Store) Reseal(ctx context.Context, say func(Resealing)) (sealed int, damaged []error, err error) {
	now := s.keys.Keeper().Sealing()
	there, err := s.collections(ctx)
	if err != nil {
		return 0, nil, err
	}
	for _, kind := range s.sealedKinds(there) {
		of := Resealing{What: kind.what, Found: map[string]int{}}
		var old []string
		err := kind.each(ctx, func(id, key string) {
			if of.Found[key]++; key != now && (len(old) == 0 || old[len(old)-1] != id) { // a tenant may have several keys
				old = append(old, id)
			}
		})
		if err != nil {
			return sealed, damaged, fmt.Errorf("look for %s: %w", kind.what, err)
		}
		for i, id := range old {
			if i%resealSaid == 0 && i > 0 {
				say(of)
			}
			done, err := kind.anew(ctx, id)
			switch {
			case ctx.Err() != nil:
				return sealed, damaged, context.Cause(ctx)
			case errors.Is(err, domain.ErrUnreadable): // it cannot be opened: others can
				damaged = append(damaged, fmt.Errorf("%s of %s: %w", id, kind.what, err))
				continue
			case err != nil:
				return sealed, damaged, fmt.Errorf("seal %s of %s anew: %w", id, kind.what, err)
			}
			if done {
				sealed++
				of.Sealed++
			}
		}
		if len(of.Found) > 0 {
			say(of)
		}
	}
	return sealed, damaged, nil
}

// resealSaid is after how many things it is said how far the work has come.
const resealSaid = 500

// collections are the names of the collections that there are: most parts of what is divided are not there as long as there is little in
// them, and each is a question. One that comes to be later has what is written meanwhile, which nobody sees in any case.
func (s *Store) collections(ctx context.Context) (there map[string]bool, err error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	names, err := s.db.ListCollectionNames(ctx, bson.D{})
	if err != nil {
		return nil, kindOf(err)
	}
	there = make(map[string]bool, len(names))
	for _, name := range names {
		there[name] = true
	}
	return there, nil
}

// partsThere are the parts of a divided collection that are among those there are.
func (s *Store) partsThere(name string, there map[string]bool) (parts []*mongo.Collection) {
	for n := range divided[name] {
		if there[partName(name, n)] {
			parts = append(parts, s.part(name, n))
		}
	}
	return parts
}

// sealedKinds are all kinds of which there may be some in the collections that there are, the root secret last: as long as it is sealed by
// a key, that one is not done with.
func (s *Store) sealedKinds(there map[string]bool) []sealedKind {
	var kinds []sealedKind
	for _, n := range domain.Nouns {
		if there[n.Kind] {
			kinds = append(kinds, s.sealedDocuments(n.Kind))
		}
	}
	kinds = append(kinds, s.sealedDocuments(instances), s.sealedDocuments(sessions), s.sealedLeaves(there), s.sealedBlobs(there), s.sealedObservations(there),
		s.sealedLedgers(s.workloads, there), s.sealedLedgers(s.matches, there), s.sealedWatches())
	return append(kinds, sealedKind{
		what: "the secret that names things",
		each: func(ctx context.Context, see func(id, key string)) error {
			return s.eachSealed(ctx, s.db.Collection(sealsName), "data", see)
		},
		anew: func(ctx context.Context, id string) (bool, error) {
			return s.sealAnew(ctx, s.db.Collection(sealsName), id, "data", func(bson.Raw) string { return place(sealsName, id, 0) })
		},
	})
}

// eachSealed goes over a member with sealed data of all documents that have it.
func (s *Store) eachSealed(ctx context.Context, c *mongo.Collection, member string, see func(id, key string)) error {
	return each(ctx, s, c, bson.D{}, func() *bson.Raw { return &bson.Raw{} }, func(d *bson.Raw) {
		_, data, ok := d.Lookup(strings.Split(member, ".")...).BinaryOK()
		if !ok || len(data) == 0 {
			return
		}
		key, _ := secret.KeyOf(data) // "" for what is damaged, which nobody can seal anew
		see(d.Lookup("_id").StringValue(), key)
	}, options.Find().SetProjection(bson.D{{Key: member, Value: 1}}))
}

// sealAnew seals a member of a document anew that is bound to a place.
func (s *Store) sealAnew(ctx context.Context, c *mongo.Collection, id, member string, placeOf func(bson.Raw) string) (bool, error) {
	var d bson.Raw
	if err := s.findOne(ctx, c, id, &d); err != nil {
		return false, ignoreMissing(err)
	}
	_, data, ok := d.Lookup(member).BinaryOK()
	if !ok {
		return false, nil
	}
	at := placeOf(d)
	plain, err := s.keys.OpenBytes(at, data)
	if err != nil {
		return false, unopened(err)
	}
	anew, err := s.keys.SealBytes(at, plain)
	if err != nil {
		return false, err
	}
	return s.setIf(ctx, c, asWasRead(d, member, data), bson.D{{Key: member, Value: anew}})
}

// mostCompared is up to how many sealed bytes a write says as which they were read: MongoDB takes 16 MiB for what a write selects and sets together.
const mostCompared = 7 << 20

// asWasRead selects a document as it was read, by sealed data of it. Where there is too much of that, its revision and its size have to do: whoever changes
// it counts on the one, and whoever gives it a size, the other. What they do not tell apart is a document that was deleted since, and made anew just as long.
func asWasRead(document bson.Raw, member string, data []byte) bson.D {
	as := byID(document.Lookup("_id"))
	revision, err := document.LookupErr("revision")
	if err != nil || len(data) <= mostCompared {
		return append(as, bson.E{Key: member, Value: data})
	}
	as = append(as, bson.E{Key: "revision", Value: revision})
	if size, err := document.LookupErr(sizeMember); err == nil {
		return append(as, bson.E{Key: sizeMember, Value: size})
	}
	return append(as, bson.E{Key: sizeMember, Value: bson.D{{Key: "$exists", Value: false}}})
}

func ignoreMissing(err error) error {
	if fail.Is(err, fail.NotFound) {
		return nil
	}
	return err
}

// setIf sets members of the document that the filter selects; false when there is none.
func (s *Store) setIf(ctx context.Context, c *mongo.Collection, filter, members bson.D) (bool, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	r, err := c.UpdateOne(ctx, filter, bson.D{{Key: "$set", Value: members}})
	if err != nil {
		return false, kindOf(err)
	}
	return r.MatchedCount == 1, nil
}

// sealedDocuments are those of a noun, and the records of app contexts.
func (s *Store) sealedDocuments(collection string) sealedKind {
	c := s.db.Collection(collection)
	return sealedKind{
		what: collection,
		each: func(ctx context.Context, see func(id, key string)) error {
			return s.eachSealed(ctx, c, sealedMember, see)
		},
		anew: func(ctx context.Context, id string) (bool, error) {
			return s.sealAnew(ctx, c, id, sealedMember, func(d bson.Raw) string {
				revision, _ := d.Lookup("revision").AsInt64OK()
				return place(collection, id, revision)
			})
		},
	}
}

// eachInParts is eachSealed of parts of a divided collection.
func (s *Store) eachInParts(ctx context.Context, parts []*mongo.Collection, member string, see func(id, key string)) error {
	for _, part := range parts {
		if err := s.eachSealed(ctx, part, member, see); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) sealedLeaves(there map[string]bool) sealedKind {
	return sealedKind{
		what: leavesName,
		each: func(ctx context.Context, see func(id, key string)) error {
			return s.eachInParts(ctx, s.partsThere(leavesName, there), sealedMember, see)
		},
		anew: func(ctx context.Context, id string) (bool, error) {
			contextID, _, _ := strings.Cut(id, "/")
			return s.sealAnew(ctx, s.leaves(contextID), id, sealedMember, func(d bson.Raw) string {
				began, _ := d.Lookup("turn", "began").AsInt64OK()
				rank, _ := d.Lookup("turn", "rank").AsInt64OK()
				return leafPlace(id, domain.Turn{Began: began, Rank: rank})
			})
		},
	}
}

func (s *Store) sealedWatches() sealedKind {
	return sealedKind{
		what: watches,
		each: func(ctx context.Context, see func(id, key string)) error {
			return s.eachSealed(ctx, s.watches(), sealedMember, see)
		},
		anew: func(ctx context.Context, id string) (bool, error) {
			return s.sealAnew(ctx, s.watches(), id, sealedMember, func(d bson.Raw) string {
				watcher, _ := d.Lookup("watcher").StringValueOK()
				return watchPlace(domain.Key(id), watcher)
			})
		},
	}
}

// sealedBlobs says of blobs by their heads which keys they are sealed with.
func (s *Store) sealedBlobs(there map[string]bool) sealedKind {
	return sealedKind{
		what: headsName,
		each: func(ctx context.Context, see func(id, key string)) error {
			for _, part := range s.partsThere(headsName, there) {
				err := each(ctx, s, part, bson.D{}, func() *blobHead { return &blobHead{} },
					func(h *blobHead) { see(string(h.ID), h.Key) }, options.Find().SetProjection(bson.D{{Key: "key", Value: 1}}))
				if err != nil {
					return err
				}
			}
			return nil
		},
		anew: func(ctx context.Context, id string) (bool, error) { return s.sealBlobAnew(ctx, domain.Digest(id)) },
	}
}

func (s *Store) sealBlobAnew(ctx context.Context, digest domain.Digest) (bool, error) {
	old, sealed, err := s.sealedBlob(ctx, digest)
	if err != nil {
		return false, ignoreMissing(err)
	}
	plain, err := s.keys.OpenBytes(blobPlace(digest), sealed)
	if err != nil {
		return false, unopened(err)
	}
	head := blobHead{ID: digest, Size: old.Size, Wanted: old.Wanted}
	if head.Data, err = s.keys.SealBytes(blobPlace(digest), plain); err != nil {
		return false, err
	}
	head.Key, _ = secret.KeyOf(head.Data)
	if err := s.divideBlob(ctx, &head); err != nil {
		return false, err
	}
	as := append(byID(digest), bson.E{Key: "upload", Value: old.Upload}, bson.E{Key: "key", Value: old.Key})
	done, err := s.setIf(ctx, s.heads(digest), as, bson.D{
		{Key: "data", Value: head.Data}, {Key: "key", Value: head.Key}, {Key: "upload", Value: head.Upload}, {Key: "chunks", Value: head.Chunks},
	})
	if err != nil {
		return false, err
	}
	gone := old
	if !done {
		gone = head
	}
	return done, s.deleteChunks(ctx, digest, gone.Upload, gone.Chunks)
}

// sealedObservations have what they are opened by in front of their names.
func (s *Store) sealedObservations(there map[string]bool) sealedKind {
	return sealedKind{
		what: observationsName,
		each: func(ctx context.Context, see func(id, key string)) error {
			return s.eachInParts(ctx, s.partsThere(observationsName, there), "names.data", see)
		},
		anew: s.sealObservationAnew,
	}
}

func (s *Store) sealObservationAnew(ctx context.Context, id string) (bool, error) {
	deployment, _, _ := strings.Cut(id, "/")
	var old observation
	if err := s.findOne(ctx, s.observations(deployment), id, &old); err != nil {
		return false, ignoreMissing(err)
	}
	if old.broken != nil {
		return false, damagedObservation(&old, old.broken)
	}
	names, bodies, err := s.packedParts(ctx, &old)
	if err != nil {
		return false, ignoreMissing(err) // its chunks: another one has taken its place
	}
	now := old
	now.Upload, now.Names, now.Bodies = bson.NewObjectIDFromTimestamp(s.now()), packed{}, packed{}
	raw := make([]int, len(bodies))
	for i := range raw {
		raw[i] = old.Bodies.Frames[i].Raw
	}
	if err := s.sealParts(ctx, deployment, &now, names, bodies, raw); err != nil {
		return false, err
	}
	done, err := s.setIf(ctx, s.observations(deployment), append(byID(id), bson.E{Key: "upload", Value: old.Upload}), bson.D{
		{Key: "upload", Value: now.Upload}, {Key: "said", Value: now.Said}, {Key: "names", Value: now.Names}, {Key: "bodies", Value: now.Bodies},
	})
	if err != nil {
		return false, err
	}
	gone := &old
	if !done {
		gone = &now
	}
	return done, s.deleteObservedChunks(ctx, deployment, gone)
}

// sealedLedgers are tenants: a whole entry takes the place of all that there are.
func (s *Store) sealedLedgers(l *ledgers, there map[string]bool) sealedKind {
	return sealedKind{
		what: l.name,
		each: func(ctx context.Context, see func(id, key string)) error {
			for _, part := range s.partsThere(l.name, there) {
				found := map[string]map[string]bool{} // keys by tenant
				err := each(ctx, s, part, bson.D{}, func() *entry { return &entry{} }, func(e *entry) {
					tenant, _, _ := strings.Cut(e.ID, "/")
					if _, is := seqOf(e.ID); !is {
						return
					}
					if found[tenant] == nil {
						found[tenant] = map[string]bool{}
					}
					found[tenant][e.Key] = true
				}, options.Find().SetProjection(bson.D{{Key: "key", Value: 1}}))
				if err != nil {
					return err
				}
				for _, tenant := range slices.Sorted(maps.Keys(found)) {
					for _, key := range slices.Sorted(maps.Keys(found[tenant])) {
						see(tenant, key)
					}
				}
			}
			return nil
		},
		anew: l.sealAnew,
	}
}

// sealAnew writes an entry with all values.
func (l *ledgers) sealAnew(ctx context.Context, tenant string) (bool, error) {
	b, leave, err := l.enter(ctx, tenant)
	if err != nil {
		return false, err
	}
	defer leave()
	there := false
	err = cas.Do(ctx, func() error {
		if _, err := l.advance(ctx, tenant, b); err != nil {
			return err
		}
		if there = b.seq > 0; !there {
			return nil
		}
		return l.rewrite(ctx, tenant, b)
	})
	return there && err == nil, err
}

// packedParts opens what an observation has, as it was compressed: the names, and the frames of bodies.
func (s *Store) packedParts(ctx context.Context, o *observation) (names []byte, bodies [][]byte, err error) {
	parts, data, err := s.keys.PartsOf(o.Names.Data)
	if err != nil {
		return nil, nil, unopened(err)
	}
	if data, err = s.withChunks(ctx, o, namesPart, o.Names, slices.Clip(data)); err != nil {
		return nil, nil, err
	}
	if names, err = parts.Open(observedPlace(o, namesPart, 0), data); err != nil {
		return nil, nil, unopened(err)
	}
	if data, err = s.withChunks(ctx, o, bodiesPart, o.Bodies, o.Bodies.Data); err != nil {
		return nil, nil, err
	}
	for i, f := range o.Bodies.Frames {
		if f.Packed > len(data) {
			return nil, nil, unopened(errCutShort)
		}
		body, err := parts.Open(observedPlace(o, bodiesPart, i), data[:f.Packed])
		if err != nil {
			return nil, nil, unopened(err)
		}
		bodies, data = append(bodies, body), data[f.Packed:]
	}
	return names, bodies, nil
}

// sealParts seals names and bodies that were compressed, of so many bytes each, and divides what is large.
func (s *Store) sealParts(ctx context.Context, deployment string, into *observation, names []byte, bodies [][]byte, raw []int) error {
	parts, head, err := s.keys.Parts()
	if err != nil {
		return err
	}
	for i, body := range bodies {
		sealed, err := parts.Seal(observedPlace(into, bodiesPart, i), body)
		if err != nil {
			return err
		}
		into.Bodies.Data = append(into.Bodies.Data, sealed...)
		into.Bodies.Frames = append(into.Bodies.Frames, frame{raw[i], len(sealed)})
	}
	if into.Names.Data, err = parts.Seal(observedPlace(into, namesPart, 0), names); err != nil {
		return err
	}
	texts, err := json.Marshal(into.Texts)
	if err != nil {
		return fail.Wrap(err, fail.Internal, "what a cluster says cannot be stored")
	}
	if into.Said, err = parts.Seal(observedPlace(into, saidPart, 0), texts); err != nil {
		return err
	}
	if err := s.divide(ctx, deployment, into, namesPart, &into.Names); err != nil {
		return err
	}
	into.Names.Data = slices.Concat(head, into.Names.Data)
	return s.divide(ctx, deployment, into, bodiesPart, &into.Bodies)
}

// divideBlob puts into chunks what is large.
func (s *Store) divideBlob(ctx context.Context, head *blobHead) error {
	if len(head.Data) <= s.chunk {
		return nil
	}
	rest := head.Data
	head.Data, head.Upload = nil, bson.NewObjectIDFromTimestamp(s.now())
	for ; len(rest) > 0; head.Chunks++ {
		n := min(s.chunk, len(rest))
		chunk := blobChunk{ID: chunkID(head.ID, head.Upload, head.Chunks), Data: rest[:n]}
		if _, err := s.insertOnce(ctx, s.chunks(head.ID), chunk); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}
