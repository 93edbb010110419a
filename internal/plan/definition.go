package plan

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Definitions are what the CRDs among an app's resources say, as far as Collide goes by it.
type Definitions struct {
	deleted map[int]bool       // by index: a terminate deletes the CRD, and with it all objects of its kind
	kinds   map[groupKind]bool // that have no namespace, by the CRDs
}

// IsDefinition says whether it is a CRD.
func (id ResourceID) IsDefinition() bool {
	return id.Kind == "CustomResourceDefinition" && id.Group == "apiextensions.k8s.io"
}

// IsNamespace says whether it is a namespace.
func (id ResourceID) IsNamespace() bool { return id.Kind == "Namespace" && id.Group == "" }

// Definition is the kind that a CRD defines, with its versions that are served.
type Definition struct {
	Group, Kind string
	Served      []string
	Retired     []string                   // versions that it names and that are not served
	schemas     map[string]json.RawMessage // of the versions that are served
}

// DefinitionIn reads it off the manifest of a CRD, as it is sent or as a cluster has it; an empty one when it cannot be read, and the cluster says
// what is wrong.
func DefinitionIn(manifest []byte) (d Definition) {
	var crd struct {
		Spec struct {
			Group    string
			Names    struct{ Kind string }
			Versions []struct {
				Name   string
				Served bool
				Schema struct{ OpenAPIV3Schema json.RawMessage }
			}
		}
	}
	if json.Unmarshal(manifest, &crd) != nil {
		return Definition{}
	}
	d.Group, d.Kind = crd.Spec.Group, crd.Spec.Names.Kind
	for _, v := range crd.Spec.Versions {
		if v.Served {
			d.Served = append(d.Served, v.Name)
			if d.schemas == nil {
				d.schemas = map[string]json.RawMessage{}
			}
			d.schemas[v.Name] = v.Schema.OpenAPIV3Schema
		} else {
			d.Retired = append(d.Retired, v.Name)
		}
	}
	return d
}

// Beyond are the fields that the definition has beyond another one, sorted, in the versions that both serve: "v1 spec.size". Of a field that the
// other one lacks, those below are not named.
func (d Definition) Beyond(other Definition) (fields []string) {
	for _, version := range d.Served {
		var has, lacks structure
		if data, both := other.schemas[version]; both && json.Unmarshal(d.schemas[version], &has) == nil && json.Unmarshal(data, &lacks) == nil {
			fields = has.beyond(&lacks, version+" ", fields)
		}
	}
	slices.Sort(fields)
	return fields
}

// SaysAll says whether a CRD, as a cluster has it, has all that a manifest of it says: to apply that would change nothing but whose it is.
func SaysAll(live, manifest []byte) bool {
	type definition struct {
		Metadata struct{ Labels, Annotations map[string]string }
		Spec     any
	}
	var has, says definition
	if !decode(live, &has) || !decode(manifest, &says) {
		return false
	}
	delete(says.Metadata.Annotations, InstallationAnnotation)
	return holds(has.Metadata.Labels, says.Metadata.Labels) && holds(has.Metadata.Annotations, says.Metadata.Annotations) && saysAll(has.Spec, says.Spec)
}

// saysAll: what is null says nothing, and what the cluster has besides it may have put there itself.
func saysAll(has, says any) bool {
	switch says := says.(type) {
	case nil:
		return true
	case map[string]any:
		has, ok := has.(map[string]any)
		for name, value := range says {
			if !ok || !saysAll(has[name], value) {
				return false
			}
		}
		return ok
	case []any:
		has, ok := has.([]any)
		return ok && slices.EqualFunc(has, says, saysAll)
	default:
		return has == says
	}
}

func holds(has, says map[string]string) bool {
	for name, value := range says {
		if is, there := has[name]; !there || is != value {
			return false
		}
	}
	return true
}

// structure is what a schema says of fields.
type structure struct {
	Properties           map[string]*structure
	AdditionalProperties freely
	Items                *structure
	PreservesUnknown     bool `json:"x-kubernetes-preserve-unknown-fields"`
}

// freely is the schema of members of any name. It may be a mere true or false, which says nothing of fields.
type freely struct{ *structure }

// UnmarshalJSON is that of the schema, if it is one.
func (f *freely) UnmarshalJSON(data []byte) error {
	if !bytes.HasPrefix(data, []byte("{")) {
		return nil
	}
	f.structure = &structure{}
	return json.Unmarshal(data, f.structure)
}

// beyond adds what the structure has beyond another one, which may take any field.
func (s *structure) beyond(other *structure, at string, fields []string) []string {
	switch {
	case s == nil || other == nil || other.PreservesUnknown:
		return fields
	case s.PreservesUnknown:
		fields = append(fields, at+"*")
	}
	for name, below := range s.Properties {
		if has, both := other.Properties[name]; both {
			fields = below.beyond(has, at+name+".", fields)
		} else {
			fields = append(fields, at+name)
		}
	}
	fields = s.Items.beyond(other.Items, strings.TrimSuffix(at, ".")+"[].", fields)
	return s.AdditionalProperties.beyond(other.AdditionalProperties.structure, at+"*.", fields)
}

// DefinitionsOf reads them off the resources of a bundle.
func DefinitionsOf(resources []Resource) *Definitions {
	d := &Definitions{}
	for i := range resources {
		r := &resources[i]
		if !r.IsDefinition() {
			continue
		}
		if !r.Keep {
			if d.deleted == nil {
				d.deleted = map[int]bool{}
			}
			d.deleted[i] = true
		}
		var crd struct {
			Spec struct {
				Group, Scope string
				Names        struct{ Kind string }
			}
		}
		if json.Unmarshal(r.Manifest, &crd) == nil && crd.Spec.Scope == "Cluster" { // what is none the cluster refuses
			if d.kinds == nil {
				d.kinds = map[groupKind]bool{}
			}
			d.kinds[groupKind{crd.Spec.Group, crd.Spec.Names.Kind}] = true
		}
	}
	return d
}

// keeps says whether the app's CRD with an index outlives it. Of an app whose definitions nobody has read it is said of all of them.
func (a *App) keeps(i int) bool { return a.Definitions == nil || !a.Definitions.deleted[i] }

// Undefined are the apps of b whose definitions Collide has to know: those that have a CRD which a has as well, on a cluster that both go
// to.
func Undefined(a, b *Plan) (apps []*App) {
	on := map[ResourceID][]*App{} // a's, by the places of their CRDs
	for i := range a.Apps {
		for _, r := range a.Apps[i].Resources {
			if r.IsDefinition() {
				at := Place(r, "")
				on[at] = append(on[at], &a.Apps[i])
			}
		}
	}
	if len(on) == 0 {
		return nil
	}
	for i := range b.Apps {
		app := &b.Apps[i]
		meets := func(other *App) bool { return len(shared(other.Targets, app.Targets)) > 0 }
		if app.Definitions == nil && slices.ContainsFunc(app.Resources, func(r ResourceID) bool {
			return r.IsDefinition() && slices.ContainsFunc(on[Place(r, "")], meets)
		}) {
			apps = append(apps, app)
		}
	}
	return apps
}

// scopes are the kinds without a namespace, by the CRDs of plans.
type scopes map[groupKind]bool

func scopesOf(plans ...*Plan) scopes {
	s := scopes{}
	for _, p := range plans {
		for i := range p.Apps {
			if d := p.Apps[i].Definitions; d != nil {
				for k := range d.kinds {
					s[k] = true
				}
			}
		}
	}
	return s
}

// has says whether the objects of a resource's kind have no namespace.
func (s scopes) has(r ResourceID) bool { return len(s) > 0 && s[groupKind{r.Group, r.Kind}] }

// place is Place by what CRDs say of scopes.
func (s scopes) place(r ResourceID, namespace string) ResourceID {
	r = Place(r, namespace)
	if s.has(r) {
		r.Namespace = ""
	}
	return r
}
