package plan

import "encoding/json"

// podSpecs are where kinds whose Pods may become others have what those are to be.
var podSpecs = map[groupKind][]string{
	{"", "ReplicationController"}: {"spec", "template", "spec"},
	{"apps", "DaemonSet"}:         {"spec", "template", "spec"},
	{"apps", "Deployment"}:        {"spec", "template", "spec"},
	{"apps", "ReplicaSet"}:        {"spec", "template", "spec"},
	{"apps", "StatefulSet"}:       {"spec", "template", "spec"},
	{"batch", "CronJob"}:          {"spec", "jobTemplate", "spec", "template", "spec"},
}

// DropAccount returns the manifest of what makes Pods with the old name of serviceAccountName, serviceAccount, empty, where it names no account; any other as it
// is. A cluster has both with one value, and the old one is nobody's: it would bring back an account that the manifest has no more. An error is
// Invalid: the manifest is not an object.
func DropAccount(id ResourceID, manifest []byte) ([]byte, error) {
	path := podSpecs[groupKind{id.Group, id.Kind}]
	if path == nil {
		return manifest, nil
	}
	object, err := DecodeObject(manifest)
	if err != nil {
		return nil, err
	}
	spec := object
	for _, member := range path {
		spec, _ = spec[member].(map[string]any)
	}
	if spec == nil || !isEmpty(spec["serviceAccountName"]) || !isEmpty(spec["serviceAccount"]) {
		return manifest, nil
	}
	spec["serviceAccount"] = ""
	return json.Marshal(object)
}
