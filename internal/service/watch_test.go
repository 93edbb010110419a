package service_test

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/readiness"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// counting stands for a running operation.
type counting struct {
	service.Engine
	counts map[domain.ResourceState]int
	err    error
}

func (c *counting) Counts(context.Context, domain.Scope) (map[domain.ResourceState]int, error) {
	return c.counts, c.err
}

// heard is what a store heard, without the observations themselves.
type heard struct {
	service.Heard
	store *store.Store
	rules *readiness.Rules
}

func (h *heard) Rules(context.Context) (*readiness.Rules, error) { return h.rules, nil }

func (h *heard) ObservationsVersion(ctx context.Context, contextID string) (string, error) {
	return h.store.ObservationsVersion(ctx, contextID)
}

func (h *heard) Watches(ctx context.Context, clusters []domain.ClusterName) (map[domain.ClusterName]domain.Watch, error) {
	return h.store.Watches(ctx, clusters)
}

// TestSign goes through what a status depends on.
func TestSign(t *testing.T) {
	now := time.Date(2026, 11, 21, 5, 29, 7, 0, time.UTC)
	clock := func() time.Time { return now }
	db := storetest.Open(t, store.Config{Now: clock})
	running := &counting{counts: map[domain.ResourceState]int{domain.ResourcePending: 2}}
	clusters := &heard{store: db}
	l := service.NewLifecycle(db, db, clusters, running, clock)

	dig := group("dig")
	key := domain.KeyOf(dig)
	applied, reported := status.Extent{Output: status.OutputAll}, status.Extent{Output: status.OutputAll, Reported: true}
	_, err := l.Sign(t.Context(), key, applied)
	require.True(t, fail.Is(err, fail.NotFound))
	dig.History = domain.NewHistory(now)
	require.NoError(t, db.Create(t.Context(), dig))

	last := map[status.Extent]string{}
	// after says which signs have become others since the last time, and then look the same.
	after := func(what string, changed ...status.Extent) {
		t.Helper()
		for _, e := range []status.Extent{applied, reported} {
			sign, err := l.Sign(t.Context(), key, e)
			require.NoError(t, err)
			if expected := strings.Contains(what, "first") || len(changed) == 2 || len(changed) == 1 && changed[0] == e; expected {
				require.NotEqual(t, last[e], sign, "%s: %+v", what, e)
			} else {
				require.Equal(t, last[e], sign, "%s: %+v", what, e)
			}
			last[e] = sign
		}
	}
	after("the first look", applied, reported)
	after("nothing")
	_, err = l.Approve(t.Context(), key)
	require.NoError(t, err)
	after("approve", applied, reported)

	const contextID = "2621114006130701074"
	o, err := db.Get(t.Context(), domain.DeploymentIntentGroups, key)
	require.NoError(t, err)
	dig = o.(*domain.DeploymentIntentGroup)
	dig.History.Append(domain.Instantiated, contextID, 1, now)
	require.NoError(t, db.Replace(t.Context(), dig))
	after("instantiate", applied, reported)
	cluster := domain.ClusterName{Provider: "p", Name: "c"}
	encoded, err := json.Marshal(plan.Plan{Apps: []plan.App{{Name: "sink", Targets: []plan.Target{{ClusterName: cluster}}}}})
	require.NoError(t, err)
	digest, err := db.PutBlob(t.Context(), encoded)
	require.NoError(t, err)
	require.NoError(t, db.PutInstance(t.Context(), &domain.Instance{ContextID: contextID, Owner: key, Status: domain.ContextInstantiating, Plan: digest}))
	after("accepted", applied, reported)
	running.counts = map[domain.ResourceState]int{domain.ResourcePending: 1, domain.ResourceApplied: 1}
	after("progress", applied, reported)
	running.err = fail.New(fail.Timeout, "no worker answers")
	after("no answer", applied, reported)
	require.NoError(t, db.UpdateInstance(t.Context(), contextID, func(i *domain.Instance) error {
		i.Status, i.Ended = domain.ContextInstantiated, now
		return nil
	}))
	after("the end", applied, reported)

	require.NoError(t, db.PutObservation(t.Context(), &domain.Observation{ObservedApp: domain.ObservedApp{ContextID: contextID, App: "sink", Cluster: cluster}}))
	after("an observation", reported)
	clusters.rules = readiness.Compile()
	after("a rule", reported)
	beat := func() {
		t.Helper()
		now = now.Add(domain.PulseEvery)
		require.NoError(t, db.Pulse(t.Context(), "watcher", now))
	}
	beat()
	require.NoError(t, db.PutWatch(t.Context(), "watcher", &domain.Watch{Cluster: cluster, Connected: true, LastSeen: now}))
	require.NoError(t, db.PutWatch(t.Context(), "watcher", &domain.Watch{Cluster: domain.ClusterName{Provider: "p", Name: "another"}, Connected: true}))
	now = now.Add(time.Second)
	after("a watch", reported)
	beat()
	after("a pulse")
	now = now.Add(domain.PulseLife + time.Second)
	after("silence", reported)
}

// An admin cloud's context is in its document alone.
func TestSnapshotOfAnAdminCloud(t *testing.T) {
	f := newFixture(t)
	admin := cloud("admin")
	require.NoError(t, f.Create(t.Context(), admin))
	admin.History.Append(domain.Instantiated, "7", 1, time.Now())
	require.NoError(t, f.store.Replace(t.Context(), admin))
	key := domain.KeyOf(admin)
	l := service.NewLifecycle(f.store, f.store, nil, nil, time.Now)
	for _, text := range []string{"", "status=deployed", "status=deployed&output=summary", "output=summary"} {
		v, err := url.ParseQuery(text)
		require.NoError(t, err)
		q, err := status.ParseQuery(v)
		require.NoError(t, err)
		e := q.For(status.SubjectCloud).Extent()
		_, err = l.Sign(t.Context(), key, e)
		require.NoError(t, err)
		snapshot, err := l.Snapshot(t.Context(), key, e)
		require.NoError(t, err)
		plain, err := l.Status(t.Context(), key, v)
		require.NoError(t, err)
		var want, got strings.Builder
		require.NoError(t, plain.Write(&want))
		require.NoError(t, status.Write(&got, q.For(status.SubjectCloud), *snapshot))
		require.Equal(t, want.String(), got.String())
		require.Contains(t, got.String(), `"deployedStatus":"Instantiated"`)
	}
}

func TestSnapshotAnswersEveryQueryOfItsExtent(t *testing.T) {
	f := newFixture(t)
	l := service.NewLifecycle(f.store, f.store, nil, nil, time.Now)
	snapshot, err := l.Snapshot(t.Context(), domain.KeyOf(group("dig")), status.Extent{Output: status.OutputAll})
	require.NoError(t, err)
	for _, parameters := range []map[string][]string{nil, {"status": {"deployed"}}, {"app": {"sink"}}, {"clusters": {""}}} {
		plain, err := l.Status(t.Context(), domain.KeyOf(group("dig")), parameters)
		require.NoError(t, err)
		q, err := status.ParseQuery(parameters)
		require.NoError(t, err)
		var want, got strings.Builder
		require.NoError(t, plain.Write(&want))
		require.NoError(t, status.Write(&got, q, *snapshot))
		require.Equal(t, want.String(), got.String())
	}
}
