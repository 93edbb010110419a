package plan

import (
	"bytes"

	"github.com/drover-io/drover/internal/fail"
)

// ReplaceAnnotation says with "true" that the object of a resource is deleted and made anew where its cluster refuses to change it.
const ReplaceAnnotation = "drover.io/replace"

// NotReplaced comes before why an object with ReplaceAnnotation is left as it is, after what its cluster refuses.
const NotReplaced = "it is not replaced"

// Irreplaceable says why an object of the kind is never deleted to be made anew, "" where it may be.
func (id ResourceID) Irreplaceable() string {
	switch {
	case mayHold(id):
		return "all that is in it would go with a " + id.Kind
	case id.Group == "" && (id.Kind == "PersistentVolumeClaim" || id.Kind == "PersistentVolume"):
		return "its data would go with a " + id.Kind
	default:
		return ""
	}
}

// CheckReplace is Invalid where a resource cannot be what ReplaceAnnotation says of it.
func (id ResourceID) CheckReplace(annotations map[string]string) error {
	value, is := annotations[ReplaceAnnotation]
	switch why := id.Irreplaceable(); {
	case !is || value == "false":
		return nil
	case value != "true":
		return fail.New(fail.Invalid, "annotation %s: %.64q is neither true nor false", ReplaceAnnotation, value)
	case why != "":
		return fail.New(fail.Invalid, "annotation %s: %s", ReplaceAnnotation, why)
	case IsKept(annotations):
		return fail.New(fail.Invalid, "annotation %s: %s: %s says that it is never deleted", ReplaceAnnotation, KeepAnnotation, KeepPolicy)
	default:
		return nil
	}
}

// MayReplace says whether what is applied is deleted and made anew should its cluster refuse the change. Which members a cluster takes no change of, it knows
// alone. What is never deleted may have the annotation all the same, by a generic k8s intent, of which nobody has asked CheckReplace.
func (c *ResourceChange) MayReplace() bool {
	if c.Action != ActionChange && c.Action != ActionAgain || !bytes.Contains(c.After, []byte(ReplaceAnnotation)) {
		return false
	}
	annotations := annotationsIn(c.After)
	return annotations[ReplaceAnnotation] == "true" && c.Irreplaceable() == "" && !IsKept(annotations)
}
