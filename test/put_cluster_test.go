package test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/test/harness"
)

// account is a service account of a cluster, an administrator as long as it is there, with a kubeconfig.
func account(ctx context.Context, t *testing.T, c *harness.Cluster) (kubeconfig []byte, revoke func()) {
	t.Helper()
	kube, name := c.Client(t), kubetest.Name("account")
	_, err := kube.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: name}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, kube.RbacV1().ClusterRoleBindings().Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}))
	})
	token, err := kube.CoreV1().ServiceAccounts("default").CreateToken(ctx, name, &authv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	config, err := clientcmd.Load(harness.Kubeconfig(t, c.Name))
	require.NoError(t, err)
	config.AuthInfos = map[string]*clientcmdapi.AuthInfo{config.Contexts[config.CurrentContext].AuthInfo: {Token: token.Status.Token}}
	kubeconfig, err = clientcmd.Write(*config)
	require.NoError(t, err)
	rest, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	require.NoError(t, err)
	user, err := kubernetes.NewForConfig(rest)
	require.NoError(t, err)
	return kubeconfig, func() {
		require.NoError(t, kube.CoreV1().ServiceAccounts("default").Delete(ctx, name, metav1.DeleteOptions{}))
		harness.Until(ctx, t, "refused", func() bool { // API servers remember a token for some seconds
			_, err := user.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
			return err != nil
		})
	}
}

// TestPutCluster: what a cluster is registered with is replaced while things run there.
func TestPutCluster(t *testing.T) {
	t.Parallel()
	ctx, s, c := within(t), harness.NewStack(t), harness.NewCluster(t, harness.ClusterNames[0])
	first, revoke := account(ctx, t, c)
	registered := s.Register(ctx, c.Name, first)
	key := registered.Key()
	described := func(how domain.Report) *domain.Cluster {
		provider, _ := domain.Cut(domain.ClustersNoun, key)
		return &domain.Cluster{
			Identity: domain.Identity{Parent: provider}, Metadata: domain.Metadata{Name: c.Name}, Spec: domain.ClusterSpec{Report: how},
		}
	}
	api := s.Client.API()
	on := func() *client.Deployment { return s.On(ctx, []domain.ClusterName{registered}, reportedApp(t)) }
	running := on()
	do(ctx, t, running, "approve", "instantiate")
	reports(ctx, t, s, running, "status=ready", ready(1)) // nobody has installed an agent

	// In mid-operation the credential is not accepted any more; another one is.
	waiting := on()
	revoke()
	do(ctx, t, waiting, "approve", "instantiate")
	x, _ := explains(ctx, t, s, waiting, explain.ClusterHoldsUp, nil)
	require.Contains(t, x.Reasons[0].Error, "does not accept the credentials")
	var explained *explain.Explanation // of the cluster: what hangs there, and what does not
	harness.Until(ctx, t, "the cluster tells what hangs there", func() bool {
		var err error
		explained, err = api.Explain(ctx, key)
		require.NoError(t, err)
		return len(explained.Reasons) > 0 && explained.Reasons[0].Kind == explain.ClusterHoldsUp && len(explained.Reasons[0].Examples) == 1 &&
			explained.Reasons[0].Examples[0].Attempt > 1
	})
	require.Contains(t, explained.Reasons[0].Error, "does not accept the credentials")
	require.Contains(t, explained.Reasons[0].Text, waiting.Group)
	there, err := api.Cluster(ctx, key)
	require.NoError(t, err)
	require.Equal(t, "Retrying", string(there.Connectivity))
	require.Equal(t, 2, len(there.Deployments))
	for _, d := range []*client.Deployment{running, waiting} {
		require.True(t, slices.ContainsFunc(there.Deployments, func(x explain.Deployment) bool { return x.Resource == d.Key() }))
	}
	second, _ := account(ctx, t, c)
	warnings, err := api.Put(ctx, described(""), second)
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], "the credentials of cluster \"edge01\" expire at") // a token of an hour
	s.Await(ctx, waiting, "Instantiated")
	scale(ctx, t, c, running, 2)
	reports(ctx, t, s, running, "status=ready", ready(2))

	// It reports in another way, and in none: what was known is not lost.
	put := func(how domain.Report) {
		t.Helper()
		_, err := api.Put(ctx, described(how), nil)
		require.NoError(t, err)
	}
	put("none")
	fresh(ctx, t, s, running, "type=cluster", func(r *reportedStatus) bool { return r.stale() && strings.Contains(r.reason(), "spec.report none") })
	scale(ctx, t, c, running, 1)
	put("agentless")
	reports(ctx, t, s, running, "status=ready", ready(1))

	// An agent that nobody has installed is named, with what to do.
	put("agent")
	harness.Until(ctx, t, "what to do", func() bool {
		x, _ := explanation(ctx, t, s, running)
		said := strings.Join(x.Unknown, "\n")
		for _, r := range x.Reasons {
			said += "\n" + r.Error + "\n" + r.Do
		}
		return strings.Contains(said, "ResourceBundleState CRD") && strings.Contains(said, "install the agent") && strings.Contains(said, "PUT /v2"+client.At(key))
	})
	put("auto")
	reports(ctx, t, s, running, "status=ready", ready(1))
	text := ask(ctx, t, s, http.MethodGet, s.At(key)+"/explain?output=text", nil)
	require.Contains(t, text, "everything is as wished: 2 deployments here")
	require.Contains(t, text, "connectivity Available; report auto: heard now")

	// A kubeconfig that is not accepted is no refusal, and work goes on when it is replaced.
	warnings, err = api.Put(ctx, described(""), first)
	require.NoError(t, err)
	require.Contains(t, strings.Join(warnings, "\n"), "does not accept the credentials")
	_, err = api.Put(ctx, described(""), second)
	require.NoError(t, err)
	terminate(ctx, t, s, running, c)
	terminate(ctx, t, s, waiting, c)
}
