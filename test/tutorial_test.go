package test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/built"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/test/harness"
)

// TestTheTutorial runs the commands of docs/tutorial.md in their order, in a folder like that of `make run`, and holds what they print
// against what the document says they do: its lines come in that order, with anything between them and for each ….
func TestTheTutorial(t *testing.T) {
	t.Parallel()
	ctx, s, clusters := within(t), harness.SharedStack(t), twoClusters(t)
	api := s.AddAPI(t, "DROVER_AUTH=on", "DROVER_ADMIN_TOKEN_FILE="+filepath.Join(t.TempDir(), "first-token"))
	folder := t.TempDir()
	write := func(name string, data []byte) {
		path := filepath.Join(folder, "build", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, data, 0o600))
	}
	for _, c := range clusters {
		write(filepath.Join("run", "clusters", c.Name, "kubeconfig"), c.Kubeconfig(t))
		harness.Until(ctx, t, "what was there before has gone", func() bool { // where the accounts are made, when this is run once more
			there, err := c.Client(t).CoreV1().Namespaces().Get(ctx, "drover", metav1.GetOptions{})
			return apierrors.IsNotFound(err) || err == nil && there.DeletionTimestamp == nil
		})
	}
	account := &domain.ServiceAccount{Metadata: domain.Metadata{Name: "tutorial-" + strings.ToLower(rand.Text()[:8])}}
	token := &domain.ServiceAccountToken{Identity: domain.Identity{Parent: domain.KeyOf(account)}, Metadata: domain.Metadata{Name: "t"}}
	binding := domain.RoleBindings.New().(*domain.RoleBinding)
	binding.Metadata = account.Metadata
	binding.Spec = domain.RoleBindingSpec{Role: "admin", Subjects: []domain.RightSubject{{Kind: domain.SubjectServiceAccount, Name: string(domain.KeyOf(account))}}}
	for _, o := range []domain.Object{account, token, binding} {
		_, err := s.Client.API().Create(ctx, o, nil)
		require.NoError(t, err)
	}
	write("run/admin-token", []byte(token.Status.Token+"\n"))
	require.NoError(t, os.Symlink(filepath.Dir(built.Binary(t, "drover")), filepath.Join(folder, "build", "bin")))

	text, err := os.ReadFile(filepath.Join("..", "docs", "tutorial.md"))
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?ms)^```(sh|text)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
	const cut = "@@ "
	script := "set -euo pipefail\n"
	var shown []string // by block of commands
	for _, b := range blocks {
		if b[1] == "text" {
			shown[len(shown)-1] = b[2]
			continue
		}
		script += fmt.Sprintf("echo '%s%d'\n%s", cut, len(shown), b[2])
		shown = append(shown, "")
	}
	require.Greater(t, len(shown), 5)
	local := func(text string) string { return strings.ReplaceAll(text, "http://127.0.0.1:9015", api.URL) }
	cmd := exec.CommandContext(ctx, "bash", "-c", local(script))
	var out bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = folder, &out, &out
	cmd.Env = append(os.Environ(), "DROVER_CONFIG="+filepath.Join(folder, "config.yaml"), "DROVER_SERVER=")
	require.NoError(t, cmd.Run(), "%s", &out)
	t.Logf("%s", &out)
	parts := strings.Split(out.String(), cut)[1:]
	require.Len(t, parts, len(shown))
	for i, want := range shown {
		lines := strings.Split(parts[i], "\n")
		for line := range strings.Lines(local(want)) {
			line = strings.TrimSuffix(line, "\n")
			says := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + "$")
			at := slices.IndexFunc(lines, says.MatchString)
			require.NotEqual(t, -1, at, "%q does not come where the document has it:\n%s", line, parts[i])
			lines = lines[at+1:]
		}
	}
}
