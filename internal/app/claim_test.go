package app

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	sdk "go.temporal.io/sdk/worker"

	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/engine"
	"github.com/drover-io/drover/internal/version"
	"github.com/drover-io/drover/workflows"
)

// routing stands for Temporal's Worker Deployment, of which workers of every build poll all queues.
type routing struct {
	client.Client
	client.WorkerDeploymentHandle

	mu      sync.Mutex
	current string
	ramp    float32        // to workers without a build
	err     error          // of every call
	made    map[string]int // how often each schedule that there was not
}

func (r *routing) ScheduleClient() client.ScheduleClient { return schedules{of: r} }

// schedules are there until somebody deletes them.
type schedules struct {
	client.ScheduleClient
	of *routing
}

func (s schedules) Create(_ context.Context, o client.ScheduleOptions) (client.ScheduleHandle, error) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.of.made[o.ID]++; s.of.made[o.ID] > 1 {
		return nil, temporal.ErrScheduleAlreadyRunning
	}
	return nil, s.of.err
}

func (r *routing) WorkerDeploymentClient() client.WorkerDeploymentClient { return routes{of: r} }

// routes has the one.
type routes struct {
	client.WorkerDeploymentClient
	of *routing
}

func (r routes) GetHandle(string) client.WorkerDeploymentHandle { return r.of }

func (r *routing) DescribeVersion(context.Context, client.WorkerDeploymentDescribeVersionOptions) (is client.WorkerDeploymentVersionDescription, err error) {
	for _, queue := range []string{workflows.LifecycleQueue, workflows.KubeQueue, workflows.WatchQueue, workflows.WaitQueue} {
		is.Info.TaskQueuesInfos = append(is.Info.TaskQueuesInfos,
			client.WorkerDeploymentTaskQueueInfo{Name: queue, Type: client.TaskQueueTypeWorkflow},
			client.WorkerDeploymentTaskQueueInfo{Name: queue, Type: client.TaskQueueTypeActivity})
	}
	return is, r.err
}

func (r *routing) Describe(context.Context, client.WorkerDeploymentDescribeOptions) (is client.WorkerDeploymentDescribeResponse, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current != "" {
		is.Info.RoutingConfig.CurrentVersion = &sdk.WorkerDeploymentVersion{DeploymentName: workflows.Deployment, BuildID: r.current}
	}
	is.Info.RoutingConfig.RampingVersionPercentage = r.ramp
	return is, r.err
}

func (r *routing) SetCurrentVersion(_ context.Context, o client.WorkerDeploymentSetCurrentVersionOptions) (is client.WorkerDeploymentSetCurrentVersionResponse, err error) {
	r.set(o.BuildID)
	return is, r.err
}

func (r *routing) set(build string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current = build
}

func (r *routing) is() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// claiming are the parts of a worker that has what it needs to claim the work.
func claiming(t *testing.T, versioning string, r *routing) (*Parts, *bytes.Buffer) {
	log := &bytes.Buffer{}
	p := &Parts{newer: new(atomic.Pointer[string]), ramp: new(atomic.Pointer[string]),
		config: &config.Config{WorkerVersioning: versioning}, log: slog.New(slog.NewTextHandler(log, nil)), engine: engine.New(r),
	}
	require.NoError(t, p.tellBuild())
	return p, log
}

// TestAWorkerClaimsTheWorkAgain when an older build has got it, and says that it has none while a newer one does it.
func TestAWorkerClaimsTheWorkAgain(t *testing.T) {
	for _, versioning := range []string{"on", "force"} {
		t.Run(versioning, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const older, newer, every = "0.0.1", "1000.0.0", time.Minute
				own, err := version.Build()
				require.NoError(t, err)
				r := &routing{current: newer, made: map[string]int{}}
				p, log := claiming(t, versioning, r)
				require.ErrorContains(t, p.hasWork(t.Context()), "has not found out yet", "it was only started")
				require.NoError(t, p.takeOver(t.Context()))
				if versioning == "force" {
					require.Equal(t, own, r.is())
					require.NoError(t, p.hasWork(t.Context()))
				} else {
					require.Equal(t, newer, r.is())
					require.ErrorContains(t, p.hasWork(t.Context()), "the newer build "+newer)
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { p.keepWork(ctx, every); close(ended) }()
				after := func(current string) {
					r.set(current)
					time.Sleep(every + time.Second) //nolint:forbidigo // in synctest's time
					synctest.Wait()
				}
				after(newer)
				require.Equal(t, newer, r.is(), "force counts for the start")
				require.ErrorContains(t, p.hasWork(t.Context()), "this worker, of build "+own+", gets none")
				after(newer)
				require.Equal(t, 1, strings.Count(log.String(), "a newer build does the work"), "it is said once")
				after(older)
				require.Equal(t, own, r.is())
				require.NoError(t, p.hasWork(t.Context()))
				after("")
				require.Equal(t, own, r.is(), "Temporal has forgotten everything")
				after(newer)
				require.Error(t, p.hasWork(t.Context()))
				after(own)
				require.NoError(t, p.hasWork(t.Context()), "another worker of this build has got it back")
				r.mu.Lock()
				r.ramp = 50
				r.mu.Unlock()
				after(own)
				require.ErrorContains(t, p.hasWork(t.Context()), "50% to workers without a build")
				after(own)
				require.Equal(t, 1, strings.Count(log.String(), "a part of the work"), "it is said once")
				r.mu.Lock()
				r.ramp = 0
				r.mu.Unlock()
				after(own)
				require.NoError(t, p.hasWork(t.Context()))
				require.Len(t, r.made, 2, "somebody had deleted the schedules")
				cancel()
				<-ended
			})
		})
	}
}

// TestWorkersWithoutABuild take the work at their start, and leave it as it is then.
func TestWorkersWithoutABuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &routing{current: "0.0.1", made: map[string]int{}}
		p, _ := claiming(t, "off", r)
		require.NoError(t, p.takeOver(t.Context()))
		require.Empty(t, r.is())
		require.NoError(t, p.hasWork(t.Context()))
		r.set("0.0.1")
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		p.keepWork(ctx, time.Minute)
		require.Equal(t, "0.0.1", r.is())
		require.Len(t, r.made, 2, "schedules are of no build")

		r.err = serviceerror.NewPermissionDenied("not you", "")
		p, log := claiming(t, "off", r)
		require.Error(t, p.hasWork(t.Context()), "it was only started")
		require.NoError(t, p.takeOver(t.Context()), "it works as before")
		require.NoError(t, p.hasWork(t.Context()), "as far as it can know")
		require.Contains(t, log.String(), "set-current-version --deployment-name drover --unversioned")
		p, _ = claiming(t, "on", r)
		require.ErrorContains(t, p.takeOver(t.Context()), "not you")
	})
}
