package workflows

import (
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// upgrading moves a workflow to the newest build at its next task, pinned keeps it on the build that has begun it for as long as it lasts.
// Nothing here is pinned (decision 0084): a workflow that is pinned waits for ever when the last worker of its build has gone.
const upgrading = workflow.VersioningBehaviorAutoUpgrade

// types are all workflows by the names under which histories know them, each with what becomes of it when a newer build comes.
var types = map[string]struct {
	run      any
	behavior workflow.VersioningBehavior
}{
	// Operations and what is below them may wait for days for a cluster.
	InstantiateName:       {Instantiate, upgrading},
	TerminateName:         {Terminate, upgrading},
	UpdateName:            {Update, upgrading},
	RollbackName:          {Update, upgrading},
	MigrateName:           {Update, upgrading},
	DeployAppName:         {WorkApp, upgrading},
	RemoveAppName:         {WorkApp, upgrading},
	ApplyToClusterName:    {WorkCluster, upgrading},
	DeleteFromClusterName: {WorkCluster, upgrading},
	// These last as long as what they are about: clusters that have something, a logical cloud, three days.
	WatchClustersName:     {WatchClusters, upgrading},
	WatchManyClustersName: {WatchManyClusters, upgrading},
	KeepCertificatesName:  {KeepCertificates, upgrading},
	RemoveRemnantsName:    {RemoveRemnants, upgrading},
	SettleTenantName:      {SettleTenant, upgrading},
	SettleMatchName:       {SettleMatch, upgrading},
	// These take moments. Of a schedule no second one begins before the first has ended, so that one whose build is gone would be the last.
	SweepName:         {Sweep, upgrading},
	SettleTenantsName: {SettleTenants, upgrading},
}

// Register adds every workflow under its name. Worker, tests and the replayer share it.
func Register(r worker.WorkflowRegistry) {
	for name, t := range types {
		r.RegisterWorkflowWithOptions(t.run, workflow.RegisterOptions{Name: name, VersioningBehavior: t.behavior})
	}
}
