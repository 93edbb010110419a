package stored_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/stored"
)

type blobs map[domain.Digest]string

func (b blobs) Blob(_ context.Context, d domain.Digest) ([]byte, error) {
	if data, ok := b[d]; ok {
		return []byte(data), nil
	}
	return nil, fail.New(fail.NotFound, "blob %s not found", d)
}

func TestJSON(t *testing.T) {
	from := blobs{"good": `{"a":1}`, "bad": `{"a":`}
	v, err := stored.JSON[map[string]int](t.Context(), from, "good")
	require.NoError(t, err)
	require.Equal(t, map[string]int{"a": 1}, *v)
	_, err = stored.JSON[map[string]int](t.Context(), from, "bad")
	require.ErrorContains(t, err, "decode blob bad")
	_, err = stored.JSON[map[string]int](t.Context(), from, "none")
	require.True(t, fail.Is(err, fail.NotFound))
}

func TestOwnerOfWhatHasNone(t *testing.T) {
	_, err := stored.Owner(t.Context(), nil, "projects/p")
	require.Equal(t, fail.Internal, fail.KindOf(err))
}
