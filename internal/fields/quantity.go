package fields

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/quantity"
)

// Unbounded finds a member of an object of a built-in kind that Kubernetes reads as a quantity, and that is out of bounds: who
// decodes it as what it is, here or in a cluster, is busy for minutes. path is "" when there is none. What is wrong in another
// way is for the cluster to say.
func Unbounded(gvk schema.GroupVersionKind, object map[string]any) (path string, err error) {
	is, known := scheme.Scheme.AllKnownTypes()[gvk]
	if !known || !quantified(is) {
		return "", nil
	}
	return unbounded("", object, is)
}

// UnboundedIn is Unbounded of a manifest.
func UnboundedIn(gvk schema.GroupVersionKind, manifest []byte) (path string, err error) {
	if is, known := scheme.Scheme.AllKnownTypes()[gvk]; !known || !quantified(is) {
		return "", nil
	}
	object, err := plan.DecodeObject(manifest)
	if err != nil {
		return "", nil //nolint:nilerr // that is for the cluster to say
	}
	return Unbounded(gvk, object)
}

var quantityType = reflect.TypeFor[resource.Quantity]()

// unbounded looks at what stands at a path and is decoded as a type.
func unbounded(at string, v any, as reflect.Type) (path string, err error) {
	for as.Kind() == reflect.Pointer {
		as = as.Elem()
	}
	if as == quantityType {
		return unboundedQuantity(at, v)
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			of := memberOf(as, name)
			if of == nil || !quantified(of) {
				continue
			}
			below := name
			if at != "" {
				below = at + "." + name
			}
			if path, err = unbounded(below, v[name], of); path != "" {
				return path, err
			}
		}
	case []any:
		if as.Kind() != reflect.Slice {
			return "", nil
		}
		for i := range v {
			if path, err = unbounded(at+"["+strconv.Itoa(i)+"]", v[i], as.Elem()); path != "" {
				return path, err
			}
		}
	default: // it has no members
	}
	return "", nil
}

func unboundedQuantity(at string, v any) (path string, err error) {
	var text string
	switch v := v.(type) {
	case string:
		text = strings.TrimSpace(v) // as they do
	case json.Number:
		text = v.String()
	default: // a number that was read already, or nothing of the kind
		return "", nil
	}
	if _, err := quantity.Parse(text); errors.Is(err, quantity.ErrBounds) {
		return at, fmt.Errorf("%.40q %w", text, err)
	}
	return "", nil
}

// memberOf is the type of a member by its name in JSON, nil for none.
func memberOf(as reflect.Type, name string) reflect.Type {
	switch as.Kind() {
	case reflect.Map:
		return as.Elem()
	case reflect.Struct:
		for i := range as.NumField() {
			f := as.Field(i)
			switch tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); {
			case tag == name:
				return f.Type
			case tag == "" && f.Anonymous:
				if found := memberOf(f.Type, name); found != nil {
					return found
				}
			}
		}
	default:
	}
	return nil
}

// quantities says of types whether there may be quantities in them.
var quantities sync.Map // bool by reflect.Type

func quantified(as reflect.Type) bool {
	if known, ok := quantities.Load(as); ok {
		return known.(bool)
	}
	found := reaches(as, map[reflect.Type]bool{})
	quantities.Store(as, found)
	return found
}

// reaches says whether a quantity can be reached from a type by types that have not been seen.
func reaches(as reflect.Type, seen map[reflect.Type]bool) bool {
	if as == quantityType {
		return true
	}
	if seen[as] {
		return false
	}
	seen[as] = true
	switch as.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return reaches(as.Elem(), seen)
	case reflect.Struct:
		for i := range as.NumField() {
			if reaches(as.Field(i).Type, seen) {
				return true
			}
		}
	default:
	}
	return false
}
