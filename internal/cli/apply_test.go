package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/rights"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// TestApply: a folder in no order is made in the order of what refers to what; again it is unchanged, with one request a collection
// and no write; what has changed is configured; and what was made is deleted the other way round.
func TestApply(t *testing.T) {
	w := newWorld(t)
	folder := w.fleet()
	args := []string{"-f", folder, "-v", folder + "/values.yaml"}
	const app, group = "projects/demo/composite-apps/vfw/v1", "projects/demo/composite-apps/vfw/v1/deployment-intent-groups/web"
	keys := []string{
		"projects/demo", app, app + "/composite-profiles/cp", "projects/demo/logical-clouds/lc", group, group + "/intents/bound", app + "/apps/sink",
		"cluster-providers/edge", "cluster-providers/edge/clusters/edge01", "cluster-providers/edge/clusters/edge01/labels/small",
	}
	said := func(word string) string { return strings.Join(keys, " "+word+"\n") + " " + word + "\n" }
	require.Equal(t, said("created (dry run)"), w.done(append([]string{"apply", "--dry-run"}, args...)...))
	require.Contains(t, w.run("get", "projects").err, "There is no project")
	before := w.requests.Load()
	require.Equal(t, said("created"), w.done(append([]string{"apply"}, args...)...))
	require.LessOrEqual(t, w.requests.Load()-before, int64(len(keys)+2))
	require.Equal(t, said("unchanged"), w.done(append([]string{"apply"}, args...)...))

	// What get prints can be applied.
	text := w.done("get", "group", "web", "-o", "yaml")
	require.Equal(t, group+" unchanged\n", w.feed(text, "apply", "-f", "-").out)
	require.Equal(t, group+" configured\n", w.feed(strings.Replace(text, "the web", "a web", 1), "apply", "-f", "-").out)
	text = w.done("get", "apps", "-o", "json", "-A")
	require.Equal(t, app+"/apps/sink unchanged\n", w.feed(text, "apply", "-f", "-").out)
	w.file("fleet/files/edge01.kubeconfig", strings.Replace(kubeconfig, "sesame", "other", 1))
	require.Contains(t, w.done(append([]string{"apply"}, args...)...), "clusters/edge01 configured\n")

	require.Contains(t, w.done(append([]string{"delete", "--dry-run"}, args...)...), "projects/demo would be deleted")
	keys = []string{
		app + "/apps/sink", group + "/intents/bound", group, app + "/composite-profiles/cp", app, "projects/demo/logical-clouds/lc",
		"cluster-providers/edge/clusters/edge01/labels/small", "cluster-providers/edge/clusters/edge01", "cluster-providers/edge", "projects/demo",
	}
	require.Equal(t, said("deleted"), w.done(append([]string{"delete"}, args...)...))
	require.Equal(t, said("is not there"), w.done(append([]string{"delete"}, args...)...))
}

// TestManifestsOfKubeStellar: a collector is applied as KubeStellar's users have it, which says no anchor: to the fleet's library, or to that of
// the project that is named.
func TestManifestsOfKubeStellar(t *testing.T) {
	w := newWorld(t)
	folder := filepath.Dir(w.file("collectors/available.yaml", `apiVersion: control.kubestellar.io/v1alpha1
kind: StatusCollector
metadata: {name: available, creationTimestamp: null}
spec: {limit: 10, select: [{name: available, def: returned.status.availableReplicas}]}
`))
	w.feed("resourceContext: {anchor: projects}\nmetadata: {name: demo}\n", "apply", "-f", "-")
	require.Equal(t, "status-collectors/available created\n", w.done("apply", "-f", folder))
	require.Equal(t, "status-collectors/available unchanged\n", w.done("apply", "-f", folder))
	require.Equal(t, "projects/demo/status-collectors/available created\n", w.done("apply", "-f", folder, "--project", "demo"))
	require.Equal(t, "projects/demo/status-collectors/available deleted\n", w.done("delete", "-f", folder, "-p", "demo"))
	r := w.feed("apiVersion: control.kubestellar.io/v1alpha1\nkind: BindingPolicy\nmetadata: {name: b}\n", "apply", "-f", "-")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err, "resourceContext.anchor is missing")
}

// TestApplyGoesOn: what is refused is said with the field, the rest is done, and the exit code is 1.
func TestApplyGoesOn(t *testing.T) {
	w := newWorld(t)
	file := w.file("some.yaml", `resourceContext: {anchor: projects/none/logical-clouds}
metadata: {name: lc}
---
resourceContext: {anchor: projects}
metadata: {name: good}
---
resourceContext: {anchor: cluster-providers/none/clusters/c/labels}
clusterLabel: x
`)
	r := w.run("apply", "-f", file)
	require.Equal(t, 1, r.code)
	require.Equal(t, "projects/good created\n", r.out)
	require.Contains(t, r.err, "projects/none/logical-clouds/lc: ")
	require.Contains(t, r.err, "cluster-providers/none/clusters/c/labels/x: ")
}

// TestFilesThatCannotBeApplied are refused as a whole, with the place, before anything is asked.
func TestFilesThatCannotBeApplied(t *testing.T) {
	w := newWorld(t)
	for want, text := range map[string]string{
		"resourceContext.anchor is missing":            "metadata: {name: p}",
		`"things" is the place of nothing`:             "resourceContext: {anchor: things}",
		"f.yaml:1: project: metadata.name is missing":  "resourceContext: {anchor: projects}",
		`metadata is there twice, once as "metadata"`:  "resourceContext: {anchor: projects}\nmetadata: {name: one}\nMetadata: {name: two}",
		`"a b" is no name of a project`:                "resourceContext: {anchor: projects}\nmetadata: {name: a b}",
		"no file comes with a project":                 "resourceContext: {anchor: projects}\nmetadata: {name: p}\nfile: x",
		"-v FILE says what it is filled with":          "resourceContext: {anchor: {{.X}}}",
		"there is no document in":                      "# nothing\n",
		"cannot unmarshal number into Go struct field": "resourceContext: {anchor: projects/p/composite-apps}\nmetadata: {name: a}\nspec: {compositeAppVersion: 1}",
		`f.yaml:1: spec.revision: "x" is no revision`:  "resourceContext: {anchor: projects/p/composite-apps/a/v1/deployment-intent-groups/g/rollback}\nspec: {revision: x}",
		`f.yaml:1: spec.reapply: "y"; use true`:        "resourceContext: {anchor: projects/p/composite-apps/a/v1/deployment-intent-groups/g/update}\nspec: {reapply: y}",
		"f.yaml: line 2: this is no document":          "# a note\nresourceContext",
		"f.yaml: line 4: this is no document":          "resourceContext: {anchor: projects}\nmetadata: {name: p}\n---\n- metadata\n",
		"yaml: line 2":                                 "resourceContext: {anchor: projects}\n\tmetadata: {}",
		"f.yaml:4: project: metadata.name is missing":  "resourceContext: {anchor: projects}\nmetadata: {name: good}\n---\nresourceContext: {anchor: projects}",
	} {
		r := w.run("apply", "-f", w.file("f.yaml", text))
		require.Equal(t, 2, r.code, "%s: %s", text, r.err)
		require.Contains(t, r.err, want, text)
	}
	values := w.file("v.yaml", "A: b")
	require.Contains(t, w.run("apply", "-f", w.file("f.yaml", "a: {{.B}}"), "-v", values).err, `map has no entry for key "B"`)
	for text, want := range map[string]string{ // whose lines are those of no file
		"{{if .A}}\n{{end}}resourceContext: {anchor: projects}\n":       "f.yaml:2 (as it is filled by -v): project: metadata.name is missing",
		"# {{.A}}\nresourceContext: {anchor: projects}\n\tmetadata: {}": "yaml: line 3: found character that cannot start any token (as it is filled by -v)",
		"resourceContext: {anchor: projects}\n":                         "f.yaml:1: project: metadata.name is missing",
	} {
		require.Contains(t, w.run("apply", "-f", w.file("f.yaml", text), "-v", values).err, want)
	}
	require.Zero(t, w.requests.Load())
}

// TestTextsThatLookLikeNumbers: emcoctl takes names and notes as they are written, and so are they stored.
func TestTextsThatLookLikeNumbers(t *testing.T) {
	w := newWorld(t)
	w.feed(`resourceContext: {anchor: projects}
metadata: {name: 123, description: 007, userData1: 2024-01-15, userData2: 1.50}
---
resourceContext: {anchor: cluster-providers}
metadata: {name: cp, description: }
`, "apply", "-f", "-")
	require.JSONEq(t, `{"version":"emco/v2","resourceContext":{"anchor":"projects"},"metadata":{"name":"123","description":"007","userData1":"2024-01-15","userData2":"1.50"}}`, w.done("get", "project", "123", "-o", "json"))
	w.file("kube/config", kubeconfig)
	file := w.file("kube/labels.yaml", `items:
- resourceContext: {anchor: cluster-providers/cp/clusters}
  metadata: {name: k, userData1: 2024-01-15 10:00:00}
  file: config
- resourceContext: {anchor: cluster-providers/cp/clusters/k/labels}
  clusterLabel: 5
- resourceContext: {anchor: cluster-providers/cp/clusters/k/kv-pairs}
  metadata: {name: true}
  spec: {kv: [{since: 2024-01-15}, {count: "5"}]}
`)
	require.Contains(t, w.done("apply", "-f", file), "cluster-providers/cp/clusters/k/labels/5 created")
	require.Contains(t, w.done("apply", "-f", file), "cluster-providers/cp/clusters/k/kv-pairs/true unchanged")
	require.Contains(t, w.done("get", "clusters", "k", "-o", "json"), "2024-01-15 10:00:00")
}

// TestJSONBeyondTheFirstPlane: encoders of JSON write two escapes for one character.
func TestJSONBeyondTheFirstPlane(t *testing.T) {
	w := newWorld(t)
	const text = `{"resourceContext": {"anchor": "projects"}, "metadata": {"name": "p", "description": "\ud83d\ude00 \u00e9 \\ud83d\\ude00 \\\ud83d\ude00"}}`
	w.done("apply", "-f", w.file("p.json", text))
	require.Equal(t, "😀 é \\ud83d\\ude00 \\😀\n", w.done("get", "project", "p", "-o", "jsonpath={.metadata.description}"))
}

// TestConditionsOfTemplates: what EMCO's examples ask for in a condition is not there for all of their users; what is to be written must be.
func TestConditionsOfTemplates(t *testing.T) {
	w := newWorld(t)
	values := w.file("v.yaml", "Name: p\n")
	const second = "{{- if .KubeConfig2 }}\n---\nresourceContext: {anchor: projects}\nmetadata: {name: two}\nfile: {{ .KubeConfig2 }}\n{{- end }}\n"
	require.Equal(t, "projects/p created\n", w.done("apply", "-f", w.file("f.yaml", "resourceContext: {anchor: projects}\nmetadata: {name: {{ .Name }}}\n"+second), "-v", values))
	for _, text := range []string{"resourceContext: {anchor: projects}\nmetadata: {name: {{ .Nane }}}\n" + second, second + "# {{ .Other.Name }}\n", second + "# {{ printf \"%s/x\" .Other }}\n"} {
		r := w.run("apply", "-f", w.file("f.yaml", text), "-v", values)
		require.Equal(t, 2, r.code, r.out)
		require.Contains(t, r.err, "map has no entry for key")
	}
	for _, name := range []string{`{{ .Nothing }}`, `{{ index . "no-such" }}`, `{{ printf "%s" .Nothing }}`} {
		r := w.run("apply", "-f", w.file("f.yaml", "resourceContext: {anchor: projects}\nmetadata:\n  name: q\n  description: \""+name+"\"\n"), "-v", w.file("v.yaml", "Nothing: null\n"))
		require.Equal(t, 2, r.code, r.out)
		require.Contains(t, r.err, "line 4 of what it is filled to has <n")
	}
}

// TestLaterValuesWin map by map, and a file that says nothing takes nothing away.
func TestLaterValuesWin(t *testing.T) {
	w := newWorld(t)
	file := w.file("f.yaml", "resourceContext: {anchor: projects}\nmetadata: {name: {{ .P.Name }}, description: {{ .P.Text }}}\n")
	w.done("apply", "-f", file, "-v", w.file("1.yaml", "P: {Name: p, Text: old}\n"), "-v", w.file("2.yaml", "P: {Text: new}\n"), "-v", w.file("3.yaml", "null\n"))
	require.Equal(t, "new\n", w.done("get", "project", "p", "-o", "jsonpath={.metadata.description}"))
}

// TestFoldersWithOtherFiles: a file of a folder that has no documents is left out and named; one that has some and something else beside
// them is refused, as nobody would see what is missing; what an operation does not know is said.
func TestFoldersWithOtherFiles(t *testing.T) {
	w := newWorld(t)
	w.file("f/project.yaml", "resourceContext: {anchor: projects}\nmetadata: {name: p}\n")
	w.file("f/values.yaml", "colour: red\n---\nsize: 3\n")
	folder := w.env["XDG_CONFIG_HOME"] + "/f"
	r := w.run("apply", "-f", folder)
	require.Zero(t, r.code, r.err)
	require.Equal(t, "projects/p created\n", r.out)
	require.Equal(t, 1, strings.Count(r.err, "values.yaml is left out"))
	w.file("f/chart/Chart.yaml", "name: c\nversion: 0.1.0\n")
	w.file("f/chart/templates/a.yaml", "{{ if .Values.a }}\na: {{ .Values.a }}\n{{ end }}\n")
	r = w.run("apply", "-R", "-f", folder)
	require.Zero(t, r.code, r.err)
	require.Contains(t, r.err, "f/chart is left out: it is a chart")
	for _, text := range []string{
		"resourceContext: {anchor: projects}\nmetadata: {name: q}\n---\nmetadata: {name: lost}\n",
		"metadata: {name: lost}\n---\nresourceContext: {anchor: projects}\nmetadata: {name: q}\n",
	} {
		w.file("f/mixed.yaml", text)
		r = w.run("apply", "-q", "-f", folder)
		require.Equal(t, 2, r.code, r.out)
		require.Contains(t, r.err, "mixed.yaml: line ")
	}
	require.NoError(t, os.Remove(folder+"/mixed.yaml"))
	require.NoError(t, os.Symlink(folder, folder+"-link"))
	require.Equal(t, "projects/p unchanged\n", w.done("apply", "-f", folder+"-link"))
	const group = "projects/p/composite-apps/a/v1/deployment-intent-groups/g"
	r = w.feed("resourceContext: {anchor: "+group+"/instantiate}\nspecs: {}\n", "apply", "-f", "-")
	require.Contains(t, r.err, `unknown field "specs"`)
	r = w.feed("resourceContext: {anchor: "+group+"/instantiate}\nfile: x\n", "apply", "-f", "-")
	require.Equal(t, 2, r.code, r.err)
}

// TestFilesOfThisMachine: documents and charts of somebody else do not say which files of this machine go to the API.
func TestFilesOfThisMachine(t *testing.T) {
	w := newWorld(t)
	w.file("kube/config", kubeconfig)
	home := w.env["XDG_CONFIG_HOME"]
	folder := filepath.Join(home, "theirs")
	w.file("theirs/inner/config", kubeconfig)
	require.NoError(t, os.Symlink("../kube/config", filepath.Join(folder, "link")))
	require.NoError(t, os.Symlink("inner/config", filepath.Join(folder, "own")))
	document := func(file string) string {
		return w.file("theirs/k.yaml", "resourceContext: {anchor: cluster-providers}\nmetadata: {name: cp}\n---\n"+
			"resourceContext: {anchor: cluster-providers/cp/clusters}\nmetadata: {name: k}\nfile: "+file+"\n")
	}
	for _, file := range []string{home + "/kube/config", "../kube/config", "inner/../../kube/config", "link"} {
		r := w.run("apply", "-f", document(file))
		require.Equal(t, 2, r.code, "%s: %s", file, r.out)
		require.Contains(t, r.err, "--allow-outside", file)
		require.NotContains(t, w.done("get", "clusters"), "k", file)
	}
	require.Contains(t, w.done("apply", "-f", document("own")), "clusters/k created")
	require.Contains(t, w.done("apply", "--allow-outside", "-f", document("../kube/config")), "clusters/k unchanged")

	chart := w.chart()
	require.NoError(t, os.Symlink("Chart.yaml", filepath.Join(chart, "own")))
	w.done("deploy", chart, "--name", "web", "--clusters", "edge01", "--dry-run")
	require.NoError(t, os.Symlink("../../kube/config", filepath.Join(chart, "templates", "config")))
	r := w.run("deploy", chart, "--name", "web", "--clusters", "edge01", "--dry-run")
	require.Equal(t, 2, r.code, r.out)
	require.Contains(t, r.err, "templates/config")
	require.Contains(t, r.err, "escapes")
}

// TestFilesAreLookedAtFirst: of a folder in which files are not there nothing is made, and each of these is named.
func TestFilesAreLookedAtFirst(t *testing.T) {
	w := newWorld(t)
	const one = "resourceContext: {anchor: cluster-providers/cp/clusters}\nmetadata: {name: k}\nfile: "
	r := w.feed("resourceContext: {anchor: cluster-providers}\nmetadata: {name: cp}\n---\n"+one+"none\n---\n"+one+"lost\n", "apply", "-f", "-")
	require.Equal(t, 2, r.code, r.out)
	require.Contains(t, r.err, "standard input:4: stat none: no such file")
	require.Contains(t, r.err, "standard input:8: stat lost: no such file")
	require.Zero(t, w.requests.Load())
}

// TestATokenIsShown: also to who wants it quiet, as nobody can ask for it again.
func TestATokenIsShown(t *testing.T) {
	w := newWorld(t)
	r := w.feed(`resourceContext: {anchor: service-accounts}
metadata: {name: ci}
---
resourceContext: {anchor: service-accounts/ci/tokens}
metadata: {name: t}
`, "apply", "-q", "-f", "-")
	require.Zero(t, r.code, r.err)
	require.Regexp(t, `^service-accounts/ci/tokens/t created; its token, which is shown this once: \S+\n$`, r.out)
	require.Equal(t, "service-accounts/ci/tokens/t deleted\n", w.done("delete", "service-account-token", "ci/t"), "as docs/security.md has it")
}

// TestUnknownMembers are all named and left out, as the API does it, or refused where that is asked for: then nothing was made.
func TestUnknownMembers(t *testing.T) {
	w := newWorld(t)
	const documents = `resourceContext: {anchor: projects}
metadata: {name: p, colour: red, descriptio: x}
shape: round
---
resourceContext: {anchor: projects/p/logical-clouds}
metadata: {name: lc}
spec: {leve: "0"}
---
resourceContext: {anchor: projects/p/logical-clouds/lc/instantiate}
spec: {revision: "1"}
`
	named := []string{
		`standard input:1: project: unknown field "metadata.colour"`, `standard input:1: project: unknown field "metadata.descriptio", did you mean "metadata.description"?`, `standard input:1: project: unknown field "shape"`,
		`standard input:5: logical cloud: unknown field "spec.leve", did you mean "spec.level"?`, `standard input:9: instantiate: unknown field "spec.revision"`,
	}
	r := w.feed(documents, "apply", "-f", "-", "--validate=strict")
	require.Equal(t, 2, r.code)
	for _, one := range named {
		require.Contains(t, r.err, one)
	}
	require.Equal(t, 3, w.run("get", "project", "p").code)
	r = w.feed(documents, "apply", "-f", "-", "--validate=no")
	require.Equal(t, 2, r.code)
	r = w.feed(documents, "apply", "-f", "-", "--dry-run")
	for _, one := range named {
		require.Contains(t, r.err, "Warning: "+one+"; it is left out\n")
	}
	r = w.feed(documents, "apply", "-f", "-", "--dry-run", "--validate=ignore")
	require.NotContains(t, r.err, "unknown field")
	require.Contains(t, r.out, "projects/p created")

	// Documents of a list have their own lines.
	r = w.feed("items:\n- resourceContext: {anchor: projects}\n  metadata: {name: p}\n- resourceContext: {anchor: projects}\n  metadata: {name: q}\n  shape: round\n",
		"apply", "-f", "-", "--dry-run")
	require.Contains(t, r.err, `standard input:4: project: unknown field "shape"`)
}

// TestDelete: all names are known before the first one goes; what is refused is said.
func TestDelete(t *testing.T) {
	w := newWorld(t)
	folder := w.fleet()
	w.done("apply", "-f", folder, "-v", folder+"/values.yaml")
	require.Equal(t, 3, w.run("delete", "app", "sink", "none").code)
	require.Contains(t, w.done("get", "apps"), "sink")
	r := w.run("delete", "project", "demo")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "projects/demo: Cannot delete parent without deleting child references first")
	require.Contains(t, r.err, "\nAgain with --cascade: what is below it is deleted, too, and with --terminate what is in clusters is taken out first\n")
	r = w.run("delete", "project", "demo", "--dry-run")
	require.Equal(t, 1, r.code, r.out)
	require.Contains(t, r.err, "it would be refused (dry run). With --cascade: ")
	require.NotContains(t, r.err, "Again with", "it is said already")
	const provider = "resourceContext: {anchor: cluster-providers}\nmetadata: {name: edge}\n"
	r = w.feed(provider, "delete", "-f", "-")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "\n'drover delete cluster-providers/edge --cascade': what is below it is deleted, too")
	r = w.run("delete", "cluster-provider", "edge")
	require.Contains(t, r.err, "\nAgain with --cascade: ")
	r = w.run("delete", "logical-cloud", "lc") // to which the group refers: no flag deletes that
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "is used by deployment intent group")
	require.NotContains(t, r.err, "Again with")
	require.Equal(t, "projects/demo/composite-apps/vfw/v1/apps/sink deleted\n", w.done("delete", "app", "sink"))
	require.Equal(t, 3, w.run("delete", "app", "sink").code)
	require.Contains(t, w.done("delete", "project", "demo", "--cascade", "--dry-run"), "projects/demo would be deleted")
	require.Contains(t, w.done("delete", "project", "demo", "--cascade"), "deployment-intent-groups/web/intents/bound deleted\n")
	require.Equal(t, 3, w.run("get", "project", "demo").code)
	require.Empty(t, w.done("delete", "app", "sink", "--ignore-not-found"))
	const none = "cluster-providers/none/clusters/none"
	for _, more := range [][]string{nil, {"--abandon"}, {"--dry-run"}} { // its path is no question
		require.Equal(t, 3, w.run(append([]string{"delete", "cluster", none}, more...)...).code, "%v", more)
		require.Equal(t, none+" is not there\n", w.done(append([]string{"delete", "cluster", none, "--ignore-not-found"}, more...)...), "%v", more)
	}
}

// TestWhoIsBoundInAProjectDeletesIt: the binding that lets her goes last, with the project.
func TestWhoIsBoundInAProjectDeletesIt(t *testing.T) {
	for how, way := range map[string]func(w *world) []string{
		"by name": func(*world) []string { return []string{"delete", "project", "p", "--cascade"} },
		"by files": func(w *world) []string {
			folder := filepath.Join(w.env["XDG_CONFIG_HOME"], "exported")
			w.done("export", "project", "p", "--to", folder)
			return []string{"delete", "-f", folder}
		},
	} {
		t.Run(how, func(t *testing.T) {
			db := storetest.Open(t, store.Config{})
			w := newWorldFrom(t, db, named, authn.Offers{Asked: true}, func(ctx context.Context) (*rights.Book, error) {
				bindings := []*domain.RoleBinding{boundTo("admin", domain.RoleAdmin, "")}
				found, err := db.ListUnder(ctx, domain.ProjectRoleBindings, "")
				for _, o := range found {
					bindings = append(bindings, o.(*domain.RoleBinding))
				}
				return rights.NewBook(nil, bindings), err
			})
			w.env["DROVER_TOKEN"] = "admin"
			w.done("apply", "-f", w.file("p.yaml", `{resourceContext: {anchor: projects}, metadata: {name: p}}
---
{resourceContext: {anchor: projects/p/role-bindings}, metadata: {name: hers}, spec: {role: project-admin, subjects: [{kind: user, name: alice}]}}
---
{resourceContext: {anchor: projects/p/composite-apps}, metadata: {name: web}, spec: {compositeAppVersion: v1}}
---
{resourceContext: {anchor: projects/p/composite-apps/web/v1/composite-profiles}, metadata: {name: cp}}
`))
			w.env["DROVER_TOKEN"] = "alice"
			require.Contains(t, w.done(way(w)...), "\nprojects/p deleted\n")
			w.env["DROVER_TOKEN"] = "admin"
			require.Equal(t, 3, w.run("get", "project", "p").code)
			require.Empty(t, w.done("get", "project-role-bindings", "-A", "-o", "name"))
		})
	}
}

// TestDeleteOfWhatRuns: what is in clusters is not deleted, and --terminate is named, which takes it out; one that was taken out needs --cascade alone.
func TestDeleteOfWhatRuns(t *testing.T) {
	w := newWorld(t)
	w.engine.does = func(s domain.Scope) (int, []string, error) {
		w.stand(s.Owner, domain.Instantiated, domain.ContextInstantiated, 1)
		return 1, nil, nil
	}
	w.done("deploy", w.chart(), "--name", "web", "--clusters", "edge01")
	key := domain.Key("projects/default/composite-apps/web/v1/deployment-intent-groups/web")
	for _, args := range [][]string{{"delete", "group", "web"}, {"delete", "group", "web", "--dry-run"}} {
		r := w.run(args...)
		require.Equal(t, 1, r.code, r.out)
		require.Contains(t, r.err, "ith --terminate --cascade: what is in clusters is taken out first, what is below it is deleted, too\n")
	}
	r := w.run("delete", "composite-app", "web/v1", "--cascade", "--dry-run")
	require.Equal(t, 1, r.code, r.out)
	require.Contains(t, r.err, "\nAgain with --terminate: what is in clusters is taken out first\n")
	require.Equal(t, 1, strings.Count(w.done("delete", "composite-app", "web/v1", "--cascade", "--terminate", "--dry-run"), "would be terminated"))
	require.Contains(t, w.run("delete", "group", "web", "--terminate", "--dry-run").out, string(key)+" would be terminated (dry run)\n")
	r = w.run("delete", "composite-app", "web/v1", "--cascade")
	require.Equal(t, 1, r.code, r.out)
	require.Contains(t, r.err, "nothing is deleted, as there is still something in clusters of "+string(key)+"\nAgain with --terminate: what is in clusters is taken out first\n")
	require.Empty(t, r.out, "what the group is made of stays")
	require.Equal(t, 1, w.run("delete", "project", "default", "--cascade").code)
	w.stand(key, domain.Terminated, domain.ContextTerminating, 1)
	r = w.run("delete", "group", "web", "--terminate", "--timeout", "1ms")
	require.Equal(t, 6, r.code, r.out)
	require.Contains(t, r.err, "after 1ms, and goes on")
	w.stand(key, domain.TerminateStopped, domain.ContextTerminateFailed, 1) // which may be deleted
	r = w.run("delete", "group", "web")
	require.Equal(t, 1, r.code, r.out)
	require.Contains(t, r.err, "\nAgain with --cascade: what is below it is deleted, too\n")
	require.Contains(t, w.done("delete", "group", "web", "--cascade", "--dry-run"), "would be deleted (dry run)")
}

// TestDeleteOfAnApprovedGroup: that it is approved no more is news only where it stays.
func TestDeleteOfAnApprovedGroup(t *testing.T) {
	w := newWorld(t)
	folder := w.fleet()
	const group = "projects/demo/composite-apps/vfw/v1/deployment-intent-groups/web"
	const no = "deployment intent group web is approved no more; approve it again"
	approved := func() {
		t.Helper()
		w.done("apply", "-f", folder, "-v", folder+"/values.yaml")
		w.done("approve", "web")
	}
	for name, args := range map[string][]string{
		"by name": {"delete", "project", "demo", "--cascade"}, "by files": {"delete", "-f", folder, "-v", folder + "/values.yaml"},
	} {
		approved()
		r := w.run(args...)
		require.Zero(t, r.code, r.err)
		require.Contains(t, r.out, group+"/intents/bound deleted\n", name)
		require.Empty(t, r.err, name)
	}
	approved()
	require.Contains(t, w.run("delete", "deployment-intent", group+"/intents/bound").err, no)
	approved()
	w.done("apply", "-f", w.file("more.yaml", "resourceContext: {anchor: "+group+"/generic-placement-intents}\nmetadata: {name: gpi}\n"))
	w.done("approve", "web")
	r := w.run("delete", "-f", folder, "-v", folder+"/values.yaml") // by which it is refused
	require.Equal(t, 1, r.code, r.out)
	require.Equal(t, 1, strings.Count(r.err, "Warning: "+no+"\n"), r.err)
}

// TestDeleteSaysWhatStays in clusters of a group whose terminate has not come to its end.
func TestDeleteSaysWhatStays(t *testing.T) {
	w := newWorld(t)
	w.done("deploy", w.chart(), "--name", "web", "--clusters", "edge01")
	key := domain.Key("projects/default/composite-apps/web/v1/deployment-intent-groups/web")
	w.stand(key, domain.TerminateStopped, domain.ContextTerminateFailed, 1)
	w.leaves(key, domain.MarkDeleted, domain.MarkDoomed)
	r := w.run("delete", "composite-app", "web/v1", "--cascade")
	require.Zero(t, r.code, r.err)
	require.Contains(t, r.err, "Warning: up to 1 of its resources stay in clusters, and nothing deletes them any more: p+edge01 (1)\n")
}

// TestExport: what is exported applies again to another API, where it is then the same.
func TestExport(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	folder := w.fleet()
	w.done("apply", "-f", folder, "-v", folder+"/values.yaml")
	out := t.TempDir() + "/out"
	w.done("export", "project", "demo", "--to", out)
	require.NotContains(t, other.done("apply", "-f", out), "unchanged")
	again := other.done("apply", "-f", out)
	require.NotContains(t, again, "created")
	require.NotContains(t, again, "configured")
	require.Equal(t, w.done("export", "project", "demo"), other.done("export", "project", "demo"))

	// Apps of one name in two composite apps, and in two versions of one, each with its own chart.
	apps := ""
	for _, of := range []string{"vfw/v2", "other/v1"} {
		name, version, _ := strings.Cut(of, "/")
		apps += "---\nresourceContext: {anchor: projects/demo/composite-apps}\nmetadata: {name: " + name + "}\nspec: {compositeAppVersion: " + version + "}\n" +
			"---\nresourceContext: {anchor: projects/demo/composite-apps/" + of + "/apps}\nmetadata: {name: sink}\nfile: files/sink.tgz\n"
	}
	w.done("apply", "-f", w.file("fleet/apps.yaml", apps))
	out = t.TempDir() + "/out"
	w.done("export", "project", "demo", "--to", out)
	third := newWorld(t)
	require.NotContains(t, third.done("apply", "-f", out), "unchanged")
	require.Contains(t, third.done("apply", "-f", out), "projects/demo/composite-apps/other/v1/apps/sink unchanged\n")
}

// TestEdit: what is saved in the editor is written; what is as before is not.
func TestEdit(t *testing.T) {
	w := newWorld(t)
	w.feed("resourceContext: {anchor: projects}\nmetadata: {name: p, description: old}\n", "apply", "-f", "-")
	w.env["EDITOR"] = "sed -i s/old/new/"
	require.Equal(t, "projects/p configured\n", w.done("edit", "project", "p"))
	require.Equal(t, "new\n", w.done("get", "project", "p", "-o", "jsonpath={.metadata.description}"))
	require.Equal(t, "projects/p unchanged\n", w.done("edit", "project", "p"))
	w.env["EDITOR"] = "sed -i 's/name: p/name: q/'"
	require.Contains(t, w.run("edit", "project", "p").err, "cannot rename it")
	w.env["EDITOR"] = "sed -i 's/description: new/descriptio: mine/'"
	misspelt := w.run("edit", "project", "p")
	require.Equal(t, 2, misspelt.code, misspelt.out)
	require.Contains(t, misspelt.err, `unknown field "metadata.descriptio", did you mean "metadata.description"?`)
	_, file, _ := strings.Cut(strings.TrimSpace(misspelt.err), "What you wrote is in ")
	require.FileExists(t, file)
	require.Equal(t, "new\n", w.done("get", "project", "p", "-o", "jsonpath={.metadata.description}"))

	// What others have written meanwhile stays. The editor is open as long as nobody writes to its pipe and closes that.
	pipe := filepath.Join(w.env["XDG_CONFIG_HOME"], "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	w.env["EDITOR"] = "cat " + pipe + " && sed -i s/new/mine/"
	ended := make(chan result)
	go func() { ended <- w.run("edit", "project", "p") }()
	opened, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	require.NoError(t, err)
	w.feed("resourceContext: {anchor: projects}\nmetadata: {name: p, description: theirs}\n", "apply", "-f", "-")
	require.NoError(t, opened.Close())
	r := <-ended
	require.Equal(t, 1, r.code, r.out)
	require.Contains(t, r.err, "What you wrote is in ")
	require.Contains(t, r.err, "projects/p has been changed meanwhile")
	require.Equal(t, "theirs\n", w.done("get", "project", "p", "-o", "jsonpath={.metadata.description}"))
}
