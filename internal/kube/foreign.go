package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/drover-io/drover/internal/fail"
)

// Others says who else has the rights of the account, or a token of it, by what was made in advance or by who has stolen a token, each with who that
// is. Lasting is what no new token ends:
//   - a binding of the ClusterRole that is not the account's own, in the cluster or in one namespace. It may be there before the role;
//   - a binding of the account's name that is of another role, so that it stands where the account's own has to be;
//   - a ClusterRole that gathers the rules of others by labels, and the account's has such a label.
//
// Ending is what ends with the next token, as its ServiceAccount is another one and the only one that is bound then:
//   - somebody in the account's own binding;
//   - a Secret in which the cluster puts a token of one of its ServiceAccounts.
//
// Near is who may come by a token, as he may make Pods, or tokens, in the namespace of the accounts: RoleBindings there, and Secrets in which an old
// cluster keeps a token of each ServiceAccount. A cluster may make some in each namespace, so that nothing is refused for them.
type Others struct{ Lasting, Ending, Near []string }

// Others looks for them. Those that it has seen are given beside an error, too.
func (o *Owned) Others(ctx context.Context) (*Others, error) {
	f, err := o.find(ctx)
	if err != nil {
		return nil, err
	}
	all := &Others{}
	var kept []string
	if all.Lasting, err = o.lasting(ctx, f.role); err == nil && len(f.accounts) > 0 {
		all.Ending, kept, err = o.tokens(ctx, f.accounts)
	}
	if strange := f.strange(); strange != "" {
		all.Lasting = append(all.Lasting, strange)
	}
	for _, s := range f.unknown() {
		all.Ending = append(all.Ending, fmt.Sprintf("ClusterRoleBinding %s for %s", o.Name, s))
	}
	if err == nil {
		all.Near, err = o.near(ctx)
	}
	all.Near = append(kept, all.Near...)
	return all, err
}

// tokenWays are the rights in a namespace by which one comes by tokens of its ServiceAccounts.
var tokenWays = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token", "*/token"}, Verbs: []string{"create"}},
	{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"impersonate"}},
	{APIGroups: []string{""}, Resources: []string{"pods", "replicationcontrollers"}, Verbs: []string{"create", "update", "patch"}},
	{APIGroups: []string{"apps"}, Resources: []string{"daemonsets", "deployments", "replicasets", "statefulsets"}, Verbs: []string{"create", "update", "patch"}},
	{APIGroups: []string{"batch"}, Resources: []string{"cronjobs", "jobs"}, Verbs: []string{"create", "update", "patch"}},
	{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch"}},
}

// near are the RoleBindings in the namespace of the accounts that give such a right, sorted. Those of the account's own role are among what lasts.
func (o *Owned) near(ctx context.Context) ([]string, error) {
	list, err := o.client.RbacV1().RoleBindings(o.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, o.failed(err, "look for the RoleBindings in %s", o.Namespace)
	}
	var all []string
	for i := range list.Items {
		b := &list.Items[i]
		if b.RoleRef.Kind == "ClusterRole" && b.RoleRef.Name == o.Name {
			continue
		}
		rules, err := o.rulesOf(ctx, b.RoleRef)
		if err != nil {
			return all, err
		}
		if way := tokenWay(rules); way != "" {
			all = append(all, fmt.Sprintf("RoleBinding %s/%s of %s %s for %s, who may %s there", b.Namespace, b.Name, b.RoleRef.Kind, b.RoleRef.Name, subjectsOf(b.Subjects), way))
		}
	}
	slices.Sort(all)
	return all, nil
}

// rulesOf are those of a role that is bound in the namespace of the accounts, none where it is not there.
func (o *Owned) rulesOf(ctx context.Context, ref rbacv1.RoleRef) (rules []rbacv1.PolicyRule, err error) {
	if ref.Kind == "ClusterRole" {
		var role *rbacv1.ClusterRole
		if role, err = o.client.RbacV1().ClusterRoles().Get(ctx, ref.Name, metav1.GetOptions{}); err == nil {
			rules = role.Rules
		}
	} else {
		var role *rbacv1.Role
		if role, err = o.client.RbacV1().Roles(o.Namespace).Get(ctx, ref.Name, metav1.GetOptions{}); err == nil {
			rules = role.Rules
		}
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, o.failed(err, "look at the %s %s", ref.Kind, ref.Name)
	}
	return rules, nil
}

// tokenWay is the first of the ways to a token that rules give, "" for none. One for a named object is one.
func tokenWay(rules []rbacv1.PolicyRule) string {
	for _, way := range tokenWays {
		for _, resource := range way.Resources {
			for _, verb := range way.Verbs {
				if slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
					return allow([]rbacv1.PolicyRule{r}, verb, way.APIGroups[0], resource, r.ResourceNames)
				}) {
					return right(verb, way.APIGroups[0], resource, nil)
				}
			}
		}
	}
	return ""
}

// Alone is Conflict when somebody else has the rights of the account, in a way that no new token ends.
func (o *Owned) Alone(ctx context.Context) error {
	f, err := o.find(ctx)
	if err != nil {
		return err
	}
	return o.alone(ctx, f)
}

// alone is Alone, of what was found.
func (o *Owned) alone(ctx context.Context, f *found) error {
	others, err := o.lasting(ctx, f.role)
	if err != nil {
		return err
	}
	if strange := f.strange(); strange != "" {
		if o.Force {
			o.tell("it is deleted, and made again for the account: " + strange)
		} else {
			others = append(others, strange)
		}
	}
	if len(others) == 0 {
		return nil
	}
	if o.Force { // which gives nobody more rights, and ends what can be ended
		o.tell("others keep the rights of the account " + o.Name + ": " + strings.Join(others, "; "))
		return nil
	}
	return o.foreign(others...)
}

// foreign is Conflict for what others have.
func (o *Owned) foreign(others ...string) error {
	return fail.New(fail.Conflict, "others have the rights of the account %s in the cluster, or would have them: %s; find out who made it, and delete it (kubectl)", o.Name, strings.Join(others, "; "))
}

// lasting is what no new token ends, sorted.
func (o *Owned) lasting(ctx context.Context, role *rbacv1.ClusterRole) ([]string, error) {
	var all []string
	binds := func(kind, named string, ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
		if ref.Kind != "ClusterRole" || ref.Name != o.Name {
			return
		}
		all = append(all, fmt.Sprintf("%s %s for %s", kind, named, subjectsOf(subjects)))
	}
	cluster, err := o.client.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, o.failed(err, "look for the ClusterRoleBindings of %s", o.Name)
	}
	for i := range cluster.Items {
		if b := &cluster.Items[i]; b.Name != o.Name {
			binds("ClusterRoleBinding", b.Name, b.RoleRef, b.Subjects)
		}
	}
	spaces, err := o.client.RbacV1().RoleBindings(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, o.failed(err, "look for the RoleBindings of %s", o.Name)
	}
	for i := range spaces.Items {
		b := &spaces.Items[i]
		binds("RoleBinding", b.Namespace+"/"+b.Name, b.RoleRef, b.Subjects)
	}
	if role != nil {
		gather, err := o.gathering(ctx, role)
		if err != nil {
			return nil, err
		}
		all = append(all, gather...)
	}
	slices.Sort(all)
	return all, nil
}

// unknown are those in the account's binding who are none of its ServiceAccounts.
func (f *found) unknown() (who []string) {
	if f.binding == nil || f.strange() != "" {
		return nil
	}
	for i := range f.binding.Subjects {
		if s := &f.binding.Subjects[i]; !f.known(s) {
			who = append(who, subject(s))
		}
	}
	return who
}

// known says whether a subject is one of the ServiceAccounts that were found.
func (f *found) known(s *rbacv1.Subject) bool {
	return s.Kind == rbacv1.ServiceAccountKind && slices.ContainsFunc(f.accounts, func(a corev1.ServiceAccount) bool { return a.Name == s.Name && a.Namespace == s.Namespace })
}

// subjectsOf is what people are told of who is bound.
func subjectsOf(subjects []rbacv1.Subject) string {
	if len(subjects) == 0 {
		return "nobody yet"
	}
	who := make([]string, len(subjects))
	for i := range subjects {
		who[i] = subject(&subjects[i])
	}
	return strings.Join(who, ", ")
}

// subject is what people are told of one.
func subject(s *rbacv1.Subject) string {
	if s.Kind == rbacv1.ServiceAccountKind {
		return s.Kind + " " + s.Namespace + "/" + s.Name
	}
	return s.Kind + " " + s.Name
}

// gathering are the ClusterRoles that take over the rules of the account's, such as edit does with all that carry a certain label: with it everybody
// who has edit somewhere would have there what Drover has.
func (o *Owned) gathering(ctx context.Context, role *rbacv1.ClusterRole) ([]string, error) {
	if len(role.Labels) == 0 {
		return nil, nil
	}
	list, err := o.client.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, o.failed(err, "look for ClusterRoles that gather the rules of %s", o.Name)
	}
	var all []string
	for i := range list.Items {
		by := list.Items[i].AggregationRule
		if by == nil || list.Items[i].Name == o.Name {
			continue
		}
		for j := range by.ClusterRoleSelectors {
			if s, err := metav1.LabelSelectorAsSelector(&by.ClusterRoleSelectors[j]); err == nil && s.Matches(labels.Set(role.Labels)) {
				all = append(all, fmt.Sprintf("ClusterRole %s by the labels %s of ClusterRole %s", list.Items[i].Name, s, o.Name))
			}
		}
	}
	return all, nil
}

// tokens are the Secrets in which the cluster puts tokens of these accounts. Drover has none made: it asks for tokens that expire. Kept are those that
// the cluster makes of each ServiceAccount.
func (o *Owned) tokens(ctx context.Context, accounts []corev1.ServiceAccount) (made, kept []string, err error) {
	list, err := o.client.CoreV1().Secrets(o.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "type=" + string(corev1.SecretTypeServiceAccountToken)})
	if err != nil {
		return nil, nil, o.failed(err, "look for tokens in Secrets of %s", o.Namespace)
	}
	seen := map[string]bool{} // accounts with a token that the cluster has made: it makes one of each
	for i := range list.Items {
		secret := &list.Items[i]
		of := secret.Annotations[corev1.ServiceAccountNameKey]
		at := slices.IndexFunc(accounts, func(a corev1.ServiceAccount) bool { return a.Name == of })
		if at < 0 {
			continue
		}
		own := false
		if !seen[of] {
			if own, err = o.makesToken(secret, &accounts[at]); err != nil {
				return made, kept, err
			}
		}
		if own {
			seen[of] = true
			kept = append(kept, fmt.Sprintf("Secret %s/%s with a token of ServiceAccount %s that does not expire, as this cluster makes one of each: who may read Secrets there has it",
				o.Namespace, secret.Name, of))
			continue
		}
		made = append(made, fmt.Sprintf("Secret %s/%s with a token of ServiceAccount %s", o.Namespace, secret.Name, of))
	}
	return made, kept, nil
}

// tokensAsked is the first version of Kubernetes that makes no token of a ServiceAccount by itself. dockercfgGroup is served by OpenShift alone, which up to
// 4.15 makes one to pull images with, and says so with dockercfgKey.
const (
	tokensAsked    = "1.24"
	dockercfgGroup = "security.openshift.io"
	dockercfgKey   = "kubernetes.io/created-by"
	dockercfgMaker = "openshift.io/create-dockercfg-secrets"
)

// makesToken says whether the Secret is one that the cluster makes by itself for the ServiceAccount. In a newer cluster nothing is, whatever it says of itself.
func (o *Owned) makesToken(secret *corev1.Secret, a *corev1.ServiceAccount) (bool, error) {
	if !strings.HasPrefix(secret.Name, a.Name+"-token-") {
		return false, nil
	}
	if slices.ContainsFunc(a.Secrets, func(r corev1.ObjectReference) bool { return r.Name == secret.Name }) {
		told, err := o.client.Discovery().ServerVersion()
		if err != nil {
			return false, o.failed(err, "ask for the version of the cluster")
		}
		if is, err := version.ParseGeneric(told.GitVersion); err == nil && is.LessThan(version.MustParseGeneric(tokensAsked)) {
			return true, nil
		}
	}
	if secret.Annotations[dockercfgKey] != dockercfgMaker {
		return false, nil
	}
	groups, err := o.client.Discovery().ServerGroups()
	if err != nil {
		return false, o.failed(err, "ask for the groups of the cluster")
	}
	return slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == dockercfgGroup }), nil
}
