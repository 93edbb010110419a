// Command drover is the product: the REST API, the worker, and the agents of member clusters and of tenants' clusters, each a
// process of its own.
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
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/internal/app"
	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/render"
	"github.com/drover-io/drover/internal/telemetry"
)

func main() {
	render.Main()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "drover:", err)
		os.Exit(1)
	}
}

const usage = `usage: drover <command> [flags]

  api       serve the REST API
  worker    run workflows and work on clusters
  monitor   tell in a member cluster what became of deployments
  tenant-agent
            tell of a tenant's cluster what runs there
  audit verify
            check an export of audit records
  admin-token
            make another token for the administrator in place of one that is lost

drover <command> -h lists the flags of a command; each can be set by an environment variable too.`

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		fmt.Fprintln(stderr, usage)
		return flag.ErrHelp
	}
	if args[0] == "audit" {
		return checkAudit(args[1:], stdout, stderr)
	}
	commands := map[string]struct {
		process config.Process
		run     func(context.Context, *config.Config, *slog.Logger, io.Writer) error
	}{"api": {config.API, serveAPI}, "worker": {config.Worker, work}, "monitor": {config.Monitoring, watch}, "tenant-agent": {config.TenantAgents, speak}, "admin-token": {config.Admin, resetAdmin}}
	command, ok := commands[args[0]]
	if !ok {
		fmt.Fprintln(stderr, usage)
		if args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
			return flag.ErrHelp
		}
		return fmt.Errorf("unknown command %q", args[0])
	}
	c, err := config.Read(command.process, args[1:], os.Getenv, stderr)
	if err != nil {
		return err
	}
	log := app.Logger(c, stderr)
	secured, err := c.TLS.Config(log, "http/1.1")
	if err != nil {
		return err
	}
	if err := telemetry.ServeProfiles(ctx, c.ProfileListen, secured); err != nil {
		return err
	}
	return command.run(ctx, c, log, stdout)
}

func serveAPI(ctx context.Context, c *config.Config, log *slog.Logger, stdout io.Writer) error {
	l, err := app.Listen(ctx, c.Listen)
	if err != nil {
		return err
	}
	defer l.Close()
	parts, err := app.Connect(ctx, c, log)
	if err != nil {
		return err
	}
	defer parts.Close()
	if err := parts.EnsureAdmin(ctx); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "ready api url=http://%s/v2\n", l.Addr())
	return parts.ServeAPI(ctx, l)
}

// resetAdmin says where the token is, and never what it is.
func resetAdmin(ctx context.Context, c *config.Config, log *slog.Logger, stdout io.Writer) error {
	if err := app.ResetAdmin(ctx, c, log); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "the administrator's token is in %s\n", c.AdminTokenFile)
	return nil
}

func work(ctx context.Context, c *config.Config, log *slog.Logger, stdout io.Writer) error {
	parts, err := app.Connect(ctx, c, log)
	if err != nil {
		return err
	}
	defer parts.Close()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return parts.WorkerHealth(ctx) })
	g.Go(func() error {
		return parts.Work(ctx, func() { fmt.Fprintln(stdout, "ready worker") })
	})
	return g.Wait()
}
