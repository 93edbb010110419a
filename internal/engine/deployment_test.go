package engine_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/drover-io/drover/internal/engine"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/workflows"
)

// deployment stands for Temporal's Worker Deployment: it knows of queues one after the other, as they are asked for.
type deployment struct {
	client.Client
	client.WorkerDeploymentHandle

	current string
	ramp    float32 // in percent
	to      string  // the build it is to, "" for workers of none
	absent  bool
	err     error // of every call
	refused error // of a change
	unknown int   // for so many questions a queue is missing
	set     []client.WorkerDeploymentSetCurrentVersionOptions
}

func (d *deployment) WorkerDeploymentClient() client.WorkerDeploymentClient {
	return deployments{of: d}
}

// deployments has the one.
type deployments struct {
	client.WorkerDeploymentClient
	of *deployment
}

func (d deployments) GetHandle(string) client.WorkerDeploymentHandle { return d.of }

func (d *deployment) DescribeVersion(_ context.Context, _ client.WorkerDeploymentDescribeVersionOptions) (is client.WorkerDeploymentVersionDescription, err error) {
	if d.err != nil {
		return is, d.err
	}
	const workflow, activity = client.TaskQueueTypeWorkflow, client.TaskQueueTypeActivity
	infos := []client.WorkerDeploymentTaskQueueInfo{
		{Name: workflows.LifecycleQueue, Type: workflow}, {Name: workflows.LifecycleQueue, Type: activity},
		{Name: workflows.KubeQueue, Type: activity}, {Name: workflows.WatchQueue, Type: activity}, {Name: workflows.WaitQueue, Type: activity},
	}
	if d.unknown > 0 {
		d.unknown--
		infos = infos[:len(infos)-1]
		if d.unknown%2 == 0 {
			return is, serviceerror.NewNotFound("no such version")
		}
	}
	is.Info.TaskQueuesInfos = infos
	return is, nil
}

func (d *deployment) Describe(context.Context, client.WorkerDeploymentDescribeOptions) (is client.WorkerDeploymentDescribeResponse, err error) {
	switch {
	case d.err != nil:
		return is, d.err
	case d.absent:
		return is, serviceerror.NewNotFound("no such deployment")
	}
	is.ConflictToken = []byte("seen")
	if d.current != "" {
		is.Info.RoutingConfig.CurrentVersion = &worker.WorkerDeploymentVersion{DeploymentName: workflows.Deployment, BuildID: d.current}
	}
	if is.Info.RoutingConfig.RampingVersionPercentage = d.ramp; d.to != "" {
		is.Info.RoutingConfig.RampingVersion = &worker.WorkerDeploymentVersion{DeploymentName: workflows.Deployment, BuildID: d.to}
	}
	return is, nil
}

func (d *deployment) SetCurrentVersion(_ context.Context, o client.WorkerDeploymentSetCurrentVersionOptions) (client.WorkerDeploymentSetCurrentVersionResponse, error) {
	if d.refused == nil {
		d.set = append(d.set, o)
	}
	return client.WorkerDeploymentSetCurrentVersionResponse{}, d.refused
}

func TestTakeOver(t *testing.T) {
	for name, c := range map[string]struct {
		reason      string
		is          deployment
		build       string
		force       bool
		now, before string
		set         bool
		kind        fail.Kind
	}{
		"the first one":    {"nobody has the work yet", deployment{}, "0.1.0", false, "0.1.0", "", true, ""},
		"a newer one":      {"it takes over by itself", deployment{current: "0.1.0"}, "0.2.0", false, "0.2.0", "0.1.0", true, ""},
		"the same one":     {"a second worker changes nothing", deployment{current: "0.2.0"}, "0.2.0", false, "0.2.0", "0.2.0", false, ""},
		"an older one":     {"histories of the newer one may be beyond it", deployment{current: "0.2.0"}, "0.1.0", false, "0.2.0", "0.2.0", false, ""},
		"with force":       {"somebody has decided so", deployment{current: "0.2.0"}, "0.1.0", true, "0.1.0", "0.2.0", true, ""},
		"at last":          {"Temporal learns of pollers by and by", deployment{unknown: 2}, "0.1.0", false, "0.1.0", "", true, ""},
		"changed":          {"another worker was faster: look again", deployment{current: "0.1.0", refused: serviceerror.NewFailedPrecondition("token")}, "0.2.0", false, "", "", false, fail.Unavailable},
		"too old":          {"no time puts that right", deployment{err: serviceerror.NewUnimplemented("what?")}, "0.1.0", false, "", "", false, fail.Precondition},
		"without rights":   {"nor that", deployment{err: serviceerror.NewPermissionDenied("no", "")}, "0.1.0", false, "", "", false, fail.Precondition},
		"no build":         {"what other workers have told is taken back", deployment{current: "0.1.0"}, "", false, "", "0.1.0", true, ""},
		"never one":        {"there is nothing to take back", deployment{absent: true}, "", false, "", "", false, ""},
		"never a build":    {"nor here", deployment{}, "", false, "", "", false, ""},
		"none and too old": {"nor where nobody can have told one", deployment{err: serviceerror.NewUnimplemented("what?")}, "", false, "", "", false, ""},
		"none, and denied": {"somebody else may have told one", deployment{err: serviceerror.NewPermissionDenied("no", "")}, "", false, "", "", false, fail.Precondition},
		"not there":        {"it may be in a moment", deployment{err: serviceerror.NewUnavailable("away")}, "", false, "", "", false, fail.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			is := c.is
			now, before, part, err := engine.New(&is).TakeOver(t.Context(), c.build, c.force)
			if c.kind != "" {
				require.True(t, fail.Is(err, c.kind), "%s: %v", c.reason, err)
			} else {
				require.NoError(t, err, c.reason)
			}
			require.Equal(t, c.now, now, c.reason)
			require.Equal(t, c.before, before, c.reason)
			require.Empty(t, part, c.reason)
			if !c.set {
				require.Empty(t, is.set, c.reason)
				return
			}
			require.Equal(t, []client.WorkerDeploymentSetCurrentVersionOptions{{BuildID: c.build, ConflictToken: []byte("seen")}}, is.set, c.reason)
		})
	}
}

// TestTakeOverHasAPart: who is current does not have all the work while somebody ramps to another build.
func TestTakeOverHasAPart(t *testing.T) {
	for name, c := range map[string]struct {
		is    deployment
		build string
		part  string
	}{
		"to another build":      {deployment{current: "0.2.0", ramp: 12.5, to: "0.1.0"}, "0.2.0", "12.5% to build 0.1.0"},
		"to none":               {deployment{current: "0.2.0", ramp: 100}, "0.2.0", "100% to workers without a build"},
		"that is held":          {deployment{current: "0.2.0", to: "0.1.0"}, "0.2.0", ""},
		"of who has no work":    {deployment{current: "0.3.0", ramp: 5, to: "0.1.0"}, "0.2.0", ""},
		"of who takes over":     {deployment{current: "0.1.0", ramp: 5, to: "0.2.0"}, "0.2.0", ""},
		"of who is of no build": {deployment{ramp: 5, to: "0.2.0"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			is := c.is
			_, _, part, err := engine.New(&is).TakeOver(t.Context(), c.build, false)
			require.NoError(t, err)
			require.Equal(t, c.part, part)
		})
	}
}
