package domain_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/limits"
)

// TestPassOn goes through the ways in which a context comes after another one. Whether the label goes over decides whether
// what carries it is wanted or a remnant.
func TestPassOn(t *testing.T) {
	const owner, other = domain.Key("owner"), domain.Key("other")
	began, ended := time.UnixMilli(1), time.UnixMilli(2)
	left := func(i *domain.Instance) {
		i.Operation, i.Status, i.Reason, i.Ended = domain.OpTerminate, domain.ContextTerminateFailed, "ConfigMap x on p+c: refused", ended
	}
	for name, c := range map[string]struct {
		change func(*domain.Instance) // of the one before, which is Instantiated
		to     domain.Instance
		want   domain.Instance // status, owner, reason, remnants and end
	}{
		"update, rollback": {
			to:   domain.Instance{From: "2", Label: "2"},
			want: domain.Instance{Owner: owner, Status: domain.ContextUpdated},
		},
		"update of an update": {
			change: func(i *domain.Instance) { i.From, i.Label = "1", "1" },
			to:     domain.Instance{From: "2", Label: "1"},
			want:   domain.Instance{Owner: owner, Status: domain.ContextUpdated},
		},
		"migrate": {
			to:   domain.Instance{Owner: other, From: "2", Label: "2"},
			want: domain.Instance{Owner: other, Status: domain.ContextUpdated},
		},
		"migrate of one that came after it": {
			change: func(i *domain.Instance) { i.Status = domain.ContextUpdated },
			to:     domain.Instance{Owner: other, From: "3", Label: "2"},
			want:   domain.Instance{Owner: other, Status: domain.ContextUpdated},
		},
		"instantiate that takes over what a terminate has left": {
			change: left,
			to:     domain.Instance{From: "2", Label: "2"},
			want:   domain.Instance{Owner: owner, Status: domain.ContextUpdated, Reason: "ConfigMap x on p+c: refused", Ended: ended},
		},
		"instantiate with a label of its own": {
			change: left,
			to:     domain.Instance{From: "2"},
			want:   domain.Instance{Owner: owner, Status: domain.ContextTerminated, Remnants: "ConfigMap x on p+c: refused", Ended: ended},
		},
		"instantiate with a label of its own, after an update": {
			change: func(i *domain.Instance) { left(i); i.From, i.Label = "1", "1" },
			to:     domain.Instance{From: "2"},
			want:   domain.Instance{Owner: owner, Status: domain.ContextTerminated, Remnants: "ConfigMap x on p+c: refused", Ended: ended},
		},
		"instantiate with a label of its own, after a terminate that was ended by hand": {
			change: func(i *domain.Instance) { i.Operation, i.Status = domain.OpTerminate, domain.ContextTerminating },
			to:     domain.Instance{From: "2"},
			want:   domain.Instance{Owner: owner, Status: domain.ContextTerminated, Ended: began},
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := domain.Instance{ContextID: "2", Owner: owner, Operation: domain.OpInstantiate, Status: domain.ContextInstantiated}
			if c.change != nil {
				c.change(&i)
			}
			to := c.to
			to.ContextID, to.Accepted = "4", began
			if to.Owner == "" {
				to.Owner = owner
			}
			for range 2 { // activities run twice
				i.PassOn(&to)
				require.Equal(t, c.want, domain.Instance{Owner: i.Owner, Status: i.Status, Reason: i.Reason, Remnants: i.Remnants, Ended: i.Ended})
			}
		})
	}
}

// TestFollow: who records a leaf without knowing what its steps before have said loses nothing of it that is still so.
// TestRunsAreBounded: of a context that is terminated again and again the record tells what made it, and the last terminates.
func TestRunsAreBounded(t *testing.T) {
	i := &domain.Instance{}
	i.Begin(domain.Ran{RunID: "made", Operation: domain.OpInstantiate})
	for n := range 1_000 {
		i.Begin(domain.Ran{RunID: fmt.Sprint(n), Operation: domain.OpTerminate})
		i.Begin(domain.Ran{RunID: fmt.Sprint(n), Operation: domain.OpTerminate})
	}
	require.Len(t, i.Runs, limits.Runs)
	require.Equal(t, "made", i.Runs[0].RunID)
	require.Equal(t, "901", i.Runs[1].RunID)
	require.Equal(t, "999", i.Runs[limits.Runs-1].RunID)
	require.True(t, i.Knows(domain.OpInstantiate))
}

func TestFollow(t *testing.T) {
	turn := func(began, rank int64) domain.Turn { return domain.Turn{Began: began, Rank: rank} }
	earlier := domain.Leaf{
		Operation: domain.OpUpdate, Marks: "1A2F1s1A", Turn: turn(7, 1), Report: "no agent", Unpatchable: []string{"services"},
		Notes:    []domain.Note{{Index: 1, Message: "refused"}, {Index: 2, Message: "refused too"}, {Index: 3, Message: "waits"}, {Index: domain.WholeCluster, Message: "x"}},
		Warnings: []domain.Note{{Index: 0, Message: "dropped"}},
	}
	for name, c := range map[string]struct {
		l, want domain.Leaf
	}{
		"the next step": {
			l: domain.Leaf{Operation: domain.OpUpdate, Marks: "1A2F1X1A", Turn: turn(7, 2), Notes: []domain.Note{{Index: 2, Message: "again"}}},
			want: domain.Leaf{
				Operation: domain.OpUpdate, Marks: "1A2F1X1A", Turn: turn(7, 2), Report: "no agent", Unpatchable: []string{"services"},
				Notes: []domain.Note{{Index: 2, Message: "again"}, {Index: 1, Message: "refused"}}, Warnings: earlier.Warnings,
			},
		},
		"another run":       {l: domain.Leaf{Operation: domain.OpUpdate, Marks: "5s", Turn: turn(8, 1)}, want: domain.Leaf{Operation: domain.OpUpdate, Marks: "5s", Turn: turn(8, 1)}},
		"another operation": {l: domain.Leaf{Operation: domain.OpTerminate, Marks: "5r", Turn: turn(7, 1)}, want: domain.Leaf{Operation: domain.OpTerminate, Marks: "5r", Turn: turn(7, 1)}},
	} {
		t.Run(name, func(t *testing.T) {
			l, again := c.l, c.l
			l.Follow(&earlier)
			require.Equal(t, c.want, l)
			again.Follow(&l)
			require.Equal(t, c.want, again, "a record that was written, and is written again")
		})
	}
}
