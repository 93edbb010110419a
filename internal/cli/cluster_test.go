package cli_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/deploy/helm/monitor"
	"github.com/drover-io/drover/internal/domain"
)

// TestClusters: a cluster is registered by one context of a kubeconfig, with what its files say; it is listed, checked and removed
// with its labels; what a program would have to be run for is refused.
func TestClusters(t *testing.T) {
	w := newWorld(t)
	token := w.file("token", "sesame")
	file := w.file("kubeconfig", `apiVersion: v1
kind: Config
current-context: other
contexts:
- {name: other, context: {cluster: other, user: other}}
- {name: mine, context: {cluster: mine, user: mine}}
- {name: run, context: {cluster: mine, user: run}}
clusters:
- {name: other, cluster: {server: "https://other:6443"}}
- {name: mine, cluster: {server: "https://127.0.0.1:6443"}}
users:
- {name: other, user: {token: secret}}
- {name: mine, user: {tokenFile: `+token+`}}
- {name: run, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, interactiveMode: Never}}}
`)
	add := []string{"cluster", "add", "site/edge01", "--kubeconfig", file, "--context", "mine", "--label", "edge,small", "--use-own-credentials"}
	const key = "cluster-providers/site/clusters/edge01"
	require.Equal(t, "cluster-providers/site created\n"+key+" created\n"+key+"/labels/edge created\n"+key+"/labels/small created\n", w.done(add...))
	require.Equal(t, key+" unchanged\n"+key+"/labels/edge unchanged\n"+key+"/labels/small unchanged\n", w.done(add...))
	require.Contains(t, w.done("cluster", "list"), "edge01")
	r := w.run("cluster", "check", "edge01")
	require.Equal(t, 1, r.code, r.out+r.err)
	require.Contains(t, r.out, "Answers:       no: ")
	require.Contains(t, r.out, "Heard:         -\n", "nothing is to be heard of it")
	for want, args := range map[string][]string{
		`has no context "none"`:    {"site/edge02", "--kubeconfig", file, "--kube-context", "none"},
		"credentials by a program": {"site/edge02", "--kubeconfig", file, "--kube-context", "run", "--use-own-credentials"},
		"no such file":             {"site/edge02", "--kubeconfig", "/nowhere"},
		"--report or --groups":     {"site/edge02", "--kubeconfig", file, "--report", "loud"},
		"is no API group":          {"site/edge02", "--kubeconfig", file, "--groups", "A_B"},
		"good for at least 10m":    {"site/edge02", "--kubeconfig", file, "--context", "mine", "--expires-after", "1m"},
		"--expires-after 0s":       {"site/edge02", "--kubeconfig", file, "--context", "mine", "--expires-after", "0"},
	} {
		r := w.run(append([]string{"cluster", "add"}, args...)...)
		require.Equal(t, 2, r.code, r.err)
		require.Contains(t, r.err, want)
	}
	r = w.run("cluster", "add", "edge02", "--kubeconfig", file, "--context", "mine", "--dry-run", "--report", "agent")
	require.Equal(t, 5, r.code, "the cluster is asked: "+r.err)
	require.Contains(t, r.err, "the cluster cannot be reached")
	require.NotContains(t, r.err, "http://API", "which has answered")
	dry := w.done("cluster", "add", "edge02", "--kubeconfig", file, "--context", "mine", "--dry-run", "--use-own-credentials")
	require.Contains(t, dry, "cluster-providers/site/clusters/edge02 created (dry run)")
	require.Equal(t, 3, w.run("get", "cluster", "edge02").code)

	// One that is in use stays, with its labels.
	w.done("apply", "-f", w.file("uses.yaml", `resourceContext: {anchor: projects}
metadata: {name: p}
---
resourceContext: {anchor: projects/p/logical-clouds}
metadata: {name: lc}
spec: {level: "0"}
---
resourceContext: {anchor: projects/p/logical-clouds/lc/cluster-references}
metadata: {name: ref}
spec: {clusterProvider: site, cluster: edge01}
`))
	require.Equal(t, 1, w.run("cluster", "remove", "edge01").code)
	require.Contains(t, w.done("get", "labels"), "small")
	require.Contains(t, w.done("apply", "-f", w.env["XDG_CONFIG_HOME"]+"/uses.yaml"), "cluster-references/ref unchanged")
	w.done("delete", "project", "p", "--cascade")
	require.Equal(t, key+" would be deleted (dry run)\n", w.done("cluster", "remove", "edge01", "--dry-run"))
	require.Equal(t, key+" deleted\n", w.done("cluster", "remove", "edge01"))
	require.NotContains(t, w.done("get", "labels"), "small")
	require.Equal(t, 3, w.run("cluster", "check", "edge01").code)
}

// TestLabelsOfAClusterThatIsRemoved: they go with it, in one request, and stay where it is refused or nobody has heard the request.
func TestLabelsOfAClusterThatIsRemoved(t *testing.T) {
	w := newWorld(t)
	w.file("k", kubeconfig)
	w.done("cluster", "add", "site/edge01", "--kubeconfig", w.env["XDG_CONFIG_HOME"]+"/k", "--label", "edge,small", "--use-own-credentials")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	api, err := url.Parse(w.url)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(api)
	changes := 0
	between := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			if changes++; changes == 1 {
				cancel()
				<-r.Context().Done()
				return
			}
		}
		proxy.ServeHTTP(out, r)
	}))
	t.Cleanup(between.Close)
	var out, stderr bytes.Buffer
	require.Equal(t, 130, w.start(ctx, nil, &out, &stderr, "cluster", "remove", "edge01", "--server", between.URL), stderr.String())
	labels := w.done("get", "labels")
	require.Contains(t, labels, "small")
	require.Contains(t, labels, "   edge\n")
	w.done("cluster", "remove", "edge01", "--server", between.URL)
	require.Equal(t, 2, changes, "who dies after the request has lost none, and who dies before it neither")
	w.done("cluster", "add", "site/edge01", "--kubeconfig", w.env["XDG_CONFIG_HOME"]+"/k", "--use-own-credentials")
	require.NotContains(t, w.done("get", "labels"), "small")
}

// TestALabelledClusterIsAbandoned: by the command that explanations name, with its tree, and by a file in which other documents are, too.
func TestALabelledClusterIsAbandoned(t *testing.T) {
	w := newWorld(t)
	w.file("k", kubeconfig)
	file := w.file("site.yaml", `resourceContext: {anchor: cluster-providers}
metadata: {name: site}
---
resourceContext: {anchor: cluster-providers/site/clusters}
metadata: {name: edge01}
---
resourceContext: {anchor: cluster-providers/site/clusters/edge01/labels}
clusterLabel: edge
`)
	for _, args := range [][]string{
		{"cluster", "remove", "site/edge01", "--abandon"},
		{"delete", "cluster", "site/edge01", "--abandon", "--cascade"},
		{"delete", "cluster-provider", "site", "--abandon", "--cascade"},
		{"delete", "-f", file, "--abandon"},
	} {
		w.done("cluster", "add", "site/edge01", "--kubeconfig", w.env["XDG_CONFIG_HOME"]+"/k", "--label", "edge", "--use-own-credentials")
		r := w.run("delete", "cluster", "site/edge01", "--abandon")
		require.Equal(t, 1, r.code, r.out)
		require.Contains(t, r.err, "Again with --cascade")
		require.Contains(t, w.done(args...), "cluster-providers/site/clusters/edge01 deleted\n")
		require.Equal(t, 3, w.run("get", "cluster", "site/edge01").code)
	}
	r := w.run("delete", "project", "none", "--abandon")
	require.Equal(t, 2, r.code, r.out)
	require.Contains(t, r.err, "not with projects")
}

// TestTheAgentThatWasInstalledStays in a cluster that is removed, which is said with the command that takes it away; all that it deletes is there, as
// what the chart makes.
func TestTheAgentThatWasInstalledStays(t *testing.T) {
	w := newWorld(t)
	w.file("k", kubeconfig)
	add := []string{"cluster", "add", "p/edge01", "--kubeconfig", w.env["XDG_CONFIG_HOME"] + "/k", "--use-own-credentials", "--report"}
	w.done(append(add, "auto")...)
	require.NotContains(t, w.run("cluster", "remove", "p/edge01").err, "kubectl")
	w.done(append(add, "install")...)
	r := w.run("cluster", "remove", "p/edge01")
	require.Zero(t, r.code, r.err)
	_, command, found := strings.Cut(r.err, "kubectl delete ")
	require.True(t, found, r.err)
	command, _, _ = strings.Cut(command, "\n")
	var goes []string
	all, err := monitor.Manifests(monitor.Options{Namespace: domain.AgentNamespace})
	require.NoError(t, err)
	for _, one := range all {
		switch one.Kind {
		case "CustomResourceDefinition":
			goes = append(goes, "crd/"+one.Name)
		case "Namespace", "ClusterRole", "ClusterRoleBinding":
			goes = append(goes, strings.ToLower(one.Kind)+"/"+one.Name)
		default:
			require.Equal(t, domain.AgentNamespace, one.Namespace, "%s goes with its namespace", one.ResourceID)
		}
	}
	require.ElementsMatch(t, goes, strings.Fields(command))
}

// TestADryRunOfARemoveIsRefused where the remove would be.
func TestADryRunOfARemoveIsRefused(t *testing.T) {
	w := newWorld(t)
	w.file("k", kubeconfig)
	w.done("cluster", "add", "site/edge01", "--kubeconfig", w.env["XDG_CONFIG_HOME"]+"/k", "--label", "edge", "--use-own-credentials")
	const key = "cluster-providers/site/clusters/edge01"
	w.feed("resourceContext: {anchor: "+key+"/kv-pairs}\nmetadata: {name: kv}\nspec: {kv: []}\n", "apply", "-f", "-")
	remove := []string{"cluster", "remove", "edge01"}
	refused := func(why string) {
		t.Helper()
		r := w.run(append(remove, "--dry-run")...)
		require.Equal(t, 1, r.code, r.out+r.err)
		require.Contains(t, r.err, why)
		require.Equal(t, 1, w.run(remove...).code)
	}
	refused("as more than labels is below it: 'drover delete " + key + " --cascade'")
	w.done("delete", "cluster-kv-pairs", "kv")
	require.Contains(t, w.done(append(remove, "--dry-run")...), "would be deleted")
	w.stand(key, domain.Applied, domain.ContextInstantiated, 1)
	refused("'drover terminate cluster " + key + "' takes them out")
	remove = append(remove, "--abandon")
	refused("'drover terminate cluster " + key + "' takes them out") // what tenants have left is abandoned, and nothing else
}

// TestAClusterThatDoesNotComeBackIsRemoved as docs/how-to/connect-a-cluster.md has it: after its network intents and what has something in it, for
// which a terminate is stopped, and after what names it.
func TestAClusterThatDoesNotComeBackIsRemoved(t *testing.T) {
	w := newWorld(t)
	w.file("k", kubeconfig)
	w.done("cluster", "add", "p/edge01", "--kubeconfig", w.env["XDG_CONFIG_HOME"]+"/k", "--label", "edge", "--use-own-credentials")
	w.done("deploy", w.chart(), "--name", "web", "--clusters", "p+edge01")
	const key, group = "cluster-providers/p/clusters/edge01", "projects/default/composite-apps/web/v1/deployment-intent-groups/web"
	w.stand(group, domain.TerminateStopped, domain.ContextTerminateFailed, 1)
	w.leaves(group, domain.MarkDeleted, domain.MarkDoomed)
	w.stand(key, domain.TerminateStopped, domain.ContextTerminateFailed, 1)
	remove := []string{"cluster", "remove", "p/edge01", "--abandon"}
	r := w.run(append(remove, "--dry-run")...)
	require.Equal(t, 1, r.code, r.out)
	require.Contains(t, r.err, "as deployment intent group "+group+" has something in it")
	require.Equal(t, 1, w.run(remove...).code)

	r = w.run("delete", "group", "web", "--cascade")
	require.Zero(t, r.code, r.err)
	require.Contains(t, r.err, "stay in clusters, and nothing deletes them any more: p+edge01 (1)\n")
	r = w.run(append(remove, "--dry-run")...)
	require.Zero(t, r.code, r.err)
	require.Contains(t, r.err, "whether cluster references, intents or tenants name it")
	r = w.run(remove...)
	require.Equal(t, 1, r.code, r.out)
	require.Contains(t, r.err, "is used by cluster reference")
	w.done("delete", "cluster-reference", "p-edge01")
	require.Equal(t, key+" deleted\n", w.done(remove...), "with its network intents' terminate stopped, and its label")
}
