package workflows

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
)

// WatchInput is what one run of WatchClusters hands to the next.
type WatchInput struct {
	Shard int `json:"shard"`
	// Generation counts the changes of the set of clusters, Term the activities that were started.
	Generation int       `json:"generation,omitempty"`
	Term       int       `json:"term,omitempty"`
	Watched    []Watched `json:"watched,omitempty"` // sorted by cluster
}

// Watched is a cluster and the app contexts, sorted by id, for which it is watched.
type Watched struct {
	Cluster  domain.ClusterName `json:"cluster"`
	Contexts []Claim            `json:"contexts"`
}

// Claim is the word that a context has something in a cluster, of the operation on it that began last.
type Claim struct {
	ContextID string    `json:"contextID"`
	Began     time.Time `json:"began"`
}

var watcher *activities.Watch // names the methods; never called

// WatchClusters watches the clusters of one shard for as long as an app context has something there. One activity holds all the
// watches. It learns by ChangesUpdate of clusters that come and go, and moves to another worker when its own dies. The workflow
// ends when there is nothing to watch; WatchSignal starts it again.
func WatchClusters(ctx workflow.Context, in WatchInput) error { return watchClusters(ctx, in) }

// WatchManyClusters is WatchClusters that is handed more than watchClaims claims. It has a name of its own so that a worker of before fails its
// tasks, and not the run, as it would where it could not read the input; nor does it take the run for one that has nothing to watch.
func WatchManyClusters(ctx workflow.Context, in WatchManyInput) error {
	return watchClusters(ctx, in.unfold())
}

func watchClusters(ctx workflow.Context, in WatchInput) error {
	w := &watch{WatchInput: in}
	w.watches = workflow.GetSignalChannel(ctx, WatchSignal)
	w.unwatches = workflow.GetSignalChannel(ctx, UnwatchSignal)
	w.hears = workflow.GetSignalChannel(ctx, HeardSignal)
	if err := workflow.SetUpdateHandler(ctx, ChangesUpdate, w.changes); err != nil {
		return fmt.Errorf("set update handler: %w", err)
	}
	w.receive(ctx)
	for len(w.Watched) > 0 && !w.full(ctx) {
		if err := w.work(ctx); err != nil {
			return err
		}
	}
	w.over = true
	if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return err
	}
	w.receive(ctx)
	if len(w.Watched) == 0 {
		return nil
	}
	if w.claims() > watchClaims {
		return workflow.NewContinueAsNewError(ctx, WatchManyClustersName, w.fold())
	}
	return workflow.NewContinueAsNewError(ctx, WatchClustersName, w.WatchInput)
}

// watch is one run of WatchClusters.
type watch struct {
	WatchInput
	watches, unwatches, hears workflow.ReceiveChannel
	poller                    activities.ChangesInput // of the last one who asked for changes
	heard                     activities.Heard        // as the activity last said
	over                      bool                    // the activity is to end
}

// work runs the activity until it ends, or there is nothing more for it to do in this run.
func (w *watch) work(ctx workflow.Context) error {
	w.Term++
	activity, cancel := workflow.WithCancel(watching(ctx))
	defer cancel()
	in := activities.WatchShardInput{Shard: w.Shard, Term: w.Term}
	future := workflow.ExecuteActivity(activity, watcher.WatchShard, in)
	for len(w.Watched) > 0 && !w.full(ctx) && !future.IsReady() {
		if err := workflow.Await(ctx, func() bool { return w.signalled() || w.full(ctx) || future.IsReady() }); err != nil {
			return err
		}
		w.receive(ctx)
	}
	failed := future.IsReady()
	w.over = !failed // who asks for changes is told so, and ends sooner than its next heartbeat
	cancel()
	err := future.Get(ctx, nil)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if failed {
		workflow.GetLogger(ctx).Error("watch", "shard", w.Shard, "error", err)
		return workflow.Sleep(ctx, rewatchInterval)
	}
	return nil
}

// full says that the history is long enough for a new run.
func (w *watch) full(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	return info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > watchEvents
}

func (w *watch) signalled() bool { return w.watches.Len()+w.unwatches.Len()+w.hears.Len() > 0 }

// receive takes the signals that have come: those about clusters in their order, since an update may bring a context
// back to a cluster that it has just left. The one that ends a context is the last about it, so that the others go first.
func (w *watch) receive(ctx workflow.Context) {
	for {
		var s activities.Watching
		if !w.watches.ReceiveAsync(&s) {
			break
		}
		for _, c := range s.Clusters {
			w.add(c, Claim{s.ContextID, s.Began})
		}
		if s.Only { // a word that comes late says nothing of what operations after it have brought
			w.remove(s.ContextID, func(c domain.ClusterName, began time.Time) bool {
				return !began.After(s.Began) && !slices.Contains(s.Clusters, c)
			})
		}
	}
	for {
		var contextID string
		if !w.unwatches.ReceiveAsync(&contextID) {
			break
		}
		w.remove(contextID, func(domain.ClusterName, time.Time) bool { return true })
	}
	for {
		var h activities.Heard
		if !w.hears.ReceiveAsync(&h) {
			break
		}
		w.heard = h
	}
	workflow.SetCurrentDetails(ctx, watchTable(w.Watched, w.heard))
}

func (w *watch) add(c domain.ClusterName, claim Claim) {
	i, found := slices.BinarySearchFunc(w.Watched, c, func(a Watched, b domain.ClusterName) int {
		return a.Cluster.Compare(b)
	})
	if !found {
		w.Watched = slices.Insert(w.Watched, i, Watched{Cluster: c})
		w.Generation++
	}
	contexts := w.Watched[i].Contexts
	switch at, found := claimOf(contexts, claim.ContextID); {
	case !found:
		w.Watched[i].Contexts = slices.Insert(contexts, at, claim)
	case claim.Began.After(contexts[at].Began):
		contexts[at] = claim
	}
}

// claimOf finds a context's among claims, or the place for it.
func claimOf(claims []Claim, contextID string) (at int, found bool) {
	return slices.BinarySearchFunc(claims, contextID, func(c Claim, id string) int { return strings.Compare(c.ContextID, id) })
}

// remove forgets that a context has something in the clusters that it leaves, where an operation that began then has
// claimed it.
func (w *watch) remove(contextID string, leaves func(c domain.ClusterName, began time.Time) bool) {
	kept := w.Watched[:0]
	for _, x := range w.Watched {
		if at, found := claimOf(x.Contexts, contextID); found && leaves(x.Cluster, x.Contexts[at].Began) {
			x.Contexts = slices.Delete(x.Contexts, at, at+1)
		}
		if len(x.Contexts) > 0 {
			kept = append(kept, x)
		}
	}
	if len(kept) < len(w.Watched) {
		w.Generation++
	}
	clear(w.Watched[len(kept):])
	w.Watched = kept
}

// changes answers ChangesUpdate: when the set is newer than the one that is known, when somebody else has asked
// since, or when the activity is to end. An activity of another term, of this shard's workflow before it ended and was
// started again too, is over.
func (w *watch) changes(ctx workflow.Context, in activities.ChangesInput) (*activities.WatchSet, error) {
	if in.Term == w.Term && !in.Before(w.poller) {
		w.poller = in
	}
	superseded := func() bool { return in.Term != w.Term || in.Before(w.poller) }
	if err := workflow.Await(ctx, func() bool { return w.over || superseded() || w.Generation > in.Generation }); err != nil {
		return nil, err
	}
	set := &activities.WatchSet{Generation: w.Generation, Over: w.over || superseded()}
	for _, x := range w.Watched {
		set.Clusters = append(set.Clusters, x.Cluster)
		for _, claim := range x.Contexts {
			set.Contexts = append(set.Contexts, claim.ContextID)
		}
	}
	slices.Sort(set.Contexts)
	set.Contexts = slices.Compact(set.Contexts)
	return set, nil
}
