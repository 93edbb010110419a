package fleet

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// cluster is what one API server knows.
type cluster struct {
	name    string
	history int // how many events a watch can look back, at least
	faults  faults
	counts  counts
	memo    *memo        // of the whole fleet
	token   atomic.Value // the administrator's, a string; one before it is good for nothing

	mu      sync.RWMutex
	version uint64 // the last resourceVersion that was given
	objects map[id]*object
	custom  map[schema.GroupVersionResource]*kind
	owned   int     // how many objects have owners
	events  []event // the latest, in the order of their versions
	lost    uint64  // events up to this version are forgotten
	changed chan struct{}
}

// event is one change of an object.
type event struct {
	version uint64
	is      watch.EventType
	object  *object // the last one, when it was deleted
	before  *object // nil when it was added
}

func newCluster(name, token string, history int, shared *memo) *cluster {
	c := &cluster{
		name: name, history: history, memo: shared,
		objects: map[id]*object{}, custom: map[schema.GroupVersionResource]*kind{}, changed: make(chan struct{}),
	}
	c.token.Store(token)
	for _, namespace := range []string{"default", "kube-system"} {
		content := map[string]any{"metadata": map[string]any{"name": namespace}}
		if _, err := c.create(id{kind: namespaceKind, name: namespace}, content, "fleet"); err != nil {
			panic(err) // the names are good
		}
	}
	return c
}

// kind finds what is served at the address, nil when nothing is.
func (c *cluster) kind(address schema.GroupVersionResource) *kind {
	if k, ok := builtInKinds[address]; ok {
		return k
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.custom[address]
}

// kinds are all that are served.
func (c *cluster) kinds() []*kind {
	c.mu.RLock()
	defer c.mu.RUnlock()
	kinds := slices.Clone(builtInOrder)
	for _, k := range c.custom {
		kinds = append(kinds, k)
	}
	// The built-in ones keep their order, which says which version of a group is preferred.
	custom := kinds[len(builtInOrder):]
	slices.SortFunc(custom, func(a, b *kind) int { return strings.Compare(a.address().String(), b.address().String()) })
	return kinds
}

// next is the resourceVersion of the change that is being made. The caller holds the lock.
func (c *cluster) next() uint64 {
	c.version++
	return c.version
}

// store keeps the object in place of before, which is nil when it is new. The caller holds the lock.
func (c *cluster) store(o, before *object) {
	is := watch.Modified
	if before == nil {
		is = watch.Added
	} else if len(before.owners) > 0 {
		c.owned--
	}
	if len(o.owners) > 0 {
		c.owned++
	}
	c.objects[o.id] = o
	if o.kind == crdKind {
		c.serve(o)
	}
	c.tell(event{o.version, is, o, before})
}

// serve makes the kinds of a CustomResourceDefinition served, and those that it no longer has not.
func (c *cluster) serve(crd *object) {
	wanted := map[schema.GroupVersionResource]bool{}
	for _, k := range customKinds(crd.content()) {
		wanted[k.address()] = true
		if was, ok := c.custom[k.address()]; !ok || was.GroupVersionKind != k.GroupVersionKind || was.status != k.status || was.namespaced != k.namespaced {
			c.custom[k.address()] = k
		}
	}
	for address, k := range c.custom {
		if k.crd == crd.name && !wanted[address] {
			delete(c.custom, address)
		}
	}
}

// remove forgets the object, what it owns, and what contained it and only waited for it. The caller holds
// the lock.
func (c *cluster) remove(o *object) {
	if len(c.objects[o.id].owners) > 0 {
		c.owned--
	}
	delete(c.objects, o.id)
	if o.kind == crdKind {
		for address, k := range c.custom {
			if k.crd == o.name {
				delete(c.custom, address)
			}
		}
	}
	c.tell(event{c.next(), watch.Deleted, o, o})
	if c.owned > 0 {
		c.collect(o)
	}
	for _, outer := range c.containers(o) {
		if outer.leaving && !outer.held && !c.waited(outer) {
			c.remove(outer)
		}
	}
}

// collect deletes what has no owner left now that o is gone.
func (c *cluster) collect(o *object) {
	for _, dependent := range c.sorted(func(d *object) bool { return slices.Contains(d.owners, o.uid) }) {
		if current := c.objects[dependent.id]; current == dependent && !c.anyThere(dependent.owners) {
			c.delete(current)
		}
	}
}

func (c *cluster) anyThere(owners []types.UID) bool {
	for _, o := range c.objects {
		if slices.Contains(owners, o.uid) {
			return true
		}
	}
	return false
}

// containers are the objects that end only after o has: its namespace, the definition of its kind.
func (c *cluster) containers(o *object) []*object {
	var outer []*object
	if namespace, ok := c.objects[id{kind: namespaceKind, name: o.namespace}]; ok && o.namespace != "" {
		outer = append(outer, namespace)
	}
	if crd, ok := c.objects[id{kind: crdKind, name: o.kind.crd}]; ok && o.kind.crd != "" {
		outer = append(outer, crd)
	}
	return outer
}

// inside says whether inner has to end before outer does.
func inside(inner, outer *object) bool {
	return outer.kind == namespaceKind && inner.namespace == outer.name || outer.kind == crdKind && inner.kind.crd == outer.name
}

// waited says whether something has to end before o does.
func (c *cluster) waited(o *object) bool {
	if o.kind != namespaceKind && o.kind != crdKind {
		return false
	}
	for _, inner := range c.objects {
		if inside(inner, o) {
			return true
		}
	}
	return false
}

// sorted are the objects that are chosen, by kind, namespace and name. The caller holds the lock.
func (c *cluster) sorted(chosen func(*object) bool) []*object {
	var found []*object
	for _, o := range c.objects {
		if chosen(o) {
			found = append(found, o)
		}
	}
	slices.SortFunc(found, func(a, b *object) int { return compare(a.id, b.id) })
	return found
}

func compare(a, b id) int {
	if a.kind != b.kind {
		return strings.Compare(a.kind.address().String(), b.kind.address().String())
	}
	if n := strings.Compare(a.namespace, b.namespace); n != 0 {
		return n
	}
	return strings.Compare(a.name, b.name)
}

// tell adds an event and wakes the watches.
func (c *cluster) tell(e event) {
	c.events = append(c.events, e)
	const slack = 4 // a quarter more, so that not every event moves the others
	if len(c.events) > c.history+c.history/slack {
		old := len(c.events) - c.history
		c.lost = c.events[old-1].version
		c.events = slices.Clone(c.events[old:])
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// since are the events after the version; ok is false when some of them are forgotten, or when the version
// is one that was never given. changed is closed when there are more.
func (c *cluster) since(version uint64) (events []event, changed <-chan struct{}, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if version < c.lost || version > c.version {
		return nil, nil, false
	}
	at, _ := slices.BinarySearchFunc(c.events, version+1, func(e event, v uint64) int {
		switch {
		case e.version < v:
			return -1
		case e.version > v:
			return 1
		default:
			return 0
		}
	})
	// What is appended later does not change these.
	return slices.Clip(c.events[at:]), c.changed, true
}

// count counts the objects of any kind that the selector matches.
func (c *cluster) count(selector labels.Selector) int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	n := 0
	for _, o := range c.objects {
		if selector.Matches(labels.Set(o.labels)) {
			n++
		}
	}
	return n
}

// held lists the objects of any kind that the selector matches, by kind, namespace and name.
func (c *cluster) held(selector labels.Selector) (list []Held) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, o := range c.sorted(func(o *object) bool { return selector.Matches(labels.Set(o.labels)) }) {
		list = append(list, Held{Kind: o.kind.Kind, Namespace: o.namespace, Name: o.name, Labels: o.labels, Leaving: o.leaving, Object: o.raw})
	}
	return list
}

func withVersion(o *object, version uint64) *object {
	content := o.content()
	setVersion(content, version)
	return seal(o.id, version, content)
}

func setVersion(content map[string]any, version uint64) {
	member(content, "metadata")["resourceVersion"] = strconv.FormatUint(version, 10)
}

// now is the present time as API servers write it.
func now() string { return metav1.Now().UTC().Format(time.RFC3339) }
