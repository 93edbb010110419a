package match

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
)

// compiler makes a rule and collects what is wrong with it.
type compiler struct {
	rule     *domain.WorkloadRule
	tenant   *domain.Tenant // nil for the operator's
	written  bool           // see AcceptRule
	problems fail.Problems
}

// ourPrefix is what annotations of ours begin with.
const ourPrefix = "drover.io/"

func (c *compiler) compile() *Rule {
	spec := &c.rule.Spec
	r := &Rule{id: c.rule.Name, key: domain.KeyOf(c.rule), tenant: c.rule.Tenant(), policy: spec.DPUSelectionPolicy}
	c.head()
	r.terms = c.terms()
	r.injections = c.injections()
	r.template = c.template()
	return r
}

// head checks what is no list.
func (c *compiler) head() {
	p, spec := &c.problems, &c.rule.Spec
	switch {
	case c.rule.Name == "":
		p.Add("metadata.name", "is required")
	case !domain.IsSubdomain(c.rule.Name):
		p.Add("metadata.name", "must be a DNS-1123 subdomain: at most %d of a-z, 0-9, - and ., no - or . first or last", domain.MaxSubdomain)
	}
	domain.CheckLength(p, "metadata.description", c.rule.Description, 1024)
	domain.CheckLength(p, "metadata.userData1", c.rule.UserData1, 512)
	domain.CheckLength(p, "metadata.userData2", c.rule.UserData2, 512)
	if spec.OrchestratorType != domain.Kubernetes {
		p.Add("spec.orchestratorType", "%q is not supported; use %s", spec.OrchestratorType, domain.Kubernetes)
	}
	if !slices.Contains(domain.WorkloadTypes, spec.ResourceType) {
		p.Add("spec.resourceType", "%q is not supported; use %s", spec.ResourceType, strings.Join(domain.WorkloadTypes, ", "))
	}
	if spec.DPUSelectionPolicy != domain.SameNode && spec.DPUSelectionPolicy != domain.AnyNode {
		p.Add("spec.dpuSelectionPolicy", "%q is none of %s, %s", spec.DPUSelectionPolicy, domain.SameNode, domain.AnyNode)
	}
}

func (c *compiler) terms() [][]expression {
	if len(c.rule.Spec.WorkloadTerms) == 0 {
		c.problems.Add("spec.workloadTerms", "at least one is required: a rule without terms would match nothing")
	}
	if c.written && !c.few() {
		return nil
	}
	terms := make([][]expression, 0, len(c.rule.Spec.WorkloadTerms))
	for i, term := range c.rule.Spec.WorkloadTerms {
		path := fmt.Sprintf("spec.workloadTerms[%d].matchExpressions", i)
		if len(term.MatchExpressions) == 0 {
			c.problems.Add(path, "at least one is required")
		}
		expressions := make([]expression, 0, len(term.MatchExpressions))
		for j, e := range term.MatchExpressions {
			expressions = append(expressions, expressionOf(e, c.expression(fmt.Sprintf("%s[%d]", path, j), e)))
		}
		terms = append(terms, expressions)
	}
	return terms
}

// few says whether there are not too many terms, expressions and values to look at. It looks at none.
func (c *compiler) few() bool {
	expressions, values := 0, 0
	for _, term := range c.rule.Spec.WorkloadTerms {
		expressions += max(1, len(term.MatchExpressions)) // a term without one is wrong, and is named
		for _, e := range term.MatchExpressions {
			values += len(e.Values)
		}
	}
	switch {
	case expressions > limits.RuleExpressions:
		c.problems.Add("spec.workloadTerms", "have %d matchExpressions, of %d at most", expressions, limits.RuleExpressions)
	case values > limits.RuleValues:
		c.problems.Add("spec.workloadTerms", "have %d values, of %d at most", values, limits.RuleValues)
	default:
		return true
	}
	return false
}

// expression checks one, and is its key.
func (c *compiler) expression(path string, e domain.MatchExpression) Key {
	p := &c.problems
	values := path + ".values"
	switch e.Operation {
	case domain.OperationIn, domain.OperationNotIn:
		if len(e.Values) == 0 {
			p.Add(values, "%s needs one or more", e.Operation)
		}
	case domain.OperationExists, domain.OperationDoesNotExist:
		if len(e.Values) != 1 {
			p.Add(values, "%s needs exactly one, whose text is ignored; it may be empty", e.Operation)
		}
	case domain.OperationGt, domain.OperationLt:
		if len(e.Values) != 1 {
			p.Add(values, "%s needs exactly one", e.Operation)
			break
		}
		if _, err := strconv.ParseInt(e.Values[0], 10, 64); err != nil {
			p.Add(values, "%s needs an integer of 64 bits, not %q", e.Operation, e.Values[0])
		}
	case "":
		p.Add(path+".operation", "is required")
	default:
		p.Add(path+".operation", "%q is none of %s, %s, %s, %s, %s, %s", e.Operation, domain.OperationIn, domain.OperationNotIn,
			domain.OperationExists, domain.OperationDoesNotExist, domain.OperationGt, domain.OperationLt)
	}
	return c.key(path+".key", e.Key)
}

func (c *compiler) key(path, text string) Key {
	key, err := ParseKey(text)
	if err != nil {
		c.problems.Add(path, "%q %s", text, err)
	}
	return key
}

func (c *compiler) injections() []injection {
	var all []injection
	if n := len(c.rule.Spec.WorkloadInfoInject); c.written && n > limits.RuleInjections {
		c.problems.Add("spec.workloadInfoInject", "has %d members, of %d at most", n, limits.RuleInjections)
		return nil
	}
	for i, inject := range c.rule.Spec.WorkloadInfoInject {
		path := fmt.Sprintf("spec.workloadInfoInject[%d]", i)
		key := c.key(path+".key", inject.Key)
		if inject.AsAnnotation == nil {
			c.problems.Add(path+".asAnnotation", "is required: it is the only way to inject something")
			continue
		}
		name := inject.AsAnnotation.Name
		path += ".asAnnotation.name"
		// Kubernetes compares the prefixes of annotations without regard to the case of letters.
		switch lower := strings.ToLower(name); {
		case name == "":
			c.problems.Add(path, "is required")
		case len(validation.IsQualifiedName(lower)) > 0:
			c.problems.Add(path, "%q is not the name of an annotation: %s", name, validation.IsQualifiedName(lower)[0])
		case strings.HasPrefix(lower, ourPrefix):
			c.problems.Add(path, "%q is reserved: %s is for what Drover writes itself", name, ourPrefix)
		case slices.ContainsFunc(all, func(other injection) bool { return other.annotation == name }):
			c.problems.Add(path, "%q is there twice", name)
		}
		all = append(all, injection{key, name})
	}
	return all
}
