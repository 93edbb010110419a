package placement_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/placement"
	"github.com/drover-io/drover/internal/plan"
)

// The fleet of all cases. Labels: "edge" on p+c1, p+c2, q+c1; "gpu" on p+c3; "far" on p+x1.
// x1 and x2 of p are outside the logical cloud; p+c1 does not answer.
var (
	labels = map[[2]string][]string{
		{"p", "edge"}: {"c2", "c1"}, // as unordered as a store may give them
		{"q", "edge"}: {"c1"},
		{"p", "gpu"}:  {"c3"},
		{"p", "far"}:  {"x1"},
	}
	members = map[domain.ClusterName]bool{
		{Provider: "p", Name: "c1"}: true, {Provider: "p", Name: "c2"}: true, {Provider: "p", Name: "c3"}: true,
		{Provider: "q", Name: "c1"}: true,
	}
	silent = map[domain.ClusterName]bool{{Provider: "p", Name: "c1"}: true}
)

func TestPlace(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason  string
		intents []domain.Placement
		healthy bool // p+c1 answers too
		nothing bool // no cluster answers
		want    []string
		wantErr string // text; the kind is Invalid
	}{
		"a named cluster of allOf is taken": {
			intents: []domain.Placement{{AllOf: allOf(cluster("p", "c2"))}},
			want:    []string{"p+c2 allOf"},
		},
		"allOf takes a cluster that does not answer": {
			reason:  "it is mandatory; work on it waits",
			intents: []domain.Placement{{AllOf: allOf(cluster("p", "c1"))}},
			want:    []string{"p+c1 allOf"},
		},
		"a label of allOf takes every cluster of that provider": {
			intents: []domain.Placement{{AllOf: allOf(label("p", "edge"))}},
			want:    []string{"p+c1 allOf", "p+c2 allOf"},
		},
		"targets are sorted whatever the order of the intents": {
			intents: []domain.Placement{{AllOf: allOf(cluster("q", "c1"), cluster("p", "c3"), cluster("p", "c2"))}},
			want:    []string{"p+c2 allOf", "p+c3 allOf", "q+c1 allOf"},
		},
		"a cluster asked for twice is one target": {
			intents: []domain.Placement{{AllOf: allOf(label("p", "edge"), cluster("p", "c2"))}},
			want:    []string{"p+c1 allOf", "p+c2 allOf"},
		},
		"anyOf takes the first in order": {
			intents: []domain.Placement{{AnyOf: anyOf(cluster("q", "c1"), cluster("p", "c3"), cluster("p", "c2"))}},
			want:    []string{"p+c2 anyOf: first of 3"},
		},
		"anyOf prefers a cluster that answers": {
			intents: []domain.Placement{{AnyOf: anyOf(cluster("p", "c3"), label("p", "edge"))}},
			want:    []string{"p+c2 anyOf: first reachable of 3"},
		},
		"anyOf takes the first when all answer": {
			healthy: true,
			intents: []domain.Placement{{AnyOf: anyOf(cluster("p", "c3"), label("p", "edge"))}},
			want:    []string{"p+c1 anyOf: first of 3"},
		},
		"anyOf takes the first when none answers": {
			nothing: true,
			intents: []domain.Placement{{AnyOf: anyOf(cluster("p", "c3"), label("p", "edge"))}},
			want:    []string{"p+c1 anyOf: first of 3"},
		},
		"anyOf passes over clusters outside the logical cloud": {
			reason:  "EMCO deploys to them",
			intents: []domain.Placement{{AnyOf: anyOf(label("p", "far"), cluster("q", "c1"))}},
			want:    []string{"q+c1 anyOf: first of 1"},
		},
		"anyOf counts a cluster that is named twice once": {
			intents: []domain.Placement{{AnyOf: anyOf(cluster("p", "c3"), label("p", "gpu"), cluster("q", "c1"))}},
			want:    []string{"p+c3 anyOf: first of 2"},
		},
		"anyOf inside allOf takes one": {
			intents: []domain.Placement{{AllOf: []domain.AllOf{{AnyOf: anyOf(cluster("q", "c1"), cluster("p", "c3"))}}}},
			want:    []string{"p+c3 anyOf: first of 2"},
		},
		"each group takes one": {
			intents: []domain.Placement{{
				AllOf: append(allOf(cluster("p", "c1")), domain.AllOf{AnyOf: anyOf(cluster("p", "c2"), cluster("p", "c3"))}),
				AnyOf: anyOf(cluster("q", "c1")),
			}},
			want: []string{"p+c1 allOf", "p+c2 anyOf: first of 2", "q+c1 anyOf: first of 1"},
		},
		"groups that choose the same cluster share it": {
			reason: "as in EMCO: a group does not look at what others took",
			intents: []domain.Placement{{
				AllOf: []domain.AllOf{{AnyOf: anyOf(cluster("p", "c2"), cluster("p", "c3"))}},
				AnyOf: anyOf(cluster("p", "c2"), cluster("q", "c1")),
			}},
			want: []string{"p+c2 anyOf: first of 2"},
		},
		"a mandatory cluster says so although a group chose it too": {
			intents: []domain.Placement{{AllOf: allOf(cluster("p", "c2")), AnyOf: anyOf(cluster("p", "c2"), cluster("p", "c3"))}},
			want:    []string{"p+c2 allOf"},
		},
		"all intents of the app hold together": {
			intents: []domain.Placement{{AllOf: allOf(cluster("p", "c3"))}, {AnyOf: anyOf(label("q", "edge"))}},
			want:    []string{"p+c3 allOf", "q+c1 anyOf: first of 1"},
		},
		"a label that nothing carries contributes nothing": {
			intents: []domain.Placement{{AllOf: allOf(cluster("p", "c3"), label("p", "none")), AnyOf: anyOf(label("q", "none"))}},
			want:    []string{"p+c3 allOf"},
		},
		"a label of another provider does not count": {
			intents: []domain.Placement{{AllOf: allOf(label("q", "gpu"))}},
			wantErr: "No compatible clusters have been provided to the Deployment Intent Group: app sink: no cluster carries the label gpu of cluster provider q",
		},
		"labels that nothing carries are named": {
			intents: []domain.Placement{{AllOf: allOf(label("q", "x"), label("q", "x")), AnyOf: anyOf(label("p", "y"))}},
			wantErr: "No compatible clusters have been provided to the Deployment Intent Group: app sink: no cluster carries the label x of cluster provider q or y of cluster provider p",
		},
		"an app without intents has no place": {
			wantErr: "No compatible clusters have been provided to the Deployment Intent Group: app sink: no app intent names a cluster for it",
		},
		"an empty intent names no place": {
			intents: []domain.Placement{{}},
			wantErr: "No compatible clusters have been provided to the Deployment Intent Group: app sink: no app intent names a cluster for it",
		},
		"mandatory clusters outside the logical cloud are all named, as they are asked for": {
			reason:  "which clusters carry a label is not for everybody who may select by it",
			intents: []domain.Placement{{AllOf: allOf(cluster("p", "x2"), cluster("p", "c2"), label("p", "far"))}},
			wantErr: "The specified Logical Cloud doesn't provide the mandatory clusters: app sink: logical cloud lc does not include p+x2, 1 cluster with the label far of cluster provider p",
		},
		"an anyOf with no cluster in the logical cloud cannot be met": {
			intents: []domain.Placement{{AllOf: allOf(cluster("p", "c2")), AnyOf: anyOf(cluster("p", "x2"), label("p", "far"))}},
			wantErr: "app sink: logical cloud lc includes none of the clusters of anyOf: p+x2, 1 cluster with the label far of cluster provider p",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := placement.Input{
				App: "sink", LogicalCloud: "lc",
				Labelled:  func(provider, label string) []string { return labels[[2]string{provider, label}] },
				Member:    func(c domain.ClusterName) bool { return members[c] },
				Reachable: func(name domain.ClusterName) bool { return !c.nothing && !silent[name] },
			}
			if c.healthy {
				in.Reachable = nil
			}
			for _, p := range c.intents {
				in.Intents = append(in.Intents, domain.AppIntent{Spec: domain.AppIntentSpec{App: "sink", Intent: p}})
			}
			targets, err := placement.Place(in)
			if c.wantErr != "" {
				require.True(t, fail.Is(err, fail.Invalid), "got %v", err)
				require.Equal(t, c.wantErr, fail.TextOf(err))
				return
			}
			require.NoError(t, err, c.reason)
			require.Empty(t, cmp.Diff(c.want, texts(targets)), c.reason)
		})
	}
}

// Instantiating twice must not move an app whose clusters did not change.
func TestPlaceIsRepeatable(t *testing.T) {
	t.Parallel()
	in := placement.Input{
		App: "sink", LogicalCloud: "lc",
		Intents: []domain.AppIntent{{Spec: domain.AppIntentSpec{Intent: domain.Placement{
			AllOf: allOf(label("p", "edge"), label("q", "edge")), AnyOf: anyOf(label("p", "gpu")),
		}}}},
		Labelled: func(provider, label string) []string { return labels[[2]string{provider, label}] },
		Member:   func(c domain.ClusterName) bool { return members[c] },
	}
	first, err := placement.Place(in)
	require.NoError(t, err)
	for range 20 {
		again, err := placement.Place(in)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(first, again))
	}
}

func cluster(provider, name string) domain.Clusters {
	return domain.Clusters{ClusterProvider: provider, Cluster: name}
}

func label(provider, label string) domain.Clusters {
	return domain.Clusters{ClusterProvider: provider, ClusterLabel: label}
}

func allOf(entries ...domain.Clusters) []domain.AllOf {
	var all []domain.AllOf
	for _, c := range entries {
		all = append(all, domain.AllOf{Clusters: c})
	}
	return all
}

func anyOf(entries ...domain.Clusters) []domain.Clusters { return entries }

func texts(targets []plan.Target) []string {
	var all []string
	for _, t := range targets {
		all = append(all, t.String()+" "+t.Reason)
	}
	return all
}
