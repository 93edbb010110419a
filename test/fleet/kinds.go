package fleet

import (
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
)

// builtIn are the kinds that every cluster serves, by group version; a group's first version is the
// preferred one. A kind is listed as Kind=resource, with a star when it has a status of its own; those before
// the bar are in a namespace, those behind it are not.
var builtIn = []struct{ groupVersion, list string }{
	{"v1", "ConfigMap=configmaps Endpoints=endpoints Event=events LimitRange=limitranges " +
		"PersistentVolumeClaim=persistentvolumeclaims* Pod=pods* PodTemplate=podtemplates " +
		"ReplicationController=replicationcontrollers* ResourceQuota=resourcequotas* Secret=secrets " +
		"Service=services* ServiceAccount=serviceaccounts | Namespace=namespaces* Node=nodes* PersistentVolume=persistentvolumes*"},
	{"admissionregistration.k8s.io/v1", "| MutatingWebhookConfiguration=mutatingwebhookconfigurations " +
		"ValidatingAdmissionPolicy=validatingadmissionpolicies* " +
		"ValidatingAdmissionPolicyBinding=validatingadmissionpolicybindings " +
		"ValidatingWebhookConfiguration=validatingwebhookconfigurations"},
	{"apiextensions.k8s.io/v1", "| CustomResourceDefinition=customresourcedefinitions*"},
	{"apps/v1", "ControllerRevision=controllerrevisions DaemonSet=daemonsets* Deployment=deployments* " +
		"ReplicaSet=replicasets* StatefulSet=statefulsets* |"},
	{"autoscaling/v2", "HorizontalPodAutoscaler=horizontalpodautoscalers* |"},
	{"autoscaling/v1", "HorizontalPodAutoscaler=horizontalpodautoscalers* |"},
	{"batch/v1", "CronJob=cronjobs* Job=jobs* |"},
	{"certificates.k8s.io/v1", "| CertificateSigningRequest=certificatesigningrequests*"},
	{"coordination.k8s.io/v1", "Lease=leases |"},
	{"discovery.k8s.io/v1", "EndpointSlice=endpointslices |"},
	{"flowcontrol.apiserver.k8s.io/v1", "| FlowSchema=flowschemas* PriorityLevelConfiguration=prioritylevelconfigurations*"},
	{"networking.k8s.io/v1", "Ingress=ingresses* NetworkPolicy=networkpolicies | IngressClass=ingressclasses"},
	{"node.k8s.io/v1", "| RuntimeClass=runtimeclasses"},
	{"policy/v1", "PodDisruptionBudget=poddisruptionbudgets* |"},
	{"rbac.authorization.k8s.io/v1", "Role=roles RoleBinding=rolebindings | " +
		"ClusterRole=clusterroles ClusterRoleBinding=clusterrolebindings"},
	{"scheduling.k8s.io/v1", "| PriorityClass=priorityclasses"},
	{"storage.k8s.io/v1", "| CSIDriver=csidrivers StorageClass=storageclasses"},
}

// kind is one that is served in one version. There is one value for each, so that it serves as a key.
type kind struct {
	schema.GroupVersionKind
	resource   string
	namespaced bool
	status     bool   // it has the subresource status
	crd        string // the CustomResourceDefinition that brought it, "" when it is built in

	main, sub func() *managedfields.FieldManager
}

func newKind(k kind) *kind {
	k.main = sync.OnceValue(func() *managedfields.FieldManager { return newManager(&k, "") })
	k.sub = sync.OnceValue(func() *managedfields.FieldManager { return newManager(&k, "status") })
	return &k
}

func (k *kind) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.resource}
}

func (k *kind) address() schema.GroupVersionResource {
	return k.GroupVersion().WithResource(k.resource)
}

// builtInKinds are the kinds of builtIn by their address, and in its order.
var builtInKinds, builtInOrder = func() (map[schema.GroupVersionResource]*kind, []*kind) {
	kinds, order := map[schema.GroupVersionResource]*kind{}, []*kind(nil)
	for _, row := range builtIn {
		gv, err := schema.ParseGroupVersion(row.groupVersion)
		if err != nil {
			panic(err)
		}
		namespaced := true
		for _, word := range strings.Fields(row.list) {
			if word == "|" {
				namespaced = false
				continue
			}
			name, resource, _ := strings.Cut(word, "=")
			resource, status := strings.CutSuffix(resource, "*")
			k := newKind(kind{GroupVersionKind: gv.WithKind(name), resource: resource, namespaced: namespaced, status: status})
			kinds[k.address()] = k
			order = append(order, k)
		}
	}
	return kinds, order
}()

// Kinds that the server itself acts on.
var (
	namespaceKind = builtInKinds[schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}]
	jobKind       = builtInKinds[schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}]
	crdKind       = builtInKinds[schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}]
)

// reviewKind is how a client asks what it may do. It is answered, and nothing of it is kept.
var reviewKind = newKind(kind{
	GroupVersionKind: schema.GroupVersionKind{Group: "authorization.k8s.io", Version: "v1", Kind: "SelfSubjectAccessReview"}, resource: "selfsubjectaccessreviews",
})

// customKinds are the kinds that a CustomResourceDefinition, as decoded JSON, makes served.
func customKinds(crd map[string]any) []*kind {
	spec := member(crd, "spec")
	names := member(spec, "names")
	var list []*kind
	versions, _ := spec["versions"].([]any)
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if served, _ := version["served"].(bool); !served {
			continue
		}
		_, status := member(version, "subresources")["status"]
		list = append(list, newKind(kind{
			GroupVersionKind: schema.GroupVersionKind{Group: text(spec, "group"), Version: text(version, "name"), Kind: text(names, "kind")},
			resource:         text(names, "plural"),
			namespaced:       text(spec, "scope") == "Namespaced",
			status:           status,
			crd:              text(member(crd, "metadata"), "name"),
		}))
	}
	return list
}

// resourceList is the discovery document of a group version; nil when no kind is of it.
func resourceList(kinds []*kind, gv schema.GroupVersion) *metav1.APIResourceList {
	list := &metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: gv.String(),
	}
	for _, k := range kinds {
		if k.GroupVersion() != gv {
			continue
		}
		verbs := metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"}
		if k == reviewKind {
			verbs = verbs[:1]
		}
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: k.resource, SingularName: strings.ToLower(k.Kind), Namespaced: k.namespaced, Kind: k.Kind, Verbs: verbs,
		})
		if k.status {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: k.resource + "/status", Namespaced: k.namespaced, Kind: k.Kind, Verbs: metav1.Verbs{"get", "patch", "update"},
			})
		}
	}
	if list.APIResources == nil {
		return nil
	}
	return list
}

// groupList is the discovery document of all groups but the core.
func groupList(kinds []*kind) *metav1.APIGroupList {
	list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	index := map[string]int{}
	seen := map[schema.GroupVersion]bool{}
	for _, k := range kinds {
		gv := k.GroupVersion()
		if gv.Group == "" || seen[gv] {
			continue
		}
		seen[gv] = true
		version := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		i, ok := index[gv.Group]
		if !ok {
			i = len(list.Groups)
			index[gv.Group] = i
			list.Groups = append(list.Groups, metav1.APIGroup{Name: gv.Group, PreferredVersion: version})
		}
		list.Groups[i].Versions = append(list.Groups[i].Versions, version)
	}
	return list
}
