package cli_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/access"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/kubetest"
)

const edge01 = "cluster-providers/site/clusters/edge01"

// registered is what is stored of the cluster.
func (a *account) registered() *domain.Cluster {
	a.t.Helper()
	o, err := a.db.Get(a.t.Context(), domain.ClustersNoun, edge01)
	require.NoError(a.t, err)
	return o.(*domain.Cluster)
}

// TestATokenEndsOnlyWhenTheAPIReachesTheClusterWithTheNext: who rotates may reach the cluster where the API does not, by a tunnel for example.
func TestATokenEndsOnlyWhenTheAPIReachesTheClusterWithTheNext(t *testing.T) {
	a := newAccount(t)
	a.done(append([]string{"cluster", "add"}, a.at...)...)
	good, kept := a.sent, a.registered()
	a.reaches = func(_ context.Context, kubeconfig []byte) (string, error) {
		if strings.Contains(string(kubeconfig), "https://edge01.example:6443") {
			return "v1.34.1", nil
		}
		return "", fail.New(fail.Unavailable, "nobody answers")
	}
	for _, what := range []string{"rotate", "add"} {
		r := a.run(append([]string{"cluster", what}, a.at...)...)
		require.Equal(t, 1, r.code, r.out+r.err)
		require.Contains(t, r.err, "nobody answers; nothing is changed")
		require.Contains(t, r.err, "--address")
		a.ends("the new token is taken back")
		require.Equal(t, kept, a.registered())
		a.sent = good
		require.True(t, a.works(), "the one that is registered stays good")
	}
	r := a.run(append([]string{"cluster", "rotate", "--address", "edge01.example:6443"}, a.at...)...)
	require.Equal(t, 2, r.code, r.err)
	for _, what := range []string{"rotate", "add"} {
		out := a.done(append([]string{"cluster", what, "--address", "https://edge01.example:6443"}, a.at...)...)
		require.Contains(t, out, edge01+" configured\n")
		require.Contains(t, out, "answers in", "which is tried from here by the context's address")
		require.Contains(t, string(a.sent), "server: https://edge01.example:6443")
		require.NotEqual(t, kept.KubeconfigDigest, a.registered().KubeconfigDigest)
	}
}

// TestASecondAddTakesNothingAway: what it says nothing of stays as it is registered, and the ClusterRole keeps the rights that it has, until
// somebody says that it is not to.
func TestASecondAddTakesNothingAway(t *testing.T) {
	a := newAccount(t)
	a.done(append([]string{"cluster", "add", "--report", "agentless", "--groups", "example.com", "--logical-cloud-users"}, a.at...)...)
	w := a.registered()
	w.Description = "behind the hill"
	require.NoError(t, a.db.Replace(t.Context(), w))
	lacks := func(users bool, groups ...string) []string {
		t.Helper()
		role, err := access.ClusterRole(a.name, domain.ReportAgentless, users, groups...)
		require.NoError(t, err)
		seen, err := kube.See(t.Context(), a.sent, role)
		require.NoError(t, err)
		return seen.Lacks
	}
	require.Empty(t, lacks(true, "example.com"))

	out := a.done(append([]string{"cluster", "add", "--groups", "example.org"}, a.at...)...)
	require.Contains(t, out, "rights that nobody has asked for now stay: ")
	require.Contains(t, out, "example.com/*")
	require.Contains(t, out, "(--narrow)")
	require.Contains(t, out, "rights: all that are needed; reports by agentless\n")
	require.Equal(t, domain.ReportAgentless, a.registered().Spec.Report)
	require.Equal(t, "behind the hill", a.registered().Description)
	require.Empty(t, lacks(true, "example.com", "example.org"))

	out = a.done(append([]string{"cluster", "add", "--report", "agent", "--groups", "example.org", "--narrow"}, a.at...)...)
	require.NotContains(t, out, "--narrow")
	require.Equal(t, domain.ReportAgent, a.registered().Spec.Report)
	require.Equal(t, "behind the hill", a.registered().Description)
	require.Contains(t, lacks(false, "example.com"), "patch example.com/*")
	require.NotContains(t, lacks(false, "example.org"), "patch example.org/*")
	require.Contains(t, lacks(true), "approve certificates.k8s.io/signers [kubernetes.io/kube-apiserver-client]")
	role, err := access.ClusterRole(a.name, domain.ReportAgent, false)
	require.NoError(t, err)
	require.Contains(t, a.done(append([]string{"cluster", "add", "--dry-run", "--narrow"}, a.at...)...), string(role), "for the report that is registered")
}

// TestFurtherRules: with those of a file the account may give what a controller's chart gives, until they are taken away. A wrong file is refused before
// anything is asked.
func TestFurtherRules(t *testing.T) {
	a := newAccount(t)
	const rules = "- {apiGroups: [\"\"], resources: [events], verbs: [create, patch]}\n- {nonResourceURLs: [/metrics], verbs: [get]}\n"
	add := func(more ...string) []string { return append(append([]string{"cluster", "add"}, more...), a.at...) }
	before := a.requests.Load()
	for text, want := range map[string]string{"- {apiGroups: [\"\"], verbs: [get]}\n": "wrong.yaml: rule 1: resources: ", "kind: Role\n": `it says kind "Role"`} {
		r := a.run(add("--rules", a.file("wrong.yaml", text))...)
		require.Equal(t, 2, r.code, r.out)
		require.Contains(t, r.err, want)
	}
	for _, missing := range []string{"", "none.yaml"} {
		r := a.run(add("--rules", missing)...)
		require.Equal(t, 2, r.code, r.out)
		require.Contains(t, r.err, "--rules: ")
	}
	require.Equal(t, before, a.requests.Load())

	gives := func() error {
		name := kubetest.Name("controller")
		roles := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
		_, err := kubetest.Dynamic(t, a.sent).Resource(roles).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": name},
			"rules": []any{
				map[string]any{"apiGroups": []any{""}, "resources": []any{"events"}, "verbs": []any{"create", "patch"}},
				map[string]any{"nonResourceURLs": []any{"/metrics"}, "verbs": []any{"get"}},
			},
		}}, metav1.CreateOptions{})
		if err == nil {
			require.NoError(t, a.admin.Resource(roles).Delete(t.Context(), name, metav1.DeleteOptions{}))
		}
		return err
	}
	a.done(add()...)
	require.ErrorContains(t, gives(), "attempting to grant RBAC permissions not currently held")
	file := a.file("rules.yaml", rules)
	require.Contains(t, a.done(add("--rules", file, "--dry-run")...), "- /metrics")
	a.done(add("--rules", file)...)
	allowed := func() bool { return gives() == nil }
	require.Eventually(t, allowed, kubetest.Deadline, kubetest.Tick)
	a.done(append([]string{"cluster", "rotate"}, a.at...)...)
	require.Eventually(t, allowed, kubetest.Deadline, kubetest.Tick)
	require.Contains(t, a.done(add()...), "rights that nobody has asked for now stay: create events, get /metrics, patch events (--narrow)")
	require.Eventually(t, allowed, kubetest.Deadline, kubetest.Tick)
	a.done(add("--narrow")...)
	require.Eventually(t, func() bool { return !allowed() }, kubetest.Deadline, kubetest.Tick)
}

// TestLabelsAloneLeaveTheCredential: whoever gives labels, and no context, has them added without a word to any cluster. The current context may be
// another cluster's, and what is registered have an address, or credentials, of its own.
func TestLabelsAloneLeaveTheCredential(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nowhere")
	a := newAccount(t)
	for label, more := range [][]string{
		append(a.at[3:], "--address", "https://edge01.example:6443"), {"--use-own-credentials"},
	} {
		a.done(append(append([]string{"cluster", "add"}, a.at[:3]...), more...)...)
		kept, north := a.registered(), fmt.Sprintf("north%d", label)
		add := []string{"cluster", "add", "edge01", "--label", north}
		require.Equal(t, edge01+"/labels/"+north+" created (dry run)\n", a.done(append(add, "--dry-run")...))
		require.Equal(t, edge01+"/labels/"+north+" created\n", a.done(add...))
		require.Equal(t, edge01+"/labels/"+north+" unchanged\n", a.done(add...))
		require.Equal(t, kept, a.registered())
	}
	require.Equal(t, 2, a.run("cluster", "add", "site/edge01", "--label", "no label").code)
	for _, args := range [][]string{{"site/edge02"}, {"edge01", "--context", "none"}} { // by which they would be registered
		r := a.run(append([]string{"cluster", "add", "--label", "south"}, args...)...)
		require.Equal(t, 2, r.code, r.out)
		require.Contains(t, r.err, "the kubeconfig has no context")
	}
}

// TestNoLiveAccountIsLeftInSilence: a registration whose account is not in the cluster of the context is not forgotten with that context.
func TestNoLiveAccountIsLeftInSilence(t *testing.T) {
	a := newAccount(t)
	a.done(append([]string{"cluster", "add"}, a.at...)...)
	remove := append([]string{"cluster", "remove"}, a.at...)
	wrong := append(remove, "--account", a.name+"-other") // as in another cluster
	for _, args := range [][]string{wrong, append(wrong, "--dry-run")} {
		r := a.run(args...)
		require.Equal(t, 1, r.code, r.out+r.err)
		require.Contains(t, r.err, "without --context")
		require.NotNil(t, a.registered())
	}
	require.True(t, a.works())
	require.Equal(t, edge01+" would be deleted (dry run)\nits account "+a.name+" would be deleted in the cluster (dry run)\n", a.done(append(remove, "--dry-run")...))
	require.True(t, a.works())
	a.done("cluster", "remove", "site/edge01")
	require.Equal(t, edge01+" is not there\nits account "+a.name+" would be deleted in the cluster (dry run)\n", a.done(append(remove, "--dry-run")...))
	require.Contains(t, a.run(wrong...).err, "has no account", "nor is there anything of that name")
	require.True(t, a.works())
	require.Contains(t, a.done(remove...), " deleted in the cluster\n")
	a.ends()
	require.Contains(t, a.run(append(remove, "--dry-run")...).err, "has no account")
}
