package service_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// brokenOff is a store that does not say what became of the deletion of one document.
type brokenOff struct {
	*store.Store
	at domain.Key
}

func (b *brokenOff) Delete(ctx context.Context, n *domain.Noun, key domain.Key, revision int64) error {
	if key == b.at {
		return fail.New(fail.Timeout, "the database does not answer in time")
	}
	return b.Store.Delete(ctx, n, key, revision)
}

// TestWhatMayHaveGoneIsNoted: of what goes with a document, the audit log is told also of that of which nobody knows whether it has gone.
func TestWhatMayHaveGoneIsNoted(t *testing.T) {
	db := &brokenOff{Store: storetest.Open(t, store.Config{})}
	const project, cluster domain.Key = "projects/p", "cluster-providers/p/clusters/c"
	require.NoError(t, db.Create(t.Context(), &domain.Project{Metadata: domain.Metadata{Name: "p"}}))
	require.NoError(t, db.Create(t.Context(), &domain.ClusterProvider{Metadata: domain.Metadata{Name: "p"}}))
	require.NoError(t, db.Create(t.Context(), &domain.Cluster{Identity: domain.Identity{Parent: "cluster-providers/p"}, Metadata: domain.Metadata{Name: "c"}}))
	for _, name := range []string{"a", "b", "c"} {
		b := domain.NewRoleBinding(project)
		b.Parent, b.Name = project, name
		require.NoError(t, db.Create(t.Context(), b))
		require.NoError(t, db.Create(t.Context(), &domain.ClusterLabel{Identity: domain.Identity{Parent: cluster}, Label: name}))
	}
	s := service.New(service.Deps{Store: db, Instances: service.NewLifecycle(db, db, nil, nil, time.Now), Now: time.Now})
	for at, remove := range map[domain.Key]func(ctx context.Context) error{
		project + "/role-bindings/b": func(ctx context.Context) error { return s.Delete(ctx, domain.Projects, project) },
		cluster + "/labels/b": func(ctx context.Context) error {
			_, err := s.RemoveCluster(ctx, cluster, false)
			return err
		},
	} {
		db.at = at
		request := &caller.Request{}
		require.True(t, fail.Is(remove(caller.WithRequest(t.Context(), request)), fail.Timeout))
		gone := request.Removed()
		require.Len(t, gone, 2, at)
		require.NoError(t, gone[0].Err)
		require.Equal(t, string(at), gone[1].Key)
		require.True(t, fail.Is(gone[1].Err, fail.Timeout))
		require.NotEmpty(t, gone[1].Before)
	}
}
