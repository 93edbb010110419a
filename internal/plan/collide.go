package plan

import "github.com/drover-io/drover/internal/domain"

// Collision is a resource that two plans put on the same cluster.
type Collision struct {
	App, OtherApp string
	Resource      ResourceID
	Cluster       domain.ClusterName
}

// clusterScoped are the built-in kinds without a namespace.
var clusterScoped = map[string]bool{
	"APIService": true, "CertificateSigningRequest": true, "ClusterRole": true, "ClusterRoleBinding": true, "CSIDriver": true,
	"CustomResourceDefinition": true, "FlowSchema": true, "Node": true, "PriorityLevelConfiguration": true,
	"IngressClass": true, "MutatingWebhookConfiguration": true, "Namespace": true, "PersistentVolume": true,
	"PriorityClass": true, "RuntimeClass": true, "StorageClass": true, "ValidatingAdmissionPolicy": true,
	"ValidatingAdmissionPolicyBinding": true, "ValidatingWebhookConfiguration": true,
}

// ClusterScoped says whether objects of a built-in kind have no namespace.
func ClusterScoped(kind string) bool { return clusterScoped[kind] }

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
	case clusterScoped[r.Kind]:
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
