package service

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/readiness"
	"github.com/drover-io/drover/internal/status"
)

// said is what clusters have said of the one app, in order, and whether they are heard.
type said struct {
	Heard
	observations []Observation
	err          error
	watches      map[domain.ClusterName]domain.Watch
	rules        *readiness.Rules
}

func (s said) Watches(context.Context, []domain.ClusterName) (map[domain.ClusterName]domain.Watch, error) {
	return s.watches, nil
}

func (s said) Rules(context.Context) (*readiness.Rules, error) { return s.rules, nil }

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

// hearing is the source of a status of a context after what was said, with the leaves of its app.
func hearing(t *testing.T, s said, now domain.ContextStatus, leaves ...domain.Leaf) *status.Source {
	t.Helper()
	d := &StatusDocument{source: status.Source{ContextID: "1", Status: now}}
	known := map[string]domain.Leaf{}
	for _, leaf := range leaves {
		known[leaf.ID] = leaf
	}
	require.NoError(t, (&Lifecycle{heard: s}).hear(t.Context(), d, "1", known))
	return &d.source
}

func TestObservations(t *testing.T) {
	seen := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	rules := readiness.Compile()
	deaf := saying("d")
	deaf.Unheard = []domain.UnheardKind{{Kind: "Deployment.apps", Since: seen, Reason: "forbidden"}}
	source := hearing(t, said{
		rules: rules,
		observations: []Observation{
			saying("c", domain.ObservedResource{Group: "apps", Version: "v1", Kind: "Deployment", Name: "web", Status: "NotReady", Message: "0/1"}),
			deaf,
		},
		watches: map[domain.ClusterName]domain.Watch{
			cluster0("c"): {Connected: true, LastSeen: seen},
			cluster0("d"): {LastSeen: seen, Reason: "refused"},
			cluster0("f"): {Connected: true},
		},
	}, domain.ContextInstantiated, domain.Leaf{ID: domain.LeafID("1", "app", cluster0("f")), Report: "no rights"})
	require.Same(t, rules, source.Rules)
	var all []*status.Observation
	for o, err := range source.Observations("app", nil) {
		require.NoError(t, err)
		all = append(all, o)
	}
	kinds := []schema.GroupKind{{Group: "apps", Kind: "Deployment"}}
	require.Equal(t, []*status.Observation{
		{ClusterName: cluster0("c"), Seen: true, Connected: true, LastSeen: seen, Kinds: kinds, Resources: []status.ObservedResource{{
			ResourceID: plan.ResourceID{Group: "apps", Version: "v1", Kind: "Deployment", Name: "web"},
			State:      readiness.State{Status: readiness.NotReady, Message: "0/1"},
		}}},
		{ClusterName: cluster0("d"), Seen: true, LastSeen: seen, Reason: "refused", Kinds: kinds, Resources: []status.ObservedResource{}, Unheard: []status.UnheardKind{
			{GroupKind: kinds[0], Since: seen, Reason: "forbidden"},
		}},
	}, all)
	require.Equal(t, &status.Observation{ClusterName: cluster0("b")}, source.Unreported("app", cluster0("b")), "nothing is known of it")
	require.Equal(t, &status.Observation{ClusterName: cluster0("f"), Connected: true, Reason: "no rights"}, source.Unreported("app", cluster0("f")))
}

func TestObservationsThatCouldNotBeWritten(t *testing.T) {
	unwritten := saying("c")
	unwritten.Error = "it is too large"
	source := hearing(t, said{
		observations: []Observation{unwritten}, watches: map[domain.ClusterName]domain.Watch{cluster0("c"): {Connected: true}},
	}, domain.ContextInstantiated)
	for o, err := range source.Observations("app", nil) {
		require.NoError(t, err)
		require.Equal(t, &status.Observation{ClusterName: cluster0("c"), Connected: true, Reason: "the cluster's agent cannot report: it is too large"}, o)
	}
}

func TestObservationsOfWhatIsTerminated(t *testing.T) {
	for now, reason := range map[domain.ContextStatus]string{
		domain.ContextTerminated: "the app context is terminated",
		domain.ContextUpdated:    "another app context has taken over from it",
	} {
		source := hearing(t, said{observations: []Observation{saying("c")}}, now)
		require.Nil(t, source.Observations)
		require.Equal(t, &status.Observation{ClusterName: cluster0("c"), Reason: reason}, source.Unreported("app", cluster0("c")))
	}
	source := hearing(t, said{}, domain.ContextTerminated, domain.Leaf{ID: domain.LeafID("1", "app", cluster0("c")), Report: "nobody confirmed it"})
	require.Equal(t, "the app context is terminated; nobody confirmed it", source.Unreported("app", cluster0("c")).Reason)
	require.Equal(t, "the app context is terminated", source.Unreported("app", cluster0("d")).Reason)
}

func TestObservationsThatCannotBeRead(t *testing.T) {
	source := hearing(t, said{observations: []Observation{saying("b")}, err: errors.New("no")}, domain.ContextInstantiated)
	var last error
	n := 0
	for _, last = range source.Observations("app", nil) {
		n++
	}
	require.Equal(t, 2, n, "it ends with the error")
	require.ErrorContains(t, last, "no")
	for range source.Observations("app", nil) {
		break // whoever has enough may leave
	}
}
