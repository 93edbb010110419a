package domain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/repair"
)

// contexts are the statuses that a context can have, by the short names of TestDecide.
var contexts = map[string]domain.ContextStatus{
	"-": domain.ContextNone, "i": domain.ContextInstantiating, "I": domain.ContextInstantiated, "IF": domain.ContextInstantiateFailed,
	"t": domain.ContextTerminating, "T": domain.ContextTerminated, "TF": domain.ContextTerminateFailed,
	"U": domain.ContextUpdated,
}

// TestDecide goes through every operation in every state with every status of the context. What a cell does
// not name is refused.
func TestDecide(t *testing.T) {
	const (
		created, approved, instantiated  = domain.Created, domain.Approved, domain.Instantiated
		terminated, iStopped, terStopped = domain.Terminated, domain.InstantiateStopped, domain.TerminateStopped
		updated                          = domain.Updated
	)
	any8 := []string{"-", "i", "I", "IF", "t", "T", "TF", "U"}
	ended := []string{"-", "I", "IF", "T", "TF", "U"}
	busy := []string{"i", "t"}
	type cell struct {
		in []string // statuses of the context
		to domain.State
	}
	left := []string{"TF", "i"}
	allowed := map[domain.Operation]map[domain.State]cell{
		domain.OpApprove: {
			created: {[]string{"-", "i", "I", "IF", "T", "TF", "U"}, approved}, approved: {any8, approved}, terminated: {ended, approved}, updated: {any8, approved},
		},
		domain.OpInstantiate: {
			approved: {ended, instantiated}, terminated: {ended, instantiated}, terStopped: {ended, instantiated},
		},
		domain.OpTerminate: {
			instantiated: {any8, terminated}, iStopped: {any8, terminated},
			// what is left over of a termination can be terminated again, and so can what goes on after one
			terminated: {left, terminated}, terStopped: {left, terminated}, created: {left, terminated}, approved: {left, terminated},
		},
		domain.OpStop: {
			instantiated: {[]string{"i"}, iStopped}, terminated: {[]string{"t"}, terStopped},
			iStopped: {busy, iStopped}, terStopped: {busy, terStopped},
			// a terminate that was asked for again, and an approval or a change came between its two writes
			created: {[]string{"t"}, created}, approved: {[]string{"t"}, approved},
		},
		domain.OpChange: {
			created: {ended, created}, approved: {ended, created}, terminated: {ended, created}, terStopped: {ended, created},
			updated: {ended, created},
			// the instance has its own plan
			instantiated: {any8, instantiated}, iStopped: {any8, iStopped},
		},
		domain.OpChangeBelow: {
			created: {any8, created}, approved: {any8, created}, terminated: {any8, created}, terStopped: {any8, created},
			updated:      {ended, created},
			instantiated: {any8, instantiated}, iStopped: {any8, iStopped},
		},
		domain.OpUpdate:   {instantiated: {ended, instantiated}, iStopped: {ended, instantiated}},
		domain.OpRollback: {instantiated: {ended, instantiated}, iStopped: {ended, instantiated}},
		domain.OpMigrate:  {instantiated: {ended, updated}, iStopped: {ended, updated}},
		// what is left over of a termination is known by the group's last context alone
		domain.OpReceive: {approved: {[]string{"-", "I", "IF", "T", "U"}, instantiated}},
		domain.OpDelete: {
			created: {ended, created}, approved: {ended, approved}, terminated: {ended, terminated}, terStopped: {ended, terStopped},
			updated: {ended, updated},
		},
	}
	for op, cells := range allowed {
		for _, s := range []domain.State{created, approved, instantiated, terminated, iStopped, terStopped, updated} {
			for short, c := range contexts {
				t.Run(fmt.Sprintf("%s %s %s", op, s, short), func(t *testing.T) {
					want, ok := cells[s]
					ok = ok && contains(want.in, short)
					got, err := groupIn(s).Decide(c, op)
					if !ok {
						require.Equal(t, fail.Conflict, fail.KindOf(err), "%v", err)
						require.Contains(t, fail.TextOf(err), `"dig"`)
						require.Contains(t, fail.TextOf(err), string(s), "the message names the state")
						require.Contains(t, fail.TextOf(err), string(c), "and the context's")
						require.Zero(t, got)
						return
					}
					require.NoError(t, err)
					require.Equal(t, want.to, got.To)
					same := s == want.to && op != domain.OpTerminate && !op.TakesOver()
					require.Equal(t, same, got.Same, "nothing is recorded when nothing changes")
				})
			}
		}
	}
	_, err := groupIn(created).Decide(domain.ContextNone, "dance")
	require.Equal(t, fail.Internal, fail.KindOf(err))
}

// TestAdviceWhileAStopGoesOn: nothing else can be asked for before it has ended, and another stop is none.
func TestAdviceWhileAStopGoesOn(t *testing.T) {
	const iStopped, terStopped = domain.InstantiateStopped, domain.TerminateStopped
	for _, c := range []struct {
		op   domain.Operation
		in   domain.State
		want string
	}{
		{domain.OpTerminate, terStopped, "wait until the stop has ended, then terminate it again"},
		{domain.OpInstantiate, terStopped, "wait until the stop has ended"},
		{domain.OpApprove, terStopped, "wait until the stop has ended, then instantiate or terminate it instead"},
		{domain.OpChange, terStopped, "wait until the stop has ended"},
		{domain.OpDelete, terStopped, "wait until the stop has ended"},
		{domain.OpUpdate, iStopped, "wait until the stop has ended"},
		{domain.OpMigrate, iStopped, "wait until the stop has ended"},
		{domain.OpApprove, iStopped, "it has already been instantiated; update it, or terminate it first"},
		{domain.OpUpdate, domain.Instantiated, "wait until the last operation has ended, or stop it"},
		{domain.OpDelete, domain.Terminated, "wait until it is terminated, or stop it"},
	} {
		status := domain.ContextTerminating
		if c.in == iStopped || c.in == domain.Instantiated {
			status = domain.ContextInstantiating
		}
		_, err := groupIn(c.in).Decide(status, c.op)
		require.True(t, fail.Is(err, fail.Conflict), "%s in %s", c.op, c.in)
		require.True(t, strings.HasSuffix(fail.TextOf(err), ": "+c.want), "%s in %s: %v", c.op, c.in, err)
	}
}

func groupIn(s domain.State) *domain.DeploymentIntentGroup {
	g := &domain.DeploymentIntentGroup{Metadata: domain.Metadata{Name: "dig"}}
	g.History.Append(s, "", 0, time.Time{})
	return g
}

func contains(in []string, s string) bool {
	for _, x := range in {
		if x == s {
			return true
		}
	}
	return false
}

// TestRevisions goes through two instances; revisions are counted anew with the second one.
func TestRevisions(t *testing.T) {
	var g domain.DeploymentIntentGroup
	h := &g.History
	take := func(next string) {
		tr, err := g.Decide(domain.ContextInstantiated, domain.OpUpdate)
		require.NoError(t, err)
		require.True(t, tr.Leaves)
		h.Leave(h.ContextID(), next, tr.Revision-1, time.Time{})
		h.Append(tr.To, next, tr.Revision, time.Time{})
	}
	require.Zero(t, h.Revision())
	require.Empty(t, h.Revisions())
	h.Append(domain.Instantiated, "1", 1, time.Time{})
	take("2")
	take("3")
	h.Append(domain.InstantiateStopped, "3", 0, time.Time{})
	require.Equal(t, 3, h.Revision())
	take("4")
	require.Equal(t, []int{1, 1, 2, 2, 3, 0, 3, 4}, revisions(h.Actions))
	require.Equal(t, []int{4, 3, 2, 1}, revisions(h.Revisions()))
	h.Append(domain.Terminated, "4", 0, time.Time{})
	h.Append(domain.Instantiated, "5", 1, time.Time{})
	take("6")
	require.Equal(t, []int{2, 1}, revisions(h.Revisions()))
	require.Equal(t, "5", h.Revisions()[1].ContextID)
	require.Equal(t, "6", h.Actions[len(h.Actions)-2].By)
	require.Equal(t, "6", h.ContextID())
}

func revisions(actions []domain.Action) []int {
	var out []int
	for _, a := range actions {
		out = append(out, a.Revision)
	}
	return out
}

// TestAHistoryIsBounded: what was asked last stays, with the first action and the last instance, however much was asked.
func TestAHistoryIsBounded(t *testing.T) {
	h := domain.NewHistory(time.Time{})
	h.Append(domain.Approved, "", 0, time.Time{})
	h.Append(domain.Instantiated, "1", 1, time.Time{})
	signs := map[string]bool{h.Sign(): true}
	for i := 2; i <= 10_000; i++ {
		h.Leave(h.ContextID(), fmt.Sprint(i), i-1, time.Time{})
		require.False(t, signs[h.Sign()])
		signs[h.Sign()] = true
		h.Append(domain.Instantiated, fmt.Sprint(i), i, time.Time{})
		require.False(t, signs[h.Sign()])
		signs[h.Sign()] = true
		require.LessOrEqual(t, len(h.Actions), 2*limits.Actions+1)
		require.GreaterOrEqual(t, len(h.Revisions()), min(i, limits.Actions/2), "so far one can go back")
		require.Equal(t, i, h.Revision())
	}
	require.Equal(t, domain.Created, h.Actions[0].State)
	require.False(t, h.Knows("1"))

	h.Append(domain.Terminated, "10000", 0, time.Time{})
	for range 1_000 {
		h.Append(domain.Created, "", 0, time.Time{})
		h.Append(domain.Approved, "", 0, time.Time{})
		require.LessOrEqual(t, len(h.Actions), 2*limits.Actions+1)
		require.Equal(t, "10000", h.ContextID(), "though no later action has one")
		require.Equal(t, 10_000, h.Revision())
	}
	require.Equal(t, domain.Updated, h.Actions[1].State)
	require.Equal(t, "10000", h.Actions[2].ContextID)
	require.Len(t, h.Revisions(), 1)

	require.Equal(t, domain.Terminated, h.Actions[3].State, "what ended it stays, too")

	h.Append(domain.Instantiated, "next", 1, time.Time{})
	h.Leave("next", "another group's", 1, time.Time{})
	for range 1_000 {
		h.Append(domain.Created, "", 0, time.Time{})
		h.Append(domain.Approved, "", 0, time.Time{})
		require.Equal(t, "another group's", repair.TakerOf(&h, "next"))
	}
	for len(h.Actions) < 2*limits.Actions {
		h.Append(domain.Approved, "", 0, time.Time{})
	}
	h.Append(domain.Instantiated, "refused", 1, time.Time{})
	require.Less(t, len(h.Actions), 2*limits.Actions, "this one has cut it")
	h.Retract()
	require.Equal(t, "next", h.ContextID())

	for range 1_000 {
		h.Append(domain.Applied, "networks", 0, time.Time{})
	}
	require.LessOrEqual(t, len(h.Actions), 2*limits.Actions+1)
	require.Equal(t, "networks", h.ContextID())
}

func TestHistory(t *testing.T) {
	now := time.Date(2026, 3, 1, 13, 0, 0, 123_456_789, time.FixedZone("", 3600))
	stamp := time.Date(2026, 3, 1, 12, 0, 0, 123_000_000, time.UTC)
	var empty domain.History
	require.Equal(t, domain.Created, empty.State())
	require.Empty(t, empty.ContextID())

	h := domain.NewHistory(now)
	h.Append(domain.Approved, "", 0, now)
	require.Empty(t, h.StatusContextID)
	h.Append(domain.Instantiated, "1", 1, now)
	h.Append(domain.Terminated, "1", 0, now)
	h.Append(domain.Instantiated, "2", 1, now)
	h.Append(domain.InstantiateStopped, "2", 0, now)
	h.Append(domain.Approved, "", 0, now)
	require.Equal(t, domain.Approved, h.State())
	require.Equal(t, "2", h.ContextID(), "of the last action that has one")
	require.Equal(t, "2", h.StatusContextID)
	require.True(t, h.Knows("1"))
	require.False(t, h.Knows("3"))
	require.False(t, h.Knows(""))
	for _, a := range h.Actions {
		require.Equal(t, stamp, a.Time)
	}
}

// TestTheTruthOfContextStatuses has a row for every status and a cell for every predicate.
func TestTheTruthOfContextStatuses(t *testing.T) {
	type cells map[string]struct {
		answer bool
		why    string
	}
	truth := map[domain.ContextStatus]cells{
		domain.ContextNone: {
			"InProgress": {false, "there is no context"}, "Over": {false, "nothing has come to its end"},
			"Deleting": {false, "there is no context"}, "Succeeded": {false, "nothing was asked for"},
		},
		domain.ContextInstantiating: {
			"InProgress": {true, "it is being made"}, "Over": {false, "it comes"},
			"Deleting": {false, "it is to be there"}, "Succeeded": {false, "not yet"},
		},
		domain.ContextInstantiated: {
			"InProgress": {false, "all is done"}, "Over": {false, "it is there"},
			"Deleting": {false, "it is to be there"}, "Succeeded": {true, "it is there, as asked"},
		},
		domain.ContextInstantiateFailed: {
			"InProgress": {false, "nothing is tried any more"}, "Over": {false, "part of it may be there"},
			"Deleting": {false, "it is to be there"}, "Succeeded": {false, "not all of it is there"},
		},
		domain.ContextTerminating: {
			"InProgress": {true, "it is being deleted"}, "Over": {false, "it may still be there"},
			"Deleting": {true, "it is to go"}, "Succeeded": {false, "not yet"},
		},
		domain.ContextTerminated: {
			"InProgress": {false, "all is done"}, "Over": {true, "it has gone"},
			"Deleting": {true, "it was to go"}, "Succeeded": {true, "it has gone, as asked"},
		},
		domain.ContextTerminateFailed: {
			"InProgress": {false, "nothing is tried any more"}, "Over": {false, "part of it may be there"},
			"Deleting": {true, "it is to go"}, "Succeeded": {false, "not all of it has gone"},
		},
		domain.ContextUpdated: {
			"InProgress": {false, "its work is another context's"}, "Over": {true, "what it had is another context's"},
			"Deleting": {false, "nobody asked for that"}, "Succeeded": {false, "that is said of the context that has taken over"},
		},
	}
	predicates := methods[domain.ContextStatus, func(domain.ContextStatus) bool]()
	require.NotEmpty(t, predicates)
	require.Len(t, truth, len(contexts))
	require.Len(t, declared(t, "state.go", "Context"), len(contexts), "a status is not among them")
	for status, row := range truth {
		require.Len(t, row, len(predicates), "%q", status)
		for name, holds := range predicates {
			cell, ok := row[name]
			require.True(t, ok && cell.why != "", "%q says nothing of %s", status, name)
			require.Equal(t, cell.answer, holds(status), "%q %s: %s", status, name, cell.why)
		}
	}
}

// TestAbandoned is where contexts stand whose workflows were ended by hand.
func TestAbandoned(t *testing.T) {
	for status, want := range map[domain.ContextStatus][2]domain.ContextStatus{ // the operation that made it has ended, too, or goes on
		domain.ContextInstantiating: {domain.ContextInstantiateFailed, domain.ContextInstantiateFailed},
		domain.ContextTerminating:   {domain.ContextTerminateFailed, domain.ContextInstantiating},
		domain.ContextInstantiated:  {domain.ContextInstantiated, domain.ContextInstantiated},
		domain.ContextUpdated:       {domain.ContextUpdated, domain.ContextUpdated},
	} {
		require.Equal(t, want, [2]domain.ContextStatus{status.Abandoned(false), status.Abandoned(true)}, "%q", status)
	}
}
