package service_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// listing is a store that counts how often documents are listed, by their noun.
type listing struct {
	*store.Store
	listed map[*domain.Noun]int
}

func (l *listing) List(ctx context.Context, noun *domain.Noun, parent domain.Key) ([]domain.Object, error) {
	l.listed[noun]++
	return l.Store.List(ctx, noun, parent)
}

// TestReferencesOfACloudAreListedOnce before its user changes, and once after that: a cloud may have a hundred thousand.
func TestReferencesOfACloudAreListedOnce(t *testing.T) {
	ctx := t.Context()
	db := &listing{Store: storetest.Open(t, store.Config{}), listed: map[*domain.Noun]int{}}
	lifecycle := service.NewLifecycle(db, db, &heard{store: db.Store}, &begins{}, time.Now)
	documents := service.New(service.Deps{Store: db, Instances: lifecycle, Operations: lifecycle, Now: time.Now})
	require.NoError(t, db.Create(ctx, &domain.Project{Metadata: domain.Metadata{Name: "p"}}))
	cloud := func(user string) *domain.LogicalCloud {
		c := &domain.LogicalCloud{Identity: domain.Identity{Parent: "projects/p"}, Metadata: domain.Metadata{Name: "lc"}}
		c.Spec.Level, c.Spec.Namespace, c.Spec.User.UserName = domain.LevelStandard, "ns", user
		return c
	}
	require.NoError(t, documents.Create(ctx, cloud("alice")))
	clear(db.listed)
	_, err := documents.Put(ctx, cloud("bob"))
	require.NoError(t, err)
	require.Equal(t, 2, db.listed[domain.ClusterReferences])
}
