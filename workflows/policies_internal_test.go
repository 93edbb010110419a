package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/internal/policy"
)

// stopTakes is in what time a stop is to take effect.
const stopTakes = 2 * time.Second

// TestTimesHoldTogether: those of workflows with each other, and with the ones of internal/policy.
func TestTimesHoldTogether(t *testing.T) {
	task := policy.Task - policy.LeaseMargin // how long work in a workflow's task may go on
	for reason, c := range map[string]struct{ less, more time.Duration }{
		"a call to the store ends with its task":             {briefTimeout, task},
		"a first try at a cluster ends before a stop is due": {atOnceTimeout, stopTakes},
		"so does the halting of leaves, and what it waits for": {
			haltTimeout + haltGrace, stopTakes,
		},
		"gathering keeps nobody waiting":       {gatherMost, gatherLongest},
		"also not where leaves take long":      {gatherLongest, atOnceTimeout},
		"a batch is not still between reports": {reports.Most, patience},
		"an old one neither":                   {longestReport, longestStill},
		"a remnant is looked for when a frozen worker has been replaced": {
			policy.Heartbeat, firstSweep,
		},
		"looks for remnants become rarer":            {firstSweep, lastSweep},
		"and go on for long":                         {rarestSweep, longestSweep},
		"an operation reports often at first":        {reports.First, reports.Most},
		"and often enough":                           {reports.Most, stopTakes},
		"certificates are looked at while they last": {keepAgain, longestKeep},
		"an attempt at a sweep may fail late":        {dailyTime, dailyAll},
		"a sweep is over before the next one":        {dailyAll, SweepInterval},
	} {
		require.Less(t, c.less, c.more, reason)
	}
}

// TestEveryActivityBeats: else nobody would notice for hours that the worker of an activity has died, which may take a day.
func TestEveryActivityBeats(t *testing.T) {
	env := (&testsuite.WorkflowTestSuite{}).NewTestWorkflowEnvironment()
	replacing := func(ctx workflow.Context) workflow.Context { return renewing(ctx, false) }
	looks := func(ctx workflow.Context) error {
		for name, with := range map[string]func(workflow.Context) workflow.Context{
			"preparing": preparing, "waiting": waiting, "clusterWork": clusterWork, "hookWork": hookWork, "sweeping": sweeping, "settling": settling,
			"daily": daily, "awaiting": awaiting, "renewing": replacing, "readying": readying, "watching": watching,
		} {
			options := workflow.GetActivityOptions(with(ctx))
			require.Equal(t, policy.Heartbeat, options.HeartbeatTimeout, name)
			require.Greater(t, options.StartToCloseTimeout, options.HeartbeatTimeout, name)
		}
		return nil
	}
	env.RegisterWorkflow(looks)
	env.ExecuteWorkflow(looks)
	require.NoError(t, env.GetWorkflowError())
}
