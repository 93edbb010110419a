package activities

import (
	"context"
	"sync"
	"time"
	"weak"

	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/lru"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/policy"
)

// hearsay is what this worker knows of which clusters answer, for those who settle matches there. Of many tenants of a cluster that
// does not answer one asks, and the others go by what that one hears. Where a cluster has answered lately nobody waits for
// anybody. It knows nothing of a cluster that was registered anew. The zero value is ready to use.
type hearsay struct {
	mu sync.Mutex
	of *lru.Cache[client, *heardOf]
}

// reachable bounds for how many clusters something is known. Of one that is forgotten, who asks next finds out.
const reachable = 2_000

// heardOf is what was heard of one cluster. The mutex of hearsay guards it.
type heardOf struct {
	answers bool          // by the last word
	at      time.Time     // when that came; zero when none has
	by      string        // the tenant that has heard it
	asking  chan struct{} // closed when the one who asks has heard; nil when nobody asks
	back    chan struct{} // closed when it answers
	gone    int           // how many have gone on since it does
}

// question is the turn of somebody who may ask.
type question struct {
	hearsay *hearsay
	of      *heardOf // nil: nobody wants to know
	tenant  string
	alone   bool // others wait for the answer
	lately  bool // the cluster has answered lately: nobody need ask to know it
}

// heard is what was heard of a cluster. With the mutex.
func (r *hearsay) heard(c *kube.Cluster) *heardOf {
	if r.of == nil {
		r.of = lru.New[client, *heardOf](reachable)
	}
	name := weak.Make(c)
	of, ok := r.of.Get(name)
	if !ok {
		of = &heardOf{back: make(chan struct{})}
		r.of.Add(name, of)
	}
	return of
}

// ask is for who is about to ask a cluster something for a tenant. It returns nil when others have heard for less than some time that
// it does not answer; what the tenant itself has heard does not count. Where nobody knows, one asks at a time, and ask waits
// for what that one hears. The question is to be ended.
func (r *hearsay) ask(ctx context.Context, c *kube.Cluster, tenant string, believed time.Duration) (*question, error) {
	for {
		r.mu.Lock()
		of := r.heard(c)
		since := time.Since(of.at)
		switch {
		case of.answers && since < policy.Answered:
			r.mu.Unlock()
			return &question{hearsay: r, of: of, tenant: tenant, lately: true}, nil
		case !of.answers && !of.at.IsZero() && of.by != tenant && since < believed:
			r.mu.Unlock()
			return nil, nil
		case of.asking == nil:
			of.asking = make(chan struct{})
			r.mu.Unlock()
			return &question{hearsay: r, of: of, tenant: tenant, alone: true}, nil
		}
		others := of.asking
		r.mu.Unlock()
		select {
		case <-others:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// hears says whether the cluster answers. The last word counts.
func (q *question) hears(answers bool) {
	if q.of == nil {
		return
	}
	q.hearsay.mu.Lock()
	defer q.hearsay.mu.Unlock()
	q.of.answers, q.of.at, q.of.by = answers, time.Now(), q.tenant
	if answers {
		close(q.of.back)
		q.of.gone = 0
		q.of.back = make(chan struct{})
	}
	q.release()
}

// end ends a question, whether something was heard or not: then another one asks.
func (q *question) end() {
	q.hearsay.mu.Lock()
	defer q.hearsay.mu.Unlock()
	q.release()
}

func (q *question) release() {
	if q.alone {
		q.alone = false
		close(q.of.asking)
		q.of.asking = nil
	}
}

// wait waits until a cluster answers somebody, or until some time has passed since it was last heard not to. Those who wait for the
// same cluster go on one after the other.
func (r *hearsay) wait(ctx context.Context, c *kube.Cluster, d time.Duration) error {
	r.mu.Lock()
	of := r.heard(c)
	back, left := of.back, time.Until(of.at.Add(d))
	r.mu.Unlock()
	t := time.NewTimer(left)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-back:
	}
	r.mu.Lock()
	before := of.gone
	of.gone++
	r.mu.Unlock()
	return pause.For(ctx, min(time.Duration(before)*policy.BackEach, policy.BackMost))
}
