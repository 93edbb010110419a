package view_test

import (
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/readiness"
	"github.com/drover-io/drover/internal/view"
)

// read gives the reports, then the error if there is one.
func read(err error, reports ...view.Report) func(string, []domain.ClusterName) iter.Seq2[view.Report, error] {
	return func(string, []domain.ClusterName) iter.Seq2[view.Report, error] {
		return func(yield func(view.Report, error) bool) {
			for _, r := range reports {
				if !yield(r, nil) {
					return
				}
			}
			if err != nil {
				yield(view.Report{}, err)
			}
		}
	}
}

// seen is when everything is said, and proved by a pulse.
var seen = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func cluster0(name string) domain.ClusterName { return domain.ClusterName{Provider: "p", Name: name} }

func saying(name string, resources ...domain.ObservedResource) view.Report {
	return view.Report{Observation: &domain.Observation{
		ObservedApp: domain.ObservedApp{ContextID: "1", App: "app", Cluster: cluster0(name)}, Kinds: []string{"Deployment.apps"}, Resources: resources,
	}}
}

// hearing is the source of a context after what was said, with the leaves of its app.
func hearing(r view.Reports, now domain.ContextStatus, leaves ...domain.Leaf) *view.Source {
	s := &view.Source{ContextID: "1", Status: now, Now: seen}
	r.Leaves = map[string]domain.Leaf{}
	for _, leaf := range leaves {
		r.Leaves[leaf.ID] = leaf
	}
	s.Hear(r)
	return s
}

func TestContactAt(t *testing.T) {
	noon, reason := seen, "the process that watched the cluster is gone; another one is to take over"
	for name, c := range map[string]struct {
		said  domain.Watch
		after time.Duration // the pulse
		want  view.Contact
	}{
		"nobody watches it":             {domain.Watch{}, 0, view.Contact{}},
		"its watcher lives":             {domain.Watch{Connected: true, LastSeen: noon, Pulse: noon}, domain.PulseLife, view.Contact{Heard: true, LastSeen: noon}},
		"its watcher is gone":           {domain.Watch{Connected: true, LastSeen: noon, Pulse: noon}, domain.PulseLife + 1, view.Contact{LastSeen: noon, Reason: reason}},
		"its watcher never had a pulse": {domain.Watch{Connected: true, LastSeen: noon}, 0, view.Contact{LastSeen: noon, Reason: reason}},
		"its watcher's clock is ahead":  {domain.Watch{Connected: true, LastSeen: noon, Pulse: noon}, -time.Minute, view.Contact{Heard: true, LastSeen: noon}},
		"it does not answer":            {domain.Watch{LastSeen: noon, Reason: "refused", Pulse: noon}, 0, view.Contact{LastSeen: noon, Reason: "refused"}},
		"it did not, and who said so is gone": {
			domain.Watch{LastSeen: noon, Reason: "refused", Pulse: noon}, time.Hour, view.Contact{LastSeen: noon, Reason: "refused"},
		},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, view.ContactAt(c.said, noon.Add(c.after))) })
	}
}

func TestObservations(t *testing.T) {
	deaf := saying("d")
	deaf.Unheard = []domain.UnheardKind{{Kind: "Deployment.apps", Since: seen, Reason: "forbidden"}}
	source := hearing(view.Reports{
		Read: read(nil,
			saying("c", domain.ObservedResource{Group: "apps", Version: "v1", Kind: "Deployment", Name: "web", Status: "NotReady", Message: "0/1", Stored: seen, Sum: 7}),
			deaf,
		),
		Watches: map[domain.ClusterName]domain.Watch{
			cluster0("c"): {Connected: true, LastSeen: seen, Pulse: seen},
			cluster0("d"): {LastSeen: seen, Reason: "refused"},
			cluster0("f"): {Connected: true, Pulse: seen},
		},
	}, domain.ContextInstantiated, domain.Leaf{ID: domain.LeafID("1", "app", cluster0("f")), Report: "no rights"})
	var all []*view.Observation
	for o, err := range source.Observations("app", nil) {
		require.NoError(t, err)
		all = append(all, o)
	}
	kinds := []schema.GroupKind{{Group: "apps", Kind: "Deployment"}}
	require.Equal(t, []*view.Observation{
		{ClusterName: cluster0("c"), Seen: true, Connected: true, LastSeen: seen, Kinds: kinds, Resources: []view.ObservedResource{{
			ResourceID: plan.ResourceID{Group: "apps", Version: "v1", Kind: "Deployment", Name: "web"},
			State:      readiness.State{Status: readiness.NotReady, Message: "0/1"}, Stored: seen, Sum: 7,
		}}},
		{ClusterName: cluster0("d"), Seen: true, LastSeen: seen, Reason: "refused", Kinds: kinds, Resources: []view.ObservedResource{}, Unheard: []view.UnheardKind{
			{GroupKind: kinds[0], Since: seen, Reason: "forbidden"},
		}},
	}, all)
	require.Equal(t, &view.Observation{ClusterName: cluster0("b")}, source.Unreported("app", cluster0("b")), "nothing is known of it")
	require.Equal(t, &view.Observation{ClusterName: cluster0("f"), Connected: true, Reason: "no rights"}, source.Unreported("app", cluster0("f")))
}

func TestObservationsThatCouldNotBeWritten(t *testing.T) {
	unwritten := saying("c")
	unwritten.Error, unwritten.Kinds = "it is too large", nil // it has never reported
	source := hearing(view.Reports{
		Read: read(nil, unwritten), Watches: map[domain.ClusterName]domain.Watch{cluster0("c"): {Connected: true, Pulse: seen}},
	}, domain.ContextInstantiated)
	for o, err := range source.Observations("app", nil) {
		require.NoError(t, err)
		require.Equal(t, &view.Observation{ClusterName: cluster0("c"), Connected: true, Reason: "the app cannot be reported: it is too large"}, o)
	}

	unwritten.Resources = []domain.ObservedResource{{Version: "v1", Kind: "Pod", Name: "web", Status: "Ready", Stored: seen, Sum: 7}}
	unwritten.Kinds, unwritten.Since = []string{"Pod"}, seen.Add(time.Minute)
	for name, c := range map[string]struct {
		watch    domain.Watch
		lastSeen time.Time
	}{
		"the cluster is heard":           {domain.Watch{Connected: true, LastSeen: seen.Add(time.Hour), Pulse: seen.Add(time.Hour)}, seen.Add(time.Minute)},
		"the cluster is not heard":       {domain.Watch{LastSeen: seen, Reason: "refused"}, seen},
		"nobody knows when it was heard": {domain.Watch{Reason: "refused"}, seen.Add(time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			source := hearing(view.Reports{Read: read(nil, unwritten), Watches: map[domain.ClusterName]domain.Watch{cluster0("c"): c.watch}}, domain.ContextInstantiated)
			for o, err := range source.Observations("app", nil) {
				require.NoError(t, err)
				require.Len(t, o.Resources, 1, "what was reported before")
				require.True(t, o.Seen)
				require.False(t, o.Connected)
				require.Equal(t, "the app cannot be reported: it is too large", o.Reason)
				require.Equal(t, c.lastSeen, o.LastSeen, "when that was true for the last time")
			}
		})
	}
}

func TestObservationsOfWhatIsTerminated(t *testing.T) {
	for now, reason := range map[domain.ContextStatus]string{
		domain.ContextTerminated: "the app context is terminated",
		domain.ContextUpdated:    "another app context has taken over from it",
	} {
		source := hearing(view.Reports{Read: read(nil, saying("c"))}, now)
		require.Nil(t, source.Observations)
		require.Equal(t, &view.Observation{ClusterName: cluster0("c"), Reason: reason}, source.Unreported("app", cluster0("c")))
	}
	source := hearing(view.Reports{}, domain.ContextTerminated, domain.Leaf{ID: domain.LeafID("1", "app", cluster0("c")), Report: "nobody confirmed it"})
	require.Equal(t, "the app context is terminated; nobody confirmed it", source.Unreported("app", cluster0("c")).Reason)
	require.Equal(t, "the app context is terminated", source.Unreported("app", cluster0("d")).Reason)
}

func TestObservationsThatCannotBeRead(t *testing.T) {
	source := hearing(view.Reports{Read: read(errors.New("no"), saying("b"))}, domain.ContextInstantiated)
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
