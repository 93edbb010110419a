package domain_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

func meta(name string) domain.Metadata { return domain.Metadata{Name: name} }

func appIntent(p domain.Placement) *domain.AppIntent {
	return &domain.AppIntent{Metadata: domain.AppIntentMetadata{Name: "n"}, Spec: domain.AppIntentSpec{App: "sink", Intent: p}}
}

func TestValidate(t *testing.T) {
	pattern := "Does not match pattern '" + domain.NamePattern + "': a name has letters and digits, and between them '-', '_' and '.'"
	tooLong := "String length must be less than or equal to 128"
	for name, c := range map[string]struct {
		o    domain.Object
		want []fail.Field
	}{
		"the shortest name": {o: &domain.Project{Metadata: meta("a")}},
		"the longest name":  {o: &domain.Project{Metadata: meta(strings.Repeat("a", 128))}},
		"every character":   {o: &domain.Project{Metadata: meta("A-z_0.9")}},
		"no name":           {o: &domain.Project{}, want: []fail.Field{{Path: "metadata.name", Message: "is required"}}},
		"a longer name":     {o: &domain.Project{Metadata: meta(strings.Repeat("a", 129))}, want: []fail.Field{{Path: "metadata.name", Message: tooLong}}},
		"a slash":           {o: &domain.Project{Metadata: meta("a/b")}, want: []fail.Field{{Path: "metadata.name", Message: pattern}}},
		"two dots":          {o: &domain.Project{Metadata: meta("..")}, want: []fail.Field{{Path: "metadata.name", Message: pattern}}},
		"a line feed":       {o: &domain.Project{Metadata: meta("a\n")}, want: []fail.Field{{Path: "metadata.name", Message: pattern}}},
		"long user data": {
			o: &domain.Project{Metadata: domain.Metadata{
				Name: "a", Description: strings.Repeat("ü", 1025), UserData1: strings.Repeat("x", 513), UserData2: strings.Repeat("ü", 512),
			}},
			want: []fail.Field{
				{Path: "metadata.description", Message: "String length must be less than or equal to 1024"},
				{Path: "metadata.userData1", Message: "String length must be less than or equal to 512"},
			},
		},

		"a composite app":              {o: &domain.CompositeApp{Metadata: meta("a"), Spec: domain.CompositeAppSpec{Version: "v1"}}},
		"a composite app, unversioned": {o: &domain.CompositeApp{Metadata: meta("a")}, want: []fail.Field{{Path: "spec.compositeAppVersion", Message: "is required"}}},

		"a label":        {o: &domain.ClusterLabel{Label: "edge"}},
		"an empty label": {o: &domain.ClusterLabel{}, want: []fail.Field{{Path: "clusterLabel", Message: "is required"}}},
		"no pairs":       {o: &domain.ClusterKV{Metadata: meta("a"), Spec: domain.KVSpec{KV: []map[string]string{}}}},
		"pairs missing":  {o: &domain.ClusterKV{Metadata: meta("a")}, want: []fail.Field{{Path: "spec.kv", Message: "Invalid type. Expected: array, given: null"}}},
		"long values, in order": {
			o:    &domain.ClusterKV{Metadata: meta("a"), Spec: domain.KVSpec{KV: []map[string]string{{"b": strings.Repeat("x", 129), "a": strings.Repeat("x", 129)}}}},
			want: []fail.Field{{Path: "spec.kv[0][a]", Message: tooLong}, {Path: "spec.kv[0][b]", Message: tooLong}},
		},

		"a dependency":                  {o: &domain.AppDependency{Metadata: meta("a"), Spec: domain.AppDependencySpec{App: "db", OpStatus: "rEADY", Wait: 4096}}},
		"a dependency that says little": {o: &domain.AppDependency{Metadata: meta("a")}, want: []fail.Field{{Path: "spec.app", Message: "is required"}, {Path: "spec.opStatus", Message: "is required"}}},
		"a dependency out of range":     {o: &domain.AppDependency{Metadata: meta("a"), Spec: domain.AppDependencySpec{App: "db", OpStatus: "Running", Wait: 4097}}, want: []fail.Field{{Path: "spec.opStatus", Message: "must be Deployed or Ready"}, {Path: "spec.wait", Message: "Must be less than or equal to 4096"}}},
		"a dependency in the past":      {o: &domain.AppDependency{Metadata: meta("a"), Spec: domain.AppDependencySpec{App: "db", OpStatus: "Deployed", Wait: -1}}, want: []fail.Field{{Path: "spec.wait", Message: "Must be greater than or equal to 0"}}},

		"a controller":     {o: &domain.Controller{Metadata: meta("rsync"), Spec: domain.ControllerSpec{Host: "h", Port: 50000, Priority: 100}}},
		"a bare one":       {o: &domain.Controller{Metadata: meta("rsync")}},
		"out of range":     {o: &domain.Controller{Metadata: meta("a"), Spec: domain.ControllerSpec{Port: -1, Priority: 101}}, want: []fail.Field{{Path: "spec.port", Message: "Must be greater than or equal to 0"}, {Path: "spec.priority", Message: "Must be less than or equal to 100"}}},
		"of clm, likewise": {o: &domain.ServiceController{Metadata: meta("a"), Spec: domain.ServiceControllerSpec{Port: 50001}}, want: []fail.Field{{Path: "spec.port", Message: "Must be less than or equal to 50000"}}},

		"a readiness rule":  {o: &domain.ReadinessRule{Metadata: meta("a"), Spec: domain.ReadinessRuleSpec{Group: "example.com", Version: "v1beta1", Kind: "Database", Ready: "true"}}},
		"of the core group": {o: &domain.ReadinessRule{Metadata: meta("a"), Spec: domain.ReadinessRuleSpec{Kind: "Pod", Ready: "true"}}},
		"an empty rule": {o: &domain.ReadinessRule{Metadata: meta("a"), Spec: domain.ReadinessRuleSpec{Ready: " "}}, want: []fail.Field{
			{Path: "spec.kind", Message: "is required"}, {Path: "spec.ready", Message: "is required"},
		}},
		"a rule with everything wrong": {
			o: &domain.ReadinessRule{Metadata: meta("a"), Spec: domain.ReadinessRuleSpec{Group: "Example.com", Version: "1", Kind: strings.Repeat("k", 64) + " ", Ready: "true"}},
			want: []fail.Field{
				{Path: "spec.group", Message: "Does not match pattern '^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$'"},
				{Path: "spec.version", Message: "Does not match pattern '^([a-z]([-a-z0-9]*[a-z0-9])?)?$'"},
				{Path: "spec.kind", Message: "Does not match pattern '^[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?$'"},
				{Path: "spec.kind", Message: "String length must be less than or equal to 63"},
			},
		},

		"a profile without app": {o: &domain.Profile{Metadata: meta("a")}, want: []fail.Field{{Path: "spec.app", Message: "is required"}}},

		"a group": {o: &domain.DeploymentIntentGroup{Metadata: meta("a"), Spec: domain.DeploymentIntentGroupSpec{
			CompositeProfile: "cp", Version: "r1", LogicalCloud: "lc",
			OverrideValues: []domain.OverrideValues{{App: "sink", Values: map[string]string{"a.b": strings.Repeat("x", 128)}}},
		}}},
		"an empty group": {o: &domain.DeploymentIntentGroup{Metadata: meta("a")}, want: []fail.Field{
			{Path: "spec.compositeProfile", Message: "is required"}, {Path: "spec.version", Message: "is required"}, {Path: "spec.logicalCloud", Message: "is required"},
		}},
		"overrides without app and values": {
			o: &domain.DeploymentIntentGroup{Metadata: meta("a"), Spec: domain.DeploymentIntentGroupSpec{
				CompositeProfile: "cp", Version: "r1", LogicalCloud: "lc", OverrideValues: []domain.OverrideValues{{}},
			}},
			want: []fail.Field{{Path: "spec.overrideValues[0].app", Message: "is required"}, {Path: "spec.overrideValues[0].values", Message: "Invalid type. Expected: object, given: null"}},
		},

		"overrides of one key": {
			o: &domain.DeploymentIntentGroup{Metadata: meta("a"), Spec: domain.DeploymentIntentGroupSpec{
				CompositeProfile: "cp", Version: "r1", LogicalCloud: "lc", OverrideValues: []domain.OverrideValues{
					{App: "sink", Values: map[string]string{"a": "1", "b": "1"}}, {App: "web", Values: map[string]string{"a": "2"}}, {App: "sink", Values: map[string]string{"a": "2", "b": "1", "c": "1"}},
				},
			}},
			want: []fail.Field{{Path: "spec.overrideValues[2].values[a]", Message: `spec.overrideValues[0] has another value for this key of app "sink"`}},
		},

		"an intent that binds nothing": {o: &domain.DeploymentIntent{Metadata: meta("a"), Spec: domain.DeploymentIntentSpec{Intent: map[string]string{}}}},
		"an intent without a map":      {o: &domain.DeploymentIntent{Metadata: meta("a")}, want: []fail.Field{{Path: "spec.intent", Message: "Invalid type. Expected: object, given: null"}}},

		"no placement": {o: appIntent(domain.Placement{})},
		"every kind of placement": {o: appIntent(domain.Placement{
			AllOf: []domain.AllOf{
				{Clusters: domain.Clusters{ClusterProvider: "p", Cluster: "c"}},
				{Clusters: domain.Clusters{ClusterProvider: "p", ClusterLabel: "l"}},
				{AnyOf: []domain.Clusters{{ClusterProvider: "p", Cluster: "c"}}},
			},
			AnyOf: []domain.Clusters{{ClusterProvider: "p", ClusterLabel: "l"}},
		})},
		"no app": {o: &domain.AppIntent{Metadata: domain.AppIntentMetadata{Name: "n"}}, want: []fail.Field{{Path: "spec.app", Message: "Missing app for the intent"}}},
		"placements that say too little or too much": {
			o: appIntent(domain.Placement{
				AllOf: []domain.AllOf{
					{},
					{Clusters: domain.Clusters{ClusterProvider: "p", Cluster: "c"}, AnyOf: []domain.Clusters{{ClusterProvider: "p"}}},
				},
				AnyOf: []domain.Clusters{{ClusterProvider: "p", Cluster: "c", ClusterLabel: "l"}, {Cluster: "c"}},
			}),
			want: []fail.Field{
				{Path: "spec.intent.allOf[0].clusterProvider", Message: "Missing clusterProvider in an intent"},
				{Path: "spec.intent.allOf[0]", Message: "Missing cluster or clusterLabel"},
				{Path: "spec.intent.allOf[1]", Message: "anyOf cannot be combined with clusterProvider, cluster or clusterLabel"},
				{Path: "spec.intent.allOf[1].anyOf[0]", Message: "Missing cluster or clusterLabel"},
				{Path: "spec.intent.anyOf[0]", Message: "Only one of cluster name or cluster label allowed"},
				{Path: "spec.intent.anyOf[1].clusterProvider", Message: "Missing clusterProvider in an intent"},
			},
		},

		"a role": {o: &domain.Role{Metadata: meta("a"), Spec: domain.RoleSpec{Rules: []domain.RoleRule{{Verbs: []string{"get"}, Nouns: []string{"*"}}}}}},
		"a role that is built in and says nothing": {
			o:    &domain.Role{Metadata: meta("editor")},
			want: []fail.Field{{Path: "metadata.name", Message: `the role "editor" is built in and cannot be replaced; use another name`}, {Path: "spec.rules", Message: "is required: a role without rules allows nothing"}},
		},
		"a role with half a rule": {
			o:    &domain.Role{Metadata: meta("a"), Spec: domain.RoleSpec{Rules: []domain.RoleRule{{}}}},
			want: []fail.Field{{Path: "spec.rules[0].verbs", Message: "is required"}, {Path: "spec.rules[0].nouns", Message: "is required"}},
		},
		"a role binding": {o: boundTo("viewer",
			domain.RightSubject{Kind: "user", Name: "ž@example.org"}, domain.RightSubject{Kind: "group", Name: "a b"},
			domain.RightSubject{Kind: "service-account", Name: "service-accounts/ci"})},
		"a role binding of nothing": {o: boundTo(""), want: []fail.Field{
			{Path: "spec.role", Message: "is required"}, {Path: "spec.subjects", Message: "is required: without subjects the role is given to nobody"},
		}},
		"a role binding with strange subjects": {
			o: boundTo("viewer", domain.RightSubject{Kind: "robot", Name: " "}, domain.RightSubject{Kind: "service-account", Name: "ci"},
				domain.RightSubject{Kind: "user", Name: strings.Repeat("u", 513)}, domain.RightSubject{Kind: "service-account", Name: "ci"},
				domain.RightSubject{Kind: "service-account", Name: "projects/p/service-accounts/a"},
				domain.RightSubject{Kind: "group", Name: "g"}, domain.RightSubject{Kind: "group", Name: "g"}),
			want: []fail.Field{
				{Path: "spec.subjects[0].kind", Message: `"robot" is none of user, group and service-account`}, {Path: "spec.subjects[0].name", Message: "is required"},
				{Path: "spec.subjects[1].name", Message: noAccount("ci")}, {Path: "spec.subjects[2].name", Message: "String length must be less than or equal to 512"},
				{Path: "spec.subjects[3].name", Message: noAccount("ci")}, {Path: "spec.subjects[4].name", Message: noAccount("projects/p/service-accounts/a")},
				{Path: "spec.subjects[6]", Message: "group g is there already"},
			},
		},

		"an admin cloud":   {o: &domain.LogicalCloud{Metadata: meta("a"), Spec: domain.LogicalCloudSpec{Level: "0", Namespace: "default"}}},
		"a standard cloud": {o: &domain.LogicalCloud{Metadata: meta("a"), Spec: domain.LogicalCloudSpec{Level: "1", User: domain.CloudUser{UserName: strings.Repeat("u", 20)}}}},
		"a cloud with everything wrong": {
			o: &domain.LogicalCloud{Metadata: meta("a"), Spec: domain.LogicalCloudSpec{
				Level: "2", Namespace: "NS", Labels: map[string]string{"a": strings.Repeat("x", 129)},
				User: domain.CloudUser{UserName: strings.Repeat("u", 21), Type: strings.Repeat("t", 129)},
			}},
			want: []fail.Field{
				{Path: "spec.namespace", Message: "must be the name of a Kubernetes namespace: at most 63 of a-z, 0-9 and -, not - first or last"},
				{Path: "spec.user.userName", Message: "String length must be less than or equal to 20"},
				{Path: "spec.user.type", Message: tooLong},
				{Path: "spec.level", Message: `must be "0" or "1"`},
				{Path: "spec.labels[a]", Message: tooLong},
			},
		},
		"labels of a namespace": {o: &domain.LogicalCloud{Metadata: meta("a"), Spec: domain.LogicalCloudSpec{Level: "1", Labels: map[string]string{"geo": "usa-nw", "example.com/a": ""}}}},
		"labels that no namespace can have": {
			o: &domain.LogicalCloud{Metadata: meta("a"), Spec: domain.LogicalCloudSpec{Level: "1", Labels: map[string]string{"": "x", "geo": "usa nw"}}},
			want: []fail.Field{
				{Path: "spec.labels[]", Message: `"=x" is not a label of a Kubernetes namespace`},
				{Path: "spec.labels[geo]", Message: `"geo=usa nw" is not a label of a Kubernetes namespace`},
			},
		},
		"an admin cloud has no namespace to label": {o: &domain.LogicalCloud{Metadata: meta("a"), Spec: domain.LogicalCloudSpec{Level: "0", Labels: map[string]string{"geo": "usa nw"}}}},
		"a permission": {o: &domain.UserPermission{Metadata: meta("a"), Spec: domain.UserPermissionSpec{APIGroups: []string{""}, Resources: []string{"*"}, Verbs: []string{"get"}}}},
		"a permission that says nothing": {o: &domain.UserPermission{Metadata: meta("a"), Spec: domain.UserPermissionSpec{Namespace: "A"}}, want: []fail.Field{
			{Path: "spec.namespace", Message: "must be the name of a Kubernetes namespace: at most 63 of a-z, 0-9 and -, not - first or last"},
			{Path: "spec.apiGroups", Message: "Invalid type. Expected: array, given: null"}, {Path: "spec.resources", Message: "Invalid type. Expected: array, given: null"},
			{Path: "spec.verbs", Message: "Invalid type. Expected: array, given: null"},
		}},
		"a workload intent": {o: &domain.WorkloadIntent{Metadata: meta("a"), Spec: domain.WorkloadIntentSpec{App: "web", WorkloadResource: "r1-web", Type: "Deployment"}}},
		"a workload intent of nothing": {o: &domain.WorkloadIntent{Metadata: meta("a")}, want: []fail.Field{
			{Path: "spec.app", Message: "is required"}, {Path: "spec.workloadResource", Message: "is required"}, {Path: "spec.type", Message: "is required"},
		}},
		"an interface with every address": {o: &domain.InterfaceIntent{Metadata: meta("a"), Spec: domain.InterfaceIntentSpec{
			Interface: "eth1", Name: "net-a", DefaultGateway: domain.True, IPAddress: "fd00::1", MACAddress: "02-42-AC-11-00-02-00-01",
		}}},
		"an interface with an address in dots": {o: &domain.InterfaceIntent{Metadata: meta("a"), Spec: domain.InterfaceIntentSpec{
			Interface: "eth1", Name: "net-a", DefaultGateway: domain.False, MACAddress: "0242.ac11.0002",
		}}},
		"an interface with half an address": {o: &domain.InterfaceIntent{Metadata: meta("a"), Spec: domain.InterfaceIntentSpec{
			Interface: "eth1", Name: "net-a", DefaultGateway: "no", IPAddress: "fe80::1%eth0", MACAddress: "02:42-ac:11:00:02",
		}}, want: []fail.Field{
			{Path: "spec.defaultGateway", Message: `Invalid default interface: "no"; use "true" or "false"`},
			{Path: "spec.ipAddress", Message: `Invalid IP address: "fe80::1%eth0"; use one of IPv4 or IPv6, without a prefix`},
			{Path: "spec.macAddress", Message: `Invalid MAC address: "02:42-ac:11:00:02"; use one such as 02:42:ac:11:00:02`},
		}},
		"an inbound intent": {o: &domain.InboundServerIntent{Metadata: meta("a"), Spec: domain.InboundServerIntentSpec{
			App: "web", AppLabel: "app.kubernetes.io/name=web", ServiceName: "web", Port: 65535, Protocol: "grpc", ServiceMesh: "linkerd",
			External: domain.InboundExternal{Certificates: domain.InboundCertificates{ServicePrivateKey: domain.MaskedKey}},
		}}},
		"an inbound intent of nothing": {o: &domain.InboundServerIntent{Metadata: meta("a")}, want: []fail.Field{
			{Path: "spec.app", Message: "is required"}, {Path: "spec.appLabel", Message: "is required"}, {Path: "spec.serviceName", Message: "is required"},
			{Path: "spec.port", Message: "Must be greater than or equal to 1"}, {Path: "spec.protocol", Message: "is required"},
		}},
		"an inbound intent with words of no meaning": {o: &domain.InboundServerIntent{Metadata: meta(strings.Repeat("a", 64)), Spec: domain.InboundServerIntentSpec{
			App: "web", AppLabel: "a=b=c", ServiceName: "web", Port: 65536, Protocol: "ICMP", Management: domain.InboundManagement{SidecarProxy: "always", TLSType: "mutual"},
			External: domain.InboundExternal{Certificates: domain.InboundCertificates{CACertificate: "-----BEGIN", ServicePrivateKey: "***"}},
		}}, want: []fail.Field{
			{Path: "metadata.name", Message: "String length must be less than or equal to 63"},
			{Path: "spec.appLabel", Message: `Invalid label: "a=b=c"; use key=value, such as app=httpbin`},
			{Path: "spec.port", Message: "Must be less than or equal to 65535"},
			{Path: "spec.protocol", Message: `Invalid protocol: "ICMP"; use TCP, UDP or SCTP, or HTTP, HTTPS or GRPC, which mean TCP`},
			{Path: "spec.management.sidecarProxy", Message: "String length must be less than or equal to 4"},
			{Path: "spec.management.tlsType", Message: `Invalid TLS type: "mutual"; use NONE, SIMPLE or MUTUAL`},
			{Path: "spec.external.externalCerts.servicePrivateKey", Message: "is not base64"},
			{Path: "spec.external.externalCerts.caCertificate", Message: "is not base64"},
		}},
		"clients of nowhere": {o: &domain.InboundClientsIntent{Metadata: meta("a"), Spec: domain.InboundClientsIntentSpec{
			App: "web", AppLabel: "=web", ServiceName: "web", Namespaces: []string{"", "A"}, CIDRs: []string{"10.0.0.1/8", "10.0.0.1", "::/0", "10.0.0.0/33"},
		}}, want: []fail.Field{
			{Path: "spec.appLabel", Message: `Invalid label: "=web"; use key=value, such as app=httpbin`},
			{Path: "spec.namespaces[0]", Message: "is required"},
			{Path: "spec.namespaces[1]", Message: "must be the name of a Kubernetes namespace: at most 63 of a-z, 0-9 and -, not - first or last"},
			{Path: "spec.cidrs[1]", Message: `Invalid CIDR: "10.0.0.1"; use an address and the length of its range, such as 10.20.0.0/16`},
			{Path: "spec.cidrs[3]", Message: `Invalid CIDR: "10.0.0.0/33"; use an address and the length of its range, such as 10.20.0.0/16`},
		}},
		"access to nothing": {o: &domain.InboundClientsAccessIntent{Metadata: meta("a")}, want: []fail.Field{
			{Path: "spec.action", Message: `must be one of the following: "ALLOW"`},
			{Path: "spec.url", Message: "Invalid type. Expected: array, given: null"}, {Path: "spec.access", Message: "Invalid type. Expected: array, given: null"},
		}},
		"an hpa consumer of every kind": {o: &domain.HPAConsumer{Metadata: meta("a"), Spec: domain.HPAConsumerSpec{Name: "r1-web", Replicas: new(int64(1 << 31))}}, want: []fail.Field{
			{Path: "spec.replicas", Message: "Must be less than or equal to 2147483647"},
		}},
		"quantities that are required": {o: requirement(true, domain.HPAResourceName{Name: "cpu", Requests: `"500m"`, Limits: `"0.5"`})},
		"megabytes and bytes":          {o: requirement(true, domain.HPAResourceName{Name: "memory", Requests: `1`, Limits: `"999k"`}), want: []fail.Field{{Path: "spec.resource.limits", Message: `"999k" is less than requests, 1`}}},
		"a label of no value":          {o: requirement(false, domain.HPAResourceName{Key: "a/b", Value: new("")})},
		"a resource of no sort": {o: requirement(false, domain.HPAResourceName{}), want: []fail.Field{
			{Path: "spec.resource", Message: "Must validate one and only one schema (oneOf): name and requests, or key and value"},
		}},
		"a resource of both sorts": {o: requirement(false, domain.HPAResourceName{Name: "cpu", Requests: "1", Key: "a", Value: new("b")}), want: []fail.Field{
			{Path: "spec.resource", Message: "Must validate one and only one schema (oneOf): name and requests, or key and value"},
		}},
		"a label that is allocatable": {o: requirement(true, domain.HPAResourceName{Key: "a", Value: new("b")}), want: []fail.Field{
			{Path: "spec.allocatable", Message: "allocatable and resource field value mismatch: a resource with name and requests is allocatable, one with key and value is not"},
		}},
		"a label that is none": {o: requirement(false, domain.HPAResourceName{Key: "a/b/c", Value: new("b c")}), want: []fail.Field{
			{Path: "spec.resource.key", Message: `"a/b/c" is not the key of a label`}, {Path: "spec.resource.value", Message: `"b c" is not the value of a label`},
		}},
		"a label without a value": {o: requirement(false, domain.HPAResourceName{Key: "a"}), want: []fail.Field{{Path: "spec.resource.value", Message: "is required"}}},
		"amounts that are none": {o: requirement(true, domain.HPAResourceName{Name: "a b", Requests: `0`, Limits: `"many"`}), want: []fail.Field{
			{Path: "spec.resource.name", Message: `"a b" is not the name of a resource such as cpu, memory or intel.com/qat`},
			{Path: "spec.resource.requests", Message: "Must be greater than or equal to 1"}, {Path: "spec.resource.limits", Message: `"many" is not a quantity such as 4, 500m or 16Gi`},
		}},
		"an amount that is endless": {o: requirement(true, domain.HPAResourceName{Name: "cpu", Requests: `"9999999E999999999999"`}), want: []fail.Field{
			{Path: "spec.resource.requests", Message: `"9999999E999999999999" is no quantity: at most 400 characters, and an exponent of at most 400`},
		}},
		"limits without requests": {o: requirement(true, domain.HPAResourceName{Name: "cpu", Limits: `1`}), want: []fail.Field{{Path: "spec.resource.requests", Message: "is required"}}},
		"a quota":                 {o: &domain.ClusterQuota{Metadata: meta("a"), Spec: map[string]string{"limits.cpu": "4", "requests.memory": "1.5Gi", "pods": "1e3", "requests.cpu": "500m"}}},
		"a quota of nothing that counts": {o: &domain.ClusterQuota{Metadata: meta("A_1"), Spec: map[string]string{"pods": "many"}}, want: []fail.Field{
			{Path: "metadata.name", Message: "must be the name of a ResourceQuota: a-z, 0-9, - and ., no - or . first or last"},
			{Path: "spec[pods]", Message: `"many" is not a quantity such as 4, 500m or 16Gi`},
		}},
		"a quota that Kubernetes takes minutes for": {o: &domain.ClusterQuota{Metadata: meta("a"), Spec: map[string]string{"pods": "9999999E999999999999"}}, want: []fail.Field{
			{Path: "spec[pods]", Message: `"9999999E999999999999" is no quantity: at most 400 characters, and an exponent of at most 400`},
		}},
		"quotas of every kind":  {o: &domain.ClusterQuota{Metadata: meta("a"), Spec: map[string]string{"count/deployments.apps": "4", "requests.nvidia.com/gpu": "1", "services.nodeports": "0"}}},
		"a quota of huge pages": {o: &domain.ClusterQuota{Metadata: meta("a"), Spec: map[string]string{"hugepages-2Mi": "1Gi", "requests.hugepages-1Gi": "1Gi", "gold.storageclass.storage.k8s.io/requests.storage": "1Gi"}}},
		"a quota that each cluster would refuse": {o: &domain.ClusterQuota{Metadata: meta("a"), Spec: map[string]string{"banana": "1", "limits.cpu": "-1"}}, want: []fail.Field{
			{Path: "spec[banana]", Message: "is no resource that Kubernetes bounds, such as limits.cpu, pods or count/pods; one without a slash is one of configmaps, cpu, ephemeral-storage, limits.cpu, limits.ephemeral-storage, limits.memory, memory, persistentvolumeclaims, pods, replicationcontrollers, requests.cpu, requests.ephemeral-storage, requests.memory, requests.storage, resourcequotas, secrets, services, services.loadbalancers, services.nodeports, or begins with hugepages-"},
			{Path: "spec[limits.cpu]", Message: `"-1" is less than 0`},
		}},
		"a quota of no name": {o: &domain.ClusterQuota{Metadata: meta("a"), Spec: map[string]string{"limits cpu": "4"}}, want: []fail.Field{
			{Path: "spec[limits cpu]", Message: "is not the name of a resource such as limits.cpu or count/pods"},
		}},
		"a cloud's pairs missing": {o: &domain.LogicalCloudKV{Metadata: meta("a")}, want: []fail.Field{{Path: "spec.kv", Message: "Invalid type. Expected: array, given: null"}}},
		"a cluster reference":     {o: &domain.ClusterReference{Metadata: meta("a"), Spec: domain.ClusterReferenceSpec{ClusterProvider: "p", Cluster: "c", LoadBalancerIP: "255.255.255.255"}}},
		"a reference to nothing": {
			o:    &domain.ClusterReference{Metadata: meta("a"), Spec: domain.ClusterReferenceSpec{LoadBalancerIP: "2001:db8::1234:5678"}},
			want: []fail.Field{{Path: "spec.clusterProvider", Message: "is required"}, {Path: "spec.cluster", Message: "is required"}, {Path: "spec.loadBalancerIP", Message: "String length must be less than or equal to 16"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var p fail.Problems
			c.o.Validate(&p)
			require.Empty(t, cmp.Diff(c.want, fail.FieldsOf(p.Err())))
		})
	}
}

func TestDefaultOfALogicalCloud(t *testing.T) {
	for name, c := range map[string]struct{ spec, want domain.LogicalCloudSpec }{
		"level 1 when none is given":  {want: domain.LogicalCloudSpec{Level: "1"}},
		"the admin cloud's namespace": {spec: domain.LogicalCloudSpec{Level: "0"}, want: domain.LogicalCloudSpec{Level: "0", Namespace: "default"}},
		"and no other":                {spec: domain.LogicalCloudSpec{Level: "0", Namespace: "ns"}, want: domain.LogicalCloudSpec{Level: "0", Namespace: "default"}},
		"what is given stays":         {spec: domain.LogicalCloudSpec{Level: "1", Namespace: "ns"}, want: domain.LogicalCloudSpec{Level: "1", Namespace: "ns"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := domain.LogicalCloud{Spec: c.spec}
			o.Default()
			require.Equal(t, c.want, o.Spec)
		})
	}
}

// References are stored keys: what they look like decides what can be deleted.
func TestReferences(t *testing.T) {
	composite := domain.Key("projects/p/composite-apps/ca/v1")
	cluster := domain.Key("cluster-providers/p/clusters/c")
	intent := appIntent(domain.Placement{
		AllOf: []domain.AllOf{{Clusters: domain.Clusters{ClusterProvider: "p", ClusterLabel: "l"}}, {AnyOf: []domain.Clusters{{ClusterProvider: "p", Cluster: "c"}}}},
		AnyOf: []domain.Clusters{{ClusterProvider: "p", Cluster: "c"}},
	})
	intent.Parent = composite + "/deployment-intent-groups/d/generic-placement-intents/g"
	for name, c := range map[string]struct {
		o    domain.Referrer
		want map[string]domain.Key
	}{
		"profile": {&domain.Profile{Identity: domain.Identity{Parent: composite + "/composite-profiles/cp"}, Spec: domain.ProfileSpec{App: "sink"}}, map[string]domain.Key{"spec.app": composite + "/apps/sink"}},
		"deployment intent": {
			&domain.DeploymentIntent{Spec: domain.DeploymentIntentSpec{Intent: map[string]string{"genericPlacementIntent": "gpi", "dtc": "x"}}},
			map[string]domain.Key{"spec.intent[dtc]": "controllers/dtc"},
		},
		"cluster reference": {&domain.ClusterReference{Spec: domain.ClusterReferenceSpec{ClusterProvider: "p", Cluster: "c"}}, map[string]domain.Key{"spec.cluster": cluster}},
		"app intent": {intent, map[string]domain.Key{
			"spec.app": composite + "/apps/sink", "spec.intent.allOf[1].anyOf[0].cluster": cluster, "spec.intent.anyOf[0].cluster": cluster,
		}},
		"deployment intent group": {
			&domain.DeploymentIntentGroup{Identity: domain.Identity{Parent: composite}, Spec: domain.DeploymentIntentGroupSpec{
				CompositeProfile: "cp", LogicalCloud: "lc", OverrideValues: []domain.OverrideValues{{App: "sink"}},
			}},
			map[string]domain.Key{
				"spec.compositeProfile": composite + "/composite-profiles/cp", "spec.logicalCloud": "projects/p/logical-clouds/lc", "spec.overrideValues[0].app": composite + "/apps/sink",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]domain.Key{}
			for _, r := range c.o.References() {
				got[r.Field] = r.Key
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestNouns(t *testing.T) {
	seen := map[*domain.Noun]bool{}
	kinds := map[string]bool{}
	for _, n := range domain.Nouns {
		require.True(t, n.Parent == nil || seen[n.Parent], "%s stands before its parent", n.Kind)
		require.False(t, kinds[n.Kind], "%s is there twice", n.Kind)
		require.Same(t, n, n.New().Noun(), n.Kind)
		seen[n], kinds[n.Kind] = true, true
	}
}

// requirement is a resource requirement of a consumer.
func requirement(allocatable bool, r domain.HPAResourceName) *domain.HPAResource {
	return &domain.HPAResource{Metadata: domain.Metadata{Name: "a"}, Spec: domain.HPAResourceSpec{Allocatable: &allocatable, Resource: r}}
}

// An amount stays as it was sent; a number counts megabytes of memory, as in EMCO.
func TestAmounts(t *testing.T) {
	for text, want := range map[string]map[string]string{
		`4`:          {"cpu": "4", "memory": "4000000", "intel.com/qat": "4"},
		`"500m"`:     {"cpu": "500m", "memory": "500m"},
		`"4"`:        {"cpu": "4", "memory": "4"},
		`"\u0031Gi"`: {"memory": "1Gi"},
		`null`:       {"cpu": ""},
	} {
		var r domain.HPAResourceName
		require.NoError(t, json.Unmarshal([]byte(`{"requests": `+text+` }`), &r), text)
		for resource, quantity := range want {
			require.Equal(t, quantity, r.Requests.Quantity(resource), "%s %s", text, resource)
		}
		data, err := json.Marshal(r)
		require.NoError(t, err)
		require.Equal(t, text != "null", string(data) == `{"requests":`+text+`}`, "%s", data)
	}
	for text, want := range map[string]string{`1.5`: "number 1.5", `true`: "bool", `[]`: "array", `1e3`: "number 1e3", `99999999999999999999`: "number 99999999999999999999"} {
		var r domain.HPAResourceName
		var wrong *json.UnmarshalTypeError
		require.ErrorAs(t, json.Unmarshal([]byte(`{"requests":`+text+`}`), &r), &wrong)
		require.Equal(t, want, wrong.Value)
		require.Equal(t, "requests", wrong.Field)
	}
}

// boundTo gives a role.
func boundTo(role string, subjects ...domain.RightSubject) *domain.RoleBinding {
	b := domain.NewRoleBinding("projects/p")
	b.Metadata, b.Spec = meta("a"), domain.RoleBindingSpec{Role: role, Subjects: subjects}
	return b
}

func noAccount(name string) string {
	return `"` + name + `" is no service account; use its path below /v2, such as service-accounts/ci`
}
