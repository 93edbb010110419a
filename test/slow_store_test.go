package test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/idle"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/test/harness"
)

// TestAStoreThatWasSlow has one that does two commands at a time take half a second for each, for 10 s, while 30 operations begin. What
// their askers have given up is not done again and again when it is well: they end soon, and then it has nothing left to do.
func TestAStoreThatWasSlow(t *testing.T) {
	t.Parallel()
	const groups, atOnce = 30, 2
	const well, slow, slowFor = 2 * time.Millisecond, 500 * time.Millisecond, 10 * time.Second
	ctx, s, fleet := within(t), harness.NewStackOn(t, harness.Servers{SlowDatabase: true}), harness.StartFleet(t, groups)
	var deployments []*client.Deployment
	for _, name := range fleet.Names {
		cluster := s.Register(ctx, name, fleet.Kubeconfig(t, name))
		d := s.On(ctx, []domain.ClusterName{cluster}, client.App{Name: "app", Chart: harness.Chart(t, "app", harness.ConfigMaps("app", 2))})
		do(ctx, t, d, "approve")
		deployments = append(deployments, d)
	}
	s.Slow.Crawl(slow, atOnce)
	var asked sync.WaitGroup
	for _, d := range deployments {
		asked.Go(func() { askUntilTaken(ctx, t, d) })
	}
	time.Sleep(slowFor) //nolint:forbidigo // how long it is slow is what is tested
	s.Slow.Crawl(well, atOnce)
	again := idle.Start(t)
	asked.Wait()
	for _, d := range deployments {
		_, err := harness.LookAt(ctx, d, func(g *status.Document) bool { return g.Status == domain.ContextInstantiated })
		require.NoError(t, err)
	}
	quiet, took := again.Read()
	again.Stop()
	t.Logf("all operations had ended %s after the store was well again, which are %s on an idle machine", took, quiet)
	require.Less(t, quiet, time.Minute, "what was asked while it was slow is done soon")

	// What follows an operation ends soon, and then little is asked.
	commands := 0
	harness.Soon(ctx, t, 15*time.Second, func() bool {
		s.Slow.Asked()
		time.Sleep(3 * time.Second) //nolint:forbidigo // it counts what is asked in a time
		commands = 0
		for _, a := range s.Slow.Asked() {
			commands += a.N
		}
		return commands < 300
	}, func() string {
		return fmt.Sprintf("%d commands in 3 s: somebody asks for what was given up", commands)
	})
}

// askUntilTaken asks for an instantiate until it was accepted, as whoever is told to come again.
func askUntilTaken(ctx context.Context, t *testing.T, d *client.Deployment) {
	wait := pause.Backoff{First: 500 * time.Millisecond, Most: 2 * time.Second}
	for {
		var answer *client.Error
		err := d.Do(ctx, domain.OpInstantiate)
		switch {
		case err == nil:
			return
		case errors.As(err, &answer) && answer.Code == http.StatusConflict: // taken, and nobody was told
			return
		case ctx.Err() != nil || answer != nil && answer.Code < http.StatusInternalServerError:
			t.Errorf("instantiate: %v", err)
			return
		}
		_ = wait.Wait(ctx)
	}
}
