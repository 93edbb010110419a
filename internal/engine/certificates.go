package engine

import (
	"context"

	"go.temporal.io/sdk/client"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/workflows"
)

// Keep implements activities.Keepers.
func (e *Engine) Keep(ctx context.Context, cloud domain.Key) error {
	return e.sent(ctx, workflow(workflows.CertificatesID(cloud)), func(ctx context.Context) error {
		id := workflows.CertificatesID(cloud)
		_, err := e.temporal.SignalWithStartWorkflow(ctx, id, workflows.KeepSignal, nil, client.StartWorkflowOptions{
			ID: id, TaskQueue: workflows.LifecycleQueue, TypedSearchAttributes: workflows.CloudAttributes(cloud),
			StaticSummary: "renews the certificates of " + string(cloud),
		}, workflows.KeepCertificatesName, cloud)
		return err
	})
}

// Release implements activities.Keepers.
func (e *Engine) Release(ctx context.Context, cloud domain.Key) error {
	_, err := e.shut(ctx, workflows.CertificatesID(cloud))
	return err
}
