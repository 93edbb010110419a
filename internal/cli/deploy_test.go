package cli_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// chart writes a chart of the user's and registers a cluster for it.
func (w *world) chart() string {
	w.t.Helper()
	w.file("edge01.kubeconfig", kubeconfig)
	w.done("cluster", "add", "site/edge01", "--kubeconfig", w.env["XDG_CONFIG_HOME"]+"/edge01.kubeconfig", "--use-own-credentials")
	w.file("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.1.0\n")
	w.file("web/templates/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n")
	return w.env["XDG_CONFIG_HOME"] + "/web"
}

// TestDeployAsksWhetherClustersHaveIt: what an earlier run has written and could not carry out is carried out by the next one, which finds
// no document to write; only where the API has nothing to update is it unchanged; what goes on is waited for, or refuses the update.
func TestDeployAsksWhetherClustersHaveIt(t *testing.T) {
	w := newWorld(t)
	const group = "projects/default/composite-apps/web/v1/deployment-intent-groups/web"
	status, asked := domain.ContextInstantiated, []domain.Operation{}
	same, revision := false, 1
	w.engine.does = func(s domain.Scope) (int, []string, error) {
		asked = append(asked, s.Operation)
		switch {
		case s.Operation == domain.OpUpdate && same:
			return revision, []string{"nothing to update", "mind the gap"}, nil
		case s.Operation == domain.OpUpdate:
			revision++
			w.stand(group, domain.Instantiated, status, revision)
			return revision, nil, nil
		}
		w.stand(s.Owner, domain.Instantiated, status, 1)
		return 0, nil, nil
	}
	args := []string{"deploy", w.chart(), "--name", "web", "--clusters", "edge01"}
	require.Contains(t, w.done(args...), group+" instantiate accepted\n")
	asked = nil

	require.Equal(t, group+" update accepted, revision 2\n", w.done(args...))
	require.Equal(t, []domain.Operation{domain.OpUpdate}, asked)
	same = true
	r := w.run(args...)
	require.Equal(t, group+" unchanged\n", r.out, r.err)
	require.Equal(t, "Warning: mind the gap\n", r.err)
	r = w.run("update", "web") // the command of that name says it as well
	require.Equal(t, group+" unchanged\n", r.out, r.err)
	require.Equal(t, "Warning: mind the gap\nWhat others have changed in clusters, or taken away, is put back by 'drover update "+group+" --reapply'.\n", r.err)

	w.stand(group, domain.Instantiated, domain.ContextInstantiating, 2)
	r = w.run(args...)
	require.Equal(t, 1, r.code, r.out)
	require.Contains(t, r.err, "wait until the last operation has ended")
	r = w.run(append(args, "--wait", "--timeout", "1ms")...)
	require.Equal(t, 6, r.code, r.out)
	require.Contains(t, r.err, "comes to its end first")
	same = false
	w.stand(group, domain.Instantiated, domain.ContextInstantiateFailed, 2)
	status = domain.ContextInstantiateFailed
	r = w.run(append(args, "--wait")...)
	require.Equal(t, 1, r.code, r.out)
	require.Contains(t, r.err, "could not be deployed")
}

// TestDeployWaitsAsLongAsItIsTold: what it does before it waits takes nothing of that.
func TestDeployWaitsAsLongAsItIsTold(t *testing.T) {
	w := newWorld(t)
	w.engine.does = func(s domain.Scope) (int, []string, error) {
		<-time.After(600 * time.Millisecond)
		w.stand(s.Owner, domain.Instantiated, domain.ContextInstantiating, 1)
		return 0, nil, nil
	}
	r := w.run("deploy", w.chart(), "--name", "web", "--clusters", "edge01", "--wait", "--timeout", "2s")
	require.Equal(t, 6, r.code, r.out+r.err)
	require.Contains(t, r.err, "it is Instantiating after 2s, and goes on")
}

// TestDeployOnOneOf: of what --any-of names one cluster is taken, and all of what --clusters names.
func TestDeployOnOneOf(t *testing.T) {
	w := newWorld(t)
	chart := w.chart()
	for _, name := range []string{"edge02", "edge03"} {
		w.done("cluster", "add", "site/"+name, "--kubeconfig", w.env["XDG_CONFIG_HOME"]+"/edge01.kubeconfig", "--label", "south", "--use-own-credentials")
	}
	w.done("deploy", chart, "--name", "web", "--clusters", "edge01", "--any-of", "site/label=south", "--any-of", "site/edge01")
	const intent = `{range .items[*]}{.spec.intent}{"\n"}{end}`
	require.JSONEq(t, `{
		"allOf": [{"clusterProvider": "site", "cluster": "edge01"}],
		"anyOf": [{"clusterProvider": "site", "clusterLabel": "south"}, {"clusterProvider": "site", "cluster": "edge01"}]
	}`, w.done("get", "app-intents", "-A", "-o", "jsonpath="+intent))
	r := w.run("deploy", chart, "--name", "web", "--any-of", "label=north")
	require.Equal(t, 3, r.code, r.out)
	require.Contains(t, r.err, "north")
}

// TestDeployToClustersOfLikeNames: those of edge/eu-1 and edge-eu/1 are the same when they are joined.
func TestDeployToClustersOfLikeNames(t *testing.T) {
	w := newWorld(t)
	chart := w.chart()
	for _, name := range []string{"edge/eu-1", "edge-eu/1", "edge-eu-1/x", "edge/eu-1-x"} {
		w.done("cluster", "add", name, "--kubeconfig", w.env["XDG_CONFIG_HOME"]+"/edge01.kubeconfig", "--use-own-credentials")
	}
	referred := func() string {
		return w.done("get", "cluster-references", "-A", "-o", `jsonpath={range .items[*]}{.spec.clusterProvider}/{.spec.cluster} {end}`)
	}
	w.done("deploy", chart, "--name", "web", "--clusters", "edge/eu-1") // one after the other
	r := w.run("deploy", chart, "--name", "db", "--clusters", "edge-eu/1")
	require.Zero(t, r.code, r.out+r.err)
	require.ElementsMatch(t, []string{"edge/eu-1", "edge-eu/1"}, strings.Fields(referred()))
	w.done("deploy", chart, "--name", "both", "--clusters", "edge-eu-1/x,edge/eu-1-x,edge-eu/1") // and at once
	require.ElementsMatch(t, []string{"edge/eu-1", "edge-eu/1", "edge-eu-1/x", "edge/eu-1-x"}, strings.Fields(referred()))
}

// TestDeployStaysInItsCloud: another one is refused, and none that is named is that of the group.
func TestDeployStaysInItsCloud(t *testing.T) {
	w := newWorld(t)
	args := []string{"deploy", w.chart(), "--name", "web", "--clusters", "edge01"}
	w.done(append(args, "--cloud", "mine")...)
	r := w.run(append(args, "--cloud", "other")...)
	require.Equal(t, 1, r.code, r.out)
	require.Contains(t, r.err, "deployment-intent-groups/web is in the logical cloud mine, and stays there: --cloud other needs another --name")
	w.run(args...) // of which the engine has something else to do
	require.Equal(t, "projects/default/logical-clouds/mine\n", w.done("get", "logical-clouds", "-A", "-o", "name"))
}

// TestDeployBringsACloudToAFurtherCluster: one of level 1 that is instantiated is updated, as nothing of it would be there; one of level 0 has nothing to
// bring.
func TestDeployBringsACloudToAFurtherCluster(t *testing.T) {
	w := newWorld(t)
	chart := w.chart()
	w.done("cluster", "add", "site/edge02", "--kubeconfig", w.env["XDG_CONFIG_HOME"]+"/edge01.kubeconfig", "--use-own-credentials")
	w.feed(`resourceContext: {anchor: projects}
metadata: {name: default}
---
resourceContext: {anchor: projects/default/logical-clouds}
metadata: {name: one}
spec: {namespace: one, level: "1", user: {userName: one}}
`, "apply", "-f", "-")
	const cloud = "projects/default/logical-clouds/one"
	var asked []string
	w.engine.does = func(s domain.Scope) (int, []string, error) {
		asked = append(asked, string(s.Operation)+" "+string(s.Owner))
		w.stand(s.Owner, domain.Instantiated, domain.ContextInstantiated, 1)
		return 1, nil, nil
	}
	require.Contains(t, w.done("deploy", chart, "--name", "web", "--clusters", "edge01", "--cloud", "one"), cloud+" instantiate accepted\n")
	asked = nil
	require.Contains(t, w.done("deploy", chart, "--name", "db", "--clusters", "edge02", "--cloud", "one", "--dry-run"), cloud+" would be updated (dry run)\n")
	require.Empty(t, asked)
	require.Contains(t, w.done("deploy", chart, "--name", "db", "--clusters", "edge02", "--cloud", "one"), cloud+" update accepted")
	require.Contains(t, asked, "update "+cloud)
	asked = nil
	var looked []string // at which clusters of the cloud
	w.asks = func(r *http.Request) {
		if r.URL.Path == "/v2/"+cloud+"/status" && r.URL.Query().Get("output") != "summary" {
			looked = append(looked, strings.Join(r.URL.Query()["cluster"], " "))
		}
	}
	require.NotContains(t, w.done("deploy", chart, "--name", "more", "--clusters", "edge02", "--cloud", "one"), cloud+" update", "it is there")
	require.NotContains(t, asked, "update "+cloud)
	w.asks = nil
	require.Equal(t, []string{"site+edge02"}, looked, "not at what it has in all others")

	// A run that has ended between the reference and the update leaves that to the next one.
	w.done("cluster", "add", "site/edge03", "--kubeconfig", w.env["XDG_CONFIG_HOME"]+"/edge01.kubeconfig", "--use-own-credentials")
	w.feed("resourceContext: {anchor: "+cloud+"/cluster-references}\nmetadata: {name: site-edge03}\nspec: {clusterProvider: site, cluster: edge03}\n", "apply", "-f", "-")
	asked = nil
	require.Contains(t, w.done("deploy", chart, "--name", "third", "--clusters", "edge03", "--cloud", "one", "--dry-run"), cloud+" would be updated (dry run)\n")
	require.Contains(t, w.done("deploy", chart, "--name", "third", "--clusters", "edge03", "--cloud", "one"), cloud+" update accepted")
	require.Equal(t, "update "+cloud, asked[0])
	require.NotContains(t, w.done("deploy", chart, "--name", "third", "--clusters", "edge03", "--cloud", "one"), cloud+" update")

	w.done("deploy", chart, "--name", "a", "--clusters", "edge01", "--cloud", "nought")
	require.NotContains(t, w.done("deploy", chart, "--name", "b", "--clusters", "edge02", "--cloud", "nought"), "logical-clouds/nought update")
}

// TestDeployRefusesAnotherChart under a name that has one: the app of that would stay in clusters beside it.
func TestDeployRefusesAnotherChart(t *testing.T) {
	w := newWorld(t)
	chart := w.chart()
	args := []string{"--name", "web", "--clusters", "edge01"}
	w.done(append(args, "deploy", chart)...)
	w.file("other/Chart.yaml", "apiVersion: v2\nname: other\nversion: 0.1.0\n")
	const app = "projects/default/composite-apps/web/v1"
	for _, more := range [][]string{nil, {"--dry-run"}} {
		r := w.run(append(append(args, "deploy", w.env["XDG_CONFIG_HOME"]+"/other"), more...)...)
		require.Equal(t, 1, r.code, r.out+r.err)
		require.Contains(t, r.err, app+" has the app web, and the chart is called other")
		require.Contains(t, r.err, "'drover delete "+app+" --terminate --cascade'")
		require.Empty(t, r.out)
	}
	require.Equal(t, app+"/apps/web\n", w.done("get", "apps", "-A", "-o", "name"))
	w.done(append(args, "deploy", w.env["XDG_CONFIG_HOME"]+"/other", "--app-version", "v2")...)

	// What users have put there themselves is theirs.
	w.done("apply", "-f", w.file("app.yaml", "resourceContext: {anchor: "+app+"/apps}\nmetadata: {name: other}\nfile: other\n"))
	w.run(append(args, "deploy", chart)...)
	require.NotContains(t, w.run(append(args, "deploy", chart)...).err, "has the app")
}

// TestADryRunSaysWhatWouldBeAskedFor of the group, by what would be written before.
func TestADryRunSaysWhatWouldBeAskedFor(t *testing.T) {
	w := newWorld(t)
	const group = "projects/default/composite-apps/web/v1/deployment-intent-groups/web"
	args := []string{"deploy", w.chart(), "--name", "web", "--clusters", "edge01"}
	dry := func(more ...string) string { return w.done(append(append(args, "--dry-run"), more...)...) }
	require.Contains(t, dry(), group+" would be approved and instantiated (dry run)\n")
	require.Equal(t, 3, w.run("get", "project", "default").code)
	w.engine.does = func(s domain.Scope) (int, []string, error) {
		w.stand(s.Owner, domain.Instantiated, domain.ContextInstantiated, 1)
		return 1, nil, nil
	}
	w.done(args...)
	require.Equal(t, group+" unchanged (dry run)\n", dry())
	require.Contains(t, dry("--set", "a=b"), group+" would be updated (dry run)\n")
	w.foresees = func(domain.Scope, domain.Goal) (string, string, error) { return "now", "later", nil }
	require.Regexp(t, `data.text: now -> later\n(.*\n)*`+group+` would be updated \(dry run\)\n`, dry())

	w.stand(group, domain.Approved, domain.ContextNone, 0)
	require.Equal(t, group+" would be instantiated (dry run)\n", dry())
	require.Contains(t, dry("--set", "a=b"), group+" would be instantiated (dry run)\n", "what is written of the composite app ends no approval")
	require.Contains(t, dry("--any-of", "edge01"), group+" would be approved and instantiated (dry run)\n")
	plain := w.done(append(args, "--set", "a=b")...)
	require.NotContains(t, plain, "approved")
	require.Contains(t, plain, group+" instantiate accepted\n")
	w.stand(group, domain.Approved, domain.ContextNone, 0)

	// And so does that of files.
	approve := "resourceContext: {anchor: " + group + "/approve}\n"
	require.Equal(t, group+"/approve unchanged (dry run)\n", w.feed(approve, "apply", "--dry-run", "-f", "-").out)
	changed := strings.Replace(w.done("get", "group", group, "-o", "yaml"), "version: web", "version: other", 1)
	require.Equal(t, group+" configured (dry run)\n"+group+"/approve approve would be asked for (dry run)\n", w.feed(changed+"---\n"+approve, "apply", "--dry-run", "-f", "-").out)
}

// TestDeployByANameThatHelmRefuses is refused at once: all would be made, and then never approved.
func TestDeployByANameThatHelmRefuses(t *testing.T) {
	w := newWorld(t)
	chart := w.chart()
	before := w.requests.Load()
	for _, name := range []string{"my_app", "Web", strings.Repeat("a", 54)} {
		r := w.run("deploy", chart, "--name", name, "--clusters", "edge01")
		require.Equal(t, 2, r.code, "%s: %s", name, r.err)
		require.Contains(t, r.err, "release name", name)
	}
	require.Equal(t, before, w.requests.Load())
}

// TestDeployOfWhatCannotBeRendered says what has become of it, and how to go on: the documents are written by then.
func TestDeployOfWhatCannotBeRendered(t *testing.T) {
	w := newWorld(t)
	const group = "projects/default/composite-apps/web/v1/deployment-intent-groups/web"
	refused := fail.New(fail.Invalid, "app web: values don't meet the specifications of the schema(s)")
	w.engine.does = func(s domain.Scope) (int, []string, error) {
		if refused != nil {
			return 0, nil, refused
		}
		w.stand(s.Owner, domain.Instantiated, domain.ContextInstantiated, 1)
		return 1, nil, nil
	}
	args := []string{"deploy", w.chart(), "--name", "web", "--clusters", "edge01"}
	const help = "\nNothing has changed in clusters, and what was written stays. Mend what is refused, such as a value, and run the command again\n"
	r := w.run(args...)
	require.Equal(t, 1, r.code, r.err)
	require.Contains(t, r.out, group+" created\n")
	require.True(t, strings.HasSuffix(r.err, refused.Error()+help), r.err)
	refused = nil
	w.done(append(args, "--set", "a=b")...)
	refused = fail.New(fail.Invalid, "app web: values don't meet the specifications of the schema(s)")
	r = w.run(append(args, "--set", "a=c")...)
	require.Equal(t, 1, r.code, r.err)
	require.True(t, strings.HasSuffix(r.err, refused.Error()+help), r.err)
}

// TestDeployWaitsOnce: the timeout is that of all that is waited for, and of the cloud without --wait, too.
func TestDeployWaitsOnce(t *testing.T) {
	w := newWorld(t)
	chart := w.chart()
	w.feed(`resourceContext: {anchor: projects}
metadata: {name: default}
---
resourceContext: {anchor: projects/default/logical-clouds}
metadata: {name: slow}
spec: {namespace: slow, level: "1", user: {userName: slow}}
---
resourceContext: {anchor: projects/default/logical-clouds}
metadata: {name: stuck}
spec: {namespace: stuck, level: "1", user: {userName: stuck}}
`, "apply", "-f", "-")
	const clouds = "projects/default/logical-clouds/"
	w.engine.does = func(s domain.Scope) (int, []string, error) {
		w.stand(s.Owner, domain.Instantiated, domain.ContextInstantiating, 1)
		if s.Owner == clouds+"slow" {
			time.AfterFunc(2*time.Second, func() { w.stand(s.Owner, domain.Instantiated, domain.ContextInstantiated, 1) })
		}
		return 1, nil, nil
	}
	r := w.run("deploy", chart, "--name", "web", "--clusters", "edge01", "--cloud", "stuck", "--timeout", "1s")
	require.Equal(t, 6, r.code, r.out+r.err)
	require.Contains(t, r.err, clouds+"stuck: it is Instantiating after 1s, and goes on\n")

	r = w.run("deploy", chart, "--name", "db", "--clusters", "edge01", "--cloud", "slow", "--wait", "--timeout", "4s")
	require.Equal(t, 6, r.code, r.out+r.err)
	require.Regexp(t, `deployment-intent-groups/db: it is Instantiating after [12]s, and goes on\n`, r.err, "the cloud has taken the rest")
}

// TestDeployAsksForClustersBeforehand: who may not bring a cloud to its clusters makes none, nor a project for it. A cloud of level 1 needs less than one of
// level 0, and what a cloud has already is not asked for.
func TestDeployAsksForClustersBeforehand(t *testing.T) {
	maker := &domain.Role{Metadata: domain.Metadata{Name: "maker"}, Spec: domain.RoleSpec{Rules: []domain.RoleRule{{
		Verbs: []string{"get", "list", "create"}, Nouns: []string{domain.Projects.Kind},
	}}}}
	w := newWorldOf(t, []*domain.Role{maker}, boundTo("root", domain.RoleAdmin, ""),
		boundTo("alice", domain.RoleProjectAdmin, "projects/demo"), boundTo("alice", domain.RoleClusterUser, "cluster-providers/site"),
		boundTo("carl", domain.RoleProjectAdmin, "projects/demo"), boundTo("carl", domain.RoleViewer, "cluster-providers/site"),
		boundTo("mary", "maker", ""), boundTo("mary", domain.RoleClusterUser, "cluster-providers/site"))
	as := func(user string) { w.env["DROVER_TOKEN"] = user }
	w.engine.does = func(s domain.Scope) (int, []string, error) {
		w.stand(s.Owner, domain.Instantiated, domain.ContextInstantiated, 1)
		return 1, nil, nil
	}
	as("root")
	chart := w.chart()
	w.feed(`resourceContext: {anchor: projects}
metadata: {name: demo}
---
resourceContext: {anchor: projects/demo/logical-clouds}
metadata: {name: one}
spec: {namespace: one, level: "1", user: {userName: one}}
`, "apply", "-f", "-")
	deploy := func(more ...string) result {
		return w.run(append([]string{"deploy", chart, "--name", "web", "--clusters", "site+edge01"}, more...)...)
	}
	refused := func(verb string, more ...string) {
		t.Helper()
		r := deploy(more...)
		require.Equal(t, 4, r.code, r.out+r.err)
		require.Contains(t, r.err, verb+" clusters of cluster-providers/site")
		require.Contains(t, r.err, "nothing is done")
		require.Empty(t, r.out)
	}
	as("alice")
	refused("put", "-p", "demo")
	refused("put", "-p", "demo", "--dry-run")
	as("carl")
	refused("use", "-p", "demo", "--cloud", "one")
	as("mary")
	refused("put", "-p", "new")
	as("root")
	require.Equal(t, "projects/demo/logical-clouds/one\n", w.done("get", "logical-clouds", "-A", "-o", "name"))
	require.Equal(t, "projects/demo\n", w.done("get", "projects", "-o", "name"))

	as("alice")
	r := deploy("-p", "demo", "--cloud", "one")
	require.Zero(t, r.code, r.out+r.err)
	as("root")
	w.feed(`resourceContext: {anchor: projects/demo/logical-clouds}
metadata: {name: default}
spec: {level: "0"}
---
resourceContext: {anchor: projects/demo/logical-clouds/default/cluster-references}
metadata: {name: by-another-name}
spec: {clusterProvider: site, cluster: edge01}
`, "apply", "-f", "-")
	as("alice")
	r = w.run("deploy", chart, "--name", "db", "--clusters", "site+edge01", "-p", "demo")
	require.Zero(t, r.code, r.out+r.err)
}

// TestDeployAsksForItsCloudBeforehand: who may not instantiate or update a logical cloud, or not bring one to a cluster that has more there than a namespace
// of its own, writes nothing before he is refused.
func TestDeployAsksForItsCloudBeforehand(t *testing.T) {
	builder := &domain.Role{Metadata: domain.Metadata{Name: "builder"}, Spec: domain.RoleSpec{Rules: []domain.RoleRule{
		{Verbs: []string{"get", "list", "status", "create", "put"}, Nouns: []string{"*"}},
		{Verbs: []string{"approve", "instantiate", "update"}, Nouns: []string{domain.DeploymentIntentGroups.Kind}},
	}}}
	w := newWorldOf(t, []*domain.Role{builder}, boundTo("root", domain.RoleAdmin, ""),
		boundTo("alice", domain.RoleProjectAdmin, "projects/demo"), boundTo("alice", domain.RoleClusterUser, "cluster-providers/site"),
		boundTo("bob", "builder", "projects/demo"), boundTo("bob", domain.RoleClusterUser, "cluster-providers/site"))
	as := func(user string) { w.env["DROVER_TOKEN"] = user }
	w.engine.does = func(s domain.Scope) (int, []string, error) {
		w.stand(s.Owner, domain.Instantiated, domain.ContextInstantiated, 1)
		return 1, nil, nil
	}
	as("root")
	chart := w.chart()
	w.done("cluster", "add", "site/edge02", "--kubeconfig", w.env["XDG_CONFIG_HOME"]+"/edge01.kubeconfig", "--use-own-credentials")
	w.feed(`resourceContext: {anchor: projects}
metadata: {name: demo}
---
resourceContext: {anchor: projects/demo/logical-clouds}
metadata: {name: one}
spec: {namespace: one, level: "1", user: {userName: one}}
---
resourceContext: {anchor: projects/demo/logical-clouds}
metadata: {name: system}
spec: {namespace: kube-system, level: "1", user: {userName: two}}
---
resourceContext: {anchor: projects/demo/logical-clouds}
metadata: {name: wide}
spec: {namespace: wide, level: "1", user: {userName: wide}}
---
resourceContext: {anchor: projects/demo/logical-clouds/wide/user-permissions}
metadata: {name: everywhere}
spec: {apiGroups: [""], resources: [configmaps], verbs: [get]}
`, "apply", "-f", "-")
	deploy := func(cluster, cloud string) result {
		return w.run("deploy", chart, "-p", "demo", "--name", "web", "--clusters", "site+"+cluster, "--cloud", cloud)
	}
	refused := func(needs, cluster, cloud string) {
		t.Helper()
		r := deploy(cluster, cloud)
		require.Equal(t, 4, r.code, r.out+r.err)
		require.Contains(t, r.err, needs)
		require.Contains(t, r.err, "nothing is done")
		require.Empty(t, r.out)
	}
	as("alice")
	refused("put clusters of cluster-providers/site", "edge01", "system")
	refused("put clusters of cluster-providers/site", "edge01", "wide")
	lists := 0
	w.asks = func(r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/user-permissions") {
			lists++
		}
	}
	refused("put clusters of cluster-providers/site", "edge01,site+edge02", "wide")
	w.asks = nil
	require.Equal(t, 1, lists, "once for all clusters")
	as("bob")
	refused("instantiate logical-clouds of projects/demo", "edge01", "one")
	as("root")
	require.Empty(t, w.done("get", "cluster-references", "-A", "-o", "name"))
	require.Empty(t, w.done("get", "composite-apps", "-A", "-o", "name"))
	require.Zero(t, deploy("edge01", "one").code)
	as("bob")
	refused("update logical-clouds of projects/demo", "edge02", "one")
	r := deploy("edge01", "one")
	require.Zero(t, r.code, r.out+r.err)
}

// TestDeployAsksForWhatItChangesBeforehand: of a group that is there nothing is written for who may not replace what differs, or not bring it to clusters.
// What is the same needs no right to be written.
func TestDeployAsksForWhatItChangesBeforehand(t *testing.T) {
	role := func(name string, verbs ...string) *domain.Role {
		return &domain.Role{Metadata: domain.Metadata{Name: name}, Spec: domain.RoleSpec{Rules: []domain.RoleRule{
			{Verbs: append([]string{"get", "list", "status"}, verbs...), Nouns: []string{"*"}},
		}}}
	}
	roles := []*domain.Role{role("updater", "update"), role("writer", "create", "put"), role("instantiator", "put", "instantiate")}
	bindings := []*domain.RoleBinding{boundTo("root", domain.RoleAdmin, "")}
	for user, role := range map[string]string{"ulla": "updater", "will": "writer", "ines": "instantiator"} {
		bindings = append(bindings, boundTo(user, role, "projects/demo"), boundTo(user, domain.RoleClusterUser, "cluster-providers/site"))
	}
	w := newWorldOf(t, roles, bindings...)
	w.engine.does = func(s domain.Scope) (int, []string, error) {
		w.stand(s.Owner, domain.Instantiated, domain.ContextInstantiated, 1)
		return 1, nil, nil
	}
	as := func(user string) { w.env["DROVER_TOKEN"] = user }
	as("root")
	chart := w.chart()
	deploy := func(more ...string) result {
		return w.run(append([]string{"deploy", chart, "-p", "demo", "--name", "web", "--clusters", "site+edge01"}, more...)...)
	}
	writes := 0
	w.asks = func(r *http.Request) {
		if r.Method == http.MethodPut || r.Method == http.MethodPost {
			writes++
		}
	}
	refused := func(needs string, more ...string) {
		t.Helper()
		writes = 0
		r := deploy(more...)
		require.Equal(t, 4, r.code, r.out+r.err)
		require.Contains(t, r.err, needs)
		require.Contains(t, r.err, "nothing is done")
		require.Zero(t, writes)
	}
	require.Zero(t, deploy().code)

	as("ulla")
	refused("put profiles of projects/demo", "--set", "a=1")
	r := deploy()
	require.Zero(t, r.code, r.out+r.err)
	w.file("web/templates/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n")
	refused("put apps of projects/demo")
	as("will")
	refused("update deployment-intent-groups of projects/demo")
	const group = "projects/demo/composite-apps/web/v1/deployment-intent-groups/web"
	w.stand(group, domain.Approved, domain.ContextTerminated, 0)
	refused("instantiate deployment-intent-groups of projects/demo")
	as("ines")
	refused("approve deployment-intent-groups of projects/demo", "--any-of", "site+edge01")
}

// TestDryDeployNeedsNoRightToWrite over a group that is there, as it writes nothing. Of what is missing it is refused as the deploy would be.
func TestDryDeployNeedsNoRightToWrite(t *testing.T) {
	reader := &domain.Role{Metadata: domain.Metadata{Name: "reader"}, Spec: domain.RoleSpec{Rules: []domain.RoleRule{
		{Verbs: []string{"get", "list", "status"}, Nouns: []string{"*"}},
	}}}
	w := newWorldOf(t, []*domain.Role{reader}, boundTo("root", domain.RoleAdmin, ""),
		boundTo("rita", "reader", "projects/demo"), boundTo("rita", domain.RoleClusterUser, "cluster-providers/site"))
	w.engine.does = func(s domain.Scope) (int, []string, error) {
		w.stand(s.Owner, domain.Instantiated, domain.ContextInstantiated, 1)
		return 1, nil, nil
	}
	w.env["DROVER_TOKEN"] = "root"
	chart := w.chart()
	args := func(name string, more ...string) []string {
		return append([]string{"deploy", chart, "-p", "demo", "--name", name, "--clusters", "site+edge01"}, more...)
	}
	w.done(args("web")...)

	w.env["DROVER_TOKEN"] = "rita"
	const app = "projects/demo/composite-apps/web/v1"
	const group = app + "/deployment-intent-groups/web"
	require.Equal(t, group+" would be updated (dry run)\n", w.done(args("web", "--dry-run")...))
	require.Contains(t, w.done(args("web", "--dry-run", "--set", "a=1")...), "/profiles/web-profile configured (dry run)\n")
	w.file("web/templates/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n")
	require.Equal(t, app+"/apps/web configured (dry run)\n"+group+" would be updated (dry run)\n", w.done(args("web", "--dry-run")...))
	w.stand(group, domain.Approved, domain.ContextTerminated, 0)
	require.Contains(t, w.done(args("web", "--dry-run", "--any-of", "site+edge01")...), group+" would be approved and instantiated (dry run)\n")

	r := w.run(args("web")...)
	require.Equal(t, 4, r.code, r.out+r.err)
	r = w.run(args("db", "--dry-run")...)
	require.Equal(t, 4, r.code, r.out+r.err)
	require.Contains(t, r.err, "approve")
	require.Contains(t, r.err, "nothing is done")
}

// TestDeployComparesAChartOnce for who may not put it, unless it waits for its logical cloud meanwhile.
func TestDeployComparesAChartOnce(t *testing.T) {
	operator := &domain.Role{Metadata: domain.Metadata{Name: "operator"}, Spec: domain.RoleSpec{Rules: []domain.RoleRule{
		{Verbs: []string{"get", "list", "status", "instantiate", "update"}, Nouns: []string{"*"}},
	}}}
	w := newWorldOf(t, []*domain.Role{operator}, boundTo("root", domain.RoleAdmin, ""),
		boundTo("oscar", "operator", "projects/demo"), boundTo("oscar", domain.RoleClusterUser, "cluster-providers/site"))
	w.engine.does = func(s domain.Scope) (int, []string, error) {
		w.stand(s.Owner, domain.Instantiated, domain.ContextInstantiated, 1)
		return 1, nil, nil
	}
	w.env["DROVER_TOKEN"] = "root"
	args := []string{"deploy", w.chart(), "-p", "demo", "--name", "web", "--clusters", "site+edge01"}
	w.done(args...)
	const app = "/projects/demo/composite-apps/web/v1/apps/web"
	compared := 0
	w.asks = func(r *http.Request) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, app) {
			compared++
		}
	}
	for _, user := range []string{"root", "oscar"} {
		compared = 0
		w.env["DROVER_TOKEN"] = user
		w.done(args...)
		require.Equal(t, 1, compared, user)
	}
	w.stand("projects/demo/logical-clouds/default", domain.Terminated, domain.ContextTerminated, 1)
	compared = 0
	w.done(args...)
	require.Equal(t, 2, compared, "others may have put another one meanwhile")
}

// TestDeployComparesAgainAfterItsWait: what others have written while it has waited for its logical cloud is as it is told in the end, and what they have
// deleted is made again.
func TestDeployComparesAgainAfterItsWait(t *testing.T) {
	w := newWorld(t)
	const group = "projects/default/composite-apps/web/v1/deployment-intent-groups/web"
	intent := domain.Key(group + "/generic-placement-intents/placement/app-intents/web-placement")
	read := func() *domain.AppIntent {
		o, err := w.db.Get(t.Context(), domain.AppIntents, intent)
		require.NoError(t, err)
		return o.(*domain.AppIntent)
	}
	meanwhile := func() {}
	w.engine.does = func(s domain.Scope) (int, []string, error) {
		if strings.Contains(string(s.Owner), "logical-clouds") {
			meanwhile()
		}
		w.stand(s.Owner, domain.Instantiated, domain.ContextInstantiated, 1)
		return 1, nil, nil
	}
	w.feed(`resourceContext: {anchor: projects}
metadata: {name: default}
---
resourceContext: {anchor: projects/default/logical-clouds}
metadata: {name: own}
spec: {namespace: own, level: "1", user: {userName: own}}
`, "apply", "-f", "-")
	args := []string{"deploy", w.chart(), "--name", "web", "--clusters", "edge01", "--cloud", "own"}
	w.done(args...)
	wanted := read().Spec

	for name, c := range map[string]struct {
		meanwhile func()
		done      string
	}{
		"changed": {func() {
			other := read()
			other.Spec.Intent.AllOf[0].Cluster = "edge02"
			require.NoError(t, w.db.Replace(t.Context(), other))
		}, "configured"},
		"deleted": {func() { require.NoError(t, w.db.Delete(t.Context(), domain.AppIntents, intent, 0)) }, "created"},
	} {
		t.Run(name, func(t *testing.T) {
			w.stand("projects/default/logical-clouds/own", domain.Terminated, domain.ContextTerminated, 1)
			meanwhile = c.meanwhile
			require.Contains(t, w.done(args...), string(intent)+" "+c.done+"\n")
			require.Equal(t, wanted, read().Spec)
		})
	}
}

// TestDeployMakesNamesThatFit, and says of one that it cannot make before anything is made.
func TestDeployMakesNamesThatFit(t *testing.T) {
	w := newWorld(t)
	w.chart()
	provider := strings.Repeat("p", 100)
	for _, name := range []string{strings.Repeat("c", 100), strings.Repeat("c", 101)} {
		w.done("cluster", "add", provider+"/"+name, "--kubeconfig", w.env["XDG_CONFIG_HOME"]+"/edge01.kubeconfig", "--use-own-credentials")
	}
	app := strings.Repeat("a", 125)
	long := w.file("long/Chart.yaml", "apiVersion: v2\nname: "+app+"\nversion: 1.0.0\n")
	w.file("long/templates/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n")
	args := []string{"deploy", filepath.Dir(long), "--name", "web", "--clusters", provider + "/" + strings.Repeat("c", 100) + "," + provider + "/" + strings.Repeat("c", 101)}
	w.done(args...)
	references := strings.Fields(w.done("get", "cluster-references", "-A", "-o", `jsonpath={range .items[*]}{.metadata.name} {end}`))
	require.Len(t, references, 2)
	for _, name := range references {
		require.Len(t, name, domain.MaxName)
	}
	require.NotContains(t, w.done(args...), "created", "the names are the same the next time")

	spaced := w.file("spaced/Chart.yaml", "apiVersion: v2\nname: my chart\nversion: 1.0.0\n")
	before := w.requests.Load()
	for _, more := range [][]string{nil, {"--dry-run"}} {
		r := w.run(append([]string{"deploy", filepath.Dir(spaced), "--name", "other", "--clusters", "edge01"}, more...)...)
		require.Equal(t, 2, r.code, r.out)
		require.Contains(t, r.err, `"my chart": Does not match pattern`)
	}
	require.Equal(t, before, w.requests.Load())
}
