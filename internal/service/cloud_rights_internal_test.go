package service

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/rights"
)

// clouded is a store with logical clouds, which have no clusters, that counts how often all are read.
type clouded struct {
	Store
	Instances
	clouds []domain.Object
	reads  int
}

func (c *clouded) ListUnder(context.Context, *domain.Noun, domain.Key) ([]domain.Object, error) {
	c.reads++
	return append([]domain.Object{}, c.clouds...), nil
}

func (*clouded) Holders(context.Context, *domain.Noun, domain.Key) ([]domain.Key, error) {
	return nil, nil
}

func (*clouded) Certified(context.Context, domain.ClusterName, string, time.Time) ([]domain.Certified, error) {
	return nil, nil
}

func (*clouded) Clusters(context.Context, domain.Key, func(domain.ClusterName) bool) ([]domain.ClusterName, error) {
	return nil, nil
}

// TestCloudsAreReadOnceForAWrite: a cloud with a hundred references that gets another user is not compared with all clouds a hundred times over.
func TestCloudsAreReadOnceForAWrite(t *testing.T) {
	cloud := func(project string) *domain.LogicalCloud {
		c := &domain.LogicalCloud{Identity: domain.Identity{Parent: domain.Key("projects/" + project)}, Metadata: domain.Metadata{Name: "c"}}
		c.Spec.Namespace, c.Spec.User.UserName = "ours", "alice"
		c.Default()
		return c
	}
	var references []domain.Object
	for _, name := range []string{"c1", "c2", "c3"} {
		references = append(references, &domain.ClusterReference{Spec: domain.ClusterReferenceSpec{ClusterProvider: "p1", Cluster: name}})
	}
	ctx := rights.With(t.Context(), rights.NewBook(nil, nil).Of(caller.Identity{Kind: caller.User, Name: "anna"}))
	store := &clouded{clouds: []domain.Object{cloud("theirs"), cloud("ours")}}
	s := New(Deps{Store: store, Instances: store, Now: time.Now})
	require.NoError(t, s.mayComeTo(ctx, cloud("ours"), nil, references))
	require.Equal(t, 1, store.reads)
}
