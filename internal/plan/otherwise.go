package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/domain"
)

// Otherwise are clusters of an app that get the same resources otherwise than most clusters do, by the same intents. What they
// get need not be the same: each may have a value of its own.
type Otherwise struct {
	Clusters  []domain.ClusterName // in the order of the app's targets
	Variants  int                  // how many different things they get
	Resources []OtherResource      // sorted by Index
}

// OtherResource is one of these resources.
type OtherResource struct {
	Index     int
	Absent    bool     // these clusters do not get it
	Effects   []Effect // what intents make of it on them
	Elsewhere []Effect // what intents make of it on most clusters, and not on these
}

// Otherwise says which clusters get what otherwise than those without a variant, in the order of the first of them.
func (a *App) Otherwise() []Otherwise {
	var found []Otherwise
	at := map[string]int{} // by what it is
	of := map[int]int{}    // by variant
	for i := range a.Targets {
		t := &a.Targets[i]
		if t.Variant == 0 || t.Leaving {
			continue
		}
		place, known := of[t.Variant]
		if !known {
			resources := a.otherOn(&a.Variants[t.Variant-1])
			key := keyOf(resources)
			if place, known = at[key]; !known {
				place = len(found)
				at[key] = place
				found = append(found, Otherwise{Resources: resources})
			}
			of[t.Variant] = place
			found[place].Variants++
		}
		found[place].Clusters = append(found[place].Clusters, t.ClusterName)
	}
	return slices.DeleteFunc(found, func(o Otherwise) bool { return len(o.Resources) == 0 })
}

// otherOn are the resources that clusters of a variant get otherwise.
func (a *App) otherOn(v *Variant) (resources []OtherResource) {
	most, these := lacking{domain.DecodeMarks(a.Lacks)}, lacking{domain.DecodeMarks(v.Lacks)}
	usual, here := byResource(a.Effects), byResource(v.Effects)
	differs := map[int]bool{}
	for _, i := range v.Differs {
		differs[i] = true
	}
	for i := range a.Wanted() {
		if !differs[i] && most.lacks(i) == these.lacks(i) {
			continue
		}
		r := OtherResource{Index: i, Absent: these.lacks(i), Effects: here[i]}
		for _, e := range usual[i] {
			if !slices.Contains(here[i], e) {
				r.Elsewhere = append(r.Elsewhere, e)
			}
		}
		resources = append(resources, r)
	}
	return resources
}

func byResource(effects []Effect) map[int][]Effect {
	of := map[int][]Effect{}
	for _, e := range effects {
		of[e.Resource] = append(of[e.Resource], e)
	}
	return of
}

// keyOf tells apart what differs.
func keyOf(resources []OtherResource) string {
	var key strings.Builder
	for i := range resources {
		fmt.Fprintf(&key, "%+q\n", fmt.Sprint(resources[i]))
	}
	return key.String()
}
