package domain_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// contexts are the statuses that a context can have, by the short names of TestDecide.
var contexts = map[string]domain.ContextStatus{
	"-": domain.ContextNone, "i": domain.ContextInstantiating, "I": domain.ContextInstantiated, "IF": domain.ContextInstantiateFailed,
	"t": domain.ContextTerminating, "T": domain.ContextTerminated, "TF": domain.ContextTerminateFailed,
}

// TestDecide goes through every operation in every state with every status of the context. What a cell does
// not name is refused.
func TestDecide(t *testing.T) {
	const (
		created, approved, instantiated  = domain.Created, domain.Approved, domain.Instantiated
		terminated, iStopped, terStopped = domain.Terminated, domain.InstantiateStopped, domain.TerminateStopped
	)
	any7 := []string{"-", "i", "I", "IF", "t", "T", "TF"}
	ended := []string{"-", "I", "IF", "T", "TF"}
	busy := []string{"i", "t"}
	type cell struct {
		in []string // statuses of the context
		to domain.State
	}
	allowed := map[domain.Operation]map[domain.State]cell{
		domain.OpApprove: {
			created: {any7, approved}, approved: {any7, approved}, terminated: {ended, approved},
		},
		domain.OpInstantiate: {
			approved: {ended, instantiated}, terminated: {ended, instantiated}, terStopped: {ended, instantiated},
		},
		domain.OpTerminate: {
			instantiated: {any7, terminated}, iStopped: {any7, terminated},
			// what is left over of a termination can be terminated again
			terminated: {[]string{"TF"}, terminated}, terStopped: {[]string{"TF"}, terminated},
		},
		domain.OpStop: {
			instantiated: {[]string{"i"}, iStopped}, terminated: {[]string{"t"}, terStopped},
			iStopped: {busy, iStopped}, terStopped: {busy, terStopped},
		},
		domain.OpChange: {
			created: {ended, created}, approved: {ended, created}, terminated: {ended, created}, terStopped: {ended, created},
		},
		domain.OpDelete: {
			created: {ended, created}, approved: {ended, approved}, terminated: {ended, terminated}, terStopped: {ended, terStopped},
		},
	}
	for op, cells := range allowed {
		for _, s := range []domain.State{created, approved, instantiated, terminated, iStopped, terStopped} {
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
					same := s == want.to && op != domain.OpTerminate
					require.Equal(t, same, got.Same, "nothing is recorded when nothing changes")
				})
			}
		}
	}
	_, err := groupIn(created).Decide(domain.ContextNone, "dance")
	require.Equal(t, fail.Internal, fail.KindOf(err))
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
