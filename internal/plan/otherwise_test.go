package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
)

// Clusters that get something otherwise are named with what that is and by which intents, those together for which that is the
// same.
func TestOtherwise(t *testing.T) {
	name := func(s string) domain.ClusterName { return domain.ClusterName{Provider: "p", Name: s} }
	on := func(resource int, what, by string) plan.Effect {
		return plan.Effect{Resource: resource, What: what, By: by}
	}
	annotated, site, made := on(0, "annotation a", "ovnaction intent o"), on(1, "add /x", "gac intent g"), on(2, "object", "gac intent g")
	app := &plan.App{
		Name: "web", Resources: make([]plan.ResourceID, 4), Pruned: 1, Lacks: "2p1G", Effects: []plan.Effect{annotated, site},
		Variants: []plan.Variant{
			{Differs: []int{1}, Lacks: "2p1G", Effects: []plan.Effect{annotated, site}},
			{Differs: []int{1}, Lacks: "2p1G", Effects: []plan.Effect{annotated, site}},
			{Differs: []int{0}, Effects: []plan.Effect{site, made}},
			{Lacks: "1G1p1G", Effects: []plan.Effect{site}},
			{Lacks: "2p1G", Effects: []plan.Effect{annotated, site}},
		},
		Targets: []plan.Target{
			{ClusterName: name("a")}, {ClusterName: name("b"), Variant: 1}, {ClusterName: name("c"), Variant: 3}, {ClusterName: name("d"), Variant: 2},
			{ClusterName: name("e"), Variant: 4}, {ClusterName: name("f"), Variant: 1}, {ClusterName: name("g"), Variant: 3, Leaving: true}, {ClusterName: name("h"), Variant: 5},
		},
	}
	require.Equal(t, []plan.Otherwise{
		{Clusters: []domain.ClusterName{name("b"), name("d"), name("f")}, Variants: 2, Resources: []plan.OtherResource{{Index: 1, Effects: []plan.Effect{site}}}},
		{Clusters: []domain.ClusterName{name("c")}, Variants: 1, Resources: []plan.OtherResource{
			{Index: 0, Elsewhere: []plan.Effect{annotated}}, {Index: 2, Effects: []plan.Effect{made}},
		}},
		{Clusters: []domain.ClusterName{name("e")}, Variants: 1, Resources: []plan.OtherResource{{Index: 0, Absent: true, Elsewhere: []plan.Effect{annotated}}}},
	}, app.Otherwise())
	require.Equal(t, 2+2+3+2+1+2+2, app.Total(), "three resources, of which clusters get one, two or all")
	require.Empty(t, (&plan.App{Targets: app.Targets[:1]}).Otherwise())
}
