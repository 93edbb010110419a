package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
)

// waitTime bounds what tests wait for.
const waitTime = time.Minute

// sized reads blobs of as many bytes as the first letter of the digest says, and counts reads.
func sized(reads map[domain.Digest]int) func(context.Context, domain.Digest) ([]byte, error) {
	return func(_ context.Context, d domain.Digest) ([]byte, error) {
		reads[d]++
		return make([]byte, d[0]-'0'), nil
	}
}

func TestCacheIsBoundedByBytes(t *testing.T) {
	for name, c := range map[string]struct {
		asked []domain.Digest
		reads map[domain.Digest]int
		bytes int64
	}{
		"what fits is read once":               {[]domain.Digest{"3a", "3b", "3a", "3b"}, map[domain.Digest]int{"3a": 1, "3b": 1}, 6},
		"what was used last stays":             {[]domain.Digest{"4a", "4b", "4a", "4c", "4a", "4b"}, map[domain.Digest]int{"4a": 1, "4b": 2, "4c": 1}, 8},
		"what would drive others out does not": {[]domain.Digest{"4a", "6a", "6a", "4a"}, map[domain.Digest]int{"4a": 1, "6a": 2}, 4},
		"nothing costs nothing":                {[]domain.Digest{"0a", "0a", "4a", "4b"}, map[domain.Digest]int{"0a": 1, "4a": 1, "4b": 1}, 8},
	} {
		t.Run(name, func(t *testing.T) {
			cache, reads := newBlobCache(10), map[domain.Digest]int{}
			for _, d := range c.asked {
				data, err := cache.get(t.Context(), d, sized(reads))
				require.NoError(t, err)
				require.Len(t, data, int(d[0]-'0'))
			}
			require.Equal(t, c.reads, reads)
			require.Equal(t, c.bytes, cache.bytes)
		})
	}
	t.Run("what is removed is read again", func(t *testing.T) {
		cache, reads := newBlobCache(10), map[domain.Digest]int{}
		for range 2 {
			_, err := cache.get(t.Context(), "3a", sized(reads))
			require.NoError(t, err)
			cache.remove("3a")
		}
		require.Equal(t, 2, reads["3a"])
		require.Zero(t, cache.bytes)
	})
}

func TestCacheKeepsNoErrors(t *testing.T) {
	cache, reads := newBlobCache(10), map[domain.Digest]int{}
	broken := errors.New("broken")
	_, err := cache.get(t.Context(), "3a", func(context.Context, domain.Digest) ([]byte, error) { return nil, broken })
	require.ErrorIs(t, err, broken)
	data, err := cache.get(t.Context(), "3a", sized(reads))
	require.NoError(t, err)
	require.Len(t, data, 3)
}

func TestCacheReadsGoOnForOthers(t *testing.T) {
	cache := newBlobCache(10)
	begun, proceed := make(chan struct{}), make(chan struct{})
	read := func(ctx context.Context, _ domain.Digest) ([]byte, error) {
		close(begun)
		<-proceed
		return []byte("abc"), ctx.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := cache.get(ctx, "d", read)
		left <- err
	}()
	<-begun
	cancel()
	require.ErrorIs(t, <-left, context.Canceled)
	stayed := make(chan []byte, 1)
	go func() {
		data, _ := cache.get(t.Context(), "d", func(context.Context, domain.Digest) ([]byte, error) { return nil, errors.New("a second read") })
		stayed <- data
	}()
	close(proceed)
	require.Equal(t, []byte("abc"), <-stayed)
}
