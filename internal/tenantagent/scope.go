package tenantagent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
)

// scope has the Pods of some namespaces, and what has changed since it was last told.
type scope struct {
	names   []string // of the namespaces, sorted; none for all
	changed chan struct{}

	mu     sync.Mutex
	pods   map[types.UID]*pod
	told   bool // somebody is told of changes
	update map[types.UID]*pod
	gone   map[types.UID]*pod
	*watches
}

func newScope(names []string) *scope {
	return &scope{
		names: names, changed: make(chan struct{}, 1), pods: map[types.UID]*pod{},
		update: map[types.UID]*pod{}, gone: map[types.UID]*pod{}, watches: newWatches(),
	}
}

// watch has the scope follow the cluster until ctx ends, and returns when all lists are complete; wait has what goes on then.
// The error is that of ctx.
func (s *scope) watch(ctx context.Context, client kubernetes.Interface, wait *sync.WaitGroup) error {
	names := s.names
	if len(names) == 0 {
		names = []string{""}
	}
	var lists []toolscache.ResourceEventHandlerRegistration
	for _, name := range names {
		what, pods := "the Pods of the cluster", client.CoreV1().Pods(name)
		if name != "" {
			what = fmt.Sprintf("the Pods of namespace %q", name)
		}
		informer, err := follow(s.watches, what, client, &corev1.Pod{}, pods.List, pods.Watch)
		if err != nil {
			return err
		}
		if err := informer.SetTransform(keep); err != nil {
			return err
		}
		list, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(o any) { s.put(nil, o) }, UpdateFunc: s.put, DeleteFunc: s.remove})
		if err != nil {
			return err
		}
		lists = append(lists, list)
		wait.Go(func() { informer.RunWithContext(ctx) })
	}
	for _, list := range lists {
		select {
		case <-list.HasSyncedChecker().Done(): // the handler has had the list, too
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// put takes a Pod that is there. One of the same name that was there before may be another one.
func (s *scope) put(before, now any) {
	p, ok := now.(*pod)
	if !ok {
		return
	}
	if old, ok := before.(*pod); ok && old.UID != p.UID {
		s.remove(old)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.pods[p.UID]
	s.pods[p.UID] = p
	if s.told && (old == nil || string(old.said) != string(p.said)) {
		s.update[p.UID] = p
		delete(s.gone, p.UID)
		signal(s.changed)
	}
}

// remove takes away a Pod that is not there any more.
func (s *scope) remove(o any) {
	if unknown, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = unknown.Obj
	}
	p, ok := o.(*pod)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pods[p.UID] == nil {
		return
	}
	delete(s.pods, p.UID)
	delete(s.update, p.UID)
	if s.told {
		s.gone[p.UID] = p
		signal(s.changed)
	}
}

// all are all Pods. From now on changes are kept, until forget.
func (s *scope) all() []*pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = true
	clear(s.update)
	clear(s.gone)
	return slices.Collect(maps.Values(s.pods))
}

// list are all Pods.
func (s *scope) list() []*pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.pods))
}

// changes are what has changed since the last call, or since all: of each Pod the last word.
func (s *scope) changes() (gone, update []*pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone, update = slices.Collect(maps.Values(s.gone)), slices.Collect(maps.Values(s.update))
	clear(s.gone)
	clear(s.update)
	return gone, update
}

// forget says that nobody is told of changes any more.
func (s *scope) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = false
	clear(s.update)
	clear(s.gone)
}

func (s *scope) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pods)
}
