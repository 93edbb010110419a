// Command drover is the product: the client, the REST API, the worker, and the agents of member clusters and of tenants' clusters,
// each a process of its own.
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
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"github.com/drover-io/drover/internal/app"
	"github.com/drover-io/drover/internal/cli"
	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/connections"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/render"
	"github.com/drover-io/drover/internal/telemetry"
)

func main() {
	render.Main()
	os.Exit(run(os.Args, os.Stdin, os.Stdout, os.Stderr))
}

// run is the command with its arguments, the program first, and gives the code to exit with.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, terminal, stop := untilSignal()
	defer stop()
	program := "drover"
	if strings.HasPrefix(filepath.Base(args[0]), "kubectl-") { // kubectl's plugins are called by their names
		program = "kubectl drover"
	}
	return cli.Main(ctx, cli.Options{
		Program: program, Args: args[1:], In: stdin, Out: stdout, Err: stderr, Getenv: os.Getenv,
		Terminal: isTerminal(stdout), Width: widthOf(stdout), Lend: terminal.lend,
		Processes: processes(stdout, stderr),
	})
}

// processes are the commands that read their flags themselves.
func processes(stdout, stderr io.Writer) []cli.Process {
	return []cli.Process{
		process("api", "Serve the REST API", config.API, stdout, stderr, serveAPI),
		process("worker", "Run workflows and work on clusters", config.Worker, stdout, stderr, work),
		process("monitor", "Tell in a member cluster what became of deployments", config.Monitoring, stdout, stderr, watch),
		process("tenant-agent", "Tell of a tenant's cluster what runs there", config.TenantAgents, stdout, stderr, speak),
		process("admin-token", "Make another token for the administrator in place of one that is lost", config.Admin, stdout, stderr, resetAdmin),
		{
			Name: "cluster-credential", Short: "Make a kubeconfig with the least rights that Drover needs in a cluster",
			Run: func(ctx context.Context, args []string) error { return makeCredential(ctx, args, stdout, stderr) },
		},
		{
			Name: "keys", Short: "Say how much each secret key seals, have another one seal everything, take one out",
			Run: func(ctx context.Context, args []string) error { return keys(ctx, args, stdout, stderr) },
		},
		{
			Name: "verify", Short: "Check an export of audit records, offline", Under: "audit",
			Run: func(_ context.Context, args []string) error { return verifyAudit(args, stdout, stderr) },
		},
	}
}

// terminal is lent to a program that this one starts, such as an editor: Ctrl-C is for that one meanwhile.
type terminal struct{ lent atomic.Bool }

func (t *terminal) lend(run func() error) error {
	t.lent.Store(true)
	defer t.lent.Store(false)
	return run()
}

// untilSignal is a context that ends with the first signal; a second one ends the process at once.
func untilSignal() (ctx context.Context, t *terminal, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	t = &terminal{}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer signal.Stop(signals)
		for {
			select {
			case got := <-signals:
				if got == os.Interrupt && t.lent.Load() {
					continue
				}
				cancel()
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, t, cancel
}

// isTerminal says whether what is written is seen at once, by a terminal that knows more than text.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// widthOf gives how many characters a line of a terminal has; nil where w is none.
func widthOf(w io.Writer) func() int {
	f, ok := w.(*os.File)
	if !ok {
		return nil
	}
	return func() int {
		width, _, err := term.GetSize(int(f.Fd()))
		if err != nil {
			return 0
		}
		return width
	}
}

// wrongLine is an error of a command line that a command has read itself, nil where that was a question for help.
func wrongLine(err error) error {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return nil
	}
	return cli.Usage(err)
}

// process is a server or an agent as a command.
func process(
	name, short string, kind config.Process, stdout, stderr io.Writer, serve func(context.Context, *config.Config, *slog.Logger, io.Writer) error,
) cli.Process {
	return cli.Process{Name: name, Short: short, Run: func(ctx context.Context, args []string) error {
		c, err := config.Read(kind, args, os.Getenv, stderr)
		if c == nil {
			return wrongLine(err)
		}
		files := app.CheckFiles(c)
		switch {
		case err != nil: // all that is wrong is said at once
			return wrongLine(errors.Join(err, files))
		case files != nil:
			return files
		}
		log := app.Logger(c, stderr)
		panics.LogTo(log)
		for name, near := range config.Unread(os.Environ()) {
			log.Warn("nobody reads this variable of the environment", "variable", name, "nearest", near)
		}
		secured, err := c.TLS.Config(log, "http/1.1")
		if err != nil {
			return err
		}
		if c.ProfileListen != "" {
			if _, err := (connections.Side{
				Address: c.ProfileListen, Purpose: "profiles (--profile-listen)", TLS: secured, Names: c.AllowedHosts, Handler: telemetry.Profiles(),
				Write: policy.ProfileWrite, Log: log,
			}).Serve(ctx); err != nil {
				return err
			}
		}
		return serve(ctx, c, log, stdout)
	}}
}

func serveAPI(ctx context.Context, c *config.Config, log *slog.Logger, stdout io.Writer) error {
	front, err := app.OpenAPI(ctx, c, log)
	if err != nil {
		return err
	}
	defer front.Close()
	parts, err := app.Connect(ctx, c, log, front)
	if err != nil {
		return err
	}
	defer parts.Close()
	if err := parts.EnsureAdmin(ctx); err != nil {
		return err
	}
	return parts.ServeAPI(ctx, front, func() { fmt.Fprintf(stdout, "ready api url=http://%s/v2\n", front.Address) })
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
	front, err := app.OpenHealth(ctx, c, log)
	if err != nil {
		return err
	}
	defer front.Close()
	parts, err := app.Connect(ctx, c, log, front)
	if err != nil {
		return err
	}
	defer parts.Close()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return parts.WorkerHealth(ctx, front) })
	g.Go(func() error {
		return parts.Work(ctx, func() { fmt.Fprintln(stdout, "ready worker") })
	})
	return g.Wait()
}
