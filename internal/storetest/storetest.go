// Package storetest gives tests a real database: the one that DROVER_TEST_MONGODB_URI names, or the local
// one that this repository builds.
package storetest

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var local struct {
	once sync.Once
	uri  string
	err  error
}

// startTime bounds the start of the local database.
const startTime = 30 * time.Second

// URI is the database's. The local one is started once for all tests of the process and dies with it.
func URI(t testing.TB) string {
	t.Helper()
	if uri := os.Getenv("DROVER_TEST_MONGODB_URI"); uri != "" {
		return uri
	}
	_, file, _, _ := runtime.Caller(0)
	path := filepath.Join(filepath.Dir(file), "..", "..", "build", "bin", "drover-local")
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("DROVER_TEST_REQUIRE") != "" {
			t.Fatal("drover-local is not built: run make servers")
		}
		t.Skip("drover-local is not built: run make servers, or set DROVER_TEST_MONGODB_URI")
	}
	local.once.Do(func() { local.uri, local.err = start(path) })
	if local.err != nil {
		t.Fatal(local.err)
	}
	return local.uri
}

// Database is a name that no other test uses.
func Database(testing.TB) string { return "t" + strings.ToLower(rand.Text()) }

func start(path string) (string, error) {
	dir, err := os.MkdirTemp("", "drover-storetest")
	if err != nil {
		return "", err
	}
	cmd := exec.Command(path, "mongo", "--dir", dir, "--port", "0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever: the death of the thread that starts it kills the process
		started <- cmd.Start()
		select {}
	}()
	if err := <-started; err != nil {
		return "", err
	}
	lines := make(chan string, 1)
	go func() {
		s := bufio.NewScanner(out)
		for s.Scan() {
			if _, uri, ok := strings.Cut(s.Text(), "uri="); ok && strings.HasPrefix(s.Text(), "ready") {
				lines <- uri
			}
		}
	}()
	select {
	case uri := <-lines:
		return uri, nil
	case <-time.After(startTime):
		return "", fmt.Errorf("%s is not ready", path)
	}
}
