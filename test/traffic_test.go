package test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	_ "istio.io/api/label" // the module has the definitions of Istio's kinds
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/deploy/examples"
	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/test/harness"
)

// trafficGroup is the group of the example dtc.
const trafficGroup = "projects/testdtc/composite-apps/dtc-composite-app/v1/deployment-intent-groups/dtc_deployment_intent_group"

// istioKinds are those that traffic group intents have made.
var istioKinds = []schema.GroupVersionResource{
	{Group: "networking.istio.io", Version: "v1beta1", Resource: "gateways"},
	{Group: "networking.istio.io", Version: "v1beta1", Resource: "serviceentries"},
	{Group: "networking.istio.io", Version: "v1beta1", Resource: "destinationrules"},
	{Group: "networking.istio.io", Version: "v1beta1", Resource: "virtualservices"},
	{Group: "security.istio.io", Version: "v1beta1", Resource: "authorizationpolicies"},
}

// defineIstio installs Istio's own definitions of these kinds, which stay, and makes its namespace.
func defineIstio(t *testing.T, clusters []*harness.Cluster) {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "istio.io/api").Output()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "kubernetes", "customresourcedefinitions.gen.yaml"))
	require.NoError(t, err)
	defined := 0
	for part := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var d struct{ Metadata struct{ Name string } }
		require.NoError(t, yaml.Unmarshal(part, &d))
		if !slices.ContainsFunc(istioKinds, func(r schema.GroupVersionResource) bool { return r.GroupResource().String() == d.Metadata.Name }) {
			continue
		}
		manifest, err := yaml.YAMLToJSON(part)
		require.NoError(t, err)
		for _, c := range clusters {
			kubetest.Define(t, c.Dynamic(t), manifest)
		}
		defined++
	}
	require.Len(t, istioKinds, defined)
	for _, c := range clusters {
		_, err := c.Client(t).CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "istio-system"}}, metav1.CreateOptions{})
		require.True(t, err == nil || apierrors.IsAlreadyExists(err), "%v", err)
	}
}

// istioIn are the objects of these kinds in a cluster that are the example's, as "gateways/name", sorted.
func istioIn(ctx context.Context, t *testing.T, c *harness.Cluster) []string {
	t.Helper()
	var found []string
	for _, kind := range istioKinds {
		list, err := c.Dynamic(t).Resource(kind).List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		for _, o := range list.Items {
			if strings.HasPrefix(o.GetName(), "http-ser") {
				found = append(found, kind.Resource+"/"+o.GetName())
			}
		}
	}
	slices.Sort(found)
	return found
}

// TestTrafficIsControlled deploys a server and its client on two clusters with policies, and then with Istio.
func TestTrafficIsControlled(t *testing.T) {
	t.Parallel()
	ctx, s, clusters := within(t), harness.SharedStack(t), twoClusters(t)
	defineIstio(t, clusters)
	provider := s.Register(ctx, clusters[0].Name, clusters[0].Kubeconfig(t))
	other := s.Register(ctx, clusters[1].Name, clusters[1].Kubeconfig(t))
	on := map[string]domain.ClusterName{"http-server": provider, "http-client": other}
	var apps []client.App
	for _, name := range examples.TrafficApps {
		chart, err := examples.TrafficChart(name)
		require.NoError(t, err)
		profile, err := examples.TrafficProfile(name)
		require.NoError(t, err)
		apps = append(apps, client.App{Name: name, Chart: chart, Profile: profile, Intent: harness.All(on[name])})
	}
	d := s.On(ctx, []domain.ClusterName{provider, other}, apps...)
	api := s.Client.API()
	create := func(o domain.Object) {
		t.Helper()
		_, err := api.Put(ctx, o, nil)
		require.NoError(t, err)
	}
	named := func(name string) domain.Metadata { return domain.Metadata{Name: name} }
	create(&domain.ClusterLabel{Identity: domain.Identity{Parent: provider.Key()}, Label: "networkpolicy-supported"})
	create(&domain.ClusterKV{Identity: domain.Identity{Parent: provider.Key()}, Metadata: named("istio"), Spec: domain.KVSpec{KV: []map[string]string{{
		"istioIngressGatewayAddress": "172.16.0.1", "istioIngressGatewayPort": "32001", "istioIngressGatewayInternalPort": "15443", "istioIngressGatewayHttpsPort": "443",
	}}}})
	create(&domain.DeploymentIntent{
		Identity: domain.Identity{Parent: d.Key()}, Metadata: named("intent"),
		Spec: domain.DeploymentIntentSpec{Intent: map[string]string{domain.PlacementIntentKey: d.PlacementKey().Name(), "dtc": "testdtc"}},
	})
	require.Equal(t, 3, postExample(ctx, t, s, "dtc/emcoctl/4-traffic.yaml", trafficGroup, d.Key()))
	do(ctx, t, d, domain.OpApprove, domain.OpInstantiate)
	require.Equal(t, map[domain.ResourceState]int{"Applied": 4}, s.Await(ctx, d, "Instantiated").Deployed)

	// policyIs compares the policy in the server's cluster; there is none in the client's. Its port is the pods', as their Service names it.
	policyIs := func(from string) {
		t.Helper()
		policies, err := clusters[1].Client(t).NetworkingV1().NetworkPolicies("default").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=testdtc-serverin"})
		require.NoError(t, err)
		require.Empty(t, policies.Items)
		policy, err := clusters[0].Client(t).NetworkingV1().NetworkPolicies("default").Get(ctx, "testdtc-serverin", metav1.GetOptions{})
		if from == "" {
			require.True(t, apierrors.IsNotFound(err), "%v", err)
			return
		}
		require.NoError(t, err)
		spec, err := json.Marshal(policy.Spec)
		require.NoError(t, err)
		require.JSONEq(t, `{"podSelector":{"matchLabels":{"app":"http-server"}},"policyTypes":["Ingress"],"ingress":[{"from":[`+from+`],"ports":[{"protocol":"TCP","port":"http"}]}]}`, string(spec))
	}
	const first, anywhere = `{"podSelector":{"matchLabels":{"app":"http-client"}}}`, `{"ipBlock":{"cidr":"0.0.0.0/0"}}`
	policyIs(first + "," + anywhere)
	shown, err := d.Status(ctx, url.Values{"status": {"deployed"}, "output": {"detail"}, "app": {"http-server"}})
	require.NoError(t, err)
	var effects []string
	for _, r := range shown.Apps[0].Clusters[0].Resources {
		if r.GVK.Kind == "NetworkPolicy" {
			effects = r.Effects
		}
	}
	require.Equal(t, []string{"made by dtc intent testdtc, inbound intent serverin"}, effects)

	// A client more, and Istio: what is made must be what Istio's definitions take.
	inbound := d.Key().Child("traffic-group-intents", "testdtc", "inbound-intents", "serverin")
	create(&domain.InboundClientsIntent{
		Identity: domain.Identity{Parent: inbound}, Metadata: named("client2"),
		Spec: domain.InboundClientsIntentSpec{App: "http-client", AppLabel: "app=other", ServiceName: "other", Namespaces: []string{"np1"}, CIDRs: []string{"10.0.0.0/8"}},
	})
	create(&domain.InboundClientsAccessIntent{
		Identity: domain.Identity{Parent: inbound.Child("clients", "client2")}, Metadata: named("get"),
		Spec: domain.InboundClientsAccessIntentSpec{Action: "ALLOW", URL: []string{"/status/*"}, Access: []string{"GET"}},
	})
	const key = "cHJpdmF0ZQ=="
	create(&domain.InboundServerIntent{
		Identity: domain.Identity{Parent: d.Key().Child("traffic-group-intents", "testdtc")}, Metadata: named("serverin"),
		Spec: domain.InboundServerIntentSpec{
			App: "http-server", AppLabel: "app=http-server", ServiceName: "http-service", Port: 3333, Protocol: "HTTP",
			ServiceMesh: "istio", ExternalSupport: true, ExternalName: "httpbin.example",
			Management: domain.InboundManagement{SidecarProxy: "yes", TLSType: "SIMPLE"},
			External:   domain.InboundExternal{Certificates: domain.InboundCertificates{ServiceCertificate: "Y2VydA==", ServicePrivateKey: key}},
		},
	})
	do(ctx, t, d, domain.OpUpdate)
	s.Await(ctx, d, "Instantiated")
	policyIs(first + `,{"podSelector":{"matchLabels":{"app":"other"}},"namespaceSelector":{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"In","values":["np1"]}]}},{"ipBlock":{"cidr":"10.0.0.0/8"}},
		{"podSelector":{"matchLabels":{"istio":"ingressgateway"}},"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"istio-system"}}}`)
	require.Equal(t, []string{
		"authorizationpolicies/http-server-get", "destinationrules/http-service-se-server-dr", "gateways/http-service-ext-simple-gateway", "gateways/http-service-gateway",
		"serviceentries/http-service-se-server", "virtualservices/http-service-vs-http-service-ext-simple-gateway",
	}, istioIn(ctx, t, clusters[0]))
	require.Equal(t, []string{
		"destinationrules/http-service-dr-client-svcname", "destinationrules/http-service-dr-client0",
		"serviceentries/http-service-se-client0", "serviceentries/http-service-se-client1",
	}, istioIn(ctx, t, clusters[1]))
	secret, err := clusters[0].Client(t).CoreV1().Secrets("istio-system").Get(ctx, "http-service-credential", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "private", string(secret.Data["tls.key"]), "it is opened in the worker")
	accepted, err := api.Operate(ctx, d.Key(), domain.OpUpdate)
	require.NoError(t, err)
	require.Contains(t, strings.Join(accepted.Warnings, "\n"), "nothing to update")

	_, err = api.Rollback(ctx, d.Key(), 1)
	require.NoError(t, err)
	s.Await(ctx, d, "Instantiated")
	policyIs(first + "," + anywhere)
	for _, c := range clusters {
		require.Empty(t, istioIn(ctx, t, c))
	}
	do(ctx, t, d, domain.OpTerminate)
	s.Await(ctx, d, "Terminated")
	policyIs("")
}
