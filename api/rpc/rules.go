package rpc

import (
	"context"
	"strconv"
	"strings"
	"unicode"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/universe"
)

// rules is WorkloadRuleService.
type rules struct {
	universe.UnimplementedWorkloadRuleServiceServer
	door *door.Door
}

// pass goes through the door with a request for the rules of the tenant that the call names, of which a tenant must exist.
func (r *rules) pass(ctx context.Context, verb door.Verb, id string, work func(ctx context.Context, s door.Service, tenant domain.Key) error) error {
	tenant, err := tenantOf(ctx)
	if err != nil {
		return err
	}
	asked := &door.Request{Verb: verb, Noun: domain.WorkloadRules, Parent: tenant, Name: id}
	err = r.door.Pass(ctx, asked, func(ctx context.Context, s door.Service) error {
		if err := known(ctx, s, tenant); err != nil {
			return err
		}
		return work(ctx, s, tenant)
	})
	if fail.Is(err, fail.Timeout) && ctx.Err() == nil { // not the caller's time: it is to try again
		return fail.Wrap(err, fail.Unavailable, "%s", fail.TextOf(err))
	}
	return err
}

// Create implements universe.WorkloadRuleServiceServer.
func (r *rules) Create(ctx context.Context, in *universe.CreateRequest) (*universe.CreateResponse, error) {
	return &universe.CreateResponse{}, r.pass(ctx, door.Create, in.GetRule().GetId(), func(ctx context.Context, s door.Service, tenant domain.Key) error {
		rule, err := RuleOf(in.GetRule(), tenant)
		if err == nil {
			err = s.Create(ctx, rule)
		}
		return inProto(err)
	})
}

// Update implements universe.WorkloadRuleServiceServer.
func (r *rules) Update(ctx context.Context, in *universe.UpdateRequest) (*universe.UpdateResponse, error) {
	return &universe.UpdateResponse{}, r.pass(ctx, door.Put, in.GetRule().GetId(), func(ctx context.Context, s door.Service, tenant domain.Key) error {
		rule, err := RuleOf(in.GetRule(), tenant)
		if err == nil {
			err = s.Replace(ctx, rule)
		}
		return inProto(err)
	})
}

// Delete implements universe.WorkloadRuleServiceServer.
func (r *rules) Delete(ctx context.Context, in *universe.DeleteRequest) (*universe.DeleteResponse, error) {
	return &universe.DeleteResponse{}, r.pass(ctx, door.Delete, in.GetId(), func(ctx context.Context, s door.Service, tenant domain.Key) error {
		key, err := ruleKey(in.GetId(), tenant)
		if err != nil {
			return err
		}
		return s.Delete(ctx, domain.WorkloadRules, key)
	})
}

// Get implements universe.WorkloadRuleServiceServer.
func (r *rules) Get(ctx context.Context, in *universe.GetRequest) (*universe.GetResponse, error) {
	answer := &universe.GetResponse{}
	return answer, r.pass(ctx, door.Get, in.GetId(), func(ctx context.Context, s door.Service, tenant domain.Key) error {
		key, err := ruleKey(in.GetId(), tenant)
		if err != nil {
			return err
		}
		o, err := s.Get(ctx, domain.WorkloadRules, key)
		if err == nil {
			answer.Rule = protoOf(domain.RuleOf(o))
		}
		return err
	})
}

// List implements universe.WorkloadRuleServiceServer.
func (r *rules) List(ctx context.Context, _ *universe.ListRequest) (*universe.ListResponse, error) {
	answer := &universe.ListResponse{}
	return answer, r.pass(ctx, door.List, "", func(ctx context.Context, s door.Service, tenant domain.Key) error {
		list, err := s.List(ctx, domain.WorkloadRules, tenant)
		for _, o := range list {
			answer.Rules = append(answer.Rules, protoOf(domain.RuleOf(o)))
		}
		return err
	})
}

// ruleKey is the key of a rule by its id. An id that no rule can have is NotFound: it must not reach a key.
func ruleKey(id string, tenant domain.Key) (domain.Key, error) {
	switch {
	case id == "":
		return "", missing("id")
	case !domain.IsSubdomain(id):
		return "", fail.New(fail.NotFound, "workload rule %q not found", id)
	default:
		return tenant.Child(domain.WorkloadRules.Collection, id), nil
	}
}

// missing says that a member is required.
func missing(path string) error {
	var p fail.Problems
	p.Add(path, "is required")
	return p.Err()
}

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

// protoOf is the opposite of RuleOf.
func protoOf(rule *domain.WorkloadRule) *universe.Rule {
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

// inProto gives the members that an error names the names that they have in the protocol:
// rule.data.workload_terms[0].match_expressions[1].values.
func inProto(err error) error {
	fields := fail.FieldsOf(err)
	if len(fields) == 0 {
		return err
	}
	named := make([]fail.Field, len(fields))
	for i, f := range fields {
		named[i] = fail.Field{Path: protoPath(f.Path), Message: f.Message}
	}
	return &fail.Error{Kind: fail.KindOf(err), Message: fail.MessageOf(err), Fields: named, Cause: err}
}

// protoPath turns the path of a member in REST into that in the protocol; what is in the template keeps its names.
func protoPath(path string) string {
	if path == "metadata.name" {
		return "rule.id"
	}
	member, isData := strings.CutPrefix(path, "spec.")
	if !isData {
		return path
	}
	const template = "ruleTemplate"
	inside := ""
	if rest, ok := strings.CutPrefix(member, template); ok {
		member, inside = template, rest
	}
	var b strings.Builder
	b.WriteString("rule.data.")
	for _, r := range member {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String() + inside
}
