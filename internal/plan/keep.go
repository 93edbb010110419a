package plan

import "strings"

// The annotation of an object that stays in its cluster when nobody has it any more, and its value, as Helm has them.
const (
	KeepAnnotation = "helm.sh/resource-policy"
	KeepPolicy     = "keep"
)

// IsKept says whether an object with the annotations is to be kept.
func IsKept(annotations map[string]string) bool {
	return strings.EqualFold(strings.TrimSpace(annotations[KeepAnnotation]), KeepPolicy)
}
