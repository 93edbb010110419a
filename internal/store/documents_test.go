package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

const (
	composite domain.Key = "projects/p/composite-apps/c/v1"
	group     domain.Key = composite + "/deployment-intent-groups/g"
)

func project(name string) *domain.Project {
	return &domain.Project{Metadata: domain.Metadata{Name: name}}
}

func compositeApp(parent domain.Key, name, version string) *domain.CompositeApp {
	return &domain.CompositeApp{
		Identity: domain.Identity{Parent: parent}, Metadata: domain.Metadata{Name: name},
		Spec: domain.CompositeAppSpec{Version: version},
	}
}

// below is the identity of what has the parent.
func below(parent domain.Key) domain.Identity {
	return domain.Identity{Parent: parent, Made: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)}
}

func named(name string) domain.Metadata {
	return domain.Metadata{Name: name, Description: "ž \u2028 🐑 \x00", UserData1: `{"$x.y": 1}`}
}

// nounCases has an object of every noun, with every kind of value.
func nounCases() map[string]domain.Object {
	return map[string]domain.Object{
		"a cluster provider": &domain.ClusterProvider{Identity: below(""), Metadata: named("p")},
		"a cluster with sealed credentials": &domain.Cluster{
			Identity: below("cluster-providers/p"), Metadata: named("c"), Spec: domain.ClusterSpec{GitOps: domain.GitOps{Type: "t"}},
			Kubeconfig: domain.Sealed{KeyID: "k", Data: []byte{0, 1, 255}}, KubeconfigDigest: "d", History: domain.NewHistory(time.UnixMilli(1)),
		},
		"a cluster sync object": &domain.ClusterSyncObject{Identity: below("cluster-providers/p"), Metadata: named("s"), Spec: domain.KVSpec{KV: []map[string]string{{"a.b": "c"}}}},
		"a cluster label":       &domain.ClusterLabel{Identity: below("cluster-providers/p/clusters/c"), Label: "edge"},
		"pairs with odd keys, and none": &domain.ClusterKV{
			Identity: below("cluster-providers/p/clusters/c"), Metadata: named("kv"),
			Spec: domain.KVSpec{KV: []map[string]string{{"a.b": "c", "$x": "$y", "": "empty", "ž🐑": "ž", "a\x00b": "\x00"}, {}, nil}},
		},
		"a network of both families": &domain.Network{
			Identity: below("cluster-providers/p/clusters/c"), Metadata: named("n"),
			Spec: domain.NetworkSpec{
				CNIType: "ovn4nfv", IPv4Subnets: []domain.Subnet{{Name: "s", Subnet: "10.1.0.0/24", Gateway: "10.1.0.1/24", ExcludeIPs: "10.1.0.2"}},
				IPv6Subnets: []domain.Subnet{{Name: "t", Subnet: "fd00::/64"}},
			},
		},
		"a provider network": &domain.ProviderNetwork{
			Identity: below("cluster-providers/p/clusters/c"), Metadata: named("n"),
			Spec: domain.ProviderNetworkSpec{
				NetworkSpec: domain.NetworkSpec{CNIType: "ovn4nfv", IPv4Subnets: []domain.Subnet{{Name: "s", Subnet: "10.1.0.0/24"}}}, ProviderNetType: "VLAN",
				VLAN: domain.VLAN{ID: "100", ProviderInterfaceName: "eth1", LogicalInterfaceName: "eth1.100", NodeSelector: "specific", NodeLabelList: []string{"a.b/c=d"}},
			},
		},
		"a project with four eyes": &domain.Project{Identity: below(""), Metadata: named("four"), Spec: &domain.ProjectSpec{FourEyes: true}},
		"a project":                &domain.Project{Identity: below(""), Metadata: named("p")},
		"a cloud with labels": &domain.LogicalCloud{
			Identity: below("projects/p"), Metadata: named("l"),
			Spec:    domain.LogicalCloudSpec{Level: "0", Labels: map[string]string{"example.org/tier": "1", "$": "."}},
			History: domain.NewHistory(time.UnixMilli(1)),
		},
		"a cloud whose labels are not given": &domain.LogicalCloud{Identity: below("projects/p"), Metadata: named("bare")},
		"a cluster reference":                &domain.ClusterReference{Identity: below("projects/p/logical-clouds/l"), Metadata: named("r"), Spec: domain.ClusterReferenceSpec{ClusterProvider: "p", Cluster: "c"}},
		"a cloud with a user": &domain.LogicalCloud{
			Identity: below("projects/p"), Metadata: named("one"), Spec: domain.LogicalCloudSpec{Level: "1", Namespace: "ns", User: domain.CloudUser{UserName: "bob"}},
			Key: domain.Sealed{KeyID: "k", Data: []byte{0, 1}}, Request: []byte("PEM"),
		},
		"a user permission": &domain.UserPermission{
			Identity: below("projects/p/logical-clouds/l"), Metadata: named("u"),
			Spec: domain.UserPermissionSpec{Namespace: "ns", APIGroups: []string{"", "*"}, Resources: []string{"pods/log"}, Verbs: []string{}},
		},
		"a cluster quota":     &domain.ClusterQuota{Identity: below("projects/p/logical-clouds/l"), Metadata: named("q"), Spec: map[string]string{"limits.cpu": "4", "count/configmaps": "1"}},
		"pairs of a cloud":    &domain.LogicalCloudKV{Identity: below("projects/p/logical-clouds/l"), Metadata: named("kv"), Spec: domain.KVSpec{KV: []map[string]string{{"a.b": "c"}}}},
		"a composite app":     &domain.CompositeApp{Identity: below("projects/p"), Metadata: named("c"), Spec: domain.CompositeAppSpec{Version: "v1"}},
		"an app":              &domain.App{Identity: below(composite), Metadata: named("sink"), Chart: "0a"},
		"a composite profile": &domain.CompositeProfile{Identity: below(composite), Metadata: named("cp")},
		"a profile":           &domain.Profile{Identity: below(composite + "/composite-profiles/cp"), Metadata: named("x"), Spec: domain.ProfileSpec{App: "sink"}, Archive: "0b"},
		"a group with overrides and a history": &domain.DeploymentIntentGroup{
			Identity: below(composite), Metadata: named("g"),
			Spec: domain.DeploymentIntentGroupSpec{
				CompositeProfile: "cp", Version: "r", LogicalCloud: "l",
				OverrideValues: []domain.OverrideValues{{App: "a", Values: map[string]string{"a.b[0]": "1", "$x": "2"}}, {App: "b", Values: map[string]string{}}, {App: "c"}},
			},
			ChangedBy: []string{"user alice"},
			History:   domain.History{StatusContextID: "7", Actions: []domain.Action{{State: domain.Created, Time: time.UnixMilli(5).UTC(), Revision: 1}}},
		},
		"a deployment intent": &domain.DeploymentIntent{Identity: below(group), Metadata: named("i"), Spec: domain.DeploymentIntentSpec{Intent: map[string]string{domain.PlacementIntentKey: "x"}}},
		"a placement intent":  &domain.PlacementIntent{Identity: below(group), Metadata: named("gpi")},
		"an app intent with nested groups": &domain.AppIntent{
			Identity: below(group + "/generic-placement-intents/gpi"), Metadata: domain.AppIntentMetadata{Name: "a"},
			Spec: domain.AppIntentSpec{App: "sink", Intent: domain.Placement{
				AllOf: []domain.AllOf{{Clusters: domain.Clusters{ClusterProvider: "p", Cluster: "c"}}, {AnyOf: []domain.Clusters{{ClusterProvider: "p", ClusterLabel: "edge"}}}},
				AnyOf: []domain.Clusters{{ClusterProvider: "p", Cluster: "c"}},
			}},
		},
		"an app dependency": &domain.AppDependency{
			Identity: below("projects/p/composite-apps/ca/v1/apps/web"), Metadata: named("db"),
			Spec: domain.AppDependencySpec{App: "db", OpStatus: "ready", Wait: 10},
		},
		"a controller":                    &domain.Controller{Identity: below(""), Metadata: named("rsync"), Spec: domain.ControllerSpec{Host: "h", Port: 9031, Priority: 1}},
		"a clm controller":                &domain.ServiceController{Identity: below(""), Metadata: named("x"), Spec: domain.ServiceControllerSpec{Port: 7}},
		"a dtc controller":                &domain.DTCController{Identity: below(""), Metadata: named("x"), Spec: domain.DTCControllerSpec{Port: 7}},
		"a status collector":              collector(domain.StatusCollectors, ""),
		"a status collector of a project": collector(domain.ProjectCollectors, "projects/p"),
		"a network controller intent":     &domain.NetControllerIntent{Identity: below(group), Metadata: named("ovn")},
		"a workload intent": &domain.WorkloadIntent{
			Identity: below(group + "/network-controller-intent/ovn"), Metadata: named("w"),
			Spec: domain.WorkloadIntentSpec{App: "sink", WorkloadResource: "r1-sink", Type: "Deployment"},
		},
		"an interface intent": &domain.InterfaceIntent{
			Identity: below(group + "/network-controller-intent/ovn/workload-intents/w"), Metadata: named("i"),
			Spec: domain.InterfaceIntentSpec{Interface: "eth1", Name: "net-a", DefaultGateway: domain.True, IPAddress: "10.0.0.1", MACAddress: "02:42:ac:11:00:02"},
		},
		"a traffic group intent": &domain.TrafficGroupIntent{Identity: below(group), Metadata: named("t")},
		"an inbound intent": &domain.InboundServerIntent{
			Identity: below(group + "/traffic-group-intents/t"), Metadata: named("in"), PrivateKey: domain.Sealed{KeyID: "k", Data: []byte{1}},
			Spec: domain.InboundServerIntentSpec{
				App: "sink", AppLabel: "app=sink", ServiceName: "sink", ExternalName: "a.example", Port: 80, Protocol: "TCP", ExternalSupport: true, ServiceMesh: "istio", EdgeCNF: "sdewan",
				Management: domain.InboundManagement{SidecarProxy: "yes", TLSType: "MUTUAL"},
				External:   domain.InboundExternal{Certificates: domain.InboundCertificates{ServiceCertificate: "YQ==", CACertificate: "Yg=="}},
			},
		},
		"an inbound clients intent": &domain.InboundClientsIntent{
			Identity: below(group + "/traffic-group-intents/t/inbound-intents/in"), Metadata: named("c"),
			Spec: domain.InboundClientsIntentSpec{App: "web", AppLabel: "app=web", ServiceName: "web", Namespaces: []string{}, CIDRs: []string{"10.0.0.0/8"}},
		},
		"an inbound clients access intent": &domain.InboundClientsAccessIntent{
			Identity: below(group + "/traffic-group-intents/t/inbound-intents/in/clients/c"), Metadata: named("a"),
			Spec: domain.InboundClientsAccessIntentSpec{Action: "ALLOW", URL: []string{"/a/*"}, Access: []string{"GET"}},
		},
		"an hpa intent": &domain.HPAIntent{Identity: below(group), Metadata: named("hpa"), Spec: domain.HPAIntentSpec{App: "sink"}},
		"an hpa resource consumer": &domain.HPAConsumer{
			Identity: below(group + "/hpa-intents/hpa"), Metadata: named("c"),
			Spec: domain.HPAConsumerSpec{Name: "r1-sink", APIVersion: "v19", Kind: "StatefulSet", Replicas: new(int64(2)), Container: "sink"},
		},
		"a resource requirement": &domain.HPAResource{
			Identity: below(group + "/hpa-intents/hpa/hpa-resource-consumers/c"), Metadata: named("r"),
			Spec: domain.HPAResourceSpec{Allocatable: new(true), Mandatory: new(false), Weight: new(int64(3)), Resource: domain.HPAResourceName{Name: "cpu", Requests: `4`, Limits: `"4500m"`, Units: "cores"}},
		},
		"a label that is required": &domain.HPAResource{
			Identity: below(group + "/hpa-intents/hpa/hpa-resource-consumers/c"), Metadata: named("l"),
			Spec: domain.HPAResourceSpec{Allocatable: new(false), Resource: domain.HPAResourceName{Key: "a/b", Value: new("")}},
		},
		"a generic k8s intent": &domain.GenericK8sIntent{Identity: below(group), Metadata: named("gac")},
		"a generic resource": &domain.GenericResource{
			Identity: below(group + "/generic-k8s-intents/gac"), Metadata: named("r"), Template: "of a template",
			Spec: domain.GenericResourceSpec{App: "sink", NewObject: domain.True, ResourceGVK: domain.ResourceGVK{APIVersion: "v1", Kind: "Secret", Name: "s"}},
		},
		"a customization": &domain.Customization{
			Identity: below(group + "/generic-k8s-intents/gac/resources/r"), Metadata: named("c"), Files: []domain.CustomizationFile{{Name: "f", Content: "of a file"}},
			Spec: domain.CustomizationSpec{
				ClusterSpecific: domain.True, ClusterInfo: domain.ClusterInfo{Scope: domain.ScopeName, ClusterProvider: "p", Cluster: "c", ClusterLabel: "l", Mode: domain.ModeDeny},
				PatchType: domain.PatchJSON, PatchJSON: []domain.PatchStep{{Op: "move", Path: "/a", From: "/b", Value: json.RawMessage(`{"c":1.0}`)}},
				ConfigMapOptions: domain.DataOptions{DataKeyOptions: []domain.DataKeyOption{{FileName: "f", KeyName: "k", MergePatch: domain.True}}},
				SecretOptions:    domain.DataOptions{DataKeyOptions: []domain.DataKeyOption{{FileName: "f", KeyName: "k"}}},
			},
		},
		"a status intent": &domain.StatusIntent{Identity: below(group), Metadata: named("i"), Spec: domain.StatusIntentSpec{
			ObjectTest: domain.ObjectTest{
				Apps: []string{"sink"}, APIGroup: new(string), Kinds: []string{"*"},
				ObjectSelectors: []domain.LabelSelector{{
					MatchLabels:      map[string]string{"a.b/$c": "d"},
					MatchExpressions: []domain.LabelRequirement{{Key: "e.f", Operator: domain.LabelIn, Values: []string{"g"}}},
				}},
			},
			StatusCollectors: []string{"own", "fleet/phases"}, WantSingletonReportedState: true, Together: true,
		}},
		"a readiness rule": &domain.ReadinessRule{Identity: below(""), Metadata: named("db"), Spec: domain.ReadinessRuleSpec{
			Group: "example.com", Version: "v1", Kind: "Database", Ready: `object.status.phase == "Up"`, Message: `"$a.b"`,
		}},
		"a tenant": &domain.Tenant{Identity: below(""), Metadata: named("t"), ContextID: "4711", Spec: domain.TenantSpec{
			Cluster: "p+c", Nodes: domain.NodesAll, PodSecurity: domain.PodRestricted, Kinds: []string{"v1/Pod"}, DeleteGuard: 50, DeleteAfter: "30s",
		}},
		"a host": &domain.Host{Identity: below("tenants/t"), Metadata: named("h"), Spec: domain.HostSpec{Nodes: []string{"dpu1"}}},
		"a role": &domain.Role{Identity: below(""), Metadata: named("r"), Spec: domain.RoleSpec{Rules: []domain.RoleRule{
			{Verbs: []string{"*"}, Nouns: []string{"$a.b"}, Scopes: []string{"project"}}, {Verbs: []string{}},
		}}},
		"a role binding":               roleBinding(""),
		"a role binding of a project":  roleBinding("projects/p"),
		"a role binding of a provider": roleBinding("cluster-providers/p"),
		"a token": &domain.TenantToken{
			Identity: below("tenants/t"), Metadata: named("x"), Spec: domain.TokenSpec{ExpiresAfter: "720h"},
			Credential: domain.Credential{Hash: []byte{0, 255, 7}, Expires: time.UnixMilli(1.7e12).UTC(), LastUsed: time.UnixMilli(1.6e12).UTC()},
		},
		"a service account": &domain.ServiceAccount{Identity: below(""), Metadata: named("ci")},
		"a token of a service account": &domain.ServiceAccountToken{
			Identity: below("service-accounts/ci"), Metadata: named("x"), Spec: domain.TokenSpec{ExpiresAfter: "720h"},
			Credential: domain.Credential{Hash: []byte{1}, Expires: time.UnixMilli(1.7e12).UTC()},
		},
		"a workload rule":        &domain.WorkloadRule{Identity: below("tenants/t"), Metadata: named("r"), Spec: ruleSpec()},
		"a rule of the operator": &domain.OperatorRule{WorkloadRule: domain.WorkloadRule{Identity: below(""), Metadata: named("r"), Spec: ruleSpec()}},
		"a rule that is no rule": &domain.WorkloadRule{Identity: below("tenants/t"), Metadata: named("none"), Spec: domain.WorkloadRuleSpec{RuleTemplate: domain.Template("\xff{")}},
	}
}

func roleBinding(parent domain.Key) domain.Object {
	b := domain.NewRoleBinding(parent)
	b.Identity, b.Metadata = below(parent), named("b")
	b.Spec = domain.RoleBindingSpec{Role: "viewer", Subjects: []domain.RightSubject{{Kind: "user", Name: "$a.b@example.org"}}}
	return b
}

func ruleSpec() domain.WorkloadRuleSpec {
	return domain.WorkloadRuleSpec{
		OrchestratorType: domain.Kubernetes, ResourceType: domain.KindPod, DPUSelectionPolicy: domain.AnyNode,
		WorkloadTerms: []domain.WorkloadTerm{{MatchExpressions: []domain.MatchExpression{
			{Key: "state.extra.labels['a.b/c']", Operation: domain.OperationIn, Values: []string{"$x", ""}},
		}}},
		WorkloadInfoInject: []domain.WorkloadInfoInject{{Key: "@", AsAnnotation: &domain.WorkloadInfoAsAnnotation{Name: "a.b/c"}}, {Key: "x"}},
		RuleTemplate:       domain.Template(`{ "kind" : "Pod" }`),
	}
}

func collector(n *domain.Noun, parent domain.Key) domain.Object {
	o := n.New().(*domain.StatusCollector)
	o.Identity, o.Metadata.Name, o.Metadata.Description, o.Generation = below(parent), "c", "ž", 3
	o.APIVersion, o.Kind = domain.CollectorAPIVersion, domain.CollectorKind
	o.Metadata.Labels = map[string]string{"example.com/$a": "b"}
	o.Spec.Filter = `"$a.b" == "c"`
	return o
}

func TestDocumentsComeBackAsTheyWere(t *testing.T) {
	s := open(t)
	tested := map[*domain.Noun]bool{}
	for name, o := range nounCases() {
		tested[o.Noun()] = true
		t.Run(name, func(t *testing.T) {
			require.NoError(t, s.Create(t.Context(), o))
			found, err := s.Exists(t.Context(), o.Noun(), domain.KeyOf(o))
			require.NoError(t, err)
			require.True(t, found)
			requireSame(t, s, o)
			require.NoError(t, s.Replace(t.Context(), o))
			requireSame(t, s, o)
			requireKind(t, s.Create(t.Context(), o), fail.Conflict)
		})
	}
	for _, n := range domain.Nouns {
		require.True(t, tested[n], "%s is not tested", n.Kind)
	}
}

// TestDocumentsThatNoDatabaseTakes: a body of few bytes may say much.
func TestDocumentsThatNoDatabaseTakes(t *testing.T) {
	s := open(t)
	o := &domain.ClusterKV{Identity: below("cluster-providers/p/clusters/c"), Metadata: named("x")}
	o.Spec.KV = make([]map[string]string, 4_000_000)
	err := s.Create(t.Context(), o)
	requireKind(t, err, fail.Malformed)
	require.ErrorContains(t, err, `cluster KV pair "x" of cluster "c" is too large`)
	o.Spec.KV = nil
	require.NoError(t, s.Create(t.Context(), o))
	o.Spec.KV = make([]map[string]string, 4_000_000)
	was := o.Revision
	requireKind(t, s.Replace(t.Context(), o), fail.Malformed)
	require.Equal(t, was, o.Revision)
}

func requireSame(t *testing.T, s *store.Store, want domain.Object) {
	t.Helper()
	got, err := s.Get(t.Context(), want.Noun(), domain.KeyOf(want))
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(want, got,
		cmp.AllowUnexported(domain.StatusCollector{}, domain.RoleBinding{}), cmp.Comparer(func(a, b *domain.Noun) bool { return a == b })))
}

// TestReadersOfOneDocumentHaveTheirOwn: what is read is shared, and every reader may change what it got.
func TestReadersOfOneDocumentHaveTheirOwn(t *testing.T) {
	s := storetest.Open(t, shared(t))
	require.NoError(t, s.Create(t.Context(), project("p")))
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			o, err := s.Get(t.Context(), domain.Projects, "projects/p")
			if err != nil || o.(*domain.Project).Description != "" {
				t.Errorf("%v: %+v", err, o)
				return
			}
			o.(*domain.Project).Description = "mine"
		})
	}
	wg.Wait()
}

func TestWritesAreGuarded(t *testing.T) {
	s, ctx := open(t), t.Context()
	require.NoError(t, s.Create(ctx, project("a")))
	read := func() domain.Object {
		o, err := s.Get(ctx, domain.Projects, "projects/a")
		require.NoError(t, err)
		return o
	}
	one, two := read(), read()
	require.NoError(t, s.Replace(ctx, one))
	first := two.Base().Revision
	require.Equal(t, first+1, one.Base().Revision)

	requireKind(t, s.Replace(ctx, two), fail.Conflict)
	require.Equal(t, first, two.Base().Revision, "a refused write does not count")
	requireKind(t, s.Delete(ctx, domain.Projects, "projects/a", first), fail.Conflict)
	require.NoError(t, s.Delete(ctx, domain.Projects, "projects/a", first+1))
	requireKind(t, s.Replace(ctx, one), fail.NotFound)
	requireKind(t, s.Delete(ctx, domain.Projects, "projects/a", 0), fail.NotFound)
	_, err := s.Get(ctx, domain.Projects, "projects/a")
	requireKind(t, err, fail.NotFound)
	found, err := s.Exists(ctx, domain.Projects, "projects/a")
	require.NoError(t, err)
	require.False(t, found)
}

// Who has read a document that was deleted since, and made again, does not write over the new one, nor deletes it.
func TestANamesakeIsAnotherDocument(t *testing.T) {
	s, ctx := open(t), t.Context()
	before := project("a")
	require.NoError(t, s.Create(ctx, before))
	require.NoError(t, s.Delete(ctx, domain.Projects, "projects/a", 0))
	require.NoError(t, s.Create(ctx, project("a")))
	requireKind(t, s.Replace(ctx, before), fail.Conflict)
	requireKind(t, s.Delete(ctx, domain.Projects, "projects/a", before.Base().Revision), fail.Conflict)
}

func TestOfWritersThatMeetOneWins(t *testing.T) {
	s, ctx := open(t), t.Context()
	const writers = 8
	// together runs a call for each writer and says how many succeeded; all others are Conflicts.
	together := func(call func(o domain.Object) error, o func() domain.Object) int64 {
		var won atomic.Int64
		var wg sync.WaitGroup
		errs := make([]error, writers)
		objects := make([]domain.Object, writers)
		for i := range writers {
			objects[i] = o()
		}
		for i := range writers {
			wg.Go(func() {
				if errs[i] = call(objects[i]); errs[i] == nil {
					won.Add(1)
				}
			})
		}
		wg.Wait()
		for _, err := range errs {
			require.True(t, err == nil || fail.Is(err, fail.Conflict) || fail.Is(err, fail.NotFound), "%v", err)
		}
		return won.Load()
	}
	stored := func() domain.Object {
		o, err := s.Get(ctx, domain.Projects, "projects/a")
		require.NoError(t, err)
		return o
	}
	create := func(o domain.Object) error { return s.Create(ctx, o) }
	replace := func(o domain.Object) error { return s.Replace(ctx, o) }
	remove := func(o domain.Object) error {
		return s.Delete(ctx, domain.Projects, "projects/a", o.Base().Revision)
	}
	for range 10 {
		require.EqualValues(t, 1, together(create, func() domain.Object { return project("a") }))
		first := stored().Base().Revision
		for range 3 {
			require.EqualValues(t, 1, together(replace, stored))
		}
		require.Equal(t, first+3, stored().Base().Revision)
		require.EqualValues(t, 1, together(remove, stored))
	}
}

func TestRangesEndWhereTheParentDoes(t *testing.T) {
	s, ctx := open(t), t.Context()
	// Names whose keys sort next to "a/" and "a0" on either side.
	for _, p := range []string{"a", "a-b", "a.b", "a0", "a00", "A", "b"} {
		for _, v := range []string{"v1", "v10", "v1.b"} {
			app := compositeApp(domain.Join("projects", p), "c", v)
			require.NoError(t, s.Create(ctx, app))
			require.NoError(t, s.Create(ctx, &domain.App{Identity: below(domain.KeyOf(app)), Metadata: domain.Metadata{Name: "x"}}))
		}
	}
	keys := func(objects []domain.Object, err error) []domain.Key {
		require.NoError(t, err)
		require.NotNil(t, objects)
		found := []domain.Key{}
		for _, o := range objects {
			found = append(found, domain.KeyOf(o))
		}
		return found
	}
	const a domain.Key = "projects/a/composite-apps/c/"
	for name, c := range map[string]struct {
		noun   *domain.Noun
		prefix domain.Key
		list   []domain.Key // direct children
		under  []domain.Key
	}{
		"children of a project":      {domain.CompositeApps, "projects/a", []domain.Key{a + "v1", a + "v1.b", a + "v10"}, []domain.Key{a + "v1", a + "v1.b", a + "v10"}},
		"grandchildren of a project": {domain.Apps, "projects/a", []domain.Key{}, []domain.Key{a + "v1.b/apps/x", a + "v1/apps/x", a + "v10/apps/x"}},
		"children of a version":      {domain.Apps, a + "v1", []domain.Key{a + "v1/apps/x"}, []domain.Key{a + "v1/apps/x"}},
		"nothing below":              {domain.CompositeApps, "projects/none", []domain.Key{}, []domain.Key{}},
		"no document of the noun":    {domain.Profiles, "projects/a", []domain.Key{}, []domain.Key{}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.list, keys(s.List(ctx, c.noun, c.prefix)))
			require.Equal(t, c.under, keys(s.ListUnder(ctx, c.noun, c.prefix)))
			handed := []domain.Object{}
			require.NoError(t, s.Each(ctx, c.noun, c.prefix, func(o domain.Object) error { handed = append(handed, o); return nil }))
			require.Equal(t, c.under, keys(handed, nil))
			first, found, err := s.FirstUnder(ctx, c.noun, c.prefix)
			require.NoError(t, err)
			require.Equal(t, len(c.under) > 0, found)
			if found {
				require.Equal(t, c.under[0], first)
			}
		})
	}
	t.Run("everything", func(t *testing.T) {
		all := keys(s.ListUnder(ctx, domain.Apps, ""))
		require.Len(t, all, 21)
		require.True(t, slices.IsSorted(all))
		handed, enough := 0, errors.New("enough")
		require.ErrorIs(t, s.Each(ctx, domain.Apps, "", func(domain.Object) error {
			if handed++; handed == 3 {
				return enough
			}
			return nil
		}), enough)
		require.Equal(t, 3, handed)
	})
	t.Run("the top", func(t *testing.T) {
		for _, name := range []string{"b", "a"} {
			require.NoError(t, s.Create(ctx, project(name)))
		}
		require.Equal(t, []domain.Key{"projects/a", "projects/b"}, keys(s.List(ctx, domain.Projects, "")))
	})
}

func TestReferringFindsTheHolder(t *testing.T) {
	s, ctx := open(t), t.Context()
	intent := nounCases()["an app intent with nested groups"]
	require.NoError(t, s.Create(ctx, intent))
	for name, c := range map[string]struct {
		noun  *domain.Noun
		key   domain.Key
		found bool
	}{
		"an app":                   {domain.AppIntents, composite + "/apps/sink", true},
		"a cluster":                {domain.AppIntents, "cluster-providers/p/clusters/c", true},
		"a longer name":            {domain.AppIntents, "cluster-providers/p/clusters/cc", false},
		"what only a label means":  {domain.AppIntents, "cluster-providers/p/clusters/edge", false},
		"a noun that has none":     {domain.ClusterReferences, "cluster-providers/p/clusters/c", false},
		"the parent of a referent": {domain.AppIntents, "cluster-providers/p", false},
	} {
		t.Run(name, func(t *testing.T) {
			holder, found, err := s.Referring(ctx, c.noun, c.key)
			require.NoError(t, err)
			require.Equal(t, c.found, found)
			if found {
				require.Equal(t, domain.KeyOf(intent), holder)
			}
		})
	}
	t.Run("all of them, and what they are", func(t *testing.T) {
		var keys []domain.Key
		for _, name := range []string{"b", "a"} {
			one := &domain.ClusterReference{
				Identity: domain.Identity{Parent: domain.Join("projects", name, "logical-clouds", "lc")}, Metadata: domain.Metadata{Name: "ref"},
				Spec: domain.ClusterReferenceSpec{ClusterProvider: "p", Cluster: "c9"},
			}
			require.NoError(t, s.Create(ctx, one))
			keys = append(keys, domain.KeyOf(one))
		}
		holders, err := s.Holders(ctx, domain.ClusterReferences, "cluster-providers/p/clusters/c9")
		require.NoError(t, err)
		require.Equal(t, []domain.Key{keys[1], keys[0]}, holders)
		found, err := s.GetAll(ctx, domain.ClusterReferences, append(holders, holders[0], "projects/none/logical-clouds/lc/cluster-references/ref"))
		require.NoError(t, err)
		require.Len(t, found, 2)
		require.Equal(t, keys[1], domain.KeyOf(found[0]))
		require.Equal(t, "c9", found[0].(*domain.ClusterReference).Spec.Cluster)
		holders, err = s.Holders(ctx, domain.ClusterReferences, "cluster-providers/p/clusters/c8")
		require.NoError(t, err)
		require.Empty(t, holders)
		found, err = s.GetAll(ctx, domain.ClusterReferences, nil)
		require.NoError(t, err)
		require.Empty(t, found)
		existing, err := s.Existing(ctx, domain.ClusterReferences, append(keys, "projects/none/logical-clouds/lc/cluster-references/ref"))
		require.NoError(t, err)
		require.Equal(t, map[domain.Key]bool{keys[0]: true, keys[1]: true}, existing)
	})
	t.Run("a replaced reference is gone", func(t *testing.T) {
		intent.(*domain.AppIntent).Spec.Intent = domain.Placement{}
		require.NoError(t, s.Replace(ctx, intent))
		_, found, err := s.Referring(ctx, domain.AppIntents, "cluster-providers/p/clusters/c")
		require.NoError(t, err)
		require.False(t, found)
	})
}

func TestMessagesNameTheThingAndItsParent(t *testing.T) {
	s, ctx := open(t), t.Context()
	for name, c := range map[string]struct {
		noun *domain.Noun
		key  domain.Key
		want string
	}{
		"at the top":                  {domain.Projects, "projects/a", `project "a" not found`},
		"two segments":                {domain.CompositeApps, "projects/p/composite-apps/c/v1", `composite app "c/v1" of project "p" not found`},
		"below two segments":          {domain.Apps, composite + "/apps/sink", `app "sink" of composite app "c/v1" not found`},
		"deep":                        {domain.AppIntents, group + "/generic-placement-intents/i/app-intents/a", `app intent "a" of generic placement intent "i" not found`},
		"names that collections have": {domain.Apps, "projects/apps/composite-apps/apps/apps/apps/apps", `app "apps" of composite app "apps/apps" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Get(ctx, c.noun, c.key)
			requireKind(t, err, fail.NotFound)
			require.Equal(t, c.want, fail.TextOf(err))
			require.Equal(t, c.want, fail.TextOf(s.Delete(ctx, c.noun, c.key, 0)))
		})
	}
	t.Run("a duplicate", func(t *testing.T) {
		require.NoError(t, s.Create(ctx, project("x")))
		require.Equal(t, `project "x" already exists`, fail.TextOf(s.Create(ctx, project("x"))))
	})
}

func BenchmarkDocuments(b *testing.B) {
	s := open(b)
	for i := range 100 {
		require.NoError(b, s.Create(b.Context(), compositeApp("projects/p", "c", "v"+string(rune('a'+i/26))+string(rune('a'+i%26)))))
	}
	b.Run("get", func(b *testing.B) {
		for b.Loop() {
			_, err := s.Get(b.Context(), domain.CompositeApps, "projects/p/composite-apps/c/vaa")
			require.NoError(b, err)
		}
	})
	b.Run("replace", func(b *testing.B) {
		o, err := s.Get(context.Background(), domain.CompositeApps, "projects/p/composite-apps/c/vaa")
		require.NoError(b, err)
		for b.Loop() {
			require.NoError(b, s.Replace(b.Context(), o))
		}
	})
	b.Run("list 100", func(b *testing.B) {
		for b.Loop() {
			objects, err := s.List(b.Context(), domain.CompositeApps, "projects/p")
			require.NoError(b, err)
			require.Len(b, objects, 100)
		}
	})
}

// TestChildrenAreShared: many ask at the same time, some for the same parent.
func TestChildrenAreShared(t *testing.T) {
	s := storetest.Open(t, store.Config{})
	const parents, each, askers = 10, 3, 3
	for p := range parents {
		for c := range each {
			host := &domain.Host{Identity: below(domain.TenantKey(fmt.Sprint("t", p))), Metadata: named(fmt.Sprint("h", each-c))}
			require.NoError(t, s.Create(t.Context(), host))
		}
	}
	var wg sync.WaitGroup
	answers := make([][]domain.Object, parents*askers)
	errs := make([]error, parents*askers)
	for i := range answers {
		wg.Go(func() {
			answers[i], errs[i] = s.Children(t.Context(), domain.Hosts, domain.TenantKey(fmt.Sprint("t", i%parents)))
		})
	}
	wg.Wait()
	seen := map[domain.Object]bool{}
	for i, got := range answers {
		require.NoError(t, errs[i])
		want, err := s.List(t.Context(), domain.Hosts, domain.TenantKey(fmt.Sprint("t", i%parents)))
		require.NoError(t, err)
		require.Len(t, got, each)
		require.Empty(t, cmp.Diff(want, got))
		for _, o := range got {
			require.False(t, seen[o], "each has its own")
			seen[o] = true
		}
	}
	none, err := s.Children(t.Context(), domain.Hosts, domain.TenantKey("nobody"))
	require.NoError(t, err)
	require.Equal(t, []domain.Object{}, none)
}
