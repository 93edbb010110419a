package service

import (
	"context"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/operations"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/status"
)

// FleetOperations stands for the operations of the fleet in place of a prefix of groups.
const FleetOperations domain.Key = "operations"

// A watch of operations has those that go on, and those that have ended lately, up to so many of each. The page says "or more" from
// watchedRunning on, and routes.go of the API names both.
const (
	watchedRunning = 2000
	watchedEnded   = 100
)

// latest is what was said of operations last.
type latest struct {
	mu    sync.Mutex
	at    time.Time
	image *status.Image
}

// CheckWatch refuses parameters beside those of a watch of operations: an answer that was not filtered looks like one that was.
func (*Journal) CheckWatch(parameters url.Values) error {
	var p fail.Problems
	for name := range parameters {
		if name != "watch" {
			p.Add(name, "a watch of operations takes none: it has up to %d that go on and up to %d that have ended within %s", watchedRunning, watchedEnded, policy.OperationsWatched)
		}
	}
	return p.Err()
}

// operations looks at operations: an object with each by the id of its run.
func (f *Fleet) operations(ctx context.Context) (*FleetSnapshot, error) {
	f.latest.mu.Lock()
	defer f.latest.mu.Unlock()
	now := f.lifecycle.now()
	if f.latest.image != nil && now.Sub(f.latest.at) < policy.OperationsAge {
		return &FleetSnapshot{f.latest.image}, nil
	}
	running, err := f.journal.gather(ctx, url.Values{"state": {string(operations.Running)}}, false, watchedRunning)
	if err != nil {
		return nil, err
	}
	ended, err := f.journal.gather(ctx, url.Values{"since": {policy.OperationsWatched.String()}}, true, watchedEnded)
	if err != nil {
		return nil, err
	}
	// One that has ended between the two questions is in both, and has ended.
	all := map[string]operations.Operation{}
	for _, o := range append(running, ended...) {
		if o.Workflow != nil {
			all[o.Workflow.RunID] = o
		}
	}
	image, err := status.ImageOf(all)
	if err != nil {
		return nil, err
	}
	f.latest.at, f.latest.image = now, image
	return &FleetSnapshot{image}, nil
}

// gather reads pages of operations until there are most of them.
func (j *Journal) gather(ctx context.Context, parameters url.Values, ended bool, most int) (all []operations.Operation, err error) {
	for parameters.Set("limit", strconv.Itoa(min(most, maxLimit))); ; {
		list, err := j.list(ctx, parameters, ended)
		if err != nil {
			return nil, err
		}
		if all = append(all, list.Items...); list.Continue == "" || len(all) >= most {
			return all[:min(len(all), most)], nil
		}
		parameters.Set("continue", list.Continue)
	}
}
