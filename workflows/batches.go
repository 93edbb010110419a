package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/internal/domain"
)

// batches are the parts of an app that has many clusters, each a workflow of its own.
type batches struct {
	ids      []string
	progress []AppProgress // in the order of ids
}

// slots is how many leaves of an app may be at work at a time in one workflow: its batches share openLeaves.
func slots(clusters int) int {
	batches := (clusters + batchSize - 1) / batchSize
	return max(openLeaves/max(batches, 1), fewestOpen)
}

// split starts a child per batch and waits for all of them.
func (a *app) split(ctx workflow.Context) error {
	open := 0
	for from := a.in.From; from < a.in.To; from += batchSize {
		in := a.in
		in.From, in.To = from, min(from+batchSize, a.in.To)
		i := a.batches.add(in)
		open++
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer func() { open-- }()
			var result AppProgress
			if err := startApp(ctx, in, a.batches.ids[i]).Get(ctx, &result); err != nil {
				workflow.GetLogger(ctx).Error("batch", "app", in.App.Name, "from", in.From, "error", err)
				a.batches.lose(i, in)
				return
			}
			a.batches.progress[i] = result
			a.changed = true
		})
	}
	workflow.Go(a.whole, a.listenToBatches)
	return workflow.Await(a.whole, func() bool { return open == 0 })
}

// add takes a batch that is to be started, and returns its place.
func (b *batches) add(in AppInput) int {
	b.ids = append(b.ids, AppID(in.Scope, in.App.Name, in.From, in.To))
	b.progress = append(b.progress, AppProgress{
		From: in.From, Clusters: in.To - in.From,
		Counts: Counts{domain.ResourcePending: in.App.Resources * (in.To - in.From)},
	})
	return len(b.ids) - 1
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
