package observe

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/readiness"
)

// objects are the labelled resources of a cluster, by deployment.
type objects struct {
	queue *queue
	room  *Room // that it shares with those of other clusters

	mu    sync.Mutex
	gone  bool // it has left the room, and holds nothing there any more
	of    map[string]map[plan.ResourceID]*domain.ObservedResource
	where map[plan.ResourceID]string // the deployment that an object is in; the IDs have no version
	bytes int                        // of them all, see sizeOf
	held  map[string]int             // bytes, by deployment
	known func(id string) bool       // says whether somebody keeps what is said of a deployment
	// full are the bytes that deployments have, those that are left out too, and weight those of objects of which only the name is held.
	full   map[string]int
	weight map[plan.ResourceID]int
	// out are the deployments that there was no room for: of their objects only the names are held. retried are those that were, of whose objects
	// some may have been listed anew since.
	out, retried map[string]bool
	kinds        map[schema.GroupKind]bool // those whose objects are, or were, all known
	// unheard are the kinds that cannot be watched: what is known of their objects may be old.
	unheard map[schema.GroupKind]domain.UnheardKind
}

func newObjects(q *queue, known func(id string) bool, room *Room) *objects {
	return &objects{
		queue: q, room: room, known: known, held: map[string]int{}, full: map[string]int{}, weight: map[plan.ResourceID]int{},
		out: map[string]bool{}, retried: map[string]bool{}, of: map[string]map[plan.ResourceID]*domain.ObservedResource{},
		where: map[plan.ResourceID]string{}, kinds: map[schema.GroupKind]bool{}, unheard: map[schema.GroupKind]domain.UnheardKind{},
	}
}

// sizeOf is what an object takes that a cluster decides on.
func sizeOf(o *domain.ObservedResource) int { return len(o.JSON) + len(o.Message) }

// put notes an object as it is now, unless there are too many. Where there is too much of them, some deployments are left out. Calls for the same object
// come one after another.
func (x *objects) put(id string, at plan.ResourceID, o *domain.ObservedResource) error {
	taken := max(x.growth(id, at, o), 0)
	if !x.room.take(x, taken) {
		taken = 0
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	defer func() { x.room.keep(x, taken) }()
	most := min(limits.ClusterHeld, x.bytes+taken)
	before, ok := x.where[at]
	if ok && before != id {
		x.drop(at)
		ok = false
	}
	if !ok && len(x.where) >= limits.ClusterObjects {
		return errMany
	}
	if err := x.queue.add(id); err != nil {
		return err
	}
	if x.of[id] == nil {
		x.of[id] = map[plan.ResourceID]*domain.ObservedResource{}
	}
	x.of[id][at] = x.fit(id, at, o, most)
	x.where[at] = id
	return nil
}

// growth is how many bytes more are held with an object as it is now, if it is held.
func (x *objects) growth(id string, at plan.ResourceID, o *domain.ObservedResource) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.out[id] {
		return 0
	}
	more := sizeOf(o)
	if was := x.of[x.where[at]][at]; was != nil {
		more -= sizeOf(was)
	}
	return more
}

// fit makes room for an object of a deployment, in the place of what is held of it, so that most bytes are held of all, and gives what of it is held. The
// lock is held.
func (x *objects) fit(id string, at plan.ResourceID, o *domain.ObservedResource, most int) *domain.ObservedResource {
	size, has := sizeOf(o), 0
	if was := x.of[id][at]; was != nil {
		has = sizeOf(was)
	}
	had, named := x.weight[at]
	if !named {
		had = has
	}
	x.full[id] += size - had
	more := size - has
	if !x.out[id] && x.bytes+more > most {
		x.makeRoom(id, more, most)
	}
	if x.out[id] {
		x.weight[at] = size
		return nameOf(o)
	}
	delete(x.weight, at)
	x.bytes += more
	x.held[id] += more
	return o
}

// leftFree is the share of the room, one in so many, that is made at a time where nobody keeps what goes, and keptFree where somebody does: to look for
// what is to be left out takes a look at all deployments.
const leftFree, keptFree = 8, 64

// makeRoom leaves out the deployments that have most, so that most bytes are held when one has more of them: first of those that nobody keeps, and of the
// others no more than has to be. Who may label objects in one namespace of the cluster must not keep others from being heard. The lock is held.
func (x *objects) makeRoom(id string, more, most int) {
	shares := slices.Collect(maps.Keys(x.held))
	if _, holds := x.held[id]; !holds && more > 0 {
		shares = append(shares, id)
	}
	enough, kept := most-most/leftFree, false
	for _, next := range slices.Backward(x.inOrder(shares)) {
		if !kept && x.known(next) {
			if x.bytes+more <= most {
				return
			}
			enough, kept = most-most/keptFree, true
		}
		if x.bytes+more <= enough {
			return
		}
		x.leaveOut(next)
		if next == id {
			if kept {
				return // who is known is none of many that a cluster makes up
			}
			more = 0
		}
	}
}

// yield leaves out deployments for another cluster, that have so many bytes or more.
func (x *objects) yield(bytes int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	defer x.room.keep(x, 0)
	x.makeRoom("", 0, max(x.bytes-bytes, 0))
}

// end leaves the room to others.
func (x *objects) end() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.gone = true
	x.room.leave(x)
}

// inOrder sorts deployments: those come first that are to have room first, which somebody keeps, and then that have little. What counts is what they
// have in all: while they are listed anew little of the largest is held.
func (x *objects) inOrder(ids []string) []string {
	kept := make(map[string]bool, len(ids))
	for _, id := range ids {
		kept[id] = x.known(id)
	}
	slices.SortFunc(ids, func(a, b string) int {
		switch {
		case kept[a] == kept[b]:
			return cmp.Or(cmp.Compare(x.full[a], x.full[b]), cmp.Compare(a, b))
		case kept[a]:
			return -1
		}
		return 1
	})
	return ids
}

// leaveOut holds no more than the names of what a deployment has. The lock is held.
func (x *objects) leaveOut(id string) {
	x.out[id] = true
	for at, o := range x.of[id] {
		if _, named := x.weight[at]; !named {
			x.weight[at], x.of[id][at] = sizeOf(o), nameOf(o)
		}
	}
	x.bytes -= x.held[id]
	delete(x.held, id)
	x.queue.again(id)
}

// nameOf is what is held of an object where there is no room for it.
func nameOf(o *domain.ObservedResource) *domain.ObservedResource {
	return &domain.ObservedResource{Group: o.Group, Version: o.Version, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
}

// hasRoom says whether a deployment that is left out is to be taken again.
func (x *objects) hasRoom() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.fitting()) > 0
}

// fitting are the deployments that are left out and are to be taken again: those that somebody keeps, in the place of what makeRoom leaves out before
// them, here or in a cluster that has more than its share, and others for which there is room. The lock is held.
func (x *objects) fitting() (ids []string) {
	if len(x.out) == 0 {
		return nil
	}
	share, free := x.room.share(x)
	share = min(share, limits.ClusterHeld)
	bytes, free := 0, min(free, share-x.bytes)
	for _, id := range x.inOrder(slices.AppendSeq(slices.Collect(maps.Keys(x.held)), maps.Keys(x.out))) {
		size, most := x.full[id], share
		if x.out[id] && x.known(id) {
			most -= share / keptFree
		} else if x.out[id] && size > free {
			continue
		}
		if bytes+size > most {
			continue
		}
		bytes += size
		if x.out[id] {
			free -= size
			ids = append(ids, id)
		}
	}
	return ids
}

// retry has deployments that were left out taken again as far as there is room, and says whether there are any. All is to be listed then, and nothing
// to be reported until retryEnds.
func (x *objects) retry() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	again := x.fitting()
	for _, id := range again {
		x.retried[id] = true
		delete(x.out, id)
		x.queue.again(id)
	}
	return len(again) > 0
}

// retryEnds says that all has been listed that can be. Of what cannot there is no more than a name, which is not reported.
func (x *objects) retryEnds() {
	x.mu.Lock()
	defer x.mu.Unlock()
	defer x.room.keep(x, 0)
	for id := range x.retried {
		for at := range x.of[id] {
			if _, named := x.weight[at]; named && !x.out[id] {
				x.drop(at)
			}
		}
	}
	clear(x.retried)
}

// remove forgets an object.
func (x *objects) remove(at plan.ResourceID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	defer x.room.keep(x, 0)
	x.drop(at)
}

// drop is remove; the lock is held.
func (x *objects) drop(at plan.ResourceID) {
	id, ok := x.where[at]
	if !ok {
		return
	}
	delete(x.where, at)
	size := sizeOf(x.of[id][at])
	x.bytes -= size
	if x.held[id] -= size; x.held[id] == 0 {
		delete(x.held, id)
	}
	if had, named := x.weight[at]; named {
		size = had
	}
	if x.full[id] -= size; x.full[id] == 0 {
		delete(x.full, id)
	}
	delete(x.weight, at)
	if delete(x.of[id], at); len(x.of[id]) == 0 {
		delete(x.of, id)
		delete(x.out, id)
	}
	x.queue.again(id)
}

// empty says whether a deployment has no objects.
func (x *objects) empty(id string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.of[id]) == 0
}

// ofKind lists the objects of a kind.
func (x *objects) ofKind(gk schema.GroupKind) []plan.ResourceID {
	x.mu.Lock()
	defer x.mu.Unlock()
	var found []plan.ResourceID
	for at := range x.where {
		if at.Group == gk.Group && at.Kind == gk.Kind {
			found = append(found, at)
		}
	}
	return found
}

// observe says that all objects of the kind are known.
func (x *objects) observe(gk schema.GroupKind) {
	x.mu.Lock()
	defer x.mu.Unlock()
	_, unheard := x.unheard[gk]
	if x.kinds[gk] && !unheard {
		return
	}
	x.kinds[gk] = true
	delete(x.unheard, gk)
	x.reportAll()
}

// lose says that the kind cannot be watched, and why: the reason is the last one, as the first may have been a moment's. What is known of its
// objects stays, as old.
func (x *objects) lose(gk schema.GroupKind, cause error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	u, lost := x.unheard[gk]
	reason := fail.TextOf(cause)
	if lost && u.Reason == reason {
		return
	}
	if !lost {
		u.Kind = gk.String()
		if x.kinds[gk] {
			u.Since = time.Now()
		}
	}
	u.Reason = reason
	x.unheard[gk] = u
	x.reportAll()
}

// reportAll is for what concerns all deployments; the lock is held.
func (x *objects) reportAll() {
	for id := range x.of {
		x.queue.again(id)
	}
}

// deployments are those that have objects.
func (x *objects) deployments() map[string]bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	found := make(map[string]bool, len(x.of))
	for id := range x.of {
		found[id] = true
	}
	return found
}

// observed says whether there is a kind that is observed.
func (x *objects) observed() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for gk := range x.kinds {
		if _, lost := x.unheard[gk]; !lost {
			return true
		}
	}
	return false
}

// forget says that nothing is known any more of the kind.
func (x *objects) forget(gk schema.GroupKind) {
	for _, at := range x.ofKind(gk) {
		x.remove(at)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.kinds, gk)
	delete(x.unheard, gk)
	x.reportAll()
}

// observation is what is known of a deployment.
func (x *objects) observation(id string) *domain.Observation {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.out[id] {
		return &domain.Observation{Error: fail.TextOf(errLeftOut)}
	}
	o := &domain.Observation{Kinds: make([]string, 0, len(x.kinds)), Resources: make([]domain.ObservedResource, 0, len(x.of[id]))}
	for gk := range x.kinds {
		o.Kinds = append(o.Kinds, gk.String())
	}
	slices.Sort(o.Kinds)
	for _, u := range x.unheard {
		o.Unheard = append(o.Unheard, u)
	}
	slices.SortFunc(o.Unheard, func(a, b domain.UnheardKind) int { return cmp.Compare(a.Kind, b.Kind) })
	for _, r := range x.of[id] {
		o.Resources = append(o.Resources, *r)
	}
	slices.SortFunc(o.Resources, func(a, b domain.ObservedResource) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return o
}

// objectFollower puts what a kind's feed reads into objects.
type objectFollower struct {
	objects *objects
	gvk     schema.GroupVersionKind
	stale   map[plan.ResourceID]bool // while a list is read: what was not in it so far
}

func (f *objectFollower) at(namespace, name string) plan.ResourceID {
	return plan.ResourceID{Group: f.gvk.Group, Kind: f.gvk.Kind, Namespace: namespace, Name: name}
}

// fits says whether names and a label are as short as API servers have them. What has longer ones was made up, and is left out:
// an error would leave out all the rest of the cluster.
func fits(namespace, name, label string) bool {
	return len(namespace) <= limits.ObjectName && len(name) <= limits.ObjectName && len(label) <= limits.LabelValue
}

func (f *objectFollower) put(object json.RawMessage) error {
	content, err := readiness.Decode(object)
	if err != nil || content == nil {
		return unreadable(err)
	}
	u := &unstructured.Unstructured{Object: content}
	id, at := u.GetLabels()[plan.DeploymentLabel], f.at(u.GetNamespace(), u.GetName())
	if bundle.Derived(f.gvk.GroupKind(), u) || !fits(at.Namespace, at.Name, id) { // what was the app's own may become such a one
		f.objects.remove(at)
		return nil
	}
	state := readiness.Of(f.gvk, content)
	named := at
	named.Version = f.gvk.Version
	o, err := bundle.Observe(named, content)
	if err != nil {
		return unreadable(err)
	}
	delete(f.stale, at)
	r := observed(o, state)
	return f.objects.put(id, at, &r)
}

func (f *objectFollower) remove(object json.RawMessage) error {
	m, err := metaOf(object)
	if err != nil {
		return err
	}
	f.objects.remove(f.at(m.Metadata.Namespace, m.Metadata.Name))
	return nil
}

func (f *objectFollower) begin() {
	f.stale = map[plan.ResourceID]bool{}
	for _, at := range f.objects.ofKind(f.gvk.GroupKind()) {
		f.stale[at] = true
	}
}

func (f *objectFollower) end() {
	for at := range f.stale {
		f.objects.remove(at)
	}
	f.stale = nil
}
