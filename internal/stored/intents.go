package stored

import (
	"context"

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
	if len(domain.UnenforcedOf(intents, nil)) == 0 {
		return nil, nil
	}
	objects, err := from.List(ctx, domain.Controllers, "")
	if err != nil {
		return nil, err
	}
	registered := make(map[string]*domain.Controller, len(objects))
	for _, o := range objects {
		c := o.(*domain.Controller)
		registered[c.Name] = c
	}
	return domain.UnenforcedOf(intents, registered), nil
}
