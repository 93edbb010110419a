package app

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/store"
)

// bundlesRead counts how often the bundle of a group is read, as it is when all of the group is looked at anew.
type bundlesRead struct {
	*store.Store
	bundle domain.Digest
	times  atomic.Int64
}

func (r *bundlesRead) Blob(ctx context.Context, digest domain.Digest) ([]byte, error) {
	if digest == r.bundle {
		r.times.Add(1)
	}
	return r.Store.Blob(ctx, digest)
}

// TestABurstOfReportsIsNoNewLook: that more clusters report at once than are looked at one by one, or than the store can name, has
// their rows compared, and nothing else read of the group.
func TestABurstOfReportsIsNoNewLook(t *testing.T) {
	const clusters = 130
	w := newTablesWorld(t, clusters)
	w.collector("sum", `{"combinedFields":[{"name":"n","type":"COUNT"},{"name":"sum","type":"SUM","subject":"returned.status.availableReplicas"}]}`)
	records := &bundlesRead{Store: w.p.store, bundle: w.plan.Apps[0].Bundle}
	now := time.Now()
	l := service.NewLifecycle(w.p.store, records, heard{w.p.store, w.p.rules}, w.p.engine, func() time.Time { return now })
	question, err := service.CombinedStatusQuestion(nil)
	require.NoError(t, err)
	look, _ := service.NewTables(l).Look(domain.KeyOf(w.group), question.Extent())
	t.Cleanup(look.Close)
	shown := func() []string {
		_, err := look.Sign(t.Context())
		require.NoError(t, err)
		s, err := look.Snapshot(t.Context())
		require.NoError(t, err)
		a, err := question.Answer(t.Context(), s, nil)
		require.NoError(t, err)
		rows, _ := table(t, a.Document())
		return rows
	}
	burst := func(n int) {
		var g errgroup.Group
		g.SetLimit(8)
		for c := range clusters {
			g.Go(func() error {
				w.says(c, fmt.Sprintf(`{"availableReplicas":%d}`, n))
				return nil
			})
		}
		require.NoError(t, g.Wait())
	}
	require.Equal(t, []string{"n,sum", "130 0"}, shown())
	before := records.times.Load()
	burst(1)
	require.Equal(t, []string{"n,sum", "130 130"}, shown())
	require.Equal(t, before, records.times.Load(), "the bundle was not read again")

	now = now.Add(-2 * time.Minute) // it looks as if the last look were so long ago that the store does not say any more who it was
	for n := 2; n < 4; n++ {
		burst(n)
		require.Equal(t, []string{"n,sum", fmt.Sprintf("130 %d", 130*n)}, shown())
	}
	require.Equal(t, before, records.times.Load(), "the bundle was not read again")
}
