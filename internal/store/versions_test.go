package store_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/internal/domain"
)

func TestObservationsVersion(t *testing.T) {
	s := open(t)
	version := func(contextID string) string {
		t.Helper()
		v, err := s.ObservationsVersion(t.Context(), contextID)
		require.NoError(t, err)
		return v
	}
	require.Empty(t, version("1"))
	o := &domain.Observation{ObservedApp: domain.ObservedApp{ContextID: "1", App: "a", Cluster: domain.ClusterName{Provider: "p", Name: "c"}}}
	require.NoError(t, s.PutObservation(t.Context(), o))
	first := version("1")
	require.NotEmpty(t, first)
	require.Empty(t, version("2"), "of each context its own")
	require.NoError(t, s.PutObservation(t.Context(), o))
	require.Equal(t, first, version("1"), "it says nothing new")
	o.Kinds = []string{"Pod"}
	require.NoError(t, s.PutObservation(t.Context(), o))
	second := version("1")
	require.NotEqual(t, first, second)
	require.NoError(t, s.DeleteObservation(t.Context(), o.ObservedApp, domain.Turn{}))
	third := version("1")
	require.NotEqual(t, second, third)
	require.NoError(t, s.DeleteObservation(t.Context(), o.ObservedApp, domain.Turn{}))
	require.Equal(t, third, version("1"), "there was nothing to delete")

	var g errgroup.Group
	for i := range 50 {
		o := *o
		o.Cluster.Name = fmt.Sprint(i)
		g.Go(func() error { return s.PutObservation(t.Context(), &o) })
	}
	require.NoError(t, g.Wait())
	require.NotEqual(t, third, version("1"))

	owner := domain.Key("projects/p")
	require.NoError(t, s.PutInstance(t.Context(), &domain.Instance{ContextID: "1", Owner: owner}))
	require.NoError(t, s.DeleteInstances(t.Context(), []string{"1"}))
	require.Empty(t, version("1"))
}

// TestTheVersionOfLabels is another one after each write of a label of the provider, and after no other.
func TestTheVersionOfLabels(t *testing.T) {
	s := open(t)
	version := func() string {
		v, err := s.LabelsVersion(t.Context(), "p")
		require.NoError(t, err)
		return v
	}
	label := func(provider string) *domain.ClusterLabel {
		return &domain.ClusterLabel{Identity: domain.Identity{Parent: domain.ClusterName{Provider: provider, Name: "c"}.Key()}, Label: "edge"}
	}
	require.Empty(t, version())
	require.NoError(t, s.Create(t.Context(), label("other")))
	require.NoError(t, s.Create(t.Context(), &domain.ClusterProvider{Metadata: domain.Metadata{Name: "p"}}))
	require.Empty(t, version())
	seen := map[string]bool{"": true}
	mine := label("p")
	for _, write := range []func() error{
		func() error { return s.Create(t.Context(), mine) },
		func() error { return s.Replace(t.Context(), mine) },
		func() error { return s.Delete(t.Context(), domain.ClusterLabels, domain.KeyOf(mine), 0) },
	} {
		require.NoError(t, write())
		require.False(t, seen[version()])
		seen[version()] = true
	}
}
