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
