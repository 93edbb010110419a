// Command drover-local runs the servers that Drover needs on one machine: a
// Temporal server with its Web UI, and a MongoDB-compatible document store.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/drover-io/drover/internal/render"
)

// command is a subcommand: it serves until ctx ends. Results go to stdout, logs
// to the default logger.
type command struct {
	name    string
	summary string
	run     func(ctx context.Context, args []string, stdout io.Writer) error
}

var commands = []command{
	{"demo", "show the vFW composite app from onboarding to termination, and stop", runDemo},
	{"demo-workloads", "show how a Pod of a tenant's cluster makes a resource in another one, and stop", runWorkloads},
	{"run", "run the whole stack and two clusters", runStack},
	{"temporal", "run a Temporal server with its Web UI", runTemporal},
	{"mongo", "run a MongoDB-compatible document store", runMongo},
}

// gcPercent lets the heap grow to four times what is in use before it is collected: the servers take a
// fifth less time for every workflow, and some hundred megabytes more.
const gcPercent = 300

// memoryLimit is from where on the heap is collected more often instead: a process of ours takes less than that
// under steady load (docs/performance.md), and a machine has more.
const memoryLimit = 768 << 20

func main() {
	render.Main()
	syscall.Umask(0o077) // data, keys and kubeconfigs are their owner's alone, whoever writes them
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal, while stopping, ends the process at once.
	context.AfterFunc(ctx, stop)

	logLevel.Set(slog.LevelWarn)
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: &logLevel})))
	switch err := run(ctx, os.Args[1:], os.Stdout); {
	case err == nil, errors.Is(err, flag.ErrHelp):
	default:
		fmt.Fprintln(os.Stderr, "drover-local:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) > 0 {
		for _, c := range commands {
			if c.name == args[0] {
				return c.run(ctx, args[1:], stdout)
			}
		}
		usage(os.Stderr)
		return fmt.Errorf("unknown command %q", args[0])
	}
	usage(os.Stderr)
	return flag.ErrHelp
}

func usage(w io.Writer) {
	fmt.Fprintln(w, "usage: drover-local <command> [flags]")
	for _, c := range commands {
		fmt.Fprintf(w, "  %-15s %s\n", c.name, c.summary)
	}
}
