package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/access"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
)

const (
	// registrationKey names, as an annotation, the registration that an account was made for, and installationKey the installation of
	// Drover that has it.
	registrationKey = "drover.io/registration"
	installationKey = plan.InstallationAnnotation
	// accountKey names, as a label, the account that a ServiceAccount or a namespace was made for.
	accountKey = "drover.io/account"
	// namespaceKey names, as an annotation and as a label, the namespace of the account's ServiceAccounts.
	namespaceKey = "drover.io/account-namespace"
	// claimKey is, as an annotation of a namespace that was made for accounts, another text each time that somebody needs it.
	claimKey  = "drover.io/claimed"
	rbacGroup = "rbac.authorization.k8s.io"
)

// Owned is the account that Drover has in a cluster for one registration, as its administrator sees it: a ClusterRole and its binding, and a
// ServiceAccount for each token. With its ServiceAccount all that was made of it ends: the token, which by itself would be good until it
// expires, and whatever else somebody has had issued for that account.
type Owned struct {
	Account
	// Holder is who it is for. An account that is there for somebody else is left alone.
	Holder
	// Waits is told of what Make waits for, once; nil for nobody.
	Waits func(what string)
	// Anew says that nothing is registered: no token of the account is one that anybody needs, and Make ends those that are there.
	Anew bool
	// Force has what is called as the account be taken for it, whatever it says of itself: who has stolen a token may have changed that. So is told of
	// each that says something else, or is shared with others, once; nil for nobody.
	Force bool
	Told  func(what string)

	own    map[types.UID]bool // ServiceAccounts that There has seen and that Issue has made: those of others that come meanwhile are not this command's to end
	told   []string
	dry    []string // with what is written that is not to be done
	raised *raise   // what Make has done and Issue has not gone on with
	client *kubernetes.Clientset
	any    dynamic.Interface
	file   *clientcmdapi.Config
}

// Holder is a registration of an installation of Drover, by its path and its id. Two installations may call a cluster the same.
type Holder struct{ Installation, Registration string }

// holderOf is who an object says it was made for.
func holderOf(object metav1.Object) Holder {
	return Holder{object.GetAnnotations()[installationKey], object.GetAnnotations()[registrationKey]}
}

// has says whether an object was made for the holder. v0.1.0 named the registration alone: whoever names the account of then (--account) takes it over.
func (h Holder) has(object metav1.Object) bool {
	whose := holderOf(object)
	return whose.Registration == h.Registration && (whose.Installation == h.Installation || whose.Installation == "")
}

// annotations are what holderOf reads.
func (h Holder) annotations() map[string]string {
	return map[string]string{registrationKey: h.Registration, installationKey: h.Installation}
}

// String is for people.
func (h Holder) String() string {
	switch {
	case h.Registration == "":
		return "nobody that Drover knows"
	case h.Installation == "":
		return h.Registration
	default:
		return h.Registration + " of the installation " + h.Installation
	}
}

// Issued is a credential.
type Issued struct {
	Kubeconfig []byte
	Expires    time.Time // which the cluster may have sooner than asked for
	Account    string    // the ServiceAccount, with which it ends

	made   types.UID          // of the ServiceAccount
	before map[types.UID]bool // the ServiceAccounts that were there before it
}

// Own opens the account in the cluster of an administrator's kubeconfig; nothing is asked yet.
func Own(admin []byte, a Account, holder Holder) (*Owned, error) {
	file, err := loadAny(admin) // whoever runs this does so with a kubeconfig of his own, whatever it does and wherever it leads
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(admin)
	if err != nil {
		return nil, fail.Wrap(err, fail.Malformed, "the kubeconfig cannot be used")
	}
	config.Timeout = cmp.Or(config.Timeout, accountCall)
	config.WarningHandler = rest.NoWarnings{} // of kinds that are old, when all are looked at
	config.QPS = -1                           // without a pace of its own: a look at 200 kinds would take most of a minute
	o := &Owned{Account: a, Holder: holder, file: file}
	if o.client, err = kubernetes.NewForConfig(config); err == nil {
		o.any, err = dynamic.NewForConfig(config)
	}
	if err != nil {
		return nil, fail.Wrap(err, fail.Malformed, "the kubeconfig cannot be used")
	}
	return o, nil
}

// There says whether any of it is there. Conflict when what has its name is somebody else's. Drop ends what this has seen, and nothing that comes later.
func (o *Owned) There(ctx context.Context) (bool, error) {
	f, err := o.find(ctx)
	if err == nil {
		o.owns(f.uids())
	}
	return err == nil && (f.role != nil || f.binding != nil || len(f.accounts) > 0), err
}

// owns notes ServiceAccounts that Drop may end.
func (o *Owned) owns(accounts map[types.UID]bool) {
	if o.own == nil {
		o.own = map[types.UID]bool{}
	}
	maps.Copy(o.own, accounts)
}

// found is what is there of an account.
type found struct {
	role     *rbacv1.ClusterRole        // nil when missing
	binding  *rbacv1.ClusterRoleBinding // nil when missing
	accounts []corev1.ServiceAccount
}

// Accounts are the ServiceAccounts that are there, of each of which there may be a token, sorted.
func (o *Owned) Accounts(ctx context.Context) ([]string, error) {
	f, err := o.find(ctx)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(f.accounts))
	for i := range f.accounts {
		names[i] = f.accounts[i].Name
	}
	slices.Sort(names)
	return names, nil
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
		if a.Labels[accountKey] == o.Name && (o.has(a) || o.Force) || f.names(a) && strings.HasPrefix(a.Name, o.Name+"-") {
			f.accounts = append(f.accounts, *a)
		}
	}
	return f, nil
}

// strange is what people are told of a binding of the account's name that gives other rights than those of its role, "" where it does not.
func (f *found) strange() string {
	b := f.binding
	if b == nil || b.RoleRef.Kind == "ClusterRole" && b.RoleRef.Name == b.Name {
		return ""
	}
	return fmt.Sprintf("ClusterRoleBinding %s of %s %s for %s", b.Name, b.RoleRef.Kind, b.RoleRef.Name, subjectsOf(b.Subjects))
}

// uids are those of the ServiceAccounts.
func (f *found) uids() map[types.UID]bool {
	uids := map[types.UID]bool{}
	for i := range f.accounts {
		uids[f.accounts[i].UID] = true
	}
	return uids
}

// boundBut are the ServiceAccounts that have the rights, without some.
func (f *found) boundBut(uids map[types.UID]bool) (names []string) {
	for _, name := range f.bound() {
		if !slices.ContainsFunc(f.accounts, func(a corev1.ServiceAccount) bool { return a.Name == name && uids[a.UID] }) {
			names = append(names, name)
		}
	}
	return names
}

// bound are the ServiceAccounts that have the rights.
func (f *found) bound() (names []string) {
	if f.strange() != "" {
		return nil
	}
	for i := range f.accounts {
		if f.names(&f.accounts[i]) {
			names = append(names, f.accounts[i].Name)
		}
	}
	return names
}

// names says whether the binding names an account.
func (f *found) names(a *corev1.ServiceAccount) bool {
	return f.binding != nil && slices.ContainsFunc(f.binding.Subjects, func(s rbacv1.Subject) bool {
		return s.Kind == rbacv1.ServiceAccountKind && s.Name == a.Name && s.Namespace == a.Namespace
	})
}

// mine is Conflict for what is somebody else's, by what it says of itself.
func (o *Owned) mine(kind string, object metav1.Object) error {
	var says string
	switch namespace := object.GetAnnotations()[namespaceKey]; {
	case !o.has(object):
		says = fmt.Sprintf("the %s %s of the cluster is for %s", kind, o.Name, holderOf(object))
	case namespace != o.Namespace:
		says = fmt.Sprintf("the %s %s of the cluster is for ServiceAccounts in %s", kind, o.Name, cmp.Or(namespace, "no namespace"))
	default:
		return nil
	}
	if o.Force {
		o.tell(says + "; it is taken for the account of " + o.String() + " all the same")
		return nil
	}
	return fail.New(fail.Conflict, "%s: use another account (--account, --account-namespace), or, if you know that somebody has changed what it says, --force of 'cluster rotate' and 'cluster remove'", says)
}

// tell tells something once.
func (o *Owned) tell(what string) {
	if o.Told != nil && !slices.Contains(o.told, what) {
		o.told = append(o.told, what)
		o.Told(what)
	}
}

// Restore has the ClusterRole say whose it is; its rights stay as they are.
func (o *Owned) Restore(ctx context.Context) error {
	f, err := o.find(ctx)
	if err != nil || f.role == nil {
		return err
	}
	role := f.role.DeepCopy() // with its resourceVersion: nothing that came since is written over
	if role.Annotations == nil {
		role.Annotations = map[string]string{}
	}
	for name, value := range o.whose() {
		role.Annotations[name] = value.(string)
	}
	if role.Labels == nil {
		role.Labels = map[string]string{}
	}
	role.Labels[namespaceKey] = o.Namespace
	if maps.Equal(role.Annotations, f.role.Annotations) && maps.Equal(role.Labels, f.role.Labels) {
		return nil
	}
	if _, err := o.client.RbacV1().ClusterRoles().Update(ctx, role, metav1.UpdateOptions{FieldManager: FieldManager}); err != nil {
		return o.failed(err, "write whose the ClusterRole %s is", o.Name)
	}
	return nil
}

// raise is what Make has done.
type raise struct {
	bound       []string            // ServiceAccounts that had the rights before
	before, now *rbacv1.ClusterRole // before is nil where there was none
}

// Changed says whether Make has changed a ClusterRole that was there.
func (o *Owned) Changed() bool {
	return o.raised != nil && o.raised.before != nil && o.raised.before.ResourceVersion != o.raised.now.ResourceVersion
}

// Make makes ClusterRole and namespace, or brings them in line with what is wanted. What is there already stays, so that it can be done
// again after any death. Conflict when others would have the rights by it: whoever may make ClusterRoles could have made one of that name, without
// rights and with the account's annotations, and have bound himself to it. What fails after the role has got its rights takes them away again.
func (o *Owned) Make(ctx context.Context) error {
	f, err := o.find(ctx)
	if err != nil {
		return err
	}
	if err := o.alone(ctx, f); err != nil {
		return err
	}
	bound, err := o.settle(ctx, f)
	if err != nil {
		return err
	}
	o.raised = nil
	role, err := o.applyRole(ctx, f.role)
	if err != nil {
		return o.unanswered(ctx, f.role, err)
	}
	o.raised = &raise{bound: bound, before: f.role, now: role}
	// From here on only who has all these rights may bind the role. Who did so since the first look had to be as fast as this.
	if f, err = o.find(ctx); err == nil {
		err = o.still(ctx, f)
	}
	if err != nil {
		return o.lowered(ctx, err)
	}
	if err := o.claimNamespace(ctx); err != nil {
		return o.lowered(ctx, o.failed(err, "make the namespace %s", o.Namespace))
	}
	return nil
}

// settle leaves the rights, before there are more of them, to the ServiceAccounts whose tokens may be needed, and says which these are.
func (o *Owned) settle(ctx context.Context, f *found) (bound []string, err error) {
	finished, err := f.finished()
	if err != nil {
		return nil, err
	}
	if finished && !o.Anew {
		bound = f.bound()
		if len(f.unknown()) > 0 {
			err = o.bind(ctx, f, bound...)
		}
		return bound, err
	}
	if !o.Anew && len(f.accounts) > 0 {
		o.tell("the ClusterRole " + o.Name + " has not the rights that 'cluster add' gives it: the tokens of its ServiceAccounts end, as somebody else may have made them")
	}
	if f.binding != nil {
		if err := o.bind(ctx, f); err != nil {
			return nil, err
		}
	}
	return nil, o.end(ctx, f.accounts, func(*corev1.ServiceAccount) bool { return true })
}

// finished says whether the role has the rights that each add gives it, and each since v0.1.0 has given it: with an account that was made in advance
// by who has few rights it is not so. A cluster may be registered all the same, by another kubeconfig.
func (f *found) finished() (bool, error) {
	if f.role == nil {
		return false, nil
	}
	var least rbacv1.ClusterRole
	data, err := access.ClusterRole(f.role.Name, domain.ReportNone, false)
	if err == nil {
		err = yaml.Unmarshal(data, &least)
	}
	if err != nil {
		return false, fail.Wrap(err, fail.Internal, "the least ClusterRole cannot be read")
	}
	for i := range least.Rules {
		if len(beyond(&least.Rules[i], f.role.Rules)) > 0 {
			return false, nil
		}
	}
	return true, nil
}

// still is Conflict when somebody else has the rights, and where Make has raised them also when somebody has come by them since the look before that: the
// account's own binding tells nobody apart who calls himself as its ServiceAccounts are called.
func (o *Owned) still(ctx context.Context, f *found) error {
	if err := o.alone(ctx, f); err != nil || o.raised == nil {
		return err
	}
	who := f.unknown()
	for _, name := range f.bound() {
		if !slices.Contains(o.raised.bound, name) {
			who = append(who, rbacv1.ServiceAccountKind+" "+o.Namespace+"/"+name)
		}
	}
	if len(who) == 0 {
		return nil
	}
	return fail.New(fail.Conflict, "while the account %s got its rights in the cluster, somebody has given them to others: ClusterRoleBinding %s for %s; find out who it was", o.Name, o.Name, strings.Join(who, ", "))
}

// unanswered is for a ClusterRole that could not be written, and says why. Where the cluster has not refused, it may have done it all the same, as its answer
// may have been lost: what the role has got then is taken away again.
func (o *Owned) unanswered(ctx context.Context, before *rbacv1.ClusterRole, why error) error {
	if !fail.IsUnanswered(why) && !fail.Is(why, fail.Internal) && ctx.Err() == nil {
		return why
	}
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), accountCall)
	defer cancel()
	role, err := o.client.RbacV1().ClusterRoles().Get(look, o.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return why
	case err != nil:
		err = o.failed(err, "look for the ClusterRole %s", o.Name)
		return fail.Wrap(errors.Join(why, err), fail.KindOf(why), "%s; it may have got its rights all the same, so run it again: %s", fail.TextOf(why), fail.TextOf(err))
	case before == nil && !o.has(role), before != nil && (role.UID != before.UID || role.ResourceVersion == before.ResourceVersion):
		return why
	}
	o.raised = &raise{before: before, now: role}
	return o.lowered(ctx, why)
}

// lowered takes away again what Make has given, and says why.
func (o *Owned) lowered(ctx context.Context, why error) error {
	if o.raised == nil {
		return why
	}
	err := o.lower(context.WithoutCancel(ctx), o.raised)
	if o.raised = nil; err != nil {
		return fail.Wrap(errors.Join(why, err), fail.KindOf(why), "%s; the ClusterRole %s keeps the rights that it has got: %s", fail.TextOf(why), o.Name, fail.TextOf(err))
	}
	return why
}

// lower gives a role the rights that it had before, or deletes it where none was. It is applied, as Make does it: what is written in another way belongs to
// another manager of fields, in whose way the next Make would be.
func (o *Owned) lower(ctx context.Context, r *raise) (err error) {
	ctx, cancel := context.WithTimeout(ctx, accountCall)
	defer cancel()
	if r.before == nil {
		err = o.client.RbacV1().ClusterRoles().Delete(ctx, o.Name, only(r.now))
	} else {
		rules := []any{} // also where it had none
		for i := range r.before.Rules {
			rule, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&r.before.Rules[i])
			if err != nil {
				return fail.Wrap(err, fail.Internal, "the ClusterRole cannot be written")
			}
			rules = append(rules, rule)
		}
		_, err = o.apply(ctx, "clusterroles", rbacGroup, map[string]any{
			"apiVersion": rbacGroup + "/v1", "kind": "ClusterRole", "rules": rules,
			"metadata": map[string]any{
				"name": o.Name, "uid": string(r.now.UID), // one that has gone meanwhile is not made again
				"annotations": o.whose(), "labels": map[string]any{namespaceKey: o.Namespace},
			},
		}, true)
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // of its uid, by which it is another one
		return o.failed(err, "take its rights away from the ClusterRole %s", o.Name)
	}
	return nil
}

// applyRole writes the ClusterRole, and gives what the cluster has then. One that was looked at is written as it was then: labels that it got since
// could give its rights to others.
func (o *Owned) applyRole(ctx context.Context, found *rbacv1.ClusterRole) (*rbacv1.ClusterRole, error) {
	role := map[string]any{}
	data, err := yaml.YAMLToJSON(o.Role)
	if err == nil {
		err = json.Unmarshal(data, &role)
	}
	if err != nil {
		return nil, fail.Wrap(err, fail.Internal, "the ClusterRole cannot be read")
	}
	metadata, _ := role["metadata"].(map[string]any)
	metadata["annotations"], metadata["labels"] = o.whose(), map[string]any{namespaceKey: o.Namespace}
	if found != nil {
		metadata["resourceVersion"] = found.ResourceVersion
	}
	applied, err := o.apply(ctx, "clusterroles", rbacGroup, role, false)
	if err != nil {
		return nil, o.failed(err, "make the ClusterRole %s", o.Name)
	}
	made := &rbacv1.ClusterRole{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(applied.Object, made); err != nil {
		return nil, fail.Wrap(err, fail.Unavailable, "the cluster has answered with a ClusterRole that cannot be read")
	}
	return made, nil
}

// claimNamespace makes the namespace, or says in one that was made for accounts that somebody needs it. The ClusterRole is there by then.
// Whoever takes away another account deletes the namespace only if it is as it was before he looked for such ClusterRoles
// (dropNamespace): so either he sees the role, or the claim, or is done before, and then the namespace is made anew.
func (o *Owned) claimNamespace(ctx context.Context) error {
	for {
		found, err := o.awaitNamespace(ctx)
		switch {
		case err != nil && !apierrors.IsNotFound(err):
			return err
		case err == nil && found.Labels[accountKey] == "":
			return nil // somebody else's, whom Drover deletes nothing of
		}
		claimed, err := o.claim(ctx)
		if err != nil || claimed.GetDeletionTimestamp() == nil {
			return err
		}
	}
}

// claim writes the namespace.
func (o *Owned) claim(ctx context.Context) (*unstructured.Unstructured, error) {
	return o.apply(ctx, "namespaces", "", map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{
		"name": o.Namespace, "labels": map[string]any{accountKey: "namespace"}, "annotations": map[string]any{claimKey: strconv.FormatUint(rand.Uint64(), 36)},
	}}, true)
}

// whose are the annotations of what is made.
func (o *Owned) whose() map[string]any {
	whose := map[string]any{namespaceKey: o.Namespace}
	for name, value := range o.annotations() {
		whose[name] = value
	}
	return whose
}

// bind gives the rights to these ServiceAccounts, and to no other one, whoever had them when it was looked. That somebody has written the binding since is
// an error (isOvertaken): another command may have given them to its own ServiceAccount.
func (o *Owned) bind(ctx context.Context, f *found, names ...string) error {
	if strange := f.strange(); strange != "" { // which role a binding is of cannot be changed
		if !o.Force {
			return o.foreign(strange)
		}
		if err := o.client.RbacV1().ClusterRoleBindings().Delete(ctx, o.Name, only(f.binding)); err != nil && !apierrors.IsNotFound(err) {
			return o.failed(err, "delete the ClusterRoleBinding %s", o.Name)
		}
	}
	subjects := []any{}
	for _, name := range names {
		subjects = append(subjects, map[string]any{"kind": rbacv1.ServiceAccountKind, "name": name, "namespace": o.Namespace})
	}
	metadata := map[string]any{"name": o.Name, "annotations": o.whose()}
	binding := map[string]any{
		"apiVersion": rbacGroup + "/v1", "kind": "ClusterRoleBinding", "metadata": metadata,
		"roleRef":  map[string]any{"apiGroup": rbacGroup, "kind": "ClusterRole", "name": o.Name},
		"subjects": subjects,
	}
	var err error
	if f.binding == nil || f.strange() != "" { // an apply would write over one that has come since
		of := o.any.Resource(schema.GroupVersionResource{Group: rbacGroup, Version: "v1", Resource: "clusterrolebindings"})
		_, err = of.Create(ctx, &unstructured.Unstructured{Object: binding}, metav1.CreateOptions{FieldManager: FieldManager, DryRun: o.dry})
	} else {
		metadata["resourceVersion"] = f.binding.ResourceVersion
		_, err = o.apply(ctx, "clusterrolebindings", rbacGroup, binding, true)
	}
	if err != nil {
		return o.failed(err, "give the rights to the ServiceAccount %s", strings.Join(names, ", "))
	}
	return nil
}

// isOvertaken says of an error that somebody else has written what was to be written.
func isOvertaken(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
}

// bindTries is how often it is looked anew who has the rights when others give them to theirs at the same time.
const bindTries = 5

// rebind does what ends with a write of the binding, by a look of its own, and again when another command has written the binding meanwhile.
func (o *Owned) rebind(ctx context.Context, do func(f *found) error) (err error) {
	for range bindTries {
		f, err := o.find(ctx)
		if err != nil {
			return err
		}
		if err = do(f); !isOvertaken(err) {
			return err
		}
	}
	return fail.New(fail.Conflict, "other commands change the account %s in the cluster all the time; run it again", o.Name)
}

// awaitNamespace looks for the namespace, and waits until one that is being deleted has gone: Drop comes to its end sooner than that.
func (o *Owned) awaitNamespace(ctx context.Context) (*corev1.Namespace, error) {
	ctx, cancel := context.WithTimeout(ctx, namespaceTime)
	defer cancel()
	look := time.NewTicker(accountLook)
	defer look.Stop()
	for told := false; ; told = true {
		found, err := o.client.CoreV1().Namespaces().Get(ctx, o.Namespace, metav1.GetOptions{})
		if err != nil || found.DeletionTimestamp == nil {
			return found, err
		}
		if !told && o.Waits != nil {
			o.Waits(fmt.Sprintf("until the namespace %s, which is being deleted, has gone", o.Namespace))
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil, fail.Wrap(ctx.Err(), fail.Timeout, "the namespace %s is still being deleted", o.Namespace)
		}
	}
}

// apply writes an object without a namespace; by force what somebody else has changed of it, too.
func (o *Owned) apply(ctx context.Context, resource, group string, object map[string]any, force bool) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{Object: object}
	of := o.any.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource})
	return of.Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: FieldManager, Force: force, DryRun: o.dry})
}

// Issue makes a ServiceAccount, gives it the rights, and has a token made of it, which is good when this returns. Those before it stay good
// until Revoke. Of what fails nothing is left: neither the ServiceAccount, nor the rights that Make has given the role.
func (o *Owned) Issue(ctx context.Context) (*Issued, error) {
	f, err := o.find(ctx)
	if err == nil {
		err = o.still(ctx, f)
	}
	if err != nil {
		return nil, o.lowered(ctx, err)
	}
	made, err := o.newAccount(ctx)
	if err != nil {
		return nil, o.lowered(ctx, err)
	}
	o.owns(map[types.UID]bool{made.UID: true})
	issued, err := o.issueFor(ctx, f, made)
	if err != nil {
		return nil, o.lowered(ctx, o.unmade(ctx, made, err))
	}
	o.raised = nil
	return issued, nil
}

// issueFor gives a new ServiceAccount the rights, and has a token made of it.
func (o *Owned) issueFor(ctx context.Context, f *found, made *corev1.ServiceAccount) (*Issued, error) {
	err := o.rebind(ctx, func(now *found) error { return o.bind(ctx, now, append(now.bound(), made.Name)...) })
	if err != nil {
		return nil, err
	}
	account := o.Account
	account.Name = made.Name
	issued := &Issued{Account: made.Name, made: made.UID, before: f.uids()}
	accounts := o.any.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}).Namespace(o.Namespace)
	if issued.Kubeconfig, issued.Expires, err = issue(ctx, accounts, tokenRequest(account), account, o.file); err != nil {
		return nil, o.failed(err, "ask for a token of the ServiceAccount %s", made.Name)
	}
	return issued, o.awaitRights(ctx, issued)
}

// unmade takes away again a ServiceAccount of which nobody has got a token, with its rights, and says why.
func (o *Owned) unmade(ctx context.Context, made *corev1.ServiceAccount, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), accountCall)
	defer cancel()
	err := o.rebind(ctx, func(f *found) error {
		if !f.names(made) {
			return nil
		}
		return o.bind(ctx, f, f.boundBut(map[types.UID]bool{made.UID: true})...)
	})
	if err = errors.Join(err, o.end(ctx, []corev1.ServiceAccount{*made}, func(*corev1.ServiceAccount) bool { return true })); err != nil {
		return fail.Wrap(errors.Join(why, err), fail.KindOf(why), "%s; the ServiceAccount %s could not be taken away again: %s", fail.TextOf(why), made.Name, fail.TextOf(err))
	}
	return why
}

// newAccount makes a ServiceAccount, which has no rights yet.
func (o *Owned) newAccount(ctx context.Context) (*corev1.ServiceAccount, error) {
	made, err := o.client.CoreV1().ServiceAccounts(o.Namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		GenerateName: o.Name + "-", Labels: map[string]string{accountKey: o.Name}, Annotations: o.annotations(),
	}}, metav1.CreateOptions{FieldManager: FieldManager, DryRun: o.dry})
	if err != nil {
		return nil, o.failed(err, "make a ServiceAccount for %s", o.Name)
	}
	return made, nil
}

// awaitRights waits until the cluster lets a token do what its account has a right to: API servers hear of a binding a little later, and what
// Drover is refused meanwhile would count as a fault of what it applies.
func (o *Owned) awaitRights(ctx context.Context, issued *Issued) error {
	config, err := clientcmd.RESTConfigFromKubeConfig(issued.Kubeconfig)
	if err != nil {
		return fail.Wrap(err, fail.Internal, "the kubeconfig cannot be used")
	}
	config.Timeout = accountCall
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
	accountCall   = 30 * time.Second // of one request: who runs this waits for it
)

// Revoke ends the tokens of the account that were there before one was issued. Those of a ServiceAccount that another command has made since stay: they may
// be registered by now. Conflict, with nothing ended, where another command has ended the one that was issued: then its own is registered, or it is to be
// run again.
func (o *Owned) Revoke(ctx context.Context, issued *Issued) error {
	var ending *found
	err := o.rebind(ctx, func(f *found) error {
		if !slices.ContainsFunc(f.accounts, func(a corev1.ServiceAccount) bool { return a.UID == issued.made && f.names(&a) }) {
			return fail.New(fail.Conflict, "another command has replaced the token of the account %s in the cluster meanwhile, and ended that of the ServiceAccount %s; "+
				"nothing else is ended; unless the other one has registered its token, run it again", o.Name, issued.Account)
		}
		ending = f
		return o.bind(ctx, f, f.boundBut(issued.before)...) // first: what cannot be deleted has no rights then
	})
	if err != nil {
		return err
	}
	return o.end(ctx, ending.accounts, func(a *corev1.ServiceAccount) bool { return issued.before[a.UID] })
}

// End ends the tokens of one ServiceAccount.
func (o *Owned) End(ctx context.Context, account string) error {
	f, err := o.find(ctx)
	if err != nil {
		return err
	}
	return o.end(ctx, f.accounts, func(a *corev1.ServiceAccount) bool { return a.Name == account })
}

// end deletes those of these accounts that are to end.
func (o *Owned) end(ctx context.Context, accounts []corev1.ServiceAccount, ends func(a *corev1.ServiceAccount) bool) error {
	for i := range accounts {
		a := &accounts[i]
		if !ends(a) {
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

// Drop takes away what There has seen and Issue has made, and the namespace when Make has made it and no other account is in it. Each says by itself
// whose it is, so that it can be done again after any death. It says whether anything was there. Conflict where another command has made a ServiceAccount
// of the account since: that one stays, and what gives it its rights.
func (o *Owned) Drop(ctx context.Context) (bool, error) {
	var last *found
	err := o.rebind(ctx, func(f *found) error {
		last = f
		switch others := f.boundBut(o.own); {
		case f.binding == nil:
			return nil
		case len(others) > 0:
			return o.bind(ctx, f, others...)
		}
		as := only(f.binding)
		as.Preconditions.ResourceVersion = &f.binding.ResourceVersion
		if err := o.client.RbacV1().ClusterRoleBindings().Delete(ctx, o.Name, as); err != nil && !apierrors.IsNotFound(err) {
			return o.failed(err, "delete the ClusterRoleBinding %s", o.Name)
		}
		return nil
	})
	if last == nil {
		return false, err
	}
	if err != nil {
		return true, err
	}
	if err := o.end(ctx, last.accounts, func(a *corev1.ServiceAccount) bool { return o.own[a.UID] }); err != nil {
		return true, err
	}
	f, err := o.find(ctx)
	if err != nil {
		return true, err
	}
	for i := range f.accounts {
		if a := &f.accounts[i]; !o.own[a.UID] {
			return true, fail.New(fail.Conflict, "another command has made the ServiceAccount %s for the account %s meanwhile, which stays with its rights; "+
				"if the cluster is not to be registered any more, run it again", a.Name, o.Name)
		}
	}
	if err := o.dropNamespace(ctx); err != nil {
		return true, err
	}
	if last.role != nil { // at the end: where none of it is left a second run has nothing to do
		err := o.client.RbacV1().ClusterRoles().Delete(ctx, o.Name, only(last.role))
		if err != nil && !apierrors.IsNotFound(err) {
			return true, o.failed(err, "delete the ClusterRole %s", o.Name)
		}
	}
	return last.role != nil || last.binding != nil || len(last.accounts) > 0, nil
}

// dropNamespace deletes the namespace that was made for accounts, when none is in it or about to be (see claimNamespace), and nothing else is. That it was
// made for them is what a label says, which anybody has put there who may write namespaces; so what others have in it is never deleted by its word.
func (o *Owned) dropNamespace(ctx context.Context) error {
	for {
		namespace, err := o.client.CoreV1().Namespaces().Get(ctx, o.Namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return o.failed(err, "look at the namespace %s", o.Namespace)
		}
		if namespace.Labels[accountKey] == "" || namespace.DeletionTimestamp != nil {
			return nil
		}
		needed, err := o.others(ctx)
		if err != nil || needed {
			return err
		}
		if held := o.holds(ctx); held != "" {
			o.tell("the namespace " + o.Namespace + " stays: " + held)
			return nil
		}
		as := only(namespace)
		as.Preconditions.ResourceVersion = &namespace.ResourceVersion
		err = o.client.CoreV1().Namespaces().Delete(ctx, o.Namespace, as)
		switch {
		case err == nil || apierrors.IsNotFound(err):
			return nil
		case !apierrors.IsConflict(err): // which says that somebody has written it since: it is looked at again
			return o.failed(err, "delete the namespace %s", o.Namespace)
		}
	}
}

// others says whether other accounts are in the namespace, or are being made.
func (o *Owned) others(ctx context.Context) (bool, error) {
	accounts, err := o.client.CoreV1().ServiceAccounts(o.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, o.failed(err, "look at the namespace %s", o.Namespace)
	}
	for i := range accounts.Items {
		if accounts.Items[i].Labels[accountKey] != "" { // any other one is what holds names
			return true, nil
		}
	}
	roles, err := o.client.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{LabelSelector: namespaceKey + "=" + o.Namespace})
	if err != nil {
		return false, o.failed(err, "look for other accounts in the namespace %s", o.Namespace)
	}
	return slices.ContainsFunc(roles.Items, func(r rbacv1.ClusterRole) bool { return r.Name != o.Name }), nil
}

// holds says what is in the namespace that Kubernetes does not put into every one, or why that cannot be told; "" for nothing.
func (o *Owned) holds(ctx context.Context) string {
	lists, err := discovery.ServerPreferredNamespacedResources(o.client.Discovery())
	if err != nil {
		return "the cluster does not say which kinds there are: " + fail.TextOf(kindOf(err))
	}
	// The kinds of the core group are looked at last, just before the namespace is deleted: what most people make is of those.
	slices.SortStableFunc(lists, func(a, b *metav1.APIResourceList) int {
		return cmp.Compare(strings.Count(b.GroupVersion, "/"), strings.Count(a.GroupVersion, "/"))
	})
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return "the cluster has a group that cannot be read: " + list.GroupVersion
		}
		for i := range list.APIResources {
			kind := &list.APIResources[i]
			if kind.Kind == "Event" || !slices.Contains([]string(kind.Verbs), "list") || !slices.Contains([]string(kind.Verbs), "delete") {
				continue // events tell of what is not there any more; what nobody may delete is computed
			}
			found, err := o.any.Resource(gv.WithResource(kind.Name)).Namespace(o.Namespace).List(ctx, metav1.ListOptions{Limit: holdsPage})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				continue
			}
			if err != nil {
				return "whether there are " + kind.Name + " in it cannot be told: " + fail.TextOf(kindOf(err))
			}
			for _, x := range found.Items {
				if x.GetDeletionTimestamp() == nil && (gv.Group != "" || !o.isClusters(kind.Kind, &x)) {
					return kind.Kind + " " + x.GetName() + " is in it"
				}
			}
		}
	}
	return ""
}

// isClusters says whether an object of the core group is one that Kubernetes puts into each namespace. Before 1.24 it keeps a token of each ServiceAccount
// there: that of the account's own, which has just been deleted, may not have gone yet.
func (o *Owned) isClusters(kind string, x *unstructured.Unstructured) bool {
	switch kind + " " + x.GetName() {
	case "ServiceAccount default", "ConfigMap kube-root-ca.crt":
		return true
	}
	holds, _, _ := unstructured.NestedString(x.Object, "type")
	of := x.GetAnnotations()[corev1.ServiceAccountNameKey]
	return kind == "Secret" && holds == string(corev1.SecretTypeServiceAccountToken) && strings.HasPrefix(x.GetName(), of+"-token-") &&
		(of == "default" || strings.HasPrefix(of, o.Name+"-"))
}

// holdsPage is how many of a kind are looked at: more than those that Kubernetes puts there.
const holdsPage = 5

// failed is an error of the cluster, with what was tried.
func (o *Owned) failed(err error, format string, args ...any) error {
	err = kindOf(err)
	return fail.Wrap(err, fail.KindOf(err), "%s: %s", fmt.Sprintf(format, args...), fail.TextOf(err))
}
