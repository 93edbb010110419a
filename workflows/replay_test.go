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
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
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

// newReplayer makes one that knows all workflows, which it names.
func newReplayer(t *testing.T, interceptors ...interceptor.WorkerInterceptor) (worker.WorkflowReplayer, []string) {
	t.Helper()
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{DisableDeadlockDetection: true, Interceptors: interceptors})
	require.NoError(t, err)
	r := &registered{WorkflowRegistry: replayer}
	workflows.Register(r)
	return replayer, r.names
}

var silent = log.NewStructuredLogger(slog.New(slog.DiscardHandler))

// TestReplay replays the histories that releases have written: whoever changes what a workflow does
// in which order breaks the operations that are running. deploy/tools/release.sh records them.
func TestReplay(t *testing.T) {
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
			require.NoError(t, replayer.ReplayWorkflowHistoryFromJSONFile(silent, file))
		})
	}
	for _, name := range names {
		if !recorded[name] {
			t.Errorf("workflow %s has no recorded history in %s; run make record-replay", name, filepath.Join(replayFolder, nextRelease))
		}
	}
}

// answers are what workflow.GetVersion answered in workflows that were replayed, by the name of the change.
type answers struct {
	interceptor.WorkerInterceptorBase
	mu  sync.Mutex
	are map[string][]workflow.Version // guarded by mu
}

func (a *answers) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &answersInbound{interceptor.WorkflowInboundInterceptorBase{Next: next}, a}
}

type answersInbound struct {
	interceptor.WorkflowInboundInterceptorBase
	all *answers
}

func (i *answersInbound) Init(out interceptor.WorkflowOutboundInterceptor) error {
	return i.Next.Init(&answersOutbound{interceptor.WorkflowOutboundInterceptorBase{Next: out}, i.all})
}

type answersOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	all *answers
}

func (o *answersOutbound) GetVersion(ctx workflow.Context, change string, least, most workflow.Version) workflow.Version {
	is := o.Next.GetVersion(ctx, change, least, most)
	o.all.mu.Lock()
	defer o.all.mu.Unlock()
	o.all.are[change] = append(o.all.are[change], is)
	return is
}

// TestChangesAreRecorded: of each change that workflow.GetVersion is asked about there is a history that has it. Without one nothing would
// notice that the new order of commands is changed once more, or that the change has another name. As long as the order of before is taken,
// too, there is a history of a release that has come to the question, and has that order.
func TestChangesAreRecorded(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(replayFolder, "*", "*", "*.json"))
	require.NoError(t, err)
	recorded, before := map[string]bool{}, &answers{are: map[string][]workflow.Version{}}
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
		if !strings.HasPrefix(file, filepath.Join(replayFolder, nextRelease)+string(filepath.Separator)) {
			replayer, _ := newReplayer(t, before)
			_ = replayer.ReplayWorkflowHistory(silent, history) // TestReplay says whether it does
		}
	}
	changes := changesAskedAbout(t)
	require.NotEmpty(t, changes)
	for change, both := range changes {
		if !recorded[change] {
			t.Errorf("no history in %s has the change %q; run make record-replay, with a situation that meets it", replayFolder, change)
		}
		if both && !slices.Contains(before.are[change], workflow.DefaultVersion) {
			t.Errorf("no history of a release in %s has come to the change %q without it; run deploy/tools/release.sh more, with a situation that does", replayFolder, change)
		}
	}
}

// changesAskedAbout are the names of changes that the workflows give to workflow.GetVersion, constants of the package, and whether they still
// do what was done before the change, too.
func changesAskedAbout(t *testing.T) map[string]bool {
	t.Helper()
	sources, err := filepath.Glob("*.go")
	require.NoError(t, err)
	constants, asked := map[string]string{}, map[string]bool{}
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
					least, ok := n.Args[2].(*ast.SelectorExpr)
					asked[name.Name] = asked[name.Name] || ok && least.Sel.Name == "DefaultVersion"
				}
			}
			return true
		})
	}
	changes := map[string]bool{}
	for name, both := range asked {
		require.Contains(t, constants, name, "the name of a change is a constant of this package")
		changes[constants[name]] = both
	}
	return changes
}

// release is a line of docs/releases.txt. What was recorded of a release later has a line and a folder of its own: v0.1.0+batches.
type release struct{ version, commit, sums string }

// of is the version without what was recorded later.
func (r release) of() string {
	version, _, _ := strings.Cut(r.version, "+")
	return version
}

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
	folders, commits := []string{nextRelease}, map[string]string{}
	for _, r := range readReleases(t) {
		folders = append(folders, r.version)
		if r.version == r.of() {
			commits[r.version] = r.commit
		}
		require.Equal(t, commits[r.of()], r.commit, "%s is recorded of the release's commit", r.version)
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
				require.Equal(t, r.of(), "v"+git(t, "show", r.commit+":internal/version/VERSION"))
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
