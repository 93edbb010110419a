package app

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/notify"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/status"
)

// TestGroupsAreWatched: one stream tells of all groups of a project, or of the fleet.
func TestGroupsAreWatched(t *testing.T) {
	p, ctx := partial(t), t.Context()
	lifecycle := service.NewLifecycle(p.store, p.store, heard{p.store, p.rules}, p.engine, time.Now)
	hub, err := notify.New(notify.Of(statuses{lifecycle, service.NewFleet(lifecycle, p.store, nil)}), notify.Options{Interval: time.Millisecond}, prometheus.NewRegistry())
	require.NoError(t, err)
	t.Cleanup(hub.Close)
	_, err = hub.Subscribe(ctx, "projects/p", status.Query{}, "")
	require.True(t, fail.Is(err, fail.NotFound), "%v", err)

	project := &domain.Project{Metadata: domain.Metadata{Name: "p"}}
	require.NoError(t, p.store.Create(ctx, project))
	var streams []*notify.Subscription
	for _, prefix := range []domain.Key{"projects/p", ""} {
		s, err := hub.Subscribe(ctx, prefix, status.Query{}, "")
		require.NoError(t, err)
		t.Cleanup(s.Close)
		streams = append(streams, s)
	}
	next := func(kind notify.Kind, data string) {
		t.Helper()
		for _, s := range streams {
			within, cancel := context.WithTimeout(ctx, time.Minute)
			e, err := s.Next(within)
			cancel()
			require.NoError(t, err)
			require.Equal(t, kind, e.Kind, "%s", e.Data)
			require.JSONEq(t, data, string(e.Data))
		}
	}
	next(notify.Status, `{}`)
	at := time.Date(2026, 11, 21, 5, 29, 7, 0, time.UTC)
	g := &domain.DeploymentIntentGroup{Identity: domain.Identity{Parent: "projects/p/composite-apps/ca/v1"}, Metadata: domain.Metadata{Name: "dig"}}
	g.History = domain.NewHistory(at)
	key := domain.KeyOf(g)
	require.NoError(t, p.store.Create(ctx, g))
	next(notify.Change, `{"`+string(key)+`":{"state":"Created","since":"2026-11-21T05:29:07Z","revision":0}}`)
	g.History.Append(domain.Approved, "", 0, at)
	require.NoError(t, p.store.Replace(ctx, g))
	next(notify.Change, `{"`+string(key)+`":{"state":"Approved","since":"2026-11-21T05:29:07Z","revision":0}}`)
	require.NoError(t, p.store.Delete(ctx, domain.DeploymentIntentGroups, key, 0))
	next(notify.Change, `{"`+string(key)+`":null}`)
	require.NoError(t, p.store.Delete(ctx, domain.Projects, domain.KeyOf(project), 0))
	e, err := streams[0].Next(ctx)
	require.NoError(t, err)
	require.Equal(t, notify.End, e.Kind)
}
