package observe

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/bundle"
)

// The agent (package monitor) and the agentless watch see the same: a test compares them.

// bare are the kinds of which nothing but metadata is asked for: they have no status, and the rest of them is large, or
// nobody's business. The data of a Secret never leaves its cluster.
var bare = map[schema.GroupKind]bool{
	{Kind: "ConfigMap"}:      true,
	{Kind: "Secret"}:         true,
	{Kind: "ServiceAccount"}: true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:        true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}: true,
	{Group: "rbac.authorization.k8s.io", Kind: "Role"}:               true,
	{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:        true,
}

// ignored are kinds that are not watched: those that change all the time, so that the API server would have to look at
// each change once more, and the reports of agents.
var ignored = map[schema.GroupKind]bool{
	{Kind: "Event"}:                               true,
	{Group: "events.k8s.io", Kind: "Event"}:       true,
	{Group: "coordination.k8s.io", Kind: "Lease"}: true,
	{Group: bundle.Group, Kind: bundle.Kind}:      true,
}

// derived says whether the object is a controller's bookkeeping for another one, whose labels it has inherited. One that
// a chart brings itself is not.
func derived(kind schema.GroupKind, o *unstructured.Unstructured) bool {
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
