package monitor

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/readiness"
)

// tracked is what memory holds of a labelled object: a few members of its metadata, and itself as it will stand in
// a status. The caches store it instead of what they received. It never changes once made.
type tracked struct {
	metav1.TypeMeta
	metav1.ObjectMeta // name, namespace, UID, and resourceVersion: informers compare it

	deployment string // the value of the label
	part       string // of bundle.PartLabel, of a ResourceBundleState
	// object is nil for a ResourceBundleState, and for what others derive from labelled objects.
	object *bundle.Object
	ready  bool
}

// DeepCopyObject makes it a runtime.Object.
func (t *tracked) DeepCopyObject() runtime.Object {
	c := *t
	return &c
}

// track is the caches' transform. An informer may show it a second time what it returned before.
func track(received any) (any, error) {
	switch o := received.(type) {
	case *unstructured.Unstructured:
		return makeTracked(o, o.GroupVersionKind(), func() (map[string]any, error) { return o.Object, nil })
	case *metav1.PartialObjectMetadata:
		return makeTracked(o, o.GroupVersionKind(), func() (map[string]any, error) { return contentOf(o) })
	case *tracked, toolscache.DeletedFinalStateUnknown:
		return o, nil
	default:
		return nil, fmt.Errorf("the cache received a %T", received)
	}
}

func makeTracked(o metav1.Object, gvk schema.GroupVersionKind, content func() (map[string]any, error)) (*tracked, error) {
	t := &tracked{
		ObjectMeta: metav1.ObjectMeta{Name: o.GetName(), Namespace: o.GetNamespace(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion()},
		deployment: o.GetLabels()[plan.DeploymentLabel],
		part:       o.GetLabels()[bundle.PartLabel],
	}
	t.SetGroupVersionKind(gvk)
	if gvk.GroupKind() == bundle.GroupKind {
		t.OwnerReferences = o.GetOwnerReferences()
		return t, nil
	}
	if bundle.Derived(gvk.GroupKind(), o) {
		return t, nil
	}
	c, err := content()
	if err != nil {
		return nil, err
	}
	t.ready = readiness.Of(gvk, c).Status == readiness.Ready
	t.object, err = bundle.Observe(t.id(), c)
	return t, err
}

// id names what is tracked, whether it has an object or not.
func (t *tracked) id() plan.ResourceID {
	gvk := t.GroupVersionKind()
	return plan.ResourceID{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Namespace: t.Namespace, Name: t.Name}
}

// contentOf is what JSON makes of metadata.
func contentOf(o *metav1.PartialObjectMetadata) (map[string]any, error) {
	o.ManagedFields = nil
	data, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	return readiness.Decode(data)
}
