package test

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/test/harness"
)

// What EMCO's examples have and a strict reading refuses: they are to be deployed unchanged.

// collectd is like EMCO's: privileged, and a DaemonSet with a field that none has.
const collectd = `apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ .Release.Name }}-collectd
spec:
  replicas: 1
  selector: {matchLabels: {app: {{ .Release.Name }}-collectd}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}-collectd}}
    spec:
      containers:
      - {name: collectd, image: collectd, securityContext: {privileged: true}, resoures: {}}
`

const password = `apiVersion: v1
kind: Secret
metadata:
  name: {{ .Release.Name }}-password
stringData: {password: hunter2}
`

// operatorChart renders a CRD that its crds folder has too, as that of the prometheus-operator.
func operatorChart(t *testing.T) []byte {
	t.Helper()
	const definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: monitors.emco.example.com
spec:
  group: emco.example.com
  scope: Namespaced
  names: {kind: Monitor, plural: monitors, singular: monitor}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {port: {type: integer}}}}}}
`
	return harness.Tgz(t, map[string]string{
		"operator/Chart.yaml": "apiVersion: v2\nname: operator\nversion: 0.1.0\n", "operator/values.yaml": "{}\n",
		"operator/crds/monitors.yaml": definition, "operator/templates/monitors.yaml": definition,
		"operator/templates/monitor.yaml": "apiVersion: emco.example.com/v1\nkind: Monitor\nmetadata:\n  name: {{ .Release.Name }}-monitor\nspec: {port: 80, prot: 81}\n",
	})
}

// detail is a status with output=detail.
type detail struct {
	Apps []struct {
		Name     string
		Clusters []struct {
			Warnings  []string
			Resources []struct {
				Name, Message string
				Rsync         string `json:"rsync-status"`
				Warnings      []string
				Detail        struct{ StringData map[string]string }
			}
		}
	}
}

func TestEMCOsChartsDeployUnchanged(t *testing.T) {
	t.Parallel()
	ctx, s, clusters := within(t), harness.SharedStack(t), twoClusters(t)
	templates := map[string]string{"collectd.yaml": collectd, "password.yaml": password}
	d := s.Deployment(ctx, clusters, client.App{Name: "collectd", Chart: harness.Chart(t, "collectd", templates)},
		client.App{Name: "operator", Chart: operatorChart(t)})
	do(ctx, t, d, "approve")
	accepted, err := d.API.Operate(ctx, d.Key(), domain.OpInstantiate)
	require.NoError(t, err)
	warned := strings.Join(accepted.Warnings, "\n")
	for _, field := range []string{"spec.replicas", "spec.template.spec.containers[0].resoures", "spec.prot"} {
		require.Contains(t, warned, field)
	}
	require.Equal(t, map[domain.ResourceState]int{"Applied": 8}, s.Await(ctx, d, "Instantiated").Deployed)

	users, digests := []string{"password"}, map[string]string{} // of what the Secret holds, as first seen
	shows := func() {
		t.Helper()
		var got detail
		answer, err := s.Read(ctx, client.At(d.Key())+"/status?type=rsync&output=detail", &got)
		require.NoError(t, err)
		require.NotContains(t, string(answer.Body), "hunter2")
		found := 0
		for _, app := range got.Apps {
			for _, c := range app.Clusters {
				require.Empty(t, c.Warnings)
				for _, r := range c.Resources {
					require.Equal(t, "Applied", r.Rsync)
					found += len(r.Warnings)
					switch {
					case strings.HasSuffix(r.Name, "-collectd"):
						require.Len(t, r.Warnings, 2)
						require.Contains(t, r.Warnings[0], "spec.replicas")
					case strings.HasSuffix(r.Name, "-monitor"):
						require.Len(t, r.Warnings, 1)
						require.Contains(t, r.Warnings[0], "spec.prot")
					case strings.HasSuffix(r.Name, "-password"):
						require.ElementsMatch(t, users, slices.Collect(maps.Keys(r.Detail.StringData)))
						for name, digest := range r.Detail.StringData {
							require.Regexp(t, "^hmac-sha256:[0-9a-f]{64}$", digest)
							require.Equal(t, cmp.Or(digests[name], digest), digest, "it has not changed")
							digests[name] = digest
						}
					}
				}
			}
		}
		require.Equal(t, 6, found)
		text := ask(ctx, t, s, http.MethodGet, s.At(d.Key())+"/explain", map[string]string{"Accept": "text/plain"})
		require.Contains(t, text, "on 2 clusters: the cluster does not know the field spec.replicas")
	}
	shows()

	templates["password.yaml"] = strings.Replace(password, "}\n", ", user: me}\n", 1)
	replaceChart(ctx, t, d, "collectd", harness.Chart(t, "collectd", templates))
	do(ctx, t, d, "update")
	require.Equal(t, map[domain.ResourceState]int{"Applied": 8}, s.Await(ctx, d, "Instantiated").Deployed)
	users = append(users, "user")
	shows() // nothing was done to the DaemonSet, of which everything is still true

	do(ctx, t, d, "terminate")
	require.Equal(t, map[domain.ResourceState]int{"Deleted": 8}, s.Await(ctx, d, "Terminated").Deployed)
}

// EMCO's examples grant the users of their logical clouds these verbs: it creates by POST.
func TestUserOfALogicalCloudWhoMayNotPatch(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), harness.SharedStack(t)
	c := newLevel1(ctx, t, s)
	require.NoError(t, c.api.Delete(ctx, c.key.Child(domain.UserPermissions.Collection, "primary")))
	c.create(c.permission("emco", domain.UserPermissionSpec{
		Namespace: c.space, APIGroups: []string{"", "apps"}, Resources: []string{"*"},
		Verbs: []string{"get", "watch", "list", "create", "delete"},
	}))
	_, err := c.do("instantiate")
	require.NoError(t, err)
	c.awaitStatus(ctx, "Instantiated")

	d := c.group(ctx, client.App{Name: "collectd", Chart: harness.Chart(t, "collectd", map[string]string{
		"collectd.yaml": collectd, "password.yaml": password,
	})})
	do(ctx, t, d, "approve", "instantiate")
	require.Equal(t, map[domain.ResourceState]int{"Applied": 4}, s.Await(ctx, d, "Instantiated").Deployed)
	var got detail
	_, err = s.Read(ctx, client.At(d.Key())+"/status?type=rsync&output=detail", &got)
	require.NoError(t, err)
	for _, k := range got.Apps[0].Clusters {
		require.Len(t, k.Warnings, 1, "once for all that is created")
		require.Contains(t, k.Warnings[0], "may not patch daemonsets.apps, secrets")
		require.Len(t, k.Resources[0].Warnings, 2, "a create says what it drops, too")
	}
	do(ctx, t, d, "terminate")
	require.Equal(t, map[domain.ResourceState]int{"Deleted": 4}, s.Await(ctx, d, "Terminated").Deployed)
	forget(ctx, t, d)
	_, err = c.do("terminate")
	require.NoError(t, err)
	c.awaitStatus(ctx, "Terminated")
	for i := range c.pipes {
		c.gone(ctx, i)
	}
}
