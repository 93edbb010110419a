package service_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/secret"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// asked counts how often the store was asked whether something is there, or to keep a file.
type asked struct {
	*store.Store
	times int
	files int // that it was given
}

func (a *asked) PutBlob(ctx context.Context, data []byte) (domain.Digest, error) {
	a.files++
	return a.Store.PutBlob(ctx, data)
}

func (a *asked) Exists(ctx context.Context, n *domain.Noun, key domain.Key) (bool, error) {
	a.times++
	return a.Store.Exists(ctx, n, key)
}

func (a *asked) Existing(ctx context.Context, n *domain.Noun, keys []domain.Key) (map[domain.Key]bool, error) {
	a.times++
	return a.Store.Existing(ctx, n, keys)
}

// TestAPlacementOfManyClusters: those that it names are looked for together, and of those that are missing the first are named.
func TestAPlacementOfManyClusters(t *testing.T) {
	const there, missing = 60, 240
	db := &asked{Store: storetest.Open(t, store.Config{})}
	sealer, err := secret.Parse("test:" + fmt.Sprintf("%043d", 0) + "=")
	require.NoError(t, err)
	s := service.New(service.Deps{Store: db, Sealer: sealer, Instances: &allKnowing{}, Now: time.Now})
	binding := &domain.PlacementIntent{Identity: identity(theGroup), Metadata: domain.Metadata{Name: "gpi"}}
	for _, o := range []domain.Object{project("proj"), compositeApp("ca"), app("sink"), profiles("cp"), cloud("lc"), group("dig"), binding} {
		require.NoError(t, db.Create(t.Context(), o), domain.KeyOf(o))
	}
	placed := func(name string, clusters int) *domain.AppIntent {
		o := &domain.AppIntent{Identity: identity(domain.KeyOf(binding)), Metadata: domain.AppIntentMetadata{Name: name}}
		o.Spec.App = "sink"
		for i := range clusters {
			o.Spec.Intent.AllOf = append(o.Spec.Intent.AllOf, domain.AllOf{Clusters: domain.Clusters{ClusterProvider: "p", Cluster: fmt.Sprintf("c%d", i)}})
		}
		return o
	}
	for i := range there {
		require.NoError(t, db.Create(t.Context(), &domain.Cluster{Identity: identity("cluster-providers/p"), Metadata: domain.Metadata{Name: fmt.Sprintf("c%d", i)}}))
	}

	db.times = 0
	require.NoError(t, s.Create(t.Context(), placed("a", there)))
	require.Less(t, db.times, 10)

	db.times = 0
	err = s.Create(t.Context(), placed("b", there+missing))
	require.True(t, fail.Is(err, fail.NotFound), "%v", err)
	fields := fail.FieldsOf(err)
	require.Len(t, fields, fail.MostProblems+1)
	require.Equal(t, fail.Field{Path: "spec.intent.allOf[60].cluster", Message: `cluster "c60" not found`}, fields[0])
	require.Equal(t, fail.Field{Path: "...", Message: "and 140 more problems"}, fields[fail.MostProblems])
	require.Less(t, db.times, 10)
}
