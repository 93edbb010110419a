package plan

import (
	"cmp"
	"strings"
)

// scalers are the kinds that say how many Pods another object is to have.
var scalers = map[groupKind]bool{{"autoscaling", "HorizontalPodAutoscaler"}: true, {"keda.sh", "ScaledObject"}: true}

// ScaleTarget is an object of which an autoscaler in the same namespace says how many Pods it is to have.
type ScaleTarget struct {
	group, kind, name string
	grouped           bool // group is said
}

// Is says whether it is the object, whichever version that is applied in.
func (t ScaleTarget) Is(id ResourceID) bool {
	return t.name == id.Name && t.kind == id.Kind && (t.group == id.Group || !t.grouped)
}

// ScaleTarget is that of a HorizontalPodAutoscaler, or of KEDA's ScaledObject; false of any other kind.
func (r *Resource) ScaleTarget() (t ScaleTarget, is bool) {
	if !scalers[groupKind{r.Group, r.Kind}] {
		return t, false
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
		return t, false
	}
	target := scaler.Spec.ScaleTargetRef
	if r.Group == "keda.sh" { // its defaults
		target.Kind, target.APIVersion = cmp.Or(target.Kind, "Deployment"), cmp.Or(target.APIVersion, "apps/v1")
	}
	group, _, grouped := strings.Cut(target.APIVersion, "/")
	if !grouped {
		group = ""
	}
	return ScaleTarget{group: group, kind: target.Kind, name: target.Name, grouped: target.APIVersion != ""}, true
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
