package domain

import (
	"encoding/json"
	"strings"

	"github.com/drover-io/drover/internal/fail"
)

// WorkloadRule says for which workloads of a tenant a resource is to be made. Its name is the id of a rule in the gRPC API.
// All of its spec is checked by match.Compile: it needs the tenant.
type WorkloadRule struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Spec     WorkloadRuleSpec `json:"spec" api:"required"`
}

// WorkloadRuleSpec is RuleData of universe.workload.v1, member for member.
type WorkloadRuleSpec struct {
	OrchestratorType   Orchestrator         `json:"orchestratorType" api:"required,enum=kubernetes"`      // what runs the workloads
	ResourceType       string               `json:"resourceType" api:"required,enum=v1/Pod"`              // the type of the workloads
	WorkloadTerms      []WorkloadTerm       `json:"workloadTerms" api:"required"`                         // a workload must be as one of these says
	DPUSelectionPolicy DPUSelectionPolicy   `json:"dpuSelectionPolicy" api:"required,enum=SameNode;Any"`  // on which infrastructure nodes the resource may be
	WorkloadInfoInject []WorkloadInfoInject `json:"workloadInfoInject,omitempty" bson:"inject,omitempty"` // what the resource is told of the workload
	RuleTemplate       Template             `json:"ruleTemplate" bson:"template" api:"required"`          // the resource, an object of Kubernetes
}

// WorkloadTerm holds for a workload when all its expressions do.
type WorkloadTerm struct {
	MatchExpressions []MatchExpression `json:"matchExpressions" api:"required"` // at least one
}

// MatchExpression asks for one value of a workload.
type MatchExpression struct {
	Key       string         `json:"key" api:"required"`                                               // where the value is, such as metadata.resourceNamespace
	Operation MatchOperation `json:"operation" api:"required,enum=In;NotIn;Exists;DoesNotExist;Gt;Lt"` // what is asked of it
	Values    []string       `json:"values"`                                                           // one or more for In and NotIn, else one
}

// memberBytes is what a member of a rule has beside its text in the protocol, at the most: its number and its length.
const memberBytes = 6

// Expressions is how many of them all terms of the rule have: limits.TenantRuleExpressions bounds all of a tenant.
func (r *WorkloadRule) Expressions() (n int) {
	for _, term := range r.Spec.WorkloadTerms {
		n += len(term.MatchExpressions)
	}
	return n
}

// Bytes is how many bytes the rule has in an answer of the gRPC API, or some more: limits.TenantRuleBytes bounds all of a tenant.
func (r *WorkloadRule) Bytes() int {
	spec := &r.Spec
	n := memberBytes // of the rule in the answer
	for _, text := range []string{r.Name, string(spec.OrchestratorType), spec.ResourceType, string(spec.DPUSelectionPolicy)} {
		n += memberBytes + len(text)
	}
	n += 2*memberBytes + len(spec.RuleTemplate) // and its data
	for _, term := range spec.WorkloadTerms {
		n += memberBytes
		for _, e := range term.MatchExpressions {
			n += 3*memberBytes + len(e.Key) + len(e.Operation)
			for _, v := range e.Values {
				n += memberBytes + len(v)
			}
		}
	}
	for _, inject := range spec.WorkloadInfoInject {
		n += 3*memberBytes + len(inject.Key)
		if inject.AsAnnotation != nil {
			n += len(inject.AsAnnotation.Name)
		}
	}
	return n
}

// MatchOperation is what a MatchExpression asks. One that has no word here is the number that the protocol has for it.
type MatchOperation string

// The operations.
const (
	OperationIn           MatchOperation = "In"
	OperationNotIn        MatchOperation = "NotIn"
	OperationExists       MatchOperation = "Exists"
	OperationDoesNotExist MatchOperation = "DoesNotExist"
	OperationGt           MatchOperation = "Gt"
	OperationLt           MatchOperation = "Lt"
)

// DPUSelectionPolicy says on which infrastructure nodes a match may be.
type DPUSelectionPolicy string

// The policies.
const (
	SameNode DPUSelectionPolicy = "SameNode" // on those of the host on which the workload is
	AnyNode  DPUSelectionPolicy = "Any"      // on those of all hosts of the tenant, or all; see TenantSpec.Nodes
)

// WorkloadInfoInject tells the resource something of the workload.
type WorkloadInfoInject struct {
	Key          string                    `json:"key" api:"required"`                                 // where the value is; @ is all of the workload
	AsAnnotation *WorkloadInfoAsAnnotation `json:"asAnnotation,omitempty" bson:"annotation,omitempty"` // as an annotation of it, the only way
}

// WorkloadInfoAsAnnotation puts a value into an annotation.
type WorkloadInfoAsAnnotation struct {
	Name string `json:"name" api:"required"` // of the annotation
}

// Template is a manifest as it was sent: JSON, byte for byte.
type Template []byte

// MarshalJSON is the object; what is no JSON, which only a store can hold that something else has written, is a text.
func (t Template) MarshalJSON() ([]byte, error) {
	if !json.Valid(t) {
		return json.Marshal(string(t))
	}
	return t, nil
}

// UnmarshalJSON keeps the bytes.
func (t *Template) UnmarshalJSON(data []byte) error {
	*t = append((*t)[:0], data...)
	return nil
}

// WorkloadRules is the noun of tenants' rules.
var WorkloadRules = &Noun{
	Kind: "workload-rules", Title: "workload rule", Collection: "workload-rules", Names: []string{"workloadRule"},
	Parent: Tenants, New: func() Object { return &WorkloadRule{} }, Longest: MaxSubdomain,
}

// Noun is WorkloadRules.
func (*WorkloadRule) Noun() *Noun { return WorkloadRules }

// Validate checks nothing: a rule is checked as a whole, with its tenant (match.Compile).
func (*WorkloadRule) Validate(*fail.Problems) {}

// Operators says whether the rule is the operator's own: for the workloads of all tenants.
func (r *WorkloadRule) Operators() bool { return r.Parent == "" }

// Tenant is the name of the tenant that the rule belongs to; "" for the operator's own.
func (r *WorkloadRule) Tenant() string {
	if r.Operators() {
		return ""
	}
	return r.Parent.Name()
}

// operatorApp cannot begin the name of a rule, so that no tenant's rule has the app of an operator's rule.
const operatorApp = "operator_"

// RuleApp is the app under which cluster status knows what a rule's matches have made, of a rule by its key
// (Match.Rule): the rule's id, and for the operator's own operator_<id>. With Tenant.ContextID it makes the label,
// plan.DeploymentID.
func RuleApp(rule Key) string {
	if strings.HasPrefix(string(rule), WorkloadRules.Collection+"/") {
		return operatorApp + rule.Name()
	}
	return rule.Name()
}

// OperatorRule is for the workloads of all tenants. Its keys see metadata.tenantId too, and what it
// makes is in the namespace OperatorNamespace of each tenant's infrastructure cluster.
type OperatorRule struct {
	WorkloadRule `bson:",inline"`
}

// OperatorNamespace is where matches of the operator's rules are made.
const OperatorNamespace = "drover-workloads"

// OperatorRules is the noun of the operator's rules.
var OperatorRules = &Noun{
	Kind: "operator-rules", Title: "workload rule of the operator", Collection: "workload-rules", Names: []string{"workloadRule"},
	New: func() Object { return &OperatorRule{} }, Longest: MaxSubdomain,
}

// Noun is OperatorRules.
func (*OperatorRule) Noun() *Noun { return OperatorRules }

// RuleNoun is the noun of a rule by its key (Match.Rule).
func RuleNoun(rule Key) *Noun {
	if strings.HasPrefix(string(rule), WorkloadRules.Collection+"/") {
		return OperatorRules
	}
	return WorkloadRules
}

// RuleOf is the rule in a document of either noun, nil for any other.
func RuleOf(o Object) *WorkloadRule {
	switch r := o.(type) {
	case *WorkloadRule:
		return r
	case *OperatorRule:
		return &r.WorkloadRule
	default:
		return nil
	}
}
