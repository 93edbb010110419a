package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/lru"
	"github.com/drover-io/drover/internal/plan"
)

// blobs are blobs by digest, of which it counts who reads them.
type blobs struct {
	Leaves
	of    map[domain.Digest]any
	reads map[domain.Digest]int
}

func (b *blobs) Blob(_ context.Context, digest domain.Digest) ([]byte, error) {
	b.reads[digest]++
	return json.Marshal(b.of[digest])
}

// manifest is one of so many bytes.
func manifest(bytes int) json.RawMessage {
	return json.RawMessage(`"` + strings.Repeat("x", bytes-2) + `"`)
}

// fewBytes is how many bytes of bundles are kept in these tests.
const fewBytes = 1 << 20

// keeping are activities that keep fewBytes of bundles.
func keeping(from Leaves) *Kube {
	k := NewKube(nil, from, nil, nil, nil)
	k.bundles = lru.NewWeighed[bundleKey, *plan.Bundle](decodedBundles, fewBytes)
	return k
}

// TestLargeBundlesAreFew: bundles are not kept by their number alone.
func TestLargeBundlesAreFew(t *testing.T) {
	const large = 40 << 10
	from := &blobs{of: map[domain.Digest]any{}, reads: map[domain.Digest]int{}}
	k := keeping(from)
	digest := func(n int) domain.Digest { return domain.Digest(fmt.Sprint("bundle", n)) }
	for n := range decodedBundles {
		from.of = map[domain.Digest]any{digest(n): plan.Bundle{Resources: []plan.Resource{{Manifest: manifest(large)}}}}
		for range 2 {
			_, err := k.bundle(t.Context(), "projects/p", digest(n))
			require.NoError(t, err)
		}
		require.Equal(t, 1, from.reads[digest(n)])
		require.LessOrEqual(t, k.bundles.Len(), fewBytes/large)
	}
	require.Equal(t, fewBytes/large, k.bundles.Len())
}

// TestWhatVariantsShareIsKeptOnce: with the bundle, which is not forgotten before them; where it is, nothing holds it that is counted less.
func TestWhatVariantsShareIsKeptOnce(t *testing.T) {
	const owner, app, overlays = domain.Key("projects/p"), domain.Digest("app"), domain.Digest("overlays")
	read := func(shared int) (*Kube, *blobs, func(variant int)) {
		var variants []plan.Overlay
		for range decodedBundles {
			variants = append(variants, plan.Overlay{Resources: []plan.Overlaid{{Index: 1, Resource: plan.Resource{Manifest: manifest(100)}}}})
		}
		from := &blobs{reads: map[domain.Digest]int{}, of: map[domain.Digest]any{
			app:      plan.Bundle{Resources: []plan.Resource{{Manifest: manifest(shared)}, {Manifest: manifest(100)}}},
			overlays: variants,
		}}
		k := keeping(from)
		return k, from, func(variant int) {
			t.Helper()
			b, err := k.varied(t.Context(), owner, app, domain.Part(fmt.Sprintf("%s/%d", overlays, variant)))
			require.NoError(t, err)
			require.Len(t, b.Resources, 2)
		}
	}

	k, from, ask := read(fewBytes / 16)
	for range 3 {
		for n := range decodedBundles - 1 {
			ask(n)
		}
	}
	require.Equal(t, decodedBundles, k.bundles.Len(), "each with the bundle would be too large")
	for n := range decodedBundles { // while one is used all the time
		ask(0)
		other := domain.Digest(fmt.Sprint("other", n))
		from.of[other] = plan.Bundle{}
		_, err := k.bundle(t.Context(), owner, other)
		require.NoError(t, err)
	}
	ask(1)
	require.Equal(t, 1, from.reads[app])
	require.Equal(t, decodedBundles, from.reads[overlays], "the other variants have gone")

	k, _, ask = read(fewBytes - 1000)
	ask(0)
	require.Zero(t, k.bundles.Len(), "one that leaves no room for its bundle")
}

// stalled are blobs that come when they are let through.
type stalled struct {
	Leaves
	of    map[domain.Digest]any
	let   chan struct{}
	reads atomic.Int32
}

func (b *stalled) Blob(_ context.Context, digest domain.Digest) ([]byte, error) {
	b.reads.Add(1)
	<-b.let
	return json.Marshal(b.of[digest])
}

// TestLeavesThatBeginTogetherDecodeOnce: a bundle and a variant, whoever of them leaves meanwhile, also the first one.
func TestLeavesThatBeginTogetherDecodeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := &stalled{let: make(chan struct{}), of: map[domain.Digest]any{
			"app":      plan.Bundle{Resources: []plan.Resource{{Manifest: manifest(100)}}},
			"overlays": []plan.Overlay{{Resources: []plan.Overlaid{{Resource: plan.Resource{Manifest: manifest(200)}}}}},
		}}
		k := keeping(from)
		const leaves = 1000
		leaving, leave := context.WithCancel(t.Context())
		type answer struct {
			bundle *plan.Bundle
			err    error
		}
		answers := map[domain.Part]chan answer{"": make(chan answer, leaves), "overlays/0": make(chan answer, leaves)}
		for n := range leaves {
			ctx := t.Context()
			if n < 10 {
				ctx = leaving
			}
			for overlay, to := range answers {
				go func() {
					b, err := k.varied(ctx, "projects/p", "app", overlay)
					to <- answer{b, err}
				}()
			}
			synctest.Wait()
		}
		leave()
		synctest.Wait()
		for overlay, to := range answers {
			require.Len(t, to, 10, overlay)
			for range 10 {
				require.ErrorIs(t, (<-to).err, context.Canceled)
			}
		}
		close(from.let)
		synctest.Wait()
		for overlay, to := range answers {
			require.Len(t, to, leaves-10, overlay)
			first := <-to
			for range leaves - 11 {
				a := <-to
				require.NoError(t, a.err)
				require.Same(t, first.bundle, a.bundle)
			}
		}
		require.EqualValues(t, 2, from.reads.Load())
	})
}

// TestLargePlansAreFew: plans are not kept by their number alone.
func TestLargePlansAreFew(t *testing.T) {
	large := plan.Plan{Apps: []plan.App{{Targets: []plan.Target{{Reason: strings.Repeat("x", decodedPlanBytes/3)}}}}}
	from := &blobs{of: map[domain.Digest]any{"a": large, "b": large, "c": large}, reads: map[domain.Digest]int{}}
	k := keeping(from)
	for _, digest := range []domain.Digest{"a", "b", "b", "c"} {
		_, err := k.plan(t.Context(), digest)
		require.NoError(t, err)
		require.LessOrEqual(t, k.Plans.kept.Weight(), int64(decodedPlanBytes))
	}
	require.Equal(t, 2, k.Plans.kept.Len())
	require.Equal(t, 1, from.reads["b"])
}
