package fleet

import (
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
)

// schemas are those of the kinds that client-go knows. Reading them takes some hundred milliseconds.
var schemas = sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(scheme.Scheme) })

// newManager makes what merges applies into objects of the kind and keeps their managedFields: the code of
// API servers, so that conflicts and errors are theirs. Kinds that client-go does not know are merged without
// a schema, with atomic lists.
func newManager(k *kind, subresource string) *managedfields.FieldManager {
	gvk, gv := k.GroupVersionKind, k.GroupVersion()
	var m *managedfields.FieldManager
	var err error
	if scheme.Scheme.Recognizes(gvk) {
		m, err = managedfields.NewDefaultFieldManager(schemas(), untyped{}, untyped{}, untyped{}, gvk, gv, subresource, nil)
	} else {
		converter := managedfields.NewDeducedTypeConverter()
		m, err = managedfields.NewDefaultCRDFieldManager(converter, untyped{}, untyped{}, untyped{}, gvk, gv, subresource, nil)
	}
	if err != nil {
		panic(err) // only of a converter that is missing
	}
	return m
}

// untyped are the conversions and defaults of objects that stay as they are.
type untyped struct{}

// ConvertToVersion returns the object.
func (untyped) ConvertToVersion(o runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return o, nil
}

// Convert is never called for unstructured objects.
func (untyped) Convert(_, _, _ any) error { return errors.New("objects are not converted") }

// ConvertFieldLabel returns what it is given.
func (untyped) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// Default changes nothing.
func (untyped) Default(runtime.Object) {}

// New makes an empty object.
func (untyped) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(gvk)
	return o, nil
}
