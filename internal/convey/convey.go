// Package convey turns what universe.workload.v1 says of rules and workloads into what Drover knows of them, and back. The
// gRPC edge and the tenants' agent say the same by it.
package convey

import (
	"strconv"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/universe"
)

// RuleOf is a rule of a tenant as it was sent; whether it may be stored is not asked.
func RuleOf(in *universe.Rule, tenant domain.Key) (*domain.WorkloadRule, error) {
	data := in.GetData()
	switch {
	case in == nil:
		return nil, missing("rule")
	case data == nil:
		return nil, missing("rule.data")
	}
	rule := &domain.WorkloadRule{Identity: domain.Identity{Parent: tenant}, Metadata: domain.Metadata{Name: in.GetId()}}
	rule.Spec = domain.WorkloadRuleSpec{
		OrchestratorType: orchestrator(data.GetOrchestratorType()), ResourceType: data.GetResourceType(),
		DPUSelectionPolicy: domain.DPUSelectionPolicy(data.GetDpuSelectionPolicy()), RuleTemplate: data.GetRuleTemplate(),
	}
	for _, term := range data.GetWorkloadTerms() {
		var t domain.WorkloadTerm
		for _, e := range term.GetMatchExpressions() {
			t.MatchExpressions = append(t.MatchExpressions, domain.MatchExpression{Key: e.GetKey(), Operation: operation(e.GetOperation()), Values: e.GetValues()})
		}
		rule.Spec.WorkloadTerms = append(rule.Spec.WorkloadTerms, t)
	}
	for _, inject := range data.GetWorkloadInfoInject() {
		i := domain.WorkloadInfoInject{Key: inject.GetKey()}
		if as := inject.GetAsAnnotation(); as != nil {
			i.AsAnnotation = &domain.WorkloadInfoAsAnnotation{Name: as.GetName()}
		}
		rule.Spec.WorkloadInfoInject = append(rule.Spec.WorkloadInfoInject, i)
	}
	return rule, nil
}

// Rule is the opposite of RuleOf.
func Rule(rule *domain.WorkloadRule) *universe.Rule {
	spec := &rule.Spec
	data := &universe.RuleData{
		OrchestratorType: universe.OrchestratorType(numberOf(orchestrators, spec.OrchestratorType)), ResourceType: spec.ResourceType,
		DpuSelectionPolicy: string(spec.DPUSelectionPolicy), RuleTemplate: spec.RuleTemplate,
	}
	for _, term := range spec.WorkloadTerms {
		t := &universe.RuleWorkloadTerm{}
		for _, e := range term.MatchExpressions {
			t.MatchExpressions = append(t.MatchExpressions, &universe.RuleMatchExpression{
				Key: e.Key, Operation: universe.RuleMatchExpression_Operation(numberOf(operations, e.Operation)), Values: e.Values,
			})
		}
		data.WorkloadTerms = append(data.WorkloadTerms, t)
	}
	for _, inject := range spec.WorkloadInfoInject {
		i := &universe.WorkloadInfoInject{Key: inject.Key}
		if as := inject.AsAnnotation; as != nil {
			i.Message = &universe.WorkloadInfoInject_AsAnnotation{AsAnnotation: &universe.WorkloadInfoInjectConfigAsAnnotation{Name: as.Name}}
		}
		data.WorkloadInfoInject = append(data.WorkloadInfoInject, i)
	}
	return &universe.Rule{Id: rule.Name, Data: data}
}

// The words of the product for the numbers of the protocol; a number without a word is its own.
var (
	orchestrators = map[int32]domain.Orchestrator{0: "", 1: domain.Kubernetes}
	operations    = map[int32]domain.MatchOperation{
		0: "", 1: domain.OperationIn, 2: domain.OperationNotIn, 3: domain.OperationExists,
		4: domain.OperationDoesNotExist, 5: domain.OperationGt, 6: domain.OperationLt,
	}
)

func orchestrator(n universe.OrchestratorType) domain.Orchestrator {
	return wordOf(orchestrators, int32(n))
}

func operation(n universe.RuleMatchExpression_Operation) domain.MatchOperation {
	return wordOf(operations, int32(n))
}

// OperationName is the protocol's name of an operation, such as OPERATION_IN; of what has no such word it is that itself.
func OperationName(word domain.MatchOperation) string {
	for n, w := range operations {
		if w == word && w != "" {
			return universe.RuleMatchExpression_Operation(n).String()
		}
	}
	return string(word)
}

func wordOf[T ~string](words map[int32]T, n int32) T {
	if word, ok := words[n]; ok {
		return word
	}
	return T(strconv.Itoa(int(n)))
}

func numberOf[T ~string](words map[int32]T, word T) int32 {
	for n, w := range words {
		if w == word {
			return n
		}
	}
	n, _ := strconv.ParseInt(string(word), 10, 32)
	return int32(n)
}

// missing says that a member is required.
func missing(path string) error {
	var p fail.Problems
	p.Add(path, "is required")
	return p.Err()
}

// WorkloadOf is a workload as it was said to be; its tenant is left open.
func WorkloadOf(in *universe.WorkloadUpdate) *domain.Workload {
	metadata, state := in.GetWorkloadMetadata(), in.GetWorkloadState()
	one := &domain.Workload{
		ID: metadata.GetId(), Orchestrator: orchestrator(metadata.GetOrchestrator()), ResourceType: metadata.GetResourceType(),
		ResourceNamespace: metadata.GetResourceNamespace(), ResourceName: metadata.GetResourceName(),
		NodeName: state.GetNodeName(), Ready: state.GetReady(), Bare: state == nil,
	}
	for name, extra := range state.GetExtra() {
		if one.Extra == nil {
			one.Extra = map[string]map[string]string{}
		}
		one.Extra[name] = extra.GetData()
		if extra.GetData() == nil {
			one.Extra[name] = map[string]string{}
		}
	}
	return one
}
