package stored_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
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
	from["newer"] = fmt.Sprintf(`{"v":%d}`, plan.Known+1)
	_, err = stored.JSON[plan.Plan](t.Context(), from, "newer")
	require.True(t, fail.Is(err, fail.Unavailable))
	require.ErrorContains(t, err, "plan newer has version 1, as a newer Drover has written it")
	_, err = stored.JSON[plan.Bundle](t.Context(), from, "newer")
	require.ErrorContains(t, err, "bundle newer has version 1, as a newer Drover has written it")
}

// reading counts reads.
type reading struct {
	blobs
	reads atomic.Int64
}

func (r *reading) Blob(ctx context.Context, d domain.Digest) ([]byte, error) {
	r.reads.Add(1)
	return r.blobs.Blob(ctx, d)
}

func TestPartsReadEachBlobOnce(t *testing.T) {
	from := &reading{blobs: blobs{"a": `[1,2,3]`, "b": `[4]`, "bad": `["x"]`}}
	of, err := stored.Parts[int](t.Context(), from, []domain.Part{"a/2", "b/0", "a/0", "a/2"})
	require.NoError(t, err)
	got := make([]int, len(of))
	for i := range of {
		got[i] = *of[i]
	}
	require.Equal(t, []int{3, 4, 1, 3}, got)
	require.EqualValues(t, 2, from.reads.Load())
	one, err := stored.Part[int](t.Context(), from, domain.PartOf("a", 1))
	require.NoError(t, err)
	require.Equal(t, 2, *one)
	none, err := stored.Parts[int](t.Context(), from, nil)
	require.NoError(t, err)
	require.Empty(t, none)
	for part, says := range map[domain.Part]string{
		"a/3": "no part 3", "a": "no part of a blob", "a/-1": "no part of a blob", "": "no part of a blob", "bad/0": "decode part 0 of blob bad", "none/0": "not found",
	} {
		_, err := stored.Part[int](t.Context(), from, part)
		require.ErrorContains(t, err, says)
	}
}

func TestOwnerOfWhatHasNone(t *testing.T) {
	_, err := stored.Owner(t.Context(), nil, "projects/p")
	require.Equal(t, fail.Internal, fail.KindOf(err))
}
