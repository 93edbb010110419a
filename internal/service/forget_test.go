package service_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// unwatching notes for which contexts watches are ended.
type unwatching struct {
	service.Engine
	contexts []string
	err      error
}

func (u *unwatching) StopWatching(_ context.Context, contextID string) error {
	u.contexts = append(u.contexts, contextID)
	return u.err
}

// TestForget: what a terminate that failed has left is not watched for a group that is not there any more.
func TestForget(t *testing.T) {
	db := storetest.Open(t, store.Config{})
	engine := &unwatching{err: fail.New(fail.Unavailable, "the workflow engine is not available")}
	l := service.NewLifecycle(db, db, nil, engine, time.Now)
	key := domain.KeyOf(group("dig"))
	for _, i := range []*domain.Instance{
		{ContextID: "1", Status: domain.ContextTerminated},
		{ContextID: "2", Status: domain.ContextUpdated},
		{ContextID: "3", Status: domain.ContextTerminateFailed, Label: "2"},
	} {
		i.Owner = key
		require.NoError(t, db.PutInstance(t.Context(), i))
	}
	require.ErrorIs(t, l.Forget(t.Context(), key), engine.err)
	require.Equal(t, []string{"2"}, engine.contexts, "it is watched for by its label")
	left, err := db.InstancesOf(t.Context(), key)
	require.NoError(t, err)
	require.Empty(t, left)
}
