package plan

import (
	"cmp"
	"strings"
)

// scalers are the kinds that say how many Pods another object is to have.
var scalers = map[groupKind]bool{{"autoscaling", "HorizontalPodAutoscaler"}: true, {"keda.sh", "ScaledObject"}: true}

// IsAutoscaler says whether resources of the kind may say how many Pods another object is to have.
func (id ResourceID) IsAutoscaler() bool { return scalers[groupKind{id.Group, id.Kind}] }

// Scales says whether the resource, a HorizontalPodAutoscaler or KEDA's ScaledObject, says how many Pods an object of its own namespace is to have, whichever
// version that is applied in.
func (r *Resource) Scales(id ResourceID) bool {
	if !r.IsAutoscaler() {
		return false
	}
	var scaler struct {
		Spec struct {
			ScaleTargetRef struct {
				APIVersion string `json:"apiVersion"`
				Kind       string `json:"kind"`
				Name       string `json:"name"`
			} `json:"scaleTargetRef"`
		} `json:"spec"`
	}
	if !decodes(r.Manifest, &scaler) {
		return false
	}
	target := scaler.Spec.ScaleTargetRef
	if r.Group == "keda.sh" { // its defaults
		target.Kind, target.APIVersion = cmp.Or(target.Kind, "Deployment"), cmp.Or(target.APIVersion, "apps/v1")
	}
	group, _, grouped := strings.Cut(target.APIVersion, "/")
	if !grouped {
		group = ""
	}
	return target.Name == id.Name && target.Kind == id.Kind && (group == id.Group || target.APIVersion == "")
}

// SaysReplicas says whether a manifest has a number of Pods.
func SaysReplicas(manifest []byte) bool {
	var object struct {
		Spec struct {
			Replicas any `json:"replicas"`
		} `json:"spec"`
	}
	return decodes(manifest, &object) && object.Spec.Replicas != nil
}
