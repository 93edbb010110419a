package view

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/readiness"
)

// Sight is what is known of one object by what its cluster reports.
type Sight struct {
	Presence Presence
	State    readiness.State // of one that is Present
	Doubt    *Doubt          // why that does not hold now, nil when it does
}

// Sights finds objects in an observation, each as a row would show it.
func (o *Observation) Sights(rules *readiness.Rules) func(id plan.ResourceID) (Sight, error) {
	type place struct{ group, kind, namespace, name string }
	placeOf := func(id *plan.ResourceID) place { return place{id.Group, id.Kind, id.Namespace, id.Name} }
	at := make(map[place]int, len(o.Resources))
	for i := range o.Resources {
		at[placeOf(&o.Resources[i].ResourceID)] = i
	}
	whole, doubts := o.doubt(), o.doubts()
	return func(id plan.ResourceID) (s Sight, err error) {
		kind := schema.GroupKind{Group: id.Group, Kind: id.Kind}
		if s.Doubt = whole; s.Doubt == nil {
			s.Doubt = o.doubtOf(doubts, kind)
		}
		i, there := at[placeOf(&id)]
		switch {
		case there:
			s.Presence = Present
			s.State, err = o.ready(i, rules)
		case o.Seen && o.watches(kind, true):
			s.Presence = Missing
		default:
			s.Presence = Unknown
		}
		return s, err
	}
}
