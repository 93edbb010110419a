package monitor

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/bundle"
)

// ailing is a cluster that does not take every renewal of a Lease.
type ailing struct {
	client.Client
	ail     func(ctx context.Context, try int) error // why not, nil where it does
	tries   int
	renewed []time.Time
}

func (a *ailing) Patch(ctx context.Context, _ client.Object, _ client.Patch, _ ...client.PatchOption) error {
	a.tries++
	err := a.ail(ctx, a.tries)
	if err == nil {
		a.renewed = append(a.renewed, time.Now())
	}
	return err
}

// TestTheLeaseOutlastsFailuresThatPass: the cluster would not be heard where the agent has all that there is.
func TestTheLeaseOutlastsFailuresThatPass(t *testing.T) {
	for name, ail := range map[string]func(ctx context.Context, try int) error{
		"every second one hangs": func(ctx context.Context, try int) error {
			if try%2 == 1 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		},
		"three are refused at once": func(_ context.Context, try int) error {
			if try%4 == 1 {
				return nil
			}
			return errors.New("refused")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				x := newIndex("")
				x.announced, x.listened = true, true
				x.observe(bundle.GroupKind)
				a := &ailing{ail: ail}
				p := &pulse{client: a, log: slog.New(slog.DiscardHandler), namespace: "drover", now: time.Now, fitness: &fitness{index: x, arrears: newArrears(time.Now)}}
				require.NoError(t, p.Start(ctx))
				require.Greater(t, len(a.renewed), 5)
				for i, at := range a.renewed[1:] {
					require.Less(t, at.Sub(a.renewed[i]), bundle.LeaseDuration-5*time.Second)
				}
			})
		})
	}
}
