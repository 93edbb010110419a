package app

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/api"
	"github.com/drover-io/drover/deploy/helm/monitor"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/fetch"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/observe"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/version"
	"github.com/drover-io/drover/worker"
	"github.com/drover-io/drover/workflows"
)

// Work runs the worker until ctx ends, then ends what runs or hands it over. ready is called when it polls. It is an error when Temporal does not let it
// poll any more: who waits for a worker that does nothing would wait without end.
func (p *Parts) Work(ctx context.Context, ready func()) error {
	polls, refused := context.WithCancelCause(ctx)
	defer refused(nil)
	if err := p.tellBuild(); err != nil {
		return err
	}
	registered := &registrations{parts: p}
	clusters, err := kube.NewClusters(kubeConfig(p.config, 0), registered.credentials)
	if err != nil {
		return err
	}
	defer clusters.Close()
	users, err := kube.NewUsers(kubeConfig(p.config, 0), registered.user)
	if err != nil {
		return err
	}
	defer users.Close()
	go registered.follow(ctx, clusters, users)
	agent, err := monitor.Manifests(monitor.Options{Namespace: domain.AgentNamespace, Image: p.config.MonitorImage})
	if err != nil {
		return err
	}
	work := activities.NewKube(clusters, p.store, p.engine, registered, agent)
	work.Users, work.References, work.Rules, work.Records, work.Secrets = users, p.store, rulesIn(p.store), p.store, p.inner
	work.Installation = p.installation
	matches := &activities.Match{Work: work, Store: p.store, Settler: p.engine, Shards: p.engine, Now: time.Now}
	watch := &activities.Watch{
		Clusters: clusters, Reports: registered, Store: p.store, Shards: p.engine, Sweeps: p.engine, Matches: matches,
		Observe: observing(observe.NewRoom(int(p.config.WatchMemory))), Now: time.Now,
	}
	defer activities.Measure(work, watch)()
	control := p.control(clusters)
	control.Plans = work.Plans
	w := worker.New(p.temporal,
		control,
		work,
		watch,
		matches,
		worker.Options{
			Workflows: p.config.Workflows, Activities: p.config.Activities, Clusters: p.config.Clusters,
			Watches: activities.WatchShards, Waits: waits,
			Cache: p.config.Cache, Drain: p.config.Drain, Leases: p.leases, Build: p.build, Refused: refused,
		})
	if err := w.Start(); err != nil {
		return err
	}
	defer w.Stop()
	if err := p.takeOver(polls); err != nil {
		return err
	}
	ready()
	p.keepWork(polls, policy.Claim)
	if ctx.Err() == nil {
		return context.Cause(polls)
	}
	return nil
}

// control is the work that needs no cluster but to ask for nodes.
func (p *Parts) control(clusters *kube.Clusters) *activities.Control {
	return &activities.Control{
		Store: p.store, Runs: p.engine, Now: time.Now, Clock: p.store.Clock, Sealer: p.inner, Keepers: p.engine, Shards: p.engine, Charts: p.charts,
		Nodes: nodesOf{clusters}, Audit: p.audit.trail, MaxTargets: p.config.Fair.GroupTargets, Elsewhere: fetch.New(p.config.ExternalHosts, nil),
		PodSecurity: domain.PodSecurity(p.config.CloudPodSecurity), CertificateSeconds: int32(p.config.CertificateLifetime.Seconds()), // #nosec G115 -- bounded by the configuration
	}
}

// tellBuild decides by which build Temporal is to know this worker.
func (p *Parts) tellBuild() (err error) {
	switch p.config.WorkerVersioning {
	case "on", "force":
		p.build, err = version.Build()
		return err
	default:
		p.build = ""
		return nil
	}
}

// takeOver has what workflows do from now on be done by this build, unless a newer one is there. It waits until Temporal knows that the worker
// polls all its queues: before that it would send some work to nobody.
func (p *Parts) takeOver(ctx context.Context) error {
	return await(ctx, p.log, dependency{
		"Temporal Worker Deployment " + workflows.Deployment,
		"look at `temporal worker deployment describe --namespace " + p.config.Temporal.Namespace + " --name " + workflows.Deployment + "`, or start the worker with --worker-versioning off (DROVER_WORKER_VERSIONING)",
		func(ctx context.Context) error {
			err := p.claim(ctx, p.config.WorkerVersioning == "force")
			if p.build == "" && fail.Is(err, fail.Precondition) {
				p.log.Warn("this worker cannot see whether Temporal gives the work to a build that is switched off, and would then get none itself",
					"error", err, "remedy", "temporal worker deployment set-current-version --deployment-name "+workflows.Deployment+" --unversioned")
				p.newer.Store(new(string)) // as far as it can know
				return nil
			}
			return err
		},
	})
}

// keepWork claims the work again and again until ctx ends: another build may have been made the current one meanwhile, by somebody's force, or
// because Temporal's database is that of a backup. Force counts for the start alone, or two builds that have it would take the work from each
// other for as long as both run. A worker without a build leaves it as it is: it knows none that would be older. What goes on by itself is scheduled
// again, too, where somebody has deleted that.
func (p *Parts) keepWork(ctx context.Context, every time.Duration) {
	for pause.For(ctx, every) == nil {
		if err := p.engine.EnsureSchedules(ctx); err != nil && ctx.Err() == nil {
			p.log.Warn("this worker cannot see whether what goes on by itself is scheduled", "error", err)
		}
		if p.build == "" {
			continue
		}
		if err := p.claim(ctx, false); err != nil && ctx.Err() == nil {
			p.log.Warn("this worker cannot see which build does the work of the namespace", "error", err)
		}
	}
}

// claim is one TakeOver, and notes who does the work.
func (p *Parts) claim(ctx context.Context, force bool) error {
	build := p.build
	now, before, part, err := p.engine.TakeOver(ctx, build, force)
	if err != nil {
		return err
	}
	if was := p.ramp.Swap(&part); part != "" && (was == nil || *was != part) {
		p.log.Warn("somebody has Temporal give a part of the work to another build", "build", build, "part", part,
			"remedy", "temporal worker deployment set-ramping-version --deployment-name "+workflows.Deployment+" --delete, with --build-id and that build or with --unversioned")
	}
	newer := ""
	if now != build {
		newer = now
	}
	was := p.newer.Swap(&newer)
	switch {
	case newer != "" && was != nil && *was == newer: // it is said
	case newer != "":
		p.log.Warn("a newer build does the work of this namespace, and this worker gets none; --worker-versioning force has it take over", "build", build, "newer", now)
	case build == "" && before != "":
		p.log.Warn("workers tell Temporal no build any more: what this one has begun an older one may go on with", "before", before)
	case before != build:
		p.log.Info("this build does the work of the namespace from now on", "build", build, "before", before)
	case was != nil && *was != "":
		p.log.Info("this build does the work of the namespace again", "build", build, "before", *was)
	}
	return nil
}

// hasWork is an error until it is known which build does the work, and while a newer one does, or another one has a part of it, for /readyz: a worker that was only started has
// taken nothing over, and whoever waits for it to stop the old ones would stop them too early.
func (p *Parts) hasWork(context.Context) error {
	newer, part := p.newer.Load(), p.ramp.Load()
	switch {
	case newer == nil:
		return fail.New(fail.Unavailable, "this worker has not found out yet which build does the work of this namespace")
	case *newer != "":
		return fail.New(fail.Unavailable, "the newer build %s does the work of this namespace, and this worker, of build %s, gets none", *newer, p.build)
	case part != nil && *part != "":
		return fail.New(fail.Unavailable, "of the work of this namespace %s, and not to build %s", *part, p.build)
	default:
		return nil
	}
}

// waits is how many activities may wait for something in a cluster at a time: each costs three goroutines.
const waits = 2000

// observing is activities.Observe, of clusters that share a room.
func observing(room *observe.Room) activities.Observe {
	return func(ctx context.Context, c observe.Config) error {
		c.Room = room
		w, err := observe.New(c)
		if err != nil {
			return err
		}
		return w.Run(ctx)
	}
}

// WorkerHealth serves the worker's health and metrics behind the front until ctx ends.
func (p *Parts) WorkerHealth(ctx context.Context, f *Front) error {
	mux, own := http.NewServeMux(), prometheus.NewRegistry()
	own.MustRegister(p.audit, p.metrics, p.keysUnreadable())
	mux.Handle("GET /metrics", promhttp.HandlerFor(prometheus.Gatherers{prometheus.DefaultGatherer, own}, promhttp.HandlerOpts{MaxRequestsInFlight: limits.Gathers}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	questions := p.ready()
	questions["work"] = p.hasWork
	probe := api.NewProbe(policy.Ready, questions)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if missing := probe.Missing(r.Context()); len(missing) > 0 {
			http.Error(w, strings.Join(missing, ", "), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	f.open(mux)
	return f.until(ctx)
}

// ready asks the dependencies, for /readyz of a worker, which can do nothing without all of them.
func (p *Parts) ready() map[string]func(context.Context) error {
	return map[string]func(context.Context) error{"database": p.store.Ready, "temporal": p.engine.Ping}
}
