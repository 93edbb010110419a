package activities

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
)

// slowBlobs has a blob for each digest, which is read once all have asked for it.
type slowBlobs struct {
	Leaves
	asked chan struct{} // closed once all ask
	reads atomic.Int64
}

func (s *slowBlobs) Blob(context.Context, domain.Digest) ([]byte, error) {
	s.reads.Add(1)
	<-s.asked
	return []byte(`{"namespace":"n"}`), nil
}

// TestLeavesThatBeginTogetherReadTheirPlanOnce: there may be a thousand, and it may be large.
func TestLeavesThatBeginTogetherReadTheirPlanOnce(t *testing.T) {
	t.Parallel()
	const leaves = 100
	from := &slowBlobs{asked: make(chan struct{})}
	k := NewKube(nil, from, nil, nil, nil)
	var ask, all sync.WaitGroup
	ask.Add(leaves)
	errs := make([]error, leaves)
	for i := range leaves {
		all.Go(func() {
			ask.Done()
			_, errs[i] = k.plan(t.Context(), "digest")
		})
	}
	ask.Wait()
	close(from.asked)
	all.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	require.EqualValues(t, 1, from.reads.Load())
}

// slowStore is one whose blobs are slowBlobs.
type slowStore struct {
	Store
	blobs slowBlobs
}

func (s *slowStore) Blob(ctx context.Context, digest domain.Digest) ([]byte, error) {
	_, err := s.blobs.Blob(ctx, digest)
	return []byte(`{"apps":[{"name":"app","targets":[{"provider":"p","name":"c"}]}]}`), err
}

func (*slowStore) Unreachable(context.Context) (map[domain.ClusterName]bool, error) { return nil, nil }

// TestBatchesThatBeginTogetherReadTheirPlanOnce: an operation may have 1,300 batches, and each asks for its clusters in each round.
func TestBatchesThatBeginTogetherReadTheirPlanOnce(t *testing.T) {
	t.Parallel()
	const batches = 100
	from := &slowStore{blobs: slowBlobs{asked: make(chan struct{})}}
	l := &Control{Store: from}
	var ask, all sync.WaitGroup
	ask.Add(batches)
	errs := make([]error, batches)
	for i := range batches {
		all.Go(func() {
			ask.Done()
			_, errs[i] = l.Targets(t.Context(), TargetsInput{Plan: "digest", App: "app", To: 1})
		})
	}
	ask.Wait()
	close(from.blobs.asked)
	all.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	require.EqualValues(t, 1, from.blobs.reads.Load())
}
