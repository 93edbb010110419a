// Command drover-kube runs real Kubernetes control planes on one machine
// without containers: "drover-kube up" supervises the clusters, and every other
// subcommand is the real component of that name.
package main

import (
	"fmt"
	"os"
	"syscall"

	"github.com/drover-io/drover/deploy/local/kube/internal/component"
	"github.com/drover-io/drover/deploy/local/kube/internal/supervisor"
)

func main() {
	syscall.Umask(0o077) // keys, kubeconfigs and data are their owner's alone, whichever component writes them
	if len(os.Args) > 1 {
		if run, ok := component.Lookup(os.Args[1]); ok {
			// The components read os.Args themselves, and some of them more
			// than once, so each must find what its own binary would find.
			os.Args = os.Args[1:]
			run()
			return
		}
	}
	component.HideGlobalFlags()
	if err := supervisor.NewCommand(component.Names()).Execute(); err != nil {
		fmt.Fprintf(os.Stderr, "drover-kube: %v\n", err)
		os.Exit(1)
	}
}
