// Package mongotest gives tests a real database: the one that DROVER_TEST_MONGODB_URI names, or the local
// one that this repository builds.
package mongotest

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/drover-io/drover/internal/built"
	"github.com/drover-io/drover/internal/tempdir"
	"github.com/drover-io/drover/internal/tether"
)

// Environment of the tests.
const (
	uriVariable = "DROVER_TEST_MONGODB_URI" // a database to use instead of the local one
)

// Timeout is that of calls to the database in tests; only a defect or a very busy machine reaches it.
const Timeout = 2 * time.Minute

// Bounds of what is waited for.
const (
	startTime = 2 * time.Minute
	dropTime  = time.Minute
)

// local is the database of this process.
var local struct {
	once sync.Once
	uri  string
	err  error
}

// URI is the database's. The local one is started once for all tests of the process and dies with it.
// Where it is not built the test is skipped, or fails if DROVER_TEST_REQUIRE is set.
func URI(t testing.TB) string {
	t.Helper()
	if uri := os.Getenv(uriVariable); uri != "" {
		return uri
	}
	path := built.Binary(t, "drover-local")
	local.once.Do(func() { local.uri, local.err = start(path) })
	uri, err := local.uri, local.err
	if err != nil {
		t.Fatalf("start the local database: %v", err)
	}
	return uri
}

// Database is a name that no other test uses. What the test leaves under it on a database that outlives
// the tests is removed.
func Database(t testing.TB) string {
	t.Helper()
	name := "t" + strings.ToLower(rand.Text())
	if uri := os.Getenv(uriVariable); uri != "" {
		t.Cleanup(func() {
			if err := drop(uri, name); err != nil {
				t.Errorf("drop the database %s: %v", name, err)
			}
		})
	}
	return name
}

func drop(uri, name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), dropTime)
	defer cancel()
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		return err
	}
	return errors.Join(client.Database(name).Drop(ctx), client.Disconnect(ctx))
}

func start(path string) (uri string, err error) {
	dir, err := tempdir.Make("drover-mongotest")
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(context.Background(), path, "mongo", "--dir", dir, "--port", "0", "--log-level", "error")
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := tether.Start(cmd, syscall.SIGKILL); err != nil {
		return "", err
	}
	ready := make(chan string)
	go func() { ready <- readyURI(stdout) }()
	select {
	case uri := <-ready:
		if uri == "" {
			return "", fmt.Errorf("%s ended before it was ready", path)
		}
		return uri, nil
	case <-time.After(startTime):
		return "", fmt.Errorf("%s is not ready after %s", path, startTime)
	}
}

// readyURI reads up to the line "ready … uri=…"; "" when there is none.
func readyURI(r io.Reader) string {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		if _, uri, ok := strings.Cut(lines.Text(), " uri="); ok && strings.HasPrefix(lines.Text(), "ready ") {
			return uri
		}
	}
	return ""
}
