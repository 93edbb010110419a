package rpc

import (
	"context"
	"strings"
	"unicode"

	"google.golang.org/protobuf/proto"

	"github.com/drover-io/drover/internal/convey"
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
	tenant := caller(ctx).tenant
	asked := &door.Request{Verb: verb, Noun: domain.WorkloadRules, Parent: tenant, Name: cut(id, domain.MaxSubdomain)} // no id is longer, and it is logged
	err := r.door.Pass(ctx, asked, func(ctx context.Context, s door.Service) error {
		if err := known(ctx, s, tenant); err != nil {
			return err
		}
		return work(ctx, s, tenant)
	})
	return ours(ctx, err)
}

// Create implements universe.WorkloadRuleServiceServer.
func (r *rules) Create(ctx context.Context, in *universe.CreateRequest) (*universe.CreateResponse, error) {
	return &universe.CreateResponse{}, r.pass(ctx, door.Create, in.GetRule().GetId(), func(ctx context.Context, s door.Service, tenant domain.Key) error {
		rule, err := convey.RuleOf(in.GetRule(), tenant)
		if err == nil {
			err = s.Create(ctx, rule)
		}
		return inProto(err)
	})
}

// Update implements universe.WorkloadRuleServiceServer. What the protocol has no member for, as a description that came by REST, stays.
func (r *rules) Update(ctx context.Context, in *universe.UpdateRequest) (*universe.UpdateResponse, error) {
	return &universe.UpdateResponse{}, r.pass(ctx, door.Put, in.GetRule().GetId(), func(ctx context.Context, s door.Service, tenant domain.Key) error {
		rule, err := convey.RuleOf(in.GetRule(), tenant)
		if err != nil {
			return inProto(err)
		}
		return inProto(s.ReplaceWith(ctx, rule, func(old domain.Object) { rule.Metadata = domain.RuleOf(old).Metadata }))
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
			answer.Rule = convey.Rule(domain.RuleOf(o))
		}
		return err
	})
}

// List implements universe.WorkloadRuleServiceServer. How large the answer becomes is not known before the rules are read,
// and of the request nothing is left.
func (r *rules) List(ctx context.Context, _ *universe.ListRequest) (*universe.ListResponse, error) {
	answer, room := &universe.ListResponse{}, caller(ctx).memory.read
	if err := room.have(ctx, answerBytes); err != nil {
		return nil, err
	}
	defer func() { room.keep(2 * int64(proto.Size(answer))) }()
	return answer, r.pass(ctx, door.List, "", func(ctx context.Context, s door.Service, tenant domain.Key) error {
		list, err := s.List(ctx, domain.WorkloadRules, tenant)
		for _, o := range list {
			answer.Rules = append(answer.Rules, convey.Rule(domain.RuleOf(o)))
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
		return "", fail.New(fail.NotFound, "workload rule %q not found", cut(id, maxEcho))
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

// inProto gives the members that an error names the names that they have in the protocol,
// rule.data.workload_terms[0].match_expressions[1].values, and the values that these may have theirs, OPERATION_IN.
func inProto(err error) error {
	fields := fail.FieldsOf(err)
	if len(fields) == 0 {
		return err
	}
	named := make([]fail.Field, len(fields))
	for i, f := range fields {
		named[i] = fail.Field{Path: protoPath(f.Path), Message: protoMessage(f.Path, f.Message)}
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

// protoMessage turns the words that REST has for the protocol's numbers, in what is wrong with a member, into the protocol's. What
// the client has sent stays as it is: of an operation that is a number, and of values it comes last.
func protoMessage(path, message string) string {
	switch {
	case path == "spec.orchestratorType":
		use, _, _ := strings.Cut(message, string(domain.Kubernetes))
		return use + universe.OrchestratorType_ORCHESTRATOR_TYPE_KUBERNETES.String()
	case strings.HasPrefix(path, "spec.workloadTerms[") && strings.HasSuffix(path, ".operation"):
		said, known, listed := strings.Cut(message, " is none of ")
		if !listed {
			return message
		}
		words := strings.Split(known, ", ")
		for i, w := range words {
			words[i] = convey.OperationName(domain.MatchOperation(w))
		}
		return said + " is none of " + strings.Join(words, ", ")
	case strings.HasPrefix(path, "spec.workloadTerms[") && strings.HasSuffix(path, ".values"):
		word, rest, _ := strings.Cut(message, " ")
		return convey.OperationName(domain.MatchOperation(word)) + " " + rest
	case strings.HasPrefix(path, "spec.ruleTemplate.") && strings.HasSuffix(path, ".nodeName"):
		return strings.ReplaceAll(message, "dpuSelectionPolicy", "dpu_selection_policy")
	default:
		return message
	}
}
