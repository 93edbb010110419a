package kube

import (
	"context"
	"reflect"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/fail"
)

// Tried is what would become of an object.
type Tried struct {
	Object string // such as "clusterrole drover-site-edge01-3f9a0c1b"
	Would  string // created, configured or unchanged
}

// Try asks the cluster, which does nothing, what Make and Issue would make there. Errors are those that they would meet, as far as the cluster
// can say so before what one step needs of the one before is there; Forbidden with all rights that are missing.
func (o *Owned) Try(ctx context.Context) (would []Tried, err error) {
	f, err := o.find(ctx)
	if err != nil {
		return nil, err
	}
	if err := o.allowed(ctx, f); err != nil {
		return nil, err
	}
	if err := o.alone(ctx, f); err != nil {
		return nil, err
	}
	dry := *o
	dry.dry = []string{metav1.DryRunAll}
	becomes := func(there bool) string {
		if there {
			return "configured"
		}
		return "created"
	}
	role, err := dry.applyRole(ctx, f.role)
	if err != nil {
		return nil, err
	}
	becomesRole := becomes(f.role != nil)
	if f.role != nil && reflect.DeepEqual(role.Rules, f.role.Rules) {
		becomesRole = "unchanged"
	}
	would = append(would, Tried{"clusterrole " + o.Name, becomesRole})
	namespace, err := o.client.CoreV1().Namespaces().Get(ctx, o.Namespace, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		if _, err := dry.claim(ctx); err != nil {
			return nil, o.failed(err, "make the namespace %s", o.Namespace)
		}
		would = append(would, Tried{"namespace " + o.Namespace, "created"})
	case err != nil:
		return nil, o.failed(err, "look at the namespace %s", o.Namespace)
	case namespace.DeletionTimestamp == nil: // one that is being deleted is waited for
		if _, err := dry.newAccount(ctx); err != nil {
			return nil, err
		}
	}
	return append(would, Tried{"serviceaccount " + o.Namespace + "/" + o.Name + "-…", "created"}, Tried{"clusterrolebinding " + o.Name, becomes(f.binding != nil)}), nil
}

// Allowed is Forbidden, with all rights that are missing, for who cannot make the account to its end.
func (o *Owned) Allowed(ctx context.Context) error {
	f, err := o.find(ctx)
	if err != nil {
		return err
	}
	return o.allowed(ctx, f)
}

// allowed is Forbidden with the rights that who asks does not have, of those by which the account is made.
func (o *Owned) allowed(ctx context.Context, f *found) error {
	needed := []authorizationv1.ResourceAttributes{
		{Verb: "patch", Group: rbacGroup, Resource: "clusterroles", Name: o.Name},
		{Verb: "patch", Group: rbacGroup, Resource: "clusterrolebindings", Name: o.Name},
		{Verb: "create", Resource: "serviceaccounts", Namespace: o.Namespace},
		{Verb: "create", Resource: "serviceaccounts", Subresource: "token", Namespace: o.Namespace},
		{Verb: "list", Group: rbacGroup, Resource: "clusterroles"}, // to see who else has the rights
		{Verb: "list", Group: rbacGroup, Resource: "clusterrolebindings"},
		{Verb: "list", Group: rbacGroup, Resource: "rolebindings"},
	}
	if f.role == nil {
		needed = append(needed,
			authorizationv1.ResourceAttributes{Verb: "create", Group: rbacGroup, Resource: "clusterroles"},
			authorizationv1.ResourceAttributes{Verb: "delete", Group: rbacGroup, Resource: "clusterroles", Name: o.Name}) // where others turn out to have its rights
	}
	if f.binding == nil {
		needed = append(needed, authorizationv1.ResourceAttributes{Verb: "create", Group: rbacGroup, Resource: "clusterrolebindings"})
	}
	if len(f.accounts) > 0 {
		needed = append(needed, authorizationv1.ResourceAttributes{Verb: "delete", Resource: "serviceaccounts", Namespace: o.Namespace})
	}
	var lacks []string
	for i := range needed {
		answer, err := o.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &needed[i]},
		}, metav1.CreateOptions{})
		if err != nil {
			return o.failed(err, "ask what the user of the context may do")
		}
		if !answer.Status.Allowed {
			resource := needed[i].Resource
			if needed[i].Subresource != "" {
				resource += "/" + needed[i].Subresource
			}
			lacks = append(lacks, right(needed[i].Verb, needed[i].Group, resource, nil))
		}
	}
	if len(lacks) > 0 {
		return fail.New(fail.Forbidden, "the user of the context may not %s in the cluster; nothing is done", strings.Join(lacks, ", "))
	}
	return nil
}
