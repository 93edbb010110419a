package observe

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/kube"
)

// lease knows whether an agent is alive. One without a Lease, as EMCO's, cannot be told from a dead one; one that had a
// Lease says so in what it wrote.
type lease struct {
	feed   *feed
	period time.Duration // of silence that is too long
	beat   chan struct{} // has room for one; a word in it says that the agent was heard

	mu       sync.Mutex
	listing  bool
	listed   bool                 // it is known whether there is one
	expected bool                 // there has to be one
	renewed  map[string]time.Time // by namespace, by the agent's clock
	heard    time.Time            // by our clock; zero where there was no Lease
}

func newLease(period time.Duration) *lease {
	l := &lease{period: period, beat: make(chan struct{}, 1), renewed: map[string]time.Time{}}
	l.feed = &feed{
		Collection: kube.Collection{Path: "/apis/coordination.k8s.io/v1/leases", Fields: "metadata.name=" + bundle.LeaseName, Page: pageOfNames},
		follower:   l,
	}
	return l
}

// put notes a renewal. What a list shows was renewed when it says, as far as clocks agree; what a watch shows, just now.
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
	before, known := l.renewed[o.Metadata.Namespace]
	l.renewed[o.Metadata.Namespace] = o.Spec.RenewTime
	at := now
	if !known && l.listing && o.Spec.RenewTime.Before(now) {
		at = o.Spec.RenewTime
	}
	if known && before.Equal(o.Spec.RenewTime) || !at.After(l.heard) {
		return nil
	}
	l.heard = at
	l.stir()
	return nil
}

// missing says that there is no Lease, which is no news where there need not be one.
func (l *lease) missing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.listed && l.heard.IsZero() && !l.expected
}

// expect says that an agent which wrote something has a Lease.
func (l *lease) expect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.expected {
		l.expected = true
		l.stir()
	}
}

// stir has silent looked at again.
func (l *lease) stir() {
	select {
	case l.beat <- struct{}{}:
	default:
	}
}

// remove leaves things as they are: the agent is silent from now on.
func (l *lease) remove(json.RawMessage) error { return nil }

func (l *lease) begin() { l.setListing(true) }
func (l *lease) end()   { l.setListing(false) }

func (l *lease) setListing(listing bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listing, l.listed = listing, l.listed || !listing
}

// lives says whether an agent was heard lately.
func (l *lease) lives(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.heard.IsZero() && now.Sub(l.heard) < l.period
}

// follow hears the agent until ctx ends or the cluster cannot be asked. One that does not allow it is not asked again:
// whoever gave the credentials did not think of the lease.
func (l *lease) follow(ctx context.Context, c *kube.Cluster) error {
	if err := l.feed.follow(ctx, c); !kube.IsAnswer(err) {
		return err
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// left is how long the agent may still be silent; false when that is of no importance: it is already, or it has no
// Lease.
func (l *lease) left(now time.Time) (time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.heard.Add(l.period).Sub(now)
	return d, !l.heard.IsZero() && d > 0
}

// silent is why an agent cannot vouch for its reports, and since when, zero where nobody knows; "" when it can.
func (l *lease) silent(now time.Time) (reason string, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.heard.IsZero() && (!l.expected || !l.listed) || now.Sub(l.heard) < l.period {
		return "", time.Time{}
	}
	return bundle.Silent, l.heard
}
