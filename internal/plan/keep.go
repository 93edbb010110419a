package plan

import (
	"encoding/json"
	"strings"
)

// The annotation of an object that stays in its cluster when nobody has it any more, and its value, as Helm has them.
const (
	KeepAnnotation = "helm.sh/resource-policy"
	KeepPolicy     = "keep"
)

// IsKept says whether an object with the annotations is to be kept.
func IsKept(annotations map[string]string) bool {
	return strings.EqualFold(strings.TrimSpace(annotations[KeepAnnotation]), KeepPolicy)
}

// KeepsIn says whether a manifest has the annotation by which its object is to be kept. Of one that is not there, and of what is none, it does not.
func KeepsIn(manifest json.RawMessage) bool { return IsKept(annotationsIn(manifest)) }

// annotationsIn are the annotations of a manifest, nil where it has none or is none.
func annotationsIn(manifest json.RawMessage) map[string]string {
	var o struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if json.Unmarshal(manifest, &o) != nil {
		return nil
	}
	return o.Metadata.Annotations
}
