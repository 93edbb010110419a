// Package stored reads documents and blobs from a store and decodes them: an owner by its key, a plan or a bundle by its
// digest. Operations read by it, and so do the queries about them.
package stored

import (
	"context"
	"encoding/json"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// Resources reads resources.
type Resources interface {
	Get(ctx context.Context, noun *domain.Noun, key domain.Key) (domain.Object, error)
}

// Owner reads a resource with a lifecycle. NotFound when it is not there.
func Owner(ctx context.Context, from Resources, key domain.Key) (domain.Owner, error) {
	noun := domain.OwnerNoun(key)
	if noun == nil {
		return nil, fail.New(fail.Internal, "%s has no lifecycle", key)
	}
	o, err := from.Get(ctx, noun, key)
	if err != nil {
		return nil, err
	}
	return o.(domain.Owner), nil
}

// Blobs reads blobs.
type Blobs interface {
	Blob(ctx context.Context, digest domain.Digest) ([]byte, error)
}

// JSON reads a blob of JSON. NotFound when it is not there.
func JSON[T any](ctx context.Context, from Blobs, digest domain.Digest) (*T, error) {
	data, err := from.Blob(ctx, digest)
	if err != nil {
		return nil, err
	}
	v := new(T)
	if err := json.Unmarshal(data, v); err != nil {
		return nil, fmt.Errorf("decode blob %s: %w", digest, err)
	}
	return v, nil
}

// readsAtOnce is how many blobs are read side by side.
const readsAtOnce = 8

// All is JSON of several blobs, in their order.
func All[T any](ctx context.Context, from Blobs, digests []domain.Digest) ([]*T, error) {
	out := make([]*T, len(digests))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readsAtOnce)
	for i, digest := range digests {
		g.Go(func() (err error) {
			out[i], err = JSON[T](ctx, from, digest)
			return err
		})
	}
	return out, g.Wait()
}
