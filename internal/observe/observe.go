// Package observe watches a cluster, and tells a Sink what becomes of the apps that are deployed in it. In a cluster with an
// agent it watches the ResourceBundleStates that the agent writes; in a cluster without one, the labelled resources
// themselves.
//
// A Watcher runs one session with its cluster after the other. A session lists what there is, or what has changed since the
// session before, and then follows the changes. It ends when the connection breaks. What is still to be told to the Sink is
// kept from one session to the next.
package observe

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
)

// Sink takes what is heard. A Watcher never calls it twice at a time for the same app. An error is tried again later.
type Sink interface {
	// Put replaces what is known of an app in a cluster, where the app is one that the sink keeps. Of others, which a cluster may make up
	// as it likes, nothing is remembered.
	Put(ctx context.Context, o *domain.Observation) (kept bool, err error)
	// Delete forgets an app that is not in the cluster any more, or has no report there.
	Delete(ctx context.Context, app domain.ObservedApp) error
	// Contact says whether the cluster can be heard, when that changes and when a watch begins.
	Contact(ctx context.Context, w domain.Watch) error
}

// Clusters gives clients with current credentials; *kube.Clusters does.
type Clusters interface {
	Get(ctx context.Context, name domain.ClusterName) (*kube.Cluster, error)
}

// Config is what a Watcher needs; the zero value of a duration means its default.
type Config struct {
	Cluster  domain.ClusterName
	Report   domain.Report // auto, agent, install or agentless
	Clusters Clusters
	Sink     Sink
	// Known is what the sink holds of the cluster already: what is not there any more is deleted.
	Known []domain.ObservedApp
	// Room is what all watchers of the process may hold of resources together; nil for one of limits.Watched bytes for this watcher alone.
	Room *Room

	RetryFirst time.Duration // how long to wait before another session, doubling, 500 ms
	RetryMost  time.Duration // up to this, 30 s
	Interval   time.Duration // least time between two reports of an app, agentless, 500 ms
	Silence    time.Duration // how long an agent may be silent, bundle.LeaseDuration
	Takeover   time.Duration // how long one has to live until it is heard in place of the resources, auto, 15 s
	Probe      time.Duration // how long the cluster may take to answer when another session begins, 3 s
}

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{
		{&c.RetryFirst, policy.FirstSession},
		{&c.RetryMost, policy.LongestSession},
		{&c.Interval, policy.ReportEach},
		{&c.Silence, bundle.LeaseDuration},
		{&c.Takeover, policy.Takeover},
		{&c.Probe, policy.Probe},
	} {
		if *d.value == 0 {
			*d.value = d.fallback
		}
	}
	if c.Room == nil {
		c.Room = NewRoom(limits.Watched)
	}
	return c
}

// Watcher watches one cluster.
type Watcher struct {
	config Config
	source source
	queue  *queue
	auto   *auto // nil where who is heard is fixed

	mu sync.Mutex
	// sent are the digests of what the sink has, by deployment id; "" where only that it has something is known.
	sent map[string]domain.Digest

	said *domain.Watch // what the sink was told last
	// heard is when the last session ended in which the cluster answered; zero for none.
	heard time.Time
}

// source is one of the ways to hear a cluster.
type source interface {
	// sync lists what is not known yet.
	sync(ctx context.Context, c *kube.Cluster) error
	// follow has changes queued until ctx ends or the cluster cannot be asked; the error is never nil.
	follow(ctx context.Context, c *kube.Cluster) error
	// observe says what is known of a deployment. Without an error, nil when there is nothing to be known.
	observe(ctx context.Context, c *kube.Cluster, id string) (*domain.Observation, error)
	// silence is why what is heard may be old, since when; "" when it is not.
	silence(now time.Time) (reason string, since time.Time)
	// feeds are those by which it hears.
	feeds() []*feed
	// held are the deployments of which there is something in the cluster, as far as is known.
	held() map[string]bool
}

// Errors of sources.
var (
	// errNoDefinition is permanent until somebody installs it.
	errNoDefinition = fail.New(fail.NotFound, bundle.Missing)
	// errKinds says that the cluster serves other kinds than before.
	errKinds = errors.New("the cluster's kinds have changed")
	// errRoom says that there may be room by now for what was left out.
	errRoom = errors.New("what was left out is to be listed again")
	// errAnother says that somebody else is to be heard.
	errAnother = errors.New("somebody else is to be heard")
	// errBeingWritten says that what was read is being written.
	errBeingWritten = errors.New("a newer state is on its way")
)

// New makes a watcher. Invalid when nothing is to be watched.
func New(c Config) (*Watcher, error) {
	w := &Watcher{config: c.withDefaults(), sent: map[string]domain.Digest{}}
	for _, known := range c.Known {
		w.sent[plan.DeploymentID(known.ContextID, known.App)] = ""
	}
	switch c.Report {
	case domain.ReportAuto:
		w.auto = &auto{Watcher: w, lease: newLease(w.config.Silence)}
	case domain.ReportAgent, domain.ReportInstall:
		w.hearAgent(newLease(w.config.Silence))
	case domain.ReportAgentless:
		w.hearResources()
	default:
		return nil, fail.New(fail.Invalid, "a cluster whose reports are %q is not watched", c.Report)
	}
	return w, nil
}

// hearAgent has the agent of the lease heard from now on.
func (w *Watcher) hearAgent(l *lease) *agent {
	w.quit()
	w.queue = newQueue(0) // agents have an interval of their own
	a := newAgent(w.queue, l, w.contact)
	w.source = a
	w.begin()
	return a
}

// hearResources has the resources themselves heard from now on.
func (w *Watcher) hearResources() *agentless {
	w.quit()
	w.queue = newQueue(w.config.Interval)
	a := newAgentless(w.queue, func(id string) bool {
		_, known := w.has(id)
		return known
	}, w.config.Room)
	w.source = a
	w.begin()
	return a
}

// quit leaves the room of what was heard so far to others.
func (w *Watcher) quit() {
	if a, ok := w.source.(*agentless); ok {
		a.objects.end()
	}
}

// begin asks for a report on all that the sink knows. That comes out of the queue when the cluster has been listed, and must leave room for that.
func (w *Watcher) begin() {
	known := w.deployments()
	w.queue.known = len(known)
	for _, id := range known {
		w.queue.again(id)
	}
}

// deployments are those that the sink knows.
func (w *Watcher) deployments() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.sent))
}
