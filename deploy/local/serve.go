package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/drover-io/drover/deploy/local/ferret"
	"github.com/drover-io/drover/deploy/local/temporal"
	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/connections"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/telemetry"
)

// startTimeout bounds the start of a server, which normally takes well under a
// second.
const startTimeout = time.Minute

// logLevel is what the default logger lets through.
var logLevel slog.LevelVar

func runTemporal(ctx context.Context, args []string, stdout io.Writer) error {
	c := temporal.Config{Logger: slog.Default(), SearchAttributes: map[string]enumspb.IndexedValueType{}}
	fs := newFlags("temporal")
	profiles := profileFlag(fs)
	fs.StringVar(&c.DBFile, "db", "", "database `file`; in memory when empty")
	fs.StringVar(&c.Postgres, "postgres", "", "`URL` of a PostgreSQL database, instead of a file; created when absent")
	fs.StringVar(&c.IP, "ip", "127.0.0.1", "`address` to listen on")
	fs.IntVar(&c.FrontendPort, "port", 7233, "gRPC `port`; 0 for a free one")
	fs.IntVar(&c.UIPort, "ui-port", 8233, "Web UI `port`; 0 for none")
	fs.StringVar(&c.Namespace, "namespace", "drover", "namespace to create when absent")
	fs.DurationVar(&c.Retention, "retention", 72*time.Hour, "how long a created namespace keeps closed workflows")
	fs.Func("search-attribute", "custom search attribute to add when absent, as `name=type` (may be repeated)",
		func(s string) error { return addAttribute(c.SearchAttributes, s) })
	if err := parse(fs, args); err != nil {
		return err
	}
	if err := serveProfiles(ctx, *profiles); err != nil {
		return err
	}
	start, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s, err := temporal.Start(start, c)
	if err != nil {
		return err
	}
	ui := s.UIURL()
	if ui == "" {
		ui = "none"
	}
	fmt.Fprintf(stdout, "ready temporal addr=%s namespace=%s ui=%s\n", s.Addr(), c.Namespace, ui)
	<-ctx.Done()
	return s.Stop()
}

func runMongo(ctx context.Context, args []string, stdout io.Writer) error {
	c := ferret.Config{Beside: store.Beside(), Texts: store.Texts(), Lists: store.Lists(), Plain: store.Plain(), Logger: slog.Default()}
	fs := newFlags("mongo")
	profiles := profileFlag(fs)
	fs.StringVar(&c.Dir, "dir", "", "data `directory` (required)")
	fs.IntVar(&c.Port, "port", 27017, "`port` to listen on; 0 for a free one")
	fs.StringVar(&c.Database, "database", "", "`name` of a database in which Drover's collections are made at the start; none when empty")
	if err := parse(fs, args); err != nil {
		return err
	}
	if c.Database != "" {
		c.Collections = collections()
	}
	if c.Dir == "" {
		return fmt.Errorf("mongo: --dir is required")
	}
	if err := serveProfiles(ctx, *profiles); err != nil {
		return err
	}
	start, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	db, err := ferret.Start(start, c)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "ready mongo uri=%s\n", db.URI())
	<-ctx.Done()
	return db.Stop()
}

// collections are those of Drover's store, with all parts of what is divided: one that FerretDB makes when something is first put into it
// has every connection read the names of all anew, several times (decision 0099).
func collections() (all []ferret.Collection) {
	for _, c := range store.Collections() {
		all = append(all, ferret.Collection{Name: c.Name, Indexes: c.Indexes, Covering: c.Covering})
	}
	return all
}

func newFlags(name string) *flag.FlagSet {
	fs := flag.NewFlagSet("drover-local "+name, flag.ContinueOnError)
	fs.TextVar(&logLevel, "log-level", &logLevel, "least `level` logged: debug, info, warn or error")
	return fs
}

// parse reads the flags of a command, which takes nothing else. The error says of all of them what is wrong.
func parse(fs *flag.FlagSet, args []string) error {
	err := config.Parse(fs, args)
	if err == nil && fs.NArg() > 0 {
		return fmt.Errorf("%s: unexpected argument %q", fs.Name(), fs.Arg(0))
	}
	return err
}

func profileFlag(fs *flag.FlagSet) *string {
	return fs.String("profile-listen", "", "`address` of the runtime's profiles; none when empty")
}

func serveProfiles(ctx context.Context, address string) error {
	if address == "" {
		return nil
	}
	_, err := connections.Side{
		Address: address, Purpose: "profiles (--profile-listen)", Handler: telemetry.Profiles(), Write: policy.ProfileWrite, Log: slog.Default(),
	}.Serve(ctx)
	return err
}

// addAttribute parses name=type, where type is one of Temporal's: Keyword,
// Text, Int, Double, Bool, Datetime, KeywordList.
func addAttribute(to map[string]enumspb.IndexedValueType, s string) error {
	name, typ, ok := strings.Cut(s, "=")
	if !ok {
		return fmt.Errorf("want name=type")
	}
	t, err := enumspb.IndexedValueTypeFromString(typ)
	if err != nil || t == enumspb.INDEXED_VALUE_TYPE_UNSPECIFIED {
		return fmt.Errorf("unknown type %q", typ)
	}
	to[name] = t
	return nil
}
