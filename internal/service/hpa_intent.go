package service

import (
	"context"
	"fmt"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// keepsContainer refuses to take the container from a consumer that needs it.
func (s *Service) keepsContainer(ctx context.Context, c change) error {
	if c.from != nil && c.to != nil && c.to.(*domain.HPAConsumer).Spec.Container == "" {
		resources, err := s.store.List(ctx, domain.HPAResources, domain.KeyOf(c.to))
		if err != nil {
			return err
		}
		for _, o := range resources {
			if *o.(*domain.HPAResource).Spec.Allocatable {
				return needsContainer("spec.container", domain.KeyOf(c.to), domain.KeyOf(o))
			}
		}
	}
	return nil
}

// hasContainer refuses an allocatable resource of a consumer that does not say whose it is.
func (s *Service) hasContainer(ctx context.Context, c change) error {
	if c.to != nil && *c.to.(*domain.HPAResource).Spec.Allocatable {
		consumer, err := s.store.Get(ctx, domain.HPAConsumers, c.to.Base().Parent)
		if err != nil {
			return err
		}
		if consumer.(*domain.HPAConsumer).Spec.Container == "" {
			return needsContainer("spec.allocatable", domain.KeyOf(consumer), domain.KeyOf(c.to))
		}
	}
	return nil
}

func needsContainer(field string, consumer, resource domain.Key) error {
	return &fail.Error{Kind: fail.Invalid, Message: "Invalid Input:", Fields: []fail.Field{{Path: field, Message: fmt.Sprintf(
		"%s is allocatable, and %s has no spec.container, which gets it", describe(domain.HPAResources, resource), describe(domain.HPAConsumers, consumer))}}}
}

// remarkRequirement says what of a resource requirement is not acted on: units that say otherwise what a number means, and the weight of what
// is mandatory, but for that of who has said nothing.
func (*Service) remarkRequirement(_ context.Context, o domain.Object) (warnings []string, err error) {
	spec := &o.(*domain.HPAResource).Spec
	if r := &spec.Resource; r.Units != "" && (r.Name != "memory" || r.Units != "MB") {
		warnings = append(warnings, fmt.Sprintf("spec.resource.units: %q is not acted on: a number is megabytes of memory (10^6 bytes), and units of all else; for other units send a quantity such as \"500m\" or \"1Gi\"", r.Units))
	}
	if spec.Required() && spec.Counts() != 1 {
		warnings = append(warnings, fmt.Sprintf("spec.weight: nothing is done with %d, since the resource is mandatory; send mandatory false for one that is preferred", spec.Counts()))
	}
	return warnings, nil
}
