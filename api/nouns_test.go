package api_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// walk is what differs between the nouns when their plain verbs are tried.
type walk struct {
	path, item       string // item may have NAME, as body and want may
	body, want       string // want when it is not body
	orphan           string // path below a parent that is not there
	orphanStatus     int
	orphans          string // what the refusal names
	file             []byte
	replaced, put    int    // codes of PUT for what is there and what is not; 0: no PUT
	mismatch         int    // of a PUT with another name
	wrong, wrongText string // a body with a wrong type, and what the refusal says
	invalid, names   string // a body that is not acceptable, and the member that the refusal names
	once             string // what the answer to POST has beside want, which no other answer has
}

const named = `{"metadata":{"name":"NAME"}}`

// collectorWant is a collector as it is answered.
const collectorWant = `{"apiVersion":"control.kubestellar.io/v1alpha1","kind":"StatusCollector","metadata":{"name":"NAME"},
	"spec":{"filter":"propagation.stale","select":[{"name":"wec","def":"inventory.name"}]},"status":{"observedGeneration":1}}`

// full is what metadata looks like in every answer.
const full = `{"name":"NAME","description":"","userData1":"","userData2":""}`

// nouns has a row for every noun, by its title: what reference 1 says of its plain verbs.
func nouns(t *testing.T) map[string]walk {
	return map[string]walk{
		"cluster provider": {path: "/v2/cluster-providers", item: "/NAME", body: named, want: `{"metadata":` + full + `}`, replaced: 201, put: 201},
		"cluster": {
			path: theProvider + "/clusters", item: "/NAME", body: named, file: []byte(kubeconfig),
			want:     `{"metadata":` + full + `,"spec":{"gitOps":{"gitOpsType":"","gitOpsReferenceObject":"","gitOpsResourceObject":""}}}`,
			replaced: 200, put: 201,
			orphan: "/v2/cluster-providers/none/clusters", orphanStatus: 409, orphans: `cluster provider "none"`,
		},
		"cluster label": {
			path: theCluster + "/labels", item: "/NAME", body: `{"clusterLabel":"NAME"}`, replaced: 201, put: 201,
			wrong: `{"clusterLabel":[]}`, wrongText: "clusterLabel: cannot be array, must be string",
			invalid: `{"clusterLabel":"-"}`, names: "clusterLabel",
			orphan: theProvider + "/clusters/none/labels", orphanStatus: 409, orphans: `cluster "none"`,
		},
		"cluster KV pair": {
			path: theCluster + "/kv-pairs", item: "/NAME", body: `{"metadata":` + full + `,"spec":{"kv":[{"a":"b"}]}}`, replaced: 201, put: 201,
			wrong: `{"metadata":{"name":"NAME"},"spec":{"kv":[{"a":1}]}}`, wrongText: "must be string",
			invalid: named, names: "spec.kv: Invalid type. Expected: array, given: null",
			orphan: theProvider + "/clusters/none/kv-pairs", orphanStatus: 409, orphans: `cluster "none"`,
		},
		"network": {
			path: theCluster + "/networks", item: "/NAME", replaced: 201, put: 201,
			body:  `{"metadata":` + full + `,"spec":{"cniType":"ovn4nfv","ipv4Subnets":[{"name":"s1","subnet":"10.1.0.0/24","gateway":"10.1.0.1/24","excludeIps":"10.1.0.2 10.1.0.5..10.1.0.9"}],"ipv6Subnets":[{"name":"s2","subnet":"fd00::/64"}]}}`,
			wrong: `{"metadata":{"name":"NAME"},"spec":{"ipv4Subnets":{}}}`, wrongText: "ipv4Subnets: cannot be object, must be array",
			invalid: `{"metadata":{"name":"x"},"spec":{"cniType":"calico","ipv4Subnets":[{"name":"s","subnet":"fd00::/64"}]}}`, names: "Invalid cni type: calico",
			orphan: theProvider + "/clusters/none/networks", orphanStatus: 404, orphans: `cluster "none"`,
		},
		"provider network": {
			path: theCluster + "/provider-networks", item: "/NAME", replaced: 201, put: 201,
			body:  `{"metadata":` + full + `,"spec":{"cniType":"ovn4nfv","ipv4Subnets":[{"name":"s1","subnet":"10.1.0.0/24"}],"providerNetType":"VLAN","vlan":{"vlanID":"100","providerInterfaceName":"eth1","logicalInterfaceName":"eth1.100","vlanNodeSelector":"specific","nodeLabelList":["kubernetes.io/hostname=localhost"]}}}`,
			wrong: `{"metadata":{"name":"NAME"},"spec":{"vlan":{"vlanID":100}}}`, wrongText: "vlan.vlanID: cannot be number, must be string",
			invalid: `{"metadata":{"name":"x"},"spec":{"cniType":"ovn4nfv","ipv4Subnets":[{"name":"s1","subnet":"10.1.0.0/24"}],"providerNetType":"VLAN","vlan":{"vlanID":"5000","vlanNodeSelector":"any"}}}`, names: "Invalid VlAN ID 5000 - error: [value greater than maximum]",
			orphan: theProvider + "/clusters/none/provider-networks", orphanStatus: 404, orphans: `cluster "none"`,
		},
		"cluster sync object": {
			path: theProvider + "/cluster-sync-objects", item: "/NAME", body: `{"metadata":` + full + `,"spec":{"kv":[{"a":"b"}]}}`, replaced: 201, put: 201,
			invalid: named, names: "spec.kv: Invalid type. Expected: array, given: null",
			orphan: "/v2/cluster-providers/none/cluster-sync-objects", orphanStatus: 409, orphans: `cluster provider "none"`,
		},
		"project": {path: "/v2/projects", item: "/NAME", body: `{"metadata":` + full + `}`, replaced: 200, put: 200},
		"logical cloud": {
			path: theProject + "/logical-clouds", item: "/NAME", replaced: 201, put: 201, mismatch: 409,
			body:    `{"metadata":{"name":"NAME"},"spec":{"level":"0"}}`,
			want:    `{"metadata":` + full + `,"spec":{"namespace":"default","labels":null,"level":"0","user":{"userName":"","type":""}}}`,
			invalid: `{"metadata":{"name":"x"},"spec":{"level":"7"}}`, names: "spec.level",
			orphan: "/v2/projects/none/logical-clouds", orphanStatus: 404, orphans: `project "none"`,
		},
		"cluster reference": {
			path: theCloud + "/cluster-references", item: "/NAME",
			body:    `{"metadata":` + full + `,"spec":{"clusterProvider":"p1","cluster":"c1","loadBalancerIP":"0.0.0.0","certificate":""}}`,
			invalid: `{"metadata":{"name":"x"},"spec":{"clusterProvider":"p1"}}`, names: "spec.cluster",
			orphan: theProject + "/logical-clouds/none/cluster-references", orphanStatus: 404, orphans: `logical cloud "none"`,
		},
		"user permission": {
			path: theCloud + "/user-permissions", item: "/NAME",
			body:  `{"metadata":` + full + `,"spec":{"namespace":"","apiGroups":["*"],"resources":["pods"],"verbs":["get"]}}`,
			wrong: `{"metadata":{"name":"NAME"},"spec":{"verbs":"get"}}`, wrongText: "spec.verbs: cannot be string, must be array",
			invalid: `{"metadata":{"name":"x"},"spec":{"apiGroups":[],"resources":[]}}`, names: "spec.verbs",
			orphan: theProject + "/logical-clouds/none/user-permissions", orphanStatus: 404, orphans: `logical cloud "none"`,
		},
		"cluster quota": {
			path: theProject + "/logical-clouds/standard/cluster-quotas", item: "/NAME",
			body:  `{"metadata":` + full + `,"spec":{"limits.cpu":"4"}}`,
			wrong: `{"metadata":{"name":"NAME"},"spec":{"limits.cpu":4}}`, wrongText: "must be string",
			invalid: `{"metadata":{"name":"x"},"spec":{"limits.cpu":"four"}}`, names: "spec[limits.cpu]",
			orphan: theProject + "/logical-clouds/none/cluster-quotas", orphanStatus: 404, orphans: `logical cloud "none"`,
		},
		"logical cloud KV pair": {
			path: theCloud + "/kv-pairs", item: "/NAME", body: `{"metadata":` + full + `,"spec":{"kv":[{"a":"b"}]}}`,
			invalid: named, names: "spec.kv: Invalid type. Expected: array, given: null",
			orphan: theProject + "/logical-clouds/none/kv-pairs", orphanStatus: 404, orphans: `logical cloud "none"`,
		},
		"composite app": {
			path: theProject + "/composite-apps", item: "/NAME/v1", body: `{"metadata":` + full + `,"spec":{"compositeAppVersion":"v1"}}`, replaced: 201, put: 201,
			invalid: `{"metadata":{"name":"x"}}`, names: "spec.compositeAppVersion",
			orphan: "/v2/projects/none/composite-apps", orphanStatus: 404, orphans: `project "none"`,
		},
		"app": {
			path: theComposite + "/apps", item: "/NAME", body: named, want: `{"metadata":` + full + `}`, file: chartOf(t, "NAME"), replaced: 201, put: 201,
			orphan: theProject + "/composite-apps/ca/v2/apps", orphanStatus: 409, orphans: `composite app "ca/v2"`,
		},
		"app dependency": {
			path: theComposite + "/apps/web/dependency", item: "/NAME", replaced: 201, put: 201,
			body:  `{"metadata":` + full + `,"spec":{"app":"sink","opStatus":"ready","wait":10}}`,
			wrong: `{"metadata":{"name":"NAME"},"spec":{"wait":"long"}}`, wrongText: "spec.wait: cannot be string, must be",
			invalid: `{"metadata":{"name":"x"},"spec":{"app":"sink","opStatus":"Running"}}`, names: "spec.opStatus",
			orphan: theComposite + "/apps/none/dependency", orphanStatus: 409, orphans: `app "none"`,
		},
		"composite profile": {
			path: theComposite + "/composite-profiles", item: "/NAME", body: `{"metadata":` + full + `}`, replaced: 201, put: 201,
			orphan: theProject + "/composite-apps/none/v1/composite-profiles", orphanStatus: 409, orphans: `composite app "none/v1"`,
		},
		"profile": {
			path: theProfile + "/profiles", item: "/NAME", replaced: 201, put: 201, file: profileOf(t),
			body:    `{"metadata":` + full + `,"spec":{"app":"spare"}}`,
			invalid: `{"metadata":{"name":"x"},"spec":{"app":"a b"}}`, names: "spec.app",
			orphan: theComposite + "/composite-profiles/none/profiles", orphanStatus: 404, orphans: `composite profile "none"`,
		},
		"deployment intent group": {
			path: theComposite + "/deployment-intent-groups", item: "/NAME", replaced: 200, put: 201,
			body:    `{"metadata":` + full + `,"spec":{"compositeProfile":"cp","version":"r1","overrideValues":[],"logicalCloud":"lc"}}`,
			wrong:   `{"metadata":{"name":"NAME"},"spec":{"overrideValues":[{"app":"sink","values":{"k":1}}]}}`,
			invalid: `{"metadata":{"name":"x"},"spec":{"compositeProfile":"cp","logicalCloud":"lc"}}`, names: "spec.version: is required",
			wrongText: "must be string",
		},
		"deployment intent": {
			path: theGroup + "/intents", item: "/NAME", body: `{"metadata":` + full + `,"spec":{"intent":{"sfc":"later"}}}`, replaced: 200, put: 201,
			invalid: named, names: "spec.intent",
			orphan: theComposite + "/deployment-intent-groups/none/intents", orphanStatus: 409, orphans: `deployment intent group "none"`,
		},
		"generic placement intent": {
			path: theGroup + "/generic-placement-intents", item: "/NAME", body: `{"metadata":` + full + `}`, replaced: 200, put: 201,
			orphan: theComposite + "/deployment-intent-groups/none/generic-placement-intents", orphanStatus: 409, orphans: `deployment intent group "none"`,
		},
		"app intent": {
			path: thePlacement + "/app-intents", item: "/NAME", replaced: 200, put: 201,
			body:    `{"metadata":{"name":"NAME"},"spec":{"app":"sink","intent":{"anyOf":[{"clusterProvider":"p1","clusterLabel":"edge"}]}}}`,
			invalid: `{"metadata":{"name":"x"},"spec":{"app":"sink","intent":{"allOf":[{"clusterProvider":"p1"}]}}}`, names: "Missing cluster or clusterLabel",
			orphan: theGroup + "/generic-placement-intents/none/app-intents", orphanStatus: 409, orphans: `generic placement intent "none"`,
		},
		"controller": {
			path: "/v2/controllers", item: "/NAME", body: `{"metadata":` + full + `,"spec":{"host":"h","port":9031,"type":"action","priority":1}}`, replaced: 201, put: 201,
			invalid: `{"metadata":{"name":"x"},"spec":{"port":50001}}`, names: "spec.port: Must be less than or equal to 50000",
		},
		"clm controller": {path: "/v2/clm-controllers", item: "/NAME", body: `{"metadata":` + full + `,"spec":{"host":"h","port":1,"priority":1}}`, replaced: 200, put: 200},
		"readiness rule": {
			path: "/v2/readiness-rules", item: "/NAME", replaced: 200, put: 201,
			body:    `{"metadata":` + full + `,"spec":{"group":"example.com","kind":"Database","ready":"object.status.phase == 'Up'"}}`,
			invalid: `{"metadata":{"name":"x"},"spec":{"kind":"Database","ready":"object.status.phase"}}`, names: "spec.ready: is of type dyn, not bool",
		},
		"status collector": {
			path: "/v2/status-collectors", item: "/NAME", replaced: 200, put: 201,
			body:    `{"metadata":{"name":"NAME"},"spec":{"filter":"propagation.stale","select":[{"name":"wec","def":"inventory.name"}]}}`,
			want:    collectorWant,
			invalid: `{"metadata":{"name":"x"},"spec":{"filter":"1 + 1","combinedFields":[{"name":"n","type":"COUNT"}]}}`, names: "spec.filter: ",
		},
		"project status collector": {
			path: theProject + "/status-collectors", item: "/NAME", replaced: 200, put: 201,
			body:    `{"apiVersion":"control.kubestellar.io/v1alpha1","kind":"StatusCollector","metadata":{"name":"NAME"},"spec":{"filter":"propagation.stale","select":[{"name":"wec","def":"inventory.name"}]}}`,
			want:    collectorWant,
			invalid: `{"apiVersion":"v1","kind":"List","metadata":{"name":"x"},"spec":{"select":[{"name":"a","def":"1"}]}}`, names: `apiVersion: "v1" is not control.kubestellar.io/v1alpha1` + "\n" + `kind: "List" is not StatusCollector`,
			orphan: "/v2/projects/none/status-collectors", orphanStatus: 404, orphans: `project "none"`,
		},
		"status intent": {
			path: theGroup + "/status-intents", item: "/NAME", replaced: 200, put: 201,
			body:  `{"metadata":` + full + `,"spec":{"apps":["sink"],"apiGroup":"","kinds":["*"],"objectSelectors":[{"matchExpressions":[{"key":"a","operator":"Exists"}]}],"statusCollectors":["fleet/phases"],"wantMultiWECReportedState":true,"together":true}}`,
			wrong: `{"metadata":{"name":"NAME"},"spec":{"statusCollectors":"a"}}`, wrongText: "spec.statusCollectors: cannot be string, must be array",
			invalid: `{"metadata":{"name":"x"},"spec":{"namespaceSelectors":[{}],"wantSingletonReportedState":true}}`, names: "spec.namespaceSelectors: cannot be evaluated",
			orphan: theComposite + "/deployment-intent-groups/none/status-intents", orphanStatus: 409, orphans: `deployment intent group "none"`,
		},
		"network controller intent": {
			path: theGroup + "/network-controller-intent", item: "/NAME", body: `{"metadata":` + full + `}`, replaced: 201, put: 201,
			orphan: theComposite + "/deployment-intent-groups/none/network-controller-intent", orphanStatus: 409, orphans: `deployment intent group "none"`,
		},
		"workload intent": {
			path: theNetControllerIntent + "/workload-intents", item: "/NAME", replaced: 201, put: 201,
			body:  `{"metadata":` + full + `,"spec":{"app":"later","workloadResource":"r1-later","type":"Deployment"}}`,
			wrong: `{"metadata":{"name":"NAME"},"spec":{"type":true}}`, wrongText: "spec.type: cannot be bool, must be string",
			invalid: `{"metadata":{"name":"x"},"spec":{"app":"sink","workloadResource":"` + strings.Repeat("a", 255) + `","type":"a b"}}`,
			names:   "spec.workloadResource: String length must be less than or equal to 254\nspec.type: Does not match pattern",
			orphan:  theGroup + "/network-controller-intent/none/workload-intents", orphanStatus: 409, orphans: `network controller intent "none"`,
		},
		"interface intent": {
			path: theWorkloadIntent + "/interfaces", item: "/NAME", replaced: 201, put: 201,
			body:  `{"metadata":{"name":"NAME"},"spec":{"interface":"eth1","name":"net-a","macAddress":"02:42:ac:11:00:02"}}`,
			want:  `{"metadata":` + full + `,"spec":{"interface":"eth1","name":"net-a","defaultGateway":"false","macAddress":"02:42:ac:11:00:02"}}`,
			wrong: `{"metadata":{"name":"NAME"},"spec":{"interface":"eth1","name":"net-a","defaultGateway":1}}`, wrongText: "spec.defaultGateway: cannot be number, must be string",
			invalid: `{"metadata":{"name":"x"},"spec":{"interface":"eth1","name":"` + strings.Repeat("n", 64) + `","defaultGateway":"yes","ipAddress":"10.0.0.1/24","macAddress":"02"}}`,
			names:   "spec.name: String length must be less than or equal to 63\nspec.defaultGateway: Invalid default interface: \"yes\"; use \"true\" or \"false\"\nspec.ipAddress: Invalid IP address: \"10.0.0.1/24\"; use one of IPv4 or IPv6, without a prefix\nspec.macAddress: Invalid MAC address: \"02\"; use one such as 02:42:ac:11:00:02",
			orphan:  theNetControllerIntent + "/workload-intents/none/interfaces", orphanStatus: 409, orphans: `workload intent "none"`,
		},
		"traffic group intent": {
			path: theGroup + "/traffic-group-intents", item: "/NAME", body: `{"metadata":` + full + `}`, replaced: 201, put: 201,
			invalid: `{"metadata":{"name":"` + strings.Repeat("n", 64) + `"}}`, names: "metadata.name: String length must be less than or equal to 63",
			orphan: theComposite + "/deployment-intent-groups/none/traffic-group-intents", orphanStatus: 404, orphans: `deployment intent group "none"`,
		},
		"inbound intent": {
			path: theTrafficGroup + "/inbound-intents", item: "/NAME", replaced: 201, put: 201,
			body: `{"metadata":{"name":"NAME"},"spec":{"app":"later","appLabel":"app=later","serviceName":"later","port":3333,"protocol":"TCP","serviceMesh":"istio",
				"management":{"sidecarProxy":"yes","tlsType":"MUTUAL"},"external":{"externalCerts":{"serviceCertificate":"Y2VydA==","servicePrivateKey":"cHJpdmF0ZQ==","caCertificate":"Y2E="}}}}`,
			want: `{"metadata":` + full + `,"spec":{"app":"later","appLabel":"app=later","serviceName":"later","externalName":"","port":3333,"protocol":"TCP","externalSupport":false,
				"serviceMesh":"istio","edgeCNF":"","management":{"sidecarProxy":"yes","tlsType":"MUTUAL"},
				"external":{"externalCerts":{"serviceCertificate":"Y2VydA==","servicePrivateKey":"********","caCertificate":"Y2E="}}}}`,
			wrong: `{"metadata":{"name":"NAME"},"spec":{"port":"80"}}`, wrongText: "spec.port: cannot be string, must be integer",
			invalid: `{"metadata":{"name":"x"},"spec":{"app":"sink","appLabel":"app","serviceName":"a b","port":65536,"protocol":"ICMP","management":{"tlsType":"mTLS"},"external":{"externalCerts":{"servicePrivateKey":"-"}}}}`,
			names:   "spec.appLabel: Invalid label: \"app\"; use key=value, such as app=httpbin\nspec.serviceName: Does not match pattern",
			orphan:  theGroup + "/traffic-group-intents/none/inbound-intents", orphanStatus: 409, orphans: `traffic group intent "none"`,
		},
		"inbound clients intent": {
			path: theInbound + "/clients", item: "/NAME", replaced: 201, put: 201,
			body:  `{"metadata":` + full + `,"spec":{"app":"later","appLabel":"app=later","serviceName":"later","namespaces":["np1"],"cidrs":["172.168.21.0/24","fd00::/64"]}}`,
			wrong: `{"metadata":{"name":"NAME"},"spec":{"namespaces":"np1"}}`, wrongText: "spec.namespaces: cannot be string, must be array",
			invalid: `{"metadata":{"name":"x"},"spec":{"app":"sink","appLabel":"app=sink","serviceName":"sink","cidrs":["10.20.20.1"]}}`,
			names:   "spec.namespaces: Invalid type. Expected: array, given: null\nspec.cidrs[0]: Invalid CIDR: \"10.20.20.1\"",
			orphan:  theTrafficGroup + "/inbound-intents/none/clients", orphanStatus: 409, orphans: `inbound intent "none"`,
		},
		"inbound clients access intent": {
			path: theClients + "/access-points", item: "/NAME", replaced: 201, put: 201,
			body:  `{"metadata":` + full + `,"spec":{"action":"ALLOW","url":["/status/*","/*"],"access":["GET","PUT","POST","DELETE"]}}`,
			wrong: `{"metadata":{"name":"NAME"},"spec":{"access":"GET"}}`, wrongText: "spec.access: cannot be string, must be array",
			invalid: `{"metadata":{"name":"x"},"spec":{"action":"DENY","url":["status"],"access":["HEAD"]}}`,
			names:   "spec.action: must be one of the following: \"ALLOW\"\nspec.url[0]: Does not match pattern",
			orphan:  theInbound + "/clients/none/access-points", orphanStatus: 409, orphans: `inbound clients intent "none"`,
		},
		"hpa intent": {
			path: theGroup + "/hpa-intents", item: "/NAME", replaced: 200, put: 200,
			body:  `{"metadata":` + full + `,"spec":{"app":"later"}}`,
			wrong: `{"metadata":{"name":"NAME"},"spec":{"app":["web"]}}`, wrongText: "spec.app: cannot be array, must be string",
			invalid: `{"metadata":{"name":"x"}}`, names: "spec.app: is required",
			orphan: theComposite + "/deployment-intent-groups/none/hpa-intents", orphanStatus: 409, orphans: `deployment intent group "none"`,
		},
		"hpa resource consumer": {
			path: theHPAIntent + "/hpa-resource-consumers", item: "/NAME", replaced: 200, put: 200,
			body:  `{"metadata":` + full + `,"spec":{"name":"r1-web","apiVersion":"v19","kind":"Deployment","replicas":2,"container":"web"}}`,
			wrong: `{"metadata":{"name":"NAME"},"spec":{"name":"a","replicas":"2"}}`, wrongText: "spec.replicas: cannot be string, must be integer",
			invalid: `{"metadata":{"name":"x"},"spec":{"replicas":0}}`, names: "spec.name: is required\nspec.replicas: Must be greater than or equal to 1",
			orphan: theGroup + "/hpa-intents/none/hpa-resource-consumers", orphanStatus: 409, orphans: `hpa intent "none"`,
		},
		"resource requirement": {
			path: theHPAConsumer + "/resource-requirements", item: "/NAME", replaced: 200, put: 200,
			body:  `{"metadata":` + full + `,"spec":{"allocatable":true,"mandatory":false,"weight":7,"resource":{"name":"memory","requests":512,"limits":"1Gi","units":"MB"}}}`,
			wrong: `{"metadata":{"name":"NAME"},"spec":{"allocatable":true,"resource":{"name":"cpu","requests":0.5}}}`, wrongText: "spec.resource.requests: cannot be number 0.5, must be integer",
			invalid: `{"metadata":{"name":"x"},"spec":{"allocatable":true,"weight":0,"resource":{"name":"cpu","requests":2,"limits":1}}}`,
			names:   "spec.weight: Must be greater than or equal to 1\nspec.resource.limits: 1 is less than requests, 2",
			orphan:  theHPAIntent + "/hpa-resource-consumers/none/resource-requirements", orphanStatus: 404, orphans: `hpa resource consumer "none"`,
		},
		"generic k8s intent": {
			path: theGroup + "/generic-k8s-intents", item: "/NAME", body: `{"metadata":` + full + `}`, replaced: 200, put: 201,
			orphan: theComposite + "/deployment-intent-groups/none/generic-k8s-intents", orphanStatus: 409, orphans: `deployment intent group "none"`,
		},
		"generic resource": {
			path: theGenericIntent + "/resources", item: "/NAME", replaced: 200, put: 201, file: []byte("{apiVersion: apps/v1, kind: Deployment, metadata: {name: x}}"),
			body:  `{"metadata":` + full + `,"spec":{"app":"later","newObject":"true","resourceGVK":{"apiVersion":"apps/v1","kind":"deployment","name":"x"}}}`,
			wrong: `{"metadata":{"name":"NAME"},"spec":{"resourceGVK":"x"}}`, wrongText: "spec.resourceGVK: cannot be string, must be object",
			invalid: `{"metadata":{"name":"x"},"spec":{"newObject":"yes","resourceGVK":{"kind":"` + strings.Repeat("k", 129) + `"}}}`,
			names: "spec.app: app may not be empty\nspec.resourceGVK.apiVersion: apiVersion may not be empty\nspec.resourceGVK.kind: String length must be less than or equal to 128\n" +
				"spec.resourceGVK.name: name may not be empty\nspec.newObject: \"yes\" is none of true, false",
			orphan: theGroup + "/generic-k8s-intents/none/resources", orphanStatus: 409, orphans: `generic k8s intent "none"`,
		},
		"customization": {
			path: theGenericResource + "/customizations", item: "/NAME", replaced: 200, put: 201, file: []byte("no part of these"),
			body: `{"metadata":` + full + `,"spec":{"clusterSpecific":"true","clusterInfo":{"scope":"name","clusterProvider":"p2","cluster":"later","clusterLabel":"","mode":"deny"},
				"patchType":"json","patchJson":[{"op":"remove","path":"/a"},{"op":"add","path":"/b","value":null}],
				"configMapOptions":{"dataKeyOptions":[{"fileName":"f","keyName":"k","mergePatch":"true"}]},"secretOptions":{}}}`,
			wrong: `{"metadata":{"name":"NAME"},"spec":{"patchJson":{}}}`, wrongText: "spec.patchJson: cannot be object, must be array",
			invalid: `{"metadata":{"name":"x"},"spec":{"clusterSpecific":"true","clusterInfo":{"scope":"label","mode":"maybe"},"patchType":"yaml",
				"patchJson":[{"op":"copy","path":"a"},{"op":"add","path":"/a"},{"op":"add","path":"/a","value":"$(http://a b)$"}],
				"secretOptions":{"dataKeyOptions":[{"fileName":"f","keyName":"k"},{"fileName":"g","keyName":"k"},{"fileName":"h","keyName":"a/b"},{"fileName":"f","keyName":"l"}]}}}`,
			names: "spec.clusterInfo.clusterProvider: clusterProvider may not be empty\nspec.clusterInfo.mode: \"maybe\" is none of allow, deny\nspec.clusterInfo.clusterLabel: clusterLabel is missing\n" +
				"spec.patchType: \"yaml\" is none of json, merge\nspec.patchJson[0].path: \"a\" is no JSON pointer: it begins with /\nspec.patchJson[0].from: \"\" is no JSON pointer: it begins with /\n" +
				"spec.patchJson[1].value: add needs a value\nspec.patchJson[2].value: \"http://a b\" is no URL\n" +
				"spec.secretOptions.dataKeyOptions[1].keyName: a key with the name k already exists in Data\n" +
				"spec.secretOptions.dataKeyOptions[2].keyName: a/b is not a valid key name for a ConfigMap or Secret\n" +
				"spec.secretOptions.dataKeyOptions[3].fileName: the file f has an option already",
			orphan: theGenericIntent + "/resources/none/customizations", orphanStatus: 409, orphans: `generic resource "none"`,
		},
		"tenant": {
			path: "/v2/tenants", item: "/NAME", replaced: 200, put: 201,
			body:    `{"metadata":{"name":"NAME"},"spec":{"cluster":"p1+c1"}}`,
			want:    `{"metadata":` + full + `,"spec":{"cluster":"p1+c1","nodes":"hosts","podSecurity":"baseline","kinds":["v1/Pod"],"deleteGuard":0,"deleteAfter":""}}`,
			invalid: `{"metadata":{"name":"No_Label"},"spec":{"cluster":"c1","kinds":["Pod"]}}`, names: "metadata.name: must be a DNS-1123 label",
		},
		"host": {
			path: theTenant + "/hosts", item: "/NAME", replaced: 200, put: 201,
			body:    `{"metadata":` + full + `,"spec":{"nodes":["dpu2","dpu3.example"]}}`,
			invalid: `{"metadata":{"name":"x"},"spec":{"nodes":["a","a"]}}`, names: `spec.nodes[1]: "a" is there twice`,
			orphan: "/v2/tenants/none/hosts", orphanStatus: 404, orphans: `tenant "none"`,
		},
		"token": {
			path: theTenant + "/tokens", item: "/NAME",
			body:    `{"metadata":` + full + `,"spec":{"expiresAfter":"720h"},"status":{"token":"mine","lastUsed":"2026-11-21T05:29:07Z"}}`,
			want:    `{"metadata":` + full + `,"spec":{"expiresAfter":"720h"},"status":{"expires":"2026-12-21T05:29:07.036Z"}}`,
			once:    `"token":"drover.`,
			invalid: `{"metadata":{"name":"x"},"spec":{"expiresAfter":"10000h"}}`, names: "spec.expiresAfter",
			orphan: "/v2/tenants/none/tokens", orphanStatus: 404, orphans: `tenant "none"`,
		},
		"service account": {
			path: "/v2/service-accounts", item: "/NAME", body: `{"metadata":` + full + `}`, replaced: 200, put: 201,
			invalid: `{"metadata":{"name":"a b"}}`, names: "metadata.name",
		},
		"token of a service account": {
			path: theAccount + "/tokens", item: "/NAME",
			body:    `{"metadata":` + full + `,"spec":{"expiresAfter":"720h"},"status":{"token":"mine","lastUsed":"2026-11-21T05:29:07Z"}}`,
			want:    `{"metadata":` + full + `,"spec":{"expiresAfter":"720h"},"status":{"expires":"2026-12-21T05:29:07.036Z"}}`,
			once:    `"token":"drover.`,
			invalid: `{"metadata":{"name":"x"},"spec":{"expiresAfter":"10000h"}}`, names: "spec.expiresAfter",
			orphan: "/v2/service-accounts/none/tokens", orphanStatus: 404, orphans: `service account "none"`,
		},
		"workload rule": {
			path: theTenant + "/workload-rules", item: "/NAME", replaced: 200, put: 201,
			body:    `{"metadata":` + full + `,"spec":` + ruleSpec + `}`,
			invalid: `{"metadata":{"name":"x"},"spec":` + strings.Replace(ruleSpec, `["default"]`, `[]`, 1) + `}`, names: "spec.workloadTerms[0].matchExpressions[0].values: In needs one or more",
			orphan: "/v2/tenants/none/workload-rules", orphanStatus: 404, orphans: `tenant "none"`,
		},
		"workload rule of the operator": {
			path: "/v2/workload-rules", item: "/NAME", replaced: 200, put: 201,
			body:    `{"metadata":` + full + `,"spec":` + ruleSpec + `}`,
			invalid: `{"metadata":{"name":"X"},"spec":` + ruleSpec + `}`, names: "metadata.name: must be a DNS-1123 subdomain",
		},
		"role": {
			path: "/v2/roles", item: "/NAME", replaced: 200, put: 201,
			body:    `{"metadata":` + full + `,"spec":{"rules":[{"verbs":["instantiate","stop"],"nouns":["deployment-intent-groups"],"scopes":["project"]},{"verbs":["get"],"nouns":["*"]}]}}`,
			invalid: `{"metadata":{"name":"x"},"spec":{"rules":[{"verbs":["start"],"nouns":["groups"],"scopes":["planet"]}]}}`,
			names:   `spec.rules[0].verbs: "start" is no verb; there are *, approve, create, `,
		},
		"role binding": {
			path: "/v2/role-bindings", item: "/NAME", replaced: 200, put: 201,
			body:    `{"metadata":` + full + `,"spec":` + bindingSpec + `}`,
			invalid: `{"metadata":{"name":"x"},"spec":{"role":"viewer"}}`, names: "spec.subjects: is required",
		},
		"project role binding": {
			path: theProject + "/role-bindings", item: "/NAME", replaced: 200, put: 201,
			body:    `{"metadata":` + full + `,"spec":` + bindingSpec + `}`,
			invalid: `{"metadata":{"name":"x"},"spec":{"role":"viewer","subjects":[{"kind":"role","name":"x"}]}}`, names: `spec.subjects[0].kind: "role" is none of`,
			orphan: "/v2/projects/none/role-bindings", orphanStatus: 404, orphans: `project "none"`,
		},
		"provider role binding": {
			path: theProvider + "/role-bindings", item: "/NAME", replaced: 200, put: 201,
			body:    `{"metadata":` + full + `,"spec":` + bindingSpec + `}`,
			invalid: `{"metadata":{"name":"x"},"spec":{"role":"viewer","subjects":[{"kind":"service-account","name":"ci"}]}}`, names: `spec.subjects[0].name: "ci" is no service account`,
			orphan: "/v2/cluster-providers/none/role-bindings", orphanStatus: 404, orphans: `cluster provider "none"`,
		},
		"dtc controller": {
			path: "/v2/dtc-controllers", item: "/NAME", replaced: 201, put: 201,
			body:    `{"metadata":` + full + `,"spec":{"host":"h","port":65535,"type":"action","priority":1}}`,
			invalid: `{"metadata":{"name":"x"}}`,
			names:   "spec.host: is required\nspec.port: Must be greater than or equal to 1\nspec.type: must contain \"action\"\nspec.priority: Must be greater than or equal to 1",
		},
	}
}

// bindingSpec is that of a role binding.
const bindingSpec = `{"role":"operator","subjects":[{"kind":"user","name":"alice@example.org"},{"kind":"service-account","name":"service-accounts/ci"}]}`

// ruleSpec is that of a workload rule.
const ruleSpec = `{"orchestratorType":"kubernetes","resourceType":"v1/Pod","workloadTerms":[{"matchExpressions":[{"key":"metadata.resourceNamespace","operation":"In","values":["default"]}]}],
	"dpuSelectionPolicy":"SameNode","workloadInfoInject":[{"key":"@","asAnnotation":{"name":"full-workload-info"}}],
	"ruleTemplate":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"nginx"},"spec":{"containers":[{"name":"nginx","image":"nginx:1.14.2"}]}}}`

// calls are the plain verbs of a row, in an order that leaves nothing behind.
func (n walk) calls(t *testing.T) []call {
	n.fill()
	as := func(s, name string) string { return strings.ReplaceAll(s, "NAME", name) }
	// A chart is packed for the app's name.
	file := func(name string) []byte {
		if n.file == nil || n.path != theComposite+"/apps" {
			return n.file
		}
		return chartOf(t, name)
	}
	one, list := n.path+as(n.item, "walk"), `"walk"`
	calls := []call{
		{name: "not there", method: "GET", url: one, status: 404, contains: []string{"walk", "not found"}},
		{name: "nothing to delete", method: "DELETE", url: one, status: 404, contains: []string{"not found"}},
		{name: "wrong type", method: "POST", url: n.path, body: as(n.wrong, "walk"), file: n.file, status: 422, contains: []string{n.wrongText}},
		{name: "not acceptable", method: "POST", url: n.path, body: n.invalid, file: n.file, status: 400, contains: []string{"Invalid Input:", n.names}},
		{name: "not JSON", method: "POST", url: n.path, body: "{", file: n.file, status: 422, contains: []string{"Invalid JSON"}},
		{name: "empty body", method: "POST", url: n.path, file: n.file, status: 400, contains: []string{"Empty body"}},
		{name: "create", method: "POST", url: n.path, body: as(n.body, "walk"), file: file("walk"), status: 201, is: as(n.want, "walk"), answers: map[string]string{"Content-Type": "application/json"}},
		{name: "duplicate", method: "POST", url: n.path, body: as(n.body, "walk"), file: file("walk"), status: 409, contains: []string{"already exists", "walk"}},
		{name: "get", method: "GET", url: one, status: 200, is: as(n.want, "walk"), answers: map[string]string{"Content-Type": "application/json"}},
	}
	if n.once != "" {
		created := slices.IndexFunc(calls, func(c call) bool { return c.name == "create" })
		calls[created].is, calls[created].contains = "", []string{n.once}
		calls = append(calls, call{name: "not shown again", method: "GET", url: n.path, status: 200, lacks: []string{n.once}})
	}
	if n.path != theGroup+"/intents" {
		calls = append(calls, call{name: "list", method: "GET", url: n.path, status: 200, contains: []string{list}})
	}
	if n.orphan != "" {
		calls = append(calls, call{name: "parent missing", method: "POST", url: n.orphan, body: as(n.body, "walk"), file: file("walk"), status: n.orphanStatus, contains: []string{n.orphans, "not found"}})
	}
	if n.put == 0 {
		calls = append(calls, call{name: "no PUT", method: "PUT", url: one, body: as(n.body, "walk"), status: 405})
	} else {
		calls = append(calls,
			call{name: "replace", method: "PUT", url: one, body: as(n.body, "walk"), file: file("walk"), status: n.replaced, is: as(n.want, "walk")},
			call{name: "another name", method: "PUT", url: one, body: as(n.body, "other"), file: file("other"), status: n.mismatch, contains: []string{"ame"}},
			call{name: "no name", method: "PUT", url: one, body: `{}`, file: n.file, status: 400, contains: []string{"Missing name in PUT request"}},
			call{name: "delete for PUT", method: "DELETE", url: one, status: 204},
			call{name: "PUT creates", method: "PUT", url: one, body: as(n.body, "walk"), file: file("walk"), status: n.put, is: as(n.want, "walk")},
		)
	}
	calls = append(calls,
		call{name: "delete", method: "DELETE", url: one, status: 204},
		call{name: "gone", method: "GET", url: one, status: 404},
	)
	return calls
}

// fill completes a row with what most of them share.
func (n *walk) fill() {
	if n.want == "" {
		n.want = n.body
	}
	if n.wrong == "" {
		n.wrong, n.wrongText = `{"metadata":{"name":7}}`, "metadata.name: cannot be number, must be string"
	}
	if n.invalid == "" {
		n.invalid, n.names = `{"metadata":{"name":"a b"}}`, "metadata.name: Does not match pattern"
	}
	if n.mismatch == 0 {
		n.mismatch = 400
	}
}

// What holders (conformance_test.go) has is held by one other thing; what is here, by one after the other.
func TestWhatIsInUseStays(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	check(t, w.router, []call{
		{
			name: "a controller that was named before it was there", method: "POST", url: theGroup + "/intents", body: `{"metadata":{"name":"traffic"},"spec":{"intent":{"sfc":"later"}}}`, status: 201,
			answers: map[string]string{"Warning": `299 - "deployment intent \"traffic\": intent \"later\" of controller \"sfc\" is not enforced: the controller is not registered, and until it is instantiate, update and migrate are refused"`},
		},
		{method: "POST", url: "/v2/controllers", body: `{"metadata":{"name":"sfc"}}`, status: 201},
		{
			name: "one that is there and does nothing", method: "PUT", url: theGroup + "/intents/traffic", body: `{"metadata":{"name":"traffic"},"spec":{"intent":{"sfc":"later"}}}`, status: 200,
			is:      `{"metadata":{"name":"traffic","description":"","userData1":"","userData2":""},"spec":{"intent":{"sfc":"later"}}}`,
			answers: map[string]string{"Warning": `299 - "deployment intent \"traffic\": intent \"later\" of controller \"sfc\" is not enforced: Drover does not act for this controller"`},
		},
		{method: "DELETE", url: "/v2/controllers/sfc", status: 409, contains: []string{inUse, `controller "sfc" is used by deployment intent "traffic"`}},
		{method: "DELETE", url: theGroup + "/intents/traffic", status: 204},
		{method: "DELETE", url: "/v2/controllers/sfc", status: 204},
		{method: "DELETE", url: theCloud + "/cluster-references/ref", status: 204},
		{name: "a cloud without children, but named by a group", method: "DELETE", url: theCloud, status: 409, contains: []string{inUse, `logical cloud "lc" is used by deployment intent group "dig"`}},
		{method: "DELETE", url: theCluster + "/labels/edge", status: 204},
		{method: "DELETE", url: theCluster + "/kv-pairs/kv", status: 204},
		{name: "a cluster without children, but named by an intent", method: "DELETE", url: theCluster, status: 409, contains: []string{inUse, `cluster "c1" is used by app intent "ai"`}},
		{method: "POST", url: theProvider + "/clusters", body: `{"metadata":{"name":"held"}}`, file: []byte(kubeconfig), status: 201},
		{name: "a cluster that only an instance is on", method: "DELETE", url: theProvider + "/clusters/held", status: 409, contains: []string{`cluster "held" is used by projects/p/`, "terminate"}},
	})
}

func TestWhatIsReferredToMustBeThere(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	check(t, w.router, []call{
		{method: "POST", url: theCloud + "/cluster-references", body: `{"metadata":{"name":"x"},"spec":{"clusterProvider":"p1","cluster":"none"}}`, status: 404, contains: []string{`spec.cluster: cluster "none" not found`}},
		{method: "POST", url: theProfile + "/profiles", body: `{"metadata":{"name":"x"},"spec":{"app":"none"}}`, file: profileOf(t), status: 404, contains: []string{`spec.app: app "none" not found`}},
		{method: "POST", url: theComposite + "/deployment-intent-groups", body: strings.NewReplacer(`"cp"`, `"none"`, `"dig"`, `"x"`).Replace(groupBody), status: 404, contains: []string{`spec.compositeProfile: composite profile "none" not found`}},
		{method: "POST", url: theComposite + "/apps/sink/dependency", body: `{"metadata":{"name":"x"},"spec":{"app":"none","opStatus":"Ready"}}`, status: 404, contains: []string{`spec.app: app "none" not found`}},
		{method: "PUT", url: theGroup, body: strings.Replace(groupBody, `"lc"`, `"none"`, 1), status: 404, contains: []string{`spec.logicalCloud: logical cloud "none" not found`}},
		{method: "PUT", url: theGroup, body: strings.Replace(groupBody, `"sink"`, `"none"`, 1), status: 404, contains: []string{`spec.overrideValues[0].app: app "none" not found`}},
		{method: "POST", url: thePlacement + "/app-intents", body: `{"metadata":{"name":"x"},"spec":{"app":"sink","intent":{"allOf":[{"anyOf":[{"clusterProvider":"p1","cluster":"none"}]}]}}}`, status: 404, contains: []string{`spec.intent.allOf[0].anyOf[0].cluster: cluster "none" not found`}},
		{name: "an intent may be named before it is there", method: "POST", url: theGroup + "/intents", body: `{"metadata":{"name":"x"},"spec":{"intent":{"genericPlacementIntent":"later"}}}`, status: 201},
	})
}

func TestAppDependencies(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	of := func(app string) string { return theComposite + "/apps/" + app + "/dependency" }
	on := func(name, app string) string {
		return `{"metadata":{"name":"` + name + `"},"spec":{"app":"` + app + `","opStatus":"DEPLOYED"}}`
	}
	check(t, w.router, []call{
		{method: "GET", url: of("web"), status: 200, is: "[]"},
		{name: "an app that waits for itself", method: "POST", url: of("web"), body: on("x", "web"), status: 409, contains: []string{"web needs web"}},
		{method: "POST", url: of("web"), body: on("x", "sink"), status: 201},
		{name: "each other", method: "POST", url: of("sink"), body: on("back", "web"), status: 409, contains: []string{"sink needs web needs sink"}},
		{name: "by PUT", method: "PUT", url: of("sink") + "/back", body: on("back", "web"), status: 409, contains: []string{"sink needs web needs sink"}},
		{name: "a refusal stores nothing", method: "GET", url: of("sink"), status: 200, is: "[]"},
		{name: "another name", method: "PUT", url: of("web") + "/x", body: on("y", "sink"), status: 400, contains: []string{"Mismatched name in PUT request"}},
		{name: "and stores nothing", method: "GET", url: of("web"), status: 200, is: `[{"metadata":` + strings.ReplaceAll(full, "NAME", "x") + `,"spec":{"app":"sink","opStatus":"DEPLOYED"}}]`},
		{name: "a replacement is no second one", method: "PUT", url: of("web") + "/x", body: on("x", "sink"), status: 201},
		{name: "an app that is needed", method: "DELETE", url: theComposite + "/apps/sink", status: 409},
		{name: "an app that needs another", method: "DELETE", url: theComposite + "/apps/web", status: 409, contains: []string{`app "web" has app dependency "x"`}},
		{method: "DELETE", url: of("web") + "/x", status: 204},
		{method: "POST", url: of("sink"), body: on("back", "web"), status: 201},
	})
}

func TestEmptyCollections(t *testing.T) {
	w := newWorld(t)
	missing := "/v2/projects/none/composite-apps/none/v1"
	var calls []call
	for _, url := range []string{
		"/v2/projects", "/v2/cluster-providers", "/v2/controllers", "/v2/clm-controllers", "/v2/dtc-controllers", "/v2/readiness-rules",
		missing + "/apps", missing + "/composite-profiles", missing + "/deployment-intent-groups", "/v2/projects/none/logical-clouds",
	} {
		calls = append(calls, call{method: "GET", url: url, status: 200, is: "[]"})
	}
	check(t, w.router, append(calls,
		call{method: "GET", url: missing + "/deployment-intent-groups/d/intents", status: 200, is: `{"intent":[]}`},
		call{method: "GET", url: "/v2/projects/none/composite-apps", status: 404, contains: []string{`project "none" not found`}},
		call{method: "GET", url: "/v2/cluster-providers/none/clusters", status: 404, contains: []string{`cluster provider "none" not found`}},
		call{method: "GET", url: "/v2/cluster-providers/none/clusters/none/kv-pairs", status: 404, contains: []string{`cluster "none" not found`}},
	))
}

// TestPutCluster: what of a registration may be replaced, and what stays of it, while things run in the cluster.
func TestPutCluster(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	other := strings.Replace(kubeconfig, "sesame", "barley", 1)
	w.reached = nil
	const spec = `"spec":{"gitOps":{"gitOpsType":"","gitOpsReferenceObject":"","gitOpsResourceObject":""}`
	file := map[string]string{"Accept": "application/octet-stream"}
	key := domain.Key("cluster-providers/p1/clusters/c1")
	stored := func() *domain.Cluster {
		o, err := w.store.Get(t.Context(), domain.ClustersNoun, key)
		require.NoError(t, err)
		return o.(*domain.Cluster)
	}
	renewed := func() string {
		all, err := w.store.Renewals(t.Context())
		require.NoError(t, err)
		return all[stored().ClusterName()]
	}
	before := stored()
	require.Empty(t, renewed())

	check(t, w.router, []call{
		{name: "the description, as JSON", method: "PUT", url: theCluster, body: `{"metadata":{"name":"c1","description":"new","userData1":"u"}}`, status: 200,
			is: `{"metadata":{"name":"c1","description":"new","userData1":"u","userData2":""},` + spec + `}}`},
		{name: "its kubeconfig stays", method: "GET", url: theCluster, header: file, status: 200, contains: []string{"sesame"}},
	})
	require.Empty(t, renewed(), "nobody who works with it needs to know")
	require.Equal(t, []string{kubeconfig}, w.reached, "it is tried all the same")
	require.Equal(t, before.History, stored().History)
	require.Equal(t, before.Kubeconfig, stored().Kubeconfig)

	check(t, w.router, []call{
		{name: "how it reports", method: "PUT", url: theCluster, body: `{"metadata":{"name":"c1"},"spec":{"report":"agentless"}}`, status: 200,
			is: `{"metadata":{"name":"c1","description":"","userData1":"","userData2":""},` + spec + `,"report":"agentless"}}`},
	})
	first := renewed()
	require.NotEmpty(t, first)

	check(t, w.router, []call{
		{name: "the kubeconfig", method: "PUT", url: theCluster, body: `{"metadata":{"name":"c1"},"spec":{"report":"agentless"}}`, file: []byte(other), status: 200},
		{method: "GET", url: theCluster, header: file, status: 200, contains: []string{"barley"}, lacks: []string{"sesame"}},
		{name: "its labels stay", method: "GET", url: theCluster + "/labels", status: 200, contains: []string{"clusterLabel"}},
	})
	second := renewed()
	require.NotEqual(t, first, second)
	require.NotEqual(t, before.KubeconfigDigest, stored().KubeconfigDigest)
	require.Equal(t, domain.Trial{At: now, Version: "v1.34.1"}, stored().Tried)

	check(t, w.router, []call{
		{method: "POST", url: theProvider + "/clusters", body: `{"metadata":{"name":"held"}}`, file: []byte(kubeconfig), status: 201},
		{name: "an agent where things run", method: "PUT", url: theProvider + "/clusters/held", body: `{"metadata":{"name":"held"},"spec":{"report":"agent"}}`, status: 200,
			answers: map[string]string{"Warning": `299 - "cluster \"held\": with spec.report agent the agent reports on what runs there after the next operation on it, an update for example; until then nothing is known of it; with auto it would be"`}},
		{name: "the same once more", method: "PUT", url: theProvider + "/clusters/held", body: `{"metadata":{"name":"held"},"spec":{"report":"agent"}}`, status: 200, answers: map[string]string{"Warning": ""}},
		{name: "where nothing runs", method: "PUT", url: theCluster, body: `{"metadata":{"name":"c1"},"spec":{"report":"install"}}`, status: 200, answers: map[string]string{"Warning": ""}},
	})

	w.unreached = fail.New(fail.Unavailable, "nobody answers")
	check(t, w.router, []call{
		{name: "a cluster that cannot be reached is no refusal", method: "PUT", url: theCluster, body: `{"metadata":{"name":"c1"}}`, file: []byte(kubeconfig), status: 200,
			answers: map[string]string{"Warning": `299 - "cluster \"c1\" cannot be used with its kubeconfig at the moment: nobody answers; what is to be done there waits until it can, or until the kubeconfig is replaced (PUT)"`}},
		{name: "one that is registered neither", method: "POST", url: theProvider + "/clusters", body: `{"metadata":{"name":"far"}}`, file: []byte(kubeconfig), status: 201,
			is: `{"metadata":{"name":"far","description":"","userData1":"","userData2":""},` + spec + `}}`},
	})
	require.Equal(t, domain.Trial{At: now, Error: "nobody answers"}, stored().Tried)

	kept, url := stored(), theCluster+"?reachable=true"
	const refusal = `cluster "c1" cannot be used with its kubeconfig at the moment: nobody answers; nothing is changed`
	check(t, w.router, []call{
		{name: "it is one where that is asked for", method: "PUT", url: url, body: `{"metadata":{"name":"c1"},"spec":{"report":"none"}}`, file: []byte(other), status: 412, contains: []string{refusal}},
		{name: "of one that is not there as well", method: "PUT", url: theProvider + "/clusters/lone?reachable=true", body: `{"metadata":{"name":"lone"}}`, file: []byte(kubeconfig), status: 412},
		{name: "which is not made", method: "GET", url: theProvider + "/clusters/lone", status: 404},
		{name: "a mistake", method: "PUT", url: theCluster + "?reachable=yes", body: `{"metadata":{"name":"c1"}}`, status: 400, contains: []string{"reachable"}},
		{name: "of another noun", method: "PUT", url: theProvider + "?reachable=true", body: `{"metadata":{"name":"p1"}}`, status: 400, contains: []string{"reachable"}},
	})
	require.Equal(t, kept, stored())
	w.unreached = nil
	check(t, w.router, []call{{name: "it can be reached", method: "PUT", url: url, body: `{"metadata":{"name":"c1"}}`, file: []byte(kubeconfig), status: 200}})

	check(t, w.router, []call{
		{name: "another name", method: "PUT", url: theCluster, body: `{"metadata":{"name":"c2"}}`, status: 400, contains: []string{`"c2" in the body, "c1" in the URL`}},
		{name: "a report that there is not", method: "PUT", url: theCluster, body: `{"metadata":{"name":"c1"},"spec":{"report":"smoke"}}`, status: 400, contains: []string{"spec.report"}},
		{name: "a kubeconfig that runs a program", method: "PUT", url: theCluster, body: `{"metadata":{"name":"c1"}}`, file: []byte(strings.Replace(kubeconfig, "token: sesame", "exec: {command: sh}", 1)), status: 400, contains: []string{".exec"}},
		{name: "GitOps", method: "PUT", url: theCluster, body: `{"metadata":{"name":"c1"},"spec":{"gitOps":{"gitOpsType":"fluxcd"}}}`, status: 400, contains: []string{"gitOpsType"}},
		{name: "an empty kubeconfig", method: "PUT", url: theCluster, body: `{"metadata":{"name":"c1"}}`, file: []byte{}, status: 422, contains: []string{"the kubeconfig is empty"}},
		{name: "one that is not there, without a kubeconfig", method: "PUT", url: theProvider + "/clusters/new", body: `{"metadata":{"name":"new"}}`, status: 422, contains: []string{"Unable to process file"}},
		{name: "is not made", method: "GET", url: theProvider + "/clusters/new", status: 404},
		{name: "one that is not there", method: "PUT", url: theProvider + "/clusters/new", body: `{"metadata":{"name":"new"}}`, file: []byte(kubeconfig), status: 201},
		{name: "a registration without a kubeconfig", method: "POST", url: theProvider + "/clusters", body: `{"metadata":{"name":"n"}}`, status: 422, contains: []string{"multipart/form-data"}},
	})
	require.Equal(t, before.KubeconfigDigest, stored().KubeconfigDigest, "what was refused has changed nothing")
}

// TestNamesOfKubernetesMayBeLong: rules and hosts have ids that gRPC and Kubernetes take, of up to 253 bytes.
func TestNamesOfKubernetesMayBeLong(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	long := strings.Repeat("a", 200) + "." + strings.Repeat("b", 52)
	for path, spec := range map[string]string{
		theTenant + "/workload-rules": ruleSpec, "/v2/workload-rules": ruleSpec, theTenant + "/hosts": `{"nodes":[]}`,
	} {
		body := `{"metadata":{"name":"` + long + `"},"spec":` + spec + `}`
		check(t, w.router, []call{
			{method: "POST", url: path, body: body, status: 201},
			{method: "PUT", url: path + "/" + long, body: body, status: 200},
			{method: "GET", url: path + "/" + long, status: 200, contains: []string{long}},
			{method: "DELETE", url: path + "/" + long, status: 204},
			{method: "GET", url: path + "/" + long, status: 404},
			{method: "GET", url: path + "/" + long + "b", status: 404, contains: []string{"is not a name"}},
			{method: "POST", url: path, body: strings.Replace(body, long, long+"b", 1), status: 400, contains: []string{"metadata.name", "253"}},
			{method: "POST", url: path, body: strings.Replace(body, long, "Upper", 1), status: 400, contains: []string{"metadata.name"}},
		})
	}
	check(t, w.router, []call{{method: "GET", url: theTenant + "/workload-rules/" + long + "/matches", status: 404}})
}
