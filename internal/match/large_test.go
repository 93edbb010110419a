package match_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/match"
)

// nodeTerms is a template that is on the nodes of n terms.
func nodeTerms(n int) domain.Template {
	return domain.Template(pod(`,"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[` +
		strings.TrimSuffix(strings.Repeat(`{},`, n), ",") + `]}}}`))
}

// injections inject the whole of a workload n times.
func injections(n int) (all []domain.WorkloadInfoInject) {
	for i := range n {
		all = append(all, domain.WorkloadInfoInject{Key: "@", AsAnnotation: &domain.WorkloadInfoAsAnnotation{Name: fmt.Sprint("a", i)}})
	}
	return all
}

// TestRulesThatAreTooLarge are refused by one problem where they are written, which says of what there is too much; what is just not too much is
// none. Those that are stored already are rules as before.
func TestRulesThatAreTooLarge(t *testing.T) {
	expressions := func(n, values int) []domain.WorkloadTerm {
		e := domain.MatchExpression{Key: "metadata.resourceName", Operation: domain.OperationIn, Values: make([]string, values)}
		one := domain.WorkloadTerm{}
		for range n {
			one.MatchExpressions = append(one.MatchExpressions, e)
		}
		return []domain.WorkloadTerm{one}
	}
	for path, change := range map[string]func(s *domain.WorkloadRuleSpec, more int){
		"spec.workloadTerms: have 1001 matchExpressions, of 1000 at most": func(s *domain.WorkloadRuleSpec, more int) {
			s.WorkloadTerms = expressions(limits.RuleExpressions+more, 1)
		},
		"spec.workloadTerms: have 10010 values, of 10000 at most": func(s *domain.WorkloadRuleSpec, more int) {
			s.WorkloadTerms = expressions(10, limits.RuleValues/10+more)
		},
		"spec.workloadInfoInject: has 101 members, of 100 at most": func(s *domain.WorkloadRuleSpec, more int) {
			s.WorkloadInfoInject = injections(limits.RuleInjections + more)
		},
		"spec.ruleTemplate.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: has 101 members, of 100 at most": func(s *domain.WorkloadRuleSpec, more int) {
			s.RuleTemplate = nodeTerms(limits.RuleNodeTerms + more)
		},
	} {
		require.NoError(t, match.AcceptRule(tenant(), rule(func(s *domain.WorkloadRuleSpec) { change(s, 0) })), path)
		larger := rule(func(s *domain.WorkloadRuleSpec) { change(s, 1) })
		require.Equal(t, "Invalid Input:\n"+path, fail.TextOf(match.AcceptRule(tenant(), larger)))
		require.NoError(t, match.ValidateRule(tenant(), larger), path)
	}
}

// TestAMillionMistakes: a rule of two megabytes may have as many expressions that are wrong, and terms that have none. It takes little to say so.
func TestAMillionMistakes(t *testing.T) {
	const million = 1_000_000
	for name, terms := range map[string][]domain.WorkloadTerm{
		"expressions": {{MatchExpressions: make([]domain.MatchExpression, million)}}, "terms": make([]domain.WorkloadTerm, million),
	} {
		r := rule(func(s *domain.WorkloadRuleSpec) { s.WorkloadTerms = terms })
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := match.AcceptRule(tenant(), r)
		runtime.ReadMemStats(&after)
		require.Len(t, fail.FieldsOf(err), 1, name)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20), name)
	}
}

// TestWhatIsInjectedAgainAndAgain: a workload that is injected a hundred times is made into text until that is too much, and not a hundred times.
func TestWhatIsInjectedAgainAndAgain(t *testing.T) {
	w := workload()
	w.Extra["annotations"] = map[string]string{"large": strings.Repeat("x", match.MaxAnnotations)}
	r, err := match.Compile(tenant(), rule(func(s *domain.WorkloadRuleSpec) { s.WorkloadInfoInject = injections(limits.RuleInjections) }))
	require.NoError(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	made, reason := r.Resource(tenant(), hosts(), w)
	runtime.ReadMemStats(&after)
	require.Nil(t, made)
	require.Contains(t, reason.Text, "more than 262144 bytes")
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(20*match.MaxAnnotations))
}

// TestNodesInManyTerms: the names of all nodes go into each term, and may make an object that no cluster takes. It is not made.
func TestNodesInManyTerms(t *testing.T) {
	all := hosts()
	for i := range 2000 {
		all[0].Spec.Nodes = append(all[0].Spec.Nodes, fmt.Sprintf("node-%010d", i))
	}
	r, err := match.Compile(tenant(), rule(func(s *domain.WorkloadRuleSpec) { s.RuleTemplate = nodeTerms(limits.RuleNodeTerms) }))
	require.NoError(t, err)
	made, reason := r.Resource(tenant(), all, workload())
	require.Nil(t, made)
	require.True(t, reason.Failed)
	require.Contains(t, reason.Text, "of 1572864 at most")
	made, reason = r.Resource(tenant(), hosts(), workload())
	require.Nil(t, reason)
	require.Equal(t, limits.RuleNodeTerms, strings.Count(string(made.Manifest), `"dpu1-host-a"`))
}

// TestNobodyWaitsForMatches: what takes long ends with who asks.
func TestNobodyWaitsForMatches(t *testing.T) {
	r, err := match.Compile(tenant(), rule())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	pairs, err := match.Pairs(ctx.Err, []*match.Rule{r}, []*domain.Workload{workload()})
	require.NoError(t, err)
	cancel()
	_, err = match.Wanted(ctx.Err, tenant(), hosts(), pairs)
	require.ErrorIs(t, err, context.Canceled)
	_, err = match.Pairs(ctx.Err, []*match.Rule{r}, []*domain.Workload{workload()})
	require.ErrorIs(t, err, context.Canceled)
}
