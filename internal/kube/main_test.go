package kube_test

import (
	"os"
	"testing"

	"github.com/drover-io/drover/internal/kubetest"
)

func TestMain(m *testing.M) { os.Exit(kubetest.Main(m)) }

func TestRealCluster(t *testing.T) {
	t.Parallel()
	kubetest.Suite(t, kubetest.Kubeconfig(t))
	kubetest.SuiteOfKubernetes(t, kubetest.Kubeconfig(t))
}
