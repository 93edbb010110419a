package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

const (
	exampleGroup     = `"resource":"projects/testvfw/composite-apps/compositevfw/v1/deployment-intent-groups/vfw_deployment_intent_group"`
	exampleMetadata  = `"metadata":{"name":"vfw_deployment_intent_group","description":"the firewall on every edge"}`
	exampleGroupSpec = `"spec":{"compositeProfile":"vfw_composite-profile","version":"fw0","logicalCloud":"lcadmin",
		"overrideValues":[{"app":"packetgen","values":{"intervalSeconds":"5"}}]}`
	exampleWorkflow = `"workflow":{"id":"2621114006130701074-instantiate","runID":"0198a3c1-6a7e-7c1b-9d8e-2f6b1f6f0a11","status":"Running",
		"traceID":"0af7651916cd43dd8448eb211c80319c",
		"link":"http://127.0.0.1:8233/namespaces/default/workflows/2621114006130701074-instantiate"}`
	exampleReason = `{"kind":"ClusterHoldsUp","text":"a cluster does not answer","error":"connection refused","clusters":1,"resources":3,"more":1,
		"do":"look at the cluster; the work goes on by itself when it answers",
		"examples":[{"app":"sink","cluster":"vfw-cluster-provider+edge02","resource":"Deployment.apps/fw0-sink","step":"Apply",
			"error":"connection refused","since":"2026-11-21T05:29:07Z","lastSeen":"2026-11-21T05:28:00Z","attempt":3,"trying":true,"paused":false,
			"lastAttempt":"2026-11-21T05:30:07Z","nextAttempt":"2026-11-21T05:31:07Z",` + exampleWorkflow + `}]}`
	exampleNotAsWished = exampleGroup + `,"kind":"deployment intent group","asWished":false,"summary":"instantiate goes on: 1 cluster does not answer",
		"state":"Instantiated","since":"2026-11-21T05:29:07Z","status":"Instantiating","instance":"2621114006130701074",
		"operation":{"operation":"instantiate","by":"anna","since":"2026-11-21T05:29:07Z","ended":"2026-11-21T05:32:07Z",` + exampleWorkflow + `},
		"reasons":[` + exampleReason + `],"moreReasons":1,"unknown":["what edge02 has"]`
	exampleOnCluster = `{"name":"vfw-cluster-provider+edge02","report":"auto","connectivity":"Retrying","heard":false,
		"lastHeard":"2026-11-21T05:28:00Z","unheard":"connection refused","credentialsExpire":"2026-12-01T00:00:00Z",
		"warning":"the credentials of cluster \"edge02\" expire at 2026-12-01T00:00:00Z; replace its kubeconfig (PUT)",
		"tried":{"at":"2026-11-21T05:00:00Z","error":"connection refused","version":"v1.34.1"},
		"deployments":[{` + exampleNotAsWished + `,"apps":[{"app":"sink","resources":{"Applied":1,"Pending":2},"connectivity":"Retrying",
			"inProgress":true,"error":"connection refused","reason":"the cluster does not answer"}]}],"moreDeployments":1}`
	exampleJudged = `{"rule":"tenants/tenant1/workload-rules/tenantrule1","tenant":"tenant1","workload":"aac076f4-a565-4ed0-aac2-3da5698f5a78",
		"pod":"default/nginx","matches":false,"why":"its type is not v1/Pod","terms":[{"holds":false,"expressions":[{"key":"state.extra.labels.tier",
			"operation":"In","values":["5"],"holds":false,"absent":true,"value":"4"}]}],"state":"Pending","reason":"the workload is on no node yet"}`
	exampleSubnets = `"ipv4Subnets":[{"name":"subnet1","subnet":"172.16.44.0/24","gateway":"172.16.44.1/24","excludeIps":"172.16.44.2 172.16.44.5..172.16.44.10"}],
		"ipv6Subnets":[{"name":"subnet2","subnet":"fd00:44::/64"}]`
	exampleKV         = `{"metadata":{"name":"settings"},"spec":{"kv":[{"region":"north"}]}}`
	exampleController = `{"metadata":{"name":"rsync"},"spec":{"host":"127.0.0.1","port":9031,"type":"action","priority":1}}`
	exampleRule       = `{"metadata":{"name":"tenantrule1"},"spec":{"orchestratorType":"kubernetes","resourceType":"v1/Pod",
		"workloadTerms":[{"matchExpressions":[{"key":"state.extra.labels.tier","operation":"In","values":["5"]}]}],
		"dpuSelectionPolicy":"SameNode","workloadInfoInject":[{"key":"@","asAnnotation":{"name":"full-workload-info"}}],
		"ruleTemplate":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"nginx"},"spec":{"containers":[{"name":"nginx","image":"nginx:1.14.2"}]}}}}`
	exampleWorkload = `{"id":"aac076f4-a565-4ed0-aac2-3da5698f5a78","orchestrator":"kubernetes","resourceType":"v1/Pod","resourceNamespace":"default",
		"resourceName":"nginx","nodeName":"host-a","ready":true,"extra":{"labels":{"tier":"5"},"annotations":{}},
		"held":true,"gone":"2026-11-21T05:29:07Z"}`
	exampleMatch = `{"tenant":"tenant1","rule":"tenants/tenant1/workload-rules/tenantrule1","workload":"aac076f4-a565-4ed0-aac2-3da5698f5a78",
		"state":"Retrying","wanted":true,"reason":"connection refused","cluster":"vfw-cluster-provider+edge01",
		"object":{"apiVersion":"v1","kind":"Pod","namespace":"tenant-tenant1","name":"nginx-1c2d3e4f5a"},
		"dueSince":"2026-11-21T05:29:07Z","next":"2026-11-21T05:29:12Z","attempts":3,
		"reported":{"state":"NotReady","message":"the Pod is not scheduled","doubt":"connection refused","lastSeen":"2026-11-21T05:28:00Z"}}`
	exampleOperation = `{"id":"2621114006130701074-instantiate","operation":"instantiate","detail":"rollback to 3",` + exampleGroup + `,
		"kind":"deployment intent group","instance":"2621114006130701074","state":"Running","requestedBy":"anna",
		"started":"2026-11-21T05:29:07Z","ended":"2026-11-21T05:32:07Z","status":"Instantiating","reason":"connection refused",
		"counts":{"Applied":5,"Retrying":3},` + exampleWorkflow + `}`
	exampleHead  = `{"writer":"worker-k3jd7","number":41,"hash":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08","closed":true}`
	exampleAudit = `{"writer":"api-x7d2q","number":1234,"time":"2026-11-21T05:29:07.123Z","event":"answered",
		"who":{"kind":"user","name":"alice@example.org","by":"oidc https://dex.example.org"},"from":"192.0.2.7:51834",
		"verb":"instantiate","noun":"deployment-intent-groups",
		"key":"projects/testvfw/composite-apps/compositevfw/v1/deployment-intent-groups/vfw_deployment_intent_group",
		"begun":1233,"outcome":"done","before":"hmac-sha256:5b1e","after":"hmac-sha256:77c0","more":12,"mark":"c2hvcnQ=",
		"request":"KQPXBCWTTAYZDWXM","trace":"4bf92f3577b34da6a3ce929d0e0e4736","workflow":"0198a3c1-6a7e-7c1b-9d8e-2f6b1f6f0a11",
		"checkpoint":{"key":"ed25519:2f1c6a0e55d0a8f34f1d0b6f3e9c8a71","public":"O2onvM62pC1io6jQKm8Nc2UyFXcd4kOmOsBIoYtZ2ik=",
			"told":1233,"heads":[` + exampleHead + `],"dropped":[` + exampleHead + `],"closes":true},
		"prev":"2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae","hash":"fcde2b2edba56bf408601fb721fe9b5c338d10ee429ea04fae5511b68fbf8fb9",
		"signature":"(base64)"}`
	exampleGroupStanding = `{` + exampleMetadata + `,` + exampleGroupSpec + `,` + exampleGroup + `,
		"status":{"state":"Instantiated","since":"2026-11-21T05:29:07Z","instance":"2621114006130701074","contextStatus":"InstantiateFailed",
			"revision":1,"counts":{"Applied":7,"Failed":1},"health":` + exampleHealth + `,"reason":"a cluster refuses a resource"}}`
	exampleHealth = `{"ready":false,"counts":{"Ready":6,"NotReady":1,"NotPresent":1}}`
)

// examples are bodies, by the names of their types in the document, with the values of the vFW example (deploy/examples/vfw).
// Members have theirs from them.
var examples = map[string]string{
	"ClusterProvider":   `{"metadata":{"name":"vfw-cluster-provider"}}`,
	"Cluster":           `{"metadata":{"name":"edge01"},"spec":{"gitOps":{"gitOpsType":"","gitOpsReferenceObject":"","gitOpsResourceObject":""},"report":"auto"}}`,
	"ClusterLabel":      `{"clusterLabel":"LabelA"}`,
	"ClusterKV":         exampleKV,
	"ClusterSyncObject": exampleKV,
	"LogicalCloudKV":    exampleKV,
	"Network":           `{"metadata":{"name":"protected-private-net"},"spec":{"cniType":"ovn4nfv",` + exampleSubnets + `}}`,
	"ProviderNetwork": `{"metadata":{"name":"emco-private-net"},"spec":{"cniType":"ovn4nfv",` + exampleSubnets + `,"providerNetType":"VLAN",
		"vlan":{"vlanID":"102","providerInterfaceName":"eth1","logicalInterfaceName":"eth1.102","vlanNodeSelector":"specific",
			"nodeLabelList":["kubernetes.io/hostname=localhost"]}}}`,

	"Project":      `{"metadata":{"name":"testvfw","description":"a virtual firewall","userData1":"team edge","userData2":"cost centre 7"},"spec":{"fourEyes":true}}`,
	"LogicalCloud": `{"metadata":{"name":"lcadmin"},"spec":{"namespace":"default","labels":{"team":"edge"},"level":"0","user":{"userName":"user-1","type":"certificate"}}}`,
	"ClusterReference": `{"metadata":{"name":"lc-edge01"},"spec":{"clusterProvider":"vfw-cluster-provider","cluster":"edge01",
		"loadBalancerIP":"0.0.0.0","certificate":""}}`,
	"UserPermission": `{"metadata":{"name":"permission-1"},"spec":{"namespace":"ns1","apiGroups":["","apps"],"resources":["secrets","pods","deployments"],
		"verbs":["get","list","watch","create","update","patch","delete"]}}`,
	"ClusterQuota": `{"metadata":{"name":"quota-1"},"spec":{"limits.cpu":"4","limits.memory":"16Gi"}}`,

	"CompositeApp":     `{"metadata":{"name":"compositevfw"},"spec":{"compositeAppVersion":"v1"}}`,
	"App":              `{"metadata":{"name":"packetgen"}}`,
	"AppDependency":    `{"metadata":{"name":"after-sink"},"spec":{"app":"sink","opStatus":"Ready","wait":5}}`,
	"CompositeProfile": `{"metadata":{"name":"vfw_composite-profile"}}`,
	"Profile":          `{"metadata":{"name":"packetgen-profile"},"spec":{"app":"packetgen"}}`,

	"DeploymentIntentGroup": `{` + exampleMetadata + `,` + exampleGroupSpec + `}`,
	"DeploymentIntent":      `{"metadata":{"name":"vfw_deployment-intents"},"spec":{"intent":{"genericPlacementIntent":"vfw_placement-intent"}}}`,
	"PlacementIntent":       `{"metadata":{"name":"vfw_placement-intent"}}`,
	"AppIntent": `{"metadata":{"name":"packetgen-placement-intent","description":"on every edge","userData1":"","userData2":""},"spec":{"app":"packetgen",
		"intent":{"allOf":[{"clusterProvider":"vfw-cluster-provider","clusterLabel":"LabelA"}]}}}`,
	"NetControllerIntent": `{"metadata":{"name":"vfw_ovnaction_intent"}}`,
	"WorkloadIntent":      `{"metadata":{"name":"firewall_workload_intent"},"spec":{"app":"firewall","workloadResource":"r1-firewall","type":"Deployment"}}`,
	"InterfaceIntent": `{"metadata":{"name":"firewall_protected_if"},"spec":{"interface":"eth2","name":"protected-private-net","defaultGateway":"false",
		"ipAddress":"192.168.20.2","macAddress":"02:42:ac:11:00:02"}}`,
	"TrafficGroupIntent": `{"metadata":{"name":"testdtc"}}`,
	"InboundServerIntent": `{"metadata":{"name":"serverin"},"spec":{"app":"http-server","appLabel":"app=http-server","serviceName":"http-service",
		"externalName":"httpbin.k8s.com","port":3333,"protocol":"TCP","externalSupport":false,"serviceMesh":"none","edgeCNF":"",
		"management":{"sidecarProxy":"yes","tlsType":"NONE"},
		"external":{"externalCerts":{"serviceCertificate":"","servicePrivateKey":"********","caCertificate":""}}}}`,
	"InboundClientsIntent": `{"metadata":{"name":"client1"},"spec":{"app":"http-client","appLabel":"app=http-client","serviceName":"http-client",
		"namespaces":["default"],"cidrs":["172.168.21.0/24"]}}`,
	"InboundClientsAccessIntent": `{"metadata":{"name":"status"},"spec":{"action":"ALLOW","url":["/status/*"],"access":["GET"]}}`,
	"HPAIntent":                  `{"metadata":{"name":"hpa-placement-intent-1"},"spec":{"app":"http-client"}}`,
	"HPAConsumer":                `{"metadata":{"name":"hpa-resource-consumer-1"},"spec":{"name":"r1-http-client","apiVersion":"apps/v1","kind":"Deployment","replicas":2,"container":"http-client"}}`,
	"HPAResource": `{"metadata":{"name":"hpa-resource-cpu"},"spec":{"allocatable":true,"mandatory":true,"weight":1,
		"resource":{"name":"cpu","requests":4,"limits":4,"units":"cores"}}}`,
	"HPAResourceName":  `{"key":"feature.node.kubernetes.io/intel_qat","value":"true"}`,
	"GenericK8sIntent": `{"metadata":{"name":"operator-gac-intent"}}`,
	"GenericResource":  `{"metadata":{"name":"cm-game-resource"},"spec":{"app":"operator","newObject":"true","resourceGVK":{"apiVersion":"v1","kind":"ConfigMap","name":"cm-game"}}}`,
	"Customization": `{"metadata":{"name":"etcd-customization"},"spec":{"clusterSpecific":"true",
		"clusterInfo":{"scope":"label","clusterProvider":"operator-provider","cluster":"edge01","clusterLabel":"edge","mode":"allow"},
		"patchType":"json","patchJson":[{"op":"copy","from":"/metadata/name","path":"/metadata/labels/of","value":""}],
		"configMapOptions":{"dataKeyOptions":[{"fileName":"game.yaml","keyName":"game.properties","mergePatch":"false"}]},"secretOptions":{}}}`,
	"AppIntentSpec": `{"app":"sink","intent":{"allOf":[{"clusterProvider":"vfw-cluster-provider","cluster":"edge01"},
			{"anyOf":[{"clusterProvider":"vfw-cluster-provider","cluster":"edge02"},{"clusterProvider":"vfw-cluster-provider","clusterLabel":"LabelA"}]}],
		"anyOf":[{"clusterProvider":"vfw-cluster-provider","clusterLabel":"LabelA"}]}}`,
	"api.intentList":          `{"intent":[{"genericPlacementIntent":"vfw_placement-intent"}]}`,
	"api.intentBinding":       `{"intent":{"genericPlacementIntent":"vfw_placement-intent"}}`,
	"service.RollbackRequest": `{"metadata":{"name":"rollback","description":"back to what worked"},"spec":{"revision":"1"}}`,
	"service.MigrateRequest": `{"metadata":{"name":"migrate","description":"to the next version"},
		"spec":{"targetCompositeAppVersion":"v2","targetDeploymentIntentGroup":"vfw_deployment_intent_group"}}`,
	"int": `2`, // the revision after an update

	"Tenant": `{"metadata":{"name":"tenant1"},"spec":{"cluster":"vfw-cluster-provider+edge01","nodes":"hosts","podSecurity":"baseline",
		"kinds":["v1/Pod"],"deleteGuard":50,"deleteAfter":"30s"}}`,
	"Host":         `{"metadata":{"name":"host-a"},"spec":{"nodes":["dpu1-host-a","dpu2-host-a"]}}`,
	"WorkloadRule": exampleRule,
	"Workload":     exampleWorkload,
	"service.Whoami": `{"installation":"3f9a0c1b7d2e4f58","kind":"user","name":"dex:alice@example.org","groups":["dex:edge"],"by":"oidc https://dex.example.org","expires":"2026-11-21T06:29:07Z",
		"scope":"projects/testvfw","rights":[{"noun":"deployment-intent-groups","may":["approve","get"],
			"mayNot":[{"verb":"stop","kind":"Forbidden","why":"user dex:alice@example.org has no right to stop deployment-intent-groups of projects/testvfw"}]}]}`,
	"service.AuditList":    `{"items":[` + exampleAudit + `],"continue":"MjAyNjExMjFUMDUyOTA3"}`,
	"audit.Keys":           `{"keys":[{"key":"ed25519:2f1c6a0e55d0a8f34f1d0b6f3e9c8a71","public":"O2onvM62pC1io6jQKm8Nc2UyFXcd4kOmOsBIoYtZ2ik="}]}`,
	"service.WorkloadList": `{"items":[` + exampleWorkload + `],"continue":"d29ya2xvYWQ"}`,
	"service.Match":        exampleMatch,
	"service.RulePreview": `{"rule":"tenants/tenant1/workload-rules/tenantrule1","replaces":true,"workloads":12,"matched":4,"beyond":1,
		"counts":{"Create":1,"Replace":1,"Keep":1},"items":[{"tenant":"tenant1","workload":"aac076f4-a565-4ed0-aac2-3da5698f5a78","pod":"default/nginx",
			"effect":"Create","reason":"the workload is on no node yet","cluster":"vfw-cluster-provider+edge01","nodes":["dpu1-host-a"],
			"object":{"apiVersion":"v1","kind":"Pod","namespace":"tenant-tenant1","name":"nginx-1c2d3e4f5a"},
			"manifest":{"apiVersion":"v1","kind":"Pod"}}],"continue":"dGVuYW50MQ"}`,
	"service.GroupPreview": `{"group":"projects/testvfw/composite-apps/compositevfw/v1/deployment-intent-groups/vfw_deployment_intent_group","apps":[{
		"app":"sink","resources":3,"total":6,"clusters":[{"cluster":"vfw-cluster-provider+edge01","placement":"allOf"},{"cluster":"vfw-cluster-provider+edge02","placement":"anyOf: first of 1 that fit of 2",
			"passed":["vfw-cluster-provider+edge03: 2 nodes, none with 4 free cpu (hpa intent h)"]}],
		"effects":[{"resource":"Deployment/fw0-sink","effects":["annotation k8s.v1.cni.cncf.io/networks by ovnaction intent vfw"]}],
		"differences":[{"clusters":["vfw-cluster-provider+edge02"],"variants":1,"resources":[{"resource":"Deployment/fw0-sink","absent":false,
			"effects":["replace /spec/replicas by gac intent g, resource sink, customization replicas"],"elsewhere":["annotation k8s.v1.cni.cncf.io/networks by ovnaction intent vfw"]}]}]}],
		"warnings":["app sink: no cluster carries the label LabelB"]}`,
	"service.GroupDiff": `{"group":"projects/testvfw/composite-apps/compositevfw/v2/deployment-intent-groups/vfw_deployment_intent_group","operation":"migrate","from":3,"to":2,
		"source":"projects/testvfw/composite-apps/compositevfw/v1/deployment-intent-groups/vfw_deployment_intent_group",
		"changes":{"create":1,"change":2,"again":1,"run":1,"delete":1},"unchanged":8,"clusters":2,
		"apps":[{"app":"sink","clusters":2,"changes":{"create":1,"change":2,"again":1,"run":1,"delete":1}}],
		"items":[{"app":"sink","clusters":["vfw-cluster-provider+edge01","vfw-cluster-provider+edge02"],"arrives":false,"leaves":false,"resources":[
			{"resource":"Deployment/fw0-sink","version":"apps/v1","action":"change","replace":true,"more":2,"fields":[
				{"path":"spec.template.spec.containers[name=\"sink\"].image","before":"sink:1.0","after":"sink:1.1","cut":false}]},
			{"resource":"ConfigMap/fw0-sink","version":"v1","action":"create","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"fw0-sink"}},"cut":false}]}],
		"continue":"c2luaw","warnings":["app sink: no cluster carries the label LabelB"]}`,
	"service.MatchList": `{"items":[` + exampleMatch + `],"continue":"d29ya2xvYWQ","beyond":7}`,
	"service.TenantStatus": `{"connected":false,"since":"2026-11-21T05:00:00Z","staleSince":"2026-11-21T05:29:07Z","workloads":12,"held":1,"gone":1,
		"matches":{"Applied":3,"Pending":1},"due":1,"reported":{"Ready":2,"NotReady":1},"leftOut":[{"id":"svc-1","pod":"default/web","reason":"its type is not v1/Pod of Kubernetes"}],
		"leftOutCount":1}`,
	"OperatorRule":   exampleRule,
	"ServiceAccount": `{"metadata":{"name":"ci","description":"our pipeline"}}`,
	"ServiceAccountToken": `{"metadata":{"name":"first"},"spec":{"expiresAfter":"720h"},"status":{"token":"drover.c2VydmljZS1hY2NvdW50cy9jaS90b2tlbnMvZmlyc3Q.…",
		"expires":"2026-12-21T05:29:07Z","lastUsed":"2026-11-21T05:29:07Z"}}`,
	"TenantToken": `{"metadata":{"name":"agent"},"spec":{"expiresAfter":"720h"},"status":{"token":"drover.dGVuYW50cy90ZW5hbnQxL3Rva2Vucy9hZ2VudA.…",
		"expires":"2026-12-21T05:29:07Z","lastUsed":"2026-11-21T05:29:07Z"}}`,

	"Controller":        `{"metadata":{"name":"rsync"},"spec":{"host":"127.0.0.1","port":9031,"type":"action","priority":1}}`,
	"ServiceController": exampleController,
	"DTCController":     `{"metadata":{"name":"nps"},"spec":{"host":"nps","port":9038,"type":"action","priority":1}}`,
	"Role": `{"metadata":{"name":"starter"},"spec":{"rules":[{"verbs":["get","instantiate","stop"],"nouns":["deployment-intent-groups"],
		"scopes":["project"]}]}}`,
	"RoleBinding": `{"metadata":{"name":"web-team"},"spec":{"role":"editor","subjects":[
		{"kind":"service-account","name":"service-accounts/ci"}]}}`,
	"ReadinessRule": `{"metadata":{"name":"databases"},"spec":{"group":"example.com","version":"v1","kind":"Database",
		"ready":"object.status.phase == 'Running'","message":"object.status.message"}}`,
	"StatusCollector": `{"apiVersion":"control.kubestellar.io/v1alpha1","kind":"StatusCollector","metadata":{"name":"availability","description":"how many are available","userData1":"anna","userData2":"edge","labels":{"team":"edge"},"annotations":{"example.com/owner":"anna"}},
		"spec":{"filter":"obj.kind == 'Deployment'","groupBy":[{"name":"available","def":"returned.status.availableReplicas"}],
			"combinedFields":[{"name":"count","type":"COUNT"},{"name":"restarts","type":"SUM","subject":"returned.status.unavailableReplicas"}],"limit":20,
			"orderBy":[{"column":"count","descending":true}]},
		"status":{"observedGeneration":1,"errors":["spec.filter: undeclared reference to 'x'"]}}`,
	"StatusCollectorSpec": `{"filter":"propagation.stale","select":[{"name":"wec","def":"inventory.name"},{"name":"since","def":"propagation.staleSince"}]}`,
	"ObjectTest": `{"apps":["sink"],"apiGroup":"apps","resources":["deployments"],"kinds":["Deployment"],"namespaces":["default"],"namespaceSelectors":[],
		"objectNames":["fw0-sink"],"objectSelectors":[{"matchLabels":{"app":"sink"}}]}`,
	"StatusIntent": `{"metadata":{"name":"deployments"},"spec":{"apps":["sink"],"apiGroup":"apps","resources":["deployments"],"kinds":["Deployment"],"namespaces":["default"],"namespaceSelectors":[],
		"objectNames":["fw0-sink"],"objectSelectors":[{"matchLabels":{"app":"sink"},"matchExpressions":[{"key":"tier","operator":"In","values":["edge"]}]}],
		"statusCollectors":["availability","fleet/phases"],"wantSingletonReportedState":true,"wantMultiWECReportedState":true,"together":true}}`,

	"service.TableQuery": `{"apiVersion":"control.kubestellar.io/v1alpha1","kind":"StatusCollector","metadata":{"name":"query"},
		"spec":{"select":[{"name":"wec","def":"inventory.name"},{"name":"phase","def":"returned.status.phase"}]},"tests":{"kinds":["Deployment"]},"together":true}`,
	"combined.List": `{"apiVersion":"control.kubestellar.io/v1alpha1","kind":"CombinedStatusList","metadata":{},"items":[{
		"apiVersion":"control.kubestellar.io/v1alpha1","kind":"CombinedStatus",
		"metadata":{"name":"9f86d081884c7d65.60303ae22b998861","namespace":"default","labels":{"status.kubestellar.io/api-group":"apps","status.kubestellar.io/resource":"deployments",
			"status.kubestellar.io/namespace":"default","status.kubestellar.io/name":"fw0-sink","status.kubestellar.io/binding-policy":"vfw_deployment_intent_group"},
			"annotations":{"drover.io/app":"sink"}},
		"results":[{"name":"availability","columnNames":["wec","available","ready","status","images"],"rows":[{"columns":[{"type":"String","string":"edge01"},{"type":"Number","float":"3"},
			{"type":"Bool","bool":true},{"type":"Object","object":{"replicas":3}},{"type":"Array","array":["sink:1"]}]}],
			"rowErrors":[{"wec":{"clusterId":"vfw-cluster-provider+edge02"},"object":"Deployment.apps/default/fw0-sink","columnName":"available","error":"division by zero"}],
			"aggregationErrors":[{"columnName":"sum","error":"1 cluster is left out: vfw-cluster-provider+edge02 has \"many\""}],
			"totalRows":1,"truncated":false,"totalRowErrors":1,"warnings":["column images is null in every row"],"errors":["the table has taken longer than 10s"]}],
		"inputs":{"clusters":2,"reported":1,"stale":1,"unconfirmed":[{"clusterId":"vfw-cluster-provider+edge02","since":"2026-11-21T05:29:07Z","reason":"connection refused"}]}}]}`,
	"combined.ObjectList": `{"apiVersion":"v1","kind":"List","metadata":{},"items":[{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"fw0-sink","namespace":"default",
		"annotations":{"drover.io/reported-state":"aggregated","drover.io/reported-state-reason":"2 clusters"}},"spec":{"replicas":3},"status":{"availableReplicas":3}}]}`,

	"service.ClusterList": `{"items":[{"metadata":{"name":"edge01","description":"by the harbour"},"spec":{"report":"auto"},
		"resource":"cluster-providers/vfw-cluster-provider/clusters/edge01","status":{"connectivity":"Retrying","unreachableSince":"2026-11-21T05:28:02Z","heard":false,
			"lastHeard":"2026-11-21T05:28:00Z","reason":"connection refused","triedAt":"2026-11-20T05:28:00Z","report":"agentless","credentialsExpire":"2026-12-01T00:00:00Z","groups":3,"working":1,"failed":1,"labels":["edge"],"version":"v1.34.1"}}],"continue":"ZWRnZTAx"}`,
	"service.CheckedRights": `{"needed":170,"missing":["delete apps/*"],"unknown":"the cluster does not answer"}`,
	"service.ClusterCheck": `{"cluster":"cluster-providers/vfw-cluster-provider/clusters/edge01","reachable":true,"reason":"connection refused","version":"v1.34.1",
		"latencySeconds":0.004,"report":"auto","credentialsExpire":"2026-12-01T00:00:00Z","rights":{"needed":170,"missing":["delete apps/*"],"unknown":"the cluster does not answer"}}`,
	"service.LabelledCluster": `{"metadata":{"name":"edge01","description":"by the harbour"},"labels":[{"clusterLabel":"LabelA"}]}`,
	"service.GroupList":       `{"items":[` + exampleGroupStanding + `],"continue":"cHJvamVjdHM"}`,
	"service.GroupHealth":     exampleHealth,
	"operations.List":         `{"items":[` + exampleOperation + `],"continue":"cHJvamVjdHM"}`,
	"operations.Operation":    exampleOperation,
	"explain.Explanation": `{` + exampleNotAsWished + `,"judged":[` + exampleJudged + `],"moreJudged":1,"warnings":["deployment intent \"vfw\": intent \"i\" of controller \"c\" is not enforced"],
		"effects":["sink Deployment/fw0-sink on 2 clusters: annotation k8s.v1.cni.cncf.io/networks by ovnaction intent vfw"],
		"may":["stop","terminate"],"cluster":` + exampleOnCluster + `}`,
	"explain.Cluster": exampleOnCluster,
	"api.anyDocument": `{"project":"testvfw","compositeApp":"compositevfw","compositeAppVersion":"v1","compositeProfile":"vfw_composite-profile",
		"name":"vfw_deployment_intent_group","states":{"statusctxid":"2621114006130701074","actions":[
			{"state":"Created","instance":"","time":"2026-11-21T05:28:00.036Z","revision":0},
			{"state":"Instantiated","instance":"2621114006130701074","time":"2026-11-21T05:29:07.036Z","revision":1}]},
		"deployedStatus":"Instantiated","deployedCounts":{"Applied":8}}`,
	"fail.Problem": `{"title":"Bad Request","status":400,"detail":"metadata.name is required","kind":"Invalid",
		"errors":[{"field":"metadata.name","message":"is required"}],"requestID":"lZ8mJ0p3bYvQkqWcX2TtRn5sHd7fGa1e",
		"traceID":"0af7651916cd43dd8448eb211c80319c"}`,
}

// exampleOf is a body of the type of v, or a list of one.
func exampleOf(v any) (any, error) {
	if each, ok := v.(forms); ok {
		v = each[0]
	}
	t := reflect.TypeOf(v)
	list := t.Kind() == reflect.Slice
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	example, err := parseExample(typeName(t))
	if list {
		example = []any{example}
	}
	return example, err
}

func parseExample(name string) (example any, err error) {
	if err := json.Unmarshal([]byte(examples[name]), &example); err != nil {
		return nil, fmt.Errorf("the example of %s: %w", name, err)
	}
	return example, nil
}

// exemplify gives members the values that they have in the examples of bodies.
func (g schemas) exemplify() error {
	for _, name := range slices.Sorted(maps.Keys(examples)) {
		if g.into[name] == nil {
			continue
		}
		example, err := parseExample(name)
		if err != nil {
			return err
		}
		g.into[name].Value.Example = example
		g.fill(g.into[name], example)
	}
	return nil
}

func (g schemas) fill(schema *openapi3.SchemaRef, example any) {
	if name, ok := strings.CutPrefix(schema.Ref, "#/components/schemas/"); ok {
		schema = g.into[name]
	}
	switch value := example.(type) {
	case map[string]any:
		for name, member := range schema.Value.Properties {
			part, ok := value[name]
			if !ok {
				continue
			}
			if member.Ref == "" && (member.Value.Example == nil || member.Value.Example == "") {
				member.Value.Example = part
			}
			g.fill(member, part)
		}
	case []any:
		if schema.Value.Items == nil { // it may be anything
			return
		}
		for _, element := range value {
			g.fill(schema.Value.Items, element)
		}
	}
}
