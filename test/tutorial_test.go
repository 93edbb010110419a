package test

import (
	"bytes"
	"context"
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

// likeMakeRun is a folder like that of `make run`: two clusters, an API that asks who one is, and the administrator's token.
type likeMakeRun struct {
	t      *testing.T
	folder string
	url    string // of the API
}

func newLikeMakeRun(ctx context.Context, t *testing.T, clusters []*harness.Cluster) *likeMakeRun {
	t.Helper()
	s := harness.SharedStack(t)
	r := &likeMakeRun{t, t.TempDir(), s.AddAPI(t, "DROVER_AUTH=on", "DROVER_ADMIN_TOKEN_FILE="+filepath.Join(t.TempDir(), "first-token")).URL}
	for _, c := range clusters {
		r.write(filepath.Join("build", "run", "clusters", c.Name, "kubeconfig"), string(c.Kubeconfig(t)))
		harness.Until(ctx, t, "what was there before has gone", func() bool { // where the accounts are made, when this is run once more
			there, err := c.Client(t).CoreV1().Namespaces().Get(ctx, "drover", metav1.GetOptions{})
			return apierrors.IsNotFound(err) || err == nil && there.DeletionTimestamp == nil
		})
	}
	account := &domain.ServiceAccount{Metadata: domain.Metadata{Name: "reader-" + strings.ToLower(rand.Text()[:8])}}
	token := &domain.ServiceAccountToken{Identity: domain.Identity{Parent: domain.KeyOf(account)}, Metadata: domain.Metadata{Name: "t"}}
	binding := domain.RoleBindings.New().(*domain.RoleBinding)
	binding.Metadata = account.Metadata
	binding.Spec = domain.RoleBindingSpec{Role: "admin", Subjects: []domain.RightSubject{{Kind: domain.SubjectServiceAccount, Name: string(domain.KeyOf(account))}}}
	for _, o := range []domain.Object{account, token, binding} {
		_, err := s.Client.API().Create(ctx, o, nil)
		require.NoError(t, err)
	}
	r.write("build/run/admin-token", token.Status.Token+"\n")
	require.NoError(t, os.Symlink(filepath.Dir(built.Binary(t, "drover")), filepath.Join(r.folder, "build", "bin")))
	return r
}

func (r *likeMakeRun) write(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.folder, name)
	require.NoError(r.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(r.t, os.WriteFile(path, []byte(text), 0o600))
}

// local is a text with the address of this API in place of that of `make run`.
func (r *likeMakeRun) local(text string) string {
	return strings.ReplaceAll(text, "http://127.0.0.1:9015", r.url)
}

// run runs commands up to the first that fails, and gives what they print.
func (r *likeMakeRun) run(ctx context.Context, script string) string {
	r.t.Helper()
	cmd := exec.CommandContext(ctx, "bash", "-c", r.local("set -euo pipefail\n"+script))
	var out bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.folder, &out, &out
	cmd.Env = append(os.Environ(), "DROVER_CONFIG="+filepath.Join(r.folder, "config.yaml"), "DROVER_SERVER=")
	require.NoError(r.t, cmd.Run(), "%s", &out)
	r.t.Logf("%s", &out)
	return out.String()
}

// blocksOf are the blocks of a document, each with what it is: sh, text or yaml.
func blocksOf(t *testing.T, document string) [][2]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", document))
	require.NoError(t, err)
	var blocks [][2]string
	for _, b := range regexp.MustCompile("(?ms)^```(sh|text|yaml)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, [2]string{b[1], b[2]})
	}
	return blocks
}

// TestTheTutorial runs the commands of docs/tutorial.md in their order, in a folder like that of `make run`, and holds what they print
// against what the document says they do: its lines come in that order, with anything between them and for each ….
func TestTheTutorial(t *testing.T) {
	t.Parallel()
	ctx, clusters := within(t), twoClusters(t)
	r := newLikeMakeRun(ctx, t, clusters)
	const cut = "@@ "
	script := ""
	var shown []string // by block of commands
	for _, b := range blocksOf(t, "tutorial.md") {
		if b[0] == "text" {
			shown[len(shown)-1] = b[1]
			continue
		}
		script += fmt.Sprintf("echo '%s%d'\n%s", cut, len(shown), b[1])
		shown = append(shown, "")
	}
	require.Greater(t, len(shown), 5)
	parts := strings.Split(r.run(ctx, script), cut)[1:]
	require.Len(t, parts, len(shown))
	for i, want := range shown {
		lines := strings.Split(parts[i], "\n")
		for line := range strings.Lines(r.local(want)) {
			line = strings.TrimSuffix(line, "\n")
			says := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + "$")
			at := slices.IndexFunc(lines, says.MatchString)
			require.NotEqual(t, -1, at, "%q does not come where the document has it:\n%s", line, parts[i])
			lines = lines[at+1:]
		}
	}
}

// TestTheHowTos runs the commands of how-tos that say all that is needed, one after the other, as a reader who has nothing but the folder of
// `make run` and the files that the document shows.
func TestTheHowTos(t *testing.T) {
	t.Parallel()
	ctx, clusters := within(t), twoClusters(t)
	r := newLikeMakeRun(ctx, t, clusters)
	const login = "export PATH=\"$PWD/build/bin:$PATH\"\ndrover login http://127.0.0.1:9015 --token-file build/run/admin-token\n"
	own := strings.ToLower(rand.Text()[:6])

	t.Run("per cluster", func(t *testing.T) {
		require.NoError(t, os.CopyFS(filepath.Join(r.folder, "deploy", "examples", "gac"), os.DirFS("../deploy/examples/gac")))
		named := strings.NewReplacer("testgac", "testgac-"+own, "gac-cluster-provider", "gac-"+own) // of nobody else
		files, err := filepath.Glob(filepath.Join(r.folder, "deploy", "examples", "gac", "emcoctl", "*.yaml"))
		require.NoError(t, err)
		for _, name := range files {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(name, []byte(named.Replace(string(text))), 0o600))
		}
		script := ""
		blocks := blocksOf(t, "how-to/per-cluster.md")
		last := len(blocks) - 1
		for _, b := range blocks[:last] {
			script += b[1]
		}
		script += "drover wait gac_deployment_intent_group -A --for deployed\ncurl -fsS \"$GROUP/status?status=deployed&output=detail&resource=etcd\"\n"
		out := r.run(ctx, named.Replace(script))
		require.Contains(t, out, "HTTP/1.1 202", "it is approved")
		require.Contains(t, out, "replace /spec/replicas by gac intent own, resource etcd, customization small")
		require.Contains(t, out, "merge of selector.yaml by gac intent own, resource etcd, customization ssd")
		for _, c := range clusters {
			place, err := c.Client(t).CoreV1().ConfigMaps("default").Get(ctx, "place", metav1.GetOptions{})
			require.NoError(t, err)
			require.Equal(t, "city of "+c.Name, place.Data["city"])
		}
		require.Contains(t, blocks[last][1], "drover delete project testgac", "which takes it away")
		r.run(ctx, named.Replace(login+blocks[last][1]))
	})

	t.Run("profiles", func(t *testing.T) {
		const chart = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}\"}\ndata: {replicas: \"{{ .Values.replicas }}\", banner: {{ .Files.Get \"files/banner.txt\" | quote }}}\n"
		r.write("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.1.0\n")
		r.write("web/templates/all.yaml", chart)
		r.write("prod.yaml", "replicas: 2\n")
		r.write("production/override_values.yaml", "replicas: 4\n")
		r.write("production/banner.txt", "production")
		named := strings.NewReplacer("demo", "demo-"+own, "clusterProvider: site", "clusterProvider: site-"+own, "site/", "site-"+own+"/", "label=edge", "site-"+own+"/label=edge")
		script := login
		for _, c := range clusters {
			script += fmt.Sprintf("drover cluster add site/%s --kubeconfig build/run/clusters/%[1]s/kubeconfig --label edge\n", c.Name)
		}
		files := []string{"production/manifest.yaml", "profiles.yaml", "web-north.yaml"}
		for _, b := range blocksOf(t, "how-to/profiles.md") {
			if b[0] == "yaml" {
				r.write(files[0], named.Replace(b[1]))
				files = files[1:]
				continue
			}
			script += b[1]
		}
		require.Empty(t, files)
		r.run(ctx, named.Replace(script))
		for _, c := range clusters {
			for release, data := range map[string]map[string]string{"web": {"replicas": "3", "banner": ""}, "north": {"replicas": "3", "banner": "production"}} {
				made, err := c.Client(t).CoreV1().ConfigMaps("default").Get(ctx, release, metav1.GetOptions{})
				require.NoError(t, err)
				require.Equal(t, data, made.Data, "%s on %s", release, c.Name)
			}
		}
		script = login + "drover delete project demo --cascade --terminate\n"
		for _, c := range clusters {
			script += fmt.Sprintf("drover cluster remove site/%s --kubeconfig build/run/clusters/%[1]s/kubeconfig\n", c.Name)
		}
		r.run(ctx, named.Replace(script))
	})
}
