package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/fail"
)

const (
	// registrationKey names, as an annotation, the registration that an account was made for.
	registrationKey = "drover.io/registration"
	// accountKey names, as a label, the account that a ServiceAccount or a namespace was made for.
	accountKey = "drover.io/account"
	// namespaceKey names, as an annotation, the namespace of the account's ServiceAccounts.
	namespaceKey = "drover.io/account-namespace"
	rbacGroup    = "rbac.authorization.k8s.io"
)

// Owned is the account that Drover has in a cluster for one registration, as its administrator sees it: a ClusterRole and its binding, and a
// ServiceAccount for each token. With its ServiceAccount all that was made of it ends: the token, which by itself would be good until it
// expires, and whatever else somebody has had issued for that account.
type Owned struct {
	Account
	// Registration is who it is for. An account that is there for somebody else is left alone.
	Registration string
	// Waits is told of what Make waits for, once; nil for nobody.
	Waits func(what string)

	client *kubernetes.Clientset
	any    dynamic.Interface
	file   *clientcmdapi.Config
}

// Issued is a credential.
type Issued struct {
	Kubeconfig []byte
	Expires    time.Time // which the cluster may have sooner than asked for
	Account    string    // the ServiceAccount, with which it ends
}

// Own opens the account in the cluster of an administrator's kubeconfig; nothing is asked yet.
func Own(admin []byte, a Account, registration string) (*Owned, error) {
	file, err := loadAny(admin) // whoever runs this does so with a kubeconfig of his own, whatever it does and wherever it leads
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(admin)
	if err != nil {
		return nil, fail.Wrap(err, fail.Malformed, "the kubeconfig cannot be used")
	}
	o := &Owned{Account: a, Registration: registration, file: file}
	if o.client, err = kubernetes.NewForConfig(config); err == nil {
		o.any, err = dynamic.NewForConfig(config)
	}
	if err != nil {
		return nil, fail.Wrap(err, fail.Malformed, "the kubeconfig cannot be used")
	}
	return o, nil
}

// There says whether any of it is there. Conflict when what has its name is somebody else's.
func (o *Owned) There(ctx context.Context) (bool, error) {
	f, err := o.find(ctx)
	return err == nil && (f.role != nil || f.binding != nil || len(f.accounts) > 0), err
}

// found is what is there of an account.
type found struct {
	role     *rbacv1.ClusterRole        // nil when missing
	binding  *rbacv1.ClusterRoleBinding // nil when missing
	accounts []corev1.ServiceAccount
}

// find looks for what is there. What the binding names is of the account whatever it says of itself: who has a token of it could change that.
func (o *Owned) find(ctx context.Context) (*found, error) {
	f := &found{}
	role, err := o.client.RbacV1().ClusterRoles().Get(ctx, o.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		f.role, err = role, o.mine("ClusterRole", role)
	case apierrors.IsNotFound(err):
		err = nil
	default:
		err = o.failed(err, "look for the ClusterRole %s", o.Name)
	}
	if err != nil {
		return nil, err
	}
	binding, err := o.client.RbacV1().ClusterRoleBindings().Get(ctx, o.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		f.binding, err = binding, o.mine("ClusterRoleBinding", binding)
	case apierrors.IsNotFound(err):
		err = nil
	default:
		err = o.failed(err, "look for the ClusterRoleBinding %s", o.Name)
	}
	if err != nil {
		return nil, err
	}
	list, err := o.client.CoreV1().ServiceAccounts(o.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, o.failed(err, "look for ServiceAccounts in %s", o.Namespace)
	}
	for i := range list.Items {
		a := &list.Items[i]
		if a.Labels[accountKey] == o.Name && a.Annotations[registrationKey] == o.Registration || f.names(a) && strings.HasPrefix(a.Name, o.Name+"-") {
			f.accounts = append(f.accounts, *a)
		}
	}
	return f, nil
}

// names says whether the binding names an account.
func (f *found) names(a *corev1.ServiceAccount) bool {
	return f.binding != nil && slices.ContainsFunc(f.binding.Subjects, func(s rbacv1.Subject) bool {
		return s.Kind == rbacv1.ServiceAccountKind && s.Name == a.Name && s.Namespace == a.Namespace
	})
}

// mine is Conflict for what is somebody else's.
func (o *Owned) mine(kind string, object metav1.Object) error {
	whose, namespace := object.GetAnnotations()[registrationKey], object.GetAnnotations()[namespaceKey]
	if whose == o.Registration {
		if namespace != o.Namespace {
			return fail.New(fail.Conflict, "the %s %s of the cluster is for ServiceAccounts in %s: say so (--account-namespace)", kind, o.Name, namespace)
		}
		return nil
	}
	if whose == "" {
		whose = "nobody that Drover knows"
	}
	return fail.New(fail.Conflict, "the %s %s of the cluster is for %s: use another account (--account)", kind, o.Name, whose)
}

// Make makes namespace and ClusterRole, or brings them in line with what is wanted. What is there already stays, so that it can be done
// again after any death.
func (o *Owned) Make(ctx context.Context) error {
	if _, err := o.There(ctx); err != nil {
		return err
	}
	err := o.awaitNamespace(ctx)
	if apierrors.IsNotFound(err) {
		made := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": o.Namespace, "labels": map[string]any{accountKey: "namespace"}}}
		err = o.apply(ctx, "namespaces", "", made, false)
	}
	if err != nil {
		return o.failed(err, "make the namespace %s", o.Namespace)
	}
	role := map[string]any{}
	data, err := yaml.YAMLToJSON(o.Role)
	if err == nil {
		err = json.Unmarshal(data, &role)
	}
	if err != nil {
		return fail.Wrap(err, fail.Internal, "the ClusterRole cannot be read")
	}
	metadata, _ := role["metadata"].(map[string]any)
	metadata["annotations"] = o.whose()
	if err := o.apply(ctx, "clusterroles", rbacGroup, role, false); err != nil {
		return o.failed(err, "make the ClusterRole %s", o.Name)
	}
	return nil
}

// whose are the annotations of what is made.
func (o *Owned) whose() map[string]any {
	return map[string]any{registrationKey: o.Registration, namespaceKey: o.Namespace}
}

// bind gives the rights to these ServiceAccounts, and to no other one, whoever had them.
func (o *Owned) bind(ctx context.Context, names ...string) error {
	subjects := []any{}
	for _, name := range names {
		subjects = append(subjects, map[string]any{"kind": rbacv1.ServiceAccountKind, "name": name, "namespace": o.Namespace})
	}
	err := o.apply(ctx, "clusterrolebindings", rbacGroup, map[string]any{
		"apiVersion": rbacGroup + "/v1", "kind": "ClusterRoleBinding", "metadata": map[string]any{"name": o.Name, "annotations": o.whose()},
		"roleRef":  map[string]any{"apiGroup": rbacGroup, "kind": "ClusterRole", "name": o.Name},
		"subjects": subjects,
	}, true)
	if err != nil {
		return o.failed(err, "give the rights to the ServiceAccount %s", strings.Join(names, ", "))
	}
	return nil
}

// awaitNamespace looks for the namespace, and waits until one that is being deleted has gone: Drop comes to its end sooner than that.
func (o *Owned) awaitNamespace(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, namespaceTime)
	defer cancel()
	look := time.NewTicker(accountLook)
	defer look.Stop()
	for told := false; ; told = true {
		found, err := o.client.CoreV1().Namespaces().Get(ctx, o.Namespace, metav1.GetOptions{})
		if err != nil || found.DeletionTimestamp == nil {
			return err
		}
		if !told && o.Waits != nil {
			o.Waits(fmt.Sprintf("until the namespace %s, which is being deleted, has gone", o.Namespace))
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return fail.Wrap(ctx.Err(), fail.Timeout, "the namespace %s is still being deleted", o.Namespace)
		}
	}
}

// apply writes an object without a namespace; by force what somebody else has changed of it, too.
func (o *Owned) apply(ctx context.Context, resource, group string, object map[string]any, force bool) error {
	u := &unstructured.Unstructured{Object: object}
	of := o.any.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource})
	_, err := of.Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: FieldManager, Force: force})
	return err
}

// Issue makes a ServiceAccount, gives it the rights, and has a token made of it, which is good when this returns. Those before it stay good
// until Revoke.
func (o *Owned) Issue(ctx context.Context) (*Issued, error) {
	f, err := o.find(ctx)
	if err != nil {
		return nil, err
	}
	made, err := o.client.CoreV1().ServiceAccounts(o.Namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		GenerateName: o.Name + "-", Labels: map[string]string{accountKey: o.Name}, Annotations: map[string]string{registrationKey: o.Registration},
	}}, metav1.CreateOptions{FieldManager: FieldManager})
	if err != nil {
		return nil, o.failed(err, "make a ServiceAccount for %s", o.Name)
	}
	names := []string{made.Name}
	for i := range f.accounts {
		if f.names(&f.accounts[i]) {
			names = append(names, f.accounts[i].Name)
		}
	}
	if err := o.bind(ctx, names...); err != nil {
		return nil, err
	}
	account := o.Account
	account.Name = made.Name
	issued := &Issued{Account: made.Name}
	accounts := o.any.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}).Namespace(o.Namespace)
	if issued.Kubeconfig, issued.Expires, err = issue(ctx, accounts, tokenRequest(account), account, o.file); err != nil {
		return nil, o.failed(err, "ask for a token of the ServiceAccount %s", made.Name)
	}
	return issued, o.awaitRights(ctx, issued)
}

// awaitRights waits until the cluster lets a token do what its account has a right to: API servers hear of a binding a little later, and what
// Drover is refused meanwhile would count as a fault of what it applies.
func (o *Owned) awaitRights(ctx context.Context, issued *Issued) error {
	config, err := clientcmd.RESTConfigFromKubeConfig(issued.Kubeconfig)
	if err != nil {
		return fail.Wrap(err, fail.Internal, "the kubeconfig cannot be used")
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fail.Wrap(err, fail.Internal, "the kubeconfig cannot be used")
	}
	ctx, cancel := context.WithTimeout(ctx, rightsTime)
	defer cancel()
	look := time.NewTicker(accountLook)
	defer look.Stop()
	for allowed := 0; allowed < rightsLooks; {
		review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "configmaps"}},
		}, metav1.CreateOptions{})
		switch {
		case err == nil && review.Status.Allowed:
			allowed++
		case err == nil || apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err):
			allowed = 0
		default:
			return o.failed(err, "try the token of the ServiceAccount %s", issued.Account)
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return fail.Wrap(ctx.Err(), fail.Timeout, "the cluster does not give its rights to the ServiceAccount %s", issued.Account)
		}
	}
	return nil
}

const (
	namespaceTime = time.Minute      // for which a namespace that is being deleted is waited for
	rightsTime    = 30 * time.Second // for which a cluster may not know of a binding
	rightsLooks   = 3                // in a row, of which each may be answered by another API server
	accountLook   = 200 * time.Millisecond
)

// Revoke ends all tokens of the account but those of a ServiceAccount.
func (o *Owned) Revoke(ctx context.Context, but string) error {
	f, err := o.find(ctx)
	if err != nil {
		return err
	}
	if err := o.bind(ctx, but); err != nil { // first: what cannot be deleted has no rights then
		return err
	}
	return o.end(ctx, f.accounts, func(name string) bool { return name != but })
}

// End ends the tokens of one ServiceAccount.
func (o *Owned) End(ctx context.Context, account string) error {
	f, err := o.find(ctx)
	if err != nil {
		return err
	}
	return o.end(ctx, f.accounts, func(name string) bool { return name == account })
}

// end deletes those of these accounts that are to end.
func (o *Owned) end(ctx context.Context, accounts []corev1.ServiceAccount, ends func(name string) bool) error {
	for i := range accounts {
		a := &accounts[i]
		if !ends(a.Name) {
			continue
		}
		if err := o.client.CoreV1().ServiceAccounts(a.Namespace).Delete(ctx, a.Name, only(a)); err != nil && !apierrors.IsNotFound(err) {
			return o.failed(err, "delete the ServiceAccount %s", a.Name)
		}
	}
	return nil
}

// only has an object deleted that was looked at, and none of its name that came since.
func only(object metav1.Object) metav1.DeleteOptions {
	uid := object.GetUID()
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
}

// Drop takes away what Make and Issue have made, and the namespace when Make has made it and no other account is in it. Each says by itself
// whose it is, so that it can be done again after any death. It says whether anything was there.
func (o *Owned) Drop(ctx context.Context) (bool, error) {
	f, err := o.find(ctx)
	if err != nil {
		return false, err
	}
	if f.binding != nil {
		err := o.client.RbacV1().ClusterRoleBindings().Delete(ctx, o.Name, only(f.binding))
		if err != nil && !apierrors.IsNotFound(err) {
			return true, o.failed(err, "delete the ClusterRoleBinding %s", o.Name)
		}
	}
	if err := o.end(ctx, f.accounts, func(string) bool { return true }); err != nil {
		return true, err
	}
	if err := o.dropNamespace(ctx); err != nil {
		return true, err
	}
	if f.role != nil { // last: where none of it is left a second run has nothing to do
		err := o.client.RbacV1().ClusterRoles().Delete(ctx, o.Name, only(f.role))
		if err != nil && !apierrors.IsNotFound(err) {
			return true, o.failed(err, "delete the ClusterRole %s", o.Name)
		}
	}
	return f.role != nil || f.binding != nil || len(f.accounts) > 0, nil
}

func (o *Owned) dropNamespace(ctx context.Context) error {
	namespace, err := o.client.CoreV1().Namespaces().Get(ctx, o.Namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return o.failed(err, "look at the namespace %s", o.Namespace)
	}
	accounts, err := o.client.CoreV1().ServiceAccounts(o.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return o.failed(err, "look at the namespace %s", o.Namespace)
	}
	for i := range accounts.Items {
		if accounts.Items[i].Name != "default" {
			return nil
		}
	}
	if namespace.Labels[accountKey] == "" || namespace.DeletionTimestamp != nil {
		return nil
	}
	err = o.client.CoreV1().Namespaces().Delete(ctx, o.Namespace, only(namespace))
	if err != nil && !apierrors.IsNotFound(err) {
		return o.failed(err, "delete the namespace %s", o.Namespace)
	}
	return nil
}

// failed is an error of the cluster, with what was tried.
func (o *Owned) failed(err error, format string, args ...any) error {
	err = kindOf(err)
	return fail.Wrap(err, fail.KindOf(err), "%s: %s", fmt.Sprintf(format, args...), fail.TextOf(err))
}

// Seen is what a cluster is like with a credential.
type Seen struct {
	Version string        // of its API server, such as v1.34.1
	Latency time.Duration // of a small request, the middle one of three
	// Lacks are rights of the role that the credential does not have, such as "delete apps/*". Known is false where the cluster
	// cannot say it.
	Lacks []string
	Known bool
}

// See asks a cluster with a credential what it is like. The role is the manifest, in YAML, of what it is to be allowed.
func See(ctx context.Context, kubeconfig, role []byte) (*Seen, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, fail.Wrap(err, fail.Malformed, "the kubeconfig cannot be used")
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fail.Wrap(err, fail.Malformed, "the kubeconfig cannot be used")
	}
	s := &Seen{}
	var took []time.Duration
	for range 3 {
		begun := time.Now()
		answer, err := client.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx)
		if err != nil {
			return nil, kindOf(err)
		}
		took = append(took, time.Since(begun))
		var is version.Info
		if err := json.Unmarshal(answer, &is); err != nil {
			return nil, fail.New(fail.Unavailable, "what answers is no API server of Kubernetes")
		}
		s.Version = is.GitVersion
	}
	slices.Sort(took)
	s.Latency = took[1]
	review, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx,
		&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"}}, metav1.CreateOptions{})
	if err != nil {
		return s, kindOf(err)
	}
	s.Known = !review.Status.Incomplete
	s.Lacks, err = lacking(role, review.Status.ResourceRules)
	return s, err
}

// lacking are what a role allows and rules do not.
func lacking(role []byte, has []authorizationv1.ResourceRule) (lacks []string, err error) {
	var wanted rbacv1.ClusterRole
	if err := yaml.Unmarshal(role, &wanted); err != nil {
		return nil, fail.Wrap(err, fail.Internal, "the ClusterRole cannot be read")
	}
	rules := make([]rbacv1.PolicyRule, len(has))
	for i, r := range has {
		rules[i] = rbacv1.PolicyRule{APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames, Verbs: r.Verbs}
	}
	for i := range wanted.Rules {
		w := &wanted.Rules[i]
		for _, group := range w.APIGroups {
			for _, resource := range w.Resources {
				for _, verb := range w.Verbs {
					if !allow(rules, verb, group, resource, w.ResourceNames) {
						lacks = append(lacks, right(verb, group, resource, nil))
					}
				}
			}
		}
	}
	return lacks, nil
}
