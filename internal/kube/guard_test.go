package kube_test

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/lease"
)

// TestWritesNeedTheLease has the lease lost at the moments at which a frozen process would find it lost: no write
// arrives.
func TestWritesNeedTheLease(t *testing.T) {
	t.Parallel()
	for protocolName, p := range map[string]protocol{"HTTP/1": http1, "HTTP/2": http2} {
		for name, c := range map[string]struct {
			mark   domain.Mark
			checks int64 // that the lease is held for
			writes int64
		}{
			"applied, held":                   {domain.MarkPending, 1000, 1},
			"applied, lost before":            {domain.MarkPending, 0, 0},
			"applied, lost on the connection": {domain.MarkPending, 1, 0},
			"deleted, held":                   {domain.MarkDoomed, 1000, 1},
			"deleted, lost before":            {domain.MarkDoomed, 0, 0},
			"deleted, lost on the connection": {domain.MarkDoomed, 1, 0},
		} {
			t.Run(protocolName+", "+name, func(t *testing.T) {
				t.Parallel()
				var writes atomic.Int64
				s := serveAll(t, p, func(w http.ResponseWriter, r *http.Request) {
					_, err := io.ReadAll(r.Body)
					if err != nil {
						return // an API server does nothing either
					}
					if r.Method != http.MethodGet {
						writes.Add(1)
					}
					if r.Method == http.MethodDelete {
						answer(w, http.StatusOK, status(http.StatusOK, "", "", nil))
						return
					}
					found(w)
				})
				var reads atomic.Int64
				l := lease.New(func() lease.Instant {
					if reads.Add(1) > 1+c.checks { // the first is that of New
						return lease.Instant{Boot: 2 * time.Hour}
					}
					return lease.Instant{}
				}, lease.Instant{}, time.Hour)
				defer l.Close()
				cluster := s.open(t, kube.Config{})
				j, _ := job(configMaps(1, 0), c.mark)
				do := cluster.Apply
				if c.mark == domain.MarkDoomed {
					do = cluster.Delete
				}
				outcome := do(lease.With(t.Context(), l), j)
				require.Equal(t, c.writes, writes.Load())
				if c.writes == 0 {
					require.ErrorIs(t, outcome.Retry, lease.ErrLost)
					return
				}
				require.NoError(t, outcome.Retry)
			})
		}
	}
}
