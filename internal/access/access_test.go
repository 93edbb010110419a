package access_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/internal/access"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/kubetest"
)

func TestMain(m *testing.M) { os.Exit(kubetest.Main(m)) }

func TestWhatIsNoWayAndNoGroup(t *testing.T) {
	for _, c := range []struct {
		report domain.Report
		more   []string
	}{{"", nil}, {"loudly", nil}, {domain.ReportAgent, []string{""}}, {domain.ReportAgent, []string{`x"], verbs: ["*`}}} {
		_, err := access.ClusterRole("drover", c.report, false, c.more...)
		require.True(t, fail.Is(err, fail.Invalid), "%v: %v", c, err)
	}
}

// TestTheLeastClusterRole: with it, on a real API server, all is done that is done to what charts have; and what is not needed for that is
// not allowed: to escalate, to impersonate, to run something in a container, to get tokens, to reach nodes.
func TestTheLeastClusterRole(t *testing.T) {
	kubeconfig := kubetest.Kubeconfig(t)
	admin := kubetest.Dynamic(t, kubeconfig)
	for _, report := range domain.Reports {
		t.Run(string(report), func(t *testing.T) {
			name := kubetest.Name("least")
			users := report == domain.ReportNone || report == domain.ReportAuto
			manifest, err := access.ClusterRole(name, report, users)
			require.NoError(t, err)
			may := kubetest.Grant(t, admin, name, manifest)
			for _, c := range [][4]string{
				{"escalate", "rbac.authorization.k8s.io", "clusterroles", ""}, {"bind", "rbac.authorization.k8s.io", "clusterroles", ""}, {"impersonate", "", "users", ""},
				{"create", "", "pods", "exec"}, {"get", "", "pods", "exec"}, {"create", "", "serviceaccounts", "token"}, {"get", "", "nodes", "proxy"}, {"patch", "", "nodes", ""},
				{"deletecollection", "", "pods", ""}, {"patch", "other.example.com", "things", ""},
			} {
				require.False(t, may(c[0], c[1], c[2], c[3]), "%v", c)
			}
			require.Equal(t, users, may("create", "certificates.k8s.io", "certificatesigningrequests", ""))
			require.Equal(t, users, may("update", "certificates.k8s.io", "certificatesigningrequests", "approval"))
			heard := report != domain.ReportAgent && report != domain.ReportNone
			require.Equal(t, heard, may("watch", "", "secrets", ""))
			require.Equal(t, report != domain.ReportNone, may("watch", "k8splugin.io", "resourcebundlestates", ""))
			if report == domain.ReportAuto {
				least, expires, err := kube.Credential(t.Context(), kubeconfig, kube.Account{Namespace: name, Name: name + "-account", Role: manifest, Life: time.Hour})
				require.NoError(t, err)
				require.WithinDuration(t, time.Now().Add(time.Hour), expires, 30*time.Minute)
				require.NoError(t, kube.Config{}.CheckKubeconfig(least))
				require.NoError(t, kubetest.Open(t, kube.Config{}, least).Ping(t.Context()))
				mine := kubetest.Dynamic(t, least)
				require.Eventually(t, func() bool {
					_, err := mine.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(name).List(t.Context(), metav1.ListOptions{})
					return err == nil
				}, kubetest.Deadline, kubetest.Tick)
				_, err = mine.Resource(schema.GroupVersionResource{Version: "v1", Resource: "events"}).Namespace(name).List(t.Context(), metav1.ListOptions{})
				require.True(t, apierrors.IsForbidden(err), "%v", err)
			}
			if report == domain.ReportAgent {
				kubetest.SuiteOfRights(t, kubeconfig, kubetest.As(t, kubeconfig, name))
			}
		})
	}
}

// TestTheAccountOfARegistration: it is made, issued, replaced and taken away, each step again after any death; the token that was replaced
// is refused at once, and what is somebody else's is left alone.
func TestTheAccountOfARegistration(t *testing.T) {
	kubeconfig, ctx := kubetest.Kubeconfig(t), t.Context()
	name := kubetest.Name("own")
	role, err := access.ClusterRole(name, domain.ReportAuto, false)
	require.NoError(t, err)
	own := func(registration string) *kube.Owned {
		t.Helper()
		o, err := kube.Own(kubeconfig, kube.Account{Namespace: name, Name: name, Role: role, Life: time.Hour}, kube.Holder{Installation: "one", Registration: registration})
		require.NoError(t, err)
		return o
	}
	o := own("cluster-providers/p/clusters/c")
	there, err := o.There(ctx)
	require.NoError(t, err)
	require.False(t, there)
	require.NoError(t, o.Make(ctx))
	require.NoError(t, o.Make(ctx), "a second run goes on")
	first, err := o.Issue(ctx)
	require.NoError(t, err)
	lost, err := o.Issue(ctx) // the API never got it
	require.NoError(t, err)
	// Who has stolen a token has more of them issued, and hides what it is of.
	admin := kubetest.Dynamic(t, kubeconfig)
	accounts := admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}).Namespace(name)
	var others []*kube.Issued
	for _, of := range []string{first.Account, lost.Account} {
		_, err := accounts.Patch(ctx, of, types.MergePatchType, []byte(`{"metadata": {"labels": null, "annotations": null}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		others = append(others, unbound(t, kubeconfig, accounts, of))
	}
	second, err := o.Issue(ctx)
	require.NoError(t, err)
	require.NoError(t, kube.Config{}.CheckKubeconfig(second.Kubeconfig))
	require.WithinDuration(t, second.Expires, kube.Expiry(second.Kubeconfig), time.Minute)
	seen, err := kube.See(ctx, second.Kubeconfig, role)
	require.NoError(t, err)
	require.Regexp(t, `^v1\.`, seen.Version)
	require.Positive(t, seen.Latency)
	require.Empty(t, seen.Unknown)
	require.Empty(t, seen.Lacks)
	require.Greater(t, seen.Needed, 100)
	more, err := access.ClusterRole(name, domain.ReportAuto, false, "example.com")
	require.NoError(t, err)
	seen, err = kube.See(ctx, second.Kubeconfig, more)
	require.NoError(t, err)
	require.Contains(t, seen.Lacks, "patch example.com/*")

	require.NoError(t, o.Revoke(ctx, second))
	refused := func(of *kube.Issued) {
		t.Helper()
		require.Eventually(t, func() bool { // API servers remember tokens for some seconds
			_, err := kube.See(ctx, of.Kubeconfig, role)
			return err != nil && strings.Contains(fail.TextOf(err), "does not accept the credentials")
		}, kubetest.Deadline, kubetest.Tick)
	}
	refused(first)
	refused(lost)
	refused(others[0])
	refused(others[1])
	_, err = kube.See(ctx, second.Kubeconfig, role)
	require.NoError(t, err)

	elsewhere, err := kube.Own(kubeconfig, o.Account, kube.Holder{Installation: "two", Registration: o.Registration})
	require.NoError(t, err)
	for _, other := range []*kube.Owned{own("cluster-providers/p/clusters/other"), elsewhere} {
		_, err = other.There(ctx)
		require.True(t, fail.Is(err, fail.Conflict), "%v", err)
		require.True(t, fail.Is(other.Make(ctx), fail.Conflict))
		_, err = other.Drop(ctx)
		require.True(t, fail.Is(err, fail.Conflict), "%v", err)
	}

	// An account of v0.1.0 names no installation: who names it takes it over.
	rbac := admin.Resource(schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"})
	_, err = rbac.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata": {"annotations": {"drover.io/installation": null}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.NoError(t, o.Make(ctx))
	taken, err := rbac.Get(ctx, name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "one", taken.GetAnnotations()["drover.io/installation"])

	elsewhere, err = kube.Own(kubeconfig, kube.Account{Namespace: "default", Name: name, Role: role, Life: time.Hour}, o.Holder)
	require.NoError(t, err)
	_, err = elsewhere.There(ctx)
	require.ErrorContains(t, err, "--account-namespace")

	there, err = o.Drop(ctx)
	require.NoError(t, err)
	require.True(t, there)
	there, err = o.Drop(ctx)
	require.NoError(t, err)
	require.False(t, there)
	refused(second)
	for _, r := range []string{"clusterroles", "clusterrolebindings"} {
		_, err := admin.Resource(schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: r}).Get(ctx, name, metav1.GetOptions{})
		require.True(t, apierrors.IsNotFound(err), "%v", err)
	}
}

// TestAccountsThatAreNotDroversAreLeftAlone: a ClusterRole or a binding of the cluster's own is neither changed nor deleted, and nothing is
// made beside it.
func TestAccountsThatAreNotDroversAreLeftAlone(t *testing.T) {
	kubeconfig, ctx := kubetest.Kubeconfig(t), t.Context()
	admin := kubetest.Dynamic(t, kubeconfig)
	for kind, resource := range map[string]string{"ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings"} {
		name := kubetest.Name("foreign")
		in := admin.Resource(schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: resource})
		object := map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": map[string]any{"name": name}}
		if kind == "ClusterRoleBinding" {
			object["roleRef"] = map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
		}
		before, err := in.Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = in.Delete(context.WithoutCancel(ctx), name, metav1.DeleteOptions{}) })
		role, err := access.ClusterRole(name, domain.ReportAuto, false)
		require.NoError(t, err)
		o, err := kube.Own(kubeconfig, kube.Account{Namespace: name, Name: name, Role: role, Life: time.Hour}, kube.Holder{Installation: "one", Registration: "cluster-providers/p/clusters/c"})
		require.NoError(t, err)
		require.True(t, fail.Is(o.Make(ctx), fail.Conflict), kind)
		_, err = o.Drop(ctx)
		require.True(t, fail.Is(err, fail.Conflict), "%s: %v", kind, err)
		after, err := in.Get(ctx, name, metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, before, after)
		_, err = admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Get(ctx, name, metav1.GetOptions{})
		require.True(t, apierrors.IsNotFound(err), "%v", err)
	}
}

// unbound is a credential with a token of an account that is bound to nothing.
func unbound(t *testing.T, admin []byte, accounts dynamic.ResourceInterface, name string) *kube.Issued {
	t.Helper()
	answer, err := accounts.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": map[string]any{"name": name}, "spec": map[string]any{},
	}}, metav1.CreateOptions{}, "token")
	require.NoError(t, err)
	token, _, _ := unstructured.NestedString(answer.Object, "status", "token")
	file, err := clientcmd.Load(admin)
	require.NoError(t, err)
	require.NoError(t, clientcmdapi.MinifyConfig(file))
	for user := range file.AuthInfos {
		file.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token}
	}
	kubeconfig, err := clientcmd.Write(*file)
	require.NoError(t, err)
	return &kube.Issued{Kubeconfig: kubeconfig}
}
