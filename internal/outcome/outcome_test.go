package outcome_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/outcome"
	"github.com/drover-io/drover/internal/plan"
)

// TestOf adds up an app with two resources on three clusters: what is recorded, what began with something of earlier
// contexts, and what nobody came to.
func TestOf(t *testing.T) {
	target := func(name string) plan.Target {
		return plan.Target{ClusterName: domain.ClusterName{Provider: "p", Name: name}}
	}
	inherited := target("inherited")
	inherited.Inherited = &plan.Inherited{Marks: "1A1K"}
	for name, c := range map[string]struct {
		ended    outcome.Ended
		targets  []plan.Target
		recorded string // on cluster "a"
		status   domain.ContextStatus
		counts   stateCounts
	}{
		"what is recorded counts": {
			outcome.Ended{Operation: domain.OpInstantiate}, []plan.Target{target("a")}, "2A",
			domain.ContextInstantiated, stateCounts{"Applied": 2},
		},
		"what nobody came to is Pending": {
			outcome.Ended{Operation: domain.OpInstantiate}, []plan.Target{target("a"), target("b")}, "2A",
			domain.ContextInstantiateFailed, stateCounts{"Applied": 2, "Pending": 2},
		},
		"without work it is as earlier contexts left it": {
			outcome.Ended{Operation: domain.OpUpdate}, []plan.Target{target("a"), inherited}, "1A1h",
			domain.ContextInstantiated, stateCounts{"Applied": 3, "Pending": 1},
		},
		"a stop is a failure": {
			outcome.Ended{Operation: domain.OpUpdate, Stopped: true}, []plan.Target{inherited}, "",
			domain.ContextInstantiateFailed, stateCounts{"Applied": 2},
		},
		"an update that has not pruned has failed": {
			outcome.Ended{Operation: domain.OpUpdate}, []plan.Target{target("a")}, "1A1d",
			domain.ContextInstantiateFailed, stateCounts{"Applied": 2},
		},
		"a terminate leaves what is to be kept": {
			outcome.Ended{Operation: domain.OpTerminate}, []plan.Target{target("a")}, "1D1K",
			domain.ContextTerminated, stateCounts{"Applied": 1, "Deleted": 1},
		},
		"a terminate that could not delete all has failed": {
			outcome.Ended{Operation: domain.OpTerminate}, []plan.Target{target("a")}, "1D1X",
			domain.ContextTerminateFailed, stateCounts{"Deleted": 1, "Failed": 1},
		},
		"and so has one that leaves what no record has": {
			outcome.Ended{Operation: domain.OpTerminate, Left: true}, []plan.Target{target("a")}, "2D",
			domain.ContextTerminateFailed, stateCounts{"Deleted": 2},
		},
		"a plan without apps has succeeded": {outcome.Ended{Operation: domain.OpTerminate}, nil, "", domain.ContextTerminated, stateCounts{}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &plan.Plan{}
			if len(c.targets) > 0 {
				p.Apps = []plan.App{{Name: "app", Resources: make([]plan.ResourceID, 2), Targets: c.targets}}
			}
			recorded := map[string]string{}
			if c.recorded != "" {
				recorded[domain.LeafID("1", "app", domain.ClusterName{Provider: "p", Name: "a"})] = c.recorded
			}
			status, counts := outcome.Of(p, outcome.LeftBy("1", recorded), c.ended)
			require.Equal(t, c.status, status)
			require.Equal(t, c.counts, counts)
		})
	}
}

// TestWrite notes an end in the record that tells of it, once.
func TestWrite(t *testing.T) {
	at := time.Unix(100, 0)
	before := domain.Instance{
		Operation: domain.OpTerminate, Status: domain.ContextTerminating, Began: 7, Remnants: "Pod a waits",
		Runs: []domain.Ran{{RunID: "1", Operation: domain.OpInstantiate}, {RunID: "2", Operation: domain.OpTerminate}},
	}
	scope := domain.Scope{Operation: domain.OpTerminate, Began: 7}
	for name, c := range map[string]struct {
		change func(*domain.Instance)
		scope  domain.Scope
		reason string
		lost   bool // something of its work
		want   outcome.Word
		says   string
	}{
		"the operation that it tells of":             {scope: scope, says: "Pod a waits"},
		"with a reason of its own":                   {scope: scope, reason: "stopped", says: "stopped"},
		"one that has lost something":                {scope: scope, lost: true, says: "Pod a waits"},
		"one after another has lost something":       {change: func(i *domain.Instance) { i.Lost = true }, scope: scope, says: "Pod a waits"},
		"one that began before":                      {scope: domain.Scope{Operation: domain.OpTerminate, Began: 6}, want: outcome.Overtaken},
		"what a terminate has ended":                 {scope: domain.Scope{Operation: domain.OpInstantiate, Began: 8}, want: outcome.Overtaken},
		"one whose context has been taken over from": {change: func(i *domain.Instance) { i.Status = domain.ContextUpdated }, scope: scope, want: outcome.Overtaken},
		"one that an earlier attempt has noted":      {change: func(i *domain.Instance) { i.Ended = at }, scope: scope, want: outcome.Said},
	} {
		t.Run(name, func(t *testing.T) {
			i := before
			i.Runs = append([]domain.Ran(nil), before.Runs...)
			if c.change != nil {
				c.change(&i)
			}
			was := i
			r := outcome.Record{Status: domain.ContextTerminateFailed, Counts: stateCounts{"Failed": 1}, Plan: "p", Stopped: true, Reason: c.reason, Lost: c.lost, Sound: true, At: at}
			require.Equal(t, c.want, r.Write(&i, c.scope))
			if c.want != outcome.Written {
				require.Equal(t, was, i, "nothing is written")
				return
			}
			require.Equal(t, domain.ContextTerminateFailed, i.Status)
			require.Equal(t, stateCounts{"Failed": 1}, i.Counts)
			require.Equal(t, domain.Digest("p"), i.Plan)
			require.Equal(t, c.says, i.Reason)
			require.Empty(t, i.Remnants)
			require.Equal(t, c.lost || was.Lost, i.Lost)
			require.Equal(t, at, i.Ended)
			require.Equal(t, domain.Ran{RunID: "1", Operation: domain.OpInstantiate}, i.Runs[0])
			require.Equal(t, domain.Ran{RunID: "2", Operation: domain.OpTerminate, Status: domain.ContextTerminateFailed, Stopped: true, Reason: c.says, Sound: true, Ended: at}, i.Runs[1])
		})
	}
}

func TestHowAnOperationIsCounted(t *testing.T) {
	for _, c := range []struct {
		status  domain.ContextStatus
		stopped bool
		want    string
	}{
		{domain.ContextInstantiated, false, "done"},
		{domain.ContextTerminated, false, "done"},
		{domain.ContextInstantiateFailed, false, "failed"},
		{domain.ContextInstantiateFailed, true, "stopped"},
		{domain.ContextTerminateFailed, true, "stopped"},
		{domain.ContextInstantiated, true, "done"},
	} {
		require.Equal(t, c.want, outcome.Measured(c.status, c.stopped), "%s %t", c.status, c.stopped)
	}
}
