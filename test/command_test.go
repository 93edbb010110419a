package test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/deploy/examples"
	"github.com/drover-io/drover/internal/built"
	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/test/harness"
)

// command runs the client command against a stack, as a user does.
type command struct {
	t   *testing.T
	ctx context.Context
	env []string
	dir string
}

func newCommand(ctx context.Context, t *testing.T, s *harness.Stack) *command {
	dir := t.TempDir()
	return &command{t: t, ctx: ctx, dir: dir, env: append(os.Environ(), "DROVER_SERVER="+s.URL(), "DROVER_CONFIG="+filepath.Join(dir, "config.yaml"))}
}

// run runs it, and gives what it has printed and its exit code.
func (c *command) run(args ...string) (stdout, stderr string, code int) {
	c.t.Helper()
	cmd := exec.CommandContext(c.ctx, built.Binary(c.t, "drover"), args...)
	var out, err bytes.Buffer
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = c.env, c.dir, &out, &err
	failed := cmd.Run()
	require.NotNil(c.t, cmd.ProcessState, "%v", failed)
	return out.String(), err.String(), cmd.ProcessState.ExitCode()
}

// done runs it to a good end.
func (c *command) done(args ...string) string {
	c.t.Helper()
	out, err, code := c.run(args...)
	require.Zero(c.t, code, "drover %v\n%s%s", args, out, err)
	return out
}

// interrupted runs it until it has printed a word, and then has enough of it.
func (c *command) interrupted(word string, args ...string) {
	c.t.Helper()
	cmd := exec.CommandContext(c.ctx, built.Binary(c.t, "drover"), args...)
	cmd.Env, cmd.Dir = c.env, c.dir
	out, err := cmd.StdoutPipe()
	require.NoError(c.t, err)
	require.NoError(c.t, cmd.Start())
	lines, seen := bufio.NewScanner(out), false
	for !seen && lines.Scan() {
		seen = strings.Contains(lines.Text(), word)
	}
	require.True(c.t, seen, "drover %v", args)
	require.NoError(c.t, cmd.Process.Signal(os.Interrupt))
	_, _ = io.Copy(io.Discard, out) // to its end
	_ = cmd.Wait()
	require.Equal(c.t, 130, cmd.ProcessState.ExitCode(), "drover %v", args)
}

func (c *command) file(name string, data []byte) string {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	require.NoError(c.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(c.t, os.WriteFile(path, data, 0o600))
	return path
}

// TestExamplesAreAppliedByTheCommand: the folder of EMCO's files is applied whatever the order, and deployed; applied again it is
// unchanged; and it is deleted clean, with what is in the clusters terminated first.
func TestExamplesAreAppliedByTheCommand(t *testing.T) {
	t.Parallel()
	ctx, s, clusters := within(t), harness.SharedStack(t), twoClusters(t)
	c := newCommand(ctx, t, s)
	id := strings.ToLower(rand.Text()[:8])
	sources, err := filepath.Glob("../deploy/examples/vfw/emcoctl/[2-5]*.yaml")
	require.NoError(t, err)
	for _, name := range append(sources, "../deploy/examples/vfw/emcoctl/1-clusters.yaml", "../deploy/examples/vfw/emcoctl/values.yaml") {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		text := strings.NewReplacer("testvfw", "p-"+id, "vfw-cluster-provider", "cp-"+id, "name: rsync", "name: rsync-"+id).Replace(string(data))
		c.file(filepath.Join("vfw", filepath.Base(name)), []byte(text))
	}
	for i, name := range []string{"edge01", "edge02"} {
		c.file("vfw/"+name+".kubeconfig", clusters[i].Kubeconfig(t))
	}
	for _, app := range examples.Apps {
		chart, err := examples.Chart(app)
		require.NoError(t, err)
		profile, err := examples.Profile(app)
		require.NoError(t, err)
		c.file("vfw/"+app+".tgz", chart)
		c.file("vfw/"+app+"-profile.tgz", profile)
	}
	folder := []string{"-f", "vfw", "-v", "vfw/values.yaml"}
	first := c.done(append([]string{"apply", "--wait"}, folder...)...)
	require.NotContains(t, first, "unchanged")
	require.Contains(t, first, "6 of 6 Applied on 2 clusters")
	project := domain.Join(domain.Projects.Collection, "p-"+id)
	group := string(project) + "/composite-apps/compositevfw/v1/deployment-intent-groups/vfw_deployment_intent_group"
	contextID := strings.TrimSpace(c.done("get", group, "-o", "jsonpath={.status.instance}"))
	for _, cluster := range clusters {
		require.Len(t, cluster.Labelled(t, contextID), 6, "on %s", cluster.Name)
	}
	again := c.done(append([]string{"apply"}, folder...)...)
	for line := range strings.Lines(again) {
		require.Contains(t, line, " unchanged", again)
	}

	out, stderr, code := c.run(append([]string{"delete"}, folder...)...)
	require.Equal(t, 1, code, out)
	require.Contains(t, stderr, group)
	c.done(append([]string{"delete", "--terminate"}, folder...)...)
	for _, cluster := range clusters {
		require.Empty(t, cluster.Labelled(t, contextID), "on %s", cluster.Name)
	}
	_, _, code = c.run("get", string(project))
	require.Equal(t, 3, code)
	_, _, code = c.run("get", "cluster-providers/cp-"+id)
	require.Equal(t, 3, code)
}

// TestDeployInOneLine: a chart is put onto the clusters that carry a label with one command; again nothing is done; with other values
// it is updated, and rolled back; a cluster that is refused something is said with the reason; and one command takes all away.
func TestDeployInOneLine(t *testing.T) {
	t.Parallel()
	ctx, s, clusters := within(t), harness.SharedStack(t), twoClusters(t)
	c := newCommand(ctx, t, s)
	id := strings.ToLower(rand.Text()[:8])
	provider, project := "cp-"+id, "p-"+id
	kubeconfigs, names := map[string][]byte{}, []string{}
	for _, k := range clusters {
		kubeconfigs[k.Name], names = k.Kubeconfig(t), append(names, k.Name)
	}
	require.NoError(t, s.Client.API().Register(ctx, provider, kubeconfigs, names, []string{"here"}, nil))
	c.file("web/Chart.yaml", []byte("apiVersion: v2\nname: web\nversion: 0.1.0\n"))
	c.file("web/values.yaml", []byte("colour: red\nobjects: 2\n"))
	c.file("web/templates/maps.yaml", []byte(`{{- range until (int .Values.objects) }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ $.Release.Name }}-{{ . }}}
data: {colour: {{ $.Values.colour }}}
{{- end }}
`))
	name := "web" + id
	args := []string{"deploy", "./web", "-p", project, "--name", name, "--clusters", provider + "/label=here", "--wait"}
	out := c.done(args...)
	require.Contains(t, out, "projects/"+project+" created")
	require.Contains(t, out, "4 of 4 Applied on 2 clusters")
	require.Contains(t, c.done(args...), " unchanged\n")
	out = c.done(append(args, "--set", "colour=green,objects=3")...)
	require.Contains(t, out, "profiles/web-profile configured")
	require.Contains(t, out, "revision 2")
	require.Contains(t, out, "6 of 6 Applied on 2 clusters")

	in := []string{"-p", project}
	tree := c.done(append(in, "status", name, "--tree")...)
	require.Contains(t, tree, "ConfigMap/"+name+"-2  Applied")
	require.Contains(t, tree, provider+"+"+clusters[0].Name)
	require.Contains(t, c.done(append(in, "history", name)...), "update")
	require.Contains(t, c.done(append(in, "diff", name)...), "nothing to do, 6 resources stay")
	back := c.done(append(in, "diff", name, "--to", "1")...)
	require.Contains(t, back, "rollback: 4 to change, 2 to delete on 2 clusters")
	require.Regexp(t, `data.+: green -> `, back)
	require.Contains(t, c.done(append(in, "rollback", name, "--to", "1", "--wait")...), "4 of 4 Applied on 2 clusters")
	require.Contains(t, c.done(append(in, "explain", name)...), "as wished")
	require.Contains(t, c.done(append(in, "get", "operations")...), "rollback to 1")
	c.done(append(in, "wait", name, "--for", "deployed")...)
	require.Regexp(t, `deployment-intent-groups/`+name+`  Instantiated`, c.done(append(in, "events")...))
	harness.Until(ctx, t, "a list that knows what clusters have reported", func() bool {
		return strings.Contains(c.done(append(in, "top")...), "Not as wished, or not ready: 0 of 1 group\n")
	})
	require.Regexp(t, `READY .*\n.* 4/4 `, c.done(append(in, "get", "groups")...))
	require.Contains(t, c.done(append(in, "audit", "--verb", "rollback")...), "rollback")
	require.Contains(t, c.done(append(in, "get", "groups", "-o", "wide")...), "Instantiated")
	require.Contains(t, c.done("cluster", "check", provider+"/"+clusters[0].Name), "Connectivity:  Available")
	require.Contains(t, c.done(append(in, "describe", "group", name)...), "as wished")
	for _, follows := range [][]string{{"status", name, "--watch"}, {"events", "--follow"}, {"get", "groups", "-w"}} {
		c.interrupted("Instantiated", append(in, follows...)...)
	}

	_, stderr, code := c.run(append(in, "instantiate", name)...)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "it has already been instantiated")
	out = c.done("delete", "project", project, "--terminate", "--cascade")
	require.Contains(t, out, "4 of 4 Deleted")
	require.Contains(t, out, "projects/"+project+" deleted\n")
}

// TestOperateByCommands: a cluster is registered with an account of Drover's own, whose token is replaced while an app waits for its cluster's
// answer; what runs there is waited for, stopped, migrated and taken away; the account goes with the registration.
func TestOperateByCommands(t *testing.T) {
	t.Parallel()
	ctx, s, clusters := within(t), harness.SharedStack(t), twoClusters(t)
	c := newCommand(ctx, t, s)
	id := strings.ToLower(rand.Text()[:8])
	provider, project, name := "cp-"+id, "p-"+id, "web"+id
	admin := c.file("admin.conf", clusters[0].Kubeconfig(t))
	at := []string{provider + "/edge", "--kubeconfig", admin, "--account-namespace", "drover-" + id}
	add := append([]string{"cluster", "add", "--label", "here"}, at...)
	out := c.done(add...)
	require.Contains(t, out, "cluster-providers/"+provider+"/clusters/edge created\n")
	require.Regexp(t, `Kubernetes v1\..* answers in .*; rights: all that are needed`, out)
	require.Contains(t, c.done(add...), "labels/here unchanged\n", "a second run goes on")
	require.Contains(t, c.done(append([]string{"cluster", "rotate"}, at...)...), "clusters/edge configured\nthe token of serviceaccount drover-"+id+"/drover-")
	require.Contains(t, c.done("cluster", "check", provider+"/edge"), "Expires:")
	_, stderr, code := c.run("cluster", "rotate", provider+"/edge", "--kubeconfig", admin, "--account-namespace", "default")
	require.Equal(t, 1, code, stderr)
	require.Contains(t, stderr, "--account-namespace")

	c.file("web/Chart.yaml", []byte("apiVersion: v2\nname: web\nversion: 0.1.0\n"))
	c.file("web/values.yaml", []byte("colour: red\nhang: false\n"))
	c.file("web/templates/map.yaml", []byte(`apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data: {colour: {{ .Values.colour }}}
{{- if .Values.hang }}
---
apiVersion: batch/v1
kind: Job
metadata: {name: {{ .Release.Name }}-hook, annotations: {helm.sh/hook: pre-upgrade}}
spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: main, image: none}]}}}
{{- end }}
`))
	in := []string{"-p", project}
	deploy := append([]string{"deploy", "./web", "--name", name, "--clusters", provider + "/label=here"}, in...)
	c.done(append(deploy, "--wait")...)
	c.done(append(in, "wait", name, "--for=ready", "--timeout", "2m")...)

	// An update that hangs at a hook is waited for in vain, stopped, and then brought to its end.
	out = c.done(append(deploy, "--set", "hang=true,colour=green")...)
	require.Contains(t, out, "data.colour: red -> green")
	_, stderr, code = c.run(append(in, "wait", name, "--for=deployed", "--timeout", "2s")...)
	require.Equal(t, 6, code, stderr)
	require.Contains(t, stderr, "and goes on")
	c.done(append(in, "stop", name, "--wait")...)
	require.Contains(t, c.done(append(in, "status", name)...), "InstantiateStopped")
	c.done(append(deploy, "--set", "colour=green", "--wait")...)

	// The token is replaced while an update waits at the hook: it goes on with the new one.
	c.done(append(deploy, "--set", "hang=true,colour=yellow")...)
	_, stderr, code = c.run(append(in, "wait", name, "--for=deployed", "--timeout", "2s")...)
	require.Equal(t, 6, code, stderr)
	jobs := clusters[0].Client(t).BatchV1().Jobs("default")
	harness.Until(ctx, t, "the hook is there", func() bool {
		_, err := jobs.Get(ctx, name+"-hook", metav1.GetOptions{})
		return err == nil
	})
	require.Contains(t, c.done(append([]string{"cluster", "rotate"}, at...)...), "is good until")
	release(ctx, t, clusters[0], &client.Deployment{Release: name}, "hook")
	c.done(append(in, "wait", name, "--for=deployed", "--timeout", "2m")...)
	require.Contains(t, c.done(append(in, "history", name)...), "Instantiated")
	c.done(append(deploy, "--set", "colour=green", "--wait")...)

	// To another version of the composite app.
	c.done(append(append(deploy, "--app-version", "v2", "--set", "colour=blue"), "--dry-run")...)
	c.file("v2.yaml", []byte(strings.NewReplacer("PROJECT", project, "NAME", name, "PROVIDER", provider).Replace(versionTwo)))
	c.done("apply", "-f", "v2.yaml")
	require.Contains(t, c.done(append(in, "diff", "v1/"+name, "--version", "v2")...), "data.colour: green -> red")
	c.done(append(in, "migrate", "v1/"+name, "--version", "v2", "--wait")...)
	require.Contains(t, c.done(append(in, "status", "v2/"+name)...), "Instantiated")

	out = c.done("delete", "project", project, "--terminate", "--cascade")
	require.Contains(t, out, "projects/"+project+" deleted\n")
	out = c.done(append([]string{"cluster", "remove"}, at...)...)
	require.Contains(t, out, "clusters/edge deleted\naccount drover-"+id+"/drover-")
	require.Contains(t, c.done(append([]string{"cluster", "remove"}, at...)...), "is not there", "a second run goes on")
}

const versionTwo = `version: emco/v2
resourceContext: {anchor: projects/PROJECT/composite-apps}
metadata: {name: NAME}
spec: {compositeAppVersion: v2}
---
version: emco/v2
resourceContext: {anchor: projects/PROJECT/composite-apps/NAME/v2/apps}
metadata: {name: web}
file: web
---
version: emco/v2
resourceContext: {anchor: projects/PROJECT/composite-apps/NAME/v2/composite-profiles}
metadata: {name: values}
---
version: emco/v2
resourceContext: {anchor: projects/PROJECT/composite-apps/NAME/v2/deployment-intent-groups}
metadata: {name: NAME}
spec: {compositeProfile: values, version: NAME, logicalCloud: default}
---
version: emco/v2
resourceContext: {anchor: projects/PROJECT/composite-apps/NAME/v2/deployment-intent-groups/NAME/generic-placement-intents}
metadata: {name: placement}
---
version: emco/v2
resourceContext: {anchor: projects/PROJECT/composite-apps/NAME/v2/deployment-intent-groups/NAME/generic-placement-intents/placement/app-intents}
metadata: {name: web}
spec: {app: web, intent: {allOf: [{clusterProvider: PROVIDER, clusterLabel: here}]}}
---
version: emco/v2
resourceContext: {anchor: projects/PROJECT/composite-apps/NAME/v2/deployment-intent-groups/NAME/intents}
metadata: {name: all}
spec: {intent: {genericPlacementIntent: placement}}
---
version: emco/v2
resourceContext: {anchor: projects/PROJECT/composite-apps/NAME/v2/deployment-intent-groups/NAME/approve}
`
