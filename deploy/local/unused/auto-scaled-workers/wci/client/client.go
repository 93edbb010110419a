// Package client stands in for the package of this name: see the README three folders up.
package client

import (
	"context"

	deploymentpb "go.temporal.io/api/deployment/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/auto-scaled-workers/wci/workflow/iface"
	"go.temporal.io/server/common/namespace"
	"go.uber.org/fx"
)

// Module provides a Client that knows no workers, as that of a server in which nobody has asked for any.
var Module = fx.Options(fx.Provide(func() Client { return none{} }))

// Client is asked for the workers that the server starts.
type Client interface {
	DescribeWorkerControllerInstance(context.Context, *namespace.Namespace, *deploymentpb.WorkerDeploymentVersion) (
		*iface.QueryDescribeWorkerControllerInstanceResponse, []byte, error)
	UpdateWorkerControllerInstance(ctx context.Context, in *namespace.Namespace, version *deploymentpb.WorkerDeploymentVersion,
		conflictToken []byte, identity string, upsert map[string]iface.ScalingGroupSpecUpdate, remove []string) (
		*iface.UpdateWorkerControllerInstanceResponse, error)
	ValidateWorkerControllerInstanceSpec(ctx context.Context, in *namespace.Namespace, version *deploymentpb.WorkerDeploymentVersion,
		identity string, upsert map[string]iface.ScalingGroupSpecUpdate, remove []string) error
	DeleteWorkerControllerInstance(ctx context.Context, in *namespace.Namespace, version *deploymentpb.WorkerDeploymentVersion,
		identity string) error
}

type none struct{}

// errNotBuilt is InvalidArgument, which the server neither retries nor hides.
func errNotBuilt() error {
	return serviceerror.NewInvalidArgument("this server is built without compute providers")
}

func (none) DescribeWorkerControllerInstance(context.Context, *namespace.Namespace, *deploymentpb.WorkerDeploymentVersion) (
	*iface.QueryDescribeWorkerControllerInstanceResponse, []byte, error,
) {
	return nil, nil, serviceerror.NewNotFound("no worker controller instance: this server is built without compute providers")
}

func (none) UpdateWorkerControllerInstance(context.Context, *namespace.Namespace, *deploymentpb.WorkerDeploymentVersion,
	[]byte, string, map[string]iface.ScalingGroupSpecUpdate, []string,
) (*iface.UpdateWorkerControllerInstanceResponse, error) {
	return nil, errNotBuilt()
}

func (none) ValidateWorkerControllerInstanceSpec(context.Context, *namespace.Namespace, *deploymentpb.WorkerDeploymentVersion,
	string, map[string]iface.ScalingGroupSpecUpdate, []string,
) error {
	return errNotBuilt()
}

func (none) DeleteWorkerControllerInstance(context.Context, *namespace.Namespace, *deploymentpb.WorkerDeploymentVersion, string) error {
	return nil
}
