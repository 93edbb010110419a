package bundle

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/plan"
)

// SummarisedAnnotation marks an object of which only the most important members are left, because the whole
// bundle would not have fitted.
const SummarisedAnnotation = "k8splugin.io/summarised"

// Object is one object of a cluster as it stands in a status.
type Object struct {
	plan.ResourceID
	JSON       json.RawMessage // stripped; apiVersion, kind, metadata and what else it has
	Summarised bool
}

// LastApplied are annotations with a copy of the whole object.
var LastApplied = []string{"kubectl.kubernetes.io/last-applied-configuration", "objectset.rio.cattle.io/applied"}

// Observe makes an object of what a cluster says, which it changes: see Strip. content has to be what JSON
// decodes to; apiVersion and kind are set to those of id.
func Observe(id plan.ResourceID, content map[string]any) (*Object, error) {
	content["apiVersion"], content["kind"] = id.Version, id.Kind
	if id.Group != "" {
		content["apiVersion"] = id.Group + "/" + id.Version
	}
	Strip(id.Group, id.Kind, content)
	data, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	return &Object{ResourceID: id, JSON: data}, nil
}

// Strip takes out of an object what must not or need not leave the cluster: the data of Secrets and all their
// annotations, the data of ConfigMaps, managed fields, copies of the object in annotations, and
// resourceVersion, which changes when nothing else does. It stays where only metadata is reported (MetadataOnly): it is
// what tells that the rest was edited.
func Strip(group, kind string, content map[string]any) {
	secret := group == "" && kind == "Secret"
	if secret || group == "" && kind == "ConfigMap" {
		for _, member := range []string{"data", "stringData", "binaryData"} {
			delete(content, member)
		}
	}
	metadata, _ := content["metadata"].(map[string]any)
	for _, member := range []string{"managedFields", "selfLink"} {
		delete(metadata, member)
	}
	if !MetadataOnly(schema.GroupKind{Group: group, Kind: kind}) {
		delete(metadata, "resourceVersion")
	}
	annotations, _ := metadata["annotations"].(map[string]any)
	for _, a := range LastApplied {
		delete(annotations, a)
	}
	if secret || len(annotations) == 0 {
		delete(metadata, "annotations")
	}
}

// Bounds of a summary, in bytes of JSON.
const (
	maxSummary       = 16 << 10
	maxSpecMember    = 256
	maxStatusMember  = 1 << 10
	maxMetaMember    = 4 << 10
	maxConditionText = 256
)

// identity are the members of metadata that a summary keeps, if they are not too large.
var identity = []string{"name", "namespace", "uid", "labels", "ownerReferences", "creationTimestamp", "deletionTimestamp", "generation"}

// Summarise makes the object small, at most maxSummary bytes: what is left is who it is, the scalars and other
// small members of its spec, its conditions, or those at its parents, and the small members of its status: enough to tell whether it is
// ready. An object that is small already is only marked.
func Summarise(o *Object) (*Object, error) {
	decoder := json.NewDecoder(bytes.NewReader(o.JSON))
	decoder.UseNumber()
	var content map[string]any
	if err := decoder.Decode(&content); err != nil {
		return nil, err
	}
	whole, _ := content["metadata"].(map[string]any)
	metadata := map[string]any{"annotations": map[string]any{SummarisedAnnotation: "true"}}
	for _, member := range identity {
		if v, ok := whole[member]; ok && size(v) <= maxMetaMember {
			metadata[member] = v
		}
	}
	if labels, _ := whole["labels"].(map[string]any); metadata["labels"] == nil && labels[plan.DeploymentLabel] != nil {
		metadata["labels"] = map[string]any{plan.DeploymentLabel: labels[plan.DeploymentLabel]}
	}
	short := map[string]any{"apiVersion": content["apiVersion"], "kind": content["kind"], "metadata": metadata}
	if spec, ok := content["spec"].(map[string]any); ok {
		kept := small(spec, maxSpecMember)
		if refs, ok := spec["parentRefs"].([]any); ok { // of a route: each is judged
			kept["parentRefs"] = refs
		}
		short["spec"] = kept
	}
	if status, ok := content["status"].(map[string]any); ok {
		kept := small(status, maxStatusMember)
		if c, ok := status["conditions"].([]any); ok {
			kept["conditions"] = conditions(c)
		}
		if parents, ok := status["parents"].([]any); ok { // of a route, by which it is judged
			for _, p := range parents {
				if parent, ok := p.(map[string]any); ok {
					if c, ok := parent["conditions"].([]any); ok {
						parent["conditions"] = conditions(c)
					}
				}
			}
			kept["parents"] = parents
		}
		short["status"] = kept
	}
	// Something with thousands of small members is cut down to its conditions, and then to its name.
	for _, member := range []string{"spec", "status"} {
		if size(short) > maxSummary {
			delete(short, member)
		}
	}
	data, err := json.Marshal(short)
	if err != nil {
		return nil, err
	}
	return &Object{ResourceID: o.ResourceID, JSON: data, Summarised: true}, nil
}

// small are the members that are no longer than limit.
func small(members map[string]any, limit int) map[string]any {
	kept := map[string]any{}
	for k, v := range members {
		if size(v) <= limit {
			kept[k] = v
		}
	}
	return kept
}

// conditions are the same with shorter messages.
func conditions(list []any) []any {
	for _, c := range list {
		condition, _ := c.(map[string]any)
		if text, ok := condition["message"].(string); ok && len(text) > maxConditionText {
			condition["message"] = cut(text, maxConditionText)
		}
	}
	return list
}

// cut shortens text to at most limit bytes, between two characters.
func cut(text string, limit int) string {
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// size is that of the value as JSON. What was decoded from JSON can be encoded.
func size(v any) int {
	data, _ := json.Marshal(v)
	return len(data)
}
