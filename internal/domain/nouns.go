package domain

// Nouns lists every kind of document, parents before children. What walks the whole model (children and
// holders of a resource, the store's collections, the routes) walks this list.
var Nouns = []*Noun{
	ClusterProviders, ClusterSyncObjects, ClustersNoun, ClusterLabels, ClusterKVs, Networks, ProviderNetworks,
	Projects, LogicalClouds, ClusterReferences, UserPermissions, ClusterQuotas, LogicalCloudKVs,
	CompositeApps, Apps, AppDependencies, CompositeProfiles, Profiles,
	DeploymentIntentGroups, DeploymentIntents, PlacementIntents, AppIntents,
	Controllers, CLMControllers, DTCControllers,
	ReadinessRules,
}
