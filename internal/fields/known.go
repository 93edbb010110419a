package fields

import (
	"encoding/json"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/drover-io/drover/internal/plan"
)

// Known are the kinds whose schemas are at hand without a cluster: those that Kubernetes has built in, in the release
// that this program is built with, and those that a bundle itself defines. A cluster of another release may know more,
// or less.
type Known struct {
	custom map[schema.GroupVersionKind]map[string]any // openAPIV3Schema
}

// KnownTo are the kinds known to those who have the resources.
func KnownTo(resources []plan.Resource) *Known {
	k := &Known{}
	for i := range resources {
		if resources[i].IsDefinition() {
			k.define(resources[i].Manifest)
		}
	}
	return k
}

// define takes the schemas of a definition; what it cannot read it leaves out.
func (k *Known) define(manifest []byte) {
	var crd struct {
		Spec struct {
			Group    string
			Names    struct{ Kind string }
			Versions []struct {
				Name   string
				Schema struct{ OpenAPIV3Schema map[string]any }
			}
		}
	}
	if json.Unmarshal(manifest, &crd) != nil {
		return
	}
	for _, v := range crd.Spec.Versions {
		if len(v.Schema.OpenAPIV3Schema) == 0 {
			continue
		}
		if k.custom == nil {
			k.custom = map[schema.GroupVersionKind]map[string]any{}
		}
		k.custom[schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind}] = v.Schema.OpenAPIV3Schema
	}
}

// strict decodes built-in kinds as API servers do with fieldValidation=Strict.
var strict = serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, serializer.SerializerOptions{Strict: true})

// Unknown are the paths of the members of a resource that its kind does not have, sorted; none of a kind that is not
// known, and of a manifest that is wrong in another way: that is for the cluster to say.
func (k *Known) Unknown(r *plan.Resource) (paths []string) {
	gvk := schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
	if s := k.custom[gvk]; s != nil {
		object, err := plan.DecodeObject(r.Manifest)
		if err != nil {
			return nil
		}
		paths = prune("", object, s, true, nil)
	} else if scheme.Scheme.Recognizes(gvk) {
		if path, _ := UnboundedIn(gvk, r.Manifest); path != "" {
			return nil
		}
		_, _, err := strict.Decode(r.Manifest, nil, nil)
		if found, ok := runtime.AsStrictDecodingError(err); ok {
			paths = Named(found.Error())
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// identity are the members that every object has.
var identity = []string{"apiVersion", "kind", "metadata"}

// prune adds the paths of what a structural schema does not know in v, which stands at path. Of what the schema says of
// values it looks at nothing (apiextensions, apiserver/schema/pruning).
func prune(path string, v any, s map[string]any, isObject bool, paths []string) []string {
	switch v := v.(type) {
	case map[string]any:
		properties, _ := s["properties"].(map[string]any)
		additional, _ := s["additionalProperties"].(map[string]any)
		free := s["x-kubernetes-preserve-unknown-fields"] == true || s["additionalProperties"] == true
		isObject = isObject || s["x-kubernetes-embedded-resource"] == true
		for name, member := range v {
			at := name
			if path != "" {
				at = path + "." + name
			}
			known, ok := properties[name].(map[string]any)
			switch {
			case isObject && slices.Contains(identity, name):
			case ok:
				paths = prune(at, member, known, false, paths)
			case additional != nil:
				paths = prune(at, member, additional, false, paths)
			case !free:
				paths = append(paths, at)
			}
		}
	case []any:
		items, ok := s["items"].(map[string]any)
		if !ok {
			return paths
		}
		for i := range v {
			paths = prune(path+"["+strconv.Itoa(i)+"]", v[i], items, false, paths)
		}
	default: // a scalar has no members
	}
	return paths
}
