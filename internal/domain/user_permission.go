package domain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/fail"
)

// UserPermission is a right of a logical cloud's user, on every cluster of the cloud.
type UserPermission struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Spec     UserPermissionSpec `json:"spec" api:"required"`
}

// UserPermissionSpec is a rule of Kubernetes' RBAC in one namespace; with namespace "" it holds for the
// whole cluster.
type UserPermissionSpec struct {
	Namespace string   `json:"namespace"`                // the namespace; empty for the whole cluster
	APIGroups []string `json:"apiGroups" api:"required"` // API groups; the empty word is the core group
	Resources []string `json:"resources" api:"required"` // resources in the plural, such as pods
	Verbs     []string `json:"verbs" api:"required"`     // such as get, list, watch, create, update, patch, delete
}

// Writes says whether it lets its user make or change objects of a kind. It has the plurals of kinds, which begin as these do but for a last y, as
// in networkpolicies.
func (p *UserPermissionSpec) Writes(group, kind string) bool {
	stem := strings.TrimSuffix(strings.ToLower(kind), "y")
	has := func(words []string, is func(string) bool) bool {
		return slices.ContainsFunc(words, func(w string) bool { return w == "*" || is(w) })
	}
	return has(p.Verbs, func(verb string) bool { return verb == "create" || verb == "update" || verb == "patch" }) &&
		has(p.APIGroups, func(g string) bool { return g == group }) &&
		has(p.Resources, func(plural string) bool { return strings.HasPrefix(plural, stem) && !strings.Contains(plural, "/") })
}

// Relabels says whether it lets its user change the labels of the namespace that it is for, or give himself any right there.
func (p *UserPermissionSpec) Relabels() bool {
	has := func(list []string, words ...string) bool {
		return slices.Contains(list, "*") || slices.ContainsFunc(words, func(w string) bool { return slices.Contains(list, w) })
	}
	changes := has(p.APIGroups, "") && has(p.Verbs, "update", "patch") &&
		has(p.Resources, "namespaces", "namespaces/status", "namespaces/finalize", "*/status", "*/finalize")
	return changes || has(p.APIGroups, "rbac.authorization.k8s.io") && has(p.Verbs, "escalate", "bind") && has(p.Resources, "roles", "clusterroles")
}

// UserPermissions is the noun.
var UserPermissions = &Noun{
	Kind: "user-permissions", Title: "user permission", Collection: "user-permissions", Names: []string{"userPermission"},
	Parent: LogicalClouds, New: func() Object { return &UserPermission{} }, Fixed: true,
}

// Noun is UserPermissions.
func (*UserPermission) Noun() *Noun { return UserPermissions }

// Validate checks the body.
func (o *UserPermission) Validate(p *fail.Problems) {
	o.Metadata.Validate(p)
	checkNamespace(p, "spec.namespace", o.Spec.Namespace)
	for _, list := range []struct {
		path   string
		values []string
	}{
		{"spec.apiGroups", o.Spec.APIGroups}, {"spec.resources", o.Spec.Resources}, {"spec.verbs", o.Spec.Verbs},
	} {
		if list.values == nil {
			p.Add(list.path, "Invalid type. Expected: array, given: null")
		}
		for i, v := range list.values {
			CheckLength(p, fmt.Sprintf("%s[%d]", list.path, i), v, 253)
		}
	}
}
