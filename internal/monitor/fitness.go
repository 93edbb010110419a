package monitor

import (
	"fmt"
	"sync"
	"time"

	"github.com/drover-io/drover/internal/bundle"
)

// arrears are the deployments whose ResourceBundleStates do not say what is known of them, with since when. One that says that it
// cannot be written is not among them, nor one that is written so seldom because it is large.
type arrears struct {
	now func() time.Time

	mu    sync.Mutex
	since map[string]time.Time
}

func newArrears(now func() time.Time) *arrears {
	return &arrears{now: now, since: map[string]time.Time{}}
}

// owe says that a deployment is to be written.
func (a *arrears) owe(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.since[id]; !ok {
		a.since[id] = a.now()
	}
}

// written says that it is.
func (a *arrears) written(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.since, id)
}

// oldest is the deployment that has waited longest; false for none.
func (a *arrears) oldest() (id string, since time.Time, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, at := range a.since {
		if !ok || at.Before(since) {
			id, since, ok = i, at, true
		}
	}
	return id, since, ok
}

// fitness knows whether what the agent has written can be relied on: its Lease and /readyz say so.
type fitness struct {
	index   *index
	arrears *arrears

	mu     sync.Mutex
	listed time.Time // by then all that was there at the start was to be written
	whole  bool      // it has been
}

// lacks is why what is written may be old; "" when it is not. What an agent before has written, an hour ago perhaps, has to be
// written anew first: nobody could tell it from what is true.
func (f *fitness) lacks() string {
	switch {
	case !f.index.isAnnounced():
		return "the cluster's resources are still being listed"
	case !f.index.observes(bundle.GroupKind):
		return "the CustomResourceDefinition " + bundle.Resource + "." + bundle.Group + " is missing"
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.arrears.now()
	if f.listed.IsZero() {
		f.listed = now
	}
	id, since, owing := f.arrears.oldest()
	f.whole = f.whole || !owing || since.After(f.listed)
	switch {
	case !f.whole:
		return fmt.Sprintf("the status of deployment %s has not been written since the agent has started", id)
	case owing && now.Sub(since) > unheardAfter:
		return fmt.Sprintf("the status of deployment %s cannot be written since %s", id, since.UTC().Format(time.RFC3339))
	}
	return ""
}
