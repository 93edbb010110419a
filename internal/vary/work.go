package vary

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
)

// Work is an app on its way to the clusters of a sort. What is changed is all that it has of its own.
//
// A resource has an index: those that were rendered their place in App.Resources, those that an intent has added one behind
// them, which is the same for all sorts of clusters.
type Work struct {
	App      string
	Cluster  *Cluster // the first one of them
	clusters []*Cluster
	union    *union
	edits    map[int]json.RawMessage // manifests by index: of what is changed, and of what is added
	effects  []plan.Effect
	warnings []string
	// addresses are the virtual addresses that hosts have, see address.
	addresses map[netip.Addr]string
}

// Resources are the app's, with the manifests that they have by now.
func (w *Work) Resources(yield func(int, *plan.Resource) bool) {
	for i := range w.union.len() {
		if !w.Has(i) {
			continue
		}
		r := *w.union.resource(i)
		r.Manifest = w.manifest(i)
		if !yield(i, &r) {
			return
		}
	}
}

// Has says whether the clusters get the resource with an index.
func (w *Work) Has(index int) bool {
	_, added := w.edits[index]
	return added || index < len(w.union.app.Resources)
}

// Find are the indices of resources of a kind with a name. Hooks are among them.
func (w *Work) Find(kind, name string) (indices []int) {
	for i := range w.union.len() {
		if r := w.union.resource(i); r.Kind == kind && r.Name == name && w.Has(i) {
			indices = append(indices, i)
		}
	}
	return indices
}

func (w *Work) manifest(index int) json.RawMessage {
	if edited, ok := w.edits[index]; ok {
		return edited
	}
	return w.union.resource(index).Manifest
}

// object is a resource as JSON decodes it. Numbers are kept to the digit.
func (w *Work) object(index int) (map[string]any, error) {
	object, err := decode(w.manifest(index))
	if err != nil {
		r := w.union.resource(index)
		return nil, fail.Wrap(err, fail.Malformed, "the manifest of %s %q is not an object", r.Kind, r.Name)
	}
	return object, nil
}

func decode(manifest json.RawMessage) (object map[string]any, err error) {
	d := json.NewDecoder(bytes.NewReader(manifest))
	d.UseNumber()
	if err = d.Decode(&object); err == nil && object == nil {
		err = fail.New(fail.Malformed, "null is no object")
	}
	return object, err
}

// Edit changes the object of a resource, which stays the one that it is: an error is Malformed when the change gives it another
// kind, name or namespace.
func (w *Work) Edit(index int, change func(object map[string]any) error) error {
	object, err := w.object(index)
	if err != nil {
		return err
	}
	if err := change(object); err != nil {
		return err
	}
	if err := w.same(index, object); err != nil {
		return err
	}
	manifest, err := encode(object)
	if err == nil {
		w.edits[index] = manifest
	}
	return err
}

// same refuses an object that is not the resource with the index any more.
func (w *Work) same(index int, object map[string]any) error {
	was := w.union.resource(index)
	id, err := identify(object)
	if err != nil {
		return fail.Wrap(err, fail.Malformed, "%s %q would be no resource any more: %s", was.Kind, was.Name, fail.TextOf(err))
	}
	return w.remains(index, id)
}

// remains is same for an object of which it is known which one it is.
func (w *Work) remains(index int, id plan.ResourceID) error {
	if was := w.union.resource(index); !w.isOne(id, was.ResourceID) {
		return fail.New(fail.Malformed, "%s %q would become another resource (%s): its apiVersion, kind, name and namespace cannot be changed", was.Kind, was.Name, name(id))
	}
	return nil
}

// isOne says whether two names are of one object, in the same version: a namespace may be named, or be that of the app.
func (w *Work) isOne(a, b plan.ResourceID) bool {
	in := w.union.app.Namespace
	return a.Version == b.Version && plan.Place(a, in) == plan.Place(b, in)
}

// Set is Edit with a manifest that is made already, of the same resource.
func (w *Work) Set(index int, manifest json.RawMessage) { w.edits[index] = manifest }

// Manifest is that of a resource by now. It is not to be changed.
func (w *Work) Manifest(index int) json.RawMessage { return w.manifest(index) }

// Add puts an object beside the app's resources, in place of the one that is there already with its kind, name and namespace. It
// comes to the end of its stage: a ConfigMap before what makes pods. An error is Malformed: it is no Kubernetes object.
func (w *Work) Add(object map[string]any) (index int, err error) {
	id, err := identify(object)
	if err != nil {
		return 0, err
	}
	manifest, err := encode(object)
	if err != nil {
		return 0, err
	}
	return w.AddManifest(id, manifest)
}

// AddManifest is Add with a manifest that is made already.
func (w *Work) AddManifest(id plan.ResourceID, manifest json.RawMessage) (index int, err error) {
	index = w.union.index(id)
	if is := w.union.resource(index); is.Version != id.Version {
		return 0, fail.New(fail.Malformed, "%s is there already as %s: give it the same apiVersion", name(id), name(is.ResourceID))
	}
	w.edits[index] = manifest
	return index, nil
}

// What effects say of an object that an intent adds, as a whole.
const (
	objectEffect = "object"
	madeEffect   = "made"
)

// replaced says whose object an intent is about to put another one in the place of; "" for none, or an equal one.
func (w *Work) replaced(id plan.ResourceID, manifest json.RawMessage, by string) (whose string) {
	index := w.union.index(id)
	if !w.Has(index) || bytes.Equal(w.manifest(index), manifest) {
		return ""
	}
	whose = "that the app renders"
	for _, e := range w.effects {
		if e.Resource != index || e.What != objectEffect && e.What != madeEffect {
			continue
		}
		if whose = "of " + e.By; e.By == by {
			whose = ""
		}
	}
	return whose
}

// Effect notes what was made of a resource, and by which intent.
func (w *Work) Effect(index int, what, by string) {
	e := plan.Effect{Resource: index, What: what, By: by}
	if !slices.Contains(w.effects, e) {
		w.effects = append(w.effects, e)
	}
}

// Lacks says that what an intent works on is not there on these clusters. That is an error if no sort of clusters has it (Met):
// the first one that was said of it, with all the clusters. The id is the intent's.
func (w *Work) Lacks(id string, err error) {
	at := slices.IndexFunc(w.union.lacking, func(l lacked) bool { return l.id == id })
	if at < 0 {
		w.union.lacking = append(w.union.lacking, lacked{id: id, err: err})
		at = len(w.union.lacking) - 1
	}
	lacking := &w.union.lacking[at]
	if n := len(lacking.clusters); n == 0 || lacking.clusters[n-1] != w.clusters[len(w.clusters)-1] { // said of them before
		lacking.clusters = append(lacking.clusters, w.clusters...)
	}
}

// Met says that what an intent works on is there.
func (w *Work) Met(id string) { w.union.met[id] = true }

// Warn tells the user of something odd. What is said of several sorts of clusters in the same words is said once.
func (w *Work) Warn(format string, args ...any) {
	w.warnings = append(w.warnings, fmt.Sprintf(format, args...))
}

// identify says which resource an object is. An error is Malformed: it is none, or one to which nobody can give labels.
func identify(object map[string]any) (id plan.ResourceID, err error) {
	metadata, _ := object["metadata"].(map[string]any)
	version, _ := object["apiVersion"].(string)
	group, v, found := strings.Cut(version, "/")
	if !found {
		group, v = "", version
	}
	id.Group, id.Version = group, v
	id.Kind, _ = object["kind"].(string)
	id.Name, _ = metadata["name"].(string)
	id.Namespace, _ = metadata["namespace"].(string)
	for _, m := range []struct{ value, name string }{{version, "apiVersion"}, {id.Kind, "kind"}, {id.Name, "metadata.name"}} {
		if m.value == "" {
			return id, fail.New(fail.Malformed, "the object has no %s", m.name)
		}
	}
	if _, list := object["items"].([]any); list && strings.HasSuffix(id.Kind, "List") {
		return id, fail.New(fail.Malformed, "%s %q is a list of objects: each of them is a resource of its own", id.Kind, id.Name)
	}
	if err := plan.Stampable(object); err != nil {
		return id, fail.Wrap(err, fail.Malformed, "%s", fail.TextOf(err))
	}
	return id, nil
}

// names are those of the app's resources that are asked for, as many as can be read; nothing says that there is none.
func (w *Work) names(nothing string, is func(i int) bool) string {
	var names []string
	more := 0
	for i, r := range w.Resources {
		switch {
		case !is(i):
		case len(names) == maxNamed:
			more++
		default:
			names = append(names, r.Kind+" "+r.Name)
		}
	}
	if len(names) == 0 {
		return nothing
	}
	if more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// version is the apiVersion.
func version(id plan.ResourceID) string {
	if id.Group == "" {
		return id.Version
	}
	return id.Group + "/" + id.Version
}

// name is a resource as users read it.
func name(id plan.ResourceID) string {
	if id.Namespace != "" {
		return fmt.Sprintf("%s %s %q in namespace %s", version(id), id.Kind, id.Name, id.Namespace)
	}
	return fmt.Sprintf("%s %s %q", version(id), id.Kind, id.Name)
}

// encode is JSON as people write it: nothing is escaped that need not be.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
