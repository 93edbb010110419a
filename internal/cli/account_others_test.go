package cli_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/drover-io/drover/internal/kubetest"
)

const rbac = "rbac.authorization.k8s.io"

// of are the objects of a kind of RBAC.
func (a *account) of(resource string) dynamic.NamespaceableResourceInterface {
	return a.admin.Resource(schema.GroupVersionResource{Group: rbac, Version: "v1", Resource: resource})
}

// bind binds the account's ClusterRole to somebody, in the cluster or in a namespace.
func (a *account) bind(name, namespace string, subject map[string]any) (unbind func()) {
	a.t.Helper()
	kind, in := "ClusterRoleBinding", dynamic.ResourceInterface(a.of("clusterrolebindings"))
	if namespace != "" {
		kind, in = "RoleBinding", a.of("rolebindings").Namespace(namespace)
	}
	_, err := in.Create(a.t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": rbac + "/v1", "kind": kind, "metadata": map[string]any{"name": name},
		"roleRef":  map[string]any{"apiGroup": rbac, "kind": "ClusterRole", "name": a.name},
		"subjects": []any{subject},
	}}, metav1.CreateOptions{})
	require.NoError(a.t, err)
	return func() { require.NoError(a.t, in.Delete(a.t.Context(), name, metav1.DeleteOptions{})) }
}

// role makes the account's ClusterRole as somebody else would: with its annotations, and without a right.
func (a *account) role(installation string, labels map[string]any) {
	a.t.Helper()
	_, err := a.of("clusterroles").Create(a.t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": rbac + "/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": a.name, "labels": labels, "annotations": map[string]any{
			"drover.io/registration": edge01, "drover.io/installation": installation, "drover.io/account-namespace": a.name,
		}},
	}}, metav1.CreateOptions{})
	require.NoError(a.t, err)
}

// rules is how many the account's ClusterRole has.
func (a *account) rules() int {
	a.t.Helper()
	role, err := a.of("clusterroles").Get(a.t.Context(), a.name, metav1.GetOptions{})
	require.NoError(a.t, err)
	rules, _, _ := unstructured.NestedSlice(role.Object, "rules")
	return len(rules)
}

// bindAs makes the account's own binding as somebody else would: with its annotations, of a ClusterRole, for somebody.
func (a *account) bindAs(installation, role string, subject map[string]any) (unbind func()) {
	a.t.Helper()
	_, err := a.of("clusterrolebindings").Create(a.t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": rbac + "/v1", "kind": "ClusterRoleBinding", "metadata": map[string]any{"name": a.name, "annotations": map[string]any{
			"drover.io/registration": edge01, "drover.io/installation": installation, "drover.io/account-namespace": a.name,
		}},
		"roleRef":  map[string]any{"apiGroup": rbac, "kind": "ClusterRole", "name": role},
		"subjects": []any{subject},
	}}, metav1.CreateOptions{})
	require.NoError(a.t, err)
	return func() {
		require.NoError(a.t, a.of("clusterrolebindings").Delete(a.t.Context(), a.name, metav1.DeleteOptions{}))
	}
}

// serviceAccount makes one, and is the subject that it is.
func (a *account) serviceAccount(name string) map[string]any {
	a.t.Helper()
	_, err := a.serviceAccounts().Create(a.t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": name},
	}}, metav1.CreateOptions{})
	require.NoError(a.t, err)
	return map[string]any{"kind": "ServiceAccount", "name": name, "namespace": a.name}
}

// serviceAccounts are those in the account's namespace.
func (a *account) serviceAccounts() dynamic.ResourceInterface {
	return a.admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}).Namespace(a.name)
}

// refused says that a command fails, with all of this in what it says.
func (a *account) refused(args []string, says ...string) {
	a.t.Helper()
	r := a.run(args...)
	require.Equal(a.t, 1, r.code, r.out+r.err)
	for _, text := range says {
		require.Contains(a.t, r.err, text)
	}
}

var (
	eve    = map[string]any{"kind": "User", "apiGroup": rbac, "name": "eve"}
	devils = map[string]any{"kind": "Group", "apiGroup": rbac, "name": "devils"}
)

// TestNobodyElseGetsTheRightsOfTheAccount: who may make ClusterRoles and bindings in a cluster makes them in advance, by the name and with the annotations
// of the account that is to come. He gets nothing of it, and is named.
func TestNobodyElseGetsTheRightsOfTheAccount(t *testing.T) {
	a := newAccount(t)
	add, dry := append([]string{"cluster", "add"}, a.at...), append([]string{"cluster", "add", "--dry-run"}, a.at...)
	a.role(a.installation(), map[string]any{rbac + "/aggregate-to-edit": "true"})
	unbind := a.bind(a.name+"-eve", "", eve)
	free := a.bind("devils-"+a.name, "default", devils)
	for _, args := range [][]string{add, dry} {
		a.refused(args, "ClusterRoleBinding "+a.name+"-eve for User eve", "RoleBinding default/devils-"+a.name+" for Group devils", "ClusterRole edit by the labels")
	}
	require.Zero(t, a.rules())
	require.Equal(t, 3, a.run("cluster", "check", "site/edge01").code, "nothing is registered")
	unbind()
	free()
	a.refused(add, "ClusterRole edit by the labels "+rbac+"/aggregate-to-edit=true")
	require.Zero(t, a.rules())

	// A binding may be there before the role.
	unbind = a.bind(a.name+"-eve", "", eve)
	require.NoError(t, a.of("clusterroles").Delete(t.Context(), a.name, metav1.DeleteOptions{}))
	a.refused(add, "ClusterRoleBinding "+a.name+"-eve for User eve")
	require.False(t, a.has("clusterroles"))
	unbind()

	// Who made a ServiceAccount in advance, and the account's own binding for it, has a token of what ends before the role gets its rights.
	kubetest.MakeNamespace(t, a.admin, a.name)
	accounts := a.serviceAccounts()
	a.role(a.installation(), nil)
	a.bindAs(a.installation(), a.name, a.serviceAccount(a.name+"-early"))
	early := true
	a.answer = func(out http.ResponseWriter, r *http.Request, api http.Handler) {
		if r.Method != http.MethodGet { // to be registered, with a role that has its rights
			_, err := accounts.Get(r.Context(), a.name+"-early", metav1.GetOptions{})
			early = early && err == nil
		}
		api.ServeHTTP(out, r)
	}
	a.done(add...)
	require.False(t, early)
	require.NotZero(t, a.rules())

	// Who comes later has stolen a token.
	check := append([]string{"cluster", "check"}, a.at...)
	a.done(check...)
	good := a.sent
	unbind = a.bind(a.name+"-eve", "default", eve)
	for _, args := range [][]string{{"rotate"}, {"rotate", "--dry-run"}, {"add"}, {"add", "--dry-run"}} {
		a.refused(append(append([]string{"cluster"}, args...), a.at...), "RoleBinding default/"+a.name+"-eve for User eve")
	}
	require.Equal(t, string(good), string(a.sent))
	require.True(t, a.works())
	r := a.run(check...)
	require.Equal(t, 1, r.code, r.out+r.err)
	require.Contains(t, r.out, "  RoleBinding default/"+a.name+"-eve for User eve\n")
	unbind()

	// What ends with the next token is in no one's way, and told.
	list, err := accounts.List(t.Context(), metav1.ListOptions{LabelSelector: "drover.io/account=" + a.name})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	_, err = a.admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(a.name).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
		"metadata": map[string]any{"name": "hidden", "annotations": map[string]any{"kubernetes.io/service-account.name": list.Items[0].GetName()}},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = a.of("clusterrolebindings").Patch(t.Context(), a.name, types.JSONPatchType,
		[]byte(`[{"op": "add", "path": "/subjects/-", "value": {"kind": "User", "apiGroup": "`+rbac+`", "name": "eve"}}]`), metav1.PatchOptions{})
	require.NoError(t, err)
	r = a.run(check...)
	require.Equal(t, 1, r.code, r.out+r.err)
	require.Contains(t, r.out, "  Secret "+a.name+"/hidden with a token of ServiceAccount "+list.Items[0].GetName()+"\n")
	require.Contains(t, r.out, "  ClusterRoleBinding "+a.name+" for User eve\n")
	a.done(append([]string{"cluster", "rotate"}, a.at...)...)
	a.done(check...)
}

// TestWhoBindsTheRoleMeanwhile: between the look at the bindings and the rights that the role gets. The role has none afterwards.
func TestWhoBindsTheRoleMeanwhile(t *testing.T) {
	for says, binds := range map[string]func(a *account, installation string) (unbind func()){
		"ClusterRoleBinding %s-eve for User eve": func(a *account, _ string) func() { return a.bind(a.name+"-eve", "", eve) },
		"ClusterRoleBinding %s for User eve":     func(a *account, installation string) func() { return a.bindAs(installation, a.name, eve) },
		"ClusterRoleBinding %s for ServiceAccount %[1]s/%[1]s-eve": func(a *account, installation string) func() {
			kubetest.MakeNamespace(a.t, a.admin, a.name)
			return a.bindAs(installation, a.name, a.serviceAccount(a.name+"-eve"))
		},
		"the ClusterRoleBinding %s of the cluster is for nobody": func(a *account, _ string) func() { return a.bind(a.name, "", eve) },
	} {
		for _, before := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/before=%t", says, before), func(t *testing.T) {
				t.Parallel()
				b := newBorder(t)
				a := b.account
				installation := a.installation()
				if before {
					a.role(installation, nil)
				}
				bound := b.meanwhile(func() { binds(a, installation) })
				a.refused(append([]string{"cluster", "add"}, a.at...), fmt.Sprintf(says, a.name))
				require.True(t, *bound)
				if before {
					require.Zero(t, a.rules())
				} else {
					require.False(t, a.has("clusterroles"))
				}
			})
		}
	}
}

// meanwhile has something done, once, between the looks of the next add and the rights that the role gets.
func (b *border) meanwhile(do func()) *bool {
	done := false
	b.first = func(r *http.Request) {
		if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/clusterroles/"+b.account.name) && !done {
			done = true
			do()
		}
	}
	return &done
}

// TestAnAddAfterRightsWereTakenAway: a role that was lowered again has the rights that it had, and the next add gives it others.
func TestAnAddAfterRightsWereTakenAway(t *testing.T) {
	b := newBorder(t)
	a := b.account
	add := func(groups ...string) []string {
		return append(append([]string{"cluster", "add"}, a.at...), groups...)
	}
	a.done(add()...)
	rules := a.rules()
	var unbind func()
	bound := b.meanwhile(func() { unbind = a.bind(a.name+"-eve", "", eve) })
	a.refused(add("--groups", "example.com"), "ClusterRoleBinding "+a.name+"-eve for User eve")
	require.True(t, *bound)
	require.Equal(t, rules, a.rules())
	require.NotContains(t, a.groups(), "example.com")
	require.True(t, a.works(), "what was registered before")
	unbind()
	role := "clusterrole " + a.name + " "
	require.Contains(t, a.done(add("--groups", "example.org")...), role+"configured in the cluster\n")
	require.Contains(t, a.done(add("--groups", "example.org")...), role+"unchanged in the cluster\n")
	require.Contains(t, a.groups(), "example.org")
	require.NotContains(t, a.groups(), "example.com")
	require.True(t, a.works())

	// Whatever fails after the raise is no reason to leave the rights.
	b.first = func(r *http.Request) {
		if r.URL.Path == "/api/v1/namespaces/"+a.name {
			r.Header.Set("Authorization", "Bearer of-nobody")
		}
	}
	r := a.run(add("--groups", "example.net")...)
	require.NotZero(t, r.code)
	require.Contains(t, r.err, "make the namespace "+a.name)
	require.NotContains(t, a.groups(), "example.net")
	b.first = nil
	a.done(add("--groups", "example.net")...)
	require.Contains(t, a.groups(), "example.net")
}

// once is true for the first write of a method to what has this in its path.
func once(method, path string) func(r *http.Request) bool {
	var met atomic.Bool
	return func(r *http.Request) bool {
		return r.Method == method && strings.Contains(r.URL.Path, path) && met.CompareAndSwap(false, true)
	}
}

// TestARoleWhoseAnswerIsLost has got its rights, and whoever asked has been told nothing: it has the rights afterwards that it had before.
func TestARoleWhoseAnswerIsLost(t *testing.T) {
	for before, make := range map[string]func(a *account){
		"none":           func(*account) {},
		"without rights": func(a *account) { a.role(a.installation(), nil) },
		"finished":       func(a *account) { a.done(append([]string{"cluster", "add"}, a.at...)...) },
	} {
		t.Run(before, func(t *testing.T) {
			t.Parallel()
			b := newBorder(t)
			a := b.account
			make(a)
			var done atomic.Bool
			patched := once(http.MethodPatch, "/clusterroles/"+a.name)
			b.lost = func(r *http.Request) bool {
				met := patched(r)
				done.CompareAndSwap(false, met)
				return met
			}
			add := append(append([]string{"cluster", "add"}, a.at...), "--groups", "example.com")
			r := a.run(add...)
			require.NotZero(t, r.code)
			require.Contains(t, r.err, "make the ClusterRole "+a.name)
			require.True(t, done.Load())
			switch before {
			case "none":
				require.False(t, a.has("clusterroles"))
			case "without rights":
				require.Zero(t, a.rules())
			default:
				require.NotContains(t, a.groups(), "example.com")
				require.True(t, a.works())
			}
			a.done(add...)
			require.Contains(t, a.groups(), "example.com")
			require.True(t, a.works())
		})
	}
}

// onceBound is true for the first write of the account's binding, which is made where there is none.
func onceBound(a *account) func(r *http.Request) bool {
	var met atomic.Bool
	return func(r *http.Request) bool {
		made := r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/clusterrolebindings")
		written := r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/clusterrolebindings/"+a.name)
		return (made || written) && met.CompareAndSwap(false, true)
	}
}

// TestATokenThatIsNotIssued leaves nothing behind: no ServiceAccount, and not the rights that the role has got for it.
func TestATokenThatIsNotIssued(t *testing.T) {
	for step, fails := range map[string]func(a *account) func(*http.Request) bool{
		"the ServiceAccount is refused": func(a *account) func(*http.Request) bool {
			return once(http.MethodPost, "/namespaces/"+a.name+"/serviceaccounts")
		},
		"the binding is refused": func(a *account) func(*http.Request) bool {
			return onceBound(a)
		},
		"the token is refused": func(*account) func(*http.Request) bool { return once(http.MethodPost, "/token") },
		"the binding's answer is lost": func(a *account) func(*http.Request) bool {
			return onceBound(a)
		},
		"the token's answer is lost": func(*account) func(*http.Request) bool { return once(http.MethodPost, "/token") },
	} {
		for _, known := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/known=%t", step, known), func(t *testing.T) {
				t.Parallel()
				b := newBorder(t)
				a := b.account
				accounts, groups := 0, []string(nil)
				if known {
					a.done(append([]string{"cluster", "add"}, a.at...)...)
					accounts, groups = 1, a.groups()
				}
				failing := fails(a)
				if strings.HasSuffix(step, "lost") {
					b.lost = failing
				} else {
					b.first = func(r *http.Request) {
						if failing(r) {
							r.Header.Set("Authorization", "Bearer of-nobody")
						}
					}
				}
				add := append(append([]string{"cluster", "add"}, a.at...), "--groups", "example.com")
				r := a.run(add...)
				require.NotZero(t, r.code)
				require.NotContains(t, r.err, "could not be taken away again")
				list, err := a.serviceAccounts().List(t.Context(), metav1.ListOptions{LabelSelector: "drover.io/account=" + a.name})
				require.NoError(t, err)
				require.Len(t, list.Items, accounts)
				if known {
					require.Equal(t, groups, a.groups())
					require.True(t, a.works())
				} else {
					require.False(t, a.has("clusterroles"))
				}
				if a.has("clusterrolebindings") {
					binding, err := a.of("clusterrolebindings").Get(t.Context(), a.name, metav1.GetOptions{})
					require.NoError(t, err)
					subjects, _, err := unstructured.NestedSlice(binding.Object, "subjects")
					require.NoError(t, err)
					require.Len(t, subjects, accounts)
				}
				b.first, b.lost = nil, nil
				a.done(add...)
				require.True(t, a.works())
			})
		}
	}
}

// TestWhoMayComeByATokenIsNamed: a RoleBinding in the namespace of the accounts by which somebody may make tokens, or Pods. Nothing is refused for it.
func TestWhoMayComeByATokenIsNamed(t *testing.T) {
	a := newAccount(t)
	a.done(append([]string{"cluster", "add"}, a.at...)...)
	in := func(resource string) dynamic.ResourceInterface { return a.of(resource).Namespace(a.name) }
	for name, verb := range map[string]string{"maker": "create", "reader": "get"} {
		_, err := in("roles").Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": rbac + "/v1", "kind": "Role", "metadata": map[string]any{"name": name},
			"rules": []any{map[string]any{"apiGroups": []any{""}, "resources": []any{"pods"}, "verbs": []any{verb}}},
		}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	bind := func(kind, role string) {
		_, err := in("rolebindings").Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": rbac + "/v1", "kind": "RoleBinding", "metadata": map[string]any{"name": role},
			"roleRef": map[string]any{"apiGroup": rbac, "kind": kind, "name": role}, "subjects": []any{devils},
		}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	check := append([]string{"cluster", "check"}, a.at...)
	bind("Role", "reader")
	bind("Role", "of-nothing")
	a.done(check...)
	bind("Role", "maker")
	bind("ClusterRole", "cluster-admin")
	r := a.run(check...)
	require.Zero(t, r.code, "some clusters make such bindings in each namespace: %s", r.out+r.err)
	require.Contains(t, r.out, "  RoleBinding "+a.name+"/maker of Role maker for Group devils, who may create pods there\n")
	require.Contains(t, r.out, "  RoleBinding "+a.name+"/cluster-admin of ClusterRole cluster-admin for Group devils, who may create serviceaccounts/token there\n")
	require.NotContains(t, r.out, "reader")
	require.NotContains(t, r.out, "of-nothing")
	a.done(append([]string{"cluster", "rotate"}, a.at...)...)
}

// TestAClusterOfAnotherKubeconfigHasNoAccountYet: what is there by its name was made by somebody else, though the cluster is registered. Nobody has a token
// of it when the role gets its rights, also where the API refuses the new one.
func TestAClusterOfAnotherKubeconfigHasNoAccountYet(t *testing.T) {
	a := newAccount(t)
	a.done(append(append([]string{"cluster", "add"}, a.at[:3]...), "--use-own-credentials")...)
	kubetest.MakeNamespace(t, a.admin, a.name)
	a.role(a.installation(), nil)
	a.bindAs(a.installation(), a.name, a.serviceAccount(a.name+"-early"))
	a.answer = func(out http.ResponseWriter, r *http.Request, api http.Handler) {
		if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/clusters") {
			refuse(out, "no", http.StatusBadRequest)
			return
		}
		api.ServeHTTP(out, r)
	}
	add := append([]string{"cluster", "add"}, a.at...)
	a.refused(add, "the tokens of its ServiceAccounts end")
	require.NotZero(t, a.rules())
	_, err := a.serviceAccounts().Get(t.Context(), a.name+"-early", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	binding, err := a.of("clusterrolebindings").Get(t.Context(), a.name, metav1.GetOptions{})
	require.NoError(t, err)
	subjects, _, err := unstructured.NestedSlice(binding.Object, "subjects")
	require.NoError(t, err)
	require.Len(t, subjects, 1, "of the token that was refused")
	a.answer = nil
	for range 2 { // an add leaves an account that is Drover's
		r := a.run(add...)
		require.Zero(t, r.code, r.err)
		require.NotContains(t, r.err, "its ServiceAccounts end")
		require.True(t, a.works())
	}
}

// groups are the API groups that the account's ClusterRole names.
func (a *account) groups() (all []string) {
	a.t.Helper()
	role, err := a.of("clusterroles").Get(a.t.Context(), a.name, metav1.GetOptions{})
	require.NoError(a.t, err)
	rules, _, err := unstructured.NestedSlice(role.Object, "rules")
	require.NoError(a.t, err)
	for _, rule := range rules {
		groups, _, err := unstructured.NestedStringSlice(rule.(map[string]any), "apiGroups")
		require.NoError(a.t, err)
		all = append(all, groups...)
	}
	return all
}

// TestWhatTheAccountSaysWasChanged: who has stolen a token may change the annotations of ClusterRole and binding, and bind somebody else. Neither keeps the token
// alive when the administrator says so.
func TestWhatTheAccountSaysWasChanged(t *testing.T) {
	a := newAccount(t)
	run := func(command string, more ...string) []string {
		return append(append([]string{"cluster", command}, a.at...), more...)
	}
	changed := func() {
		for resource, annotation := range map[string]string{"clusterroles": "drover.io/registration", "clusterrolebindings": "drover.io/account-namespace"} {
			_, err := a.of(resource).Patch(t.Context(), a.name, types.MergePatchType, []byte(`{"metadata": {"annotations": {"`+annotation+`": "of-nobody"}}}`), metav1.PatchOptions{})
			require.NoError(t, err)
		}
	}
	a.done(run("add")...)
	stolen := a.sent
	changed()
	for _, command := range []string{"add", "rotate", "remove"} {
		a.refused(run(command), "the ClusterRole "+a.name+" of the cluster is for of-nobody", "--force")
	}
	require.True(t, a.works(), "nothing is done")
	unbind := a.bind(a.name+"-eve", "", eve)
	r := a.run(run("rotate", "--force")...)
	require.Zero(t, r.code, r.out+r.err)
	require.Contains(t, r.err, "the ClusterRole "+a.name+" of the cluster is for of-nobody")
	require.Contains(t, r.err, "the ClusterRoleBinding "+a.name+" of the cluster is for ServiceAccounts in of-nobody")
	require.Contains(t, r.err, "ClusterRoleBinding "+a.name+"-eve for User eve")
	require.True(t, a.works())
	good := a.sent
	a.sent = stolen
	a.ends()
	a.sent = good
	unbind()
	a.done(run("rotate")...) // which says again whose it is
	changed()
	r = a.run(run("remove", "--force")...)
	require.Zero(t, r.code, r.out+r.err)
	require.Contains(t, r.err, "is for of-nobody")
	require.False(t, a.has("clusterroles"))
	require.False(t, a.has("clusterrolebindings"))
	a.ends()
}

// TestWhatComesWhileANamespaceIsLookedAt: the look at all kinds of a cluster takes a while. The usual ones come last.
func TestWhatComesWhileANamespaceIsLookedAt(t *testing.T) {
	b := newBorder(t)
	a := b.account
	a.done(append([]string{"cluster", "add"}, a.at...)...)
	made := false
	b.first = func(r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Path == "/apis/apps/v1/namespaces/"+a.name+"/controllerrevisions" {
			made = true
			_, err := a.admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(a.name).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "theirs"},
			}}, metav1.CreateOptions{})
			require.NoError(t, err)
		}
	}
	r := a.run(append([]string{"cluster", "remove"}, a.at...)...)
	require.Zero(t, r.code, r.out+r.err)
	require.True(t, made)
	require.Contains(t, r.err, "the namespace "+a.name+" stays: ConfigMap theirs is in it")
	namespaces := a.admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	there, err := namespaces.Get(t.Context(), a.name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Nil(t, there.GetDeletionTimestamp())
	require.NoError(t, namespaces.Delete(t.Context(), a.name, metav1.DeleteOptions{}))
}

// TestWhatAClusterPutsIntoItsNamespaces: OpenShift has ServiceAccounts in each, of which it is said that they keep it, and Kubernetes before 1.24 a token.
func TestWhatAClusterPutsIntoItsNamespaces(t *testing.T) {
	a := newAccount(t)
	add, remove := append([]string{"cluster", "add"}, a.at...), append([]string{"cluster", "remove"}, a.at...)
	a.done(add...)
	in := func(resource string) dynamic.ResourceInterface {
		return a.admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).Namespace(a.name)
	}
	for resource, object := range map[string]map[string]any{
		"serviceaccounts": {"kind": "ServiceAccount", "metadata": map[string]any{"name": "builder"}},
		"secrets": {"kind": "Secret", "type": "kubernetes.io/service-account-token", "metadata": map[string]any{
			"name": "default-token-x7k2p", "annotations": map[string]any{"kubernetes.io/service-account.name": "default"},
		}},
	} {
		object["apiVersion"] = "v1"
		_, err := in(resource).Create(t.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	r := a.run(remove...)
	require.Zero(t, r.code, r.out+r.err)
	require.Contains(t, r.err, "the namespace "+a.name+" stays: ServiceAccount builder is in it")
	require.NoError(t, in("serviceaccounts").Delete(t.Context(), "builder", metav1.DeleteOptions{}))
	a.done(add...)
	r = a.run(remove...)
	require.Zero(t, r.code, r.out+r.err)
	require.NotContains(t, r.err, "stays")
	there, err := a.admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Get(t.Context(), a.name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		require.NoError(t, err)
		require.NotNil(t, there.GetDeletionTimestamp())
	}
}

// TestABindingOfTheAccountsNameForAnotherRole: it is not the account's, whatever it says, and stands where that has to be.
func TestABindingOfTheAccountsNameForAnotherRole(t *testing.T) {
	a := newAccount(t)
	run := func(command string, more ...string) []string {
		return append(append([]string{"cluster", command}, a.at...), more...)
	}
	a.done(run("add")...)
	require.NoError(t, a.of("clusterrolebindings").Delete(t.Context(), a.name, metav1.DeleteOptions{}))
	a.bindAs(a.installation(), "view", eve)
	const says = "ClusterRoleBinding %s of ClusterRole view for User eve"
	for _, command := range [][]string{run("add"), run("add", "--dry-run"), run("rotate")} {
		a.refused(command, fmt.Sprintf(says, a.name))
	}
	r := a.run(run("check")...)
	require.Equal(t, 1, r.code, r.out+r.err)
	require.Contains(t, r.out, "  "+fmt.Sprintf(says, a.name)+"\n")
	r = a.run(run("rotate", "--force")...)
	require.Zero(t, r.code, r.out+r.err)
	require.Contains(t, r.err, "it is deleted, and made again for the account: "+fmt.Sprintf(says, a.name))
	require.True(t, a.works())
	a.done(run("check")...)
}

// TestWhatCannotBeLookedAtIsNotGood: a check says what it has seen, and that it has not seen all.
func TestWhatCannotBeLookedAtIsNotGood(t *testing.T) {
	b := newBorder(t)
	a := b.account
	check := append([]string{"cluster", "check"}, a.at...)
	a.done(append([]string{"cluster", "add"}, a.at...)...)
	a.done(check...)
	b.first = func(r *http.Request) {
		if r.URL.Path == "/api/v1/namespaces/"+a.name+"/secrets" {
			r.Header.Set("Authorization", "Bearer of-nobody")
		}
	}
	r := a.run(check...)
	require.Equal(t, 1, r.code, r.out+r.err)
	require.Contains(t, r.out, "look for tokens in Secrets of "+a.name)
	defer a.bind(a.name+"-eve", "default", eve)()
	r = a.run(check...)
	require.Equal(t, 1, r.code, r.out+r.err)
	require.Contains(t, r.out, "look for tokens in Secrets of "+a.name)
	require.Contains(t, r.out, "  RoleBinding default/"+a.name+"-eve for User eve\n")
}

// TestWhatOthersHaveInTheNamespaceStays: that it was made for accounts is what a label says, which others may write.
func TestWhatOthersHaveInTheNamespaceStays(t *testing.T) {
	a := newAccount(t)
	kubetest.MakeNamespace(t, a.admin, a.name)
	namespaces := a.admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	_, err := namespaces.Patch(t.Context(), a.name, types.MergePatchType, []byte(`{"metadata": {"labels": {"drover.io/account": "namespace"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	theirs := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "controllerrevisions"} // no kind that anybody would think of
	_, err = a.admin.Resource(theirs).Namespace(a.name).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": map[string]any{"name": "theirs"}, "revision": int64(1), "data": map[string]any{},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	add, remove := append([]string{"cluster", "add"}, a.at...), append([]string{"cluster", "remove"}, a.at...)
	a.done(add...)
	r := a.run(remove...)
	require.Zero(t, r.code, r.out+r.err)
	require.Contains(t, r.err, "the namespace "+a.name+" stays: ControllerRevision theirs is in it")
	require.False(t, a.has("clusterroles"))
	there, err := namespaces.Get(t.Context(), a.name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Nil(t, there.GetDeletionTimestamp())
	require.NoError(t, a.admin.Resource(theirs).Namespace(a.name).Delete(t.Context(), "theirs", metav1.DeleteOptions{}))
	a.done(add...)

	// Who has the rights besides is named while there is something that leads to him.
	unbind := a.bind(a.name+"-eve", "default", eve)
	for _, args := range [][]string{append(remove, "--dry-run"), remove} {
		r = a.run(args...)
		require.Zero(t, r.code, r.out+r.err)
		require.Contains(t, r.err, "RoleBinding default/"+a.name+"-eve for User eve")
	}
	unbind()
	there, err = namespaces.Get(t.Context(), a.name, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err) || there.GetDeletionTimestamp() != nil, "what Drover has made and nobody else uses goes")
}
