package observe

import (
	"context"
	"encoding/json"
	"maps"
	"sync"
	"time"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/limits"
)

const leasesPath = "/apis/coordination.k8s.io/v1/leases"

// lease knows whether an agent is alive. One without a Lease, as EMCO's, cannot be told from a dead one; one that had a
// Lease says so in what it wrote.
type lease struct {
	feed   *feed
	period time.Duration // of silence that is too long
	beat   chan struct{} // has room for one; a word in it says that the agent was heard

	mu       sync.Mutex
	listing  bool
	listed   bool             // it is known whether there is one
	expected bool             // there has to be one
	beats    map[string]pulse // of Leases that there are, by namespace
	gone     pulse            // the last one of those that are not there any more, in the namespace gonesIn
	gonesIn  string
	// named are the namespaces that the agent's reports say its Lease is in. A Lease of its name can be made by anybody who may make one
	// in some namespace: where there are such words no other one counts.
	named map[string]bool
	// none says that an agent's report names no namespace, as EMCO's never do. Where none of the others does, a Lease is not the agent's.
	none  bool
	stale map[string]bool // while a list is read: what was not in it so far
}

// pulse is the last renewal of a Lease: by the agent's clock, and by ours.
type pulse struct{ renewed, heard time.Time }

func newLease(period time.Duration) *lease {
	l := &lease{period: period, beat: make(chan struct{}, 1), beats: map[string]pulse{}, named: map[string]bool{}}
	l.feed = &feed{
		Collection: kube.Collection{Path: leasesPath, Fields: "metadata.name=" + bundle.LeaseName, Page: pageOfNames},
		follower:   l,
	}
	return l
}

// put notes a renewal. What a list shows was renewed when it says, as far as clocks agree, or where the agent was heard before, as much later as
// the agent's clock says; what a watch shows, just now.
func (l *lease) put(object json.RawMessage) error {
	var o struct {
		Metadata struct {
			Namespace string `json:"namespace"`
		} `json:"metadata"`
		Spec struct {
			RenewTime time.Time `json:"renewTime"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(object, &o); err != nil {
		return unreadable(err)
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	in := o.Metadata.Namespace
	delete(l.stale, in)
	before, known := l.beats[in]
	if len(in) > limits.ObjectName || !known && len(l.beats) >= limits.ClusterLeases && !l.named[in] {
		return nil
	}
	at := now
	switch renewed := o.Spec.RenewTime; {
	case !l.listing:
	case !known && renewed.Before(now):
		at = renewed
	case known:
		// By the time of day, as other clocks stand still while a machine is suspended. The agent's may have been set meanwhile: it is believed
		// where it says that the agent was silent since, and until there is a renewal to see.
		if e := before.heard.Round(0).Add(renewed.Sub(before.renewed)); e.After(before.heard.Round(0)) && now.Round(0).Sub(e) >= l.period {
			at = e
		}
	}
	if known && before.renewed.Equal(o.Spec.RenewTime) || !at.After(before.heard) {
		at = before.heard
	}
	was := l.heard()
	if l.beats[in] = (pulse{o.Spec.RenewTime, at}); l.heard().After(was) {
		l.stir()
	}
	return nil
}

// counts says whether a Lease in the namespace may be the agent's; the lock is held.
func (l *lease) counts(namespace string) bool { return len(l.named) == 0 || l.named[namespace] }

// heard is when the agent was heard by our clock, zero where there was no Lease of its; the lock is held.
func (l *lease) heard() (last time.Time) {
	if l.counts(l.gonesIn) {
		last = l.gone.heard
	}
	for in, p := range l.beats {
		if l.counts(in) && p.heard.After(last) {
			last = p.heard
		}
	}
	return last
}

// doubtful says that no Lease shows that an agent lives, which is no news where there need not be one.
func (l *lease) doubtful(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.listed && now.Sub(l.heard()) >= l.period && !l.expected
}

// expect says that an agent which wrote something has a Lease in the namespace.
func (l *lease) expect(namespace string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.expected && l.named[namespace] || len(namespace) > limits.ObjectName {
		return
	}
	if len(l.named) >= limits.ClusterLeases && !l.named[namespace] {
		l.makeRoom()
	}
	l.expected, l.named[namespace] = true, true
	l.stir()
}

// makeRoom forgets the one of the named namespaces whose Lease was renewed the longest ago, or that has none: who may write reports can name ever
// new ones, and they must not be in the way of the agent's. The lock is held.
func (l *lease) makeRoom() {
	var oldest string
	first := true
	for in := range l.named {
		if first || l.beats[in].heard.Before(l.beats[oldest].heard) {
			oldest, first = in, false
		}
	}
	delete(l.named, oldest)
}

// expectNone says that an agent has written something which has no Lease.
func (l *lease) expectNone() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.none {
		l.none = true
		l.stir()
	}
}

// unname forgets where the agent's Lease was: nobody hears the agent, and the next one may be elsewhere.
func (l *lease) unname() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.named)
}

// livesAsNamed says whether an agent was heard lately by a Lease that another one's reports have named, or they name none.
func (l *lease) livesAsNamed(by *lease, now time.Time) bool {
	by.mu.Lock()
	named := maps.Clone(by.named)
	by.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	for in := range named {
		if p, ok := l.beats[in]; ok && now.Sub(p.heard) < l.period {
			return true
		}
	}
	return len(named) == 0
}

// stir has silent looked at again.
func (l *lease) stir() {
	select {
	case l.beat <- struct{}{}:
	default:
	}
}

// remove forgets a Lease, and not when the agent was heard by it: it is silent from now on.
func (l *lease) remove(object json.RawMessage) error {
	m, err := metaOf(object)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(m.Metadata.Namespace)
	return nil
}

// drop is remove; the lock is held.
func (l *lease) drop(namespace string) {
	p, known := l.beats[namespace]
	if !known {
		return
	}
	delete(l.beats, namespace)
	if l.counts(namespace) && (!l.counts(l.gonesIn) || p.heard.After(l.gone.heard)) {
		l.gone, l.gonesIn = p, namespace
	}
}

func (l *lease) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listing, l.stale = true, map[string]bool{}
	for in := range l.beats {
		l.stale[in] = true
	}
}

func (l *lease) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for in := range l.stale {
		l.drop(in)
	}
	if !l.listed {
		l.stir() // it was refused until now, and nobody may ever be heard by it
	}
	l.listing, l.listed, l.stale = false, true, nil
}

// lives says whether an agent was heard lately.
func (l *lease) lives(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	heard := l.heard()
	return !heard.IsZero() && now.Sub(heard) < l.period
}

// follow hears the agent until ctx ends or the cluster cannot be asked. That it is not allowed is no end: whoever gave the
// credentials may not have thought of the lease.
func (l *lease) follow(ctx context.Context, c *kube.Cluster) error { return l.feed.insist(ctx, c) }

// left is how long the agent may still be silent; false when that is of no importance: it is already, or it has no
// Lease.
func (l *lease) left(now time.Time) (time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	heard := l.heard()
	d := heard.Add(l.period).Sub(now)
	return d, !heard.IsZero() && d > 0
}

// silent is why an agent cannot vouch for its reports, and since when, zero where nobody knows; "" when it can.
func (l *lease) silent(now time.Time) (reason string, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	heard := l.heard()
	if l.none && len(l.named) == 0 || heard.IsZero() && (!l.expected || !l.listed) || now.Sub(heard) < l.period {
		return "", time.Time{}
	}
	return bundle.Silent, heard
}
