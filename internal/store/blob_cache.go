package store

import (
	"context"
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"

	"github.com/drover-io/drover/internal/domain"
)

// blobCache keeps the blobs used last, bounded by their bytes. Callers that want the same one share a read.
type blobCache struct {
	limit int64
	reads singleflight.Group

	mu    sync.Mutex
	bytes int64
	blobs *simplelru.LRU[domain.Digest, []byte]
}

func newBlobCache(limit int64) *blobCache {
	c := &blobCache{limit: limit}
	// The size is positive, which is all that it can fail for; what bounds the cache is the bytes.
	c.blobs, _ = simplelru.NewLRU(math.MaxInt32, func(_ domain.Digest, data []byte) { c.bytes -= int64(len(data)) })
	return c
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
		data, err := read(context.WithoutCancel(ctx), d)
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

func (c *blobCache) lookup(d domain.Digest) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.blobs.Get(d)
}

// add keeps a blob, unless it would drive out most of the others.
func (c *blobCache) add(d domain.Digest, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if int64(len(data)) > c.limit/2 || c.blobs.Contains(d) {
		return
	}
	c.blobs.Add(d, data)
	for c.bytes += int64(len(data)); c.bytes > c.limit; {
		c.blobs.RemoveOldest()
	}
}

func (c *blobCache) remove(d domain.Digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blobs.Remove(d)
}
