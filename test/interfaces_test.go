package test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/deploy/examples"
	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/test/harness"
)

// The example's names of a group and of a cluster.
const (
	exampleGroup   = "projects/testvfw/composite-apps/compositevfw/v1/deployment-intent-groups/vfw_deployment_intent_group"
	exampleCluster = "cluster-providers/vfw-cluster-provider/clusters/edge01"
)

// postExample sends the documents of a file of the examples that lie below an anchor, as EMCO's client does, each with its
// anchor below another one, and says how many.
func postExample(ctx context.Context, t *testing.T, s *harness.Stack, file, below string, to domain.Key, replace ...string) (sent int) {
	t.Helper()
	for _, d := range calls(t, "../deploy/examples/"+file) {
		rest, found := strings.CutPrefix(d.ResourceContext.Anchor, below)
		if !found || d.Metadata == nil {
			continue
		}
		members := map[string]json.RawMessage{"metadata": d.Metadata}
		if d.Spec != nil {
			members["spec"] = d.Spec
		}
		body, err := json.Marshal(members)
		require.NoError(t, err)
		answer := s.Send(ctx, http.MethodPost, s.At(to)+rest, map[string]string{"Content-Type": "application/json"}, strings.NewReplacer(replace...).Replace(string(body)))
		require.Equal(t, 201, answer.Code, "%s: %s", d.ResourceContext.Anchor, answer.Body)
		sent++
	}
	return sent
}

// annotations are those that the Pods of an app get.
func annotations(ctx context.Context, t *testing.T, c *harness.Cluster, deployment string) map[string]string {
	t.Helper()
	d, err := c.Client(t).AppsV1().Deployments(metav1.NamespaceDefault).Get(ctx, deployment, metav1.GetOptions{})
	require.NoError(t, err)
	return d.Spec.Template.Annotations
}

// TestInterfacesOfTheFirewall deploys EMCO's vFW with its networks, on two clusters of which one has no multi-network plugin.
func TestInterfacesOfTheFirewall(t *testing.T) {
	t.Parallel()
	ctx, s, clusters := within(t), harness.SharedStack(t), twoClusters(t)
	var apps []client.App
	for _, name := range examples.Apps {
		chart, err := examples.Chart(name)
		require.NoError(t, err)
		profile, err := examples.Profile(name)
		require.NoError(t, err)
		apps = append(apps, client.App{Name: name, Chart: chart, Profile: profile})
	}
	for _, c := range clusters {
		c.DefineNetworks(t)
	}
	d := s.Deployment(ctx, clusters, apps...)
	api := s.Client.API()
	intent := &domain.DeploymentIntent{
		Identity: domain.Identity{Parent: d.Key()}, Metadata: domain.Metadata{Name: "intent"},
		Spec: domain.DeploymentIntentSpec{Intent: map[string]string{domain.PlacementIntentKey: d.PlacementKey().Name(), "ovnaction": "vfw_ovnaction_intent"}},
	}
	_, err := api.Put(ctx, intent, nil)
	require.NoError(t, err)
	_, err = api.Operate(ctx, d.Key(), domain.OpApprove)
	require.Equal(t, 404, code(t, err), "EMCO deploys a firewall without networks")
	require.ErrorContains(t, err, `ovnaction intent "vfw_ovnaction_intent"`)

	require.Equal(t, 11, postExample(ctx, t, s, "vfw/emcoctl/4-interfaces.yaml", exampleGroup, d.Key(), "fw0-", d.Release+"-"))
	var there []*networks
	for i, c := range d.Clusters {
		require.Equal(t, 3, postExample(ctx, t, s, "vfw/emcoctl/1-networks.yaml", exampleCluster, c.Key()))
		n := &networks{t: t, stack: s, in: clusters[i], api: api, name: c.String(), key: c.Key()}
		n.do(ctx, "apply")
		there = append(there, n)
	}
	for _, n := range there {
		require.NotEmpty(t, n.in.Networks(t, n.awaitStatus(ctx, "Instantiated").States.ContextID()))
	}
	_, err = api.Create(ctx, &domain.ClusterKV{
		Identity: domain.Identity{Parent: d.Clusters[1].Key()}, Metadata: domain.Metadata{Name: "cni"},
		Spec: domain.KVSpec{KV: []map[string]string{{"CNI-Networking-Nodus-CNI-For-all-interfaces": "true"}}},
	}, nil)
	require.NoError(t, err)
	accepted, err := api.Operate(ctx, d.Key(), domain.OpApprove)
	require.NoError(t, err)
	require.Len(t, accepted.Warnings, 3) // one for each app: its interfaces are not the same on both clusters
	for _, warning := range accepted.Warnings {
		require.Contains(t, warning, "1 of 2 clusters get something otherwise than most")
	}
	do(ctx, t, d, domain.OpInstantiate)
	require.Equal(t, map[domain.ResourceState]int{"Applied": 12}, s.Await(ctx, d, "Instantiated").Deployed)

	const nfn, attached = "k8s.plugin.opnfv.org/nfn-network", "k8s.v1.cni.cncf.io/networks"
	on := func(name, network, address string) string {
		return `{"interface":"` + name + `","name":"` + network + `","defaultGateway":"false","ipAddress":"` + address + `"}`
	}
	of := func(interfaces ...string) string {
		return `{"type":"ovn4nfv","interface":[` + strings.Join(interfaces, ",") + `]}`
	}
	wanted := map[string]string{
		"packetgen": of(on("eth1", "unprotected-private-net", "192.168.10.2"), on("eth2", "emco-private-net", "10.10.20.2")),
		"firewall": of(on("eth3", "emco-private-net", "10.10.20.3"), on("eth1", "unprotected-private-net", "192.168.10.3"),
			on("eth2", "protected-private-net", "192.168.20.2")),
		"sink": of(on("eth1", "protected-private-net", "192.168.20.3"), on("eth2", "emco-private-net", "10.10.20.4")),
	}
	holds := func() {
		t.Helper()
		for app, interfaces := range wanted {
			require.Equal(t, map[string]string{
				nfn: interfaces, attached: `[{"name":"ovn-networkobj","namespace":"default","cni-args":null}]`,
			}, annotations(ctx, t, clusters[0], d.Release+"-"+app))
			require.Equal(t, map[string]string{nfn: interfaces}, annotations(ctx, t, clusters[1], d.Release+"-"+app))
		}
	}
	holds()

	// Which intent has put what where.
	shown, err := d.Status(ctx, url.Values{"status": {"deployed"}, "output": {"detail"}, "app": {"sink"}})
	require.NoError(t, err)
	effects := map[string][]string{}
	for _, c := range shown.Apps[0].Clusters {
		for _, r := range c.Resources {
			if r.GVK.Kind == "Deployment" {
				effects[c.Name] = r.Effects
				require.Equal(t, c.Name == clusters[0].Name, strings.Contains(string(r.Detail), attached), "the manifest as this cluster has it")
			}
		}
	}
	by := " by ovnaction intent vfw_ovnaction_intent"
	require.Equal(t, map[string][]string{
		clusters[0].Name: {"annotation " + nfn + by, "annotation " + attached + by}, clusters[1].Name: {"annotation " + nfn + by},
	}, effects)

	explained, err := api.Explain(ctx, d.Key())
	require.NoError(t, err)
	require.Contains(t, explained.Effects, "sink Deployment/"+d.Release+"-sink on 1 of 2 clusters ("+d.Clusters[0].String()+"): annotation "+attached+by)
	require.Contains(t, explained.Effects, "sink Deployment/"+d.Release+"-sink on 2 clusters: annotation "+nfn+by)

	// An update finds what is otherwise, a rollback brings the stored plan back whatever the intents say by then.
	before := wanted["sink"]
	sink := d.Key().Child("network-controller-intent", "vfw_ovnaction_intent", "workload-intents", "sink_workload_intent")
	_, err = api.Put(ctx, &domain.InterfaceIntent{
		Identity: domain.Identity{Parent: sink}, Metadata: domain.Metadata{Name: "sink_emco_if"},
		Spec: domain.InterfaceIntentSpec{Interface: "eth2", Name: "emco-private-net", DefaultGateway: domain.True},
	}, nil)
	require.NoError(t, err)
	do(ctx, t, d, domain.OpUpdate)
	s.Await(ctx, d, "Instantiated")
	wanted["sink"] = of(on("eth1", "protected-private-net", "192.168.20.3"), `{"interface":"eth2","name":"emco-private-net","defaultGateway":"true"}`)
	holds()
	accepted, err = api.Operate(ctx, d.Key(), domain.OpUpdate)
	require.NoError(t, err)
	require.Contains(t, strings.Join(accepted.Warnings, "\n"), "nothing to update")
	_, err = api.Rollback(ctx, d.Key(), 1)
	require.NoError(t, err)
	s.Await(ctx, d, "Instantiated")
	wanted["sink"] = before
	holds()
	do(ctx, t, d, domain.OpTerminate)
	require.Equal(t, map[domain.ResourceState]int{"Deleted": 12}, s.Await(ctx, d, "Terminated").Deployed)
	for _, n := range there {
		n.clean(ctx)
	}
}
