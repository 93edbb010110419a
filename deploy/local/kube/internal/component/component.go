// Package component runs the real Kubernetes components, each as the main
// function of its own binary would.
//
// A component owns the process it runs in: it configures logging, metrics and
// feature gates globally and exits the process itself. Two components must
// therefore never run in one process.
package component

import (
	"os"
	"slices"
	_ "time/tzdata" // time zones of CronJobs on machines without a zone database

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // credential plugins of kubectl
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client-go metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // version metric
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/drover-io/drover/deploy/local/kube/internal/cluster"
)

// kubectl is a client and therefore no component of a cluster.
const kubectlName = "kubectl"

var mains = map[string]func(){
	cluster.Etcd:              func() { etcdmain.Main(os.Args) },
	cluster.APIServer:         func() { runServer(apiserver.NewAPIServerCommand) },
	cluster.ControllerManager: func() { runServer(controllermanager.NewControllerManagerCommand) },
	cluster.Scheduler:         func() { runServer(newSchedulerCommand) },
	cluster.Kwok:              runKwok,
	kubectlName:               runKubectl,
}

// Lookup returns the main function of the named component. The function expects
// the component's own command line in os.Args and may exit the process.
func Lookup(name string) (run func(), ok bool) {
	main, ok := mains[name]
	if !ok {
		return nil, false
	}
	return func() {
		showName(name)
		main()
	}, true
}

// Names returns the names of all components in alphabetical order.
func Names() []string {
	names := make([]string, 0, len(mains))
	for name := range mains {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Constructing a component's command already registers flags, feature gates and
// metrics, which is why only the component that runs is constructed.
func runServer(newCommand func() *cobra.Command) {
	os.Exit(cli.Run(newCommand()))
}

// newSchedulerCommand leaves out the plugins that the scheduler's constructor
// takes.
func newSchedulerCommand() *cobra.Command {
	return scheduler.NewSchedulerCommand()
}

func runKubectl() {
	HideGlobalFlags()
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
}
