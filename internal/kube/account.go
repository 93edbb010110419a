package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
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
	// accountKey names, as a label, the account that a Secret or a namespace was made for.
	accountKey = "drover.io/account"
	rbacGroup  = "rbac.authorization.k8s.io"
)

// Owned is the account that Drover has in a cluster for one registration, as its administrator sees it. Its token is bound to a Secret
// without content: with that Secret the token ends, which by itself it would not before it expires.
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
	Secret     string    // to whose life the token is bound
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

// There says whether the account is there. Conflict when it is somebody else's.
func (o *Owned) There(ctx context.Context) (bool, error) {
	account, err := o.client.CoreV1().ServiceAccounts(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, o.failed(err, "look for the ServiceAccount %s", o.Name)
	}
	if whose := account.Annotations[registrationKey]; whose != o.Registration {
		if whose == "" {
			whose = "nobody that Drover knows"
		}
		return false, fail.New(fail.Conflict, "the ServiceAccount %s/%s of the cluster is for %s: use another one (--account)", o.Namespace, o.Name, whose)
	}
	return true, nil
}

// Make makes namespace, ServiceAccount, ClusterRole and binding, or brings them in line with what is wanted. What is there already stays, so
// that it can be done again after any death.
func (o *Owned) Make(ctx context.Context) error {
	if _, err := o.There(ctx); err != nil {
		return err
	}
	err := o.awaitNamespace(ctx)
	if apierrors.IsNotFound(err) {
		made := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": o.Namespace, "labels": map[string]any{accountKey: "namespace"}}}
		err = o.apply(ctx, schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "", made)
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
	whose := map[string]any{registrationKey: o.Registration}
	metadata, _ := role["metadata"].(map[string]any)
	metadata["annotations"] = whose
	for _, one := range []struct {
		resource  schema.GroupVersionResource
		namespace string
		object    map[string]any
	}{
		{schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}, o.Namespace, map[string]any{
			"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": o.Name, "namespace": o.Namespace, "annotations": whose},
		}},
		{schema.GroupVersionResource{Group: rbacGroup, Version: "v1", Resource: "clusterroles"}, "", role},
		{schema.GroupVersionResource{Group: rbacGroup, Version: "v1", Resource: "clusterrolebindings"}, "", map[string]any{
			"apiVersion": rbacGroup + "/v1", "kind": "ClusterRoleBinding", "metadata": map[string]any{"name": o.Name, "annotations": whose},
			"roleRef":  map[string]any{"apiGroup": rbacGroup, "kind": "ClusterRole", "name": o.Name},
			"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": o.Name, "namespace": o.Namespace}},
		}},
	} {
		if err := o.apply(ctx, one.resource, one.namespace, one.object); err != nil {
			return o.failed(err, "make the %s %s", one.object["kind"], o.Name)
		}
	}
	return nil
}

// awaitNamespace looks for the namespace, and waits until one that is being deleted has gone: Drop comes to its end sooner than that.
func (o *Owned) awaitNamespace(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, namespaceTime)
	defer cancel()
	look := time.NewTicker(namespaceLook)
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

const (
	namespaceTime = time.Minute // for which a namespace that is being deleted is waited for
	namespaceLook = 200 * time.Millisecond
)

func (o *Owned) apply(ctx context.Context, r schema.GroupVersionResource, namespace string, object map[string]any) error {
	u := &unstructured.Unstructured{Object: object}
	var in dynamic.ResourceInterface = o.any.Resource(r)
	if namespace != "" {
		in = o.any.Resource(r).Namespace(namespace)
	}
	_, err := in.Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: FieldManager})
	return err
}

// Issue makes a Secret and a token that ends with it. The one before stays good until Revoke.
func (o *Owned) Issue(ctx context.Context) (*Issued, error) {
	bound := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{
		"generateName": o.Name + "-", "labels": map[string]any{accountKey: o.Name}, "annotations": map[string]any{registrationKey: o.Registration},
	}}}
	secrets := o.any.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(o.Namespace)
	made, err := secrets.Create(ctx, bound, metav1.CreateOptions{FieldManager: FieldManager})
	if err != nil {
		return nil, o.failed(err, "make a Secret for the token of the ServiceAccount %s", o.Name)
	}
	asked := tokenRequest(o.Account)
	_ = unstructured.SetNestedMap(asked.Object, map[string]any{
		"apiVersion": "v1", "kind": "Secret", "name": made.GetName(), "uid": string(made.GetUID()),
	}, "spec", "boundObjectRef")
	issued := &Issued{Secret: made.GetName()}
	accounts := o.any.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}).Namespace(o.Namespace)
	if issued.Kubeconfig, issued.Expires, err = issue(ctx, accounts, asked, o.Account, o.file); err != nil {
		return nil, o.failed(err, "ask for a token of the ServiceAccount %s", o.Name)
	}
	return issued, nil
}

// Revoke ends all tokens of the account but the one that is bound to a Secret, "" for all.
func (o *Owned) Revoke(ctx context.Context, but string) error {
	secrets := o.client.CoreV1().Secrets(o.Namespace)
	found, err := secrets.List(ctx, metav1.ListOptions{LabelSelector: accountKey + "=" + o.Name})
	if err != nil {
		return o.failed(err, "look for earlier tokens of the ServiceAccount %s", o.Name)
	}
	for i := range found.Items {
		s := &found.Items[i]
		if s.Name == but || s.Annotations[registrationKey] != o.Registration {
			continue
		}
		if err := secrets.Delete(ctx, s.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return o.failed(err, "end an earlier token of the ServiceAccount %s", o.Name)
		}
	}
	return nil
}

// End ends one token.
func (o *Owned) End(ctx context.Context, secret string) error {
	err := o.client.CoreV1().Secrets(o.Namespace).Delete(ctx, secret, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return o.failed(err, "end the token of the Secret %s", secret)
	}
	return nil
}

// Drop takes away what Make and Issue have made. The ServiceAccount, by which it is known whose the rest is, goes last but for
// the namespace, which goes when Make has made it and no other account is in it. It says whether anything was there.
func (o *Owned) Drop(ctx context.Context) (bool, error) {
	there, err := o.There(ctx)
	if err != nil || !there {
		return false, err
	}
	gone := func(err error) error {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	if err := o.Revoke(ctx, ""); err != nil {
		return true, err
	}
	for _, drop := range []struct {
		what string
		do   func() error
	}{
		{"ClusterRoleBinding", func() error {
			return o.client.RbacV1().ClusterRoleBindings().Delete(ctx, o.Name, metav1.DeleteOptions{})
		}},
		{"ClusterRole", func() error { return o.client.RbacV1().ClusterRoles().Delete(ctx, o.Name, metav1.DeleteOptions{}) }},
		{"ServiceAccount", func() error {
			return o.client.CoreV1().ServiceAccounts(o.Namespace).Delete(ctx, o.Name, metav1.DeleteOptions{})
		}},
	} {
		if err := gone(drop.do()); err != nil {
			return true, o.failed(err, "delete the %s %s", drop.what, o.Name)
		}
	}
	return true, o.dropNamespace(ctx)
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
	if namespace.Labels[accountKey] == "" {
		return nil
	}
	err = o.client.CoreV1().Namespaces().Delete(ctx, o.Namespace, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &namespace.UID}})
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
	var wanted struct {
		Rules []struct {
			APIGroups, Resources, ResourceNames, Verbs []string
		}
	}
	if err := yaml.Unmarshal(role, &wanted); err != nil {
		return nil, fail.Wrap(err, fail.Internal, "the ClusterRole cannot be read")
	}
	in := func(list []string, one string) bool { return slices.Contains(list, one) || slices.Contains(list, "*") }
	for _, w := range wanted.Rules {
		for _, group := range w.APIGroups {
			for _, resource := range w.Resources {
				for _, verb := range w.Verbs {
					allowed := slices.ContainsFunc(has, func(r authorizationv1.ResourceRule) bool {
						names := len(r.ResourceNames) == 0 || len(w.ResourceNames) > 0 && !slices.ContainsFunc(w.ResourceNames, func(n string) bool { return !slices.Contains(r.ResourceNames, n) })
						return in(r.APIGroups, group) && in(r.Resources, resource) && in(r.Verbs, verb) && names
					})
					if !allowed {
						if group != "" {
							lacks = append(lacks, verb+" "+group+"/"+resource)
						} else {
							lacks = append(lacks, verb+" "+resource)
						}
					}
				}
			}
		}
	}
	return lacks, nil
}
