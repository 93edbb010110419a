package render

import (
	"math"

	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// stages group kinds so that nothing in a group needs another thing of its group, or of a later one, to be
// there when it is applied; each group is applied in parallel. The order is that of Helm's InstallOrder
// where one matters, with three differences. CRDs come first of all, and so do roles before bindings and
// accounts before secrets (the token controller deletes a token of an account that is not there yet).
// Webhooks come last, after even the custom resources: a webhook whose pods are still starting refuses
// what it guards.
//
// Kinds are named with their group, so that a custom resource which borrows a name (a Service of
// serving.knative.dev) is treated as one.
var stages = [][]schema.GroupKind{
	0: {{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}},
	1: {{Group: "", Kind: "Namespace"}},
	2: { // what others refer to or are admitted by
		{Group: "scheduling.k8s.io", Kind: "PriorityClass"},
		{Group: "node.k8s.io", Kind: "RuntimeClass"},
		{Group: "storage.k8s.io", Kind: "StorageClass"},
		{Group: "storage.k8s.io", Kind: "CSIDriver"},
		{Group: "networking.k8s.io", Kind: "IngressClass"},
		{Group: "networking.k8s.io", Kind: "NetworkPolicy"},
		{Group: "", Kind: "ResourceQuota"},
		{Group: "", Kind: "LimitRange"},
		{Group: "", Kind: "ServiceAccount"},
		{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"},
		{Group: "rbac.authorization.k8s.io", Kind: "Role"},
	},
	3: { // what pods need when they start
		{Group: "", Kind: "Secret"},
		{Group: "", Kind: "ConfigMap"},
		{Group: "", Kind: "PersistentVolume"},
		{Group: "", Kind: "PersistentVolumeClaim"},
		{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"},
		{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"},
		{Group: "", Kind: "Service"},
		{Group: "policy", Kind: "PodDisruptionBudget"},
	},
	4: { // what makes pods
		{Group: "", Kind: "Pod"},
		{Group: "", Kind: "ReplicationController"},
		{Group: "apps", Kind: "DaemonSet"},
		{Group: "apps", Kind: "ReplicaSet"},
		{Group: "apps", Kind: "Deployment"},
		{Group: "apps", Kind: "StatefulSet"},
		{Group: "batch", Kind: "Job"},
		{Group: "batch", Kind: "CronJob"},
	},
	5: { // what points at pods
		{Group: "", Kind: "Endpoints"},
		{Group: "discovery.k8s.io", Kind: "EndpointSlice"},
		{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"},
		{Group: "networking.k8s.io", Kind: "Ingress"},
		{Group: "apiregistration.k8s.io", Kind: "APIService"},
	},
	6: {}, // every other kind: custom resources
	7: {
		{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"},
		{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"},
		{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicy"},
		{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicyBinding"},
		{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy"},
		{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicyBinding"},
	},
}

const customStage = 6

var stageOf = func() map[schema.GroupKind]int {
	m := map[schema.GroupKind]int{}
	for stage, kinds := range stages {
		for _, kind := range kinds {
			m[kind] = stage
		}
	}
	return m
}()

// stage gives the stage of a kind.
func stage(group, kind string) int {
	if s, ok := stageOf[schema.GroupKind{Group: group, Kind: kind}]; ok {
		return s
	}
	return customStage
}

var installOrder = func() map[string]int {
	m := map[string]int{}
	for i, kind := range releaseutil.InstallOrder {
		m[kind] = i
	}
	return m
}()

// rank is the place of a kind in Helm's InstallOrder; unknown kinds are last.
func rank(kind string) int {
	if r, ok := installOrder[kind]; ok {
		return r
	}
	return math.MaxInt
}
