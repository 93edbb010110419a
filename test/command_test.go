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

// exampleFolder is an example of deploy/examples as the command applies it: EMCO's files, with charts and kubeconfigs beside them.
type exampleFolder struct {
	name      string
	group     string            // below the project
	archives  map[string][]byte // by their names
	said      string            // of one of its apps, at the end
	clusters  int               // where something of it is
	resources int               // on all of them
	replaced  []string          // what its files say, and what they say in its place
}

// archivesOf are the charts and profiles of the apps of an example.
func archivesOf(t *testing.T, chart, profile func(app string) ([]byte, error), apps ...string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, app := range apps {
		var err error
		all[app+".tgz"], err = chart(app)
		require.NoError(t, err)
		all[app+"-profile.tgz"], err = profile(app)
		require.NoError(t, err)
	}
	return all
}

// TestExamplesAreAppliedByTheCommand: the folder of EMCO's files is applied whatever the order, and deployed; applied again it is
// unchanged; and it is deleted clean, with what is in the clusters terminated first.
func TestExamplesAreAppliedByTheCommand(t *testing.T) {
	t.Parallel()
	hardware, networks := "drover.io/"+strings.ToLower(rand.Text()[:8]), strings.ToLower(rand.Text()[:8])
	for _, x := range []exampleFolder{
		{
			name: "vfw", group: "composite-apps/compositevfw/v1/deployment-intent-groups/vfw_deployment_intent_group",
			archives: archivesOf(t, examples.Chart, examples.Profile, examples.Apps...),
			said:     "6 of 6 Applied on 2 clusters", clusters: 2, resources: 12,
			replaced: []string{"private-net", "net-" + networks}, // other tests have networks of these names in the same clusters
		},
		{
			name: "dtc", group: "composite-apps/dtc-composite-app/v1/deployment-intent-groups/dtc_deployment_intent_group",
			archives: archivesOf(t, examples.TrafficChart, examples.TrafficProfile, examples.TrafficApps...),
			said:     "3 of 3 Applied on 1 cluster", clusters: 2, resources: 4,
		},
		{
			name: "hpa", group: "composite-apps/hpa-composite-app/v1/deployment-intent-groups/hpa_deployment_intent_group",
			archives: archivesOf(t, func(string) ([]byte, error) { return examples.HardwareChart() },
				func(string) ([]byte, error) { return examples.HardwareProfile() }, examples.HardwareApp),
			said: "1 of 1 Applied on 1 cluster", clusters: 1, resources: 1,
			replaced: []string{
				"version: r1", "version: h1", "name: r1-", "name: h1-", // dtc has a Deployment of that name, and the folders are applied to the same clusters at the same time
				qat, hardware, "overrideValues: []", `overrideValues: [{app: http-client, values: {"tolerations[0].key": ` + reserved + `, "tolerations[0].operator": Exists}}]`,
			},
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			ctx, clusters := within(t), twoClusters(t)
			switch x.name {
			case "hpa":
				ownNode(ctx, t, clusters[1], hardware, "16")
			case "vfw":
				clusters[0].DefineNetworks(t)
				clusters[1].DefineNetworks(t)
			}
			x.applied(ctx, t, clusters)
		})
	}
}

// applied applies the folder, twice, and deletes it.
func (x *exampleFolder) applied(ctx context.Context, t *testing.T, clusters []*harness.Cluster) {
	c := newCommand(ctx, t, harness.SharedStack(t))
	id := strings.ToLower(rand.Text()[:8])
	sources, err := filepath.Glob("../deploy/examples/" + x.name + "/emcoctl/[1-7]*.yaml") // 8 and 9 are what comes after
	require.NoError(t, err)
	for _, name := range append(sources, "../deploy/examples/"+x.name+"/emcoctl/values.yaml") {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		replaced := []string{"test" + x.name, "p-" + id, x.name + "-cluster-provider", "cp-" + id}
		for _, controller := range []string{"rsync", "dtc", "nps", "gac", "hpa-placement-controller-1", "hpa-action-controller-1"} {
			replaced = append(replaced, "name: "+controller+"\n", "name: "+controller+"-"+id+"\n", controller+": hpa-", controller+"-"+id+": hpa-",
				controller+": test"+x.name, controller+"-"+id+": p-"+id)
		}
		text := strings.NewReplacer(append(replaced, x.replaced...)...).Replace(string(data))
		c.file(filepath.Join(x.name, filepath.Base(name)), []byte(text))
	}
	for i, name := range []string{"edge01", "edge02"} {
		c.file(x.name+"/"+name+".kubeconfig", clusters[i].Kubeconfig(t))
	}
	for name, data := range x.archives {
		c.file(x.name+"/"+name, data)
	}
	folder := []string{"-f", x.name, "-v", x.name + "/values.yaml"}
	first := c.done(append([]string{"apply", "--wait"}, folder...)...)
	require.NotContains(t, first, "unchanged")
	require.Contains(t, first, x.said)
	project := domain.Join(domain.Projects.Collection, "p-"+id)
	group := string(project) + "/" + x.group
	contextID := strings.TrimSpace(c.done("get", group, "-o", "jsonpath={.status.instance}"))
	labelled := func() (resources, on int) {
		for _, cluster := range clusters {
			if n := len(cluster.Labelled(t, contextID)); n > 0 {
				resources, on = resources+n, on+1
			}
		}
		return resources, on
	}
	resources, on := labelled()
	require.Equal(t, []int{x.resources, x.clusters}, []int{resources, on}, "of context %q, after\n%s", contextID, first)
	again := c.done(append([]string{"apply"}, folder...)...)
	for line := range strings.Lines(again) {
		require.Contains(t, line, " unchanged", again)
	}

	// Without --terminate nothing waits: the group stays where its terminate has not ended by the time when it is the group's turn.
	out, stderr, code := c.run(append([]string{"delete"}, folder...)...)
	require.Contains(t, []int{0, 1}, code, out)
	require.Equal(t, code == 1, strings.Contains(stderr, group), stderr)
	c.done(append([]string{"delete", "--terminate"}, folder...)...)
	resources, _ = labelled()
	require.Zero(t, resources)
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
	neutral := strings.NewReplacer(id, "ID")
	c.done(append(in, "wait", name, "--for", "ready")...)
	c.prints("status-tree", neutral, append(in, "status", name, "--tree")...)
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
	c.prints("cluster-check", neutral, "cluster", "check", provider+"/"+clusters[0].Name)
	c.prints("describe", neutral, append(in, "describe", "group", name)...)
	c.prints("history", neutral, append(in, "history", name)...)
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
	c.prints("top", strings.NewReplacer(id, "ID"), append(in, "top")...)
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
