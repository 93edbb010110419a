// Package cluster says what one local cluster consists of: its files, its
// ports, and the command lines of its components. It starts nothing.
package cluster

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/drover-io/drover/deploy/local/kube/internal/pki"
)

// Layout names the files of one cluster.
type Layout struct {
	// Name is the cluster's name, a DNS label.
	Name string
	// Dir is the cluster's directory. It is absolute, because kubeconfigs and
	// the state file are read by processes that run elsewhere.
	Dir string
}

// NewLayout returns the layout of the named cluster in a data directory.
func NewLayout(dataDir, name string) (Layout, error) {
	dir, err := filepath.Abs(filepath.Join(dataDir, name))
	if err != nil {
		return Layout{}, fmt.Errorf("resolve %s: %w", dataDir, err)
	}
	return Layout{Name: name, Dir: dir}, nil
}

// Kubeconfig is the file that gives users of the cluster every permission.
func (l Layout) Kubeconfig() string { return filepath.Join(l.Dir, "kubeconfig") }

// StateFile describes the running cluster to programs; see State.
func (l Layout) StateFile() string { return filepath.Join(l.Dir, "state.json") }

// Log is the file a component writes its standard output and error to.
func (l Layout) Log(component string) string {
	return filepath.Join(l.Dir, "logs", component+".log")
}

func (l Layout) etcdData() string   { return filepath.Join(l.Dir, "etcd") }
func (l Layout) kwokStages() string { return filepath.Join(l.Dir, "kwok-stages.yaml") }

func (l Layout) serviceAccountKey() string { return filepath.Join(l.Dir, "pki", "service-account.key") }
func (l Layout) authority() pki.Pair       { return l.pair("ca") }
func (l Layout) serving() pki.Pair         { return l.pair("kube-apiserver") }

func (l Layout) pair(name string) pki.Pair {
	base := filepath.Join(l.Dir, "pki", name)
	return pki.Pair{Cert: base + ".crt", Key: base + ".key"}
}

func (l Layout) componentKubeconfig(component string) string {
	return filepath.Join(l.Dir, component+".kubeconfig")
}

// makeDirs makes the directories of the cluster. They hold private keys and
// everything etcd stores, so only their owner may enter.
func (l Layout) makeDirs() error {
	for _, dir := range []string{l.Dir, l.etcdData(), filepath.Join(l.Dir, "pki"), filepath.Join(l.Dir, "logs")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make a directory of cluster %s: %w", l.Name, err)
		}
	}
	return nil
}
