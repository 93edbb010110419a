package plan

import (
	"slices"

	"github.com/drover-io/drover/internal/domain"
)

// Collision is a resource that two plans put on the same cluster.
type Collision struct {
	App, OtherApp string
	Resource      ResourceID
	Cluster       domain.ClusterName
}

// clusterScoped are the built-in kinds without a namespace, by API group. A CRD may call a kind of its own Node.
var clusterScoped = map[string][]string{
	"": {"ComponentStatus", "Namespace", "Node", "PersistentVolume"},
	"admissionregistration.k8s.io": {
		"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration",
	},
	"apiextensions.k8s.io":         {"CustomResourceDefinition"},
	"apiregistration.k8s.io":       {"APIService"},
	"certificates.k8s.io":          {"CertificateSigningRequest", "ClusterTrustBundle"},
	"flowcontrol.apiserver.k8s.io": {"FlowSchema", "PriorityLevelConfiguration"},
	"networking.k8s.io":            {"IngressClass", "IPAddress", "ServiceCIDR"},
	"node.k8s.io":                  {"RuntimeClass"},
	"rbac.authorization.k8s.io":    {"ClusterRole", "ClusterRoleBinding"},
	"resource.k8s.io":              {"DeviceClass", "ResourceSlice"},
	"scheduling.k8s.io":            {"PriorityClass"},
	"storage.k8s.io":               {"CSIDriver", "CSINode", "StorageClass", "VolumeAttachment", "VolumeAttributesClass"},
}

// ClusterScoped says whether objects of a built-in kind have no namespace; false for a kind that is not built in.
func ClusterScoped(group, kind string) bool { return slices.Contains(clusterScoped[group], kind) }

// Collide finds the first resource of a that b has too, on a cluster that both go to. Versions of an API
// group name the same resource. CRDs may be shared: every user of one has its own copy in its chart.
func Collide(a, b *Plan) (Collision, bool) {
	for i := range a.Apps {
		for j := range b.Apps {
			cluster, ok := shared(a.Apps[i].Targets, b.Apps[j].Targets)
			if !ok {
				continue
			}
			taken := make(map[ResourceID]bool, len(b.Apps[j].Resources))
			for _, r := range b.Apps[j].Resources {
				taken[place(r, b.Namespace)] = true
			}
			for _, r := range a.Apps[i].Resources {
				if r.Kind != "CustomResourceDefinition" && taken[place(r, a.Namespace)] {
					return Collision{a.Apps[i].Name, b.Apps[j].Name, r, cluster}, true
				}
			}
		}
	}
	return Collision{}, false
}

func place(r ResourceID, namespace string) ResourceID {
	r.Version = ""
	switch {
	case ClusterScoped(r.Group, r.Kind):
		r.Namespace = ""
	case r.Namespace == "":
		r.Namespace = namespace
	}
	return r
}

// shared finds a cluster that both lists have.
func shared(a, b []Target) (domain.ClusterName, bool) {
	in := make(map[domain.ClusterName]bool, len(b))
	for _, t := range b {
		in[t.ClusterName] = true
	}
	for _, t := range a {
		if in[t.ClusterName] {
			return t.ClusterName, true
		}
	}
	return domain.ClusterName{}, false
}
