package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kubetest"
)

// installation is the id that version shows.
func (w *world) installation() string {
	w.t.Helper()
	id := strings.TrimSpace(w.done("version", "-o", "jsonpath={.installation}"))
	require.Regexp(w.t, "^[0-9a-f]{16}$", id)
	return id
}

// TestTwoInstallationsInOneCluster: both call it by the same name, share the namespace of accounts, and neither takes the account of the
// other one or takes it away; where one is told to use the account of the other it says whose that is.
func TestTwoInstallationsInOneCluster(t *testing.T) {
	one, two := newAccount(t), newAccount(t)
	require.NotEqual(t, one.installation(), two.installation())
	require.Contains(t, one.done("version"), "Installation: "+one.installation()+"\n")
	require.Contains(t, one.done("auth", "whoami", "-o", "json"), `"installation": "`+one.installation()+`"`)
	space := kubetest.Name("shared")
	both := []*account{one, two}
	at := func(a *account, command string, more ...string) []string {
		return append([]string{"cluster", command, "site/edge01", "--kubeconfig", a.env["XDG_CONFIG_HOME"] + "/admin.conf", "--account-namespace", space}, more...)
	}
	for _, a := range both {
		require.Contains(t, a.done(at(a, "add")...), "created in the cluster")
	}
	for _, a := range both {
		require.True(t, a.works())
		require.Contains(t, a.done(at(a, "rotate")...), "configured")
	}
	for _, a := range both {
		require.True(t, a.works())
		require.Contains(t, a.done(at(a, "check")...), ", with 1 token\n")
	}

	// With the same account one of them is told so, and nothing of the other's is touched.
	one.done(at(one, "add", "--account", one.name)...)
	for _, command := range []string{"add", "rotate", "remove"} {
		r := two.run(at(two, command, "--account", one.name)...)
		require.Equal(t, 1, r.code, r.out+r.err)
		require.Contains(t, r.err, "of the installation "+one.installation())
		require.True(t, one.works())
	}
	require.Contains(t, two.run(at(two, "add", "--account", one.name, "--dry-run")...).err, "of the installation "+one.installation())
	r := two.run(at(two, "check", "--account", one.name)...)
	require.Equal(t, 1, r.code, r.err)
	require.Contains(t, r.out, "of the installation "+one.installation())

	one.done(at(one, "remove", "--account", one.name)...)
	one.done(at(one, "remove")...) // what is left of the first account
	require.True(t, two.works())
	require.Contains(t, two.done(at(two, "rotate")...), "configured")
	namespaces := two.admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	there, err := namespaces.Get(t.Context(), space, metav1.GetOptions{})
	require.NoError(t, err)
	require.Nil(t, there.GetDeletionTimestamp(), "it is the other one's, too")
	two.done(at(two, "remove")...)
	there, err = namespaces.Get(t.Context(), space, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err) || there.GetDeletionTimestamp() != nil)
}

// boundTo gives a user a role in a scope.
func boundTo(user, role string, scope domain.Key) *domain.RoleBinding {
	return &domain.RoleBinding{
		Identity: domain.Identity{Parent: scope}, Metadata: domain.Metadata{Name: "b"},
		Spec: domain.RoleBindingSpec{Role: role, Subjects: []domain.RightSubject{{Kind: domain.SubjectUser, Name: user}}},
	}
}

// TestOnlyWhoSeesTheClusterKnowsThatItIsGone: a cluster that somebody may not see is not found; that is no reason to take away the
// account with which Drover works there.
func TestOnlyWhoSeesTheClusterKnowsThatItIsGone(t *testing.T) {
	role := &domain.Role{Metadata: domain.Metadata{Name: "remover"}, Spec: domain.RoleSpec{Rules: []domain.RoleRule{{
		Verbs: []string{"get", "list", "delete"}, Nouns: []string{domain.ClustersNoun.Kind, domain.ClusterProviders.Kind},
	}}}}
	a := accountOf(t, newWorldOf(t, []*domain.Role{role},
		boundTo("admin", domain.RoleAdmin, ""), boundTo("other", domain.RoleAdmin, "projects/p"), boundTo("remover", "remover", "cluster-providers/site")))
	as := func(user string) { a.env["DROVER_TOKEN"] = user }
	as("admin")
	a.done(append([]string{"cluster", "add", "--label", "edge"}, a.at...)...)
	as("other")
	remove := append([]string{"cluster", "remove"}, a.at...)
	r := a.run(remove...)
	require.Equal(t, 4, r.code, r.out+r.err)
	require.Contains(t, r.err, "not yours to see")
	require.Contains(t, r.err, "--force")
	require.Contains(t, r.err, "cluster provider \"site\" not found")
	require.True(t, a.works())
	r = a.run(append(remove, "--dry-run")...)
	require.Equal(t, 4, r.code, r.out+r.err)
	require.Contains(t, a.done(append(remove, "--dry-run", "--force")...), "would be deleted in the cluster")

	// What is composed needs what its parts need: labels that are there are to be deleted with it.
	as("remover")
	r = a.run(remove...)
	require.Equal(t, 4, r.code, r.out+r.err)
	require.Contains(t, r.err, "has labels, which go with it")
	require.Contains(t, r.err, "to delete cluster-labels of cluster-providers/site")
	require.True(t, a.works(), "nothing is done")
	as("admin")
	a.done("delete", "label", "edge")
	as("remover")
	require.Contains(t, a.done(remove...), "deleted in the cluster")

	// Who may not register is told before anything is made in the cluster.
	for user, lacks := range map[string]string{"remover": "no right to create clusters of cluster-providers/site", "other": "cluster-providers"} {
		as(user)
		r = a.run(append([]string{"cluster", "add", "--label", "edge"}, a.at...)...)
		require.Equal(t, 4, r.code, r.out+r.err)
		require.Contains(t, r.err, lacks)
		require.False(t, a.has("clusterroles"))
	}
	as("admin")
	a.done(append([]string{"cluster", "add"}, a.at...)...)
	as("other")
	require.Contains(t, a.done(append(remove, "--force")...), "deleted in the cluster")
	a.ends()
}
