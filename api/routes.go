package api

import (
	"cmp"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/combined"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/operations"
	"github.com/drover-io/drover/internal/service"
)

// resources are the nouns: the plain verbs of each, with what EMCO does differently for it.
func (e *edge) resources() []resource {
	return []resource{
		{noun: domain.ClusterProviders, put: always(201)},
		{noun: domain.ClustersNoun, put: upsert, keeps: true, fileName: "kubeconfig", file: "The kubeconfig of the cluster", secret: true, list: listClusters, listed: forms{[]domain.Cluster{}, service.ClusterList{}, []service.LabelledCluster{}, []string{}}, query: clusterListQuery},
		{noun: domain.ClusterLabels, put: always(201)},
		{noun: domain.ClusterKVs, put: always(201), get: getPairs, itemQuery: kvQuery},
		{noun: domain.Networks, put: always(201)},
		{noun: domain.ProviderNetworks, put: always(201)},
		{noun: domain.ClusterSyncObjects, put: always(201), get: getPairs, itemQuery: kvQuery},

		{noun: domain.Projects, put: always(200)},
		{noun: domain.LogicalClouds, put: always(201), mismatch: fail.Conflict},
		{noun: domain.ClusterReferences},
		{noun: domain.UserPermissions},
		{noun: domain.ClusterQuotas},
		{noun: domain.LogicalCloudKVs},

		{noun: domain.CompositeApps, put: always(201)},
		{noun: domain.Apps, put: always(201), fileName: "fileContent", file: "The Helm chart as .tgz"},
		{noun: domain.AppDependencies, put: always(201)},
		{noun: domain.CompositeProfiles, put: always(201)},
		{noun: domain.Profiles, put: always(201), keeps: true, file: "The profile as .tgz: manifest.yaml, and the files that it names", list: e.listProfiles, query: profileListQuery},

		{noun: domain.DeploymentIntentGroups, put: upsert, list: listGroups, listed: forms{[]domain.DeploymentIntentGroup{}, service.GroupList{}}, query: fullQuery},
		{noun: domain.DeploymentIntents, put: upsert, list: listIntents, listed: forms{intentList{}, intentBinding{}, []domain.DeploymentIntent{}}, query: intentQuery},
		{noun: domain.PlacementIntents, put: upsert},
		{noun: domain.AppIntents, put: upsert, list: listAppIntents, listed: forms{[]domain.AppIntent{}, domain.AppIntentSpec{}}, query: appIntentListQuery},
		{noun: domain.StatusIntents, put: upsert},
		{noun: domain.NetControllerIntents, put: always(201)},
		{noun: domain.WorkloadIntents, put: always(201)},
		{noun: domain.InterfaceIntents, put: always(201)},
		{noun: domain.TrafficGroupIntents, put: always(201)},
		{noun: domain.InboundServerIntents, put: always(201)},
		{noun: domain.InboundClientsIntents, put: always(201)},
		{noun: domain.InboundClientsAccessIntents, put: always(201)},
		{noun: domain.HPAIntents, put: always(200), list: listOrOne("intent"), listed: forms{[]domain.HPAIntent{}, domain.HPAIntent{}}, query: oneQuery("intent", "hpa intent"), clears: true},
		{noun: domain.HPAConsumers, put: always(200), list: listOrOne("consumer"), listed: forms{[]domain.HPAConsumer{}, domain.HPAConsumer{}}, query: oneQuery("consumer", "consumer"), clears: true},
		{noun: domain.HPAResources, put: always(200), list: listOrOne("resource"), listed: forms{[]domain.HPAResource{}, domain.HPAResource{}}, query: oneQuery("resource", "resource requirement"), clears: true},
		{noun: domain.GenericK8sIntents, put: upsert},
		{noun: domain.GenericResources, put: upsert, keeps: true, fileName: "resourceTemplate", part: "resource", file: "The object in YAML or JSON, which a new one needs unless it is a ConfigMap or a Secret"},
		{noun: domain.Customizations, put: upsert, keeps: true, part: "customization", file: "A file: data of a ConfigMap or a Secret, or a merge patch"},

		{noun: domain.Controllers, put: always(201)},
		{noun: domain.CLMControllers, put: always(200)},
		{noun: domain.DTCControllers, put: always(201)},

		{noun: domain.ReadinessRules, put: upsert},

		{noun: domain.StatusCollectors, put: upsert},
		{noun: domain.ProjectCollectors, put: upsert},
		{noun: domain.Tenants, put: upsert},
		{noun: domain.Hosts, put: upsert},
		{noun: domain.WorkloadRules, put: upsert},
		{noun: domain.OperatorRules, put: upsert},
		{noun: domain.TenantTokens},
		{noun: domain.ServiceAccounts, put: upsert},
		{noun: domain.ServiceAccountTokens},

		{noun: domain.Roles, put: upsert},
		{noun: domain.RoleBindings, put: upsert},
		{noun: domain.ProjectRoleBindings, put: upsert},
		{noun: domain.ProviderRoleBindings, put: upsert},
	}
}

const aboutStatus = "By app, cluster and resource: what was done (status=deployed) or what became of it in the clusters (status=ready). With watch, a stream of what changes."

// operations are what is not a plain verb.
func (e *edge) operations() []endpoint {
	get := func(noun *domain.Noun, verb door.Verb, path, summary, about string, out any, query []parameter, handle handler) endpoint {
		return endpoint{method: http.MethodGet, path: path, verb: verb, noun: noun, summary: summary, about: about, out: map[int]any{200: out}, query: query, handle: handle}
	}
	watched := func(p endpoint, watch handler) endpoint {
		p.watch = watch
		return p
	}
	kubeconfig := get(domain.ClusterReferences, door.Download, onePath(domain.ClusterReferences)+"/kubeconfig", "Download the kubeconfig of a logical cloud's user for one cluster", "For clouds of level 1, once they are instantiated; it has the rights of the user permissions.", nil, nil, userKubeconfig)
	kubeconfig.also = []string{mimeYAML}
	all := []endpoint{
		kubeconfig,
		watched(get(domain.Operations, door.List, manyPath(domain.Operations), "List the operations that go on, and those that have ended lately",
			"Those that go on come first, then those that have ended, the last one first. With watch, a stream of what changes, for who may see the whole fleet.",
			operations.List{}, operationsQuery, listOperations), e.watchOperations),
		get(domain.Operations, door.Get, onePath(domain.Operations), "Show the last run of an operation", "With where it has brought its instance, and how many resources are in each state.", operations.Operation{}, nil, getOperation),
	}
	for _, many := range []struct{ below, whose string }{{"", "fleet"}, {onePath(domain.Projects), "project"}} {
		all = append(all, watched(get(domain.DeploymentIntentGroups, door.List, many.below+"/"+domain.DeploymentIntentGroups.Collection,
			"List the deployment intent groups of the "+many.whose+" with where each of them stands",
			"In pages, sorted by path. With watch, a stream of what changes.",
			service.GroupList{}, []parameter{limitQuery, continueQuery, groupsWatchQuery}, groupsBelow), e.watchGroups))
	}
	all = append(all, watched(get(domain.ClustersNoun, door.List, "/"+domain.ClustersNoun.Collection, "List the clusters of all providers with where each of them stands",
		"In pages, sorted by provider and name. With watch, a stream of what changes.",
		service.ClusterList{}, []parameter{limitQuery, continueQuery, clustersWatchQuery}, clustersOfFleet), e.watchClusters))
	all = append(all, get(domain.ClustersNoun, door.Query, onePath(domain.ClustersNoun)+"/check", "Ask a cluster what it is like",
		"With the credential that is registered: whether it answers, its version, the time of a round trip, and which of the rights are missing that are needed for the way in which it reports. Ten seconds at the most; that it does not answer is an answer.",
		service.ClusterCheck{}, clusterCheckQuery, checkCluster))
	all = append(all, tenancy()...)
	all = append(all, e.whoamis())
	all = append(all, e.audits()...)
	group := onePath(domain.DeploymentIntentGroups)
	all = append(all,
		watched(get(domain.DeploymentIntentGroups, door.Status, group+"/combined-status", "Show the tables that status intents ask for",
			"An item for each object of the group that a status collector is named for, with a result for each collector: a table over all its clusters, as KubeStellar's CombinedStatus has it. With watch, a stream of what changes.",
			combined.List{}, tablesQuery, combinedStatus), e.watchTables(service.CombinedStatusQuestion)),
		watched(get(domain.DeploymentIntentGroups, door.Status, group+"/objects", "Show the objects of a deployment intent group with the status that status intents ask for",
			"Each object that the group wants in clusters, once, as a List of Kubernetes: with the status that its one cluster reports, or that is aggregated of all. With watch, a stream of what changes.",
			combined.ObjectList{}, tablesQuery, wantedObjects), e.watchTables(service.ObjectsQuestion)),
		endpoint{
			method: http.MethodPost, path: group + "/combined-status/query", verb: door.Query, noun: domain.DeploymentIntentGroups,
			summary: "Evaluate a status collector once", about: "On the objects that pass the tests, as combined-status would show it. Nothing is stored.",
			in: service.TableQuery{}, out: map[int]any{http.StatusOK: combined.List{}}, handle: queryTables,
		},
		endpoint{
			method: http.MethodGet, path: group + "/preview", verb: door.Query, noun: domain.DeploymentIntentGroups, renders: true,
			summary: "Show what an instantiate of a deployment intent group would put where",
			about:   "To which clusters each app would go and why, what intents make of which resources, and which clusters get something otherwise than most. It is rendered and placed as approve does it, and refused for the same reasons; nothing is done.",
			out:     map[int]any{http.StatusOK: service.GroupPreview{}}, handle: previewGroup,
		},
		endpoint{
			method: http.MethodGet, path: group + "/diff", verb: door.Query, noun: domain.DeploymentIntentGroups, renders: true,
			summary: "Show what an operation on a deployment intent group would change in clusters",
			about:   "By app, by clusters on which the same would be done, by resource and by field, from the plan that the operation would make; nothing is stored or done. It compares with what Drover has applied, not with what others have changed in clusters. Without operation it is the one that is due: an update where there is an instance, else an instantiate. Refused for the reasons of the operation.",
			out:     map[int]any{http.StatusOK: service.GroupDiff{}}, query: diffQuery, handle: diffGroup,
		})
	for _, noun := range domain.Owners {
		for _, o := range noun.Owner.Operations {
			all = append(all, operation(noun, o))
		}
		summary, query, handle, watch := "Show where a "+noun.Title+" stands", statusQuery, handler(statusOf), e.watchOwner
		out := any(anyDocument{})
		switch noun {
		case domain.LogicalClouds:
			query = cloudStatusQuery
		case domain.ClustersNoun:
			summary, query, handle, watch = "Show where the network intents of a cluster stand, or what runs there", networkStatusQuery, clusterStatus, e.watchCluster
			out = forms{anyDocument{}, explain.Cluster{}}
		}
		all = append(all,
			watched(get(noun, door.Status, onePath(noun)+"/status", summary, aboutStatus, out, query, handle), watch),
			textual(get(noun, door.Explain, onePath(noun)+"/explain", "Say why a "+noun.Title+" is not as it was wished",
				"Which operation waits for which cluster, app or resource, the newest error, when it is tried again, and what can be done.",
				explain.Explanation{}, explainQuery, explainOwner)))
	}
	return all
}

// textual is an endpoint that answers as text, too.
func textual(p endpoint) endpoint {
	p.also = []string{echo.MIMETextPlain}
	return p
}

// answer is what EMCO answers to an operation: 202 where no code is given, and without a body where none is. An update without
// one is answered with its revision.
type answer struct {
	code int
	body any
}

// answers are those that are not 202 without a body.
var answers = map[*domain.Noun]map[domain.Operation]answer{
	domain.ClustersNoun:  {domain.OpInstantiate: {code: 204}, domain.OpTerminate: {code: 204}, domain.OpStop: {code: 204}},
	domain.LogicalClouds: {domain.OpStop: {code: 200}, domain.OpUpdate: {body: &domain.LogicalCloud{}}},
}

// operation is the endpoint of an operation on the owners of a noun.
func operation(noun *domain.Noun, o domain.OwnerOperation) endpoint {
	answered := answers[noun][o.Operation]
	ok := cmp.Or(answered.code, http.StatusAccepted)
	p := endpoint{
		method: http.MethodPost, path: onePath(noun) + "/" + o.Called(), verb: door.Verb(o.Operation), noun: noun,
		summary: o.Summary, about: o.About,
	}
	var out any
	switch o.Operation {
	case domain.OpApprove:
		p.handle = warned(ok, door.Service.Approve)
	case domain.OpInstantiate:
		p.handle = warned(ok, door.Service.Instantiate)
	case domain.OpTerminate:
		p.handle = operate(ok, door.Service.Terminate)
	case domain.OpStop:
		p.handle = operate(ok, door.Service.Stop)
	case domain.OpUpdate:
		p.handle, out = update(answered.body), cmp.Or(answered.body, any(0))
		p.query = []parameter{reapplyQuery}
	case domain.OpRollback:
		p.handle, p.in = rollback, service.RollbackRequest{}
	case domain.OpMigrate:
		p.handle, p.in = migrate, service.MigrateRequest{}
	default: // users cannot ask for it; TestOwners lets no owner offer it
	}
	p.out = map[int]any{ok: out}
	p.begins = o.Operation != domain.OpApprove && o.Operation != domain.OpStop
	return p
}

// always answers a PUT with one code; upsert tells a new document from a replaced one.
func always(code int) putCodes { return putCodes{created: code, replaced: code} }

var upsert = putCodes{created: http.StatusCreated, replaced: http.StatusOK}

// words are the values of a parameter.
func words[T ~string](values []T) []string {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = string(v)
	}
	return names
}

// namesOf are those of parameters.
func namesOf(of []parameter) []string {
	all := make([]string, len(of))
	for i, k := range of {
		all[i] = k.name
	}
	return all
}

// oneQuery names one of a list.
func oneQuery(name, title string) []parameter {
	return []parameter{{name: name, about: "answer with this " + title + ", not with the list", filled: true}}
}

// The query parameters.
var (
	reapplyQuery     = parameter{name: "reapply", about: "true: apply all that is wanted, also what is in clusters already by the records: what others have changed there, or taken away, is put back; each such call makes a revision, and runs the hooks of an update on each cluster", enum: truths}
	validationQuery  = parameter{name: fieldValidation, about: "what is done about members of a body, and parts of a form, that nobody knows: Strict refuses them, Warn, the default, names them in a Warning header, Ignore says nothing", enum: []string{validateStrict, validateWarn, validateIgnore}}
	clusterListQuery = []parameter{
		{name: "label", about: "answer with the names of the clusters that carry the label", filled: true},
		{name: "withLabels", about: "true: answer with the clusters' labels", filled: true},
		fullQuery[0], fullQuery[1], fullQuery[2],
	}
	clusterCheckQuery = []parameter{
		{name: "group", about: "a further API group whose kinds charts have; * for any", repeats: true},
		{name: "logicalCloudUsers", about: "true: it is to be in logical clouds of level 1, whose users have certificates signed", enum: truths},
	}
	kvQuery          = []parameter{{name: "key", about: "answer with the value of this key", filled: true}}
	profileListQuery = []parameter{{name: "app", about: "answer with the profile of this app", filled: true}}
	intentQuery      = []parameter{
		{name: "intent", about: "answer with what the intent of this name binds; without view", filled: true},
		{name: "view", about: "full: answer with the intents, names and all; what each binds when missing", enum: []string{"full"}},
	}
	appIntentListQuery = []parameter{
		{name: "app", about: "answer with the placement of this app; app-name must be given too, and say the same", filled: true},
		{name: "app-name", about: "the app", filled: true},
	}
	watchQuery  = parameter{name: "watch", about: "true: answer with server-sent events: the document (status), then what changes of it (change), with ids to go on from by Last-Event-ID; end, error and dropped are the last event", enum: truths}
	outputQuery = parameter{name: "output", about: "how much; counts, with status, has for each cluster how many resources are in each state in place of them. Of several the last one counts", enum: []string{"summary", "all", "detail", "counts"}, lastCounts: true}
	listIgnores = []string{"output", "resource"}
	statusQuery = []parameter{
		{name: "instance", about: "the context id; the last one when missing"},
		{name: "type", about: "what was done (rsync) or what clusters report (cluster), in the form of EMCO up to 21.03", enum: []string{"rsync", "cluster"}},
		{name: "status", about: "the same in the form of EMCO 22; overrides type", enum: []string{"deployed", "ready"}, ignores: []string{"type"}},
		outputQuery,
		{name: "app", about: "only this app", repeats: true},
		{name: "cluster", about: "only this cluster, as provider+cluster", repeats: true},
		{name: "resource", about: "only resources of this name", repeats: true},
		{name: "apps", about: "list the apps, all of them: output, app, cluster and resource do nothing beside it; it needs no value", flag: true, ignores: []string{"output", "app", "cluster", "resource"}},
		{name: "clusters", about: "list the clusters by app; output and resource do nothing beside it; it needs no value", flag: true, ignores: listIgnores},
		{name: "resources", about: "list the resources by app; output and resource do nothing beside it; it needs no value", flag: true, ignores: listIgnores},
		watchQuery,
	}
	tablesQuery = []parameter{
		{name: "app", about: "only objects of this app", repeats: true},
		{name: "kind", about: "only objects of this kind, such as Deployment", repeats: true},
		{name: "resource", about: "only objects of this name", repeats: true},
		{name: "collector", about: "only results of this collector, named as status intents name it", repeats: true},
		{name: "watch", about: "true: answer with server-sent events: the list (status), then its items that are new or say something else, whole, and in removed the names of those that are gone, of objects such as web/Deployment.apps/default/web with the app first (change); ids, end, error and dropped as with a status", enum: truths},
	}
	limitQuery    = parameter{name: "limit", about: "how many at the most, 1 to 1000; 100 when missing"}
	continueQuery = parameter{name: "continue", about: "what the page before has in continue: go on there"}
	fullQuery     = []parameter{
		{name: "view", about: "full: answer with items, each with its status (where it stands), in pages; EMCO's list when missing", enum: []string{"full"}},
		limitQuery, continueQuery,
	}
	groupsWatchQuery   = parameter{name: "watch", about: "true: answer with server-sent events: an object with where each group stands, by its path (status), then those that have changed, null for one that is gone (change); ids, end, error and dropped as with a status", enum: truths}
	clustersWatchQuery = parameter{name: "watch", about: "true: answer with server-sent events: an object with where each cluster stands, by its path (status; without lastHeard while it is heard), then those that have changed, null for one that is gone (change); ids, end, error and dropped as with a status", enum: truths}
	operationsQuery    = []parameter{
		{name: "project", about: "only what belongs to this project"},
		{name: "owner", about: "only those of this deployment intent group, logical cloud or cluster, by its path below /v2"},
		{name: "cluster", about: "only those that have, or had, something to do on this cluster, as provider+cluster; one with several apps there may come again on a later page"},
		{name: "kind", about: "only this operation", enum: operations.Kinds},
		{name: "state", about: "only in this state", enum: words(operations.States)},
		{name: "since", about: "leave out what had ended before: a time such as 2026-11-21T05:29:07Z, or how long ago, such as 2h30m"},
		limitQuery, continueQuery,
		{name: "watch", about: "true: answer with server-sent events: an object with up to 2000 operations that go on and up to 100 that have ended within 24h, by the ids of their runs (status), then those that have changed, null for one that is not among them any more (change); ids, end, error and dropped as with a status; without other parameters", enum: truths},
	}
	// One cluster has no lists.
	networkStatusQuery = append(statusQuery[:7:7], watchQuery,
		parameter{name: "view", about: "full: answer with what runs in the cluster, every deployment intent group and logical cloud with what hangs there and why, in place of EMCO's document of its network intents; no other parameter does anything beside it", enum: []string{"full"}, ignores: namesOf(statusQuery[:7])})
	diffQuery = []parameter{
		{name: "operation", about: "what would be asked for; the operation that is due when missing", enum: words([]domain.Operation{domain.OpInstantiate, domain.OpUpdate, domain.OpRollback, domain.OpMigrate})},
		{name: "revision", about: "of a rollback: the revision to go back to. Of an update: what it would do if this revision were there, as after a rollback to it, which may still go on"},
		{name: "reapply", about: "of an update: true: what it would do with this parameter", enum: truths},
		{name: "version", about: "of a migrate: the version of the composite app to migrate to"},
		{name: "group", about: "of a migrate: the group there; one of the same name when missing"},
		{name: "app", about: "only items of this app", repeats: true},
		{name: "cluster", about: "only items with this cluster, as provider+cluster, and only it", repeats: true},
		limitQuery, continueQuery,
	}
	explainQuery     = []parameter{{name: "output", about: "the form; what is accepted when missing", enum: []string{"json", "text"}}}
	cloudStatusQuery = []parameter{
		{name: "instance", about: "the context id; the last one when missing"},
		{name: "status", about: "ready when missing", enum: []string{"deployed", "ready"}},
		outputQuery,
		{name: "cluster", about: "only this cluster, as provider+cluster", repeats: true},
		{name: "resource", about: "only resources of this name", repeats: true},
		{name: "clusters", about: "list the clusters; output and resource do nothing beside it; it needs no value", flag: true, ignores: listIgnores},
		{name: "resources", about: "list the resources by cluster; output and resource do nothing beside it; it needs no value", flag: true, ignores: listIgnores},
		watchQuery,
	}
)
