// Package ferret runs FerretDB, a database that speaks MongoDB's wire protocol
// and stores documents in SQLite, inside the calling process. It is meant for
// one developer's machine and for tests.
//
// Left alone FerretDB falls short of MongoDB in ways that Drover would notice,
// so clients talk to it through a front which makes up for them: see front.
// What the two together do, and what they do not, is held down by this
// package's tests.
package ferret

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/FerretDB/FerretDB/ferretdb"
)

// ip is where clients connect. Nobody is authenticated, so it is not a choice.
const ip = "127.0.0.1"

// How long Stop waits for requests under way, and then for FerretDB itself.
const (
	drainTimeout = 5 * time.Second
	stopTimeout  = 10 * time.Second
)

// pragmas are for every SQLite file. The first two are FerretDB's own defaults,
// spelled out because we rely on them. The third means that a commit does not
// wait for the disk: when the process dies nothing is lost, when the machine
// does the last moments may be.
var pragmas = url.Values{"_pragma": {"busy_timeout(10000)", "journal_mode(wal)", "synchronous(normal)"}}

// Config says where the data is and where to listen.
type Config struct {
	// Dir holds one SQLite file per database; it is created when absent. There
	// must be no %, ? or # in its path.
	Dir string
	// Collections are made in Database where they are not there, before anybody is let in: none of them is made while clients
	// work, which would hold up all of them.
	Database    string
	Collections []Collection
	// Beside are members of documents that are whole numbers of 64 bits wherever there are such members, and that collections of any database
	// may have indexes for, beside _id: a find below a prefix, of everything, or by one of Texts, that wants no other members is answered from such an index.
	Beside []string
	// Texts are members of documents that are texts, and neither lists nor anything else, wherever there are such members, and that have an
	// index of their own: a find by one of them reads no other documents.
	Texts []string
	// Lists are members of documents that are lists of texts wherever there are such members: a find of a text in one of them decodes only documents
	// that have the text somewhere.
	Lists []string
	// Plain are what names of collections begin with of which all _ids are texts that have nothing but letters, digits and .-/_: a find of a range of them
	// reads no other documents.
	Plain []string
	// Port serves the wire protocol on 127.0.0.1. 0 means a free port.
	Port int
	// Logger receives warnings and errors about the database; nil means to
	// standard error.
	Logger *slog.Logger
}

// DB is a running database server.
type DB struct {
	front  *front
	cancel context.CancelFunc
	done   chan error
}

// Start runs a database server and returns once it accepts connections. ctx
// bounds the start only; end the server with Stop.
func Start(ctx context.Context, c Config) (_ *DB, err error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	dir, err := filepath.Abs(c.Dir)
	if err == nil && strings.ContainsAny(dir, "%?#") {
		err = fmt.Errorf("%s: ferretdb cannot use a path with %%, ? or #", dir)
	}
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("ferretdb directory: %w", err)
	}
	x := newIndexes(dir)
	if len(c.Collections) > 0 {
		indexed, err := prepare(ctx, dir, c.Database, c.Collections, c.Texts)
		if err != nil {
			return nil, fmt.Errorf("make the collections of %s: %w", c.Database, err)
		}
		x.note(c.Database, indexed)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(ip, strconv.Itoa(c.Port)))
	if err != nil {
		return nil, fmt.Errorf("MongoDB wire protocol port %d: %w", c.Port, err)
	}
	db := &DB{done: make(chan error, 1)}
	backend, err := db.startFerret(ctx, dir, c.Logger)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	db.front = newFront(listener, backend, x, newLookups(dir, c.Texts, c.Lists, c.Plain), c.Beside, c.Logger)
	return db, nil
}

// startFerret runs FerretDB, and says on which address: a port of its own. A Unix socket would be a file, which a process
// that is killed leaves behind, and which cannot be in dir: its path is limited to about a hundred bytes.
func (db *DB) startFerret(ctx context.Context, dir string, l *slog.Logger) (address string, err error) {
	server, err := ferretdb.New(&ferretdb.Config{
		Listener:  ferretdb.ListenerConfig{TCP: net.JoinHostPort(ip, "0")},
		Logger:    l,
		Handler:   "sqlite",
		SQLiteURL: sqliteURL(dir + "/"),
	})
	if err != nil {
		return "", fmt.Errorf("start ferretdb: %w", err)
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	db.cancel = cancel
	go func() { db.done <- server.Run(run) }()
	return strings.TrimSuffix(strings.TrimPrefix(server.MongoDBURI(), "mongodb://"), "/"), nil
}

// sqliteURL is SQLite's name for a file, or FerretDB's for a directory.
func sqliteURL(path string) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + pragmas.Encode()
}

// URI is what a MongoDB client connects to.
func (db *DB) URI() string { return "mongodb://" + db.front.listener.Addr().String() + "/" }

// Stop ends the server: requests under way are answered, then all connections
// are closed. It takes a quarter of a minute at most, and an error says that
// something was still running then. Call it once.
func (db *DB) Stop() error {
	err := db.front.stop(drainTimeout)
	db.cancel()
	select {
	case e := <-db.done:
		err = errors.Join(err, e)
	case <-time.After(stopTimeout):
		err = errors.Join(err, fmt.Errorf("ferretdb did not stop within %v", stopTimeout))
	}
	return err
}
