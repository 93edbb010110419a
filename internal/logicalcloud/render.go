// Package logicalcloud says what a logical cloud of level 1 has in each of its clusters: the namespace, the
// user's certificate request, quotas, roles and their bindings. It decides and makes keys; it does no I/O.
package logicalcloud

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
)

// App is the name of the one app of a logical cloud's plans.
const App = "logical-cloud"

// Approval is what the approval of the user's certificate request says.
const (
	ApprovalReason  = "LogicalCloud"
	ApprovalMessage = "Approved for Logical Cloud authentication"
)

// The stages of a cloud's resources: what stands in a namespace follows it, bindings follow roles.
const (
	stageNamespace = iota
	stageRules
	stageBindings
)

// Cloud is all that the user said of a logical cloud.
type Cloud struct {
	*domain.LogicalCloud
	Permissions []*domain.UserPermission // sorted by name: their places are in the names of roles
	Quotas      []*domain.ClusterQuota
	// Lifetime is that of certificates in seconds; 0 leaves it to the cluster.
	Lifetime int32
	// PodSecurity is what its namespace enforces at least, "" for what the cluster does.
	PodSecurity domain.PodSecurity
}

// Check says what is missing for the cloud to be instantiated; Conflict and Invalid with EMCO's sentences.
func (c Cloud) Check() error {
	switch {
	case c.Spec.Namespace == "":
		return fail.New(fail.Invalid, "logical cloud %q has no spec.namespace, which level 1 needs", c.Name)
	case c.Spec.User.UserName == "":
		return fail.New(fail.Invalid, "logical cloud %q has no spec.user.userName, which level 1 needs", c.Name)
	case !slices.ContainsFunc(c.Permissions, func(p *domain.UserPermission) bool { return p.Spec.Namespace == c.Spec.Namespace }):
		return fail.New(fail.Conflict, "Level-1 Logical Clouds require a User Permission assigned to its primary namespace: logical cloud %q has none for %q",
			c.Name, c.Spec.Namespace)
	default:
		return nil
	}
}

// subdomain is what Kubernetes takes as the name of a certificate request.
var subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// RequestName is the name of the user's certificate request: "<cloud>-<namespace>-user-csr". A cloud whose name
// cannot be part of an object's name is replaced by a hash of it.
func RequestName(cloud, namespace string) string {
	name := cloud + "-" + namespace + "-user-csr"
	if subdomain.MatchString(name) {
		return name
	}
	sum := sha256.Sum256([]byte(cloud))
	return "cloud-" + hex.EncodeToString(sum[:10]) + "-" + namespace + "-user-csr"
}

// Render gives the resources of the cloud, the same for all of its clusters, in the order in which they are
// applied. Names and contents are those of reference 3.9.
func Render(c Cloud) (*plan.Bundle, error) {
	r := renderer{cloud: c}
	r.add(stageNamespace, corev1.SchemeGroupVersion.WithKind("Namespace"), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: c.Spec.Namespace, Labels: c.NamespaceLabels(c.PodSecurity)},
	})
	r.request()
	for _, q := range c.Quotas {
		r.add(stageRules, corev1.SchemeGroupVersion.WithKind("ResourceQuota"), &hardQuota{
			ObjectMeta: metav1.ObjectMeta{Name: q.Name, Namespace: c.Spec.Namespace},
			Spec:       hardLimits{Hard: q.Spec},
		})
	}
	for i, p := range c.Permissions {
		r.permission(i, p.Spec)
	}
	if r.err != nil {
		return nil, r.err
	}
	slices.SortStableFunc(r.resources, func(a, b plan.Resource) int { return a.Stage - b.Stage })
	return &plan.Bundle{App: App, Resources: r.resources}, nil
}

// hardQuota is a ResourceQuota whose quantities stay as the user wrote them.
type hardQuota struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              hardLimits `json:"spec"`
}

type hardLimits struct {
	Hard map[string]string `json:"hard,omitempty"`
}

type renderer struct {
	cloud     Cloud
	resources []plan.Resource
	err       error
}

// request is the user's certificate request.
func (r *renderer) request() {
	spec := certificatesv1.CertificateSigningRequestSpec{
		Request: r.cloud.Request, SignerName: certificatesv1.KubeAPIServerClientSignerName,
		Usages: []certificatesv1.KeyUsage{
			certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth,
		},
	}
	if r.cloud.Lifetime > 0 {
		spec.ExpirationSeconds = &r.cloud.Lifetime
	}
	r.add(stageRules, certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: RequestName(r.cloud.Name, r.cloud.Spec.Namespace)}, Spec: spec,
	})
}

// permission is a role with its binding, for the whole cluster when it names no namespace.
func (r *renderer) permission(i int, p domain.UserPermissionSpec) {
	role, binding := rbacv1.SchemeGroupVersion.WithKind("Role"), rbacv1.SchemeGroupVersion.WithKind("RoleBinding")
	roleName, bindingName := "role", "roleBinding"
	if p.Namespace == "" {
		role.Kind, binding.Kind = "ClusterRole", "ClusterRoleBinding"
		roleName, bindingName = "clusterRole", "clusterRoleBinding"
	}
	name := func(what string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: fmt.Sprintf("%s-%s%d", r.cloud.Name, what, i), Namespace: p.Namespace}
	}
	r.add(stageRules, role, &rbacv1.Role{
		ObjectMeta: name(roleName),
		Rules:      []rbacv1.PolicyRule{{APIGroups: p.APIGroups, Resources: p.Resources, Verbs: p.Verbs}},
	})
	r.add(stageBindings, binding, &rbacv1.RoleBinding{
		ObjectMeta: name(bindingName),
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: r.cloud.Spec.User.UserName}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: role.Kind, Name: name(roleName).Name},
	})
}

// add adds an object. A server would take what Go's types write of a status that is empty as one.
func (r *renderer) add(stage int, gvk schema.GroupVersionKind, o metav1.Object) {
	data, err := json.Marshal(o)
	members := map[string]any{}
	if err == nil {
		err = json.Unmarshal(data, &members)
	}
	if err != nil {
		r.err = fail.Wrap(err, fail.Internal, "%s %s cannot be encoded", gvk.Kind, o.GetName())
		return
	}
	delete(members, "status")
	if metadata, ok := members["metadata"].(map[string]any); ok {
		delete(metadata, "creationTimestamp")
	}
	if spec, ok := members["spec"].(map[string]any); ok && len(spec) == 0 {
		delete(members, "spec")
	}
	members["apiVersion"], members["kind"] = gvk.GroupVersion().String(), gvk.Kind
	if data, err = json.Marshal(members); err != nil {
		r.err = fail.Wrap(err, fail.Internal, "%s %s cannot be encoded", gvk.Kind, o.GetName())
		return
	}
	r.resources = append(r.resources, plan.Resource{
		ResourceID: plan.ResourceID{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Namespace: o.GetNamespace(), Name: o.GetName()},
		Stage:      stage, Manifest: data,
	})
}
