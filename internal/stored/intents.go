package stored

import (
	"context"
	"maps"
	"slices"

	"github.com/drover-io/drover/internal/domain"
)

// Lists lists resources.
type Lists interface {
	List(ctx context.Context, noun *domain.Noun, parent domain.Key) ([]domain.Object, error)
}

// DeploymentIntents reads what is bound to a deployment intent group.
func DeploymentIntents(ctx context.Context, from Lists, group domain.Key) ([]*domain.DeploymentIntent, error) {
	objects, err := from.List(ctx, domain.DeploymentIntents, group)
	if err != nil {
		return nil, err
	}
	intents := make([]*domain.DeploymentIntent, 0, len(objects))
	for _, o := range objects {
		intents = append(intents, o.(*domain.DeploymentIntent))
	}
	return intents, nil
}

// Unenforced finds what nothing brings about of deployment intents. Of those that name no controller the store is not
// asked.
func Unenforced(ctx context.Context, from Lists, intents []*domain.DeploymentIntent) ([]domain.Unenforced, error) {
	if !namesControllers(intents) {
		return nil, nil
	}
	registered, err := controllers(ctx, from)
	if err != nil {
		return nil, err
	}
	found := domain.UnenforcedOf(intents, registered)
	var parts []domain.Object
	for _, i := range intents {
		for _, name := range slices.Sorted(maps.Keys(i.Spec.Intent)) {
			if name == domain.PlacementIntentKey || domain.ActorOf(name, registered[name]) != domain.ActorDTC {
				continue
			}
			if parts == nil {
				if parts, err = from.List(ctx, domain.DTCControllers, ""); err != nil {
					return nil, err
				}
			}
			for _, o := range parts {
				if !o.(*domain.DTCController).BuiltIn() {
					found = append(found, domain.Unenforced{
						DeploymentIntent: i.Name, Controller: name, Intent: i.Spec.Intent[name], Registered: true, Part: o.LocalName(),
					})
				}
			}
		}
	}
	return found, nil
}

// namesControllers says whether one of them binds anything but a placement.
func namesControllers(intents []*domain.DeploymentIntent) bool {
	return slices.ContainsFunc(intents, func(i *domain.DeploymentIntent) bool { return len(i.References()) > 0 })
}

// Act is a binding of a deployment intent that Drover carries out.
type Act struct {
	DeploymentIntent string
	Actor            domain.Actor
	Intent           string
	Registered       bool // the controller is
	Priority         int  // of its registration
}

// Acts finds what Drover carries out of deployment intents: in their order of creation and by controller, each intent of an
// actor once. Of those that name no controller the store is not asked.
func Acts(ctx context.Context, from Lists, intents []*domain.DeploymentIntent) ([]Act, error) {
	intents = slices.Clone(intents)
	slices.SortStableFunc(intents, func(a, b *domain.DeploymentIntent) int { return a.Made.Compare(b.Made) })
	if !namesControllers(intents) {
		return nil, nil
	}
	registered, err := controllers(ctx, from)
	if err != nil {
		return nil, err
	}
	type one struct {
		actor  domain.Actor
		intent string
	}
	known := map[one]bool{}
	var acts []Act
	for _, i := range intents {
		for _, name := range slices.Sorted(maps.Keys(i.Spec.Intent)) {
			c := registered[name]
			a := Act{DeploymentIntent: i.Name, Actor: domain.ActorOf(name, c), Intent: i.Spec.Intent[name]}
			if name == domain.PlacementIntentKey || a.Actor == "" || known[one{a.Actor, a.Intent}] {
				continue
			}
			if c != nil {
				a.Registered, a.Priority = true, c.Spec.Priority
			}
			known[one{a.Actor, a.Intent}] = true
			acts = append(acts, a)
		}
	}
	return acts, nil
}

// controllers are those that are registered, by name.
func controllers(ctx context.Context, from Lists) (map[string]*domain.Controller, error) {
	objects, err := from.List(ctx, domain.Controllers, "")
	if err != nil {
		return nil, err
	}
	registered := make(map[string]*domain.Controller, len(objects))
	for _, o := range objects {
		c := o.(*domain.Controller)
		registered[c.Name] = c
	}
	return registered, nil
}
