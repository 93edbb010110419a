package convey_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/drover-io/drover/internal/convey"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/universe"
)

// TestAListIsNotLargerThanItsRules say: their bytes are what is bounded.
func TestAListIsNotLargerThanItsRules(t *testing.T) {
	long := strings.Repeat("x", 3<<20)
	var rules []*universe.Rule
	bytes := 0
	for _, text := range []string{"", "a", long} {
		expression := domain.MatchExpression{Key: text, Operation: domain.OperationIn, Values: []string{text, "", text}}
		term := domain.WorkloadTerm{MatchExpressions: []domain.MatchExpression{expression, expression, {Operation: domain.OperationDoesNotExist}}}
		r := &domain.WorkloadRule{Metadata: domain.Metadata{Name: text}, Spec: domain.WorkloadRuleSpec{
			OrchestratorType: domain.Kubernetes, ResourceType: text, DPUSelectionPolicy: domain.AnyNode, RuleTemplate: domain.Template(text),
			WorkloadTerms:      []domain.WorkloadTerm{term, term, {}},
			WorkloadInfoInject: []domain.WorkloadInfoInject{{Key: text}, {Key: text, AsAnnotation: &domain.WorkloadInfoAsAnnotation{Name: text}}},
		}}
		rules, bytes = append(rules, convey.Rule(r)), bytes+r.Bytes()
	}
	n := proto.Size(&universe.ListResponse{Rules: rules})
	require.LessOrEqual(t, n, bytes)
	require.Less(t, bytes-n, 1000, "and not by much")
}
