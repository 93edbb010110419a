package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/activities"
)

// SettleMatch brings some matches of a tenant in line with what is wanted, one of its own or many in a batch: at once when that
// is likely to be enough, and else or then as an activity. What is to be done later is in the records of the matches.
func SettleMatch(ctx workflow.Context, in activities.MatchesInput) (*activities.Settled, error) {
	var settled activities.Settled
	if len(in.IDs) == 1 {
		whole, _ := workflow.NewDisconnectedContext(ctx)
		if err := workflow.ExecuteLocalActivity(atOnce(whole), matcher.SettleMatches, in).Get(whole, &settled); err == nil {
			return &settled, nil
		}
	}
	err := workflow.ExecuteActivity(settling(ctx), matcher.SettleMatches, in).Get(ctx, &settled)
	return &settled, err
}
