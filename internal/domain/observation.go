package domain

import "time"

// Report is how what became of deployed resources in a cluster gets to the control plane.
type Report string

// Ways to report.
const (
	ReportAgent     Report = "agent"     // an agent in the cluster writes ResourceBundleStates; the default
	ReportInstall   Report = "install"   // the same, and the control plane installs the agent
	ReportAgentless Report = "agentless" // the control plane watches the resources themselves
	ReportNone      Report = "none"      // nothing is watched
)

// Reports are all of them.
var Reports = []Report{ReportAgent, ReportInstall, ReportAgentless, ReportNone}

// Observation is what a cluster last reported of one app of a context.
type Observation struct {
	ContextID string
	App       string
	Cluster   ClusterName
	// Kinds are the group kinds, as "Deployment.apps", that are watched; nil where the reporter does not say.
	Kinds     []string
	Resources []ObservedResource
}

// ObservedResource is one resource as it was received. Status and Message are readiness.Of's; JSON is
// metadata, spec and status without managed fields and without the data of secrets.
type ObservedResource struct {
	Group, Version, Kind, Namespace, Name string
	Status, Message                       string
	JSON                                  []byte
}

// Watch is whether a cluster can be heard.
type Watch struct {
	Cluster   ClusterName
	Connected bool      // what changes there would be heard of
	LastSeen  time.Time // when that was so for the last time; zero for never
	Reason    string    // why it is not so
}
