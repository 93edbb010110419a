// Package worker runs the workflows and activities: registration, interceptors, options of each queue.
package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lru"
	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/telemetry"
	"github.com/drover-io/drover/workflows"
)

// Options size a worker.
type Options struct {
	// Workflows and Activities bound what runs at a time on the lifecycle queue.
	Workflows, Activities int
	// Clusters bounds the activities on clusters, half of which may be at clusters that do not answer. A hanging cluster
	// holds one per app, for 15 s of every 25, and costs a goroutine; the bound is only there to bound memory.
	Clusters int
	// Watches bounds the activities that watch, each of which has a shard of all clusters.
	Watches int
	// Waits bounds the activities that wait for something in a cluster: a hook, or an app to be Ready.
	Waits int
	// Cache is the number of workflows kept in memory between tasks.
	Cache int
	// Drain is how long activities may take to end when the worker stops.
	Drain time.Duration
	// Leases has to listen to the connection to Temporal. Without it an attempt does not notice that its worker was
	// frozen.
	Leases *Leases
	// Refused is told, once for each queue, that Temporal refuses to be polled, for a reason that no time puts right, such as a namespace that is
	// not there any more: the SDK polls that queue no more. nil tells nobody.
	Refused func(error)
	// Build is what Temporal is told that this worker is. When it is empty the worker is of no build, and Temporal gives it what
	// is of none.
	Build string
}

// deployment is how Temporal knows the worker.
func (o *Options) deployment() worker.DeploymentOptions {
	if o.Build == "" {
		return worker.DeploymentOptions{}
	}
	return worker.DeploymentOptions{
		UseVersioning: true,
		Version:       worker.WorkerDeploymentVersion{DeploymentName: workflows.Deployment, BuildID: o.Build},
	}
}

// Worker polls the product's queues.
type Worker struct {
	lifecycle, kube, watch, wait worker.Worker

	leases  *Leases
	windows *windows
	alive   sync.WaitGroup
	end     context.CancelFunc
	silence func() // ends what is said of windows
}

// stoppedOnce is a worker of the SDK, which takes none that is stopped by two at a time.
type stoppedOnce struct {
	worker.Worker
	stop func()
}

// Stop stops it, or waits until somebody else has.
func (s *stoppedOnce) Stop() { s.stop() }

// of makes the worker of one queue.
func (o *Options) of(c client.Client, queue string, with worker.Options) worker.Worker {
	w := &stoppedOnce{}
	with.OnFatalError = func(err error) {
		if o.Refused != nil {
			o.Refused(fmt.Errorf("the queue %s gets no work from Temporal any more: %w", queue, err))
		}
		w.Stop() // as the SDK does it next, where nobody has
	}
	w.Worker = worker.New(c, queue, with)
	w.stop = sync.OnceFunc(w.Worker.Stop)
	return w
}

// New makes a worker; Start starts it.
func New(c client.Client, lifecycle *activities.Control, kube *activities.Kube, watch *activities.Watch, match *activities.Match, o Options) *Worker {
	worker.SetStickyWorkflowCacheSize(o.Cache)
	activities.BoundTasks(kube, o.Workflows)
	activities.BoundSilent(kube, o.Clusters)
	inMemory := &windows{of: map[string]workflows.WindowState{}}
	interceptors := []interceptor.WorkerInterceptor{newKinds(), &measuring{windows: inMemory}, &telemetry.RequestLogs{}, newTracing()}
	if o.Leases != nil {
		interceptors = append(interceptors, &leasing{leases: o.Leases})
	}
	options := func(atOnce, pollers int) worker.Options {
		return worker.Options{
			DisableWorkflowWorker:              true,
			MaxConcurrentActivityExecutionSize: atOnce,
			MaxConcurrentActivityTaskPollers:   pollers,
			MaxHeartbeatThrottleInterval:       policy.Throttle,
			WorkerStopTimeout:                  o.Drain,
			Interceptors:                       interceptors,
			DeploymentOptions:                  o.deployment(),
		}
	}
	both := options(o.Activities, 4)
	both.DisableWorkflowWorker = false
	both.MaxConcurrentWorkflowTaskExecutionSize = o.Workflows
	both.MaxConcurrentWorkflowTaskPollers = 8
	both.DeadlockDetectionTimeout = policy.Deadlock
	both.StickyScheduleToStartTimeout = policy.Sticky
	w := &Worker{
		leases: o.Leases, windows: inMemory,
		lifecycle: o.of(c, workflows.LifecycleQueue, both),
		kube:      o.of(c, workflows.KubeQueue, options(o.Clusters, 4)),
		watch:     o.of(c, workflows.WatchQueue, options(o.Watches, 2)),
		wait:      o.of(c, workflows.WaitQueue, options(o.Waits, 2)),
	}
	workflows.Register(w.lifecycle)
	w.lifecycle.RegisterActivity(lifecycle)
	w.lifecycle.RegisterActivity(kube)  // for what a leaf does in its own task
	w.lifecycle.RegisterActivity(watch) // to begin and end watches
	w.lifecycle.RegisterActivity(match)
	w.kube.RegisterActivity(kube)
	w.kube.RegisterActivity(match)
	w.watch.RegisterActivity(watch)
	w.wait.RegisterActivity(kube)
	w.wait.RegisterActivity(match)
	return w
}

// Start begins to poll.
func (w *Worker) Start() error {
	ctx, end := context.WithCancel(context.Background())
	w.end = end
	if w.leases != nil {
		w.alive.Go(func() { w.leases.run(ctx) })
	}
	w.silence = measure.Read(w.windows.say, measure.Windows, measure.WindowLeaves)
	var started []worker.Worker
	for _, q := range []struct {
		name   string
		worker worker.Worker
	}{{"lifecycle", w.lifecycle}, {"kube", w.kube}, {"watch", w.watch}, {"wait", w.wait}} {
		if err := q.worker.Start(); err != nil {
			for _, s := range started {
				s.Stop()
			}
			w.silence()
			w.end()
			w.alive.Wait()
			return fmt.Errorf("start %s worker: %w", q.name, err)
		}
		started = append(started, q.worker)
	}
	return nil
}

// Stop polls no more, and waits until what runs has ended or was handed over.
func (w *Worker) Stop() {
	var wg sync.WaitGroup
	wg.Go(w.wait.Stop)
	wg.Go(w.watch.Stop)
	wg.Go(w.kube.Stop)
	w.lifecycle.Stop()
	wg.Wait()
	w.silence()
	w.end()
	w.alive.Wait()
}

// kinds turns the errors of activities into Temporal's, once for all of them.
type kinds struct {
	interceptor.WorkerInterceptorBase
	// bugs is how often each activity has failed one time after the other for a reason that nobody classified. What Temporal counts are all
	// attempts: one that waits for a cluster has many of them behind it.
	bugs *lru.Cache[string, int32]
}

func newKinds() *kinds { return &kinds{bugs: lru.New[string, int32](knownBugs)} }

// knownBugs is of how many activities a worker knows how often they have failed so. One that it forgets is tried more often.
const knownBugs = 10_000

// failed counts how often an activity has failed with an error that nobody classified, this one included; 0 where it is another one.
func (k *kinds) failed(info *activity.Info, err error) (times int32) {
	id := info.WorkflowExecution.RunID + "/" + info.ActivityID
	if err == nil || fail.KindOf(err) != fail.Internal {
		k.bugs.Remove(id)
		return 0
	}
	times, _ = k.bugs.Get(id)
	times++
	k.bugs.Add(id, times)
	return times
}

// InterceptActivity wraps one activity.
func (k *kinds) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	in := &kindsInbound{kinds: k}
	in.Next = next
	return in
}

type kindsInbound struct {
	interceptor.ActivityInboundInterceptorBase
	kinds *kinds
}

// ExecuteActivity runs the activity and turns its error. A panic is a failure that is tried again, as one that nobody has foreseen.
func (k *kindsInbound) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	out, err := panics.Value(ctx, func() (any, error) { return k.Next.ExecuteActivity(ctx, in) })
	ended := err
	if ctx.Err() != nil && err != nil {
		err = ctx.Err()
	}
	if !errors.Is(ended, activities.ErrNotAtOnce) { // what is out of time in a workflow's task, too
		ended = err
	}
	info := activity.GetInfo(ctx)
	count(&info, ended)
	if ctx.Err() != nil {
		return out, err
	}
	return out, workflows.ToTemporal(err, k.kinds.failed(&info, err))
}
