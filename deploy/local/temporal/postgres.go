package temporal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/postgresql"
	"go.temporal.io/server/tools/common/schema"
	sqltool "go.temporal.io/server/tools/sql"
)

const (
	// postgresVisibility, appended to the name of the main database, is that of
	// the visibility database.
	postgresVisibility = "_visibility"

	// The main and the visibility schema, in the server's embedded files.
	mainSchema       = "postgresql/v12/temporal"
	visibilitySchema = "postgresql/v12/visibility"

	// Each of the four services has a connection pool per database. Together
	// they stay well below the hundred connections that PostgreSQL allows by
	// default.
	mainConns       = 12
	visibilityConns = 5

	postgresLock        = 0x64726f766572 // "drover", the key of an advisory lock
	postgresLockTimeout = 5 * time.Second
	postgresTimeout     = 10 * time.Second
)

// openPostgres takes both databases for this server alone, creates those that
// are missing, and brings their tables to what this version of Temporal expects.
func (s *Server) openPostgres(ctx context.Context, raw string) error {
	u, err := parsePostgres(raw)
	if err != nil {
		return err
	}
	name := strings.TrimPrefix(u.Path, "/")
	if err := createPostgres(ctx, u, name, name+postgresVisibility); err != nil {
		return fmt.Errorf("create temporal databases on %s: %w", u.Host, err)
	}
	if s.unlock, err = lockPostgres(ctx, u); err != nil {
		return fmt.Errorf("lock temporal database %s on %s: %w", name, u.Host, err)
	}
	if s.store, err = migrated(u, name, mainSchema, mainConns); err != nil {
		return err
	}
	s.visibility, err = migrated(u, name+postgresVisibility, visibilitySchema, visibilityConns)
	return err
}

// parsePostgres reads a URL and adds what it leaves to the defaults, which
// differ between Temporal and the driver. An error does not repeat the URL,
// which may hold a password.
func parsePostgres(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "postgres" || u.User.Username() == "" || u.Hostname() == "" || strings.Trim(u.Path, "/") == "" {
		return nil, errors.New("the PostgreSQL URL is not of the form postgres://user:password@host:port/database?sslmode=…")
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), "5432")
	}
	q := u.Query()
	for key, value := range map[string]string{"sslmode": "disable", "connect_timeout": fmt.Sprint(postgresTimeout.Seconds())} {
		if !q.Has(key) {
			q.Set(key, value)
		}
	}
	u.RawQuery = q.Encode()
	return u, nil
}

// createPostgres creates the databases that do not exist.
func createPostgres(ctx context.Context, u *url.URL, names ...string) error {
	maintenance := *u
	maintenance.Path = "/postgres"
	conn, err := pgx.Connect(ctx, maintenance.String())
	if err != nil {
		return err
	}
	defer func() { _ = closeConn(conn) }()
	for _, name := range names {
		found, err := conn.Exec(ctx, "SELECT FROM pg_database WHERE datname = $1", name)
		if err == nil && found.RowsAffected() == 0 {
			_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// lockPostgres takes the main database for this server alone, until the
// returned function is called or the process ends: the services find each
// other by a fixed list, so that a second server's would fight them for the
// workflows. The lock is one of the connection's, which is why it is kept; it
// waits a little, since PostgreSQL may notice the end of a killed process late.
func lockPostgres(ctx context.Context, u *url.URL) (func() error, error) {
	conn, err := pgx.Connect(ctx, u.String())
	if err != nil {
		return nil, err
	}
	_, err = conn.Exec(ctx, fmt.Sprintf("SET lock_timeout = %d", postgresLockTimeout.Milliseconds()))
	if err == nil {
		_, err = conn.Exec(ctx, "SELECT pg_advisory_lock($1)", postgresLock)
	}
	if err == nil {
		return func() error { return closeConn(conn) }, nil
	}
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "55P03" { // lock_not_available
		err = errors.New("another server is using it")
	}
	return nil, errors.Join(err, closeConn(conn))
}

func closeConn(conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(context.Background(), postgresTimeout)
	defer cancel()
	return conn.Close(ctx)
}

// migrated is a database whose schema is up to date. A migration that was
// broken off is taken up again.
func migrated(u *url.URL, name, schemaName string, conns int) (*database, error) {
	cfg := postgresConfig(u, name, conns)
	conn, err := sqltool.NewConnection(cfg, log.NewNoopLogger())
	if err != nil {
		return nil, fmt.Errorf("open temporal database %s on %s: %w", name, u.Host, err)
	}
	defer conn.Close()
	setup := schema.NewSetupSchemaTask(conn, &schema.SetupConfig{InitialVersion: "0.0"}, log.NewNoopLogger())
	update := schema.NewUpdateSchemaTask(conn, &schema.UpdateConfig{SchemaName: schemaName}, log.NewNoopLogger())
	for _, task := range []interface{ Run() error }{setup, update} {
		if err := task.Run(); err != nil {
			return nil, fmt.Errorf("set up temporal database %s on %s: %w", name, u.Host, err)
		}
	}
	return &database{config: cfg}, nil
}

// postgresConfig is the server's configuration of one database. It builds a URL
// of it without escaping anything but the password.
func postgresConfig(u *url.URL, name string, conns int) *config.SQL {
	password, _ := u.User.Password()
	cfg := &config.SQL{
		PluginName:   postgresql.PluginNamePGX,
		ConnectAddr:  u.Host,
		User:         url.PathEscape(u.User.Username()),
		Password:     password,
		DatabaseName: url.PathEscape(name),
		MaxConns:     conns,
		// By default all but two are closed when they are not needed for a
		// moment, and opened again in the next.
		MaxIdleConns:      conns,
		MaxConnLifetime:   time.Hour,
		ConnectAttributes: map[string]string{},
	}
	for key, values := range u.Query() {
		cfg.ConnectAttributes[key] = values[0]
	}
	return cfg
}
