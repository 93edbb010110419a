// Command fleet serves a simulated fleet in a process of its own, so that what it costs is measured apart.
// It writes a line of JSON when it is ready (fleet.Ready), and ends on SIGTERM and on an interrupt.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/drover-io/drover/test/fleet"
)

func main() {
	var config fleet.Config
	flag.IntVar(&config.Clusters, "clusters", 1, "how many clusters there are")
	flag.StringVar(&config.Listen, "listen", "", "address to listen on (default any free port of 127.0.0.1)")
	flag.BoolVar(&config.Reviews, "reviews", false, "serve SelfSubjectAccessReviews, which agents need")
	kubeconfigs := flag.String("kubeconfigs", "", "directory that gets a file <cluster>.yaml for each cluster")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, config, *kubeconfigs, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, config fleet.Config, kubeconfigs string, out io.Writer) error {
	f, err := fleet.Start(config)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := write(f, kubeconfigs); err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(f.Ready()); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// write writes the kubeconfigs, unless there is no directory for them.
func write(f *fleet.Fleet, dir string) error {
	if dir == "" {
		return nil
	}
	const private, searchable = 0o600, 0o700
	if err := os.MkdirAll(dir, searchable); err != nil {
		return err
	}
	var failed []error
	for _, name := range f.Names() {
		failed = append(failed, os.WriteFile(filepath.Join(dir, name+".yaml"), f.Kubeconfig(name), private))
	}
	return errors.Join(failed...)
}
