package api

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/operations"
	"github.com/drover-io/drover/internal/service"
)

// The templates of the paths, below /v2. A template's segments are those of the keys of its documents.
const (
	projects    = "/projects"
	project     = projects + "/:project"
	clouds      = project + "/logical-clouds"
	cloud       = clouds + "/:logicalCloud"
	references  = cloud + "/cluster-references"
	compositeA  = project + "/composite-apps"
	composite   = compositeA + "/:compositeApp/:compositeAppVersion"
	profiles    = composite + "/composite-profiles"
	groups      = composite + "/deployment-intent-groups"
	group       = groups + "/:deploymentIntentGroup"
	placements  = group + "/generic-placement-intents"
	providers   = "/cluster-providers"
	syncObjects = providers + "/:clusterProvider/cluster-sync-objects"
	clusters    = providers + "/:clusterProvider/clusters"
	cluster     = clusters + "/:cluster"
)

// owners are the templates of owners, by their nouns.
var owners = map[*domain.Noun]string{
	domain.DeploymentIntentGroups: group, domain.LogicalClouds: cloud, domain.ClustersNoun: cluster,
}

// How long a request may take. The client command waits longer than all but uploads.
const (
	plainTime  = 30 * time.Second
	renderTime = 80 * time.Second // of what begins an operation: it answers when everything is rendered and placed
	uploadTime = 5 * time.Minute
	unlimited  = -1 // the handler bounds what it does
)

// resources are the nouns: the plain verbs of each, with what EMCO does differently for it.
func (e *edge) resources() []resource {
	return []resource{
		{noun: domain.ClusterProviders, path: providers, item: "/:clusterProvider", put: always(201)},
		{noun: domain.ClustersNoun, path: clusters, item: "/:cluster", put: upsert, upload: true, keeps: true, fileName: "kubeconfig", file: "The kubeconfig of the cluster", secret: true, list: e.listClusters, query: clusterListQuery},
		{noun: domain.ClusterLabels, path: cluster + "/labels", item: "/:clusterLabel", put: always(201)},
		{noun: domain.ClusterKVs, path: cluster + "/kv-pairs", item: "/:kvPair", put: always(201), get: e.getPairs(domain.ClusterKVs, cluster+"/kv-pairs/:kvPair"), itemQuery: kvQuery},
		{noun: domain.Networks, path: cluster + "/networks", item: "/:network", put: always(201)},
		{noun: domain.ProviderNetworks, path: cluster + "/provider-networks", item: "/:providerNetwork", put: always(201)},
		{noun: domain.ClusterSyncObjects, path: syncObjects, item: "/:clusterSyncObject", put: always(201), get: e.getPairs(domain.ClusterSyncObjects, syncObjects+"/:clusterSyncObject"), itemQuery: kvQuery},

		{noun: domain.Projects, path: projects, item: "/:project", put: always(200)},
		{noun: domain.LogicalClouds, path: clouds, item: "/:logicalCloud", put: always(201), mismatch: fail.Conflict},
		{noun: domain.ClusterReferences, path: references, item: "/:clusterReference"},
		{noun: domain.UserPermissions, path: cloud + "/user-permissions", item: "/:userPermission"},
		{noun: domain.ClusterQuotas, path: cloud + "/cluster-quotas", item: "/:clusterQuota"},
		{noun: domain.LogicalCloudKVs, path: cloud + "/kv-pairs", item: "/:kvPair"},

		{noun: domain.CompositeApps, path: compositeA, item: "/:compositeApp/:compositeAppVersion", put: always(201)},
		{noun: domain.Apps, path: composite + "/apps", item: "/:app", put: always(201), upload: true, fileName: "fileContent", file: "The Helm chart as .tgz"},
		{noun: domain.AppDependencies, path: composite + "/apps/:app/dependency", item: "/:dependency", put: always(201)},
		{noun: domain.CompositeProfiles, path: profiles, item: "/:compositeProfile", put: always(201)},
		{noun: domain.Profiles, path: profiles + "/:compositeProfile/profiles", item: "/:profile", put: always(201), upload: true, keeps: true, file: "The profile as .tgz: manifest.yaml, and the files that it names", list: e.listProfiles, get: e.getProfile, query: profileListQuery},

		{noun: domain.DeploymentIntentGroups, path: groups, item: "/:deploymentIntentGroup", put: upsert, list: e.listGroups, query: fullQuery},
		{noun: domain.DeploymentIntents, path: group + "/intents", item: "/:intent", put: upsert, list: e.listIntents, listed: intentList{}},
		{noun: domain.PlacementIntents, path: placements, item: "/:genericPlacementIntent", put: upsert},
		{noun: domain.AppIntents, path: placements + "/:genericPlacementIntent/app-intents", item: "/:appIntent", put: upsert, list: e.listAppIntents},

		{noun: domain.Controllers, path: "/controllers", item: "/:controller", put: always(201)},
		{noun: domain.CLMControllers, path: "/clm-controllers", item: "/:controller", put: always(200)},
		{noun: domain.DTCControllers, path: "/dtc-controllers", item: "/:controller", put: upsert},

		{noun: domain.ReadinessRules, path: "/readiness-rules", item: "/:readinessRule", put: upsert},
	}
}

const aboutStatus = "By app, cluster and resource: what was done (status=deployed) or what became of it in the clusters (status=ready). With watch, a stream of what changes."

// operations are what is not a plain verb.
func (e *edge) operations() []endpoint {
	post := func(path, summary, about string, ok int, in room, handle echo.HandlerFunc) endpoint {
		limit := renderTime
		if in == stopping {
			limit = plainTime
		}
		return endpoint{method: http.MethodPost, path: path, summary: summary, about: about, out: map[int]any{ok: nil}, limit: limit, room: in, handle: handle}
	}
	statusOf := func(owner, summary string, query []parameter) endpoint {
		return endpoint{method: http.MethodGet, path: owner + "/status", summary: summary, about: aboutStatus, out: map[int]any{200: anyDocument{}}, events: true, query: query, limit: unlimited, handle: e.status(owner)}
	}
	all := []endpoint{
		post(group+"/approve", "Approve a deployment intent group",
			"It is rendered and placed, and nothing is done in any cluster; what cannot be rendered is refused with the reason.",
			202, approving, warned(group, 202, e.lifecycle.Approve)),
		post(group+"/instantiate", "Instantiate a deployment intent group",
			"An approved group is rendered, placed and applied in its clusters. The answer comes when it is accepted: follow it with status.",
			202, beginning, e.instantiate(group, 202)),
		post(group+"/terminate", "Terminate a deployment intent group",
			"What it has in its clusters is deleted. The answer comes when it is accepted: follow it with status.",
			202, terminating, operate(group, 202, e.lifecycle.Terminate)),
		post(group+"/stop", "Stop the running operation of a deployment intent group",
			"What has been done stays; terminate takes it out.",
			202, stopping, operate(group, 202, e.lifecycle.Stop)),
		{method: http.MethodPost, path: group + "/update", summary: "Bring the instance of a deployment intent group in line with its intents, profiles and apps", about: "What is not wanted any more is pruned. The answer is the revision that the instance has then.", out: map[int]any{202: 0}, limit: renderTime, room: beginning, handle: e.update},
		{method: http.MethodPost, path: group + "/rollback", summary: "Bring the instance of a deployment intent group back to a revision", about: "Revisions count from 1 since the last instantiate; the rollback makes a new one.", in: rollbackBody{}, out: map[int]any{202: nil}, limit: renderTime, room: beginning, handle: e.rollback},
		{method: http.MethodPost, path: group + "/migrate", summary: "Hand the instance of a deployment intent group over to a group of another composite app version", about: "What both groups have stays in its clusters and is updated; the rest is applied or pruned. The other group must be approved.", in: migrateBody{}, out: map[int]any{202: nil}, limit: renderTime, room: beginning, handle: e.migrate},
		statusOf(group, "Show where a deployment intent group stands", statusQuery),
		{method: http.MethodGet, path: group + "/intents/", summary: "Show what one intent of a deployment intent group binds", about: "With the slash at the end of the path, as EMCO has it; without the query it lists what all intents bind.", out: map[int]any{200: intentBinding{}}, query: intentQuery, handle: e.listIntents},
		{method: http.MethodGet, path: placements + "/:genericPlacementIntent/app-intents/", summary: "Show the placement of one app", about: "With the slash at the end of the path, as EMCO has it; without the query it lists all app intents.", out: map[int]any{200: domain.AppIntentSpec{}}, query: appIntentListQuery, handle: e.listAppIntents},

		post(cluster+"/apply", "Apply the network intents of a cluster",
			"The networks and provider networks are applied in the cluster. The answer comes when it is accepted: follow it with status.",
			204, beginning, e.instantiate(cluster, 204)),
		post(cluster+"/terminate", "Terminate the network intents of a cluster",
			"The networks and provider networks are deleted in the cluster.",
			204, terminating, operate(cluster, 204, e.lifecycle.Terminate)),
		post(cluster+"/stop", "Stop the running operation on the network intents of a cluster",
			"What has been done stays; terminate takes it out.",
			204, stopping, operate(cluster, 204, e.lifecycle.Stop)),
		{method: http.MethodGet, path: cluster + "/status", summary: "Show where the network intents of a cluster stand, or what runs there", about: aboutStatus, out: map[int]any{200: anyDocument{}}, events: true, query: networkStatusQuery, limit: unlimited, handle: e.clusterStatus},

		post(cloud+"/instantiate", "Instantiate a logical cloud",
			"The namespace, the user and its rights are made in each cluster that is referred to. The answer comes when it is accepted: follow it with status.",
			202, beginning, warned(cloud, 202, e.service.InstantiateCloud)),
		post(cloud+"/terminate", "Terminate a logical cloud",
			"What it has in its clusters is deleted; no deployment intent group may name it any more.",
			202, terminating, operate(cloud, 202, e.service.TerminateCloud)),
		{method: http.MethodPost, path: cloud + "/update", summary: "Bring the clusters of a logical cloud in line with its references, permissions and quotas", about: "What was added is made in the clusters, and what was taken out is pruned there.", out: map[int]any{202: &domain.LogicalCloud{}}, limit: renderTime, room: beginning, handle: e.updateCloud},
		post(cloud+"/stop", "Stop the last operation of a logical cloud",
			"What has been done stays; terminate takes it out.",
			200, stopping, operate(cloud, 200, e.service.StopCloud)),
		statusOf(cloud, "Show where a logical cloud stands", cloudStatusQuery),
		{method: http.MethodGet, path: references + "/:clusterReference/kubeconfig", summary: "Download the kubeconfig of a logical cloud's user for one cluster", about: "For clouds of level 1, once they are instantiated; it has the rights of the user permissions.", out: map[int]any{200: nil}, handle: e.userKubeconfig},

		{method: http.MethodGet, path: "/operations", summary: "List the operations that go on, and those that have ended lately", about: "Those that go on come first, then those that have ended, the last one first.", out: map[int]any{200: operations.List{}}, query: operationsQuery, handle: e.listOperations},
		{method: http.MethodGet, path: "/operations/:operation", summary: "Show the last run of an operation", about: "With where it has brought its instance, and how many resources are in each state.", out: map[int]any{200: operations.Operation{}}, handle: e.getOperation},
	}
	for _, many := range []struct{ template, whose string }{{"", "fleet"}, {project, "project"}} {
		all = append(all, endpoint{
			method: http.MethodGet, path: many.template + "/" + domain.DeploymentIntentGroups.Collection,
			summary: "List the deployment intent groups of the " + many.whose + " with where each of them stands",
			about:   "In pages, sorted by path. With watch, a stream of what changes.",
			out:     map[int]any{200: service.GroupList{}}, query: []parameter{limitQuery, continueQuery, groupsWatchQuery},
			events: true, limit: unlimited, handle: e.manyGroups(many.template),
		})
	}
	for _, noun := range domain.Owners {
		all = append(all, endpoint{
			method: http.MethodGet, path: owners[noun] + "/explain", summary: "Say why a " + noun.Title + " is not as it was wished",
			about: "Which operation waits for which cluster, app or resource, the newest error, when it is tried again, and what can be done.",
			out:   map[int]any{200: explain.Explanation{}}, query: explainQuery, handle: e.explain(owners[noun]),
		})
	}
	return all
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

// The query parameters.
var (
	validationQuery  = parameter{name: fieldValidation, about: "what is done about members that nobody knows: Strict refuses them, Warn, the default, names them in a Warning header, Ignore says nothing", enum: []string{validateStrict, validateWarn, validateIgnore}}
	clusterListQuery = []parameter{
		{name: "label", about: "answer with the names of the clusters that carry the label"},
		{name: "withLabels", about: "true: answer with the clusters' labels"},
		fullQuery[0], fullQuery[1], fullQuery[2],
	}
	kvQuery            = []parameter{{name: "key", about: "answer with the value of this key"}}
	profileListQuery   = []parameter{{name: "app", about: "answer with the profile of this app"}}
	intentQuery        = []parameter{{name: "intent", about: "the name of the intent"}}
	appIntentListQuery = []parameter{
		{name: "app", about: "answer with the placement of one app; app-name must be given too"},
		{name: "app-name", about: "the app"},
	}
	watchQuery  = parameter{name: "watch", about: "true: answer with server-sent events: the document (status), then what changes of it (change), with ids to go on from by Last-Event-ID; end, error and dropped are the last event", enum: []string{"true", "false"}}
	statusQuery = []parameter{
		{name: "instance", about: "the context id; the last one when missing"},
		{name: "type", about: "what was done (rsync) or what clusters report (cluster), in the form of EMCO up to 21.03", enum: []string{"rsync", "cluster"}},
		{name: "status", about: "the same in the form of EMCO 22; overrides type", enum: []string{"deployed", "ready"}},
		{name: "output", about: "how much", enum: []string{"summary", "all", "detail"}},
		{name: "app", about: "only this app", repeats: true},
		{name: "cluster", about: "only this cluster, as provider+cluster", repeats: true},
		{name: "resource", about: "only resources of this name", repeats: true},
		{name: "apps", about: "list the apps"},
		{name: "clusters", about: "list the clusters by app"},
		{name: "resources", about: "list the resources by app"},
		watchQuery,
	}
	limitQuery    = parameter{name: "limit", about: "how many at the most, 1 to 1000; 100 when missing"}
	continueQuery = parameter{name: "continue", about: "what the page before has in continue: go on there"}
	fullQuery     = []parameter{
		{name: "view", about: "full: answer with items, each with its status (where it stands), in pages; EMCO's list when missing", enum: []string{"full"}},
		limitQuery, continueQuery,
	}
	groupsWatchQuery = parameter{name: "watch", about: "true: answer with server-sent events: an object with where each group stands, by its path (status), then those that have changed, null for one that is gone (change); ids, end, error and dropped as with a status", enum: []string{"true", "false"}}
	operationsQuery  = []parameter{
		{name: "project", about: "only what belongs to this project"},
		{name: "owner", about: "only those of this deployment intent group, logical cloud or cluster, by its path below /v2"},
		{name: "cluster", about: "only those that have, or had, something to do on this cluster, as provider+cluster; one with several apps there may come again on a later page"},
		{name: "kind", about: "only this operation", enum: operations.Kinds},
		{name: "state", about: "only in this state", enum: words(operations.States)},
		{name: "since", about: "leave out what had ended before: a time such as 2026-11-21T05:29:07Z, or how long ago, such as 2h30m"},
		limitQuery, continueQuery,
	}
	// One cluster has no lists.
	networkStatusQuery = append(statusQuery[:7:7], watchQuery,
		parameter{name: "view", about: "full: answer with what runs in the cluster, every deployment intent group and logical cloud with what hangs there and why, in place of EMCO's document of its network intents", enum: []string{"full"}})
	explainQuery     = []parameter{{name: "output", about: "the form; what is accepted when missing", enum: []string{"json", "text"}}}
	cloudStatusQuery = []parameter{
		{name: "instance", about: "the context id; the last one when missing"},
		{name: "status", about: "ready when missing", enum: []string{"deployed", "ready"}},
		{name: "output", about: "how much", enum: []string{"summary", "all", "detail"}},
		{name: "cluster", about: "only this cluster, as provider+cluster", repeats: true},
		{name: "resource", about: "only resources of this name", repeats: true},
		{name: "clusters", about: "list the clusters"},
		{name: "resources", about: "list the resources by cluster"},
		watchQuery,
	}
)
