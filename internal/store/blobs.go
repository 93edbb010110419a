package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/secret"
)

// blobHead is the document that makes a blob visible. A small blob is in it; a large one is in chunks,
// which belong to one upload: two uploads at a time may have cut and compressed it differently.
type blobHead struct {
	ID     domain.Digest `bson:"_id"`
	Size   int           `bson:"size"`   // bytes, not compressed
	Wanted time.Time     `bson:"wanted"` // when it was put last, to within policy.Touch
	Key    string        `bson:"key"`    // the name of the key that opens it
	Data   []byte        `bson:"data"`   // zstd, sealed
	Upload bson.ObjectID `bson:"upload"`
	Chunks int           `bson:"chunks"`
}

type blobChunk struct {
	ID   string `bson:"_id"`  // chunkID
	Data []byte `bson:"data"` // part of what is sealed
}

func chunkID(d domain.Digest, upload bson.ObjectID, i int) string {
	return fmt.Sprintf("%s/%s/%06d", d, upload.Hex(), i)
}

// The options are constants, so neither can fail. Both may be used concurrently.
var (
	encoder, _ = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	decoder, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(limits.Blob))
)

// PutBlob stores data under its digest, which is the same for the same data; what is there is not written again. The chunks
// come before the head, so that a crash leaves nothing that can be seen. Invalid when data has more than
// 1 GiB.
func (s *Store) PutBlob(ctx context.Context, data []byte) (domain.Digest, error) {
	if len(data) > limits.Blob {
		return "", fail.New(fail.Invalid, "%d bytes are too many; at most %d can be stored", len(data), limits.Blob)
	}
	r, err := s.rooted(ctx)
	if err != nil {
		return "", err
	}
	digest := r.digestOf(data)
	found, err := s.want(ctx, digest)
	if err == nil && !found {
		err = s.writeBlob(ctx, digest, data)
	}
	if err != nil {
		return "", fmt.Errorf("store blob %s: %w", digest, err)
	}
	return digest, nil
}

// partsAtOnce is how many partitions PutBlobs works on side by side, and putTogether how many bytes go into one request.
const (
	partsAtOnce = 8
	putTogether = 4 << 20
)

// PutBlobs is PutBlob for many: those of a partition are looked for, and stored, together. When it fails some may be there.
func (s *Store) PutBlobs(ctx context.Context, data [][]byte) ([]domain.Digest, error) {
	r, err := s.rooted(ctx)
	if err != nil {
		return nil, err
	}
	digests, parts := make([]domain.Digest, len(data)), map[string]map[domain.Digest][]byte{}
	for i, d := range data {
		if len(d) > limits.Blob {
			return nil, fail.New(fail.Invalid, "%d bytes are too many; at most %d can be stored", len(d), limits.Blob)
		}
		digests[i] = r.digestOf(d)
		part := s.heads(digests[i]).Name()
		if parts[part] == nil {
			parts[part] = map[domain.Digest][]byte{}
		}
		parts[part][digests[i]] = d
	}
	g, ctx := panics.WithContext(ctx)
	g.SetLimit(partsAtOnce)
	for part, of := range parts {
		g.Go(func() error { return s.putPart(ctx, s.db.Collection(part), of) })
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("store %d blobs: %w", len(data), err)
	}
	return digests, nil
}

// putPart stores blobs of one partition.
func (s *Store) putPart(ctx context.Context, heads *mongo.Collection, blobs map[domain.Digest][]byte) error {
	there := map[domain.Digest]time.Time{}
	ids := slices.Sorted(maps.Keys(blobs))
	filter := bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}
	only := options.Find().SetProjection(bson.D{{Key: "wanted", Value: 1}})
	err := each(ctx, s, heads, filter, func() *blobHead { return new(blobHead) }, func(h *blobHead) { there[h.ID] = h.Wanted }, only)
	if err != nil {
		return err
	}
	var together []blobHead
	bytes := 0
	flush := func() error {
		if len(together) == 0 {
			return nil
		}
		for _, err := range insertMany(ctx, s, heads, together) {
			if err != nil && !errors.Is(err, errTaken) { // somebody who was faster has stored the same
				return err
			}
		}
		together, bytes = nil, 0
		return nil
	}
	for _, id := range ids {
		wanted, found := there[id]
		switch {
		case found && s.now().Sub(wanted) < policy.Touch:
			continue
		case found:
			if _, err := s.PutBlob(ctx, blobs[id]); err != nil {
				return err
			}
			continue
		}
		head, err := s.newHead(id, blobs[id])
		if err != nil {
			return err
		}
		if len(head.Data) > limits.Chunk {
			if err := s.writeBlob(ctx, id, blobs[id]); err != nil {
				return err
			}
			continue
		}
		if bytes += len(head.Data); bytes > putTogether || len(together) == maxBatch {
			if err := flush(); err != nil {
				return err
			}
			bytes = len(head.Data)
		}
		together = append(together, head)
	}
	return flush()
}

// want notes that a blob is wanted; false when it is not there.
func (s *Store) want(ctx context.Context, digest domain.Digest) (bool, error) {
	head, err := s.head(ctx, digest, "wanted")
	if fail.Is(err, fail.NotFound) {
		return false, nil
	}
	if err != nil || s.now().Sub(head.Wanted) < policy.Touch {
		return err == nil, err
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	r, err := s.heads(digest).UpdateOne(ctx, byID(digest), bson.D{{Key: "$set", Value: bson.D{{Key: "wanted", Value: s.now()}}}})
	if err != nil {
		return false, kindOf(err)
	}
	return r.MatchedCount == 1, nil
}

// head reads the members of a head; all when none is named.
func (s *Store) head(ctx context.Context, digest domain.Digest, members ...string) (blobHead, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	only := bson.D{}
	for _, m := range members {
		only = append(only, bson.E{Key: m, Value: 1})
	}
	var head blobHead
	raw, err := s.heads(digest).FindOne(ctx, byID(digest), options.FindOne().SetProjection(only)).Raw()
	if err == nil {
		err = s.decode(headsName, raw, &head)
	}
	return head, kindOf(err)
}

// newHead is the head of a blob with all of its data, sealed.
func (s *Store) newHead(digest domain.Digest, data []byte) (blobHead, error) {
	sealed, err := s.keys.SealBytes(blobPlace(digest), encoder.EncodeAll(data, nil))
	key, _ := secret.KeyOf(sealed)
	return blobHead{ID: digest, Size: len(data), Wanted: s.now(), Key: key, Data: sealed}, err
}

// blobPlace is what a blob's data are bound to.
func blobPlace(digest domain.Digest) string { return headsName + "/" + string(digest) }

func (s *Store) writeBlob(ctx context.Context, digest domain.Digest, data []byte) error {
	head, err := s.newHead(digest, data)
	if err != nil {
		return err
	}
	if err := s.divideBlob(ctx, &head); err != nil {
		return err
	}
	first, err := s.insertOnce(ctx, s.heads(digest), head)
	if err == nil && !first { // another upload was faster: its chunks are the blob's
		return s.deleteChunks(ctx, digest, head.Upload, head.Chunks)
	}
	return err
}

func (s *Store) deleteChunks(ctx context.Context, digest domain.Digest, upload bson.ObjectID, n int) error {
	for i := range n {
		if _, err := s.deleteOne(ctx, s.chunks(digest), byID(chunkID(digest, upload, i))); err != nil {
			return err
		}
	}
	return nil
}

// Blob reads a blob. Its seal says that it is the one that was put. The data must not be changed: it is shared. NotFound when it is
// not there.
func (s *Store) Blob(ctx context.Context, digest domain.Digest) ([]byte, error) {
	return s.cache.get(ctx, digest, s.readBlob)
}

// sealedBlob reads a blob's head, and all of its data as they are sealed. One that is sealed anew meanwhile is read again.
func (s *Store) sealedBlob(ctx context.Context, digest domain.Digest) (blobHead, []byte, error) {
	head, err := s.head(ctx, digest)
	for range reloads {
		if fail.Is(err, fail.NotFound) {
			return head, nil, fail.New(fail.NotFound, "blob %s not found", digest)
		}
		if err != nil {
			return head, nil, fmt.Errorf("read blob %s: %w", digest, err)
		}
		sealed, missing := s.chunked(ctx, head)
		if !fail.Is(missing, fail.NotFound) {
			return head, sealed, missing
		}
		before := head.Upload
		if head, err = s.head(ctx, digest); err == nil && head.Upload == before {
			return head, nil, damaged(missing, digest)
		}
	}
	return head, nil, fail.New(fail.Unavailable, "blob %s is being sealed anew; try again", digest)
}

// chunked are all data of a head.
func (s *Store) chunked(ctx context.Context, head blobHead) ([]byte, error) {
	sealed := head.Data
	for i := range head.Chunks {
		var chunk blobChunk
		if err := s.findOne(ctx, s.chunks(head.ID), chunkID(head.ID, head.Upload, i), &chunk); err != nil {
			return nil, err
		}
		sealed = append(sealed, chunk.Data...)
	}
	return sealed, nil
}

func (s *Store) readBlob(ctx context.Context, digest domain.Digest) ([]byte, error) {
	head, sealed, err := s.sealedBlob(ctx, digest)
	if err != nil {
		return nil, err
	}
	compressed, err := s.keys.OpenBytes(blobPlace(digest), sealed)
	if err != nil {
		return nil, damaged(err, digest)
	}
	data, err := decoder.DecodeAll(compressed, make([]byte, 0, head.Size))
	if err != nil {
		return nil, damaged(err, digest)
	}
	return data, nil
}

// damaged is the error of a blob that is there but cannot be had; that the database does not answer says
// nothing about the blob.
func damaged(err error, digest domain.Digest) error {
	if err != nil && fail.KindOf(err) != fail.NotFound && fail.KindOf(err) != fail.Internal {
		return fmt.Errorf("read blob %s: %w", digest, err)
	}
	return unopened(fail.Wrap(err, fail.Internal, "blob %s is damaged", digest))
}

// digestOf names a blob, so that who does not have the root secret cannot try whether a guess of its content is right.
func (r *root) digestOf(data []byte) domain.Digest {
	return domain.Digest(secret.Digest(r.blobs, data))
}
