package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/version"
	"github.com/drover-io/drover/workflows"
)

// TakeOver has workflows of the namespace go on with workers of a build from their next task on, unless a newer one does their work; force
// does not look at that. It says which build does it now, and which one did before: "" for workers that are of no build. part says, of the build that
// does it, which other one somebody has given a part of it, "" for none. An empty build
// gives the work back to those, where there is anything to give back. Unavailable as long as Temporal does not know that the build's workers poll every
// queue, Precondition where it offers no Worker Deployments.
func (e *Engine) TakeOver(ctx context.Context, build string, force bool) (now, before, part string, err error) {
	ctx, cancel := context.WithTimeout(ctx, policy.Call)
	defer cancel()
	deployment := e.temporal.WorkerDeploymentClient().GetHandle(workflows.Deployment)
	if build != "" {
		if err := awaitPollers(ctx, deployment, build); err != nil {
			return "", "", "", deploymentKindOf(err)
		}
	}
	is, err := deployment.Describe(ctx, client.WorkerDeploymentDescribeOptions{})
	if err != nil {
		var (
			none   *serviceerror.NotFound
			tooOld *serviceerror.Unimplemented
		)
		if build == "" && (errors.As(err, &none) || errors.As(err, &tooOld)) {
			return "", "", "", nil // nobody can have told it a build
		}
		return "", "", "", deploymentKindOf(err)
	}
	if v := is.Info.RoutingConfig.CurrentVersion; v != nil {
		before = v.BuildID
	}
	if before == build || !force && build != "" && before != "" && version.Newer(before, build) {
		if before == build && build != "" {
			part = rampOf(&is.Info.RoutingConfig)
		}
		return before, before, part, nil
	}
	_, err = deployment.SetCurrentVersion(ctx, client.WorkerDeploymentSetCurrentVersionOptions{BuildID: build, ConflictToken: is.ConflictToken})
	if err != nil {
		return "", "", "", deploymentKindOf(err)
	}
	return build, before, "", nil
}

// rampOf is which part of the work goes to another build than the current one, "" for none.
func rampOf(c *client.WorkerDeploymentRoutingConfig) string {
	if c.RampingVersionPercentage == 0 {
		return ""
	}
	to := "workers without a build"
	if v := c.RampingVersion; v != nil {
		to = "build " + v.BuildID
	}
	return fmt.Sprintf("%g%% to %s", c.RampingVersionPercentage, to)
}

// awaitPollers waits until Temporal knows that workers of a build poll all queues, which takes it some tenths of a second from when they
// begin to. When ctx ends before that, the error is the last answer of knowsPollers.
func awaitPollers(ctx context.Context, deployment client.WorkerDeploymentHandle, build string) error {
	for {
		err := knowsPollers(ctx, deployment, build)
		if err == nil || !fail.Is(err, fail.Unavailable) {
			return err
		}
		if pause.For(ctx, policy.LookAgain) != nil {
			return err
		}
	}
}

// knowsPollers is an error until Temporal knows that workers of a build poll all queues.
func knowsPollers(ctx context.Context, deployment client.WorkerDeploymentHandle, build string) error {
	d, err := deployment.DescribeVersion(ctx, client.WorkerDeploymentDescribeVersionOptions{BuildID: build})
	var unknown *serviceerror.NotFound
	if err != nil && !errors.As(err, &unknown) {
		return err
	}
	for _, q := range queues {
		polled := slices.ContainsFunc(d.Info.TaskQueuesInfos, func(i client.WorkerDeploymentTaskQueueInfo) bool {
			return i.Name == q.name && int32(i.Type) == int32(q.kind)
		})
		if !polled {
			return fail.New(fail.Unavailable, "Temporal does not know yet that workers of build %s poll for %s tasks of %s", build, q.task, q.name)
		}
	}
	return nil
}

// deploymentKindOf is kindOf for calls about Worker Deployments.
func deploymentKindOf(err error) error {
	var (
		unknown *serviceerror.Unimplemented
		denied  *serviceerror.PermissionDenied
		changed *serviceerror.FailedPrecondition
	)
	switch {
	case errors.As(err, &unknown):
		return fail.Wrap(err, fail.Precondition, "this Temporal has no Worker Deployments: Drover needs %s or later", oldest)
	case errors.As(err, &denied):
		return fail.Wrap(err, fail.Precondition, "Temporal does not let this worker use Worker Deployments (%s): start the workers with --worker-versioning off, or allow it", denied.Message)
	case errors.As(err, &changed):
		return fail.Wrap(err, fail.Unavailable, "the Worker Deployment was changed meanwhile, or lacks a queue: %s", changed.Message)
	default:
		return kindOf(err, "the Worker Deployment")
	}
}
