package rights

import (
	"slices"

	"github.com/drover-io/drover/internal/domain"
)

// area is what a noun is about. The roles that are built in have rights by area: a new noun is a row of areas, and changes no
// role.
type area string

// The areas.
const (
	inProjects area = "projects"           // the projects themselves
	apps       area = "apps"               // what is deployed, and how: composite apps, groups, intents
	clouds     area = "clouds"             // which clusters a project uses, and with what rights there
	clusters   area = "clusters"           // providers, clusters, their networks
	settings   area = "settings"           // of the fleet; who has any right may read them
	tenants    area = "tenants"            // who tell of workloads, and what is made for these
	fleetGives area = "rights"             // who may do what in the fleet, and what roles there are
	projGives  area = "rights of projects" // who may do what in a project
	provGives  area = "rights of providers"
	accounts   area = "accounts" // programs that call, and what they show
	trail      area = "trail"    // what was asked for, and by whom
	figures    area = "figures"  // of the process, and of its workflows, which name tenants and what is of every project
	told       area = "told"     // made when they are asked for, of what the caller may see: nobody needs a right to ask
)

// areas has each noun.
var areas = map[*domain.Noun]area{
	domain.Projects: inProjects,

	domain.CompositeApps: apps, domain.Apps: apps, domain.AppDependencies: apps, domain.CompositeProfiles: apps, domain.Profiles: apps,
	domain.DeploymentIntentGroups: apps, domain.DeploymentIntents: apps, domain.PlacementIntents: apps, domain.AppIntents: apps,
	domain.StatusIntents: apps, domain.ProjectCollectors: apps,
	domain.NetControllerIntents: apps, domain.WorkloadIntents: apps, domain.InterfaceIntents: apps,
	domain.TrafficGroupIntents: apps, domain.InboundServerIntents: apps, domain.InboundClientsIntents: apps, domain.InboundClientsAccessIntents: apps,
	domain.HPAIntents: apps, domain.HPAConsumers: apps, domain.HPAResources: apps,
	domain.GenericK8sIntents: apps, domain.GenericResources: apps, domain.Customizations: apps,

	domain.LogicalClouds: clouds, domain.ClusterReferences: clouds, domain.UserPermissions: clouds, domain.ClusterQuotas: clouds,
	domain.LogicalCloudKVs: clouds,

	domain.ClusterProviders: clusters, domain.ClusterSyncObjects: clusters, domain.ClustersNoun: clusters, domain.ClusterLabels: clusters,
	domain.ClusterKVs: clusters, domain.Networks: clusters, domain.ProviderNetworks: clusters,

	domain.StatusCollectors: settings, domain.ReadinessRules: settings,
	domain.Controllers: settings, domain.CLMControllers: settings, domain.DTCControllers: settings,

	domain.Tenants: tenants, domain.Hosts: tenants, domain.WorkloadRules: tenants, domain.OperatorRules: tenants, domain.TenantTokens: tenants,
	domain.Workloads: tenants, domain.Matches: tenants,

	domain.Roles: fleetGives, domain.RoleBindings: fleetGives,
	domain.ProjectRoleBindings: projGives, domain.ProviderRoleBindings: provGives,

	domain.ServiceAccounts: accounts, domain.ServiceAccountTokens: accounts,

	domain.AuditRecords: trail,
	domain.Metrics:      figures,
	domain.Histories:    figures,

	domain.Operations: told, domain.Registrations: told, domain.Whoami: told, domain.Sessions: told,
}

// class is what a verb does. The roles that are built in have rights by class.
type class string

// The classes.
const (
	see      class = "see"
	describe class = "describe" // write documents
	approve  class = "approve"
	operate  class = "operate"  // bring about what is described, and end it
	use      class = "use"      // name clusters of a provider in logical clouds
	download class = "download" // a credential
	report   class = "report"   // say what runs in a cluster: of tenants, who are known by other means
)

// Use is the verb of naming a cluster in a logical cloud. No request has it: the body of one does so.
const Use = "use"

// Download is the verb of taking a credential, such as the kubeconfig of a cluster.
const Download = "download"

// classes has each verb.
var classes = map[string]class{
	"get": see, "list": see, "status": see, "watch": see, "explain": see,
	"query":  see, // it stores nothing, and says nothing that one could not read
	"create": describe, "put": describe, "delete": describe,
	"approve":     approve,
	"instantiate": operate, "terminate": operate, "stop": operate, "update": operate, "rollback": operate, "migrate": operate,
	"release": operate,
	Use:       use,
	Download:  download,
	"report":  report,
}

// few has the verbs that only some nouns have.
var few = map[string][]*domain.Noun{
	"approve":     {domain.DeploymentIntentGroups},
	"instantiate": domain.Owners, "terminate": domain.Owners, "stop": domain.Owners,
	"update":   {domain.DeploymentIntentGroups, domain.LogicalClouds},
	"rollback": {domain.DeploymentIntentGroups}, "migrate": {domain.DeploymentIntentGroups},
	"release": {domain.Tenants},
	Use:       {domain.ClustersNoun},
	Download:  {domain.ClustersNoun, domain.ClusterReferences},
	"report":  {domain.Workloads},
}

// had are the verbs that a noun has, as far as few says.
func had(n *domain.Noun) mask {
	m := all
	for verb, nouns := range few {
		if !slices.Contains(nouns, n) {
			m &^= maskOf(verb)
		}
	}
	return m
}

// Verbs are those that rights are of, sorted.
func Verbs() []string { return slices.Clone(verbs) }

// verbs are those of classes, in the order of their bits in a mask.
var verbs = func() []string {
	var all []string
	for v := range classes {
		all = append(all, v)
	}
	slices.Sort(all)
	return all
}()

// mask is a set of verbs.
type mask uint32

func maskOf(verb string) mask {
	i, ok := slices.BinarySearch(verbs, verb)
	if !ok {
		return 0
	}
	return 1 << i
}

func maskOfClass(c class) mask {
	var m mask
	for verb, of := range classes {
		if of == c {
			m |= maskOf(verb)
		}
	}
	return m
}

// all is every verb.
var all = mask(1)<<len(verbs) - 1

// place is a sort of scope: where a thing lies.
type place int

// The places.
const (
	fleet place = iota
	project
	provider
	placesCount
)

// places are the words for them in rules of roles.
var places = [placesCount]string{fleet: "fleet", project: "project", provider: "provider"}

func placeOf(scope domain.Key) place {
	switch {
	case scope == "":
		return fleet
	case scope.Under(domain.Key(domain.Projects.Collection)):
		return project
	default:
		return provider
	}
}

// powers are what a role allows: verbs by noun and place.
type powers [placesCount]map[*domain.Noun]mask

// add allows verbs of a noun where it lies.
func (p *powers) add(at place, n *domain.Noun, m mask) {
	if p[at] == nil {
		p[at] = map[*domain.Noun]mask{}
	}
	p[at][n] |= m
}

// gives allows classes of verbs of all nouns of areas, everywhere.
func (p *powers) gives(what []class, of ...area) {
	var m mask
	for _, c := range what {
		m |= maskOfClass(c)
	}
	for n, a := range areas {
		if slices.Contains(of, a) {
			for at := range placesCount {
				p.add(at, n, m)
			}
		}
	}
}

// builtIn are the roles that are built in.
var builtIn = func() map[string]*powers {
	made := map[string]*powers{}
	role := func(name string, from ...string) *powers {
		p := &powers{}
		for _, other := range from {
			for at, nouns := range made[other] {
				for n, m := range nouns {
					p.add(place(at), n, m)
				}
			}
		}
		made[name] = p
		return p
	}
	role(domain.RoleViewer).gives([]class{see}, inProjects, apps, clouds, clusters, settings, tenants, figures, projGives, provGives)
	role(domain.RoleEditor, domain.RoleViewer).gives([]class{describe}, apps)
	role(domain.RoleApprover, domain.RoleViewer).gives([]class{approve}, apps)
	role(domain.RoleOperator, domain.RoleViewer).gives([]class{operate}, apps, clouds)
	role(domain.RoleProjectAdmin, domain.RoleEditor, domain.RoleApprover, domain.RoleOperator).
		gives([]class{describe, download}, inProjects, clouds, projGives)
	made[domain.RoleProjectAdmin].add(project, domain.AuditRecords, maskOfClass(see)) // of the fleet's it has nothing to see
	role(domain.RoleClusterUser).gives([]class{see, use}, clusters)
	role(domain.RoleClusterAdmin, domain.RoleClusterUser).gives([]class{see, describe, operate, download}, clusters, provGives)
	admin := role(domain.RoleAdmin)
	for n := range areas {
		for at := range placesCount {
			admin.add(at, n, all)
		}
	}
	return made
}()
