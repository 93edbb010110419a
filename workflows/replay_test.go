package workflows_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/workflows"
)

const replayFolder = "testdata/replay"

// registered collects the names under which workflows are registered.
type registered struct {
	worker.WorkflowRegistry
	names []string
}

func (r *registered) RegisterWorkflowWithOptions(fn any, options workflow.RegisterOptions) {
	r.names = append(r.names, options.Name)
	r.WorkflowRegistry.RegisterWorkflowWithOptions(fn, options)
}

// TestReplay replays the histories that deployed code has written: whoever changes what a workflow does
// in which order breaks the operations that are running. make record-replay records them.
func TestReplay(t *testing.T) {
	newReplayer := func(t *testing.T) (worker.WorkflowReplayer, []string) {
		replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{DisableDeadlockDetection: true})
		require.NoError(t, err)
		r := &registered{WorkflowRegistry: replayer}
		workflows.Register(r)
		return replayer, r.names
	}
	_, names := newReplayer(t)
	require.NotEmpty(t, names)
	known := map[string]bool{}
	for _, name := range names {
		known[name] = true
		files, err := filepath.Glob(filepath.Join(replayFolder, name, "*.json"))
		require.NoError(t, err)
		if len(files) == 0 {
			t.Errorf("workflow %s has no recorded history in %s; run make record-replay", name, replayFolder)
		}
		for _, file := range files {
			t.Run(name+"/"+filepath.Base(file), func(t *testing.T) {
				replayer, _ := newReplayer(t)
				logger := log.NewStructuredLogger(slog.New(slog.DiscardHandler))
				require.NoError(t, replayer.ReplayWorkflowHistoryFromJSONFile(logger, file))
			})
		}
	}
	folders, err := os.ReadDir(replayFolder)
	require.NoError(t, err)
	for _, f := range folders {
		if !known[f.Name()] {
			t.Errorf("%s has histories of %s, which is not registered; running operations would be stuck", replayFolder, f.Name())
		}
	}
}
