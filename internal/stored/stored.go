// Package stored reads documents and blobs from a store and decodes them: an owner by its key, a plan or a bundle by its
// digest. Operations read by it, and so do the queries about them.
package stored

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/version"
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

// JSON reads a blob of JSON. NotFound when it is not there, Unavailable when a newer build has written it.
func JSON[T any](ctx context.Context, from Blobs, digest domain.Digest) (*T, error) {
	data, err := from.Blob(ctx, digest)
	if err != nil {
		return nil, err
	}
	v := new(T)
	if err := json.Unmarshal(data, v); err != nil {
		return nil, fmt.Errorf("%w: decode blob %s: %w", domain.ErrUnreadable, digest, err)
	}
	if x, ok := any(v).(interface {
		Versions() (what string, has, known int64)
	}); ok {
		what, has, known := x.Versions()
		if err := version.Refuse(fmt.Sprintf("%s %s", what, digest), has, known); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// Part is JSON of a value that is in a blob with others.
func Part[T any](ctx context.Context, from Blobs, part domain.Part) (*T, error) {
	of, err := Parts[T](ctx, from, []domain.Part{part})
	if err != nil {
		return nil, err
	}
	return of[0], nil
}

// readsAtOnce is how many blobs are read side by side.
const readsAtOnce = 8

// Parts is Part of several values, in their order. Each blob is read once.
func Parts[T any](ctx context.Context, from Blobs, parts []domain.Part) ([]*T, error) {
	type wanted struct{ at, place int }
	of := map[domain.Digest][]wanted{}
	for i, p := range parts {
		digest, place, err := p.Cut()
		if err != nil {
			return nil, err
		}
		of[digest] = append(of[digest], wanted{i, place})
	}
	out := make([]*T, len(parts))
	g, ctx := panics.WithContext(ctx)
	g.SetLimit(readsAtOnce)
	for digest, all := range of {
		g.Go(func() error {
			values, err := JSON[[]json.RawMessage](ctx, from, digest)
			if err != nil {
				return err
			}
			for _, w := range all {
				if w.place >= len(*values) {
					return fail.Wrap(domain.ErrUnreadable, fail.Internal, "blob %s has %d parts, and no part %d", digest, len(*values), w.place)
				}
				out[w.at] = new(T)
				if err := json.Unmarshal((*values)[w.place], out[w.at]); err != nil {
					return fmt.Errorf("%w: decode part %d of blob %s: %w", domain.ErrUnreadable, w.place, digest, err)
				}
			}
			return nil
		})
	}
	return out, g.Wait()
}
