package observe

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/readiness"
)

const bundlesPath = "/apis/" + bundle.Group + "/" + bundle.Version + "/" + bundle.Resource

// Objects that are asked for at a time: names are small, a ResourceBundleState may have a megabyte.
const (
	pageOfNames   = 500
	pageOfBundles = 8
)

// What a cluster says beyond what is kept of it. Others must have room, too.
var (
	errReport  = fail.New(fail.Unavailable, "what the cluster reports of the app has more than %d bytes", limits.ClusterList)
	errMany    = fail.New(fail.Unavailable, "the cluster has more than %d objects of deployments", limits.ClusterObjects)
	errLeftOut = fail.New(fail.Unavailable, "the objects of deployments in the cluster have more than %d bytes, or those in all clusters of its worker more than --watch-memory: those of the app are left out", limits.ClusterHeld)
)

// agent hears a cluster by the ResourceBundleStates that an agent writes. It follows their metadata, so that it holds
// nothing but names and versions, and reads those that have changed.
type agent struct {
	queue   *queue
	contact func(context.Context) error
	bundles *feed
	names   *names
	lease   *lease
	yields  bool // to somebody else when it falls silent
}

func newAgent(q *queue, l *lease, contact func(context.Context) error) *agent {
	a := &agent{queue: q, contact: contact, names: newNames(q), lease: l}
	a.bundles = &feed{Collection: kube.Collection{Path: bundlesPath, Labels: labelled, Metadata: true, Page: pageOfNames}, follower: a.names}
	return a
}

func (a *agent) sync(ctx context.Context, c *kube.Cluster) error {
	if err := a.bundles.sync(ctx, c); err != nil {
		return definitionMissing(err)
	}
	err := a.lease.feed.sync(ctx, c)
	switch {
	case kube.IsAnswer(err):
		return nil // whoever gave the credentials did not think of the lease
	case err == nil && a.lease.doubtful(time.Now()):
		return a.ask(ctx, c)
	}
	return err
}

// errEnough ends a list of which the rest is of no interest.
var errEnough = errors.New("enough")

// ask finds out, where no Lease shows that the agent lives, whether there has to be one: before anybody is told that the cluster is heard, or not.
func (a *agent) ask(ctx context.Context, c *kube.Cluster) error {
	var filled *bundle.Part
	q := kube.Collection{Path: bundlesPath, Labels: labelled, Page: pageOfBundles}
	_, err := c.List(ctx, q, func(object json.RawMessage) error {
		if part, err := bundle.Decode(object); err == nil && part.Number == 1 && part.Filled {
			filled = part
			return errEnough
		}
		return nil
	})
	if filled == nil {
		return definitionMissing(err)
	}
	a.expect(filled.Lease, filled.Kinds)
	return nil
}

// expect takes from a report whether the agent has a Lease. EMCO's agent, which says of no kinds that it observes them, has none, and is not heard
// in place of somebody else.
func (a *agent) expect(lease string, kinds []schema.GroupKind) {
	switch {
	case lease != "":
		a.lease.expect(lease)
	case kinds == nil && !a.yields:
		a.lease.expectNone()
	}
}

func definitionMissing(err error) error {
	if kube.IsUnserved(err) {
		return errNoDefinition
	}
	return err
}

func (a *agent) follow(ctx context.Context, c *kube.Cluster) error {
	g, ctx := panics.WithContext(ctx)
	g.Go(func() error { return definitionMissing(a.bundles.follow(ctx, c)) })
	g.Go(func() error { return a.lease.follow(ctx, c) })
	g.Go(func() error { return a.vigil(ctx) })
	return g.Wait()
}

// vigil says when the agent falls silent, and when it is back.
func (a *agent) vigil(ctx context.Context) error {
	for {
		if reason, _ := a.silence(time.Now()); reason != "" && a.yields {
			return errAnother
		}
		if err := a.contact(ctx); err != nil {
			return err
		}
		var late <-chan time.Time
		if left, ok := a.lease.left(time.Now()); ok {
			late = time.After(left)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-a.lease.beat:
		case <-late:
		}
	}
}

func (a *agent) silence(now time.Time) (string, time.Time) { return a.lease.silent(now) }

func (a *agent) feeds() []*feed { return []*feed{a.bundles, a.lease.feed} }

func (a *agent) held() map[string]bool { return a.names.deployments() }

// observe reads the ResourceBundleStates of a deployment.
func (a *agent) observe(ctx context.Context, c *kube.Cluster, id string) (*domain.Observation, error) {
	var parts []*bundle.Part
	bytes := 0
	q := kube.Collection{Path: bundlesPath, Labels: deployment(id), Page: pageOfBundles}
	_, err := c.List(ctx, q, func(object json.RawMessage) error {
		if bytes += len(object); bytes > limits.ClusterList {
			return errReport
		}
		part, err := bundle.Decode(object)
		if err == nil {
			parts = append(parts, part)
		}
		return nil // what nobody can read is no report
	})
	if errors.Is(err, errReport) {
		return &domain.Observation{Error: fail.TextOf(errReport)}, nil
	}
	if err != nil {
		return nil, definitionMissing(err)
	}
	for _, b := range bundle.Join(parts) {
		switch {
		case !b.Filled:
		case b.Error != "":
			return &domain.Observation{Error: b.Error}, nil
		case !b.Complete:
			return nil, errBeingWritten
		default:
			a.expect(b.Lease, b.Kinds)
			return observation(&b), nil
		}
	}
	return nil, nil
}

// observation judges the objects.
func observation(b *bundle.Bundle) *domain.Observation {
	o := &domain.Observation{Resources: make([]domain.ObservedResource, len(b.Objects))}
	if b.Kinds != nil {
		o.Kinds = make([]string, len(b.Kinds))
	}
	for i, k := range b.Kinds {
		o.Kinds[i] = k.String()
	}
	for _, u := range b.Unheard {
		o.Unheard = append(o.Unheard, domain.UnheardKind{Kind: u.String(), Since: u.Since, Reason: u.Reason})
	}
	for i := range b.Objects {
		object := &b.Objects[i]
		gvk := schema.GroupVersionKind{Group: object.Group, Version: object.Version, Kind: object.Kind}
		o.Resources[i] = observed(object, (*readiness.Rules)(nil).OfJSON(gvk, object.JSON))
	}
	return o
}

func observed(b *bundle.Object, state readiness.State) domain.ObservedResource {
	return domain.ObservedResource{
		Group: b.Group, Version: b.Version, Kind: b.Kind, Namespace: b.Namespace, Name: b.Name,
		Status: string(state.Status), Message: state.Message, JSON: b.JSON,
	}
}

// names are the ResourceBundleStates that there are.
type names struct {
	queue *queue

	mu    sync.Mutex
	known map[name]seen
	stale map[name]bool // while a list is read: what was not in it so far
}

type name struct{ namespace, name string }

type seen struct{ deployment, version string }

func newNames(q *queue) *names { return &names{queue: q, known: map[name]seen{}} }

// meta are the members of an object's metadata that matter here.
type meta struct {
	Metadata struct {
		Name            string            `json:"name"`
		Namespace       string            `json:"namespace"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
	} `json:"metadata"`
}

func metaOf(object json.RawMessage) (*meta, error) {
	m := &meta{}
	if err := json.Unmarshal(object, m); err != nil {
		return nil, unreadable(err)
	}
	return m, nil
}

// unreadable is the error of what a cluster sends that is no object.
func unreadable(cause error) error {
	return fail.Wrap(cause, fail.Unavailable, "the cluster sends an object that cannot be read")
}

func (n *names) put(object json.RawMessage) error {
	m, err := metaOf(object)
	if err != nil {
		return err
	}
	at := name{m.Metadata.Namespace, m.Metadata.Name}
	now := seen{m.Metadata.Labels[plan.DeploymentLabel], m.Metadata.ResourceVersion}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !fits(at.namespace, at.name, now.deployment) || len(now.version) > limits.ObjectName {
		n.drop(at)
		return nil
	}
	delete(n.stale, at)
	before, known := n.known[at]
	if known && before == now {
		return nil
	}
	if !known && len(n.known) >= limits.ClusterObjects {
		return errMany
	}
	if err := n.queue.add(now.deployment); err != nil {
		return err
	}
	n.known[at] = now
	if known && before.deployment != now.deployment {
		n.queue.again(before.deployment)
	}
	return nil
}

func (n *names) remove(object json.RawMessage) error {
	m, err := metaOf(object)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drop(name{m.Metadata.Namespace, m.Metadata.Name})
	return nil
}

// drop forgets a ResourceBundleState. The lock is held.
func (n *names) drop(at name) {
	if before, ok := n.known[at]; ok {
		delete(n.known, at)
		n.queue.again(before.deployment)
	}
}

// deployments are those of which there is one.
func (n *names) deployments() map[string]bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	found := map[string]bool{}
	for _, s := range n.known {
		found[s.deployment] = true
	}
	return found
}

func (n *names) begin() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stale = make(map[name]bool, len(n.known))
	for at := range n.known {
		n.stale[at] = true
	}
}

func (n *names) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for at := range n.stale {
		n.drop(at)
	}
	n.stale = nil
}
