package store

import (
	"context"

	"golang.org/x/sync/singleflight"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/internal/panics"
)

// blobCache keeps the blobs used last, bounded by their bytes. Callers that want the same one share a read.
type blobCache struct {
	*bounded[domain.Digest, []byte]
	reads singleflight.Group
}

func newBlobCache(limit int64) *blobCache {
	return &blobCache{bounded: newBounded[domain.Digest](measure.CacheBlobs, limit, func(data []byte) int64 { return int64(len(data)) })}
}

// get is the blob from memory, else from read, which goes on for others when ctx ends.
func (c *blobCache) get(ctx context.Context, d domain.Digest, read func(context.Context, domain.Digest) ([]byte, error)) ([]byte, error) {
	if data, ok := c.lookup(d); ok {
		return data, nil
	}
	flight := c.reads.DoChan(string(d), func() (any, error) {
		if data, ok := c.lookup(d); ok { // read since we looked
			return data, nil
		}
		ctx := context.WithoutCancel(ctx)
		data, err := panics.Value(ctx, func() ([]byte, error) { return read(ctx, d) })
		if err == nil {
			c.add(d, data)
		}
		return data, err
	})
	select {
	case r := <-flight:
		data, _ := r.Val.([]byte)
		return data, r.Err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
