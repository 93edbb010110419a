package domain

// Nouns lists every kind of document, parents before children. What walks the whole model (children and
// holders of a resource, the store's collections, the routes) walks this list.
var Nouns = []*Noun{
	ClusterProviders, ClusterSyncObjects, ClustersNoun, ClusterLabels, ClusterKVs, Networks, ProviderNetworks,
	StatusCollectors,
	Projects, ProjectCollectors, LogicalClouds, ClusterReferences, UserPermissions, ClusterQuotas, LogicalCloudKVs,
	CompositeApps, Apps, AppDependencies, CompositeProfiles, Profiles,
	DeploymentIntentGroups, DeploymentIntents, PlacementIntents, AppIntents, StatusIntents,
	NetControllerIntents, WorkloadIntents, InterfaceIntents,
	TrafficGroupIntents, InboundServerIntents, InboundClientsIntents, InboundClientsAccessIntents,
	HPAIntents, HPAConsumers, HPAResources,
	GenericK8sIntents, GenericResources, Customizations,
	Controllers, CLMControllers, DTCControllers,
	ReadinessRules,
	Tenants, Hosts, WorkloadRules, OperatorRules, TenantTokens,
	ServiceAccounts, ServiceAccountTokens,
	Roles, RoleBindings, ProjectRoleBindings, ProviderRoleBindings,
}

// Operations is the noun of the operations of owners, which are no documents: they are found in the engine and in the
// records of app contexts.
var Operations = &Noun{Kind: "operations", Title: "operation", Collection: "operations", Names: []string{"operation"}}

// Registrations is the noun of those who are registered to be notified of a status, as EMCO's gRPC has it.
var Registrations = &Noun{Kind: "status-registrations", Title: "status registration", Collection: "status-registrations", Names: []string{"client"}}

// AuditRecords is the noun of audit records, which nobody writes by the API: each process does, of what it is asked for.
var AuditRecords = &Noun{Kind: "audit", Title: "audit record", Collection: "audit", Names: []string{"record"}}

// Metrics is the noun of the figures of the process that is asked.
var Metrics = &Noun{Kind: "metrics", Title: "metrics", Collection: "metrics", Names: []string{"metric"}}

// Histories is the noun of what Temporal keeps of workflows, whose payloads are sealed.
var Histories = &Noun{Kind: "histories", Title: "history", Collection: "histories", Names: []string{"history"}}

// Whoami is the noun of who asks: each caller has one, and sees no other.
var Whoami = &Noun{Kind: "whoami", Title: "caller", Collection: "whoami", Names: []string{"caller"}}

// Computed lists the nouns that are no documents.
var Computed = []*Noun{Operations, Registrations, Workloads, Matches, AuditRecords, Metrics, Histories, Whoami, Sessions}
