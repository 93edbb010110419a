package activities_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

func TestSweepKeepsWhatIsReferredTo(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	s := storetest.Open(t, store.Config{Now: func() time.Time { return now }})
	ctx := t.Context()
	require.NoError(t, s.EnsureIndexes(ctx))
	put := func(text string) domain.Digest {
		d, err := s.PutBlob(ctx, []byte(text))
		require.NoError(t, err)
		return d
	}
	chart, replaced, archive, bundle := put("chart"), put("a chart that was replaced"), put("archive"), put(`{}`)
	plan := put(`{"apps":[{"name":"web","bundle":"` + string(bundle) + `"}]}`)
	require.NoError(t, s.Create(ctx, &domain.App{Identity: domain.Identity{Parent: "projects/p/composite-apps/c/v1"}, Metadata: domain.Metadata{Name: "web"}, Chart: chart}))
	require.NoError(t, s.Create(ctx, &domain.Profile{Identity: domain.Identity{Parent: "projects/p/composite-apps/c/v1/composite-profiles/cp"}, Metadata: domain.Metadata{Name: "web"}, Archive: archive}))
	require.NoError(t, s.PutInstance(ctx, &domain.Instance{ContextID: "1", Plan: plan, Status: domain.ContextTerminated}))
	require.NoError(t, s.PutInstance(ctx, &domain.Instance{ContextID: "2"}))

	require.NoError(t, s.Renewing(ctx, domain.ClusterName{Provider: "p", Name: "gone"}))

	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(time.Minute)
	l := &activities.Control{Store: s, Now: func() time.Time { return now }}
	env.RegisterActivity(l)
	sweep := func() (removed int) {
		v, err := env.ExecuteActivity(l.Sweep)
		require.NoError(t, err)
		require.NoError(t, v.Get(&removed))
		return removed
	}
	require.Zero(t, sweep(), "all are young")
	now = now.Add(25 * time.Hour)
	require.Equal(t, 1, sweep())
	for _, d := range []domain.Digest{chart, archive, plan, bundle} {
		_, err := s.Blob(ctx, d)
		require.NoError(t, err)
	}
	renewals, err := s.Renewals(ctx)
	require.NoError(t, err)
	require.Empty(t, renewals)
	_, err = s.Blob(ctx, replaced)
	require.Equal(t, fail.NotFound, fail.KindOf(err))
}
