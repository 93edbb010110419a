package monitor

import (
	"cmp"
	"slices"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/plan"
)

// index is what the agent knows of the cluster, by deployment id.
type index struct {
	lease       string // see bundle.Head
	mu          sync.Mutex
	changed     func(id string) // called, not under the lock, with each deployment whose view has changed
	deployments map[string]*deployment
	where       map[plan.ResourceID]string // the deployment that an object is in
	own         map[types.NamespacedName]*ownWrites
	kinds       map[schema.GroupKind]bool // those whose objects are all known
	unheard     []bundle.Unheard          // never changed, but replaced
	synced      bool
	// announced and listened say that changed, as it was then and as it is set, has been called with all that there was.
	announced, listened bool
}

// deployment is one deployment id's share. version counts what changes its status.
type deployment struct {
	version int64
	objects map[plan.ResourceID]*tracked
	bundles map[types.NamespacedName]*tracked
	lost    map[types.UID]int // parts that went, and writes of others, by the UID of their first
}

// ownWrites are the agent's own of a ResourceBundleState: any other one has put something in place of what the agent says.
type ownWrites struct {
	pending  int      // they have no answer yet
	versions []string // that they made, but for those before the last one that was seen
	seen     bool     // a version came while there were pending ones
}

// mostOwn is how many versions are remembered that have not been seen.
const mostOwn = 32

func newIndex(lease string) *index {
	return &index{
		lease: lease, changed: func(string) {}, deployments: map[string]*deployment{},
		where: map[plan.ResourceID]string{}, own: map[types.NamespacedName]*ownWrites{}, kinds: map[schema.GroupKind]bool{},
	}
}

// view is what a status is made of. objects are shared and must not be changed.
type view struct {
	version int64
	head    bundle.Head
	objects []*bundle.Object
	first   []first
}

// first is a ResourceBundleState to be filled, with the parts it has.
type first struct {
	bundle.Owner
	parts []int // numbers
	lost  int   // how often others have removed a part, or have written one
}

// view returns what is known of a deployment; false when it has no ResourceBundleState, or while so little is
// known yet that a status would say less than the one that is there.
func (x *index) view(id string) (view, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	d := x.deployments[id]
	if d == nil || len(d.bundles) == 0 || !x.synced {
		return view{}, false
	}
	v := view{version: d.version, head: bundle.Head{Ready: len(d.objects) > 0, Lease: x.lease, Unheard: x.unheard}}
	for kind := range x.kinds {
		if kind == bundle.GroupKind {
			continue
		}
		v.head.Kinds = append(v.head.Kinds, kind)
	}
	for _, t := range d.objects {
		v.objects = append(v.objects, t.object)
		v.head.Ready = v.head.Ready && t.ready && !x.silent(t.GroupVersionKind().GroupKind())
	}
	for _, b := range d.bundles {
		if b.part == "" {
			v.first = append(v.first, first{Owner: bundle.Owner{
				Namespace: b.Namespace, Name: b.Name, UID: string(b.UID), DeploymentID: id,
			}, lost: d.lost[b.UID]})
		}
	}
	slices.SortFunc(v.first, func(a, b first) int { return cmp.Compare(a.UID, b.UID) })
	for _, b := range d.bundles {
		number, err := strconv.Atoi(b.part)
		if err != nil || len(b.OwnerReferences) != 1 {
			continue
		}
		for i := range v.first {
			if v.first[i].UID == string(b.OwnerReferences[0].UID) {
				v.first[i].parts = append(v.first[i].parts, number)
			}
		}
	}
	return v, true
}

// ids are the deployments that have a ResourceBundleState. The lock is held.
func (x *index) ids() []string {
	var ids []string
	for id, d := range x.deployments {
		if len(d.bundles) > 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// setChanged sets what is called, and calls it with every deployment.
func (x *index) setChanged(changed func(id string)) {
	x.mu.Lock()
	x.changed = changed
	x.mu.Unlock()
	x.tellAll()
	x.mu.Lock()
	x.listened = true
	x.mu.Unlock()
}

// setSynced says that everything which is there has been seen: from now on there are views.
func (x *index) setSynced() {
	x.mu.Lock()
	x.synced = true
	x.mu.Unlock()
	x.tellAll()
	x.mu.Lock()
	x.announced = true
	x.mu.Unlock()
}

// tellAll has every status looked at.
func (x *index) tellAll() {
	x.mu.Lock()
	ids, changed := x.ids(), x.changed
	x.mu.Unlock()
	for _, id := range ids {
		changed(id)
	}
}

// setUnheard says which of the kinds that are watched cannot be heard.
func (x *index) setUnheard(list []bundle.Unheard) {
	x.mu.Lock()
	same := slices.Equal(x.unheard, list)
	if !same {
		x.unheard = list
		for _, d := range x.deployments {
			d.version++
		}
	}
	x.mu.Unlock()
	if !same {
		x.tellAll()
	}
}

// silent says whether the kind cannot be heard. The lock is held.
func (x *index) silent(kind schema.GroupKind) bool {
	return slices.ContainsFunc(x.unheard, func(u bundle.Unheard) bool { return u.GroupKind == kind })
}

// isAnnounced says whether everything that was there at the start is to be written, or has been.
func (x *index) isAnnounced() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.announced && x.listened
}

// observe says that all objects of the kind are known. The lock is held.
func (x *index) observe(kind schema.GroupKind) []string {
	if x.kinds[kind] {
		return nil
	}
	x.kinds[kind] = true
	for _, d := range x.deployments {
		d.version++
	}
	return x.ids()
}

func (x *index) observes(kind schema.GroupKind) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.kinds[kind]
}

// of finds or makes a deployment. The lock is held.
func (x *index) of(id string) *deployment {
	d := x.deployments[id]
	if d == nil {
		d = &deployment{
			objects: map[plan.ResourceID]*tracked{}, bundles: map[types.NamespacedName]*tracked{}, lost: map[types.UID]int{},
		}
		x.deployments[id] = d
	}
	return d
}

// drop forgets a deployment of which nothing is left. The lock is held.
func (x *index) drop(id string) {
	if d := x.deployments[id]; d != nil && len(d.objects) == 0 && len(d.bundles) == 0 {
		delete(x.deployments, id)
	}
}

// handler takes the events of one kind's informer.
type handler struct {
	index *index
	kind  schema.GroupKind
	// closed is set under the index's lock: events that come when the kind has been forgotten are too late.
	closed bool
}

// OnAdd implements toolscache.ResourceEventHandler.
func (h *handler) OnAdd(obj any, _ bool) { h.put(obj) }

// OnUpdate implements toolscache.ResourceEventHandler.
func (h *handler) OnUpdate(_, obj any) { h.put(obj) }

// OnDelete implements toolscache.ResourceEventHandler.
func (h *handler) OnDelete(obj any) {
	if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	if t, ok := obj.(*tracked); ok {
		h.tell(func() []string { return h.index.remove(t) })
	}
}

func (h *handler) put(obj any) {
	if t, ok := obj.(*tracked); ok {
		h.tell(func() []string { return h.index.put(t) })
	}
}

// observe says that OnAdd has been called for everything that is there.
func (h *handler) observe() { h.tell(func() []string { return h.index.observe(h.kind) }) }

// forget takes out all objects of the kind.
func (h *handler) forget() {
	h.tell(func() []string {
		h.closed = true
		return h.index.forget(h.kind)
	})
}

// tell runs change under the lock, unless the handler is closed, and then says which deployments it changed.
func (h *handler) tell(change func() []string) {
	h.index.mu.Lock()
	var ids []string
	if !h.closed {
		ids = change()
	}
	changed := h.index.changed
	h.index.mu.Unlock()
	for _, id := range ids {
		changed(id)
	}
}

// put notes an object or a ResourceBundleState as it is now. The lock is held.
func (x *index) put(t *tracked) []string {
	id := t.deployment
	if t.GroupVersionKind().GroupKind() == bundle.GroupKind {
		return x.putBundle(id, t)
	}
	if t.object == nil { // what was the app's own may become what others derive
		return x.remove(t)
	}
	key := t.id()
	var ids []string
	if before, ok := x.where[key]; ok && before != id {
		ids = x.remove(x.deployments[before].objects[key])
	}
	d := x.of(id)
	if old := d.objects[key]; old != nil && string(old.object.JSON) == string(t.object.JSON) {
		return ids
	}
	d.objects[key] = t
	x.where[key] = id
	d.version++
	return append(ids, id)
}

// putBundle is put for a ResourceBundleState. A new one makes a change; a new status does unless it is the agent's own.
func (x *index) putBundle(id string, t *tracked) []string {
	var ids []string
	name := types.NamespacedName{Namespace: t.Namespace, Name: t.Name}
	for other, d := range x.deployments { // labels change rarely, and bundles are few
		if old := d.bundles[name]; old != nil && other != id {
			ids = append(ids, x.removeBundle(other, old)...)
		}
	}
	d := x.of(id)
	if old := d.bundles[name]; old != nil {
		if old.UID == t.UID {
			d.bundles[name] = t
			if old.ResourceVersion != t.ResourceVersion {
				ids = append(ids, x.judge(id, name)...)
			}
			return ids
		}
		x.removeBundle(id, old)
		d = x.of(id)
	}
	d.bundles[name] = t
	d.version++
	return append(ids, id)
}

// writes says that a ResourceBundleState is being written, until it is called what comes back, with the versions that were made.
func (x *index) writes(id string, name types.NamespacedName) func(versions []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	o := x.own[name]
	if o == nil {
		o = &ownWrites{}
		x.own[name] = o
	}
	o.pending++
	return func(versions []string) {
		x.mu.Lock()
		o.pending--
		o.versions = append(o.versions, versions...)
		o.versions = o.versions[max(0, len(o.versions)-mostOwn):]
		var ids []string
		switch {
		case x.own[name] != o: // it has gone meanwhile
		case o.pending == 0 && len(o.versions) == 0: // it may have been gone before
			delete(x.own, name)
		case o.seen:
			ids = x.judge(id, name)
		}
		changed := x.changed
		x.mu.Unlock()
		for _, id := range ids {
			changed(id)
		}
	}
}

// judge says what is to be written as the version of a ResourceBundleState is not one of the agent's own: somebody else has written
// it. While the agent writes nobody can tell. The lock is held.
func (x *index) judge(id string, name types.NamespacedName) []string {
	o, d := x.own[name], x.deployments[id]
	if o == nil || d == nil || d.bundles[name] == nil {
		return nil
	}
	if o.seen = o.pending > 0; o.seen || len(o.versions) == 0 {
		return nil
	}
	t := d.bundles[name]
	if i := slices.Index(o.versions, t.ResourceVersion); i >= 0 {
		o.versions = o.versions[i:]
		return nil
	}
	if t.part == "" {
		d.lost[t.UID]++
	}
	for _, owner := range t.OwnerReferences {
		d.lost[owner.UID]++
	}
	return []string{id}
}

// remove takes out what put noted. The lock is held.
func (x *index) remove(t *tracked) []string {
	if t.GroupVersionKind().GroupKind() == bundle.GroupKind {
		return x.removeBundle(t.deployment, t)
	}
	key := t.id()
	id, ok := x.where[key]
	if !ok {
		return nil
	}
	delete(x.where, key)
	d := x.deployments[id]
	delete(d.objects, key)
	d.version++
	x.drop(id)
	return []string{id}
}

func (x *index) removeBundle(id string, t *tracked) []string {
	d := x.deployments[id]
	name := types.NamespacedName{Namespace: t.Namespace, Name: t.Name}
	if d == nil || d.bundles[name] == nil {
		return nil
	}
	delete(d.bundles, name)
	delete(x.own, name)
	delete(d.lost, t.UID)
	for _, owner := range t.OwnerReferences {
		d.lost[owner.UID]++
	}
	d.version++
	x.drop(id)
	return []string{id}
}

// forget takes out all objects of a kind, which is no longer observed. The lock is held.
func (x *index) forget(kind schema.GroupKind) []string {
	delete(x.kinds, kind)
	var gone []*tracked
	for _, d := range x.deployments {
		d.version++
		for key, t := range d.objects {
			if key.Group == kind.Group && key.Kind == kind.Kind {
				gone = append(gone, t)
			}
		}
		for _, t := range d.bundles {
			if kind == bundle.GroupKind {
				gone = append(gone, t)
			}
		}
	}
	for _, t := range gone {
		x.remove(t)
	}
	return x.ids()
}
