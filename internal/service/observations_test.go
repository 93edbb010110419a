package service

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/readiness"
	"github.com/drover-io/drover/internal/status"
)

// said is what clusters have said of the one app, in order.
type said struct {
	Heard
	observations []Observation
	err          error
}

func (s said) Observations(context.Context, string, string, []domain.ClusterName) iter.Seq2[Observation, error] {
	return func(yield func(Observation, error) bool) {
		for _, o := range s.observations {
			if !yield(o, nil) {
				return
			}
		}
		if s.err != nil {
			yield(Observation{}, s.err)
		}
	}
}

func cluster0(name string) domain.ClusterName { return domain.ClusterName{Provider: "p", Name: name} }

func saying(name string, resources ...domain.ObservedResource) Observation {
	return Observation{Observation: &domain.Observation{
		ObservedApp: domain.ObservedApp{ContextID: "1", App: "app", Cluster: cluster0(name)}, Kinds: []string{"Deployment.apps"}, Resources: resources,
	}}
}

// newReported has the app on clusters b to f.
func newReported(h Heard) *reported {
	r := &reported{heard: h, contextID: "1", status: domain.ContextInstantiated, watches: map[domain.ClusterName]domain.Watch{}, leaves: map[string]domain.Leaf{}}
	app := status.App{Name: "app"}
	for _, name := range []string{"b", "c", "d", "e", "f"} {
		app.Clusters = append(app.Clusters, status.Cluster{ClusterName: cluster0(name)})
	}
	r.apps = []status.App{{Name: "other", Clusters: app.Clusters[:1]}, app}
	return r
}

func (r *reported) collect(t *testing.T, clusters ...domain.ClusterName) (names string, all []*status.Observation) {
	t.Helper()
	for o, err := range r.of(t.Context(), "app", clusters) {
		require.NoError(t, err)
		names += o.Name
		all = append(all, o)
	}
	return names, all
}

func TestObservationsOfEveryTarget(t *testing.T) {
	seen := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	r := newReported(said{observations: []Observation{
		saying("a"), saying("c", domain.ObservedResource{Group: "apps", Version: "v1", Kind: "Deployment", Name: "web", Status: "NotReady", Message: "0/1"}),
		saying("d"), saying("g"),
	}})
	r.watches[cluster0("c")] = domain.Watch{Connected: true, LastSeen: seen}
	r.watches[cluster0("d")] = domain.Watch{LastSeen: seen, Reason: "refused"}
	r.watches[cluster0("f")] = domain.Watch{Connected: true}
	r.leaves[domain.LeafID("1", "app", cluster0("f"))] = domain.Leaf{Report: "no rights"}
	names, all := r.collect(t)
	require.Equal(t, "bcdef", names, "those that are no targets are left out")

	c := all[1]
	require.True(t, c.Seen && c.Connected)
	require.Equal(t, []schema.GroupKind{{Group: "apps", Kind: "Deployment"}}, c.Kinds)
	require.Equal(t, "web", c.Resources[0].Name)
	require.Equal(t, readiness.State{Status: readiness.NotReady, Message: "0/1"}, c.Resources[0].State)

	require.Equal(t, &status.Observation{
		ClusterName: cluster0("d"), Seen: true, LastSeen: seen, Reason: "refused",
		Kinds: []schema.GroupKind{{Group: "apps", Kind: "Deployment"}}, Resources: []status.ObservedResource{},
	}, all[2])
	require.Equal(t, &status.Observation{ClusterName: cluster0("b")}, all[0], "nothing is known of it")
	require.Equal(t, &status.Observation{ClusterName: cluster0("f"), Connected: true, Reason: "no rights"}, all[4])

	names, _ = r.collect(t, cluster0("e"), cluster0("c"))
	require.Equal(t, "ce", names)
}

func TestObservationsOfWhatIsTerminated(t *testing.T) {
	r := newReported(said{observations: []Observation{saying("c")}})
	r.status = domain.ContextTerminated
	names, all := r.collect(t)
	require.Equal(t, "bcdef", names)
	require.False(t, slices.ContainsFunc(all, func(o *status.Observation) bool { return o.Seen || o.Reason != terminated }))
}

func TestObservationsThatCannotBeRead(t *testing.T) {
	r := newReported(said{observations: []Observation{saying("b")}, err: errors.New("no")})
	n := 0
	for _, err := range r.of(t.Context(), "app", nil) {
		if n++; n == 2 {
			require.ErrorContains(t, err, "no")
		}
	}
	require.Equal(t, 2, n, "it ends with the error")
	for range r.of(t.Context(), "app", nil) {
		break // whoever has enough may leave
	}
}
