package service

import (
	"context"
	"reflect"

	"github.com/drover-io/drover/internal/combine"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// fillCollector has a collector that says nothing of its kind be of the one there is.
func fillCollector(o domain.Object) {
	c := o.(*domain.StatusCollector)
	if c.APIVersion == "" {
		c.APIVersion = domain.CollectorAPIVersion
	}
	if c.Kind == "" {
		c.Kind = domain.CollectorKind
	}
}

// checkCollector adds what is wrong with the spec.
func checkCollector(o domain.Object, p *fail.Problems) {
	for _, f := range fail.FieldsOf(combine.Check(&o.(*domain.StatusCollector).Spec)) {
		p.Add(f.Path, "%s", f.Message)
	}
}

// showCollector adds the status.
func showCollector(o domain.Object) {
	c := o.(*domain.StatusCollector)
	c.Status = domain.CollectorStatus{ObservedGeneration: c.Generation}
	for _, f := range fail.FieldsOf(combine.Check(&c.Spec)) {
		c.Status.Errors = append(c.Status.Errors, f.Path+": "+f.Message)
	}
}

// countSpecs counts the specs that are written.
func (*Service) countSpecs(_ context.Context, c change) error {
	if c.to == nil {
		return nil
	}
	to := c.to.(*domain.StatusCollector)
	to.Generation = 1
	if c.from == nil {
		return nil
	}
	from := c.from.(*domain.StatusCollector)
	if to.Generation = from.Generation; !reflect.DeepEqual(from.Spec, to.Spec) {
		to.Generation++
	}
	return nil
}
