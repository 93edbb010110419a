package store

import (
	"context"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/policy"
)

// SweepBlobs removes the blobs that keep does not want, and what uploads left that never came to their
// end. Only what was put longer than olderThan ago goes, and never what was put in the last two hours:
// whoever puts a blob stores the reference to it afterwards. removed counts blobs. Any number of sweeps
// and puts may run at the same time.
func (s *Store) SweepBlobs(ctx context.Context, keep func(domain.Digest) bool, olderThan time.Duration) (removed int, err error) {
	before := s.now().Add(-max(olderThan, 2*policy.Touch))
	for n := range uint32(partitions) {
		swept, err := s.sweepHeads(ctx, n, keep, before)
		removed += swept
		if err == nil {
			err = s.sweepUploads(ctx, n, before)
		}
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// SweepObservations removes what clusters said of app contexts that there are not: whoever watches goes for a time by what it knew of a
// context, and stores what it is told when that is deleted already. Known is called when it has been listed what is stored, and gives the
// contexts that there are. Only what is older than that goes. removed counts contexts. Of contexts that there are it removes what no
// observation names: chunks of one that was replaced, or was to be, by somebody who did not hear what became of that.
func (s *Store) SweepObservations(ctx context.Context, known func(context.Context) (map[string]bool, error), olderThan time.Duration) (removed int, err error) {
	last, err := s.lastObserved(ctx)
	if err != nil {
		return 0, err
	}
	there, err := known(ctx)
	if err != nil {
		return 0, err
	}
	var gone []string
	before := s.now().Add(-olderThan)
	for id, at := range last {
		if !there[id] && at.Before(before) {
			gone = append(gone, id)
		}
	}
	if err := s.deleteObservations(ctx, gone); err != nil {
		return 0, err
	}
	for n := range divided[observedChunksName] {
		if err := s.sweepObserved(ctx, n, before); err != nil {
			return len(gone), err
		}
	}
	return len(gone), nil
}

// sweepObserved removes chunks that no observation of their part names. Those of an upload that goes on are not that old.
func (s *Store) sweepObserved(ctx context.Context, n uint32, before time.Time) error {
	chunks := s.part(observedChunksName, n)
	ids, err := s.ids(ctx, chunks, bson.D{})
	if err != nil {
		return err
	}
	var old []string // what the _id of chunks of an upload begin with
	for _, id := range ids {
		upload := ofUpload(id)
		if upload != "" && uploadOf(id).Timestamp().Before(before) && (len(old) == 0 || old[len(old)-1] != upload) {
			old = append(old, upload)
		}
	}
	if len(old) == 0 {
		return nil
	}
	named := map[string]bool{}
	err = each(ctx, s, s.part(observationsName, n), bson.D{}, func() *uploadedAs { return &uploadedAs{} }, func(o *uploadedAs) {
		named[o.ID+"/"+o.Upload.Hex()] = true
	}, options.Find().SetProjection(bson.D{{Key: "upload", Value: 1}}))
	if err != nil {
		return err
	}
	for _, upload := range old {
		if named[upload] {
			continue
		}
		if err := s.deleteRange(ctx, chunks, below(upload)); err != nil {
			return err
		}
	}
	return nil
}

// uploadedAs is of an observation which upload its chunks are of.
type uploadedAs struct {
	ID     string        `bson:"_id"`
	Upload bson.ObjectID `bson:"upload"`
}

// lastObserved says of each context of which observations, chunks of them or changes are stored when the last one was.
func (s *Store) lastObserved(ctx context.Context) (map[string]time.Time, error) {
	type dated struct {
		ID      string        `bson:"_id"`
		Upload  bson.ObjectID `bson:"upload"`  // of an observation
		Version bson.ObjectID `bson:"version"` // of a change
	}
	last := map[string]time.Time{}
	for name, dateOf := range map[string]func(*dated) (contextID string, at bson.ObjectID){
		observationsName: func(d *dated) (string, bson.ObjectID) {
			contextID, _, _ := strings.Cut(d.ID, "-")
			return contextID, d.Upload
		},
		observedChunksName: func(d *dated) (string, bson.ObjectID) {
			contextID, _, _ := strings.Cut(d.ID, "-")
			return contextID, uploadOf(d.ID)
		},
		changesName: func(d *dated) (string, bson.ObjectID) {
			contextID, _, _ := strings.Cut(d.ID, "/")
			return contextID, d.Version
		},
	} {
		members := options.Find().SetProjection(bson.D{{Key: "upload", Value: 1}, {Key: "version", Value: 1}})
		for n := range divided[name] {
			err := each(ctx, s, s.part(name, n), bson.D{}, func() *dated { return &dated{} }, func(d *dated) {
				contextID, at := dateOf(d)
				if found := at.Timestamp(); found.After(last[contextID]) {
					last[contextID] = found
				}
			}, members)
			if err != nil {
				return nil, err
			}
		}
	}
	return last, nil
}

func (s *Store) sweepHeads(ctx context.Context, n uint32, keep func(domain.Digest) bool, before time.Time) (removed int, err error) {
	var old []*blobHead
	err = each(ctx, s, s.part(headsName, n), bson.D{{Key: "wanted", Value: bson.D{{Key: "$lt", Value: before}}}},
		func() *blobHead { return &blobHead{} }, func(h *blobHead) { old = append(old, h) },
		options.Find().SetProjection(bson.D{{Key: "data", Value: 0}}))
	if err != nil {
		return 0, err
	}
	for _, h := range old {
		if keep(h.ID) {
			continue
		}
		// Whoever wants it meanwhile changes the time, and the blob stays.
		gone, err := s.deleteOne(ctx, s.heads(h.ID), append(byID(h.ID), bson.E{Key: "wanted", Value: h.Wanted}))
		if err != nil {
			return removed, err
		}
		if !gone {
			continue
		}
		removed++
		s.cache.remove(h.ID)
		if err := s.deleteChunks(ctx, h.ID, h.Upload, h.Chunks); err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// sweepUploads removes chunks that no head names: of uploads that crashed, and of sweeps that did.
func (s *Store) sweepUploads(ctx context.Context, n uint32, before time.Time) error {
	ids, err := s.ids(ctx, s.part(chunksName, n), bson.D{})
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, id := range ids {
		upload := id[:strings.LastIndexByte(id, '/')]
		if seen[upload] {
			continue
		}
		seen[upload] = true
		digest, hex, _ := strings.Cut(upload, "/")
		began, err := bson.ObjectIDFromHex(hex)
		if err != nil || !began.Timestamp().Before(before) {
			continue
		}
		head, err := s.head(ctx, domain.Digest(digest), "upload")
		switch {
		case err == nil && head.Upload == began:
			continue
		case err != nil && !fail.Is(err, fail.NotFound):
			return err
		}
		if err := s.deleteRange(ctx, s.chunks(domain.Digest(digest)), below(upload)); err != nil {
			return err
		}
	}
	return nil
}
