package test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/deploy/examples"
	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/test/harness"
)

// emcoctl sends the input files of an example as they are, as EMCO's client does: one call for each document.
type emcoctl struct {
	t     *testing.T
	s     *harness.Stack
	dir   string            // of the example
	files map[string][]byte // what the example has its user make, by name
}

// call is a document of an input file.
type call struct {
	ResourceContext struct{ Anchor string }
	Metadata, Spec  json.RawMessage
	ClusterLabel    string
	File            string
	Files           []string
}

// name is that of what the document describes, "" for an operation.
func (c *call) name() string {
	var of struct{ Name string }
	if len(c.Metadata) > 0 {
		_ = json.Unmarshal(c.Metadata, &of)
	}
	return of.Name + c.ClusterLabel
}

// calls reads an input file; the kubeconfigs in it have the names that values.yaml has for them.
func calls(t *testing.T, file string) (all []call) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	filled := strings.NewReplacer("{{ .KubeConfigEdge01 }}", "edge01.kubeconfig", "{{ .KubeConfigEdge02 }}", "edge02.kubeconfig").Replace(string(text))
	for part := range strings.SplitSeq(filled, "\n---\n") {
		var c call
		require.NoError(t, yaml.Unmarshal([]byte(part), &c))
		all = append(all, c)
	}
	return all
}

func (e *emcoctl) calls(file string) []call {
	e.t.Helper()
	return calls(e.t, path.Join(e.dir, "emcoctl", file+".yaml"))
}

// body is that of a call: JSON, or a form with files.
func (e *emcoctl) body(c *call) (contentType, body string) {
	e.t.Helper()
	members := map[string]any{"metadata": map[string]string{"name": ""}}
	if c.Metadata != nil {
		members["metadata"] = c.Metadata
	}
	if c.Spec != nil {
		members["spec"] = c.Spec
	}
	if c.ClusterLabel != "" {
		members = map[string]any{"clusterLabel": c.ClusterLabel}
	}
	document, err := json.Marshal(members)
	require.NoError(e.t, err)
	if c.File == "" && c.Files == nil {
		return "application/json", string(document)
	}
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	require.NoError(e.t, w.WriteField("metadata", string(document)))
	for part, names := range map[string][]string{"file": {c.File}, "files": c.Files} {
		for _, name := range names {
			if name == "" {
				continue
			}
			data, made := e.files[name]
			if !made {
				data, err = os.ReadFile(path.Join(e.dir, name))
				require.NoError(e.t, err)
			}
			to, err := w.CreateFormFile(part, path.Base(name))
			require.NoError(e.t, err)
			_, err = to.Write(data)
			require.NoError(e.t, err)
		}
	}
	require.NoError(e.t, w.Close())
	return w.FormDataContentType(), form.String()
}

func (e *emcoctl) send(ctx context.Context, method, at string, c *call) *harness.Raw {
	e.t.Helper()
	contentType, body := e.body(c)
	return e.s.Send(ctx, method, e.s.URL()+"/v2/"+at, map[string]string{"Content-Type": contentType}, body)
}

// fleetwide is where documents lie that are the fleet's: other tests may have them too, so that they are left.
const fleetwide = "controllers"

// apply posts the documents of files.
func (e *emcoctl) apply(ctx context.Context, files ...string) {
	e.t.Helper()
	for _, file := range files {
		for _, c := range e.calls(file) {
			answer := e.send(ctx, http.MethodPost, c.ResourceContext.Anchor, &c)
			if answer.Code == 409 && c.ResourceContext.Anchor == fleetwide {
				continue
			}
			require.Contains(e.t, []int{201, 202}, answer.Code, "%s: %s: %s", file, c.ResourceContext.Anchor, answer.Body)
		}
	}
}

// update puts the documents of a file.
func (e *emcoctl) update(ctx context.Context, file string) {
	e.t.Helper()
	for _, c := range e.calls(file) {
		answer := e.send(ctx, http.MethodPut, c.ResourceContext.Anchor+"/"+c.name(), &c)
		require.Equal(e.t, 200, answer.Code, "%s: %s", c.ResourceContext.Anchor, answer.Body)
	}
}

// remove deletes what files describe, the last one first.
func (e *emcoctl) remove(ctx context.Context, files ...string) {
	e.t.Helper()
	for _, file := range slices.Backward(files) {
		for _, c := range slices.Backward(e.calls(file)) {
			if c.name() == "" || c.ResourceContext.Anchor == fleetwide { // or an operation
				continue
			}
			at := c.ResourceContext.Anchor + "/" + c.name()
			if strings.HasSuffix(c.ResourceContext.Anchor, "/"+domain.CompositeApps.Collection) {
				at += "/v1"
			}
			harness.Until(ctx, e.t, "deleted: "+at, func() bool {
				answer := e.s.Send(ctx, http.MethodDelete, e.s.URL()+"/v2/"+at, nil, "")
				if answer.Code == 409 { // an instance that is terminated may be put away yet
					e.t.Logf("%s: %s", at, answer.Body)
					return false
				}
				require.Equal(e.t, 204, answer.Code, "%s: %s", at, answer.Body)
				return true
			})
		}
	}
}

// generic is what one cluster has of the example gac, by kind and name.
type generic struct {
	etcd       *appsv1.StatefulSet
	web        *appsv1.Deployment
	configMaps map[string]*corev1.ConfigMap
	secrets    map[string]*corev1.Secret
	policies   map[string]*networkingv1.NetworkPolicy
}

// gone turns what is not there into nil.
func gone[T any](t *testing.T, o *T, err error) *T {
	t.Helper()
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(t, err)
	return o
}

// genericIn reads what a cluster has; what is not there is nil.
func genericIn(ctx context.Context, t *testing.T, c *harness.Cluster) generic {
	t.Helper()
	const in = metav1.NamespaceDefault
	kube := c.Client(t)
	of := generic{configMaps: map[string]*corev1.ConfigMap{}, secrets: map[string]*corev1.Secret{}, policies: map[string]*networkingv1.NetworkPolicy{}}
	etcd, err := kube.AppsV1().StatefulSets(in).Get(ctx, "etcd", metav1.GetOptions{})
	of.etcd = gone(t, etcd, err)
	web, err := kube.AppsV1().Deployments(in).Get(ctx, "deploy-web", metav1.GetOptions{})
	of.web = gone(t, web, err)
	for _, name := range []string{"cm-game", "cm-team", "cm-site"} {
		o, err := kube.CoreV1().ConfigMaps(in).Get(ctx, name, metav1.GetOptions{})
		of.configMaps[name] = gone(t, o, err)
	}
	for _, name := range []string{"secret-user", "secret-auth", "secret-db"} {
		o, err := kube.CoreV1().Secrets(in).Get(ctx, name, metav1.GetOptions{})
		of.secrets[name] = gone(t, o, err)
	}
	for _, name := range []string{"netpol-web", "netpol-db"} {
		o, err := kube.NetworkingV1().NetworkPolicies(in).Get(ctx, name, metav1.GetOptions{})
		of.policies[name] = gone(t, o, err)
	}
	return of
}

// TestObjectsAndPatchesOfClusters sends EMCO's example of its gac to two clusters: objects, and patches by label and by name.
func TestObjectsAndPatchesOfClusters(t *testing.T) {
	t.Parallel()
	ctx, s, clusters := within(t), harness.SharedStack(t), twoClusters(t)
	e := &emcoctl{t: t, s: s, dir: "../deploy/examples/gac", files: map[string][]byte{
		"edge01.kubeconfig": clusters[0].Kubeconfig(t), "edge02.kubeconfig": clusters[1].Kubeconfig(t),
	}}
	var err error
	e.files["operator.tgz"], err = examples.GenericChart()
	require.NoError(t, err)
	e.files["operator-profile.tgz"], err = examples.GenericProfile()
	require.NoError(t, err)
	d := &client.Deployment{
		API: s.Client.API(), Project: "testgac", CompositeApp: "gac-composite-app", Version: "v1", Profile: "gac_composite-profile",
		LogicalCloud: "lcadmin", Group: "gac_deployment_intent_group", Release: "r1",
	}
	where, what := []string{"1-clusters", "2-logical-cloud"}, []string{"3-composite-app", "4-deployment", "5-objects", "5-values", "6-merges"}
	e.apply(ctx, where...)
	e.apply(ctx, what...)
	e.apply(ctx, "7-instantiate")
	require.Equal(t, map[domain.ResourceState]int{"Applied": 22}, s.Await(ctx, d, "Instantiated").Deployed)

	read := func(name string) string {
		t.Helper()
		data, err := os.ReadFile("../deploy/examples/gac/files/" + name)
		require.NoError(t, err)
		return string(data)
	}
	for i, c := range clusters {
		of, own := genericIn(ctx, t, c), string(rune('1'+i))
		require.Equal(t, []string{"game.properties", "info.json", "player_initial_lives", "ui_properties_file_name", "user-interface.properties"},
			slices.Sorted(maps.Keys(of.configMaps["cm-game"].Data)))
		require.Equal(t, "game", of.configMaps["cm-game"].Labels["app"], "EMCO loses labels")
		require.Equal(t, map[string]string{
			"team_name": "aliens", "team_size": "10", "game.properties": read("data-game.yaml"), "user-interface.properties": read("data-interface.yaml"),
		}, of.configMaps["cm-team"].Data)
		require.Equal(t, map[string]string{
			"info.json": read("info.json"), "gateway": "10." + own + ".0.1", "mainGateway": "10.1.0.1", "url": "https://example.dns.com",
		}, of.configMaps["cm-site"].Data)
		expires := []byte(read("data-userexpiration.yaml"))
		user := of.secrets["secret-user"]
		require.Equal(t, corev1.SecretTypeServiceAccountToken, user.Type)
		for key, want := range map[string]string{"username": "admin", "group": "operators", "realm": "edge", "data-userexpiration.yaml": string(expires)} {
			require.Equal(t, want, string(user.Data[key]), key) // Kubernetes may have added a token
		}
		require.Equal(t, map[string][]byte{"REALM": []byte("edge"), "USER_NAME": []byte("admin"), "PASSWORD": []byte("change-me"), "EXPIRATION": expires}, of.secrets["secret-auth"].Data)
		require.Equal(t, map[string][]byte{"user": []byte("edge0" + own), "password": []byte("change-me"), "expiration": expires}, of.secrets["secret-db"].Data)
		require.Equal(t, map[string]string{"role": "web"}, of.policies["netpol-web"].Spec.PodSelector.MatchLabels)
		require.Equal(t, map[string]string{"role": "database"}, of.policies["netpol-db"].Spec.PodSelector.MatchLabels)
		var containers []string
		for _, x := range of.web.Spec.Template.Spec.Containers {
			containers = append(containers, x.Name)
		}
		require.Equal(t, []string{"redis-ctr", "nginx-ctr"}, containers)
	}

	// etcdIs compares the replicas of the chart's StatefulSet on the small cluster; the other one has what the chart says.
	etcdIs := func(small int32) {
		t.Helper()
		first, second := genericIn(ctx, t, clusters[0]).etcd, genericIn(ctx, t, clusters[1]).etcd
		require.Equal(t, small, *first.Spec.Replicas)
		require.Equal(t, int32(3), *second.Spec.Replicas)
		require.Empty(t, first.Spec.Template.Spec.HostAliases)
		require.Equal(t, []corev1.HostAlias{{IP: "10.2.0.1", Hostnames: []string{"gateway.edge02"}}}, second.Spec.Template.Spec.HostAliases)
	}
	etcdIs(1)
	shown, err := d.Status(ctx, url.Values{"status": {"deployed"}, "output": {"detail"}, "resource": {"etcd"}})
	require.NoError(t, err)
	effects := map[string][]string{}
	for _, c := range shown.Apps[0].Clusters {
		for _, r := range c.Resources {
			if r.GVK.Kind == "StatefulSet" {
				effects[c.Name] = r.Effects
			}
		}
	}
	require.Equal(t, map[string][]string{
		"edge01": {"replace /spec/replicas by gac intent testgac, resource sts-etcd, customization sts-etcd-customization"},
		"edge02": {"merge of hostalias-patch.yaml by gac intent testgac, resource sts-hosts, customization sts-hosts-customization"},
	}, effects)

	e.update(ctx, "8-two-replicas")
	e.apply(ctx, "8-update")
	s.Await(ctx, d, "Instantiated")
	etcdIs(2)
	e.apply(ctx, "9-rollback")
	s.Await(ctx, d, "Instantiated")
	etcdIs(1)

	do(ctx, t, d, domain.OpTerminate)
	s.Await(ctx, d, "Terminated")
	for _, c := range clusters {
		of := genericIn(ctx, t, c)
		require.Nil(t, of.etcd)
		require.Nil(t, of.web)
		for name, o := range of.configMaps {
			require.Nil(t, o, name)
		}
		for name, o := range of.secrets {
			require.Nil(t, o, name)
		}
		for name, o := range of.policies {
			require.Nil(t, o, name)
		}
	}
	e.remove(ctx, what...)
	_, err = s.Client.API().Operate(ctx, d.CloudKey(), domain.OpTerminate)
	require.NoError(t, err)
	e.remove(ctx, where...)

	// As a folder, by Drover's own command: after the other one, as both have the same objects in the same clusters.
	folder := &exampleFolder{
		name: "gac", group: "composite-apps/gac-composite-app/v1/deployment-intent-groups/gac_deployment_intent_group",
		archives: map[string][]byte{"operator.tgz": e.files["operator.tgz"], "operator-profile.tgz": e.files["operator-profile.tgz"]},
		said:     "22 of 22 Applied on 2 clusters", clusters: 2, resources: 22,
	}
	files, err := os.ReadDir("../deploy/examples/gac/files")
	require.NoError(t, err)
	for _, f := range files {
		folder.archives["files/"+f.Name()] = []byte(read(f.Name()))
	}
	folder.applied(within(t), t, clusters)
}
