package kube

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// An update by PUT says all of an object. What its manifest does not say is others' to say: the cluster's, which fills in what
// is immutable afterwards (a Job's selector, a claim's storage class, a Service's address), a controller's or a person's. Who
// has said what, an object's managedFields tell, in the form of server-side apply:
//
//	{"f:spec": {"f:replicas": {}, "f:containers": {"k:{\"name\":\"main\"}": {".": {}, "f:image": {}}}}}
//
// What the cluster fills in is in nobody's; defaults of its schema are in those of who made the object, and are filled in
// anew.

// fieldSet is a part of that, nil for nothing.
type fieldSet map[string]any

// fieldsOf joins the sets of an object's managers that count.
func fieldsOf(live map[string]any, counts func(entry map[string]any) bool) (set fieldSet) {
	entries, _ := members(live, "metadata")["managedFields"].([]any)
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		if fields, ok := entry["fieldsV1"].(map[string]any); ok && counts(entry) {
			set = set.join(fields)
		}
	}
	return set
}

// ourFields are those that Drover has said.
func ourFields(entry map[string]any) bool {
	subresource, _ := entry["subresource"].(string)
	return entry["manager"] == FieldManager && subresource == ""
}

// knownFields are what was sent of the object with that UID, where its managedFields do not say it. A copy of it has another UID.
type knownFields struct {
	UID    types.UID `json:"uid"`
	Fields fieldSet  `json:"fields"`
}

// notedFields are those that an object with the UID carries; nil for none.
func notedFields(annotation string, uid types.UID) fieldSet {
	var known knownFields
	if uid == "" || json.Unmarshal([]byte(annotation), &known) != nil || known.UID != uid {
		return nil
	}
	return known.Fields
}

// ourFieldsOf are those that Drover has said of an object: by its managedFields, or where they do not have any by what it carries itself.
func ourFieldsOf(live map[string]any) fieldSet {
	if ours := fieldsOf(live, ourFields); ours != nil {
		return ours
	}
	annotations, _ := members(live, "metadata")["annotations"].(map[string]any)
	noted, _ := annotations[fieldsAnnotation].(string)
	return notedFields(noted, objectUID(live))
}

// saidBy is the set of what an object says. A list is said as a whole: its keys are not known here.
func saidBy(object map[string]any) fieldSet {
	set := fieldSet{}
	for name, value := range object {
		switch value := value.(type) {
		case nil:
		case map[string]any:
			below := saidBy(value)
			below["."] = map[string]any{}
			set["f:"+name] = map[string]any(below)
		default:
			set["f:"+name] = map[string]any{}
		}
	}
	return set
}

// notable is the set of what an object says, but for what no update drops, and for the number of Pods: nobody could tell from the note that an
// autoscaler or a person has changed it since.
func notable(object map[string]any) fieldSet {
	set := saidBy(object)
	for _, name := range []string{"f:apiVersion", "f:kind", "f:status"} {
		delete(set, name)
	}
	delete(set.of("f:metadata"), "f:name")
	delete(set.of("f:metadata"), "f:namespace")
	delete(set.of("f:spec"), "f:replicas")
	return set
}

// tools are what the managers of fields begin with by whose names people apply what a chart then has, too: Helm, Flux' helm-controller, kubectl with each of its
// commands, Flux, Argo CD, Terraform.
var tools = []string{"helm", "kubectl", "kustomize-controller", "argocd-controller", "Terraform"}

// tool is the manager of fields where it is one of tools; "" for any other.
func tool(entry map[string]any) string {
	name, _ := entry["manager"].(string)
	subresource, _ := entry["subresource"].(string)
	if subresource != "" || !slices.ContainsFunc(tools, func(begin string) bool { return strings.HasPrefix(name, begin) }) {
		return ""
	}
	return name
}

// sharers are the tools that have fields of an object which Drover has as well, sorted.
func sharers(live map[string]any) (names []string) {
	ours := fieldsOf(live, ourFields)
	entries, _ := members(live, "metadata")["managedFields"].([]any)
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		theirs, _ := entry["fieldsV1"].(map[string]any)
		if name := tool(entry); name != "" && !slices.Contains(names, name) && ours.shares(theirs) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func anyFields(map[string]any) bool { return true }

// join is a set with all that both have.
func (s fieldSet) join(other fieldSet) fieldSet {
	all := maps.Clone(s)
	if all == nil {
		all = fieldSet{}
	}
	for name, x := range other {
		below, _ := x.(map[string]any)
		all[name] = map[string]any(all.of(name).join(below))
	}
	return all
}

// of is the set below a member, nil when that is not in it.
func (s fieldSet) of(name string) fieldSet {
	below, _ := s[name].(map[string]any)
	return below
}

// shares says whether both sets have a value. That somebody has made an object or a list says nothing of what is in it.
func (s fieldSet) shares(other fieldSet) bool {
	for name := range s {
		if _, both := other[name]; !both || name == "." {
			continue
		}
		mine, theirs := s.of(name), other.of(name)
		if len(mine)+len(theirs) == 0 || mine.shares(theirs) {
			return true
		}
	}
	return false
}

// whole says, of the set of all, that a value is said as a whole, with all that is in it. Who has made an object or a list, and
// none of its members, has that in the same form, so that a single manager's set does not tell.
func (s fieldSet) whole() bool { return s != nil && len(s) == 0 }

// keys are the members by which the items of a list are known, as the set has it; none when it is known as a whole.
func (s fieldSet) keys() []string {
	for name := range s {
		if values, ok := keyOf(name); ok {
			return slices.Collect(maps.Keys(values))
		}
	}
	return nil
}

// item is the set of an item of such a list.
func (s fieldSet) item(item map[string]any) fieldSet {
	for name := range s {
		values, ok := keyOf(name)
		for key, value := range values {
			ok = ok && reflect.DeepEqual(item[key], value)
		}
		if ok {
			return s.of(name)
		}
	}
	return nil
}

func keyOf(name string) (values map[string]any, ok bool) {
	text, ok := strings.CutPrefix(name, "k:")
	if !ok {
		return nil, false
	}
	values, err := decodeObject([]byte(text))
	return values, err == nil
}

// keeper completes an object by what others have said in the one that is there.
type keeper struct {
	ours, all fieldSet
}

func (k keeper) of(name string) keeper { return keeper{k.ours.of(name), k.all.of(name)} }

// members completes those of an object.
func (k keeper) members(object, live map[string]any) {
	for name, is := range live {
		of := k.of("f:" + name)
		says, said := object[name]
		if !said {
			if rest, ok := of.others(is); ok {
				object[name] = rest
			}
			continue
		}
		if of.all.whole() {
			continue
		}
		switch is := is.(type) {
		case map[string]any:
			if says, ok := says.(map[string]any); ok {
				of.members(says, is)
			}
		case []any:
			if says, ok := says.([]any); ok {
				object[name] = of.items(says, is)
			}
		}
	}
}

// others is what others have said of a value of which the manifest does not say anything; ok is false when that is nothing.
func (k keeper) others(is any) (rest any, ok bool) {
	if k.ours == nil {
		return is, true
	}
	if k.all.whole() {
		return nil, false
	}
	switch is := is.(type) {
	case map[string]any:
		object := map[string]any{}
		k.members(object, is)
		return object, len(object) > 0
	case []any:
		list := k.items(nil, is)
		return list, len(list) > 0
	default:
		return nil, false
	}
}

// items completes a list by the items that others have put into it. A list whose items have no keys is said as a whole, but
// for sets of words.
func (k keeper) items(says, live []any) []any {
	keys := k.all.keys()
	for _, is := range live {
		item, ok := is.(map[string]any)
		if !ok {
			if text, err := json.Marshal(is); err == nil && k.all.of("v:"+string(text)) != nil && k.ours.of("v:"+string(text)) == nil && !slices.Contains(says, is) {
				says = append(says, is)
			}
			continue
		}
		if len(keys) == 0 {
			continue
		}
		of := keeper{k.ours.item(item), k.all.item(item)}
		switch own := same(says, item, keys); {
		case own != nil:
			of.members(own, item)
		case of.ours == nil:
			says = append(says, item)
		}
	}
	return says
}

// same is the item of a manifest's list that is the one that is there; what it does not say of its key is the default.
func same(says []any, item map[string]any, keys []string) (found map[string]any) {
	for _, x := range says {
		own, _ := x.(map[string]any)
		exact, fits := true, own != nil
		for _, key := range keys {
			value, said := own[key]
			exact = exact && said
			fits = fits && (!said || reflect.DeepEqual(value, item[key]))
		}
		if fits && (exact || found == nil) {
			found = own
		}
	}
	return found
}
