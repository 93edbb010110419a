// Package kubetest gives tests a real Kubernetes API, and holds the suite that every kind of cluster has to
// pass, simulated ones too.
package kubetest

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/drover-io/drover/internal/built"
	"github.com/drover-io/drover/internal/freeport"
	"github.com/drover-io/drover/internal/tempdir"
	"github.com/drover-io/drover/internal/tether"
)

// startTime bounds the start of the local cluster.
const startTime = 2 * time.Minute

// ports is how many in a row a local cluster takes.
const ports = 3

// components of the local cluster: what answers, and what finishes deletions. It has no nodes.
const components = "etcd,kube-apiserver,kube-controller-manager"

var local struct {
	once       sync.Once
	kubeconfig []byte
	dir        string
	cluster    *exec.Cmd
	err        error
}

// Kubeconfig is the administrator's kubeconfig of the cluster that DROVER_TEST_KUBECONFIG names, or of a
// local one that this repository builds, which is started once for all tests of the process. The test is
// skipped when there is neither, or fails when DROVER_TEST_REQUIRE is set. The package's TestMain has to
// call Main.
func Kubeconfig(t testing.TB) []byte {
	t.Helper()
	if path := os.Getenv("DROVER_TEST_KUBECONFIG"); path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	path := built.Binary(t, "drover-kube")
	local.once.Do(func() { local.err = start(path) })
	if local.err != nil {
		t.Fatal(local.err)
	}
	return local.kubeconfig
}

// Main runs the tests of a package and ends the local cluster. It returns the code to exit with.
func Main(m *testing.M) int {
	defer func() {
		if local.cluster != nil {
			_ = local.cluster.Process.Signal(os.Interrupt) // it may have ended
			_ = local.cluster.Wait()
		}
		if local.dir != "" {
			_ = os.RemoveAll(local.dir)
		}
	}()
	return m.Run()
}

// Name is one that no other test uses, and that may be part of any object's name.
func Name(prefix string) string { return prefix + "-" + strings.ToLower(rand.Text()[:8]) }

func start(path string) error {
	dir, err := tempdir.Make("drover-kubetest")
	if err != nil {
		return err
	}
	local.dir = dir
	if local.cluster, err = up(path, dir, freeport.Block(ports)[0], components); err != nil {
		return err
	}
	local.kubeconfig, err = os.ReadFile(filepath.Join(dir, inDir, "kubeconfig"))
	return err
}

// inDir is what each cluster is called in its directory.
const inDir = "test"

// up starts a cluster, or has the one of the directory go on. With an error it may run all the same; nil when it does not.
func up(path, dir string, port int, components string) (*exec.Cmd, error) {
	cmd := exec.CommandContext(context.Background(), path, "up", "--data-dir", dir, "--cluster", inDir, "--port-base", strconv.Itoa(port),
		"--components", components, "--no-nodes", "--timeout", startTime.String())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt from the keyboard does not reach it before the tests
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = cmd.Stdout
	if err := tether.Start(cmd, syscall.SIGTERM); err != nil {
		return nil, err
	}
	if err := awaitReady(out); err != nil {
		return cmd, fmt.Errorf("start a local cluster: %w", err)
	}
	return cmd, nil
}

// awaitReady reads what the process says, for as long as it lives.
func awaitReady(out io.Reader) error {
	ready := make(chan error, 1)
	go func() {
		var said strings.Builder
		for s := bufio.NewScanner(out); s.Scan(); {
			if s.Text() == "ready" {
				ready <- nil
			}
			fmt.Fprintln(&said, s.Text())
		}
		select {
		case ready <- errors.New(said.String()):
		default: // it was ready
		}
	}()
	select {
	case err := <-ready:
		return err
	case <-time.After(startTime):
		return errors.New("it is not ready in time")
	}
}
