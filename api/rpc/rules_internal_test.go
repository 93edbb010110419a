package rpc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/convey"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/match"
	"github.com/drover-io/drover/internal/universe"
)

// TestRefusalsSpeakTheProtocol: members and the values that they may have are called as in the protocol, and what the client has
// sent is as it was.
func TestRefusalsSpeakTheProtocol(t *testing.T) {
	tenant := &domain.Tenant{Metadata: domain.Metadata{Name: "t"}}
	tenant.Default()
	expression := func(operation int32, values ...string) *universe.RuleMatchExpression {
		return &universe.RuleMatchExpression{Key: "metadata.id", Operation: universe.RuleMatchExpression_Operation(operation), Values: values}
	}
	rule, err := convey.RuleOf(&universe.Rule{Id: "r", Data: &universe.RuleData{
		OrchestratorType: 7, ResourceType: "v1/Pod", DpuSelectionPolicy: "sameNode",
		WorkloadTerms: []*universe.RuleWorkloadTerm{{MatchExpressions: []*universe.RuleMatchExpression{
			expression(99, "a"), expression(1), expression(5, "In needs"), expression(4), expression(0, "a"),
		}}},
		RuleTemplate: []byte(`{"apiVersion":"v1","kind":"Pod","spec":{"nodeName":"n","containers":[]}}`),
	}}, domain.TenantKey("t"))
	require.NoError(t, err)
	said := map[string]string{}
	for _, f := range fail.FieldsOf(inProto(match.ValidateRule(tenant, rule))) {
		said[f.Path] = f.Message
	}
	at := "rule.data.workload_terms[0].match_expressions"
	require.Equal(t, map[string]string{
		"rule.data.orchestrator_type":           `"7" is not supported; use ORCHESTRATOR_TYPE_KUBERNETES`,
		"rule.data.dpu_selection_policy":        `"sameNode" is none of SameNode, Any`,
		at + "[0].operation":                    `"99" is none of OPERATION_IN, OPERATION_NOT_IN, OPERATION_EXISTS, OPERATION_DOES_NOT_EXIST, OPERATION_GT, OPERATION_LT`,
		at + "[1].values":                       "OPERATION_IN needs one or more",
		at + "[2].values":                       `OPERATION_GT needs an integer of 64 bits, not "In needs"`,
		at + "[3].values":                       "OPERATION_DOES_NOT_EXIST needs exactly one, whose text is ignored; it may be empty",
		at + "[4].operation":                    "is required",
		"rule.data.rule_template.spec.nodeName": "is not allowed: the node is chosen by dpu_selection_policy",
	}, said)
}
