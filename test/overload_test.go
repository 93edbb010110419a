package test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/internal/client"
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
	d := s.On(ctx, []client.Cluster{s.Register(ctx, fleet.Names[0], fleet.Kubeconfig(t, fleet.Names[0]))}, client.App{Name: "web", Chart: harness.Chart(t, "web", map[string]string{
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
			steps := group.GroupSteps()
			first := slices.IndexFunc(steps, func(s client.Step) bool { return strings.HasSuffix(s.Path, "/deployment-intent-groups") })
			if err := client.Run(ctx, s.Client, steps[first:], nil); err != nil {
				return err
			}
			return group.Do(ctx, s.Client, "approve")
		})
	}
	require.NoError(t, making.Wait())
	require.NoError(t, d.Do(ctx, s.Client, "approve"))

	o := &overload{clock: idle.Start(t), took: map[int][]time.Duration{}, begun: map[string]string{}}
	asking := new(errgroup.Group)
	for _, group := range all {
		asking.Go(func() error { return o.instantiate(ctx, s.URL()+"/v2"+group.Path()) })
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
	for path, operation := range o.begun {
		require.Contains(t, operation, path[strings.LastIndex(path, "/")+1:]+"/")
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
	begun   map[string]string       // operations, by the path of their group
}

// instantiate asks until it is accepted, as often as the answers say.
func (o *overload) instantiate(ctx context.Context, group string) error {
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
func (o *overload) ask(ctx context.Context, group string) (after time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, group+"/instantiate", nil)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	asked, _ := o.clock.Read()
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	answered, _ := o.clock.Read()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.took[answer.StatusCode] = append(o.took[answer.StatusCode], time.Since(begun))
	switch answer.StatusCode {
	case http.StatusAccepted:
		o.begun[group] = answer.Header.Get("Drover-Operation")
		return 0, nil
	case http.StatusServiceUnavailable:
		o.refused = max(o.refused, answered-asked)
		seconds, err := strconv.Atoi(answer.Header.Get("Retry-After"))
		if err != nil || seconds < 1 {
			return 0, fmt.Errorf("%s: 503 without Retry-After", group)
		}
		return time.Duration(seconds) * time.Second, nil
	default:
		return 0, fmt.Errorf("%s: %d", group, answer.StatusCode)
	}
}
