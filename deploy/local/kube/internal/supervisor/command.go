// Package supervisor starts local clusters, keeps their components running, and
// stops them.
package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/component-base/version"

	"github.com/drover-io/drover/deploy/local/kube/internal/cluster"
)

// options are what the user asks of "drover-kube up".
type options struct {
	dataDir    string
	clusters   []string
	portBase   int
	nodes      int
	noNodes    bool
	components []string
	timeout    time.Duration
}

// NewCommand returns the command line of drover-kube. The components are run by
// the caller and only named in the help.
func NewCommand(components []string) *cobra.Command {
	root := &cobra.Command{
		Use:   "drover-kube",
		Short: "Real Kubernetes clusters on one machine, without containers",
		Long: `drover-kube runs real Kubernetes control planes on one machine, without
containers. Their nodes are played by kwok: pods become ready, but no program
runs in them.

Every component is also a subcommand with its own flags:
  ` + strings.Join(components, "\n  "),
		Version:       version.Get().GitVersion,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newUpCommand())
	return root
}

func newUpCommand() *cobra.Command {
	var opts options
	command := &cobra.Command{
		Use:   "up --data-dir DIR --cluster NAME[,NAME...]",
		Short: "Start clusters and keep them running until interrupted",
		Example: `  drover-kube up --data-dir ./clusters --cluster edge01,edge02
  drover-kube kubectl --kubeconfig ./clusters/edge01/kubeconfig get nodes`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := opts.complete(); err != nil {
				return err
			}
			run, force := interruptible(command.Context())
			return up(run, force, opts, command.OutOrStdout())
		},
	}
	flags := command.Flags()
	flags.StringVar(&opts.dataDir, "data-dir", "", "directory for all files of the clusters, made if missing (required)")
	flags.StringSliceVar(&opts.clusters, "cluster", nil, "names of the clusters, comma-separated or repeated (required)")
	flags.IntVar(&opts.portBase, "port-base", 0, fmt.Sprintf(
		"first port of the first cluster; each further cluster is 10 ports up (default: as before in this data directory, or %d)",
		cluster.DefaultPortBase))
	flags.IntVar(&opts.nodes, "nodes", 1, "simulated nodes of each cluster")
	flags.BoolVar(&opts.noNodes, "no-nodes", false, "make no nodes and leave out kwok, which plays them")
	flags.StringSliceVar(&opts.components, "components", cluster.Components(),
		"components to run; without kube-controller-manager, pods get no service account and nothing is garbage collected")
	flags.DurationVar(&opts.timeout, "timeout", 3*time.Minute, "how long a cluster may take to become ready")
	for _, required := range []string{"data-dir", "cluster"} {
		if err := command.MarkFlagRequired(required); err != nil {
			panic(err) // the flag is defined above
		}
	}
	return command
}

// complete checks the options and resolves those that imply others.
func (o *options) complete() error {
	seen := map[string]bool{}
	for _, name := range o.clusters {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return fmt.Errorf("cluster name %q: %s", name, strings.Join(problems, ", "))
		}
		if seen[name] {
			return fmt.Errorf("cluster %s is named twice", name)
		}
		seen[name] = true
	}
	for _, name := range o.components {
		if !slices.Contains(cluster.Components(), name) {
			return fmt.Errorf("unknown component %q, choose from %s", name, strings.Join(cluster.Components(), ", "))
		}
	}
	for _, needed := range []string{cluster.Etcd, cluster.APIServer} {
		if !slices.Contains(o.components, needed) {
			return fmt.Errorf("a cluster cannot do without %s, name it in --components", needed)
		}
	}
	if o.nodes < 0 {
		return errors.New("--nodes must not be negative")
	}
	if o.noNodes {
		o.components = slices.DeleteFunc(slices.Clone(o.components), func(name string) bool { return name == cluster.Kwok })
	}
	if !slices.Contains(o.components, cluster.Kwok) {
		o.nodes = 0
	}
	return nil
}

// interruptible returns a context that is done at the first signal to stop, and
// one that is done at the second: whoever asks twice does not want to wait.
func interruptible(parent context.Context) (run, force context.Context) {
	run, cancelRun := context.WithCancel(parent)
	force, cancelForce := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	// A reader that has seen enough must not end the clusters by closing the pipe.
	signal.Ignore(syscall.SIGPIPE)
	go func() {
		<-signals
		cancelRun()
		<-signals
		cancelForce()
	}()
	return run, force
}
