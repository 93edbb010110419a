package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/drover-io/drover/deploy/local/kube/internal/atomicfile"
)

// State describes a running cluster to programs. Its file exists from the moment
// the cluster is ready until its supervisor stops it, and is replaced whenever a
// component has been restarted.
type State struct {
	Cluster       string                    `json:"cluster"`
	Server        string                    `json:"server"`
	Kubeconfig    string                    `json:"kubeconfig"`
	SupervisorPID int                       `json:"supervisorPid"`
	Ports         Ports                     `json:"ports"`
	Components    map[string]ComponentState `json:"components"`
}

// ComponentState describes one component of a running cluster.
type ComponentState struct {
	// PID is 0 while the component is down and waits for its restart.
	PID      int    `json:"pid"`
	Restarts int    `json:"restarts"`
	Log      string `json:"log"`
}

// WriteState replaces the cluster's state file.
func (l Layout) WriteState(state State) error {
	content, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the state of cluster %s: %w", l.Name, err)
	}
	return atomicfile.Write(l.StateFile(), append(content, '\n'), 0o600)
}

// RemoveState removes the cluster's state file, if there is one.
func (l Layout) RemoveState() error {
	if err := os.Remove(l.StateFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
