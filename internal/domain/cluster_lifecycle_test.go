package domain_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

var clusterStates = []domain.State{domain.Created, domain.Applied, domain.Terminated, domain.InstantiateStopped, domain.TerminateStopped}

func clusterIn(s domain.State) *domain.Cluster {
	c := &domain.Cluster{Metadata: meta("edge01")}
	c.History.Append(s, "", 0, time.Time{})
	return c
}

// TestDecideOfNetworks goes through every operation in every state with every status of the context. What no
// cell names is refused.
func TestDecideOfNetworks(t *testing.T) {
	const (
		created, applied, terminated = domain.Created, domain.Applied, domain.Terminated
		iStopped, terStopped         = domain.InstantiateStopped, domain.TerminateStopped
	)
	all := []string{"-", "i", "I", "IF", "t", "T", "TF"}
	ended := []string{"-", "I", "IF", "T", "TF"}
	type cell struct {
		in   []string // statuses of the context
		to   domain.State
		same bool
	}
	again, done := []string{"TF", "i"}, []string{"-", "I", "IF", "t", "T"}
	allowed := map[domain.Operation]map[domain.State][]cell{
		domain.OpInstantiate: {
			created: {{ended, applied, false}}, terminated: {{ended, applied, false}}, terStopped: {{ended, applied, false}},
			applied: {{all, applied, true}}, iStopped: {{all, iStopped, true}},
		},
		domain.OpTerminate: {
			applied: {{all, terminated, false}}, iStopped: {{all, terminated, false}},
			// what is left over of a termination can be terminated again, and so can what goes on after one
			terminated: {{again, terminated, false}, {done, terminated, true}},
			// but not while its stop goes on: nothing would come of it
			terStopped: {{again, terminated, false}, {[]string{"-", "I", "IF", "T"}, terStopped, true}},
		},
		domain.OpStop: {
			applied: {{[]string{"i"}, iStopped, false}}, terminated: {{[]string{"t"}, terStopped, false}},
		},
		domain.OpDelete: {
			created: {{ended, created, true}}, terminated: {{ended, terminated, true}}, terStopped: {{ended, terStopped, true}},
		},
	}
	for op, cells := range allowed {
		for _, s := range clusterStates {
			for short, observed := range contexts {
				if observed == domain.ContextUpdated {
					continue // networks are not updated
				}
				t.Run(fmt.Sprintf("%s %s %s", op, s, short), func(t *testing.T) {
					got, err := clusterIn(s).Decide(observed, op)
					for _, want := range cells[s] {
						if slices.Contains(want.in, short) {
							require.NoError(t, err)
							got.Why = ""
							require.Equal(t, domain.Transition{To: want.to, Same: want.same}, got)
							return
						}
					}
					require.Equal(t, fail.Conflict, fail.KindOf(err), "%v", err)
					require.Contains(t, fail.TextOf(err), `"edge01" is in state `+string(s), "the message names cluster and state")
					require.Contains(t, fail.TextOf(err), string(observed), "and the context's")
					require.Zero(t, got)
				})
			}
		}
	}
	_, err := clusterIn(created).Decide(domain.ContextNone, domain.OpApprove)
	require.Equal(t, fail.Internal, fail.KindOf(err))
}

// EMCO's sentences begin the refusals: clients look for them.
func TestRefusalsOfNetworks(t *testing.T) {
	for _, c := range []struct {
		op      domain.Operation
		in      domain.State
		context domain.ContextStatus
		want    string
	}{
		{domain.OpTerminate, domain.Created, domain.ContextNone, "Cluster network intents have not been applied: "},
		{domain.OpInstantiate, domain.Terminated, domain.ContextTerminating, "Network intents for cluster have not completed terminating: "},
		{domain.OpStop, domain.Created, domain.ContextNone, "Cluster network intents have not been applied: "},
		{domain.OpStop, domain.Applied, domain.ContextInstantiated, "Cluster network intents are not instantiating or terminating: "},
		{domain.OpStop, domain.InstantiateStopped, domain.ContextInstantiating, "Cluster network intents instantiation already stopped: "},
		{domain.OpStop, domain.TerminateStopped, domain.ContextTerminating, "Cluster network intents termination already stopped: "},
		{domain.OpStop, domain.TerminateStopped, domain.ContextTerminating, "; wait until the stop has ended"},
		{domain.OpStop, domain.TerminateStopped, domain.ContextTerminateFailed, "; terminate them again, or apply them"},
		{domain.OpTerminate, domain.TerminateStopped, domain.ContextTerminating, "Network intents for cluster have not completed terminating: "},
		{domain.OpTerminate, domain.TerminateStopped, domain.ContextTerminating, "; wait until the stop has ended, then terminate them again"},
		{domain.OpInstantiate, domain.TerminateStopped, domain.ContextTerminating, "; wait until the stop has ended"},
		{domain.OpDelete, domain.Applied, domain.ContextInstantiated, "Cluster network intents must be terminated before it can be deleted: "},
		{domain.OpDelete, domain.Terminated, domain.ContextTerminating, "Network intents for cluster have not completed terminating: "},
	} {
		_, err := clusterIn(c.in).Decide(c.context, c.op)
		require.True(t, fail.Is(err, fail.Conflict), "%s in %s", c.op, c.in)
		require.Contains(t, fail.TextOf(err), c.want)
	}
}

// An apply that comes after one that has failed or was stopped is accepted, as in EMCO, and does nothing.
func TestAnApplyThatDoesNothingSaysWhy(t *testing.T) {
	for _, c := range []struct {
		in      domain.State
		context domain.ContextStatus
		want    string
	}{
		{domain.Applied, domain.ContextInstantiated, ""},
		{domain.Applied, domain.ContextInstantiating, ""},
		{domain.Applied, domain.ContextInstantiateFailed, `nothing is applied: cluster "edge01" is in state Applied (InstantiateFailed); terminate the network intents first`},
		{domain.InstantiateStopped, domain.ContextInstantiating, `nothing is applied: cluster "edge01" is in state InstantiateStopped (Instantiating); terminate the network intents first`},
		{domain.InstantiateStopped, domain.ContextInstantiateFailed, `nothing is applied: cluster "edge01" is in state InstantiateStopped (InstantiateFailed); terminate the network intents first`},
		{domain.InstantiateStopped, domain.ContextInstantiated, `nothing is applied: cluster "edge01" is in state InstantiateStopped (Instantiated); terminate the network intents first`},
	} {
		got, err := clusterIn(c.in).Decide(c.context, domain.OpInstantiate)
		require.NoError(t, err)
		require.Equal(t, domain.Transition{To: c.in, Same: true, Why: c.want}, got)
	}
}

func TestMayChangeNetworks(t *testing.T) {
	for _, noun := range []*domain.Noun{domain.Networks, domain.ProviderNetworks} {
		for _, c := range []struct {
			in   domain.State
			gone bool
			kind fail.Kind // "" when it may
			text string
		}{
			{in: domain.Created},
			{in: domain.Terminated},
			{in: domain.Applied, kind: fail.Invalid, text: "Existing cluster " + noun.Title + " intents must be terminated before creating"},
			{in: domain.InstantiateStopped, kind: fail.Conflict, text: "Cluster is in an invalid state"},
			{in: domain.TerminateStopped, kind: fail.Conflict, text: "Cluster is in an invalid state"},

			{in: domain.Created, gone: true},
			{in: domain.Terminated, gone: true},
			{in: domain.TerminateStopped, gone: true},
			{in: domain.Applied, gone: true, kind: fail.Conflict, text: "Cluster " + noun.Title + " intents must be terminated before deleting"},
			{in: domain.InstantiateStopped, gone: true, kind: fail.Conflict, text: "Cluster " + noun.Title + " intents must be terminated before deleting"},
		} {
			t.Run(fmt.Sprintf("%s in %s, gone %v", noun.Title, c.in, c.gone), func(t *testing.T) {
				err := clusterIn(c.in).MayChange(noun, c.gone)
				if c.kind == "" {
					require.NoError(t, err)
					return
				}
				require.Equal(t, c.kind, fail.KindOf(err))
				require.Contains(t, fail.TextOf(err), c.text)
				require.Contains(t, fail.TextOf(err), `"edge01" is in state `+string(c.in))
			})
		}
	}
}

func TestOwnersAreOwners(t *testing.T) {
	for _, n := range domain.Owners {
		require.Implements(t, (*domain.Owner)(nil), n.New(), n.Kind)
	}
	require.Same(t, domain.ClustersNoun, domain.OwnerNoun("cluster-providers/p/clusters/c"))
	require.Nil(t, domain.OwnerNoun("cluster-providers/p"))
	require.Nil(t, domain.OwnerNoun("cluster-providers/p/clusters/c/networks/n"))
}
