package tenantagent

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/drover-io/drover/internal/universe"
)

// taken is a server that gets a rule between a look and a Create.
type taken struct {
	universe.WorkloadRuleServiceClient
	rule *universe.Rule
}

func (s taken) Create(context.Context, *universe.CreateRequest, ...grpc.CallOption) (*universe.CreateResponse, error) {
	return nil, status.Error(codes.AlreadyExists, "it is there")
}

func (s taken) Get(context.Context, *universe.GetRequest, ...grpc.CallOption) (*universe.GetResponse, error) {
	return &universe.GetResponse{Rule: s.rule}, nil
}

// TestACreateThatArrivesLate: the one before had no answer, and makes the rule while it is looked for. That is no conflict.
func TestACreateThatArrivesLate(t *testing.T) {
	r := &workloadRule{}
	r.Namespace, r.Name = "shop", "web"
	want := r.want()
	other := &universe.Rule{Id: want.GetId(), Data: &universe.RuleData{DpuSelectionPolicy: "Any"}}
	for name, c := range map[string]struct {
		status ruleStatus
		there  *universe.Rule
		ours   bool
	}{
		"the create was said before":           {ruleStatus{Making: hashOf(want)}, want, true},
		"it was, and this is another rule":     {ruleStatus{Making: hashOf(want)}, other, false},
		"it was made before":                   {ruleStatus{Made: true, Making: hashOf(want)}, other, true},
		"an earlier create was of other words": {ruleStatus{Making: hashOf(other) + " " + hashOf(want)}, other, true},
	} {
		k := &carriage{carrier: newCarrier(&agent{}, taken{rule: c.there}), rule: r, status: c.status}
		err := k.step(t.Context(), create, want, nil)
		require.Equal(t, c.ours, k.status.Made, name)
		require.Empty(t, k.status.Making, name)
		if c.ours {
			require.NoError(t, err, name)
		} else {
			require.ErrorIs(t, err, errConflict, name)
		}
	}
}
