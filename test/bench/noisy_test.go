package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/test/harness"
)

// noisyProject measures how much longer the status of a group takes while another project is asked for as fast as five times what it may
// be: by an API with limits, and by one without, all in one run. A project may be asked for as often as when nobody says otherwise, and on a machine that
// cannot ask five times as often for a fifth of what it can: else nothing would be refused, and no limit be measured.
func noisyProject(ctx context.Context, t *trial) {
	t.Helper()
	const window, rate = 4 * time.Second, 20
	pairs := sizedDown(6, 1)
	s, fleet := harness.NewStack(t), harness.StartFleet(t, 4)
	var clusters []domain.ClusterName
	for _, name := range fleet.Names {
		clusters = append(clusters, s.Register(ctx, name, fleet.Kubeconfig(t, name)))
	}
	app := client.App{Name: "web", Chart: harness.Chart(t, "web", harness.ConfigMaps("web", 20)), Intent: harness.All(clusters...)}
	deployed := func() *client.Deployment {
		d := s.On(ctx, clusters, app)
		require.NoError(t, d.Do(ctx, "approve"))
		require.NoError(t, d.Do(ctx, "instantiate"))
		s.Await(ctx, d, "Instantiated")
		return d
	}
	quiet, loud := deployed(), deployed()
	asked := float64(len(statuses(ctx, t, s.Client.API(), loud, 5*limits.Fairly().ProjectRate, window, nil))) / window.Seconds()
	may := max(1, min(limits.Fairly().ProjectRate, int(asked/5)))
	limited := s.AddAPI(t, fmt.Sprintf("DROVER_PROJECT_RATE=%d", may))
	for _, by := range []struct {
		key, what, goal string
		api             *client.API
	}{
		{"noisy_project", fmt.Sprintf("with limits (%d a second)", may), "≤ 10", limited.Client.API()},
		{"noisy_project_unlimited", "without limits", "", s.Client.API()},
	} {
		var before []time.Duration
		var shifts, quietShifts, told []float64
		what := fmt.Sprintf("GET status of a group, %d a second, %s: how much longer the median is while another project is asked %d times a second", rate, by.what, 5*may)
		t.finally(func() []figure {
			shift := values(by.key+"_shift_pct", what, "%", shifts)
			if by.goal != "" {
				shift = goal(shift, by.goal, shift.Median <= 10)
			}
			return []figure{
				shift,
				values(by.key+"_quiet_shift_pct", "how much longer it is than the one before when nobody is", "%", quietShifts),
				measured(by.key+"_status_ms", "the status when nobody is: medians", before),
				values(by.key+"_refused", "which share of that project's requests is answered 429", "", told),
			}
		})
		before = append(before, percentile(statuses(ctx, t, by.api, quiet, rate, window, nil), 50))
		for i := range t.rounds(ctx, pairs, 2) {
			var refused atomic.Int64
			flooded, flood := context.WithCancel(ctx)
			done := make(chan int, 1)
			go func() { done <- len(statuses(flooded, t, by.api, loud, 5*may, time.Hour, &refused)) }()
			if by.goal != "" {
				spent(ctx, t, &refused)
			}
			with := percentile(statuses(ctx, t, by.api, quiet, rate, window, nil), 50)
			flood()
			told = append(told, float64(refused.Load())/float64(int64(<-done)+refused.Load()))
			before = append(before, percentile(statuses(ctx, t, by.api, quiet, rate, window, nil), 50))
			shifts = append(shifts, 100*(with.Seconds()/((before[i]+before[i+1]).Seconds()/2)-1))
			quietShifts = append(quietShifts, 100*(before[i+1].Seconds()/before[i].Seconds()-1))
		}
	}
}

// spent waits until a flood is refused for the first time. Before that it has the burst that a project may have, some seconds of its rate, and on a slow machine
// more of them: a window within it measures no limit. A flood that offers less than the rate is never refused, and measures nothing.
func spent(ctx context.Context, t testing.TB, refused *atomic.Int64) {
	t.Helper()
	const most = 2 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for refused.Load() == 0 {
		select {
		case <-ctx.Done():
			require.FailNow(t, "the flood measures nothing", "none of it was refused within %v: this machine does not ask as often as a project may", most)
		case <-look.C:
		}
	}
}

// floodAtOnce bounds the requests of a flood that have no answer yet.
const floodAtOnce = 64

// statuses asks for the status of a group so many times a second, whatever becomes of the answers, until a time is over or ctx ends. It
// returns how long those took that were answered, and counts those that were refused, when they may be.
func statuses(ctx context.Context, t testing.TB, api *client.API, d *client.Deployment, rate int, last time.Duration, refused *atomic.Int64) []time.Duration {
	t.Helper()
	asking := new(errgroup.Group)
	asking.SetLimit(floodAtOnce)
	took := make(chan time.Duration, 1<<16)
	next := time.NewTicker(time.Second / time.Duration(rate))
	defer next.Stop()
	end := time.After(last)
	for running := true; running; {
		select {
		case <-ctx.Done():
			running = false
			continue
		case <-end:
			running = false
			continue
		case <-next.C:
		}
		asking.Go(func() error {
			begun := time.Now()
			_, err := api.Status(context.WithoutCancel(ctx), d.Key(), nil)
			var answer *client.Error
			switch {
			case err == nil:
				took <- time.Since(begun)
			case refused != nil && errors.As(err, &answer) && answer.Code == http.StatusTooManyRequests:
				refused.Add(1)
			default:
				return err
			}
			return nil
		})
	}
	err := asking.Wait()
	close(took)
	if err != nil {
		t.Errorf("ask for a status: %v", err)
	}
	var all []time.Duration
	for d := range took {
		all = append(all, d)
	}
	return all
}
