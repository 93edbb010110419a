package workflows

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/internal/domain"
)

// batches are the parts of an app that has many clusters, each a workflow of its own. Some of them are at work at a time: what a leaf costs
// depends on how many leaves are open, and a batch with a few leaves at a time takes as many tasks for each of them.
type batches struct {
	ids      []string
	progress []AppProgress // in the order of ids
	started  int           // so many of them, in that order
	over     []bool        // those that have ended
	still    []bool        // those in which nothing came to an end for stillAfter, the last time that others waited so long
	waits    bool          // a batch waits for a place
}

// slots is how many leaves of an app may be at work at a time in one workflow: the batches that are at work share openLeaves.
func slots(clusters, open int) int {
	return max(openLeaves/min(max(batchesOf(clusters), 1), open), fewestOpen)
}

// batchesOf is into how many batches clusters are split.
func batchesOf(clusters int) int { return (clusters + batchSize - 1) / batchSize }

// batchesAtOnce is how many batches are at work at a time: all of them in a run that began with v0.1.0.
func batchesAtOnce(ctx workflow.Context, clusters int) int {
	if clusters <= openBatches*batchSize { // all of them anyhow
		return openBatches
	}
	if workflow.GetVersion(ctx, fewBatches, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return clusters
	}
	return openBatches
}

// fewBatches names the change by which few batches of an app are at work at a time, see docs/decisions/0083.
const fewBatches = "few-batches"

// split starts a child per batch, openBatches at a time, and waits for all of them.
func (a *app) split(ctx workflow.Context) error {
	var inputs []AppInput
	for from := a.in.From; from < a.in.To; from += batchSize {
		in := a.in
		in.From, in.To, in.Batches = from, min(from+batchSize, a.in.To), batchesOf(a.in.To-a.in.From)
		inputs = append(inputs, in)
		a.batches.add(in)
	}
	b, most := &a.batches, batchesAtOnce(ctx, a.in.App.Clusters)
	workflow.Go(a.whole, a.listenToBatches)
	workflow.Go(a.whole, a.passOver) // which does nothing where none waits
	for i, in := range inputs {
		b.waits = b.atWork() >= most
		if err := workflow.Await(a.whole, func() bool { return ctx.Err() != nil || b.atWork() < most }); err != nil {
			return err
		}
		if ctx.Err() != nil { // those that have not begun have sent nothing
			break
		}
		b.started++
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer func() { b.over[i] = true }()
			var result AppProgress
			err := startApp(ctx, in, b.ids[i]).Get(ctx, &result)
			if err != nil {
				workflow.GetLogger(ctx).Error("batch", "app", in.App.Name, "from", in.From, "error", err)
				b.lose(i, in)
				return
			}
			b.progress[i] = result
			a.changed = true
		})
	}
	b.waits = false
	return workflow.Await(a.whole, func() bool { return !slices.Contains(b.over[:b.started], false) })
}

// passOver gives the places of batches to others in which nothing has come to an end for stillAfter: all of their clusters are slow, or do
// not answer, and none waits for them. One in which something comes to an end again has its place again: no other begins beside it. One of
// which nothing more is heard though it goes on keeps its place.
func (a *app) passOver(ctx workflow.Context) {
	b := &a.batches
	for {
		if err := workflow.Await(ctx, func() bool { return b.waits }); err != nil {
			return
		}
		done := b.done()
		if err := workflow.Sleep(ctx, stillAfter(age(ctx), len(b.ids))); err != nil || a.ended {
			return
		}
		for i, now := range b.done() {
			b.still[i] = i < len(done) && now == done[i] && !b.progress[i].Quiet
		}
	}
}

// done is how many clusters of each batch that was started are done.
func (b *batches) done() (done []int) {
	for i := range b.started {
		done = append(done, b.progress[i].Done)
	}
	return done
}

// atWork counts the batches that hold a place: not those of whose clusters none is left but such that do not answer.
func (b *batches) atWork() (n int) {
	for i := range b.started {
		if p := &b.progress[i]; !b.over[i] && !b.still[i] && p.Done+p.Retrying < p.Clusters {
			n++
		}
	}
	return n
}

// add takes a batch that is to be started.
func (b *batches) add(in AppInput) {
	b.ids = append(b.ids, AppID(in.Scope, in.App.Name, in.From, in.To))
	b.progress = append(b.progress, AppProgress{
		From: in.From, Clusters: in.To - in.From,
		Counts: Counts{domain.ResourcePending: in.App.Resources * (in.To - in.From)},
	})
	b.over, b.still = append(b.over, false), append(b.still, false)
}

// lose notes that nobody knows what a batch came to.
func (b *batches) lose(i int, in AppInput) {
	b.progress[i].Unapplied, b.progress[i].Lost = in.App.Resources*(in.To-in.From), in.To-in.From
}

// listenToBatches takes what batches report about themselves.
func (a *app) listenToBatches(ctx workflow.Context) {
	reports := workflow.GetSignalChannel(ctx, ProgressSignal)
	for {
		var p AppProgress
		reports.Receive(ctx, &p)
		if a.batches.take(p) {
			a.changed = true
		}
	}
}

// take takes a report, unless it is older than what is known.
func (b *batches) take(p AppProgress) bool {
	for i := range b.progress {
		if known := &b.progress[i]; known.From == p.From && known.Done <= p.Done {
			*known = p
			return true
		}
	}
	return false
}

// startApp starts the child for an app or a batch of its clusters.
func startApp(ctx workflow.Context, in AppInput, id string) workflow.ChildWorkflowFuture {
	name := DeployAppName
	if in.deletes() {
		name = RemoveAppName
	}
	return workflow.ExecuteChildWorkflow(child(ctx, id,
		searchAttributes(in.Scope, appAttribute.ValueSet(in.App.Name)),
		fmt.Sprintf("%s on %d clusters", in.App.Name, in.To-in.From)), name, in)
}
