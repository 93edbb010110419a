package tenantagent

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/universe"
)

func TestWhoseARuleIs(t *testing.T) {
	want := &universe.Rule{Id: "ns.a", Data: &universe.RuleData{ResourceType: "v1/Pod", RuleTemplate: []byte(`{}`)}}
	same := proto.Clone(want).(*universe.Rule)
	other := &universe.Rule{Id: "ns.a", Data: &universe.RuleData{ResourceType: "v1/Pod", RuleTemplate: []byte(`{"a":1}`)}}
	for name, c := range map[string]struct {
		have   *universe.Rule
		status ruleStatus
		want   step
	}{
		"there is none":                               {nil, ruleStatus{}, create},
		"there is none any more":                      {nil, ruleStatus{Made: true}, create},
		"the creation did not arrive":                 {nil, ruleStatus{Making: hashOf(want)}, create},
		"somebody else has made one":                  {other, ruleStatus{}, conflict},
		"somebody else has made the same":             {same, ruleStatus{}, conflict},
		"somebody else was faster":                    {other, ruleStatus{Making: hashOf(want)}, conflict},
		"the answer to the creation was lost":         {same, ruleStatus{Making: hashOf(want)}, nothing},
		"it was lost, and the object changed":         {other, ruleStatus{Making: hashOf(other)}, update},
		"it was lost, and the object changed twice":   {other, ruleStatus{Making: hashOf(other) + " " + hashOf(want)}, update},
		"it is as it is to be":                        {same, ruleStatus{Made: true}, nothing},
		"the object has changed, or the rule there":   {other, ruleStatus{Made: true}, update},
		"it was made, and a creation noted before it": {other, ruleStatus{Made: true, Making: hashOf(want)}, update},
	} {
		require.Equal(t, c.want, decide(want, c.have, &c.status), name)
	}
}

// TestMakingIsBounded: of rules that had no answer the last ones are noted, each once.
func TestMakingIsBounded(t *testing.T) {
	var s ruleStatus
	for i := range 2 * mostMaking {
		require.True(t, s.isMaking(fmt.Sprint("hash", i)))
		require.False(t, s.isMaking(fmt.Sprint("hash", i)))
	}
	require.Equal(t, "hash8 hash9 hash10 hash11 hash12 hash13 hash14 hash15", s.Making)
}

func TestExistsNeedsNoValue(t *testing.T) {
	r := &workloadRule{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a.b"}}
	r.Spec.WorkloadTerms = []domain.WorkloadTerm{{MatchExpressions: []domain.MatchExpression{
		{Key: "metadata.id", Operation: domain.OperationExists},
		{Key: "metadata.id", Operation: domain.OperationDoesNotExist, Values: []string{}},
		{Key: "metadata.id", Operation: domain.OperationExists, Values: []string{"x"}},
		{Key: "metadata.id", Operation: domain.OperationIn},
	}}}
	want := r.want()
	require.Equal(t, "ns.a.b", want.GetId())
	var values [][]string
	for _, e := range want.GetData().GetWorkloadTerms()[0].GetMatchExpressions() {
		values = append(values, e.GetValues())
	}
	require.Equal(t, [][]string{{""}, {""}, {"x"}, nil}, values)
	require.Nil(t, r.Spec.WorkloadTerms[0].MatchExpressions[0].Values, "the object itself stays as it is")
}

func TestReasonsOfAnswers(t *testing.T) {
	require.Equal(t, reasonInvalid, reasonOf(codes.InvalidArgument))
	require.Equal(t, reasonRefused, reasonOf(codes.FailedPrecondition))
	require.Equal(t, reasonRefused, reasonOf(codes.ResourceExhausted))
	require.Equal(t, reasonUnreachable, reasonOf(codes.Unavailable))
	require.Equal(t, reasonUnreachable, reasonOf(codes.DeadlineExceeded))
}

// TestAConditionKeepsItsTime as long as its status does not change.
func TestAConditionKeepsItsTime(t *testing.T) {
	r := &workloadRule{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", Generation: 3}}
	var s ruleStatus
	first, later := time.Unix(1, 0), time.Unix(2, 0)
	s.say(r, reasonUnreachable, "away", first)
	s.say(r, reasonRefused, "no", later)
	require.Equal(t, "no", s.Error)
	require.False(t, s.Synced)
	require.True(t, s.Conditions[0].LastTransitionTime.Time.Equal(first))
	require.Equal(t, reasonRefused, s.reason())
	s.say(r, reasonSynced, "", later)
	require.True(t, s.Conditions[0].LastTransitionTime.Time.Equal(later))
	require.Equal(t, int64(3), s.Conditions[0].ObservedGeneration)
	require.Empty(t, s.Error)
	require.True(t, s.Synced)
}
