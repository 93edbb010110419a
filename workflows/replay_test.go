package workflows_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/internal/built"
	"github.com/drover-io/drover/workflows"
)

const (
	// replayFolder has a folder for each release, with one for each workflow type.
	replayFolder = "testdata/replay"
	// nextRelease is the folder of what no release has yet. It may be recorded anew.
	nextRelease = "next"
	// sumsFile, in the folder of a release, has the digest of each of its histories.
	sumsFile = "SHA256SUMS"
)

// registered collects the names under which workflows are registered.
type registered struct {
	worker.WorkflowRegistry
	names []string
}

func (r *registered) RegisterWorkflowWithOptions(fn any, options workflow.RegisterOptions) {
	r.names = append(r.names, options.Name)
	r.WorkflowRegistry.RegisterWorkflowWithOptions(fn, options)
}

// TestReplay replays the histories that releases have written: whoever changes what a workflow does
// in which order breaks the operations that are running. deploy/tools/release.sh records them.
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
	files, err := filepath.Glob(filepath.Join(replayFolder, "*", "*", "*.json"))
	require.NoError(t, err)
	recorded := map[string]bool{}
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		recorded[name] = true
		if !slices.Contains(names, name) {
			t.Errorf("%s is a history of %s, which is not registered; running operations would be stuck", file, name)
			continue
		}
		title, err := filepath.Rel(replayFolder, file)
		require.NoError(t, err)
		t.Run(title, func(t *testing.T) {
			replayer, _ := newReplayer(t)
			logger := log.NewStructuredLogger(slog.New(slog.DiscardHandler))
			require.NoError(t, replayer.ReplayWorkflowHistoryFromJSONFile(logger, file))
		})
	}
	for _, name := range names {
		if !recorded[name] {
			t.Errorf("workflow %s has no recorded history in %s; run make record-replay", name, filepath.Join(replayFolder, nextRelease))
		}
	}
}

// TestChangesAreRecorded: of each change that workflow.GetVersion is asked about there is a history that has it. Without one nothing would
// notice that the new order of commands is changed once more, or that the change has another name.
func TestChangesAreRecorded(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(replayFolder, "*", "*", "*.json"))
	require.NoError(t, err)
	recorded := map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		history, err := client.HistoryFromJSON(bytes.NewReader(data), client.HistoryJSONOptions{})
		require.NoError(t, err, file)
		for _, event := range history.GetEvents() {
			for _, payload := range event.GetMarkerRecordedEventAttributes().GetDetails()["change-id"].GetPayloads() {
				var change string
				require.NoError(t, converter.GetDefaultDataConverter().FromPayload(payload, &change), file)
				recorded[change] = true
			}
		}
	}
	changes := changesAskedAbout(t)
	require.NotEmpty(t, changes)
	for _, change := range changes {
		if !recorded[change] {
			t.Errorf("no history in %s has the change %q; run make record-replay, with a situation that meets it", replayFolder, change)
		}
	}
}

// changesAskedAbout are the names of changes that the workflows give to workflow.GetVersion: constants of the package.
func changesAskedAbout(t *testing.T) (changes []string) {
	t.Helper()
	sources, err := filepath.Glob("*.go")
	require.NoError(t, err)
	constants, asked := map[string]string{}, []string{}
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), source, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, value := range n.Values {
					if literal, ok := value.(*ast.BasicLit); ok && literal.Kind == token.STRING {
						constants[n.Names[i].Name], err = strconv.Unquote(literal.Value)
						require.NoError(t, err)
					}
				}
			case *ast.CallExpr:
				if called, ok := n.Fun.(*ast.SelectorExpr); ok && called.Sel.Name == "GetVersion" {
					name, ok := n.Args[1].(*ast.Ident)
					require.True(t, ok, "%s: a change is named by a constant of this package", source)
					asked = append(asked, name.Name)
				}
			}
			return true
		})
	}
	for _, name := range asked {
		require.Contains(t, constants, name, "the name of a change is a constant of this package")
		changes = append(changes, constants[name])
	}
	return changes
}

// release is a line of docs/releases.txt.
type release struct{ version, commit, sums string }

func releases(t *testing.T, text string) (list []release) {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.Fields(line)
		require.Len(t, words, 3, line)
		list = append(list, release{words[0], words[1], words[2]})
	}
	return list
}

// releasesFile names all releases.
const releasesFile = "docs/releases.txt"

func readReleases(t *testing.T) []release {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(built.Root(t), releasesFile))
	require.NoError(t, err)
	return releases(t, string(data))
}

// TestReleasedHistoriesStay: nothing that was recorded of a release is changed, removed or added to. The list of the digests of its histories has
// its own digest in docs/releases.txt, and whoever changes both changes what git has, too.
func TestReleasedHistoriesStay(t *testing.T) {
	folders := []string{nextRelease}
	for _, r := range readReleases(t) {
		folders = append(folders, r.version)
		t.Run(r.version, func(t *testing.T) {
			require.Empty(t, changedHistories(filepath.Join(replayFolder, r.version), r.sums))
			brought := git(t, "log", "--diff-filter=A", "--format=%H", "--reverse", "--", "workflows/testdata/replay/"+r.version+"/"+sumsFile)
			if brought == "" {
				t.Log("this clone does not have the commit that brought them: their digests are all that is compared")
				return
			}
			commit, _, _ := strings.Cut(brought, "\n")
			require.Empty(t, git(t, "diff", "--name-status", commit, "--", "workflows/testdata/replay/"+r.version), "since %s", commit)
			require.Contains(t, releases(t, git(t, "show", commit+":"+releasesFile)), r, "it is named as it was in %s", commit)
			if git(t, "cat-file", "-t", r.commit) == "commit" {
				require.Equal(t, r.version, "v"+git(t, "show", r.commit+":internal/version/VERSION"))
			}
		})
	}
	there, err := os.ReadDir(replayFolder)
	require.NoError(t, err)
	for _, f := range there {
		require.Contains(t, folders, f.Name(), "it is no release of %s", releasesFile)
	}
}

// git is the output of a command of git in the repository, "" when it fails, as where there is no git.
func git(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = built.Root(t)
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// changedHistories says what is not as it was recorded in the folder of a release, whose list of digests has a digest.
func changedHistories(folder, sums string) (problems []string) {
	list, err := os.ReadFile(filepath.Join(folder, sumsFile))
	if err != nil {
		return []string{err.Error()}
	}
	if got := digest(list); got != sums {
		problems = append(problems, sumsFile+" has changed: "+got)
	}
	known := map[string]string{}
	for line := range strings.Lines(string(list)) {
		sum, file, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		known[filepath.Clean(file)] = sum
	}
	err = filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == sumsFile {
			return err
		}
		file, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		switch sum, ok := known[file]; {
		case err != nil:
			return err
		case !ok:
			problems = append(problems, file+" was not recorded")
		case sum != digest(data):
			problems = append(problems, file+" has changed")
		}
		delete(known, file)
		return nil
	})
	if err != nil {
		problems = append(problems, err.Error())
	}
	for file := range known {
		problems = append(problems, file+" is gone")
	}
	slices.Sort(problems)
	return problems
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func TestChangedHistoriesAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(t *testing.T, folder string)
		want []string
	}{
		"nothing": {func(*testing.T, string) {}, nil},
		"one is changed": {func(t *testing.T, folder string) {
			require.NoError(t, os.WriteFile(filepath.Join(folder, "A", "a.json"), []byte("{ }"), 0o600))
		}, []string{"A/a.json has changed"}},
		"one is removed": {func(t *testing.T, folder string) {
			require.NoError(t, os.Remove(filepath.Join(folder, "A", "a.json")))
		}, []string{"A/a.json is gone"}},
		"one is added": {func(t *testing.T, folder string) {
			require.NoError(t, os.WriteFile(filepath.Join(folder, "A", "b.json"), []byte("{}"), 0o600))
		}, []string{"A/b.json was not recorded"}},
		"the list is changed with it": {func(t *testing.T, folder string) {
			require.NoError(t, os.WriteFile(filepath.Join(folder, "A", "a.json"), []byte("{ }"), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(folder, sumsFile), []byte(digest([]byte("{ }"))+"  ./A/a.json\n"), 0o600))
		}, []string{"SHA256SUMS has changed: " + digest([]byte(digest([]byte("{ }"))+"  ./A/a.json\n"))}},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(folder, "A"), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(folder, "A", "a.json"), []byte("{}"), 0o600))
			list := []byte(digest([]byte("{}")) + "  ./A/a.json\n")
			require.NoError(t, os.WriteFile(filepath.Join(folder, sumsFile), list, 0o600))
			c.do(t, folder)
			require.Equal(t, c.want, changedHistories(folder, digest(list)))
		})
	}
}
