package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/activities"
)

// SettleMatch brings some matches of a tenant in line with what is wanted: what was not done at once, or a batch of many. What is to
// be done later is in the records of the matches.
func SettleMatch(ctx workflow.Context, in activities.MatchesInput) (*activities.Settled, error) {
	var settled activities.Settled
	err := workflow.ExecuteActivity(settling(ctx), matcher.SettleMatches, in).Get(ctx, &settled)
	return &settled, err
}
