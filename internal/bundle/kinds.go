package bundle

import (
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What follows is for whoever looks at a cluster's labelled objects: the agent there, or the control plane where
// there is none. Both see the same.

// GroupKind is the ResourceBundleState's.
var GroupKind = schema.GroupKind{Group: Group, Kind: Kind}

// Missing is why a cluster without the CRD reports nothing.
const Missing = "the cluster has no ResourceBundleState CRD"

// Silent is why what the agent of a cluster has said may be old.
const Silent = "the agent in the cluster does not answer"

// LeaseName is the Lease in the agent's namespace that says until when the agent was alive: a status does not
// change when nothing happens, nor when the agent is gone. It is renewed every LeaseRenewal and, where nobody
// renews it for LeaseDuration, statuses in that cluster are old.
const (
	LeaseName     = "drover-monitor"
	LeaseRenewal  = 10 * time.Second
	LeaseDuration = 30 * time.Second
)

var metadataOnly = map[schema.GroupKind]bool{
	{Kind: "ConfigMap"}:      true,
	{Kind: "Secret"}:         true,
	{Kind: "ServiceAccount"}: true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:        true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}: true,
	{Group: "rbac.authorization.k8s.io", Kind: "Role"}:               true,
	{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:        true,
}

// MetadataOnly says whether nothing but metadata is asked for of a kind: it has no status, and the rest of it is
// large, or nobody's business. The data of a Secret never leaves its cluster.
func MetadataOnly(kind schema.GroupKind) bool { return metadataOnly[kind] }

// Reduce leaves of an object, which it changes, what is reported of it, whoever has read the whole of it: see Strip and
// MetadataOnly.
func Reduce(kind schema.GroupKind, content map[string]any) {
	if MetadataOnly(kind) {
		maps.DeleteFunc(content, func(member string, _ any) bool {
			return member != "apiVersion" && member != "kind" && member != "metadata"
		})
	}
	Strip(kind.Group, kind.Kind, content)
}

var busy = map[schema.GroupKind]bool{
	{Kind: "Event"}:                               true,
	{Group: "events.k8s.io", Kind: "Event"}:       true,
	{Group: "coordination.k8s.io", Kind: "Lease"}: true,
}

// Busy says whether a kind changes all the time, so that a watch would make the API server look at each change
// once more.
func Busy(kind schema.GroupKind) bool { return busy[kind] }

// Derived says whether the object is a controller's bookkeeping for another one, whose labels it has inherited:
// nobody asked for it, and EMCO does not show it. One that a chart brings itself is not.
func Derived(kind schema.GroupKind, o metav1.Object) bool {
	switch kind {
	case schema.GroupKind{Group: "apps", Kind: "ReplicaSet"},
		schema.GroupKind{Group: "apps", Kind: "ControllerRevision"},
		schema.GroupKind{Group: "discovery.k8s.io", Kind: "EndpointSlice"}:
		return metav1.GetControllerOf(o) != nil
	case schema.GroupKind{Kind: "Endpoints"}:
		return o.GetLabels()["endpoints.kubernetes.io/managed-by"] != "" ||
			o.GetAnnotations()["endpoints.kubernetes.io/last-change-trigger-time"] != ""
	default:
		return false
	}
}
