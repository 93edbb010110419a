package monitor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/atomicfile"
	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/pause"
)

// kind is one that is watched, under one of its versions.
type kind struct {
	schema.GroupVersionKind
	resource string
}

// known are the kinds that are watched even without discovery. The Helm chart (deploy/helm/monitor) lists them
// too.
var known = map[schema.GroupKind]bool{
	{Kind: "ConfigMap"}:                                     true,
	{Kind: "Namespace"}:                                     true,
	{Kind: "PersistentVolumeClaim"}:                         true,
	{Kind: "Pod"}:                                           true,
	{Kind: "ResourceQuota"}:                                 true,
	{Kind: "Secret"}:                                        true,
	{Kind: "Service"}:                                       true,
	{Kind: "ServiceAccount"}:                                true,
	{Group: "apps", Kind: "DaemonSet"}:                      true,
	{Group: "apps", Kind: "Deployment"}:                     true,
	{Group: "apps", Kind: "StatefulSet"}:                    true,
	{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}: true,
	{Group: "batch", Kind: "CronJob"}:                       true,
	{Group: "batch", Kind: "Job"}:                           true,
	{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}: true,
	{Group: "networking.k8s.io", Kind: "Ingress"}:                     true,
	{Group: "networking.k8s.io", Kind: "NetworkPolicy"}:               true,
	{Group: "policy", Kind: "PodDisruptionBudget"}:                    true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:         true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}:  true,
	{Group: "rbac.authorization.k8s.io", Kind: "Role"}:                true,
	{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:         true,
	bundle.GroupKind: true,
}

// extra is a kind that the configuration adds, as EMCO's agent reads it; Version may be empty for the one that the
// cluster prefers.
type extra struct{ Group, Version, Kind string }

// readExtra reads the file of additional kinds, a JSON list; none when path is "". The error is Invalid.
func readExtra(path string) ([]extra, error) {
	if path == "" {
		return nil, nil
	}
	data, err := atomicfile.Read(path)
	if err != nil {
		return nil, fail.Wrap(err, fail.Invalid, "the file of kinds %q cannot be read", path)
	}
	var list []extra
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fail.Wrap(err, fail.Invalid, "the file of kinds %q is not a JSON list of Group, Version and Kind", path)
	}
	for i, e := range list {
		if e.Kind == "" {
			return nil, fail.New(fail.Invalid, "the file of kinds %q: entry %d names no Kind", path, i+1)
		}
	}
	return list, nil
}

// choose picks the kinds to watch of those that are served: the known ones, those of the configuration, and with
// discover all others that can be watched. served has the versions that the cluster prefers first.
func choose(served []*metav1.APIResourceList, more []extra, discover bool) map[schema.GroupKind]kind {
	wanted := map[schema.GroupKind]string{} // the version asked for
	for _, e := range more {
		wanted[schema.GroupKind{Group: e.Group, Kind: e.Kind}] = e.Version
	}
	chosen := map[schema.GroupKind]kind{}
	for _, list := range served {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue // no server says it
		}
		for _, r := range list.APIResources {
			gvk := gv.WithKind(r.Kind)
			gk := gvk.GroupKind()
			version, configured := wanted[gk]
			switch {
			case !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "watch"):
			case !configured && !known[gk] && (!discover || bundle.Busy(gk)):
			case version != "" && version != gv.Version:
			default:
				if _, ok := chosen[gk]; !ok {
					chosen[gk] = kind{gvk, r.Name}
				}
			}
		}
	}
	return chosen
}

// How often the agent looks for kinds that were added or taken away; how soon after a change of a
// CustomResourceDefinition, which come in bursts; and after a failure, for which it doubles from then on.
const (
	lookEvery = time.Minute
	lookSoon  = 300 * time.Millisecond
	lookAgain = 2 * time.Second
)

// syncTime is how long a start waits for kinds whose objects cannot be listed. They are missing in the list of
// observed kinds then.
const syncTime = 30 * time.Second

// watcher keeps the kinds that are watched those that choose says.
type watcher struct {
	index     *index
	health    *health
	cache     cache.Cache
	client    client.Client
	discovery discovery.DiscoveryInterface
	log       *slog.Logger
	kindsFile string
	discover  bool

	look    chan struct{} // has room for one; a word in it asks for a look
	running map[schema.GroupKind]*watch
}

// watch is one kind being watched.
type watch struct {
	kind
	handler *handler
	object  client.Object // by which the cache knows it
	synced  toolscache.InformerSynced
	stop    context.CancelFunc
}

// lookNow asks for a look; it never blocks.
func (w *watcher) lookNow() {
	select {
	case w.look <- struct{}{}:
	default:
	}
}

// Start looks for kinds until ctx ends. It implements manager.Runnable.
func (w *watcher) Start(ctx context.Context) error {
	var goroutines sync.WaitGroup
	defer goroutines.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	again := pause.Backoff{First: lookAgain, Most: lookEvery}
	for discovered := false; ; {
		next := lookEvery
		complete, err := w.refresh(ctx, &goroutines)
		if complete {
			again.Reset()
		} else {
			next = again.Next()
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			w.log.Warn("kinds cannot be discovered", "error", err)
		case !discovered:
			discovered = true
			watches := slices.Collect(maps.Values(w.running))
			goroutines.Go(func() { w.awaitAll(ctx, watches) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(next):
		case <-w.look:
			if pause.For(ctx, lookSoon) != nil {
				return nil
			}
			select {
			case <-w.look: // what came in the meantime is seen as well
			default:
			}
		}
	}
}

// awaitAll waits until what there is at the start has been seen.
func (w *watcher) awaitAll(ctx context.Context, watches []*watch) {
	limited, cancel := context.WithTimeout(ctx, syncTime)
	defer cancel()
	for _, k := range watches {
		if toolscache.WaitForCacheSync(limited.Done(), k.synced) {
			k.handler.observe() // the first status has all kinds
		} else if ctx.Err() == nil {
			w.log.Warn("kind cannot be listed", "kind", k.String())
		}
	}
	if ctx.Err() == nil {
		w.index.setSynced()
		w.log.Info("resources are watched", "kinds", len(watches))
	}
}

// refresh starts and stops watches, and says whether that is all there is to watch. With an error it does not know.
func (w *watcher) refresh(ctx context.Context, goroutines *sync.WaitGroup) (complete bool, err error) {
	chosen, partly, err := w.choose(ctx)
	if err != nil {
		return false, err
	}
	complete = partly == nil
	for gk, running := range w.running {
		if k, ok := chosen[gk]; (ok && k == running.kind) || (!ok && unknown(partly, gk.Group)) {
			continue
		}
		if err := w.stopWatch(ctx, running); err != nil {
			return false, err
		}
	}
	for _, k := range slices.SortedFunc(maps.Values(chosen), func(a, b kind) int { return cmp.Compare(a.String(), b.String()) }) {
		if w.running[k.GroupKind()] != nil {
			continue
		}
		if err := w.startWatch(ctx, k, goroutines); err != nil {
			w.log.Warn("kind cannot be watched", "kind", k.String(), "error", err)
			complete = false
		}
	}
	observedKinds.Set(float64(len(w.running)))
	return complete, nil
}

// choose asks the API server what it serves. Groups whose servers do not answer are in the second result, which is
// nil when all do.
func (w *watcher) choose(ctx context.Context) (map[schema.GroupKind]kind, *discovery.ErrGroupDiscoveryFailed, error) {
	more, err := readExtra(w.kindsFile)
	if err != nil {
		return nil, nil, err
	}
	var partly *discovery.ErrGroupDiscoveryFailed
	served, err := w.discovery.ServerPreferredResources()
	if err != nil && !errors.As(err, &partly) {
		return nil, nil, err
	}
	if len(more) > 0 { // they may name a version that is not preferred
		_, all, err := w.discovery.ServerGroupsAndResources()
		if err != nil && !errors.As(err, &partly) {
			return nil, nil, err
		}
		served = append(served, all...)
	}
	chosen := choose(served, more, w.discover)
	return chosen, partly, w.allowed(ctx, chosen)
}

// unknown says whether the group's server did not answer: its kinds may be there.
func unknown(partly *discovery.ErrGroupDiscoveryFailed, group string) bool {
	if partly == nil {
		return false
	}
	for gv := range partly.Groups {
		if gv.Group == group {
			return true
		}
	}
	return false
}

// allowed takes out of chosen what the agent may not list and watch. Of a kind that is watched already its watch will say
// so: what is known of it is old then, but not forgotten.
func (w *watcher) allowed(ctx context.Context, chosen map[schema.GroupKind]kind) error {
	if all, err := w.may(ctx, "*", "*"); all || err != nil {
		return err
	}
	for gk, k := range chosen {
		if w.running[gk] != nil {
			continue
		}
		ok, err := w.may(ctx, k.Group, k.resource)
		if err != nil {
			return err
		}
		if !ok {
			w.log.Debug("kind may not be watched", "kind", k.String())
			delete(chosen, gk)
		}
	}
	return nil
}

// may asks the API server for the agent's own rights.
func (w *watcher) may(ctx context.Context, group, resource string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	for _, verb := range []string{"list", "watch"} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource},
		}}
		if err := w.client.Create(ctx, review); err != nil {
			return false, fmt.Errorf("ask for the agent's rights: %w", err)
		}
		if !review.Status.Allowed {
			return false, nil
		}
	}
	return true, nil
}

func (w *watcher) startWatch(ctx context.Context, k kind, goroutines *sync.WaitGroup) error {
	started := &watch{kind: k, handler: &handler{index: w.index, kind: k.GroupKind()}, object: prototype(k)}
	informer, err := w.cache.GetInformer(ctx, started.object, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	registration, err := informer.AddEventHandler(started.handler)
	if err != nil {
		return err
	}
	started.synced = registration.HasSynced
	var watching context.Context
	watching, started.stop = context.WithCancel(ctx)
	goroutines.Go(func() {
		if toolscache.WaitForCacheSync(watching.Done(), started.synced) {
			started.handler.observe()
		}
	})
	w.running[k.GroupKind()] = started
	w.log.Debug("kind is watched", "kind", k.String())
	return nil
}

func (w *watcher) stopWatch(ctx context.Context, running *watch) error {
	running.stop()
	if err := w.cache.RemoveInformer(ctx, running.object); err != nil {
		return err
	}
	w.health.forget(running.GroupKind())
	running.handler.forget()
	delete(w.running, running.GroupKind())
	w.log.Debug("kind is no longer watched", "kind", running.String())
	return nil
}

// prototype tells the cache what of a kind to ask for.
func prototype(k kind) client.Object {
	if gk := k.GroupKind(); gk == bundle.GroupKind || bundle.MetadataOnly(gk) {
		o := &metav1.PartialObjectMetadata{}
		o.SetGroupVersionKind(k.GroupVersionKind)
		return o
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(k.GroupVersionKind)
	return o
}
