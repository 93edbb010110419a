package test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/idle"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/test/harness"
)

// TestOverload asks for more operations at once than can be begun. Each is either accepted, and the answer names its run,
// or nothing of it is done and the answer says so within 2 s, and when to ask again: none is left in the dark by a 504. What
// was accepted goes to its end. DROVER_TEST_OPERATIONS says how many; the log has the answers and their times.
func TestOverload(t *testing.T) {
	t.Parallel()
	groups, limit := 80, 2*harness.Patience
	if text := os.Getenv("DROVER_TEST_OPERATIONS"); text != "" {
		var err error
		groups, err = strconv.Atoi(text)
		require.NoError(t, err)
		limit = 30 * time.Minute
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	s, fleet := harness.NewStack(t), harness.StartFleet(t, 1)
	d := s.On(ctx, []domain.ClusterName{s.Register(ctx, fleet.Names[0], fleet.Kubeconfig(t, fleet.Names[0]))}, client.App{Name: "web", Chart: harness.Chart(t, "web", map[string]string{
		"cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}\"}\n",
	})})
	making := new(errgroup.Group)
	making.SetLimit(8)
	all := []*client.Deployment{d}
	for i := 1; i < groups; i++ {
		group := *d
		group.Group, group.Release = fmt.Sprintf("%s-%d", d.Group, i), fmt.Sprintf("%s-%d", d.Release, i)
		all = append(all, &group)
		making.Go(func() error {
			if err := group.API.Run(ctx, group.IntentSteps(), nil); err != nil {
				return err
			}
			return group.Do(ctx, "approve")
		})
	}
	require.NoError(t, making.Wait())
	require.NoError(t, d.Do(ctx, "approve"))

	o := &overload{clock: idle.Start(t), took: map[int][]time.Duration{}, begun: map[domain.Key]string{}}
	asking := new(errgroup.Group)
	for _, group := range all {
		asking.Go(func() error { return o.instantiate(ctx, group) })
	}
	require.NoError(t, asking.Wait())
	for code, took := range o.took {
		slices.Sort(took)
		t.Logf("%d answers %d: median %v, the slowest %v", len(took), code, took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))
	}
	t.Logf("a refusal at the latest after %v on an idle machine", o.refused)
	require.LessOrEqual(t, o.refused, 2*time.Second, "who is not taken is told so at once")
	require.Len(t, o.begun, groups)
	temporal := s.TemporalClient()
	for key, operation := range o.begun {
		require.Contains(t, operation, key.Name()+"/")
		_, err := temporal.DescribeWorkflowExecution(ctx, operation, "")
		require.NoError(t, err)
	}
	for _, group := range all {
		s.Await(ctx, group, "Instantiated")
	}
	require.Equal(t, groups, fleet.Count(t, "emco/deployment-id"), "each once")
}

// overload counts the answers to instantiates.
type overload struct {
	clock   *idle.Clock
	mu      sync.Mutex
	took    map[int][]time.Duration // by status code
	refused time.Duration           // the slowest refusal, on an idle machine
	begun   map[domain.Key]string   // operations, by their group
}

// instantiate asks until it is accepted, as often as the answers say.
func (o *overload) instantiate(ctx context.Context, group *client.Deployment) error {
	for {
		after, err := o.ask(ctx, group)
		if after == 0 || err != nil {
			return err
		}
		if err := pause.For(ctx, after); err != nil {
			return err
		}
	}
}

// ask instantiates a group; after is when to ask again, 0 when it was accepted.
func (o *overload) ask(ctx context.Context, group *client.Deployment) (after time.Duration, err error) {
	begun := time.Now()
	asked, _ := o.clock.Read()
	accepted, err := group.API.Operate(ctx, group.Key(), domain.OpInstantiate)
	answered, _ := o.clock.Read()
	answer := http.StatusAccepted
	var refused *client.Error
	if errors.As(err, &refused) {
		answer = refused.Code
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.took[answer] = append(o.took[answer], time.Since(begun))
	if err == nil {
		o.begun[group.Key()] = accepted.Operation
		return 0, nil
	}
	if answer != http.StatusServiceUnavailable {
		return 0, err
	}
	o.refused = max(o.refused, answered-asked)
	if after = fail.RetryAfterOf(err); after < time.Second {
		return 0, fmt.Errorf("503 without Retry-After: %w", err)
	}
	return after, nil
}
