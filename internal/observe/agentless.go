package observe

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/policy"
)

// pageOfObjects is how many objects are asked for at a time.
const pageOfObjects = 200

// listsAtOnce is how many kinds are listed at a time: half of what the client lets through, as a watch mostly begins while
// the first resources are applied.
const listsAtOnce = 4

// agentless hears a cluster by the labelled resources themselves. It holds them as they will be reported.
type agentless struct {
	queue       *queue
	objects     *objects
	kinds       map[schema.GroupKind]*kindFeed
	definitions *definitions
}

// kindFeed follows one kind.
type kindFeed struct {
	*feed
	gvk schema.GroupVersionKind
}

func newAgentless(q *queue, known func(id string) bool, room *Room) *agentless {
	return &agentless{queue: q, objects: newObjects(q, known, room), kinds: map[schema.GroupKind]*kindFeed{}, definitions: newDefinitions()}
}

// sync finds out which kinds there are and lists those that are not known yet. One that the cluster refuses to list is
// not heard; follow tries it again.
func (a *agentless) sync(ctx context.Context, c *kube.Cluster) error {
	if err := a.definitions.sync(ctx, c); err != nil && !kube.IsAnswer(err) {
		return err
	}
	served, down, err := c.Served(ctx)
	if err != nil {
		return err
	}
	a.choose(served, down)
	a.definitions.expect(served, down)
	if a.objects.retry() {
		for _, k := range a.kinds {
			k.version = ""
		}
	}
	g, ctx := panics.WithContext(ctx)
	g.SetLimit(listsAtOnce)
	for _, k := range a.kinds {
		g.Go(func() error { return a.list(ctx, c, k) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	a.objects.retryEnds()
	if !a.objects.observed() {
		return fail.New(fail.Forbidden, "the cluster's credentials do not allow to watch any kind")
	}
	return nil
}

// choose begins to follow kinds that are new, or are served elsewhere, and forgets those that are gone. Those of a group that is down stay as they are.
func (a *agentless) choose(served []kube.Served, down map[string]bool) {
	there := map[schema.GroupKind]bool{}
	for _, s := range served {
		gk := s.GroupKind()
		if gk == bundle.GroupKind || bundle.Busy(gk) {
			continue
		}
		there[gk] = true
		if k := a.kinds[gk]; k != nil && (k.gvk == s.GroupVersionKind && k.Path == s.Path || down[gk.Group]) {
			continue
		}
		a.kinds[gk] = &kindFeed{gvk: s.GroupVersionKind, feed: &feed{
			Collection: kube.Collection{Path: s.Path, Labels: labelled, Metadata: bundle.MetadataOnly(gk), Page: pageOfObjects},
			follower:   &objectFollower{objects: a.objects, gvk: s.GroupVersionKind},
		}}
	}
	for gk := range a.kinds {
		if !there[gk] && !down[gk.Group] {
			delete(a.kinds, gk)
			a.objects.forget(gk)
		}
	}
}

// list lists a kind; that the cluster refuses is no error.
func (a *agentless) list(ctx context.Context, c *kube.Cluster, k *kindFeed) error {
	if err := k.sync(ctx, c); err != nil {
		return a.lose(ctx, c, k, err)
	}
	a.objects.observe(k.gvk.GroupKind())
	return nil
}

// lose says that a kind cannot be heard, for the reason err, if that is about the kind alone; else it returns err.
func (a *agentless) lose(ctx context.Context, c *kube.Cluster, k *kindFeed, err error) error {
	if !kube.IsAnswer(err) && (!kube.IsBusy(err) || !answers(ctx, c)) {
		return err
	}
	k.version = "" // what comes after it is not known
	a.objects.lose(k.gvk.GroupKind(), err)
	return nil
}

// answers says whether the cluster answers soon.
func answers(ctx context.Context, c *kube.Cluster) bool {
	ctx, cancel := context.WithTimeout(ctx, policy.Probe)
	defer cancel()
	return c.Ping(ctx) == nil
}

func (a *agentless) follow(ctx context.Context, c *kube.Cluster) error {
	g, ctx := panics.WithContext(ctx)
	for _, k := range a.kinds {
		g.Go(func() error { return a.followKind(ctx, c, k) })
	}
	g.Go(func() error { return a.definitions.feed.insist(ctx, c) })
	g.Go(func() error { return a.definitions.await(ctx, c) })
	g.Go(func() error { return a.awaitRoom(ctx) })
	return g.Wait()
}

// awaitRoom ends with errRoom when it is time to list again what was left out.
func (a *agentless) awaitRoom(ctx context.Context) error {
	for {
		if err := pause.For(ctx, policy.LongestRefused); err != nil {
			return err
		}
		if a.objects.hasRoom() {
			return errRoom
		}
	}
}

// followKind follows a kind that may be refused, now and then.
func (a *agentless) followKind(ctx context.Context, c *kube.Cluster, k *kindFeed) error {
	again := pause.Backoff{First: policy.FirstRefused, Most: policy.LongestRefused}
	for {
		if err := a.list(ctx, c, k); err != nil {
			return err
		}
		if k.version != "" {
			began := time.Now()
			if err := a.lose(ctx, c, k, k.follow(ctx, c)); err != nil {
				return err
			}
			if time.Since(began) > policy.LongestRefused {
				again.Reset()
			}
		}
		if err := again.Wait(ctx); err != nil {
			return err
		}
	}
}

// silence: there is nobody in between who could fall silent.
func (a *agentless) silence(time.Time) (string, time.Time) { return "", time.Time{} }

func (a *agentless) feeds() []*feed {
	feeds := []*feed{a.definitions.feed}
	for _, k := range a.kinds {
		feeds = append(feeds, k.feed)
	}
	return feeds
}

func (a *agentless) held() map[string]bool { return a.objects.deployments() }

// observe never has nothing to say: a deployment whose last resource is gone has none.
func (a *agentless) observe(_ context.Context, _ *kube.Cluster, id string) (*domain.Observation, error) {
	return a.objects.observation(id), nil
}

// definitions notices changes of the CustomResourceDefinitions.
type definitions struct {
	feed    *feed
	changed chan struct{}   // has room for one
	looks   []time.Duration // how long to wait until the kinds are looked at
	served  []kube.Served   // what the cluster has said last
	down    map[string]bool // the groups that did not say their kinds
	again   pause.Backoff   // until they are asked once more

	// A cluster that lets them be listed and not watched is asked for the list again and again: what it had the last time is no
	// change. The sums are of names and versions, in any order.
	listing     bool
	sum, listed uint64
}

// looksAfter says how soon after a change the kinds are looked at: changes come in bursts, and a kind is served a moment
// after its definition has changed for the last time, on a busy cluster a long one.
var looksAfter = []time.Duration{policy.KindsLook, policy.KindsLookAgain, policy.KindsLookLast}

func newDefinitions() *definitions {
	d := &definitions{changed: make(chan struct{}, 1), again: pause.Backoff{First: policy.FirstRefused, Most: policy.LongestRefused}}
	d.feed = &feed{Collection: kube.Collection{Path: definitionsPath, Metadata: true, Page: pageOfNames}, follower: d}
	return d
}

// sync lists the definitions for the first time. What is there then is no change: the kinds are looked at afterwards.
func (d *definitions) sync(ctx context.Context, c *kube.Cluster) error {
	if d.feed.version != "" {
		return nil
	}
	err := d.feed.sync(ctx, c)
	select {
	case <-d.changed:
	default:
	}
	return err
}

func (d *definitions) put(object json.RawMessage) error {
	if !d.listing {
		return d.remove(nil)
	}
	m, err := metaOf(object)
	if err != nil {
		return err
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(m.Metadata.Name + "/" + m.Metadata.ResourceVersion))
	d.sum += h.Sum64()
	return nil
}

func (d *definitions) remove(json.RawMessage) error {
	select {
	case d.changed <- struct{}{}:
	default:
	}
	return nil
}

func (d *definitions) begin() { d.listing, d.sum = true, 0 }

func (d *definitions) end() {
	if d.sum != d.listed {
		_ = d.remove(nil)
	}
	d.listing, d.listed = false, d.sum
}

// expect takes what the cluster has said. Groups that are down are asked again though no definition changes.
func (d *definitions) expect(served []kube.Served, down map[string]bool) {
	if d.served, d.down = served, down; len(down) == 0 {
		d.again.Reset()
	}
}

// await ends with errKinds when it is time to look. A group may be down for good: that one still is, is no reason to.
func (d *definitions) await(ctx context.Context, c *kube.Cluster) error {
	for len(d.looks) == 0 {
		var again <-chan time.Time
		if len(d.down) > 0 {
			again = time.After(d.again.Next())
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-again:
			served, down, err := c.Served(ctx)
			if err != nil {
				return err
			}
			if !slices.Equal(served, d.served) || !maps.Equal(down, d.down) {
				return errKinds
			}
		case <-d.changed:
			d.looks = looksAfter
		}
	}
	wait := d.looks[0]
	d.looks = d.looks[1:]
	if err := pause.For(ctx, wait); err != nil {
		return err
	}
	return errKinds
}
