// Package temporal runs a complete Temporal server, and its Web UI, inside the
// calling process: all four services on one loopback address, with a SQLite
// database or with PostgreSQL. It is meant for one developer's machine and for
// tests; the product itself talks to whatever Temporal cluster it is pointed at.
package temporal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	serverclient "go.temporal.io/server/client"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/temporal"
)

// Config says what to run and where. The zero value is a server in memory on a
// free port, without Web UI.
type Config struct {
	// DBFile is the SQLite database to keep everything in; it is created, with
	// its directory, when absent. What is needed to list and search workflows
	// goes to a second file beside it, with ".visibility" appended to the name.
	// Empty means in memory: the server forgets everything when it stops.
	DBFile string
	// Postgres is, instead of DBFile, the URL of a PostgreSQL database to keep
	// everything in: postgres://user:password@host:port/database?sslmode=…,
	// without TLS when there is no sslmode. A second database, with
	// "_visibility" appended to the name, holds what is needed to list and
	// search workflows. Both are created when absent, for which the user needs
	// the right.
	Postgres string

	// IP is the address every listener binds to, "127.0.0.1" when empty.
	// Nothing here authenticates a caller: do not bind to a public address.
	IP string
	// FrontendPort serves the gRPC API. 0 means a free port.
	FrontendPort int
	// UIPort serves the Web UI. 0 means no Web UI.
	UIPort int

	// Namespace is created when absent, "drover" when empty.
	Namespace string
	// Retention is how long the namespace keeps closed workflows, three days
	// when 0. It applies to a namespace being created; one that exists keeps
	// its own.
	Retention time.Duration
	// SearchAttributes are the custom search attributes the namespace is to
	// have. Those that are missing are added, none is ever removed. An
	// attribute that exists with another type is an error.
	SearchAttributes map[string]enumspb.IndexedValueType

	// Codec opens sealed payloads for pages of the Web UI, at …/decode; nil when none are sealed.
	Codec http.Handler

	// Logger receives the server's own log; nil means warnings and errors to
	// standard error.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.IP == "" {
		c.IP = "127.0.0.1"
	}
	if c.Namespace == "" {
		c.Namespace = "drover"
	}
	if c.Retention == 0 {
		c.Retention = 72 * time.Hour
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	return c
}

// stopTimeout bounds Stop. A server that is stopped in good health takes one to
// two seconds, most of it spent waiting for open long polls to drain.
const stopTimeout = 30 * time.Second

// Server is a running Temporal server.
type Server struct {
	addr       string
	unlock     func() error // nil in memory
	store      *database
	visibility *database
	server     temporal.Server
	ui         *webUI // nil without Web UI
	running    atomic.Bool
}

// Start runs a server and returns once it answers requests for the namespace
// and knows its search attributes. ctx bounds the start only; end the server
// with Stop. When Start fails nothing is left running.
//
// A second Start on the same DBFile or Postgres, in this process or a later
// one, carries on with whatever workflows were running. Two servers at a time
// on one of them are refused.
func Start(ctx context.Context, c Config) (_ *Server, err error) {
	c = c.withDefaults()
	if c.DBFile != "" && c.Postgres != "" {
		return nil, errors.New("the temporal database is either a SQLite file or on PostgreSQL: give only one of --db and --postgres")
	}
	if err := c.claimPorts(ctx); err != nil {
		return nil, err
	}
	internal, err := freePorts(ctx, c.IP, len(internalServices))
	if err != nil {
		return nil, fmt.Errorf("find ports for the internal services: %w", err)
	}

	s := &Server{addr: net.JoinHostPort(c.IP, strconv.Itoa(c.FrontendPort))}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop())
		}
	}()
	if err := s.openStores(ctx, c); err != nil {
		return nil, err
	}
	if err := s.startServices(c, internal); err != nil {
		return nil, err
	}
	if err := s.ready(ctx, c); err != nil {
		return nil, err
	}
	if c.UIPort != 0 {
		if s.ui, err = startUI(ctx, c, s.addr); err != nil {
			return nil, err
		}
	}
	s.running.Store(true)
	return s, nil
}

// openStores takes and opens both databases and makes sure of the namespace.
func (s *Server) openStores(ctx context.Context, c Config) error {
	open := s.openFiles
	if c.Postgres != "" {
		open = s.openPostgres
	}
	if err := open(ctx, cmp.Or(c.Postgres, c.DBFile)); err != nil {
		return err
	}
	return s.store.ensureNamespace(ctx, c)
}

// openFiles takes and opens both databases as files, or in memory when there
// is no name.
func (s *Server) openFiles(_ context.Context, file string) error {
	lock, err := lockDatabase(file)
	if err != nil {
		return err
	}
	visibility := ""
	if lock != nil {
		s.unlock = lock.Close
		visibility = file + visibilitySuffix
	}
	if s.store, err = openDatabase(file); err != nil {
		return err
	}
	s.visibility, err = openDatabase(visibility)
	return err
}

// startServices starts all Temporal services. The server reports some start-up
// errors, a listener that cannot bind among them, by logger.Fatal, which our
// logger turns into a panic; here it becomes an error again.
func (s *Server) startServices(c Config, internal []int) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("start temporal: %v", r)
		}
	}()
	server, err := temporal.NewServer(
		temporal.WithConfig(s.config(c, internal)),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(staticHosts(c, internal)),
		temporal.WithDynamicConfigClient(dynamicConfig),
		temporal.WithClientFactoryProvider(patientClients{serverclient.NewFactoryProvider()}),
		temporal.WithLogger(newLogger(c.Logger, &s.running)),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper {
			return authorization.NewNoopClaimMapper()
		}),
	)
	if err != nil {
		return fmt.Errorf("configure temporal: %w", err)
	}
	s.server = server
	if err := server.Start(); err != nil {
		return fmt.Errorf("start temporal: %w", err)
	}
	return nil
}

// ready waits until the server answers for the namespace.
func (s *Server) ready(ctx context.Context, c Config) error {
	cl, err := client.DialContext(ctx, client.Options{
		HostPort:  s.addr,
		Namespace: c.Namespace,
		Logger:    c.Logger,
	})
	if err != nil {
		return fmt.Errorf("reach temporal at %s: %w", s.addr, err)
	}
	defer cl.Close()
	_, err = cl.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: c.Namespace})
	if err != nil {
		return fmt.Errorf("reach temporal namespace %s: %w", c.Namespace, err)
	}
	return nil
}

// Addr is the host:port of the gRPC API, as a client dials it.
func (s *Server) Addr() string { return s.addr }

// UIURL is where a browser finds the Web UI; empty without one.
func (s *Server) UIURL() string {
	if s.ui == nil {
		return ""
	}
	return s.ui.url
}

// Stop ends the server: requests under way are given a second, tasks being
// processed are finished, and SQLite databases are checkpointed, so that
// their files alone hold everything. Workflows are not touched; a later Start
// resumes them. It takes at most half a minute, and an error says that something
// was still running then. Call it once.
//
// The server never closes the connections between its services, so that some
// sleeping goroutines stay behind, and their memory.
func (s *Server) Stop() error {
	s.running.Store(false)
	if s.ui != nil {
		s.ui.stop()
	}
	var errs []error
	if s.server != nil {
		errs = append(errs, withTimeout(stopTimeout, s.server.Stop))
	}
	for _, db := range []*database{s.visibility, s.store} {
		if db != nil {
			errs = append(errs, db.close())
		}
	}
	if s.unlock != nil {
		errs = append(errs, s.unlock())
	}
	return errors.Join(errs...)
}

// withTimeout runs f and gives up on it, leaving it running, after d.
func withTimeout(d time.Duration, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(d):
		return fmt.Errorf("temporal did not stop within %v", d)
	}
}
