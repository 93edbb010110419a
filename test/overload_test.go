package test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/idle"
	"github.com/drover-io/drover/test/harness"
)

// awayKubeconfig is that of a cluster where nobody listens.
const awayKubeconfig = `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
`

// TestOverload asks for more operations at once than can be begun. Each is either accepted, and the answer names its run,
// or nothing of it is done and the answer says so within 2 s, and when to ask again: none is left in the dark by a 504.
func TestOverload(t *testing.T) {
	t.Parallel()
	const groups = 80
	ctx, s := within(t), harness.NewStack(t)
	d := s.On(ctx, []client.Cluster{s.Register(ctx, "away", []byte(awayKubeconfig))}, client.App{Name: "web", Chart: harness.Chart(t, "web", map[string]string{
		"cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}\"}\n",
	})})
	making := new(errgroup.Group)
	making.SetLimit(8)
	names := []string{d.Group}
	for i := 1; i < groups; i++ {
		group := *d
		group.Group, group.Release = fmt.Sprintf("%s-%d", d.Group, i), fmt.Sprintf("%s-%d", d.Release, i)
		names = append(names, group.Group)
		making.Go(func() error {
			steps := group.GroupSteps()
			first := 0
			for i, step := range steps {
				if strings.HasSuffix(step.Path, "/deployment-intent-groups") {
					first = i
				}
			}
			if err := client.Run(ctx, s.Client, steps[first:], nil); err != nil {
				return err
			}
			return group.Do(ctx, s.Client, "approve")
		})
	}
	require.NoError(t, making.Wait())
	require.NoError(t, d.Do(ctx, s.Client, "approve"))

	var (
		mu    sync.Mutex
		codes = map[int]int{}
		begun = map[string]string{} // by group
		// How long the longest refusal took on an idle machine.
		refused time.Duration
		clock   = idle.Start(t)
	)
	instantiate := func(ctx context.Context, group string) (accepted bool, err error) {
		url := s.URL() + "/v2" + strings.TrimSuffix(d.Path(), d.Group) + group + "/instantiate"
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
		if err != nil {
			return false, err
		}
		asked, _ := clock.Read()
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return false, err
		}
		answered, _ := clock.Read()
		defer answer.Body.Close()
		mu.Lock()
		defer mu.Unlock()
		codes[answer.StatusCode]++
		switch answer.StatusCode {
		case http.StatusAccepted:
			begun[group] = answer.Header.Get("Drover-Operation")
			return true, nil
		case http.StatusServiceUnavailable:
			if answer.Header.Get("Retry-After") == "" {
				return false, fmt.Errorf("%s: 503 without Retry-After", group)
			}
			refused = max(refused, answered-asked)
			return false, nil
		default:
			return false, fmt.Errorf("%s: %d", group, answer.StatusCode)
		}
	}
	all := new(errgroup.Group)
	for _, group := range names {
		all.Go(func() error {
			again := time.NewTicker(time.Second)
			defer again.Stop()
			for {
				if accepted, err := instantiate(ctx, group); accepted || err != nil {
					return err
				}
				select {
				case <-again.C:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
		})
	}
	require.NoError(t, all.Wait())
	t.Logf("answers: %v, a refusal at the latest after %s on an idle machine", codes, refused)
	require.LessOrEqual(t, refused, 2*time.Second, "who is not taken is told so at once")
	require.Len(t, begun, groups)
	temporal := s.TemporalClient()
	for group, operation := range begun {
		require.Contains(t, operation, group+"/")
		_, err := temporal.DescribeWorkflowExecution(ctx, operation, "")
		require.NoError(t, err)
	}
}
