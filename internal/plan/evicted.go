package plan

import "encoding/json"

// evicted is the reason that kubelets give a Pod which they evict.
const evicted = "Evicted"

// Evicted says of an object in a cluster whether it is a Pod that its node has given up, and that is still there to say so.
// Only group and kind of the id count; the object is JSON with its status.
func (id ResourceID) Evicted(object []byte) bool {
	if id.Kind != "Pod" || id.Group != "" {
		return false
	}
	var o struct {
		Status struct {
			Phase  string `json:"phase"`
			Reason string `json:"reason"`
		} `json:"status"`
	}
	return json.Unmarshal(object, &o) == nil && o.Status.Phase == "Failed" && o.Status.Reason == evicted
}
