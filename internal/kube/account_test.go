package kube_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/kubetest"
)

// TestAnAccountIsLookedAtWithoutAPace: by client-go's own, five requests a second, a namespace in a cluster of 200 kinds is looked at for 38 s.
func TestAnAccountIsLookedAtWithoutAPace(t *testing.T) {
	t.Parallel()
	o, err := kube.Own(kubetest.Kubeconfig(t), kube.Account{Name: "any", Namespace: "any"}, kube.Holder{})
	require.NoError(t, err)
	require.False(t, o.Paced())
}

// TestTokensThatTheClusterMakes: up to 1.23 each ServiceAccount has a token in a Secret, and on OpenShift up to 4.15. One that somebody else has made is told apart.
func TestTokensThatTheClusterMakes(t *testing.T) {
	t.Parallel()
	const account, name = "drover-site", "drover-site-abc"
	const own = "Secret drover/" + name + "-token-x with a token of ServiceAccount " + name
	const kept = own + " that does not expire, as this cluster makes one of each: who may read Secrets there has it"
	made := map[string]string{"kubernetes.io/created-by": "openshift.io/create-dockercfg-secrets"}
	for of, c := range map[string]struct {
		reason, version, group string
		annotations            map[string]string
		references             []string // of the ServiceAccount
		secrets                []string
		ending, near           []string
	}{
		"1.23": {version: "v1.23.17+k3s1", references: []string{name + "-token-x"}, secrets: []string{name + "-token-x"}, near: []string{kept}},
		"1.23, and a thief's": {
			version: "v1.23.17", references: []string{name + "-token-x", name + "-token-y"}, secrets: []string{name + "-token-x", name + "-token-y", "hidden"}, near: []string{kept},
			ending: []string{strings.Replace(own, "-token-x", "-token-y", 1), "Secret drover/hidden with a token of ServiceAccount " + name},
		},
		"1.23, by hand": {version: "v1.23.17", secrets: []string{name + "-token-x"}, ending: []string{own}},
		"1.24": {
			reason:  "it makes none, whatever somebody says of his",
			version: "v1.24.0", references: []string{name + "-token-x"}, secrets: []string{name + "-token-x"}, annotations: made, ending: []string{own},
		},
		"OpenShift 4.14": {version: "v1.27.10+28ed2d7", group: "security.openshift.io", annotations: made, secrets: []string{name + "-token-x"}, near: []string{kept}},
	} {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			sa := corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "drover", Labels: map[string]string{"drover.io/account": account}}}
			for _, r := range c.references {
				sa.Secrets = append(sa.Secrets, corev1.ObjectReference{Name: r})
			}
			secrets := corev1.SecretList{TypeMeta: metav1.TypeMeta{Kind: "SecretList", APIVersion: "v1"}}
			for _, s := range c.secrets {
				secret := corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: s, Namespace: "drover", Annotations: map[string]string{corev1.ServiceAccountNameKey: name}}}
				for key, value := range c.annotations {
					secret.Annotations[key] = value
				}
				secrets.Items = append(secrets.Items, secret)
			}
			s := serve(t, http2, func(w http.ResponseWriter, r *http.Request) {
				last := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
				switch {
				case r.URL.Path == "/version":
					answer(w, http.StatusOK, map[string]string{"gitVersion": c.version})
				case r.URL.Path == "/api":
					answer(w, http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"}, Versions: []string{"v1"}})
				case r.URL.Path == "/apis":
					answer(w, http.StatusOK, metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{{Name: c.group}}})
				case last == "serviceaccounts":
					answer(w, http.StatusOK, corev1.ServiceAccountList{TypeMeta: metav1.TypeMeta{Kind: "ServiceAccountList", APIVersion: "v1"}, Items: []corev1.ServiceAccount{sa}})
				case last == "secrets":
					answer(w, http.StatusOK, secrets)
				case last == account:
					answer(w, http.StatusNotFound, status(http.StatusNotFound, metav1.StatusReasonNotFound, "not found", nil))
				case last == "rolebindings":
					answer(w, http.StatusOK, metav1.TypeMeta{Kind: "RoleBindingList", APIVersion: "rbac.authorization.k8s.io/v1"})
				default:
					answer(w, http.StatusOK, metav1.TypeMeta{Kind: "ClusterRoleBindingList", APIVersion: "rbac.authorization.k8s.io/v1"})
				}
			})
			o, err := kube.Own(s.kubeconfig(t), kube.Account{Name: account, Namespace: "drover"}, kube.Holder{})
			require.NoError(t, err)
			o.Force = true
			others, err := o.Others(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.ending, others.Ending, c.reason)
			require.Equal(t, c.near, others.Near, c.reason)
			require.Empty(t, others.Lasting)
		})
	}
}
