package test

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/built"
	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/freeport"
	"github.com/drover-io/drover/test/harness"
)

// localFlags put the local stack on ports of the test's own.
func localFlags() (flags []string, api string) {
	ports := freeport.Block(26)
	for i, name := range []string{"--api-port", "--grpc-port", "--temporal-port", "--ui-port", "--mongo-port", "--tenant-port", "--kube-ports"} {
		flags = append(flags, name, fmt.Sprint(ports[i]))
	}
	return flags, fmt.Sprintf("http://127.0.0.1:%d", ports[0])
}

func TestDemoTellsTheStoryAndLeavesNothing(t *testing.T) {
	for command, story := range map[string][]string{
		"demo": {
			"Web UI http://", "REST API", "12 of 12 resources Applied", `"Applied": 12`, `"packetgen"`, "12 of 12 resources Deleted",
			`"state": "Created"`, `"state": "Approved"`, `"state": "Instantiated"`, `"state": "Terminated"`, `"Deleted": 12`, "Done in",
			"What to try next", "make run ", "build/bin/drover login http://127.0.0.1:9015 --token-file build/run/admin-token",
			"build/bin/drover cluster add local/edge01 --kubeconfig build/run/clusters/edge01/kubeconfig --label edge", "build/bin/drover deploy deploy/examples",
			"The page shows it live, with the same token: http://127.0.0.1:9015/",
		},
		"demo-workloads": {
			"infrastructure cluster is edge01", "agent into edge02", "Writing a WorkloadRule in edge02", "Synced: it is the rule default.proxy",
			"Running the Pod cart in edge02", "edge01 has the Pod tenant-shop/", `full-workload-info: {"metadata"`, "Removing the Pod",
			"edge01 has no Pod of the tenant any more", "Removing the WorkloadRule", "Gone, and the rule of the tenant before it", "Done in",
		},
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			tells(t, command, story)
		})
	}
}

// tells runs a story, which is told in these words, and leaves nothing.
func tells(t *testing.T, command string, words []string) {
	t.Helper()
	ctx, program := within(t), built.Binary(t, "drover-local")
	built.Binary(t, "drover-kube")
	flags, _ := localFlags()
	cmd := exec.CommandContext(ctx, program, append([]string{command}, flags...)...)
	folder := t.TempDir()
	cmd.Env = append(cmd.Environ(), "TMPDIR="+folder)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	story := string(out)
	at := 0
	for _, said := range words {
		i := strings.Index(story[at:], said)
		require.GreaterOrEqual(t, i, 0, "%q after %q in:\n%s", said, last(story[:at]), story)
		at += i
	}
	left, err := exec.CommandContext(ctx, "pgrep", "-af", folder).Output()
	require.Error(t, err, "what the demo left running:\n%s", left)
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, files, "what the demo left on the disk")
}

// TestLocalRefusesWhatItDoesNotKnow: all of it at once, and before anything is started.
func TestLocalRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	program := built.Binary(t, "drover-local")
	for name, c := range map[string]struct {
		args []string
		says []string
	}{
		"flags":       {[]string{"run", "--api-prot", "1", "--data=x", "--nonsense"}, []string{"-api-prot; perhaps --api-port is meant", "-nonsense"}},
		"no value":    {[]string{"temporal", "--port"}, []string{"flag needs an argument: -port"}},
		"an argument": {[]string{"demo", "fast"}, []string{`drover-local demo: unexpected argument "fast"`}},
		"a command":   {[]string{"walk"}, []string{`unknown command "walk"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(within(t), program, c.args...)
			cmd.Dir = t.TempDir()
			out, err := cmd.CombinedOutput()
			var ended *exec.ExitError
			require.ErrorAs(t, err, &ended)
			require.Equal(t, 1, ended.ExitCode())
			for _, said := range c.says {
				require.Contains(t, string(out), said)
			}
			left, err := os.ReadDir(cmd.Dir)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

func last(s string) string { return s[max(0, len(s)-60):] }

func TestRunCarriesOnWithItsData(t *testing.T) {
	t.Parallel()
	ctx, program := within(t), built.Binary(t, "drover-local")
	flags, url := localFlags()
	folder := filepath.Join(t.TempDir(), "run")
	flags = append([]string{"run", "--data", folder, "--clusters", ""}, flags...)
	first := harness.Start(t, "run", "  build/bin/drover", nil, program, flags...)
	require.Contains(t, first.Log(), "build/bin/drover login "+url+" --token-file "+folder+"/admin-token")
	stranger := client.New(url + "/v2")
	defer stranger.Close()
	_, err := stranger.API().List(ctx, domain.Projects, "")
	require.Equal(t, 401, code(t, err), "%v", err)
	token, err := os.ReadFile(filepath.Join(folder, "admin-token"))
	require.NoError(t, err)
	c := client.New(url+"/v2", client.WithToken(strings.TrimSpace(string(token))))
	defer c.Close()
	_, err = c.API().Create(ctx, &domain.Project{Metadata: domain.Metadata{Name: "kept"}}, nil)
	require.NoError(t, err)
	requirePrivate(t, folder)

	busy, err := exec.CommandContext(ctx, program, flags...).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(busy), `in use; choose another by --api-port (with make: ARGS="--api-port PORT")`)

	require.NoError(t, first.Stop(ctx))
	harness.Start(t, "run", "Running", nil, program, flags...)
	_, err = c.API().Get(ctx, domain.Projects, "projects/kept")
	require.NoError(t, err)
}

// TestRunSaysWhichPortOfAClusterIsInUse, and by which flag of its own, and not of the program for clusters, to choose another.
func TestRunSaysWhichPortOfAClusterIsInUse(t *testing.T) {
	t.Parallel()
	ctx, program := within(t), built.Binary(t, "drover-local")
	built.Binary(t, "drover-kube")
	flags, _ := localFlags()
	port := flags[len(flags)-1]
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", port))
	require.NoError(t, err)
	defer l.Close()
	out, err := exec.CommandContext(ctx, program, append([]string{"run", "--data", filepath.Join(t.TempDir(), "run")}, flags...)...).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "port "+port+" for kube-apiserver of cluster edge01 is not free, choose other ports with --kube-ports (with make: ARGS=\"--kube-ports PORT\")")
}

// requirePrivate looks at all files below a folder: nobody but their owner may read them.
func requirePrivate(t *testing.T, folder string) {
	t.Helper()
	files := 0
	require.NoError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // SQLite comes and goes
			return nil
		}
		require.NoError(t, err)
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, "%s: %s", path, info.Mode())
		files++
		return nil
	}))
	require.Greater(t, files, 5)
}

func TestReadinessSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), harness.NewStack(t)
	ask := func(path string) (code int) {
		return s.Send(ctx, http.MethodGet, s.URL()+path, nil, "").Code
	}
	require.Equal(t, 200, ask("/readyz"))
	s.Database.Kill()
	harness.Until(ctx, t, "it is not ready, which is asked once a second at most", func() bool { return ask("/readyz") == 503 })
	require.Equal(t, 200, ask("/healthz"))
	_, err := s.Client.API().List(ctx, domain.Projects, "")
	require.Contains(t, []int{503, 504}, code(t, err))

	// A process that starts now waits, and says for what.
	waiting := exec.CommandContext(ctx, built.Binary(t, "drover"), "worker")
	waiting.Env = append(append(waiting.Environ(), s.Env()...), "DROVER_METRICS_LISTEN="+freeport.Address())
	said, err := waiting.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, waiting.Start())
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "waiting for a dependency") && strings.Contains(lines.Text(), "database") {
			break
		}
	}
	require.Contains(t, lines.Text(), "database")
	require.NoError(t, waiting.Process.Kill())
	_ = waiting.Wait()
	s.StartDatabase()

	// So does one whose namespace nobody has made, with the command that does.
	unmade := exec.CommandContext(ctx, built.Binary(t, "drover"), "worker")
	unmade.Env = append(append(unmade.Environ(), s.Env()...), "DROVER_TEMPORAL_NAMESPACE=unmade", "DROVER_METRICS_LISTEN="+freeport.Address())
	said, err = unmade.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, unmade.Start())
	lines = bufio.NewScanner(said)
	for lines.Scan() && !strings.Contains(lines.Text(), "temporal operator namespace create --namespace unmade") {
	}
	require.Contains(t, lines.Text(), "temporal operator namespace create --namespace unmade")
	require.NoError(t, unmade.Process.Kill())
	_ = unmade.Wait()
	harness.Until(ctx, t, "ready again", func() bool { return ask("/readyz") == 200 })
}
