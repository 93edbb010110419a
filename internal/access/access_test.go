package access_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

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
