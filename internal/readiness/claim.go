package readiness

import (
	"cmp"
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Annotations of a PersistentVolumeClaim: its class, as it was said before the claim had a field for it, and the node that the scheduler has found for the first
// Pod that uses it (kubernetes, component-helpers/storage/volume).
const (
	classAnnotation = "volume.beta.kubernetes.io/storage-class"
	nodeAnnotation  = "volume.kubernetes.io/selected-node"
)

// UnusedClaim says whether an object, in JSON, is a PersistentVolumeClaim that is bound to no volume and that no scheduled Pod uses, and returns the name of
// its storage class. That decides whether the claim is bound before there is such a Pod, see BindsLate.
func UnusedClaim(gvk schema.GroupVersionKind, data json.RawMessage) (class string, ok bool) {
	object, err := Decode(data)
	if gvk.GroupKind() != claimKind || err != nil {
		return "", false
	}
	claim := &unstructured.Unstructured{Object: object}
	annotations := claim.GetAnnotations()
	named, _, _ := unstructured.NestedString(object, "spec", "storageClassName")
	volume, _, _ := unstructured.NestedString(object, "spec", "volumeName")
	phase, _, _ := unstructured.NestedString(object, "status", "phase")
	class = cmp.Or(annotations[classAnnotation], named)
	ok = class != "" && phase == "Pending" && volume == "" && annotations[nodeAnnotation] == "" && claim.GetDeletionTimestamp() == nil
	return class, ok
}

// BindsLate says whether a StorageClass, in JSON, has its claims wait for the first Pod that uses them.
func BindsLate(data json.RawMessage) bool {
	class, err := Decode(data)
	mode, _, _ := unstructured.NestedString(class, "volumeBindingMode")
	return err == nil && mode == "WaitForFirstConsumer"
}

var claimKind = schema.GroupKind{Kind: "PersistentVolumeClaim"}
