// Package match decides what the rules of a tenant want for its workloads: whether a rule is one (Compile), whether it matches
// a workload and why not (Rule.Matches, Rule.Explain), which object is to be made where (Rule.Resource), and which records have
// to change for that (Pairs, Wanted, Diff). All are functions from values to values.
//
// The way of a change, for those who act on it:
//
//	rules, hosts, tenant → Compile → []*Rule ┐
//	                     workloads ──┴→ Pairs → Wanted → []domain.Match ┐
//	                                                          records ──┴→ Diff → writes of records, marked due
//	a record that is due → Rule.Resource → the object, whose hashes are compared with what was made
package match

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/nearest"
)

// Rule is a rule that may be stored, ready to be asked. It does not change, and may be used by several at a time.
type Rule struct {
	key        domain.Key // of the rule's document
	id         string
	tenant     string // "" for the operator's
	policy     domain.DPUSelectionPolicy
	terms      [][]expression
	injections []injection
	template   template
}

type expression struct {
	domain.MatchExpression
	key    Key
	sorted []string // its values, where they are many; nil else
}

// manyValues is from how many values on they are looked through in their order.
const manyValues = 8

// expressionOf makes one ready: a value is looked for among its values for each workload.
func expressionOf(e domain.MatchExpression, key Key) expression {
	x := expression{MatchExpression: e, key: key}
	if len(e.Values) >= manyValues {
		x.sorted = slices.Sorted(slices.Values(e.Values))
	}
	return x
}

// has says whether a text is one of its values.
func (e *expression) has(text string) bool {
	if e.sorted == nil {
		return slices.Contains(e.Values, text)
	}
	_, found := slices.BinarySearch(e.sorted, text)
	return found
}

type injection struct {
	key        Key
	annotation string
}

// Compile checks a rule as a tenant's, and makes it ready. The tenant is the one that the rule is below (rule.Parent); a rule
// without a parent is the operator's own: t is nil then, its template may be of any kind, and has all rights.
//
// The error is Invalid and names every member at fault by its path in REST, such as
// spec.workloadTerms[0].matchExpressions[1].values.
func Compile(t *domain.Tenant, rule *domain.WorkloadRule) (*Rule, error) {
	c := compiler{rule: rule, tenant: t}
	r := c.compile()
	if err := c.problems.Err(); err != nil {
		return nil, err
	}
	return r, nil
}

// ValidateRule is Compile for who only wants to know.
func ValidateRule(t *domain.Tenant, rule *domain.WorkloadRule) error {
	_, err := Compile(t, rule)
	return err
}

// AcceptRule is ValidateRule for a rule that is written: it may not be larger than limits.RuleExpressions and those beside it say, either. One
// that was stored before there were such bounds is a rule all the same: did it match nothing any more, all that it has made would go.
func AcceptRule(t *domain.Tenant, rule *domain.WorkloadRule) error {
	c := compiler{rule: rule, tenant: t, written: true}
	c.compile()
	return c.problems.Err()
}

// Unambiguous refuses a template that is decoded to something else than was sent. It is for rules that are written: one that was stored
// before is made as it was decoded then.
func Unambiguous(rule *domain.WorkloadRule) error {
	var p fail.Problems
	data := rule.Spec.RuleTemplate
	within := func(path string) string { return strings.TrimSuffix(inTemplate+"."+path, ".") }
	if !utf8.Valid(data) {
		p.Add(inTemplate, "is not UTF-8")
		return p.Err()
	}
	if path, half, found := nearest.Half(data); found {
		p.Add(within(path), "%s is half of a surrogate pair, and no text; send the character itself, or both halves", half)
	} else if path, _, found := nearest.Twice(map[string]any{}, data); found {
		p.Add(within(path), "is there twice")
	}
	return p.Err()
}

// CompileAll makes those rules ready that may be stored; the others match nothing, and Compile says why.
func CompileAll(t *domain.Tenant, rules []*domain.WorkloadRule) []*Rule {
	compiled := make([]*Rule, 0, len(rules))
	for _, rule := range rules {
		of := t
		if rule.Operators() {
			of = nil
		}
		if r, err := Compile(of, rule); err == nil {
			compiled = append(compiled, r)
		}
	}
	return compiled
}

// Key is that of the rule's document: domain.Match.Rule.
func (r *Rule) Key() domain.Key { return r.key }

// Matches says whether the rule applies to a workload: it is of the rule's tenant, orchestrator and type, and as one of the
// rule's terms says.
func (r *Rule) Matches(w *domain.Workload) bool {
	seen := views{of: w}
	return r.matches(&seen)
}

// views are those of a workload that rules have asked for, of which each is made once.
type views struct {
	of                *domain.Workload
	tenant, operators View
}

func (v *views) by(r *Rule) View {
	view := &v.tenant
	if r.tenant == "" {
		view = &v.operators
	}
	if view.root == nil {
		*view = ViewOf(v.of, r.tenant == "")
	}
	return *view
}

func (r *Rule) matches(seen *views) bool { return r.gate(seen.of) == "" && r.asked(seen.by(r)) }

// gate says why the terms are not even looked at; "" when they are.
func (r *Rule) gate(w *domain.Workload) string {
	switch {
	case r.tenant != "" && w.Tenant != r.tenant:
		return "it is a workload of another tenant"
	case w.Orchestrator != domain.Kubernetes:
		return "its orchestrator is not kubernetes"
	case w.ResourceType != domain.KindPod:
		return "its type is not " + domain.KindPod
	default:
		return ""
	}
}

func (r *Rule) asked(v View) bool {
	return slices.ContainsFunc(r.terms, func(term []expression) bool {
		for i := range term {
			if e := &term[i]; !e.holds(v.At(e.key)) {
				return false
			}
		}
		return true
	})
}

// Explanation says why a rule applies to a workload, or why not.
type Explanation struct {
	Matches bool   `json:"matches"`         // whether the rule applies
	Why     string `json:"why,omitempty"`   // why the terms were not looked at, "" when they were
	Terms   []Term `json:"terms,omitempty"` // each term of the rule, in its order
}

// Term is a term of a rule and what it says of a workload.
type Term struct {
	Holds       bool   `json:"holds"`       // whether all of its expressions do
	Expressions []Seen `json:"expressions"` // in the order of the rule
}

// Seen is an expression with the value that it saw.
type Seen struct {
	Key       string                `json:"key"`              // where the value is
	Operation domain.MatchOperation `json:"operation"`        // what is asked of it
	Values    []string              `json:"values,omitempty"` // as the rule has them
	Holds     bool                  `json:"holds"`            // the answer
	Absent    bool                  `json:"absent,omitempty"` // there is no such value
	Value     string                `json:"value,omitempty"`  // the value; a map as JSON; cut after 256 bytes
}

// maxSeen bounds a value in an explanation, in bytes.
const maxSeen = 256

// Explain says of every expression of the rule what it saw.
func (r *Rule) Explain(w *domain.Workload) Explanation {
	x := Explanation{Why: r.gate(w)}
	if x.Why != "" {
		return x
	}
	view := ViewOf(w, r.tenant == "")
	for _, term := range r.terms {
		t := Term{Holds: true}
		for i := range term {
			e := &term[i]
			v := view.At(e.key)
			s := Seen{Key: e.Key, Operation: e.Operation, Values: e.Values, Holds: e.holds(v), Absent: !v.Present}
			if s.Value = v.String(); len(s.Value) > maxSeen {
				s.Value = string(bytes.ToValidUTF8([]byte(s.Value[:maxSeen]), nil)) + "..."
			}
			t.Holds = t.Holds && s.Holds
			t.Expressions = append(t.Expressions, s)
		}
		x.Matches = x.Matches || t.Holds
		x.Terms = append(x.Terms, t)
	}
	return x
}

// Want is the match of a rule and a workload that it applies to: its identity and what is wanted. Nothing else is set. The
// object is what Resource makes, nil where nothing is to be made.
func (r *Rule) Want(t *domain.Tenant, hosts []*domain.Host, w *domain.Workload) (domain.Match, *Resource) {
	wanted := domain.Wanted{Cluster: t.ClusterName()}
	object, reason := r.Resource(t, hosts, w)
	if reason != nil {
		wanted.Without, wanted.Failed = reason.Text, reason.Failed
	} else {
		wanted.Spec, wanted.Annotations = object.Spec, object.Annotations
	}
	return domain.Match{Tenant: t.Name, Rule: r.key, Workload: w.ID, Wanted: &wanted}, object
}

// Pair is a rule and a workload that it applies to. It is small: there may be as many as rules times workloads.
type Pair struct {
	rule     *Rule
	workload *domain.Workload
}

// Rule is the key of the rule's document.
func (p Pair) Rule() domain.Key { return p.rule.key }

// ID is that of the match of a tenant.
func (p Pair) ID(tenant string) string { return domain.MatchID(tenant, p.rule.key, p.workload.ID) }

// Pairs are all of rules and workloads of a tenant, by workload, then by rule as they are given. What they want is not known yet, which takes much longer: who does not
// want them all leaves some out before. over is asked now and then whether anybody waits for them; its error is why not.
func Pairs(over func() error, rules []*Rule, workloads []*domain.Workload) (all []Pair, err error) {
	for _, w := range workloads {
		if err := over(); err != nil {
			return nil, err
		}
		seen := views{of: w}
		for _, r := range rules {
			if r.matches(&seen) {
				all = append(all, Pair{r, w})
			}
		}
	}
	return all, nil
}

// Wanted are the matches of pairs that there are to be, in their order. over is as for Pairs.
func Wanted(over func() error, t *domain.Tenant, hosts []*domain.Host, pairs []Pair) ([]domain.Match, error) {
	wanted := make([]domain.Match, 0, len(pairs))
	for _, p := range pairs {
		if err := over(); err != nil {
			return nil, err
		}
		m, _ := p.rule.Want(t, hosts, p.workload)
		wanted = append(wanted, m)
	}
	return wanted, nil
}

// marshal is compact JSON with sorted keys, and without HTML's escapes.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
