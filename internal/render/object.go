package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strings"

	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/fields"
	"github.com/drover-io/drover/internal/plan"
)

// object is one Kubernetes object of a rendered file.
type object struct {
	plan.ResourceID
	file        string
	annotations map[string]string
	manifest    json.RawMessage
	fault       error // for which it could not be applied, of a hook that is never run
}

// String names the object in messages.
func (o *object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// objects splits a rendered file into its objects: documents without content are skipped, lists are replaced
// by their items. Every object has an apiVersion, a kind and a name, unless it is a hook that is never run. Errors begin with the
// file's name.
func objects(file, text string) ([]object, error) {
	documents := releaseutil.SplitManifests(text)
	keys := make([]string, 0, len(documents))
	for key := range documents {
		keys = append(keys, key)
	}
	sort.Sort(releaseutil.BySplitManifestsOrder(keys))
	var all []object
	for _, key := range keys {
		// A line end is a part of a text that ends the document, also where the template did not write it.
		data, err := yaml.YAMLToJSON([]byte(strings.TrimSuffix(documents[key], "\n") + "\n"))
		if err != nil {
			return nil, fmt.Errorf("%s: %s", file, yamlText(err))
		}
		found, err := flatten(data, schema.GroupVersionKind{})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, found...)
	}
	for i := range all {
		all[i].file = file
	}
	return all, nil
}

// flatten reads one object, or the items of a list. Items of a typed list ("ConfigMapList") need not repeat
// what they are; of says it then.
func flatten(data json.RawMessage, of schema.GroupVersionKind) ([]object, error) {
	if string(data) == "null" {
		return nil, nil
	}
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, errors.New("a document is not a Kubernetes object but plain text or a sequence")
	}
	gvk, err := typeOf(members)
	if err != nil {
		return nil, err
	}
	if gvk.Empty() && !of.Empty() {
		gvk = of
		if data, err = withType(members, gvk); err != nil {
			return nil, err
		}
	}
	if items, ok := itemsOf(gvk, members); ok {
		item := gvk
		if item.Kind = strings.TrimSuffix(gvk.Kind, "List"); item.Kind == "" {
			item = schema.GroupVersionKind{}
		}
		var all []object
		for _, i := range items {
			found, err := flatten(i, item)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
		return all, nil
	}
	o, err := single(gvk, members)
	if err == nil {
		if path, wrong := fields.UnboundedIn(gvk, data); path != "" {
			err = fmt.Errorf("%s: %s: %w", &o, path, wrong)
		}
	}
	if o.manifest = data; err != nil && neverRuns(o.annotations) {
		o.fault, err = err, nil
	}
	if err != nil {
		return nil, err
	}
	return []object{o}, nil
}

// itemsOf gives the items of a list. A custom resource whose kind happens to end in List has none.
func itemsOf(gvk schema.GroupVersionKind, members map[string]json.RawMessage) ([]json.RawMessage, bool) {
	if !strings.HasSuffix(gvk.Kind, "List") {
		return nil, false
	}
	var items []json.RawMessage
	if err := json.Unmarshal(members["items"], &items); err != nil {
		return nil, false
	}
	return items, true
}

// typeOf reads apiVersion and kind, of which one alone is an error.
func typeOf(members map[string]json.RawMessage) (schema.GroupVersionKind, error) {
	var none schema.GroupVersionKind
	apiVersion, err := stringOf(members, "apiVersion")
	if err != nil {
		return none, err
	}
	kind, err := stringOf(members, "kind")
	if err != nil {
		return none, err
	}
	if apiVersion == "" && kind == "" {
		return none, nil
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	switch {
	case kind == "":
		return none, errors.New("an object has no kind")
	case apiVersion == "":
		return none, fmt.Errorf("%s: apiVersion is missing", kind)
	case err != nil:
		return none, fmt.Errorf("%s: apiVersion %q is not <group>/<version>", kind, apiVersion)
	}
	return gv.WithKind(kind), nil
}

// single reads what must be right in an object's metadata for it to be applied.
func single(gvk schema.GroupVersionKind, members map[string]json.RawMessage) (object, error) {
	if gvk.Empty() {
		return object{}, errors.New("an object has no apiVersion and no kind")
	}
	o := object{ResourceID: plan.ResourceID{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind}}
	metadata := map[string]json.RawMessage{}
	if raw, ok := members["metadata"]; ok {
		if err := json.Unmarshal(raw, &metadata); err != nil {
			return o, fmt.Errorf("%s: metadata is not an object", o.Kind)
		}
	}
	var err, unread error
	o.annotations, unread = stringsOf(metadata, "annotations") // first: they say whether the rest matters
	if o.Name, err = stringOf(metadata, "name"); err != nil {
		return o, fmt.Errorf("%s: metadata.%w", o.Kind, err)
	}
	switch generated, _ := stringOf(metadata, "generateName"); {
	case o.Name != "":
	case generated != "":
		return o, fmt.Errorf("%s: metadata.generateName is not possible: give it a name", o.Kind)
	default:
		return o, fmt.Errorf("%s: metadata.name is missing", o.Kind)
	}
	if o.Namespace, err = stringOf(metadata, "namespace"); err != nil {
		return o, fmt.Errorf("%s: metadata.%w", &o, err)
	}
	if unread != nil {
		return o, fmt.Errorf("%s: metadata.%w", &o, unread)
	}
	if _, err = stringsOf(metadata, "labels"); err != nil {
		return o, fmt.Errorf("%s: metadata.%w", &o, err)
	}
	return o, nil
}

// stringOf reads a string; "" when it is missing or null. Members are looked up exactly: Kubernetes minds
// the case that encoding/json does not.
func stringOf(members map[string]json.RawMessage, key string) (string, error) {
	raw, ok := members[key]
	if !ok {
		return "", nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", fmt.Errorf("%s is not a string: %s", key, raw)
	}
	return s, nil
}

// stringsOf reads a map of strings.
func stringsOf(members map[string]json.RawMessage, key string) (map[string]string, error) {
	raw, ok := members[key]
	if !ok {
		return nil, nil
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(raw, &values); err != nil {
		return nil, fmt.Errorf("%s is not an object", key)
	}
	m := make(map[string]string, len(values))
	for name := range values {
		s, err := stringOf(values, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w (quote it)", key, err)
		}
		m[name] = s
	}
	return m, nil
}

// withType writes an object down that left out what it is.
func withType(members map[string]json.RawMessage, gvk schema.GroupVersionKind) (json.RawMessage, error) {
	var err error
	if members["apiVersion"], err = json.Marshal(gvk.GroupVersion().String()); err != nil {
		return nil, err
	}
	if members["kind"], err = json.Marshal(gvk.Kind); err != nil {
		return nil, err
	}
	return json.Marshal(members)
}

// yamlText is what a YAML library says, without the names of its own steps.
func yamlText(err error) string {
	text := err.Error()
	for _, noise := range []string{
		"cannot unmarshal yaml document: ", "error converting YAML to JSON: ", "error unmarshaling JSON: ", "while decoding JSON: ",
	} {
		text = strings.ReplaceAll(text, noise, "")
	}
	return text
}
