package plan

type groupKind struct{ group, kind string }

// stages group kinds so that nothing in a group needs another thing of its group, or of a later one, to be
// there when it is applied; each group is applied in parallel. The order is that of Helm's InstallOrder
// where one matters, with three differences. CRDs come first of all, and so do roles before bindings and
// accounts before secrets (the token controller deletes a token of an account that is not there yet).
// Webhooks come last, after even the custom resources: a webhook whose pods are still starting refuses
// what it guards.
//
// Kinds are named with their group, so that a custom resource which borrows a name (a Service of
// serving.knative.dev) is treated as one.
var stages = [][]groupKind{
	0: {{"apiextensions.k8s.io", "CustomResourceDefinition"}},
	1: {{"", "Namespace"}},
	2: { // what others refer to or are admitted by
		{"scheduling.k8s.io", "PriorityClass"},
		{"node.k8s.io", "RuntimeClass"},
		{"storage.k8s.io", "StorageClass"},
		{"storage.k8s.io", "CSIDriver"},
		{"networking.k8s.io", "IngressClass"},
		{"networking.k8s.io", "NetworkPolicy"},
		{"", "ResourceQuota"},
		{"", "LimitRange"},
		{"", "ServiceAccount"},
		{"rbac.authorization.k8s.io", "ClusterRole"},
		{"rbac.authorization.k8s.io", "Role"},
	},
	3: { // what pods need when they start
		{"", "Secret"},
		{"", "ConfigMap"},
		{"", "PersistentVolume"},
		{"", "PersistentVolumeClaim"},
		{"rbac.authorization.k8s.io", "ClusterRoleBinding"},
		{"rbac.authorization.k8s.io", "RoleBinding"},
		{"", "Service"},
		{"policy", "PodDisruptionBudget"},
	},
	4: { // what makes pods
		{"", "Pod"},
		{"", "ReplicationController"},
		{"apps", "DaemonSet"},
		{"apps", "ReplicaSet"},
		{"apps", "Deployment"},
		{"apps", "StatefulSet"},
		{"batch", "Job"},
		{"batch", "CronJob"},
	},
	5: { // what points at pods
		{"", "Endpoints"},
		{"discovery.k8s.io", "EndpointSlice"},
		{"autoscaling", "HorizontalPodAutoscaler"},
		{"networking.k8s.io", "Ingress"},
		{"apiregistration.k8s.io", "APIService"},
	},
	6: {}, // every other kind: custom resources
	7: {
		{"admissionregistration.k8s.io", "MutatingWebhookConfiguration"},
		{"admissionregistration.k8s.io", "ValidatingWebhookConfiguration"},
		{"admissionregistration.k8s.io", "MutatingAdmissionPolicy"},
		{"admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"},
		{"admissionregistration.k8s.io", "ValidatingAdmissionPolicy"},
		{"admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"},
	},
}

const customStage = 6

var stageOf = func() map[groupKind]int {
	m := map[groupKind]int{}
	for stage, kinds := range stages {
		for _, kind := range kinds {
			m[kind] = stage
		}
	}
	return m
}()

// StageOf gives the stage of a kind.
func StageOf(group, kind string) int {
	if s, ok := stageOf[groupKind{group, kind}]; ok {
		return s
	}
	return customStage
}
