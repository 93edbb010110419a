package kube

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// builtIn are the kinds that every cluster has, by group, so that common apps need no discovery. A kind is
// listed as Kind=resource; those before the bar are in a namespace, those behind it are not.
var builtIn = map[string]string{
	"": "ConfigMap=configmaps Endpoints=endpoints LimitRange=limitranges " +
		"PersistentVolumeClaim=persistentvolumeclaims Pod=pods PodTemplate=podtemplates " +
		"ReplicationController=replicationcontrollers ResourceQuota=resourcequotas Secret=secrets " +
		"Service=services ServiceAccount=serviceaccounts | Namespace=namespaces PersistentVolume=persistentvolumes",
	"admissionregistration.k8s.io": "| MutatingWebhookConfiguration=mutatingwebhookconfigurations " +
		"ValidatingAdmissionPolicy=validatingadmissionpolicies " +
		"ValidatingAdmissionPolicyBinding=validatingadmissionpolicybindings " +
		"ValidatingWebhookConfiguration=validatingwebhookconfigurations",
	"apiextensions.k8s.io":   "| CustomResourceDefinition=customresourcedefinitions",
	"apiregistration.k8s.io": "| APIService=apiservices",
	"apps": "ControllerRevision=controllerrevisions DaemonSet=daemonsets Deployment=deployments " +
		"ReplicaSet=replicasets StatefulSet=statefulsets |",
	"autoscaling":         "HorizontalPodAutoscaler=horizontalpodautoscalers |",
	"batch":               "CronJob=cronjobs Job=jobs |",
	"certificates.k8s.io": "| CertificateSigningRequest=certificatesigningrequests",
	"coordination.k8s.io": "Lease=leases |",
	"discovery.k8s.io":    "EndpointSlice=endpointslices |",
	"networking.k8s.io":   "Ingress=ingresses NetworkPolicy=networkpolicies | IngressClass=ingressclasses",
	"node.k8s.io":         "| RuntimeClass=runtimeclasses",
	"policy":              "PodDisruptionBudget=poddisruptionbudgets |",
	"rbac.authorization.k8s.io": "Role=roles RoleBinding=rolebindings | " +
		"ClusterRole=clusterroles ClusterRoleBinding=clusterrolebindings",
	"scheduling.k8s.io": "| PriorityClass=priorityclasses",
	"storage.k8s.io":    "| CSIDriver=csidrivers StorageClass=storageclasses",
}

// movedKinds are the kinds that Kubernetes has moved to another group, with that one: what was made by the first is served by the second as the same object.
var movedKinds = map[schema.GroupKind]string{
	{Group: "extensions", Kind: "DaemonSet"}:         "apps",
	{Group: "extensions", Kind: "Deployment"}:        "apps",
	{Group: "extensions", Kind: "Ingress"}:           "networking.k8s.io",
	{Group: "extensions", Kind: "NetworkPolicy"}:     "networking.k8s.io",
	{Group: "extensions", Kind: "PodSecurityPolicy"}: "policy",
	{Group: "extensions", Kind: "ReplicaSet"}:        "apps",
}

// mapped says how objects of a kind are addressed.
type mapped struct {
	resource   string
	namespaced bool
}

var builtInKinds = func() map[schema.GroupKind]mapped {
	kinds := map[schema.GroupKind]mapped{}
	for group, list := range builtIn {
		namespaced := true
		for _, word := range strings.Fields(list) {
			if word == "|" {
				namespaced = false
				continue
			}
			kind, resource, _ := strings.Cut(word, "=")
			kinds[schema.GroupKind{Group: group, Kind: kind}] = mapped{resource, namespaced}
		}
	}
	return kinds
}()

// path is where the object is served. The namespace is of no effect for a kind that has none.
func (m mapped) path(gv schema.GroupVersion, namespace, name string) string {
	return m.collection(gv, namespace) + escape(name)
}

// collection is where objects of the kind are created.
func (m mapped) collection(gv schema.GroupVersion, namespace string) string {
	root := groupVersionPath(gv)
	if m.namespaced {
		return root + escape("namespaces", namespace, m.resource)
	}
	return root + escape(m.resource)
}

func groupVersionPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return escape("api", gv.Version)
	}
	return escape("apis", gv.Group, gv.Version)
}
