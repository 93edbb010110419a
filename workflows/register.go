package workflows

import (
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// Register adds every workflow under its name. Worker, tests and the replayer share it.
func Register(r worker.WorkflowRegistry) {
	for name, fn := range map[string]any{
		InstantiateName:       Instantiate,
		TerminateName:         Terminate,
		UpdateName:            Update,
		RollbackName:          Update,
		MigrateName:           Update,
		DeployAppName:         WorkApp,
		RemoveAppName:         WorkApp,
		ApplyToClusterName:    WorkCluster,
		DeleteFromClusterName: WorkCluster,
		WatchClustersName:     WatchClusters,
		SweepName:             Sweep,
		KeepCertificatesName:  KeepCertificates,
		RemoveRemnantsName:    RemoveRemnants,
		SettleTenantName:      SettleTenant,
		SettleMatchName:       SettleMatch,
		SettleTenantsName:     SettleTenants,
	} {
		r.RegisterWorkflowWithOptions(fn, workflow.RegisterOptions{Name: name})
	}
}
