package readiness

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/expression"
	"github.com/drover-io/drover/internal/fail"
)

// deadline is how long one evaluation may take.
var deadline = expression.Deadline

// Rule says when the objects of a kind are ready.
type Rule struct {
	Name    string // by which errors and messages call it
	Group   string // "" for the core group
	Version string // "" for every version that has no rule of its own
	Kind    string
	// Ready is CEL over the variable object, the object as it was received, and must be of type bool;
	// the string extensions and optionals (object.?status.?phase.orValue("")) are there.
	Ready string
	// Message is CEL of type string that says why an object is not ready; "" for none.
	Message string
}

func (r *Rule) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}

// Check compiles the expressions of a rule. The error is Invalid and has a field, spec.ready or spec.message,
// for every fault: where in the expression it is and what it is.
func Check(r Rule) error {
	var problems fail.Problems
	_, faults := compile(r.Ready, cel.BoolType)
	for _, fault := range faults {
		problems.Add("spec.ready", "%s", fault)
	}
	if r.Message != "" {
		_, faults := compile(r.Message, cel.StringType)
		for _, fault := range faults {
			problems.Add("spec.message", "%s", fault)
		}
	}
	return problems.Err()
}

// Rules judges objects by users' rules where there are any, else as Of does. It may be used by many
// goroutines at once; nil has no rules.
type Rules struct {
	programs map[schema.GroupVersionKind]*program
}

// program is a rule, compiled.
type program struct {
	name           string
	ready, message *expression.Program // message is nil where there is none
	fault          string              // why ready cannot be evaluated; "" when it can
}

// Compile prepares rules that Check has let pass. What does not compile any more, after an upgrade say, finds
// every object NotReady; of rules for one kind the first counts.
func Compile(rules ...Rule) *Rules {
	compiled := &Rules{programs: make(map[schema.GroupVersionKind]*program, len(rules))}
	for _, r := range rules {
		if compiled.programs[r.gvk()] != nil {
			continue
		}
		p := &program{name: r.Name}
		var faults []string
		if p.ready, faults = compile(r.Ready, cel.BoolType); faults != nil {
			p.fault = strings.Join(faults, "; ")
		}
		if r.Message != "" {
			p.message, _ = compile(r.Message, cel.StringType) // one that does not compile is left out
		}
		compiled.programs[r.gvk()] = p
	}
	return compiled
}

// Has says whether a rule of a user is about the kind.
func (r *Rules) Has(gvk schema.GroupVersionKind) bool {
	return r.find(gvk) != nil
}

// Of judges an object by the rule for its kind, and as the package's Of does where there is none. A rule
// is not asked about an object that is being deleted or whose status is of an earlier generation: those
// are NotReady. So is what a rule cannot be evaluated for, say for want of a member; the message says why.
func (r *Rules) Of(gvk schema.GroupVersionKind, object map[string]any) State {
	p := r.find(gvk)
	if p == nil || object == nil {
		return Of(gvk, object)
	}
	u := typed(gvk, object)
	if lacking := stale(u); lacking != "" {
		return notReady(lacking)
	}
	if why := p.lacks(u.Object); why != "" {
		return notReady("rule " + p.name + ": " + why)
	}
	return State{Status: Ready}
}

// OfJSON is Of for an object that is not decoded yet; what is not an object in JSON is NotReady.
func (r *Rules) OfJSON(gvk schema.GroupVersionKind, data json.RawMessage) State {
	object, err := Decode(data)
	if err != nil {
		return notReady("cannot be read: " + err.Error())
	}
	return r.Of(gvk, object)
}

// find is the rule for a kind, nil where there is none.
func (r *Rules) find(gvk schema.GroupVersionKind) *program {
	if r == nil {
		return nil
	}
	if p := r.programs[gvk]; p != nil {
		return p
	}
	gvk.Version = ""
	return r.programs[gvk]
}

// stale says why a status of an object is not worth looking at, "" when it is.
func stale(u *unstructured.Unstructured) string {
	if u.GetDeletionTimestamp() != nil {
		return "being deleted"
	}
	value, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", "observedGeneration")
	if seen, ok := generation(value); ok && u.GetGeneration() != 0 && seen != u.GetGeneration() {
		return fmt.Sprintf("generation is %d, status is of %d", u.GetGeneration(), seen)
	}
	return ""
}

// lacks says why an object is not ready, "" when it is.
func (p *program) lacks(object map[string]any) string {
	if p.fault != "" {
		return p.fault
	}
	ready, err := evaluate[bool](p.ready, object)
	switch {
	case err != nil:
		return oneLine(err.Error())
	case ready:
		return ""
	case p.message != nil:
		if message, err := evaluate[string](p.message, object); err == nil && strings.TrimSpace(message) != "" {
			return oneLine(message)
		}
	}
	return "not fulfilled"
}

func evaluate[T bool | string](p *expression.Program, object map[string]any) (result T, err error) {
	v, err := p.Eval(deadline, map[string]any{"object": object})
	if err != nil {
		return result, err
	}
	result, ok := v.Value().(T)
	if !ok {
		return result, fmt.Errorf("is %s, not %T", v.Type().TypeName(), result)
	}
	return result, nil
}

func oneLine(text string) string { return expression.OneLine(text, expression.MaxMessage) }

// environment is what expressions may use.
var environment = expression.NewEnvironment(cel.Variable("object", cel.MapType(cel.StringType, cel.DynType)))

// compile returns a program whose result is of a type, or what is wrong with the expression.
func compile(text string, result *cel.Type) (*expression.Program, []string) {
	ast, faults := environment.Compile(text)
	if faults != nil {
		lines := make([]string, 0, len(faults))
		for _, f := range faults {
			lines = append(lines, f.String())
		}
		return nil, lines
	}
	if is := ast.OutputType(); !is.IsExactType(result) {
		return nil, []string{fmt.Sprintf("is of type %s, not %s; %s", is, result, cast[result])}
	}
	p, err := environment.Program(ast)
	if err != nil {
		return nil, []string{err.Error()}
	}
	return p, nil
}

// cast says how to come to a type.
var cast = map[*cel.Type]string{
	cel.BoolType:   "compare it with something, as in object.status.ready == true",
	cel.StringType: "convert it, as in string(object.status.reason)",
}
