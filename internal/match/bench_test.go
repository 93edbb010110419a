package match_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/match"
)

// BenchmarkPairs asks 50 rules of each of 100 workloads: those with one expression, as most are, and those with 20 of 500 values each.
func BenchmarkPairs(b *testing.B) {
	for _, c := range []struct{ expressions, values int }{{1, 1}, {20, 1}, {20, 500}} {
		b.Run(fmt.Sprintf("%d expressions of %d values", c.expressions, c.values), func(b *testing.B) {
			e := domain.MatchExpression{Key: "state.extra.labels.k8s-app", Operation: domain.OperationNotIn}
			for i := range c.values {
				e.Values = append(e.Values, fmt.Sprintf("%03d", i))
			}
			var rules []*match.Rule
			for range 50 {
				one := domain.WorkloadTerm{}
				for range c.expressions {
					one.MatchExpressions = append(one.MatchExpressions, e)
				}
				r, err := match.Compile(tenant(), rule(func(s *domain.WorkloadRuleSpec) { s.WorkloadTerms = []domain.WorkloadTerm{one} }))
				require.NoError(b, err)
				rules = append(rules, r)
			}
			var workloads []*domain.Workload
			for i := range 100 {
				w := workload()
				w.ID = fmt.Sprint(i)
				workloads = append(workloads, w)
			}
			for b.Loop() {
				pairs, err := match.Pairs(b.Context().Err, rules, workloads)
				require.NoError(b, err)
				require.Len(b, pairs, len(rules)*len(workloads))
			}
		})
	}
}
